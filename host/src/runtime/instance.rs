//! One call in an instance of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use wasmtime::component::ResourceTableError;
use wasmtime::{CallHook, Store, Trap, UpdateDeadline};

use super::bindings::cofferdam::tool::types::CallContext;
use super::state::{CallState, Control, Observer};
use super::{Prepared, ToolError};
use crate::policy::{Capabilities, Limits, Scope};
use crate::workspace::{Overlay, Workspace};

/// Everything that one call is made of.
#[derive(Clone)]
pub struct CallRequest {
    /// Identifies the call in the journal.
    pub id: String,
    /// The tool's short name.
    pub tool: String,
    /// The arguments, as JSON text that fits the tool's schema.
    pub args: String,
    /// What the instance may use.
    pub capabilities: Capabilities,
    /// The paths that it may touch.
    pub scope: Scope,
    /// Where it is stopped.
    pub limits: Limits,
    /// The directory that it works on.
    pub workspace: Arc<Workspace>,
    /// Its tree, with what was changed before and where this call's changes go.
    pub tree: Arc<Overlay>,
    /// Its deadline, and the way to cancel it.
    pub control: Arc<Control>,
    /// Whoever listens.
    pub observer: Arc<dyn Observer>,
}

/// Why a call was stopped from outside of the plugin's own logic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It reached a limit: the limit's stable name.
    Limit(&'static str),
    /// It crashed, or answered what can't be read.
    Trap(String),
    /// Somebody cancelled it.
    Cancelled,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "stopped at the limit {limit}"),
            Self::Trap(message) => write!(f, "the plugin crashed: {message}"),
            Self::Cancelled => f.write_str("cancelled"),
        }
    }
}

/// Runs one call on this thread and throws the instance away. The answer is JSON text that
/// nobody has checked yet.
///
/// # Errors
/// See [`Stop`].
pub fn call(prepared: &Prepared, request: &CallRequest) -> Result<Result<String, ToolError>, Stop> {
    if let Some(stop) = request.control.stop() {
        return Err(stop);
    }
    let plugin = prepared.lane();
    let mut store = Store::new(plugin.engine(), CallState::new(request));
    store.limiter(|state| &mut state.meter);
    store.set_hostcall_fuel(request.limits.transfer);
    store.call_hook(|mut store, hook| match hook {
        CallHook::CallingHost => store.data_mut().meter.count_host_call(),
        _ => Ok(()),
    });
    // Set before the instance exists: its start functions count as well.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| match store.data().control.stop() {
        Some(_) => Ok(UpdateDeadline::Interrupt),
        None => Ok(UpdateDeadline::Continue(1)),
    });

    let context = CallContext {
        call_id: request.id.clone(),
        workspace: request.workspace.name().to_owned(),
        deadline_ms: remaining_ms(&request.control),
        scope: request.scope.paths().to_vec(),
    };
    let answer = plugin
        .instantiate(&mut store)
        .and_then(|plugin| {
            plugin.cofferdam_tool_tools().call_call(
                &mut store,
                &request.tool,
                &request.args,
                &context,
            )
        })
        .map_err(|error| stop(&error, &store))?;
    // The plugin may not have noticed that a part of what it wrote is missing.
    if let Some(limit) = store.data().files.exceeded() {
        return Err(Stop::Limit(limit));
    }
    // What a call that has to stop is refused, it may report as a failure of its own.
    if let (Err(_), Some(stop)) = (&answer, request.control.stop()) {
        return Err(stop);
    }
    let size = match &answer {
        Ok(output) => output.len(),
        Err(error) => {
            error.message.len() + error.code.len() + error.detail.as_ref().map_or(0, String::len)
        }
    };
    if size > request.limits.output {
        return Err(Stop::Limit("OutputLimit"));
    }
    Ok(answer)
}

fn remaining_ms(control: &Control) -> u32 {
    let remaining = control.deadline().saturating_duration_since(Instant::now());
    u32::try_from(remaining.as_millis()).unwrap_or(u32::MAX)
}

/// Finds out why an instance ended.
fn stop(error: &wasmtime::Error, store: &Store<CallState>) -> Stop {
    let state = store.data();
    let trap = error.downcast_ref::<Trap>().copied();
    if trap == Some(Trap::Interrupt)
        && let Some(stop) = state.control.stop()
    {
        return stop;
    }
    if let Some(limit) = state.meter.reached() {
        return Stop::Limit(limit);
    }
    if matches!(error.downcast_ref(), Some(ResourceTableError::Full)) {
        return Stop::Limit("HandleLimit");
    }
    let message = format!("{error:#}");
    // wasmtime has no types for these.
    if message.contains("fuel allocated for hostcalls has been exhausted") {
        return Stop::Limit("TransferLimit");
    }
    if message.contains("store handle limit exceeded") {
        return Stop::Limit("HandleLimit");
    }
    match trap {
        Some(Trap::StackOverflow) => {
            Stop::Trap("its calls nest too deeply (stack overflow)".to_owned())
        }
        Some(trap) => {
            let words = state.messages.last_words();
            Stop::Trap(if words.is_empty() {
                trap.to_string()
            } else {
                format!("{trap}; it said: {words}")
            })
        }
        None => Stop::Trap(error.root_cause().to_string()),
    }
}
