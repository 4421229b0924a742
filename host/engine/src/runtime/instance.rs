//! One call in an instance of its own.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use wasmtime::component::ResourceTableError;
use wasmtime::{CallHook, Store, Trap, UpdateDeadline};

use super::bindings::cofferdam::tool::types::CallContext;
use super::state::{CallState, Control, Observer};
use super::{Backends, LaneOfPlugin, Prepared, ToolError, Tools};
use crate::agent::Team;
use crate::capability::{Contacts, Http, Programs};
use cofferdam_core::outcome::{FailedCode, HostCode, LimitCode, NO_DESCRIPTOR, lacks_descriptors};
use cofferdam_core::policy::{Capabilities, Files, Limits, OriginSettings, Scope};
use cofferdam_workspace::fair_queue::Client;
use cofferdam_workspace::{Exceeded, Overlay, Workspace};

/// What a call and the backends that it uses have in common.
#[derive(Clone)]
pub struct Surroundings {
    /// Identifies the call in the journal.
    pub id: String,
    /// Where it is stopped; each instance has its own memory.
    pub limits: Limits,
    /// The directory that it works on.
    pub workspace: Arc<Workspace>,
    /// Its tree, with what was changed before and where this call's changes go.
    pub tree: Arc<Overlay>,
    /// Its deadline, and the way to cancel it.
    pub control: Arc<Control>,
    /// Whoever listens.
    pub observer: Arc<dyn Observer>,
    /// What answers its tool when that asks for a linter, a test runner or a builder.
    pub backends: Arc<Backends>,
    /// Runs native programs.
    pub programs: Arc<Programs>,
    /// Sends requests.
    pub http: Arc<Http>,
    /// The agents that tasks can be given to.
    pub team: Arc<Team>,
    /// Whom it asked: where requests were sent, who was given tasks; and what it used.
    pub contacts: Arc<Contacts>,
}

/// What one instance may do.
#[derive(Debug, Clone)]
pub struct Rights {
    /// The plugin's name.
    pub plugin: String,
    /// What it may use.
    pub capabilities: Capabilities,
    /// The paths that it may read.
    pub sight: Scope,
    /// The paths that it may change.
    pub scope: Scope,
    /// Names of the variables that its programs get of the host's own environment.
    pub environment: Vec<String>,
    /// What the operator says of the origins that it may ask.
    pub origins: Vec<OriginSettings>,
}

/// One call of a tool.
#[derive(Clone)]
pub struct CallRequest {
    /// The tool's short name.
    pub tool: String,
    /// The arguments, as JSON text that fits the tool's schema.
    pub args: String,
    /// What the instance may do.
    pub rights: Arc<Rights>,
    /// Whom it is made for.
    pub client: Client,
    /// Everything else.
    pub surroundings: Arc<Surroundings>,
}

/// Why a call was stopped from outside of the plugin's own logic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It exceeded a limit.
    Limit(LimitCode),
    /// Its programs wrote too much, or a disk is full: the code, and what happened.
    Room(HostCode, String),
    /// It crashed, or answered what can't be read.
    Trap(String),
    /// Somebody cancelled it.
    Cancelled,
    /// The host has no free file descriptor.
    Descriptors,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "stopped at the limit {}", limit.as_str()),
            Self::Room(code, message) => write!(f, "{}: {message}", code.as_str()),
            Self::Trap(message) => write!(f, "the plugin crashed: {message}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Descriptors => f.write_str(NO_DESCRIPTOR),
        }
    }
}

/// What a call ended with: JSON text that nobody has checked yet, what the tool failed with, or why
/// it was stopped.
pub type Answer = Result<Result<String, ToolError>, Stop>;

/// What is left of an instance that nobody uses any more. Dropping it wipes its memory and closes its
/// files, which takes a part of the time that a short call does.
pub struct Remains {
    _store: Option<Store<CallState>>,
}

/// Runs one call on this thread, in an instance of its own.
pub fn call(prepared: &Prepared, request: &CallRequest) -> (Answer, Remains) {
    let CallRequest { tool, args, rights, surroundings, .. } = request;
    let context = CallContext {
        call_id: surroundings.id.clone(),
        workspace: surroundings.workspace.name().to_owned(),
        deadline_ms: remaining_ms(&surroundings.control),
        scope: rights.scope.paths().iter().map(ToString::to_string).collect(),
    };
    let ended = in_instance(prepared, rights, surroundings, |store, lane| match lane.tools()? {
        Tools::Json(plugin) => {
            let plugin = plugin.instantiate(&mut *store)?;
            plugin.cofferdam_tool_tools().call_call(store, tool, args, &context)
        }
        Tools::Typed(functions) => functions.call(store, tool, args),
    });
    match ended {
        Ok((answer, store)) => {
            // One that may write has closed its files before what it wrote is committed.
            let only_reads = rights.capabilities.files < Files::Write;
            let remains = Remains { _store: only_reads.then_some(store) };
            (bounded(answer, surroundings), remains)
        }
        Err(stop) => (Err(stop), Remains { _store: None }),
    }
}

/// An answer, if the call may give it.
fn bounded(answer: Result<String, ToolError>, surroundings: &Surroundings) -> Answer {
    // What a call that has to stop is refused, it may report as a failure of its own.
    if let (Err(_), Some(stop)) = (&answer, surroundings.control.stop()) {
        return Err(stop);
    }
    let size = match &answer {
        Ok(output) => output.len(),
        Err(error) => {
            error.message.len() + error.code.len() + error.detail.as_ref().map_or(0, String::len)
        }
    };
    if size > surroundings.limits.output {
        return Err(Stop::Limit(LimitCode::OutputLimit));
    }
    Ok(answer)
}

/// Has something done in an instance of its own, on this thread. Answers with the instance's store.
///
/// # Errors
/// See [`Stop`].
pub(super) fn in_instance<T>(
    prepared: &Prepared,
    rights: &Arc<Rights>,
    surroundings: &Arc<Surroundings>,
    work: impl FnOnce(&mut Store<CallState>, &LaneOfPlugin) -> wasmtime::Result<T>,
) -> Result<(T, Store<CallState>), Stop> {
    if let Some(stop) = surroundings.control.stop() {
        return Err(stop);
    }
    let lane = prepared.lane();
    let _running = lane.engine.run();
    let mut store = Store::new(&lane.engine, CallState::new(rights, surroundings));
    store.data_mut().meter.share(lane.engine.memory());
    store.limiter(|state| &mut state.meter);
    store.set_hostcall_fuel(surroundings.limits.transfer);
    store.call_hook(|mut store, hook| match hook {
        CallHook::CallingHost => store.data_mut().meter.count_host_call(),
        _ => Ok(()),
    });
    // Set before the instance exists: its start functions count as well.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|store| match store.data().control().stop() {
        Some(_) => Ok(UpdateDeadline::Interrupt),
        None => Ok(UpdateDeadline::Continue(1)),
    });
    let done = work(&mut store, lane);
    surroundings.contacts.add_usage(store.data().usage());
    if let Some(stop) = surroundings.control.noted() {
        return Err(stop.clone());
    }
    let done = done.map_err(|error| stop(&error, &store))?;
    // The plugin may not have noticed that a part of what it wrote is missing.
    match store.data().files.exceeded() {
        Some(Exceeded::DiskFull) => {
            let message = surroundings.workspace.is_full(&Errno::NOSPC.into());
            Err(Stop::Room(FailedCode::DiskFull.into(), message))
        }
        Some(Exceeded::Limit(limit)) => Err(Stop::Limit(limit)),
        None => Ok((done, store)),
    }
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
    let message = format!("{error:#}");
    if lacks_descriptors(&message) {
        return Stop::Descriptors;
    }
    // wasmtime has no types for these.
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
