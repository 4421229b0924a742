//! Runs a native program in an operating system sandbox, within limits, and says how it ended.
//! Knows nothing of WebAssembly, tools or policies: which program may run, and with what, is
//! decided before.
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
//! The host starts a helper: its own executable once more, which calls [`run_if_helper`] before
//! anything else, so that all that happens between fork and exec happens in a process with one
//! thread. In tier A, the helper starts the first process of a process namespace (`init`), which
//! starts the program; in tier B, it starts the program itself, and orphans become its children.
//! Whoever started the program also watches it, collects its output, and kills what is left. The
//! pipe to the helper stays open during the run; when it closes, because the caller cancelled or
//! the host died, the run is killed.
//!
//! # What bounds memory and processes
//!
//! Few hosts can use control groups: that takes a group of its own that was delegated. RLIMIT_NPROC
//! counts all that the user runs, and nothing of root's. So both are watched, every few
//! milliseconds, and a run that is above a limit is killed: in tier A its namespace at once, in
//! tier B each of its process groups at once. There, a new group waits until the helper has let it
//! through, so all of them are known.
//!
//! Memory is counted in all places: processes, files in memory, System V's memory, shared memory
//! and descriptors. What no count could find is refused. What a program may ask of the kernel is an
//! allow list: [`system_calls`] prints it with the reasons.
//!
//! A program that starts processes faster than they are counted could leave no time for counting:
//! the kernel's scheduler is fair to each session, and in tier A a program makes as many as it
//! likes. But there RLIMIT_NPROC counts what the run's own user namespace holds (since Linux 5.14),
//! and is set to twice the limit. Only where root mounts an overlay, it does not count.
//!
//! # What bounds what is written
//!
//! RLIMIT_FSIZE bounds each file. What directories hold together ([`Command::bounded`], and in tier B
//! the one for temporary files) is watched as well, and so is the free room of their disks
//! ([`Limits::reserve`]). A run can be above a bound by what it writes within some ten milliseconds.
//! Files that were deleted and are still open count; one that is only mapped into memory does not,
//! but for the free room.
#![expect(
    clippy::disallowed_methods,
    reason = "the home of native programs: it starts them, and reads what the system says of them"
)]

#[cfg(target_os = "linux")]
mod capture;
mod command;
mod error;
mod probe;
mod program;
#[cfg(target_os = "linux")]
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

pub use command::{Bounded, Command, Limits, Overlay, Spill, system_paths};
pub use error::SandboxError;
pub use probe::{Cgroup, Probe, Tier};
pub use program::find_program;
pub use report::{Captured, End, Limit, Report, Stream};
pub use run::{Canceller, Helper, Running, Sandbox};
#[cfg(unix)]
pub use usage::{Usage, usage};
pub use worker::{Bounds, WorkError, run_if_worker};

/// Every system call that a program may make and every other one that is known, each with the
/// reason, as a Markdown document: made from the tables of the filter. Empty where there is none.
pub fn system_calls() -> String {
    system::reference()
}

/// Does a helper's work if this process was started as one. An executable that is named as
/// [`Helper`] calls this first of all in `main`, before it starts a thread or opens a file, and
/// returns the status that it gets.
pub fn run_if_helper() -> Option<ExitCode> {
    let helper =
        std::env::args_os().nth(1).is_some_and(|argument| argument == wire::HELPER_ARGUMENT);
    helper.then(|| match help() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE, // The host sees that there is no answer.
    })
}

fn help() -> io::Result<()> {
    let mut stdin = io::stdin().lock();
    let request = wire::read_document(&mut stdin)?;
    let input = match &request {
        wire::Request::Run { stdin: length, .. } => wire::read_bytes(&mut stdin, *length)?,
        wire::Request::Facts | wire::Request::Try { .. } => Vec::new(),
    };
    let piece = |stream, bytes: &[u8]| wire::write_piece(&mut io::stdout().lock(), stream, bytes);
    let answer = |answer| wire::write_answer(&mut io::stdout().lock(), answer);
    system::serve(request, input, piece, answer)
}
