//! One call of a tool for a client: its cancellation, its progress, its result.

use std::sync::Arc;
use std::time::Duration;

use axum::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, JsonObject,
    ProgressNotificationParam, ProgressToken,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::Server;
use super::approval::Person;
use super::bodies::Load;
use super::connection::{self, Connection, Request};
use super::offer::Offer;
use cofferdam_core::envelope::Answer;
use cofferdam_core::outcome::{Failure, Outcome, Status};
use cofferdam_engine::call::Observer;
use cofferdam_engine::dispatch::{Refusal, RefusalCode};
use cofferdam_engine::host::{Approver, Effects, RunOptions};
use cofferdam_engine::runtime::blocking;
use cofferdam_engine::telemetry::{McpRequest, Origin, Parent};

/// How many reports of progress may wait for a client that is slow; what comes then is left out.
const REPORTS: usize = 64;

/// How long a client may take to hear the last ones before it gets the result.
const LAST_REPORTS: Duration = Duration::from_secs(5);

/// Why nothing more is taken of a client.
pub(super) const BUSY: &str = "the server has as many calls as it can take; try again later";

impl Server {
    /// Makes a call. What the caller can mend is a result that says so; only a name that no tool
    /// has is an error of the protocol.
    pub(super) async fn call(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (shared, offer) = (&self.shared, self.offer());
        let telemetry = offer.host.telemetry();
        let client = connection::client(&context.extensions);
        let Some(slot) = shared.slots.take(client) else {
            telemetry.inspect(|telemetry| telemetry.busy());
            return Ok(failed("Busy", BUSY).into());
        };
        let _held = telemetry.map(|telemetry| telemetry.hold());
        let origin = telemetry.map(|_| origin(&context)).unwrap_or_default();
        let slot = Arc::new(slot);
        let pending = Arc::clone(&shared.pending);
        let (place, role) = (Arc::clone(&slot), self.role.as_deref());
        let person = Arc::new(Person::new(pending, place, role, &mut request, &context));
        let connection = Connection::of(&context.extensions);
        let asked = Request::of(&context.extensions);
        let load = Load::of(&context.extensions);
        let (cancel, cancelled) = watch::channel(false);
        let (progress, progressed) = mpsc::channel(REPORTS);
        let options = RunOptions {
            role: self.role.clone(),
            cancel: Some(cancelled),
            observer: Some(Arc::new(Relay { progress, next: Arc::clone(offer.host.observer()) })),
            approver: Some(Arc::clone(&person) as Arc<dyn Approver>),
            origin,
            client,
            ..RunOptions::default()
        };
        let token = context.meta.get_progress_token();
        let over = CancellationToken::new();
        let mut relayed = std::pin::pin!(relay(token, progressed, &over, &context.peer));
        let ended = {
            let args = request.arguments.unwrap_or_default();
            let mut call = std::pin::pin!(async {
                match load {
                    None => offer.host.call_parsed(&request.name, args, &options).await,
                    Some(load) => {
                        let call = (request.name.to_string(), args, options);
                        apart(Arc::clone(&offer), load, call).await
                    }
                }
            });
            loop {
                tokio::select! {
                    ended = &mut call => break ended,
                    // It goes on until it is told that the call is over.
                    () = &mut relayed => {}
                    () = context.ct.cancelled(), if !*cancel.borrow() => {
                        cancel.send_replace(true);
                    }
                    () = asked.cancelled.cancelled(), if !*cancel.borrow() => {
                        cancel.send_replace(true);
                    }
                    () = connection.gone.cancelled(), if !*cancel.borrow() => {
                        cancel.send_replace(true);
                    }
                    () = shared.stopping.cancelled(), if !*cancel.borrow() => {
                        cancel.send_replace(true);
                    }
                }
            }
        };
        over.cancel();
        if !*cancel.borrow() && tokio::time::timeout(LAST_REPORTS, relayed).await.is_err() {
            tracing::debug!("a client does not take the progress that it asked for");
        }
        if ended.as_ref().is_ok_and(|(answer, _)| !is_cancelled(answer)) {
            asked.done();
        }
        if let Some(reply) = person.reply() {
            return reply.map(CallToolResponse::from);
        }
        match ended {
            Ok((answer, effects)) => {
                let most = offer.host.policy().limits().result;
                Ok(self.result(&request.name, answer, effects, most).into())
            }
            Err(refusal) => refused(&request.name, refusal).map(CallToolResponse::from),
        }
    }

    fn result(&self, tool: &str, answer: Answer, effects: Effects, most: usize) -> CallToolResult {
        let (results, role) = (&self.shared.results, self.role.as_deref());
        let mut result = match answer.outcome {
            Outcome::Executed(output) => results.result(tool, role, output, most),
            Outcome::Failed(Failure { code, message, detail, .. }) => {
                results.failure(tool, role, format!("{code}: {message}"), detail, most)
            }
        };
        if !answer.warnings.is_empty() {
            let warnings = answer.warnings.join("\n");
            result.content.push(ContentBlock::text(format!("[Warning: {warnings}]")));
        }
        results.add_outputs(&mut result, role, effects.outputs, most);
        result
    }
}

/// Makes a call on a thread of its own: to check large arguments and to copy them takes a while, and
/// no other client waits for that. It ends when nothing waits for it any more.
async fn apart(
    offer: Arc<Offer>,
    load: Load,
    (tool, args, options): (String, JsonObject, RunOptions),
) -> Result<(Answer, Effects), Refusal> {
    let (_waiting, gone) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let call = async move {
        let args = load.arguments().unwrap_or(args);
        tokio::select! {
            ended = offer.host.call_parsed(&tool, args, &options) => ended,
            _ = gone => Err(Refusal::whole(RefusalCode::InvalidEnvelope, "a client", "none")),
        }
    };
    blocking(move || runtime.block_on(call)).await
}

/// Which request asks for a call, and the span that the client made it in: that of the message, or
/// that of the HTTP request around it.
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

/// What a call reports: how much is done, of how much, and a word about it.
type Report = (u64, Option<u64>, String);

/// Takes a call's progress to its client.
struct Relay {
    progress: mpsc::Sender<Report>,
    next: Arc<dyn Observer>,
}

impl Observer for Relay {
    fn message(&self, call: &str, level: tracing::Level, message: &str) {
        self.next.message(call, level, message);
    }

    fn progress(&self, call: &str, done: u64, total: Option<u64>, message: &str) {
        self.next.progress(call, done, total, message);
        // A plugin does not wait for a client, and a client that is slow is not flooded.
        let _ = self.progress.try_send((done, total, message.to_owned()));
    }
}

/// Tells the client of progress, if it asked for that: until the call is `over`, and then what is
/// left.
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
        // The protocol wants it to grow.
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

/// Whether a call was cancelled before its commit, and so has changed nothing.
fn is_cancelled(answer: &Answer) -> bool {
    matches!(&answer.outcome, Outcome::Failed(failure) if failure.status == Status::Skipped)
}

fn failed(code: &str, message: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("{code}: {message}"))])
}

fn refused(tool: &str, refusal: Refusal) -> Result<CallToolResult, ErrorData> {
    let problems = &refusal.problems;
    if problems.iter().any(|problem| problem.code == RefusalCode::UnknownTool) {
        return Err(ErrorData::invalid_params(format!("Unknown tool: {tool}"), None));
    }
    Ok(CallToolResult::error(vec![ContentBlock::text(refusal.feedback)]))
}
