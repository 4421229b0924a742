//! Runs functions of components for WASI 0.3 on the thread of their call. While such a function waits,
//! the thread sleeps, and wakes to check whether the call has to stop.
//!
//! wasmtime runs all tasks of an instance in one future, which is polled here. There is no Tokio
//! runtime in between: host functions for WASI 0.2 block, which a thread of Tokio's may not do.

use std::cell::Cell;
use std::io;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use tokio::runtime::Handle;
use wasmtime::component::{Func, Instance, InstancePre, Val};
use wasmtime::{Error, Result, Store, Trap};

use super::engine::CALL_STACK;
use crate::call::Control;
use crate::capability::wit::tool::types::{CallContext, ToolError};
use crate::capability::{CANCEL_POLL, CallState};
use cofferdam_core::policy::Limits;
use cofferdam_plugin::check::TOOLS;

/// How many entries wasmtime's table of tasks, streams and futures may have for each handle: a stream
/// has one for itself and one for each end.
const ENTRIES_PER_HANDLE: usize = 3;

/// Limits the tasks, streams and futures of an instance. Otherwise a plugin could make the host
/// allocate memory for them without end.
pub(super) fn limit(store: &mut Store<CallState>, limits: &Limits) {
    store.set_max_component_handles(limits.handles);
    if let Some(table) = store.concurrent_resource_table() {
        table.set_max_capacity(limits.handles.saturating_mul(ENTRIES_PER_HANDLE));
    }
}

thread_local! {
    /// Whether this thread runs a function of WASI 0.3.
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Resets [`IS_RUNNING`] when it is dropped.
struct Running;

impl Drop for Running {
    fn drop(&mut self) {
        IS_RUNNING.set(false);
    }
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls `work` on this thread until it is done or the call has to stop.
///
/// # Errors
/// Those of `work`; [`Trap::Interrupt`] if the call has to stop.
pub(super) fn run<T>(control: &Control, work: impl Future<Output = Result<T>>) -> Result<T> {
    IS_RUNNING.set(true);
    let _running = Running;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
        if control.stop().is_some() {
            return Err(Trap::Interrupt.into());
        }
        let left = control.deadline().saturating_duration_since(Instant::now());
        thread::park_timeout(left.min(CANCEL_POLL));
    }
}

/// Runs `work` on this thread, or on another one if this thread runs a function of WASI 0.3: wasmtime
/// can't run the tasks of two instances on one thread at a time.
///
/// # Errors
/// The system refuses to start a thread.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if !IS_RUNNING.get() {
        return Ok(work());
    }
    let timers = Handle::try_current().ok();
    thread::scope(|scope| {
        let work = || {
            let _timers = timers.as_ref().map(Handle::enter);
            work()
        };
        let thread = thread::Builder::new().name("cofferdam-nested".to_owned());
        let spawned = thread.stack_size(CALL_STACK).spawn_scoped(scope, work)?;
        Ok(spawned.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Creates an instance.
///
/// # Errors
/// The error that ended it.
pub(super) fn instantiate(
    store: &mut Store<CallState>,
    plugin: &InstancePre<CallState>,
) -> Result<Instance> {
    let control = Arc::clone(store.data().control());
    run(&control, plugin.instantiate_async(store))
}

/// Calls a function, asynchronous or not.
///
/// # Errors
/// The error that ended the instance.
pub(super) fn call(
    store: &mut Store<CallState>,
    function: Func,
    parameters: &[Val],
    results: &mut [Val],
) -> Result<()> {
    let control = Arc::clone(store.data().control());
    run(&control, function.call_async(store, parameters, results))
}

/// Calls a tool in a new instance of a plugin that takes the tool's name and JSON.
///
/// # Errors
/// The error that ended the instance.
pub(super) fn call_with_json(
    store: &mut Store<CallState>,
    plugin: &InstancePre<CallState>,
    arguments: (&str, &str, &CallContext),
) -> Result<Result<String, ToolError>> {
    let instance = instantiate(store, plugin)?;
    let missing = || Error::msg(format!("the component does not export {TOOLS}"));
    let tools = instance.get_export_index(&mut *store, None, TOOLS).ok_or_else(missing)?;
    let call = instance.get_export_index(&mut *store, Some(&tools), "call");
    let call = call.ok_or_else(missing)?;
    let function = instance
        .get_typed_func::<(&str, &str, &CallContext), (Result<String, ToolError>,)>(
            &mut *store,
            &call,
        )?;
    let control = Arc::clone(store.data().control());
    let (answer,) = run(&control, function.call_async(store, arguments))?;
    Ok(answer)
}
