//! The state of one instance: the data of its store.

use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::bindings::cofferdam::backend::parts::Part;
use super::context::CallContext;
use super::files::FileState;
use super::http::HttpState;
use super::messages::Messages;
use super::meter::Meter;
use super::wasi_context;
use crate::call::{Control, Usage};
use cofferdam_workspace::GitCommit;

/// The data of an instance's store, created from the permissions of its call. It decides what the
/// instance may do.
pub struct CallState {
    pub(crate) table: ResourceTable,
    pub(crate) wasi: WasiCtx,
    pub(crate) files: FileState,
    pub(crate) http: HttpState,
    pub(crate) messages: Messages,
    /// What programs leave although they fail; `None`: nothing was named.
    pub(crate) keep_files: Option<Vec<String>>,
    /// The commit to git that is being prepared.
    pub(crate) git_commit: Option<GitCommit>,
    /// The part of a request to a linter that the instance serves.
    pub(crate) part: Part,
    /// How many scanners are open.
    pub(crate) scanners: usize,
    pub(crate) context: Arc<CallContext>,
    pub(crate) meter: Meter,
}

impl CallState {
    /// The state of a new instance with the context `context`.
    pub(crate) fn new(context: &Arc<CallContext>) -> Self {
        let CallContext { id, limits, tree, observer, services, .. } = &**context;
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let observer = Arc::clone(observer);
        let messages = Messages::new(id.clone(), limits.messages, observer, context.hidden());
        Self {
            table,
            wasi: wasi_context::new(&messages),
            files: FileState::new(Arc::clone(&services.workspace), Arc::clone(tree), context),
            http: HttpState::new(context, &messages),
            messages,
            keep_files: None,
            git_commit: None,
            part: Part { index: 0, count: 1 },
            scanners: 0,
            meter: Meter::new(limits),
            context: Arc::clone(context),
        }
    }

    /// What the instance has used so far.
    pub(crate) fn usage(&self) -> Usage {
        let (memory, host_calls) = self.meter.used(&self.context.limits);
        Usage { memory, host_calls, written: self.files.written(), files: self.files.changed() }
    }

    /// The call's deadline and cancellation.
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.context.control
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}
