//! What plugins can be given: files, bulk reading, native programs, agents, backends, HTTP, a
//! cache, messages, progress.
//! Everything is linked here, one line each; what a call may really do is decided by its
//! [`CallState`], which was made from its grant.

mod agents;
mod backends;
mod cache;
mod contacts;
mod files;
mod http;
mod messages;
mod process;
mod room;
mod scan;
mod spill;
mod waiting;
mod wasi;

use std::time::Duration;

use wasmtime::Result;
use wasmtime::component::{HasSelf, Linker};

pub use contacts::{Contacts, Usage};
pub(crate) use files::FileState;
pub use http::Http;
pub(crate) use http::HttpState;
pub(crate) use messages::Messages;
pub use process::Programs;
pub use scan::Scanner;
pub(crate) use wasi::context as wasi;

use crate::runtime::{CallState, wit};

/// How often something that waits looks whether its call was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(20);

/// Links everything that the host offers.
pub(crate) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    wasi::add_to_linker(linker)?;
    waiting::add_to_linker(linker)?;
    http::add_to_linker(linker)?;
    files::add_to_linker(linker)?;
    wit::tool::types::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::log::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::progress::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::scan::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    files::add_permissions_to_linker(linker)?;
    wit::host::process::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::agents::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::host::cache::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::types::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::linting::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::testing::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::building::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::linters::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::test_runners::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    wit::backend::builders::add_to_linker::<_, HasSelf<CallState>>(linker, |state| state)?;
    Ok(())
}

impl wit::tool::types::Host for CallState {}
