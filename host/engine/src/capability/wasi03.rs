//! The basic interfaces of WASI 0.3, from the same context as those of WASI 0.2 ([`super::wasi`]): clocks,
//! random numbers, and a command line without arguments, environment or input.

use wasmtime::Result;
use wasmtime::component::Linker;
use wasmtime_wasi::p3::{cli, clocks, random};

use super::state::CallState;

pub(super) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    cli::add_to_linker(linker)?;
    clocks::add_to_linker(linker)?;
    random::add_to_linker(linker)
}
