//! Systems without an implementation: the helper refuses to run anything.

use std::io;
use std::path::PathBuf;

use crate::SandboxError;
use crate::wire::{Answer, Request};

/// See [`Helper::current`](crate::Helper::current).
pub(crate) fn own_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// Refuses.
///
/// # Errors
/// The answer can't be given.
pub(crate) fn serve(
    request: Request,
    _input: Vec<u8>,
    answer: impl FnOnce(Result<Answer, SandboxError>) -> io::Result<()>,
) -> io::Result<()> {
    answer(match request {
        Request::Facts => Ok(Answer::Facts { landlock: 0, cgroup: None }),
        Request::Try { .. } | Request::Run { .. } => Err(SandboxError::Unavailable(format!(
            "there is none for {}; it needs Linux",
            std::env::consts::OS
        ))),
    })
}
