//! Executes a granted call: loads its plugin, runs the call on a worker thread, and checks the
//! response.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Host;
use super::context::ActiveCall;
use super::flows::not_sent;
use super::paused::pending;
use crate::call::{Control, Stop};
use crate::capability::CallContext;
use crate::dispatch::{self, GrantedCall};
use crate::runtime::{Answer, CallRequest, LoadError, Prepared, blocking};
use cofferdam_core::envelope::drop_parts;
use cofferdam_core::outcome::{Failure, Outcome};
use cofferdam_core::policy::Limits;
use cofferdam_plugin::registry::ToolEntry;
use cofferdam_workspace::Overlay;

impl Host {
    /// Runs a call on a tree, in which its changes are staged, and checks the response. `cancelled`
    /// ends the call early.
    pub(super) async fn execute_call(
        &self,
        active: &ActiveCall<'_>,
        call: GrantedCall,
        tree: &Arc<Overlay>,
        cancelled: impl Future<Output = ()>,
    ) -> Outcome {
        let mut cancelled = pin!(cancelled);
        let prepared = match self.prepared(&call, cancelled.as_mut()).await {
            Ok(prepared) => prepared,
            Err(error) => return Outcome::Failed(dispatch::load_failure(&error)),
        };
        let tool = Arc::clone(call.call().tool());
        let control = Arc::new(control(&call));
        let request = self.request(active, call, tree, control);
        let context = Arc::clone(&request.context);
        active.secrets.begin();
        active.consents.begin();
        active.questions.begin();
        if let Some(progress) = &active.progress {
            active.secrets.add_nested(progress.reads());
        }
        let answer = self.answered(prepared, request, cancelled).await;
        outcome(active, &tool, answer, &context.limits)
    }

    /// The plugin of a call, loaded if necessary.
    async fn prepared(
        &self,
        call: &GrantedCall,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Arc<Prepared>, LoadError> {
        let plugin = &call.call().tool().plugin;
        if let Some(prepared) = self.runtime.prepared(plugin) {
            return prepared;
        }
        let (runtime, plugin) = (Arc::clone(&self.runtime), Arc::clone(plugin));
        let grant = Arc::clone(&call.permissions.grant);
        let wanted = CancellationToken::new();
        let _given_up = wanted.clone().drop_guard();
        // Compiling takes seconds.
        let prepare =
            move || runtime.prepare(&plugin, &grant.capabilities, &|| wanted.is_cancelled());
        tokio::select! {
            prepared = blocking(prepare) => prepared,
            () = cancelled => Err(LoadError::Cancelled),
        }
    }

    /// The request to run a call on `tree`.
    pub(super) fn request(
        &self,
        active: &ActiveCall<'_>,
        call: GrantedCall,
        tree: &Arc<Overlay>,
        control: Arc<Control>,
    ) -> CallRequest {
        let nested = call.calls_tools().then(|| self.nested_calls(active, &call));
        let GrantedCall { valid, permissions, limits, path_argument, .. } = call;
        let options = active.run.options;
        let tool = valid.tool().tool().name.clone();
        let mut args = valid.args;
        if let Some(name) = &path_argument {
            make_absolute(&mut args, name, self.services.workspace.name());
        }
        let context = CallContext {
            id: active.id.clone(),
            permissions,
            tree: Arc::clone(tree),
            control,
            limits,
            usage: Arc::clone(&active.usage),
            observer: Arc::clone(options.observer.as_ref().unwrap_or(&self.shared.observer)),
            session: options.session.clone(),
            secrets: Arc::clone(&active.secrets),
            consents: Arc::clone(&active.consents),
            questions: Arc::clone(&active.questions),
            nested,
            services: Arc::clone(&self.services),
        };
        CallRequest {
            tool,
            args: args.to_string(),
            client: options.client,
            context: Arc::new(context),
        }
    }

    async fn answered(
        &self,
        prepared: Arc<Prepared>,
        request: CallRequest,
        cancelled: Pin<&mut impl Future<Output = ()>>,
    ) -> Answer {
        let control = Arc::clone(&request.context.control);
        let mut running = pin!(self.shared.workers.run(prepared, request));
        tokio::select! {
            biased;
            answer = &mut running => answer,
            () = cancelled => {
                control.cancel();
                if control.withdraw() { Err(Stop::Cancelled) } else { running.await }
            }
        }
    }
}

/// The control of a call that begins now. One that calls other tools has as much time with them as one
/// that runs programs.
fn control(call: &GrantedCall) -> Control {
    match call.calls_tools() {
        true => Control::with_own_time(call.limits.program_call, call.limits.call),
        false => Control::new(call.limits.call),
    }
}

/// Checks what a tool returned.
pub(super) fn outcome(
    active: &ActiveCall<'_>,
    tool: &ToolEntry,
    answer: Answer,
    limits: &Limits,
) -> Outcome {
    // Even if its plugin goes on without what was refused: the user may approve it.
    if let Some(flow) = active.secrets.wanted() {
        return Outcome::Failed(not_sent(&flow, "without the approval of the user"));
    }
    if active.consents.wanted().is_some() || active.questions.wanted().is_some() {
        return Outcome::Failed(pending());
    }
    match answer {
        Ok(Ok(output)) => {
            let mut outcome = dispatch::checked(tool, &output);
            if !active.run.options.parts
                && let Outcome::Executed(answer) = &mut outcome
            {
                drop_parts(&tool.tool().output, answer);
            }
            outcome
        }
        Ok(Err(error)) => {
            Outcome::Failed(with_refused(active, dispatch::tool_failure(tool, error)))
        }
        Err(stop) => Outcome::Failed(with_refused(active, dispatch::stop_failure(&stop, limits))),
    }
}

/// Adds to the message of a failure the origins that its plugin is not granted, and the actions for which it
/// has no consent: most plugins report only that something failed.
fn with_refused(active: &ActiveCall<'_>, mut failure: Failure) -> Failure {
    if let Some(refused) = refused(active) {
        failure.message = format!("{}; {refused}", failure.message);
    }
    failure
}

/// The origins that a call tried to send requests to without a grant, with the settings that grant
/// them, the actions for which its plugins have no consent, and why the user was not asked.
pub(super) fn refused(active: &ActiveCall<'_>) -> Option<String> {
    let line = |(plugin, origins): (String, BTreeSet<String>)| {
        let quoted: Vec<String> = origins.iter().map(|name| format!("\"{name}\"")).collect();
        let names: Vec<String> = origins.into_iter().collect();
        format!(
            "no request was sent to {}, which '{plugin}' is not granted; a person can grant it by \
             http = [{}] under [grants.{plugin}] in cofferdam.toml",
            names.join(", "),
            quoted.join(", ")
        )
    };
    let mut lines: Vec<String> = active.usage.refused().into_iter().map(line).collect();
    lines.extend(active.consents.refused());
    lines.extend(active.questions.unavailable());
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Makes a relative path absolute. Whether the call may access it is checked when it is opened.
fn make_absolute(args: &mut Value, name: &str, workspace: &str) {
    if let Some(Value::String(path)) = args.get_mut(name)
        && !path.starts_with('/')
    {
        *path = format!("{}/{path}", workspace.trim_end_matches('/'));
    }
}
