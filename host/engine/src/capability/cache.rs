//! `cofferdam:host/cache`: values that a plugin keeps from call to call. [`cofferdam_workspace`]
//! stores them and limits their size.

use wasmtime::Result;

use super::bindings::cofferdam::host::cache::{Error, Host};
use super::context::CallContext;
use super::state::CallState;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::CacheKind;

/// The maximum length of a key, in bytes.
const MAX_KEY_BYTES: usize = 200;

impl Host for CallState {
    fn get(&mut self, key: String) -> Result<Option<Vec<u8>>> {
        if !self.context.permissions.capabilities.cache || check(&key).is_err() {
            return Ok(None);
        }
        let name = self.name(&key);
        let CallContext { permissions, services, .. } = &*self.context;
        let plugin = permissions.plugin();
        let kept = services.workspace.cached(CacheKind::VALUES, plugin, &name);
        let kept = kept.unwrap_or_else(|error| {
            tracing::debug!("the cache of '{}' can't be read: {error}", plugin);
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
        let CallContext { permissions, services, secrets, .. } = &*self.context;
        let plugin = permissions.plugin();
        if !permissions.capabilities.cache {
            let message = format!("the plugin '{plugin}' may not keep anything (cache = true)");
            return Err(Error::Failed(message));
        }
        check(key)?;
        let most = CacheKind::VALUES.max_file_bytes();
        if value.len() as u64 > most {
            let message = format!("a value has at most {most} bytes, not {}", value.len());
            return Err(Error::Invalid(message));
        }
        if secrets.has_read() {
            // Calls of other sessions would have it without having read the secret.
            return Ok(());
        }
        services
            .workspace
            .store_cached(CacheKind::VALUES, plugin, &self.name(key), value)
            .map_err(|error| Error::Failed(error.to_string()))
    }

    /// The name that a value is stored under. Calls that may read different files do not share
    /// values.
    fn name(&self, key: &str) -> String {
        let permissions = &self.context.permissions;
        let sight = permissions.sight.paths().join("\n");
        let name = format!("{}\n{sight}\n\n{key}", permissions.capabilities.files);
        Digest::of(name.as_bytes()).hex()
    }
}

fn check(key: &str) -> std::result::Result<(), Error> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(Error::Invalid(format!(
            "a key has 1 to {MAX_KEY_BYTES} bytes, not {}",
            key.len()
        )));
    }
    Ok(())
}
