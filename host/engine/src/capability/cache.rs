//! What a plugin keeps from call to call: under which name, and for whom. Where and how much is
//! [`cofferdam_workspace`]'s business.

use wasmtime::Result;

use crate::runtime::{CallState, wit};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::CacheKind;

use wit::host::cache::{Error, Host};

/// How long a key may be, in bytes.
const KEY: usize = 200;

impl Host for CallState {
    fn get(&mut self, key: String) -> Result<Option<Vec<u8>>> {
        if !self.rights.capabilities.cache || check(&key).is_err() {
            return Ok(None);
        }
        let name = self.name(&key);
        let Self { rights, surroundings, .. } = self;
        let kept = surroundings.workspace.cached(CacheKind::VALUES, &rights.plugin, &name);
        let kept = kept.unwrap_or_else(|error| {
            tracing::debug!("the cache of '{}' can't be read: {error}", rights.plugin);
            None
        });
        Ok(kept.map(|(bytes, _)| bytes))
    }

    fn put(&mut self, key: String, value: Vec<u8>) -> Result<std::result::Result<(), Error>> {
        Ok(self.put_in_cache(&key, &value))
    }
}

impl CallState {
    fn put_in_cache(&mut self, key: &str, value: &[u8]) -> std::result::Result<(), Error> {
        let plugin = &self.rights.plugin;
        if !self.rights.capabilities.cache {
            let message = format!("the plugin '{plugin}' may not keep anything (cache = true)");
            return Err(Error::Failed(message));
        }
        check(key)?;
        let most = CacheKind::VALUES.max_file_bytes();
        if value.len() as u64 > most {
            let message = format!("a value has at most {most} bytes, not {}", value.len());
            return Err(Error::Invalid(message));
        }
        self.surroundings
            .workspace
            .store_cached(CacheKind::VALUES, plugin, &self.name(key), value)
            .map_err(|error| Error::Failed(error.to_string()))
    }

    /// The name of a value. Whoever may read other files does not find what was made from these.
    fn name(&self, key: &str) -> String {
        let sight = self.rights.sight.paths().join("\n");
        let name = format!("{}\n{sight}\n\n{key}", self.rights.capabilities.files);
        Digest::of(name.as_bytes()).hex()
    }
}

fn check(key: &str) -> std::result::Result<(), Error> {
    if key.is_empty() || key.len() > KEY {
        return Err(Error::Invalid(format!("a key has 1 to {KEY} bytes, not {}", key.len())));
    }
    Ok(())
}
