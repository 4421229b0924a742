//! A cache for values that a plugin can reuse in later calls, such as an index. An entry may be
//! removed at any time; a tool must return the same result without it.
//!
//! In native builds (tests of a plugin) nothing is stored.

#[cfg(target_family = "wasm")]
use crate::bindings::cofferdam::host::cache;

pub use crate::bindings::cofferdam::host::cache::Error;

/// The value stored under `key` by a call that saw the same files; `None` if there is none.
pub fn get(key: &str) -> Option<Vec<u8>> {
    #[cfg(target_family = "wasm")]
    return cache::get(key);
    #[cfg(not(target_family = "wasm"))]
    {
        let _ = key;
        None
    }
}

/// Stores a value under `key`, replacing an earlier one.
///
/// # Errors
/// See [`Error`]: the value was not stored.
pub fn put(key: &str, value: &[u8]) -> Result<(), Error> {
    #[cfg(target_family = "wasm")]
    return cache::put(key, value);
    #[cfg(not(target_family = "wasm"))]
    Err(Error::Failed(format!("without a host, {} bytes of '{key}' are not kept", value.len())))
}
