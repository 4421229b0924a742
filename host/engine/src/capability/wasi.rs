//! The basic WASI interfaces: clocks, random numbers, and a command line without arguments,
//! environment or input. Sockets are not served. See [`super::files`] for files and
//! [`super::waiting`] for streams and pollables.

use wasmtime::Result;
use wasmtime::component::Linker;
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, random};
use wasmtime_wasi::random::WasiRandom;

use super::state::CallState;

pub(super) fn add_to_linker(l: &mut Linker<CallState>) -> Result<()> {
    clocks::wall_clock::add_to_linker::<_, WasiClocks>(l, CallState::clocks)?;
    clocks::monotonic_clock::add_to_linker::<_, WasiClocks>(l, CallState::clocks)?;
    random::random::add_to_linker::<_, WasiRandom>(l, |s| s.wasi.random())?;
    random::insecure::add_to_linker::<_, WasiRandom>(l, |s| s.wasi.random())?;
    random::insecure_seed::add_to_linker::<_, WasiRandom>(l, |s| s.wasi.random())?;
    cli::environment::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(l, CallState::cli)?;
    Ok(())
}
