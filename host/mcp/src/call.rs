//! One call of a tool for a client: its cancellation, its progress, its result.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Extensions,
    ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::Server;
use super::approval::ClientApprover;
use super::bodies::Load;
use super::connection::{self, Connection, Request};
use super::offer::Offer;
use super::results::AnsweredCall;
use super::slot::Slot;
use cofferdam_core::envelope::{Answer, take_image};
use cofferdam_core::outcome::{DenialCode, Failure, Outcome, Status};
use cofferdam_core::schema::similar;
use cofferdam_engine::call::{Observer, Session};
use cofferdam_engine::dispatch::{Refusal, RefusalCode};
use cofferdam_engine::host::{Approver, Effects, RunOptions};
use cofferdam_engine::runtime::blocking;
use cofferdam_engine::telemetry::{McpRequest, Origin, Parent};
use cofferdam_text::{escape_control, shorten};

/// The maximum number of progress reports that wait for a slow client. Further ones are dropped.
const MAX_WAITING_REPORTS: usize = 64;

/// How long to wait until the last reports are sent, before the result.
const LAST_REPORTS_TIMEOUT: Duration = Duration::from_secs(5);

/// The message if no further call is admitted.
pub(super) const BUSY: &str = "the server has as many calls as it can take; try again later";

impl Server {
    /// Makes a call. What the caller can correct is a result with `isError`; only an unknown tool
    /// is an error of the protocol.
    pub(super) async fn call(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (shared, offer) = (&self.shared, self.offer());
        let telemetry = offer.host.telemetry();
        let busy = || {
            telemetry.inspect(|telemetry| telemetry.busy());
            Ok(failed("Busy", BUSY).into())
        };
        let Some(slot) = shared.slots.take(connection::client(&context.extensions)) else {
            return busy();
        };
        let _held = telemetry.map(|telemetry| telemetry.hold());
        let slot = Arc::new(slot);
        let own = Arc::clone(&slot);
        let approver = ClientApprover::new(self, &offer, own, &mut request, &context);
        let approver = Arc::new(approver);
        let tool = request.name.to_string();
        let ended = self.run(&offer, request, &context, &approver).await;
        if slot.is_revoked() && ended.as_ref().is_ok_and(|(answer, _)| is_cancelled(answer)) {
            return busy();
        }
        if let Some(reply) = approver.reply() {
            return reply.map(CallToolResponse::from);
        }
        match ended {
            Ok((answer, effects)) => {
                let session = self.session(&context.extensions);
                Ok(self.result(&offer, (&tool, &session), answer, effects).into())
            }
            Err(refusal) => self.refused(&tool, refusal).map(CallToolResponse::from),
        }
    }

    /// Runs a call and relays its progress. Cancels it when its client does not want it any more.
    async fn run(
        &self,
        offer: &Arc<Offer>,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        approver: &Arc<ClientApprover>,
    ) -> Result<(Answer, Effects), Refusal> {
        let (cancel, cancelled) = watch::channel(false);
        let (progress, progressed) = mpsc::channel(MAX_WAITING_REPORTS);
        let slot = Arc::clone(approver.slot());
        let next = Arc::clone(offer.host.observer());
        let options = RunOptions {
            role: self.role.clone(),
            cancel: Some(cancelled),
            observer: Some(Arc::new(Relay { progress, slot, next })),
            approver: Some(Arc::clone(approver) as Arc<dyn Approver>),
            origin: offer.host.telemetry().map(|_| origin(context)).unwrap_or_default(),
            client: connection::client(&context.extensions),
            session: self.session(&context.extensions),
            client_name: client_name(context),
            agent: self.shared.agent.clone(),
            hold: self.shared.hold,
            images: true,
            ..RunOptions::default()
        };
        let token = context.meta.get_progress_token();
        let over = CancellationToken::new();
        let mut relayed = std::pin::pin!(relay(token, progressed, &over, &context.peer));
        let mut unwanted = std::pin::pin!(self.unwanted(context, approver.slot()));
        let ended = {
            let mut call = std::pin::pin!(make(offer, request, options, &context.extensions));
            loop {
                tokio::select! {
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
            Request::of(&context.extensions).done();
        }
        ended
    }

    /// Waits until a call is cancelled by its client, the end of the connection, the server, or a call
    /// of another client.
    async fn unwanted(&self, context: &RequestContext<RoleServer>, slot: &Slot) {
        let connection = Connection::of(&context.extensions);
        let request = Request::of(&context.extensions);
        tokio::select! {
            () = context.ct.cancelled() => {}
            () = request.cancelled.cancelled() => {}
            () = connection.gone.cancelled() => {}
            () = self.shared.stopping.cancelled() => {}
            () = slot.revoked() => {}
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
                let image = entry.and_then(|entry| take_image(&entry.tool().output, &mut output));
                results.result(call, output, image)
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

/// The longest name and version of a client in the record, in bytes.
const MAX_CLIENT_BYTES: usize = 100;

/// Returns the name and the version of a client, as it names itself, on one line.
pub(super) fn client_name(context: &RequestContext<RoleServer>) -> Option<String> {
    let client = context.client_info()?;
    let name = shorten(&format!("{} {}", client.name, client.version), MAX_CLIENT_BYTES);
    Some(escape_control(&name).replace('\n', " "))
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
    slot: Arc<Slot>,
    next: Arc<dyn Observer>,
}

impl Observer for Relay {
    fn started(&self) {
        self.next.started();
        self.slot.runs();
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
/// reports are sent.
async fn relay(
    token: Option<ProgressToken>,
    mut progressed: mpsc::Receiver<Report>,
    over: &CancellationToken,
    peer: &Peer<RoleServer>,
) {
    let Some(token) = token else { return over.cancelled().await };
    let mut last = None;
    loop {
        let report = tokio::select! {
            biased;
            Some(report) = progressed.recv() => report,
            () = over.cancelled() => return,
        };
        let (done, total, message) = report;
        // The protocol requires it to increase.
        if last.is_some_and(|last| done <= last) {
            continue;
        }
        last = Some(done);
        let mut progress = ProgressNotificationParam::new(token.clone(), done as f64);
        progress.total = total.map(|total| total as f64);
        progress.message = (!message.is_empty()).then_some(message);
        if peer.notify_progress(progress).await.is_err() {
            return over.cancelled().await;
        }
    }
}

/// Whether a call was cancelled before its commit, so that it has changed nothing.
fn is_cancelled(answer: &Answer) -> bool {
    matches!(&answer.outcome, Outcome::Failed(failure) if failure.status == Status::Skipped)
}

fn failed(code: &str, message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("{code}: {message}"))])
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
