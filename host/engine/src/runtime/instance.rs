//! Runs one call in a fresh instance.

use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use wasmtime::component::ResourceTableError;
use wasmtime::{CallHook, Store, Trap, UpdateDeadline};

use super::concurrent;
use super::prepared::{LaneOfPlugin, Prepared};
use super::typed::Tools;
use crate::call::{Control, Stop};
use crate::capability::wit::tool::types::{self, ToolError};
use crate::capability::{CallContext, CallState, redact, redact_json};
use cofferdam_core::outcome::{FailedCode, LimitCode, lacks_descriptors};
use cofferdam_core::policy::Files;
use cofferdam_workspace::Exceeded;
use cofferdam_workspace::fair_queue::Client;

/// A request to call a tool.
#[derive(Clone)]
pub struct CallRequest {
    /// The tool's short name.
    pub tool: String,
    /// The arguments, as JSON text that fits the tool's schema.
    pub args: String,
    /// The client of the call.
    pub client: Client,
    /// The context of the call.
    pub context: Arc<CallContext>,
}

/// The result of a call: unchecked JSON text, the tool's error, or the reason why it was stopped.
pub type Answer = Result<Result<String, ToolError>, Stop>;

/// An instance whose call has ended. Dropping it clears its memory and closes its files, which
/// takes a considerable part of a short call.
pub struct SpentInstance {
    _store: Option<Store<CallState>>,
}

/// Runs one call on this thread, in a fresh instance. A call of WASI 0.3 that another one makes runs
/// on a thread of its own.
pub fn call(prepared: &Prepared, request: &CallRequest) -> (Answer, SpentInstance) {
    if !prepared.is_concurrent() {
        return call_here(prepared, request);
    }
    concurrent::apart(|| call_here(prepared, request)).unwrap_or_else(|error| {
        let stop = Stop::Trap(format!("there is no thread for the call: {error}"));
        (Err(stop), SpentInstance { _store: None })
    })
}

fn call_here(prepared: &Prepared, request: &CallRequest) -> (Answer, SpentInstance) {
    let CallRequest { tool, args, context, .. } = request;
    let given = types::CallContext {
        call_id: context.id.clone(),
        workspace: context.services.workspace.name().to_owned(),
        deadline_ms: remaining_ms(&context.control),
        scope: context.permissions.scope.paths().iter().map(ToString::to_string).collect(),
    };
    let ended = in_instance(prepared, context, |store, lane| match lane.tools()? {
        Tools::Json(plugin) if lane.engine.is_concurrent() => {
            concurrent::call_with_json(store, plugin.instance_pre(), (tool, args, &given))
        }
        Tools::Json(plugin) => {
            let plugin = plugin.instantiate(&mut *store)?;
            plugin.cofferdam_tool_tools().call_call(store, tool, args, &given)
        }
        Tools::Typed(functions) => functions.call(store, tool, args),
        Tools::Act(component) => component.call(store, tool, args),
    });
    match ended {
        Ok((answer, store)) => {
            // An instance that may write closes its files now, before they are committed.
            let only_reads = context.permissions.capabilities.files < Files::Write;
            let spent = SpentInstance { _store: only_reads.then_some(store) };
            (bounded(redacted(answer, context), context), spent)
        }
        Err(stop) => (Err(stop), SpentInstance { _store: None }),
    }
}

/// Redacts the values of the plugin's configuration in a response.
fn redacted(answer: Result<String, ToolError>, context: &CallContext) -> Result<String, ToolError> {
    let hidden = context.hidden();
    if hidden.is_empty() {
        return answer;
    }
    let clean = |text: &String| redact(&hidden, text);
    answer.map(|output| redact_json(&hidden, &output)).map_err(|error| ToolError {
        code: clean(&error.code),
        message: clean(&error.message),
        detail: error.detail.as_ref().map(|detail| redact_json(&hidden, detail)),
        ..error
    })
}

/// Checks the size of a response, and whether the call was stopped.
fn bounded(answer: Result<String, ToolError>, context: &CallContext) -> Answer {
    // A call that has to stop may report the host's error as its own failure.
    if let (Err(_), Some(stop)) = (&answer, context.control.stop()) {
        return Err(stop);
    }
    let size = match &answer {
        Ok(output) => output.len(),
        Err(error) => {
            error.message.len() + error.code.len() + error.detail.as_ref().map_or(0, String::len)
        }
    };
    if size > context.limits.output {
        return Err(Stop::Limit(LimitCode::OutputLimit));
    }
    Ok(answer)
}

/// Runs `work` in a new instance on this thread; returns its result and the instance's store.
///
/// # Errors
/// See [`Stop`].
pub(super) fn in_instance<T>(
    prepared: &Prepared,
    context: &Arc<CallContext>,
    work: impl FnOnce(&mut Store<CallState>, &LaneOfPlugin) -> wasmtime::Result<T>,
) -> Result<(T, Store<CallState>), Stop> {
    if let Some(stop) = context.control.stop() {
        return Err(stop);
    }
    let lane = prepared.lane();
    let _running = lane.engine.run();
    let mut store = Store::new(&lane.engine, CallState::new(context));
    store.data_mut().meter.share(lane.engine.memory());
    store.limiter(|state| &mut state.meter);
    store.set_hostcall_fuel(context.limits.transfer);
    if lane.engine.is_concurrent() {
        concurrent::limit(&mut store, &context.limits);
    }
    store.call_hook(|mut store, hook| match hook {
        CallHook::CallingHost => store.data_mut().meter.count_host_call(),
        _ => Ok(()),
    });
    // Before instantiation, so that start functions are interrupted as well.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| match store.data().control().stop() {
        Some(_) => Ok(UpdateDeadline::Interrupt),
        None => Ok(UpdateDeadline::Continue(1)),
    });
    let done = work(&mut store, lane);
    context.usage.add_usage(store.data().usage());
    if let Some(stop) = context.control.noted() {
        return Err(stop.clone());
    }
    let done = done.map_err(|error| stop(&error, &store))?;
    // The plugin may have ignored that a write failed.
    match store.data().files.exceeded() {
        Some(Exceeded::DiskFull) => {
            let message = context.services.workspace.is_full(&Errno::NOSPC.into());
            Err(Stop::Ended(FailedCode::DiskFull.into(), message))
        }
        Some(Exceeded::Limit(limit)) => Err(Stop::Limit(limit)),
        None => Ok((done, store)),
    }
}

fn remaining_ms(control: &Control) -> u32 {
    let remaining = control.deadline().saturating_duration_since(Instant::now());
    u32::try_from(remaining.as_millis()).unwrap_or(u32::MAX)
}

/// Determines why an instance ended.
fn stop(error: &wasmtime::Error, store: &Store<CallState>) -> Stop {
    let state = store.data();
    let trap = error.downcast_ref::<Trap>().copied();
    if trap == Some(Trap::Interrupt)
        && let Some(stop) = state.control().stop()
    {
        return stop;
    }
    if let Some(limit) = state.meter.reached() {
        return Stop::Limit(limit);
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return Stop::Limit(LimitCode::HandleLimit);
    }
    let message = state.context.redacted(&format!("{error:#}"));
    if lacks_descriptors(&message) {
        return Stop::Descriptors;
    }
    // wasmtime has no error types for these.
    if message.contains("fuel allocated for hostcalls has been exhausted") {
        return Stop::Limit(LimitCode::TransferLimit);
    }
    if message.contains("store handle limit exceeded") {
        return Stop::Limit(LimitCode::HandleLimit);
    }
    match trap {
        Some(Trap::StackOverflow) => {
            Stop::Trap("its calls nest too deeply (stack overflow)".to_owned())
        }
        Some(trap) => {
            let words = state.messages.stderr_tail();
            Stop::Trap(if words.is_empty() {
                trap.to_string()
            } else {
                format!("{trap}; it said: {words}")
            })
        }
        None => Stop::Trap(state.context.redacted(&error.root_cause().to_string())),
    }
}
