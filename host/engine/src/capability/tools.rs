//! `cofferdam:host/tools`: calls of other tools. The host makes them ([`NestedCalls`]); this module
//! bounds a list of them and ends a call that has to stop.

use wasmtime::{Result, Trap};

use super::bindings::cofferdam::host::tools::{Changes, Failure, Host, Request, Tool};
use super::context::NestedCalls;
use super::state::CallState;
use crate::call::Stop;
use cofferdam_core::outcome::{DenialCode, LimitCode, Status};

/// The largest number of calls in one list.
const MAX_REQUESTS: usize = 1_000;

/// The largest number of tools that a search returns.
const MAX_TOOLS: usize = 200;

/// The largest number of changed paths that are listed.
const MAX_CHANGES: usize = 1_000;

impl Host for CallState {
    fn call(
        &mut self,
        requests: Vec<Request>,
    ) -> Result<Vec<std::result::Result<String, Failure>>> {
        let Some(nested) = &self.context.nested else {
            return Ok(requests.iter().map(|_| Err(not_granted(self))).collect());
        };
        let made = if requests.len() > MAX_REQUESTS {
            Err(Stop::Limit(LimitCode::NestedCallLimit))
        } else {
            let _elsewhere = self.context.control.elsewhere();
            nested.call(requests, &self.context)
        };
        made.map_err(|stop| {
            self.context.control.note(stop);
            Trap::Interrupt.into()
        })
    }

    fn names(&mut self) -> Result<Vec<String>> {
        Ok(self.nested().map(NestedCalls::names).unwrap_or_default())
    }

    fn search(&mut self, query: String, max: u32) -> Result<Vec<Tool>> {
        let max = usize::try_from(max).map_or(MAX_TOOLS, |max| max.min(MAX_TOOLS));
        Ok(self.nested().map(|nested| nested.search(&query, max)).unwrap_or_default())
    }

    fn get(&mut self, name: String) -> Result<Option<Tool>> {
        Ok(self.nested().and_then(|nested| nested.get(&name)))
    }

    fn changed(&mut self) -> Result<Changes> {
        let (paths, total) = self.context.tree.changed_files(MAX_CHANGES);
        Ok(Changes { paths, total: u32::try_from(total).unwrap_or(u32::MAX) })
    }
}

impl CallState {
    fn nested(&self) -> Option<&dyn NestedCalls> {
        self.context.nested.as_deref()
    }
}

fn not_granted(state: &CallState) -> Failure {
    let plugin = state.context.permissions.plugin();
    Failure {
        outcome: Status::Denied.as_str().to_owned(),
        code: DenialCode::NotGranted.as_str().to_owned(),
        message: format!(
            "the plugin '{plugin}' may not call tools here; a person can grant it by tools = true \
             under [grants.{plugin}] in cofferdam.toml"
        ),
        detail: None,
    }
}
