//! What a plugin wants to find again in a later call, such as an index. It may be gone at any
//! time: a tool without it answers the same, only later.
//!
//! On the machine that develops a plugin nothing is kept.

#[cfg(target_family = "wasm")]
use crate::bindings::cofferdam::host::cache;

pub use crate::bindings::cofferdam::host::cache::Error;

/// What was kept under `key`, by a call that saw the same files.
pub fn get(key: &str) -> Option<Vec<u8>> {
    #[cfg(target_family = "wasm")]
    return cache::get(key);
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = key;
        None
    }
}

/// Keeps a value under `key`, in place of the one before.
///
/// # Errors
/// It is not kept: see [`Error`].
pub fn put(key: &str, value: &[u8]) -> Result<(), Error> {
    #[cfg(target_family = "wasm")]
    return cache::put(key, value);
    #[cfg(not(target_family = "wasm"))]
    Err(Error::Failed(format!("without a host, {} bytes of '{key}' are not kept", value.len())))
}
