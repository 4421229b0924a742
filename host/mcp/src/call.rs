//! One call of a tool for a client: its cancellation, its progress, its result.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CreateTaskResult,
    Extensions, ProgressNotificationParam, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::Server;
use super::approval::{ClientApprover, QUESTION};
use super::bodies::Load;
use super::connection::{self, Connection, Request};
use super::offer::Offer;
use super::results::AnsweredCall;
use super::tasks::{self, Admitted, End, Found, Job};
use cofferdam_core::envelope::{Answer, take_parts};
use cofferdam_core::outcome::{DenialCode, Failure, Outcome, Status};
use cofferdam_core::schema::similar;
use cofferdam_engine::call::{Observer, Session};
use cofferdam_engine::dispatch::{Refusal, RefusalCode};
use cofferdam_engine::host::{Approver, Effects, RunOptions};
use cofferdam_engine::runtime::blocking;
use cofferdam_engine::telemetry::{McpRequest, Origin, Parent};
use cofferdam_text::shorten;

/// The maximum number of progress reports that wait for a slow client. Further ones are dropped.
const MAX_WAITING_REPORTS: usize = 64;

/// How long to wait until the last reports are sent, before the result.
const LAST_REPORTS_TIMEOUT: Duration = Duration::from_secs(5);

/// The message if no further call is admitted.
pub(super) const BUSY: &str = "the server has as many calls as it can take; try again later";

impl Server {
    /// Makes a call. What the caller can correct is a result with `isError`; only an unknown tool
    /// is an error of the protocol. The call of a client that knows tasks becomes one if it takes long.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let offer = self.offer();
        let Some(slot) = self.shared.slots.take(connection::client(&context.extensions)) else {
            return Ok(busy(&offer));
        };
        let is_task = self.is_task(&offer, &request.name);
        let knows_tasks = tasks::are_declared(&context);
        let arguments = request.arguments.as_ref().filter(|_| knows_tasks).cloned();
        let call = Arc::new(Admitted { arguments, offer, slot, job: Job::default() });
        match (knows_tasks, is_task) {
            (false, false) => self.perform(&call, request, &context).await,
            (false, true) => Err(tasks::not_declared()),
            (true, false) => self.call_or_task(&call, request, context).await,
            (true, true) => match self.begin_task(&call, &request.name, &context).await {
                Some(task) => {
                    call.job.becomes(&task);
                    let created = CreateTaskResult::new(task.state().task);
                    drop(self.start(&call, request, context));
                    Ok(created.into())
                }
                None => Ok(busy(&call.offer)),
            },
        }
    }

    /// Passes on the answers to questions about a task. A paused call whose server has ended goes on.
    pub(super) async fn answer_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let UpdateTaskParams { task_id, mut input_responses, .. } = request;
        let kept = match self.task(&task_id).await? {
            Found::Here(task) => return task.answer(input_responses),
            Found::Kept(kept) => kept,
        };
        let Some(waiting) = tasks::waiting(&kept) else { return Ok(()) };
        let Some(answer) = waiting.take(&mut input_responses)? else { return Ok(()) };
        let slot = self.shared.slots.take(connection::client(&context.extensions));
        let (offer, job) = (self.offer(), Job::default());
        let slot = slot.ok_or_else(|| ErrorData::internal_error(format!("Busy: {BUSY}"), None))?;
        let arguments = Some(waiting.arguments.clone());
        let call = Arc::new(Admitted { arguments, offer, slot, job });
        let resumed = self.resume_task(&call, &task_id, &waiting, &context).await;
        let Some(task) = resumed else { return Ok(()) };
        call.job.becomes(&task);
        let mut again =
            CallToolRequestParams::new(kept.task.tool).with_arguments(waiting.arguments);
        again.request_state = Some(waiting.state);
        again.input_responses = Some([(QUESTION.to_owned(), answer)].into());
        drop(self.start(&call, again, context));
        Ok(())
    }

    /// Whether calls of a tool are tasks from their beginning.
    fn is_task(&self, offer: &Offer, tool: &str) -> bool {
        let policy = offer.host.policy();
        if !policy.has_tasks() {
            return false;
        }
        let role = offer.host.role(self.role.as_deref()).ok().flatten();
        let entry = offer.host.registry().resolve(tool, role);
        entry.is_ok_and(|entry| {
            let subject = entry.subject();
            policy.is_task(subject.plugin, subject.tool)
        })
    }

    /// Waits for a call for a while; then it becomes a task, if there is room for one.
    async fn call_or_task(
        &self,
        call: &Arc<Admitted>,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool = request.name.to_string();
        let waits = call.job.cancelled.clone().drop_guard();
        let mut ended = self.start(call, request, context.clone());
        let lost = |_| Err(ErrorData::internal_error("the call has no answer", None));
        if let Ok(ended) = tokio::time::timeout(tasks::GRACE, &mut ended).await {
            return ended.unwrap_or_else(lost);
        }
        let asked = Request::of(&context.extensions);
        if !context.ct.is_cancelled()
            && !asked.cancelled.is_cancelled()
            && let Some(task) = self.begin_task(call, &tool, &context).await
        {
            if call.job.becomes(&task) {
                waits.disarm();
                asked.done();
                return Ok(CreateTaskResult::new(task.state().task).into());
            }
            self.discard_task(task).await;
        }
        ended.await.unwrap_or_else(lost)
    }

    /// Starts a call that may become a task. Returns its answer, if it does not become one.
    fn start(
        &self,
        call: &Arc<Admitted>,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> oneshot::Receiver<Result<CallToolResponse, ErrorData>> {
        let (server, call) = (self.clone(), Arc::clone(call));
        let (answer, answered) = oneshot::channel();
        let made = async move {
            let ended = server.perform(&call, request, &context).await;
            match call.job.settle() {
                Some(task) => {
                    let end = match call.job.was_stopped() {
                        true => End::Cancelled,
                        false => End::of(ended),
                    };
                    server.end_task(task, end).await;
                }
                // If the client is gone, the answer is dropped.
                None => drop(answer.send(ended)),
            }
        };
        tokio::spawn(made.in_current_span());
        answered
    }

    /// Makes a call, and returns the answer to its request.
    async fn perform(
        &self,
        call: &Arc<Admitted>,
        mut request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let offer = &call.offer;
        let _held = offer.host.telemetry().map(|telemetry| telemetry.hold());
        let approver = Arc::new(ClientApprover::new(self, call, &mut request, context));
        let tool = request.name.to_string();
        let ended = self.run(call, request, context, &approver).await;
        let was_cancelled = ended.as_ref().is_ok_and(|(answer, _)| is_cancelled(answer));
        if call.slot.is_revoked() && was_cancelled {
            return Ok(busy(offer));
        }
        if let Some(reply) = approver.reply() {
            return reply.map(CallToolResponse::from);
        }
        if was_cancelled {
            call.job.stopped();
        }
        match ended {
            Ok((answer, _)) if call.job.task().is_some() && is_fault(&answer) => Err(fault(answer)),
            Ok((answer, effects)) => {
                Ok(self.result(offer, (&tool, approver.session()), answer, effects).into())
            }
            Err(refusal) => self.refused(&tool, refusal).map(CallToolResponse::from),
        }
    }

    /// Runs a call and relays its progress. Cancels it when its client does not want it any more.
    async fn run(
        &self,
        admitted: &Arc<Admitted>,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        approver: &Arc<ClientApprover>,
    ) -> Result<(Answer, Effects), Refusal> {
        let offer = &admitted.offer;
        let (cancel, cancelled) = watch::channel(false);
        let (progress, progressed) = mpsc::channel(MAX_WAITING_REPORTS);
        let next = Arc::clone(offer.host.observer());
        let options = RunOptions {
            role: self.role.clone(),
            cancel: Some(cancelled),
            observer: Some(Arc::new(Relay { progress, call: Arc::clone(admitted), next })),
            approver: Some(Arc::clone(approver) as Arc<dyn Approver>),
            origin: offer.host.telemetry().map(|_| origin(context)).unwrap_or_default(),
            client: connection::client(&context.extensions),
            client_name: approver.client().map(str::to_owned),
            agent: self.shared.agent.clone(),
            hold: self.shared.hold,
            parts: true,
            ..RunOptions::of(approver.session().clone())
        };
        let open = Request::of(&context.extensions);
        let over = CancellationToken::new();
        let mut relayed = std::pin::pin!(relay(&admitted.job, progressed, &over, context));
        let asked = (&context.ct, &open, approver.connection());
        let mut unwanted = std::pin::pin!(self.unwanted(asked, admitted));
        let ended = {
            let mut call = std::pin::pin!(make(offer, request, options, &context.extensions));
            loop {
                tokio::select! {
                    // Most calls end before anything else has to be waited for.
                    biased;
                    ended = &mut call => break ended,
                    // It continues until `over` is cancelled.
                    () = &mut relayed => {}
                    () = &mut unwanted, if !*cancel.borrow() => {
                        cancel.send_replace(true);
                    }
                }
            }
        };
        over.cancel();
        if !*cancel.borrow() && tokio::time::timeout(LAST_REPORTS_TIMEOUT, relayed).await.is_err() {
            tracing::debug!("a client does not take the progress that it asked for");
        }
        if ended.as_ref().is_ok_and(|(answer, _)| !is_cancelled(answer)) {
            open.done();
        }
        ended
    }

    /// Waits until a call is cancelled by its client, the end of the connection, the server, or a call
    /// of another client.
    async fn unwanted(
        &self,
        (ct, request, connection): (&CancellationToken, &Request, &Connection),
        call: &Admitted,
    ) {
        let by_request = async {
            tokio::select! {
                () = ct.cancelled() => {}
                () = request.cancelled.cancelled() => {}
                () = connection.gone.cancelled() => {}
            }
            // The request of a task is over, however it ends.
            if call.job.task().is_some() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = by_request => {}
            () = call.job.cancelled.cancelled() => {}
            () = self.shared.stopping.cancelled() => {}
            () = call.slot.revoked() => {}
        }
    }

    fn result(
        &self,
        offer: &Offer,
        (tool, session): (&str, &Session),
        answer: Answer,
        effects: Effects,
    ) -> CallToolResult {
        let (results, role) = (&self.shared.results, self.role.as_deref());
        let budget = offer.host.policy().limits().result;
        let call = AnsweredCall { tool, role, budget, session: Some(session) };
        let mut result = match answer.outcome {
            Outcome::Executed(mut output) => {
                let role = offer.host.role(role).ok().flatten();
                let entry = offer.host.registry().resolve(tool, role).ok();
                let parts = entry.map(|entry| take_parts(&entry.tool().output, &mut output));
                results.result(call, output, parts.unwrap_or_default())
            }
            Outcome::Failed(Failure { code, message, detail, .. }) => {
                let nearest = match code.as_str() == DenialCode::ToolNotInRole.as_str() {
                    true => format!(". {}", self.nearest(tool)),
                    false => String::new(),
                };
                results.failure(call, format!("{code}: {message}{nearest}"), detail)
            }
        };
        if !answer.warnings.is_empty() {
            let warnings = answer.warnings.join("\n");
            result.content.push(ContentBlock::text(format!("[Warning: {warnings}]")));
        }
        results.add_outputs(call, &mut result, effects.outputs);
        result
    }

    fn refused(&self, tool: &str, refusal: Refusal) -> Result<CallToolResult, ErrorData> {
        let problems = &refusal.problems;
        if problems.iter().any(|problem| problem.code == RefusalCode::UnknownTool) {
            let message = format!("Unknown tool: {}. {}", shorten(tool, 80), self.nearest(tool));
            return Err(ErrorData::invalid_params(message, None));
        }
        Ok(CallToolResult::error(vec![ContentBlock::text(refusal.feedback)]))
    }

    /// Names the tools of the role that `tool` may have been meant to be.
    fn nearest(&self, tool: &str) -> String {
        let tools = self.tools().unwrap_or_else(|_| Arc::new([]));
        nearest(tool, &tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>())
    }
}

/// Makes a call: one with large arguments on a thread of its own, since to check and to copy them takes
/// a while, and no other client waits for that. It ends when this future is dropped.
async fn make(
    offer: &Arc<Offer>,
    request: CallToolRequestParams,
    options: RunOptions,
    extensions: &Extensions,
) -> Result<(Answer, Effects), Refusal> {
    let (tool, args) = (request.name, request.arguments.unwrap_or_default());
    let Some(load) = Load::of(extensions) else {
        return offer.host.call_parsed(&tool, args, &options).await;
    };
    let (_waiting, gone) = oneshot::channel::<()>();
    let (runtime, offer) = (Handle::current(), Arc::clone(offer));
    let call = async move {
        let args = load.arguments().unwrap_or(args);
        tokio::select! {
            ended = offer.host.call_parsed(&tool, args, &options) => ended,
            _ = gone => Err(Refusal::whole(RefusalCode::InvalidEnvelope, "a client", "none")),
        }
    };
    blocking(move || runtime.block_on(call)).await
}

/// Returns the request of a call and its parent span: that of the message, or else that of the HTTP
/// request.
fn origin(context: &RequestContext<RoleServer>) -> Origin {
    let head = context.extensions.get::<Parts>();
    let header = |name| head?.headers.get(name)?.to_str().ok();
    let (meta, http) = (
        (context.meta.get_traceparent(), context.meta.get_tracestate()),
        (header("traceparent"), header("tracestate")),
    );
    let parent = [meta, http].into_iter().find_map(|(parent, state)| {
        let parent: Parent = parent?.parse().ok()?;
        Some(parent.with_state(state))
    });
    let request = McpRequest {
        id: context.id.to_string(),
        revision: context.protocol_version().map(|version| version.as_str().to_owned()),
        http: head.is_some(),
    };
    Origin { parent, request: Some(request) }
}

/// A progress report: done, total, message.
type Report = (u64, Option<u64>, String);

/// Passes a call's progress to its client.
struct Relay {
    progress: mpsc::Sender<Report>,
    call: Arc<Admitted>,
    next: Arc<dyn Observer>,
}

impl Observer for Relay {
    fn started(&self) {
        self.next.started();
        self.call.slot.runs();
    }

    fn message(&self, call: &str, level: tracing::Level, message: &str) {
        self.next.message(call, level, message);
    }

    fn progress(&self, call: &str, done: u64, total: Option<u64>, message: &str) {
        self.next.progress(call, done, total, message);
        // A plugin does not wait for a slow client.
        let _ = self.progress.try_send((done, total, message.to_owned()));
    }
}

/// Sends progress to the client if it asked for that, until the call is `over` and the remaining
/// reports are sent. That of a task is a part of its state.
async fn relay(
    job: &Job,
    mut progressed: mpsc::Receiver<Report>,
    over: &CancellationToken,
    context: &RequestContext<RoleServer>,
) {
    let token = context.meta.get_progress_token();
    let mut last = None;
    loop {
        let report = tokio::select! {
            biased;
            Some(report) = progressed.recv() => report,
            () = over.cancelled() => return,
        };
        let (done, total, message) = report;
        if let Some(task) = job.task() {
            task.says(&message);
            continue;
        }
        // The protocol requires it to increase.
        let Some(token) = token.clone().filter(|_| last.is_none_or(|last| done > last)) else {
            continue;
        };
        last = Some(done);
        let mut progress = ProgressNotificationParam::new(token, done as f64);
        progress.total = total.map(|total| total as f64);
        progress.message = (!message.is_empty()).then_some(message);
        if context.peer.notify_progress(progress).await.is_err() && job.task().is_none() {
            return over.cancelled().await;
        }
    }
}

/// Whether a call was cancelled before its commit, so that it has changed nothing.
fn is_cancelled(answer: &Answer) -> bool {
    matches!(&answer.outcome, Outcome::Failed(failure) if failure.status == Status::Skipped)
}

/// Whether the plugin or the host has failed, and not the call.
fn is_fault(answer: &Answer) -> bool {
    let Outcome::Failed(failure) = &answer.outcome else { return false };
    matches!(failure.status, Status::Trap | Status::Failed)
}

/// The error with which a task ends whose call has a fault of the plugin or the host.
fn fault(answer: Answer) -> ErrorData {
    let message = match answer.outcome {
        Outcome::Failed(Failure { code, message, .. }) => format!("{code}: {message}"),
        Outcome::Executed(_) => String::new(),
    };
    ErrorData::internal_error(message, None)
}

/// The result if no further call is admitted.
fn busy(offer: &Offer) -> CallToolResponse {
    if let Some(telemetry) = offer.host.telemetry() {
        telemetry.busy();
    }
    CallToolResult::error(vec![ContentBlock::text(format!("Busy: {BUSY}"))]).into()
}

/// The maximum number of similar tools that are named.
const MAX_SIMILAR: usize = 3;

/// The maximum number of tools that are named if none is similar.
const MAX_NAMED: usize = 30;

/// Names the tools that are similar to `tool`, or else all of them.
fn nearest(tool: &str, names: &[&str]) -> String {
    let wanted = last_part(tool);
    let mut similar = similar(wanted, names.iter().map(|name| last_part(name)));
    similar.truncate(MAX_SIMILAR);
    let mut named: Vec<&str> = Vec::new();
    for part in similar {
        named.extend(names.iter().filter(|name| last_part(name) == part));
    }
    named.dedup();
    match named.as_slice() {
        [] if names.len() > MAX_NAMED => "No tool of this role has a similar name".to_owned(),
        [] => format!("The tools of this role are {}", names.join(", ")),
        named => format!("The nearest tools of this role are {}", named.join(", ")),
    }
}

/// Returns the tool's own name without that of its plugin.
fn last_part(name: &str) -> &str {
    let name = name.rsplit_once('.').map_or(name, |(_, tool)| tool);
    name.split_once("__").map_or(name, |(_, tool)| tool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_tools_are_named() {
        let names = ["git__status", "grep", "lint__run_linter", "read_file", "read_tree"];
        for (tool, wanted) in [
            ("read", "The nearest tools of this role are read_file, read_tree"),
            ("files.reed_file", "The nearest tools of this role are read_file, read_tree"),
            ("run_lint", "The nearest tools of this role are lint__run_linter"),
            (
                "bash",
                "The tools of this role are git__status, grep, lint__run_linter, read_file, read_tree",
            ),
        ] {
            assert_eq!(nearest(tool, &names), wanted, "{tool}");
        }
        let many: Vec<String> = (0..40).map(|number| format!("x{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(nearest("bash", &many), "No tool of this role has a similar name");
    }
}
