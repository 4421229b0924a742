//! Runs a native program in a sandbox of the operating system, within limits, and reports how it
//! ended. This crate knows nothing of WebAssembly, tools or policies: the caller decides which
//! program may run and what it may access.
//!
//! ```no_run
//! use cofferdam_sandbox::{Command, End, Helper, Sandbox, SandboxError};
//!
//! fn version() -> Result<End, SandboxError> {
//!     let sandbox = Sandbox::open(Helper::current(), None)?;
//!     let mut command = Command::new("/usr/bin/git", "/usr");
//!     command.arguments.push("--version".to_owned());
//!     Ok(sandbox.start(command)?.wait()?.end)
//! }
//! ```
//!
//! # The processes of a run
//!
//! The host starts a helper: its own executable again, which calls [`run_if_helper`] before
//! anything else, so that a process with one thread does everything between fork and exec. In tier
//! A, the helper starts the first process of a process namespace (`init`), which starts the
//! program; in tier B, the helper starts the program itself and adopts orphans. The process that
//! started the program also supervises it, collects its output, and kills the remaining processes.
//! The pipe to the helper stays open during the run; when it closes, because the caller cancelled
//! or the host died, the run is killed.
//!
//! A helper that is kept ready ([`Helper::kept_ready`]) has made the namespaces of its run in tier A before it
//! has its request. They depend on the owner of the files if it is root: the one of the run before. Such
//! helpers are forked by another process of the executable, since to load it takes longer than to set up a
//! run.
//!
//! In tier A, the host and the supervisor can exchange sockets of the run's loopback interface while it
//! runs ([`Loopback`]): so the host connects programs of several runs, and nothing else reaches them.
//!
//! # What bounds memory and processes
//!
//! Few hosts can use control groups, which requires a delegated group. RLIMIT_NPROC counts all
//! processes of the user, and none of root. So memory and processes are polled every few
//! milliseconds, and a run that exceeds a limit is killed: in tier A by killing its namespace, in
//! tier B by killing each of its process groups. In tier B, a process that creates a group waits
//! until the helper has recorded the group, so all groups are known.
//!
//! Memory is counted in all its forms: processes, files in memory, System V memory, shared memory
//! and descriptors. System calls whose memory can't be counted are refused. An allow-list decides
//! which system calls a program may make: [`system_calls`] prints it with the reasons.
//!
//! A program that starts processes faster than they are counted could starve the supervisor: the
//! kernel's scheduler is fair to each session, and in tier A a program can create any number of
//! sessions. But there RLIMIT_NPROC counts the processes in the run's own user namespace (since
//! Linux 5.14), and is set to twice the limit. It does not count if root mounts an overlay.
//!
//! # What bounds what is written
//!
//! RLIMIT_FSIZE limits each file. The total size of directories ([`Command::bounded`], and in tier
//! B the directory for temporary files) is polled as well, and so is the free space of their disks
//! ([`Limits::reserve`]). A run can exceed a limit by what it writes within some ten milliseconds.
//! Deleted files that are still open count; a deleted file that is only mapped into memory counts
//! only for the free space.
#![expect(
    clippy::disallowed_methods,
    reason = "the only crate that starts native programs; it reads files of the system about them"
)]

#[cfg(target_os = "linux")]
mod capture;
mod command;
mod dns;
mod error;
mod loopback;
mod probe;
mod program;
mod redact;
mod report;
mod run;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(not(target_os = "linux"), path = "other.rs")]
mod system;
#[cfg(unix)]
mod usage;
mod wire;
mod worker;

use std::io;
use std::process::ExitCode;

/// The port of the host's proxy on the loopback interface of a run that has one. Neither a port of a
/// known service nor one that the kernel chooses for clients.
pub const PROXY_PORT: u16 = 24_367;

pub use command::{Bounded, Command, Limits, Overlay, Spill, system_paths};
pub use dns::refuse_question;
pub use error::SandboxError;
pub use loopback::Loopback;
pub use probe::{Cgroup, Probe, Tier};
pub use program::find_program;
pub use redact::Redactor;
pub use report::{Attempt, Captured, End, Limit, Report, Stream};
pub use run::{Canceller, Helper, Running, Sandbox};
#[cfg(unix)]
pub use usage::{Usage, usage};
use wire::Preparation;
pub use worker::{Bounds, WorkError, run_if_worker};

/// Returns all known system calls as a Markdown document generated from the filter's tables: which
/// ones a program may make, each with the reason. Empty where there is no filter.
pub fn system_calls() -> String {
    system::reference()
}

/// Does the work of a helper if this process was started as one. An executable that is used as
/// [`Helper`] calls this first in `main`, before it starts a thread or opens a file, and returns
/// the exit status that it gets.
#[must_use = "a helper that goes on would do the work of the host, and start helpers of its own"]
pub fn run_if_helper() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != wire::HELPER_ARGUMENT {
        return None;
    }
    let preparation = match arguments.next() {
        Some(kind) if kind == wire::FORK_SERVER_ARGUMENT => system::fork_server::serve(),
        _ => Ok(Some(Preparation::Nothing)),
    };
    Some(match preparation.and_then(|preparation| preparation.map_or(Ok(()), help)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE, // The host sees that there is no answer.
    })
}

fn help(preparation: Preparation) -> io::Result<()> {
    let Some(place) = system::begin(preparation).transpose() else { return Ok(()) };
    let mut stdin = io::stdin().lock();
    let request = wire::read_document(&mut stdin)?;
    let input = match &request {
        wire::Request::Run { stdin: length, .. } => wire::read_bytes(&mut stdin, *length)?,
        wire::Request::Facts | wire::Request::Try { .. } => Vec::new(),
    };
    let piece = |stream, bytes: &[u8]| wire::write_piece(&mut io::stdout().lock(), stream, bytes);
    let answer = |answer| wire::write_answer(&mut io::stdout().lock(), answer);
    match place {
        Ok(place) => system::serve(place, request, input, piece, answer),
        Err(error) => answer(Err(error)),
    }
}
