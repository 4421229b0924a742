//! Real programs that try to escape. The test binary is three things: the test runner, the
//! sandbox's helper, and the hostile program itself, so that nothing has to be installed.
//!
//! Everything runs in each tier; if root starts it, everything runs once more as another user. A
//! tier that this system does not offer is reported on standard error, and its refusal is tested.

#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program of its own")]
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "it plays the host, and the program")]

#[cfg(target_os = "linux")]
mod beyond;
#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(target_os = "linux")]
mod held;
#[cfg(target_os = "linux")]
mod hostile;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod worker;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    if let Some(status) = cofferdam_sandbox::run_if_helper() {
        return status;
    }
    if let Some(status) = cofferdam_sandbox::run_if_worker(worker::work) {
        return status;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [hostile::ARGUMENT, _mark, rest @ ..] => {
            hostile::attack(rest);
            ExitCode::SUCCESS
        }
        [support::HOST_ARGUMENT, rest @ ..] => {
            cases::be_a_host(rest);
            ExitCode::SUCCESS
        }
        _ => support::run(cases::all),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    if let Some(status) = cofferdam_sandbox::run_if_helper() {
        return status;
    }
    let error = cofferdam_sandbox::Sandbox::open(cofferdam_sandbox::Helper::current(), None);
    assert!(matches!(error, Err(cofferdam_sandbox::SandboxError::Unavailable(_))), "{error:?}");
    ExitCode::SUCCESS
}
