//! Systems without an implementation: the helper refuses every run.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::loopback::Reply;
use crate::wire::{Answer, Preparation, Request};
use crate::{SandboxError, Stream};

/// Returns the executable for [`Helper::current`](crate::Helper::current).
pub(crate) fn own_executable() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// Returns nothing, since there is no filter.
pub(crate) fn reference() -> String {
    String::new()
}

/// Sets the limits of this process. Other restrictions are not available here.
///
/// # Errors
/// Returns an error if the system refuses a limit.
pub(crate) fn lock_down(memory: u64, cpu_seconds: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    for (resource, most) in [
        (Resource::As, memory),
        (Resource::Cpu, cpu_seconds),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
    ] {
        let most = Some(most.min(getrlimit(resource).maximum.unwrap_or(u64::MAX)));
        let set = setrlimit(resource, Rlimit { current: most, maximum: most });
        // macOS refuses a limit of the address space below what is mapped already.
        if let (Err(error), true) = (set, resource != Resource::As) {
            return Err(error.into());
        }
    }
    Ok(())
}

/// Where a helper reads its request.
pub(crate) struct Place;

/// Begins a helper; there is nothing to prepare.
///
/// # Errors
/// None.
pub(crate) fn begin(_: Preparation) -> Result<Option<Place>, SandboxError> {
    Ok(Some(Place))
}

pub(crate) mod fork_server {
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::os::unix::net::UnixStream;

    use crate::wire::Preparation;

    /// Refuses every request: each helper is started by itself.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn request(
        _: &UnixStream,
        _: Preparation,
        _: [BorrowedFd<'_>; 2],
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Ends at once.
    ///
    /// # Errors
    /// None.
    pub(crate) fn serve() -> io::Result<Option<Preparation>> {
        Ok(None)
    }
}

/// Refuses every request except the one for facts.
///
/// # Errors
/// Returns an error if the answer can't be written.
pub(crate) fn serve(
    _place: Place,
    request: Request,
    _input: Vec<u8>,
    _piece: impl FnMut(Stream, &[u8]) -> io::Result<()>,
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

/// Receives nothing, since there are no runs.
///
/// # Errors
/// Always.
pub(crate) fn receive(_: &UnixStream) -> io::Result<Option<TcpListener>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Receives nothing, since no run exchanges sockets.
///
/// # Errors
/// Always.
pub(crate) fn receive_reply(_: &UnixStream) -> io::Result<Reply> {
    Err(io::ErrorKind::Unsupported.into())
}
