//! What plugins can import: files, bulk reading, native programs, those that are left running, agents,
//! backends, HTTP, a cache, the history of a session, commits to git, calls of other tools, consent,
//! questions to the user, messages, progress.
//!
//! All interfaces are linked here, one line each. What a call may do with them depends on its
//! [`CallState`], which is created from the permissions of the call.

mod agents;
mod backends;
mod background;
mod bindings;
mod cache;
mod command;
mod config;
mod consent;
mod context;
mod files;
mod git_commit;
mod hints;
mod history;
mod http;
mod log;
mod messages;
mod meter;
mod network;
mod process;
mod programs;
mod questions;
mod scan;
mod spill;
mod starts;
mod state;
mod tools;
mod waiting;
mod wasi;
mod wasi03;
mod wasi_context;
mod write_limits;

use std::num::NonZero;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker};

pub(crate) use bindings::cofferdam as wit;
pub(crate) use bindings::{PluginPre, builder, checker, linter, test_runner};
pub use context::{Backends, CallContext, NestedCalls, Services};
pub(crate) use context::{redact, redact_json};
pub use http::Http;
pub(crate) use meter::Memory;
pub use programs::Programs;
pub use state::CallState;

/// How often code that waits checks whether its call was cancelled.
pub(crate) const CANCEL_POLL: Duration = Duration::from_millis(20);

/// The interfaces of ACT that have only types.
const ACT_TYPES: [&str; 3] =
    ["act:core/types@0.4.0", "act:sessions/types@0.2.0", "act:tools/types@0.2.0"];

/// The number of cores that this process may use, determined once: the system reads several files.
pub(crate) fn cores() -> usize {
    static CORES: LazyLock<usize> =
        LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get));
    *CORES
}

/// Links all interfaces of the host.
pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    wasi::add_to_linker(linker)?;
    waiting::add_to_linker(linker)?;
    http::add_to_linker(linker)?;
    config::add_to_linker(linker)?;
    files::add_to_linker(linker)?;
    wit::tool::types::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::log::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::progress::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::scan::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    files::add_permissions_to_linker(linker)?;
    wit::host::process::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::agents::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::background::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::consent::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::questions::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::cache::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::git_commit::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::tools::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::history::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::types::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::linting::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::testing::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::building::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::linters::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::parts::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::test_runners::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::builders::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::checkers::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    Ok(())
}

/// Links the interfaces of WASI 0.3, in a linker of an engine that runs asynchronous functions.
pub(crate) fn add_wasi03_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    wasi03::add_to_linker(linker)?;
    http::add_wasi03_to_linker(linker)?;
    files::add_wasi03_to_linker(linker)?;
    ACT_TYPES.into_iter().try_for_each(|interface| linker.instance(interface).map(drop))
}

impl wit::tool::types::Host for CallState {}
