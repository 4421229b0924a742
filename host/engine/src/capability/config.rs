//! `wasi:config/store`: what the operator's settings have for the plugin under `config` of its grant.
//! Without settings, there are no values.

use wasmtime::component::{HasSelf, Linker};
use wasmtime::{Result, StoreContextMut};

use super::context::CallContext;
use super::state::CallState;
use bindings::wasi::config::store::{self, Error, Host};

mod bindings {
    wasmtime::component::bindgen!({
        inline: "
            package wasi:config@0.2.0-rc.1;
            interface store {
                variant error { upstream(string), io(string) }
                get: func(key: string) -> result<option<string>, error>;
                get-all: func() -> result<list<tuple<string, string>>, error>;
            }
            world imports { import store; }
        ",
        imports: { default: trappable },
    });
}

/// The draft before it, which published components import: the same functions, with another name for the error.
const DRAFT: &str = "wasi:config/store@0.2.0-draft";

pub(super) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    store::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    let mut draft = linker.instance(DRAFT)?;
    draft.func_wrap("get", |mut call: StoreContextMut<'_, CallState>, (key,): (String,)| {
        Ok((call.data_mut().get(key)?,))
    })?;
    draft.func_wrap("get-all", |mut call: StoreContextMut<'_, CallState>, (): ()| {
        Ok((call.data_mut().get_all()?,))
    })
}

impl CallContext {
    /// The value of a key.
    fn setting(&self, key: &str) -> std::result::Result<Option<String>, Error> {
        let found = self.config().find(|(name, _)| *name == key);
        found.map(|(key, value)| value.map_err(|why| missing(key, &why))).transpose()
    }
}

fn missing(key: &str, why: &str) -> Error {
    Error::Io(format!("the setting '{key}' of config in cofferdam.toml {why}"))
}

impl Host for CallState {
    fn get(&mut self, key: String) -> Result<std::result::Result<Option<String>, Error>> {
        Ok(self.context.setting(&key))
    }

    fn get_all(&mut self) -> Result<std::result::Result<Vec<(String, String)>, Error>> {
        let setting = |(key, value): (&str, std::result::Result<String, String>)| match value {
            Ok(value) => Ok((key.to_owned(), value)),
            Err(why) => Err(missing(key, &why)),
        };
        Ok(self.context.config().map(setting).collect())
    }
}
