//! Telemetry for the operator's systems: a span for each call, and metrics, sent with
//! OpenTelemetry's protocol (OTLP over HTTP, in JSON). It is off unless the environment names a
//! target. When it is on, it costs a call only a few allocations, and calls never wait for it.
//!
//! Names follow OpenTelemetry's semantic conventions for MCP and generative AI,
//! <https://github.com/open-telemetry/semantic-conventions-genai>. Arguments, results, and messages
//! of failures, which may quote them, are not sent.
//!
//! OpenTelemetry's own libraries are not used: they would enable other features of the engine's
//! dependencies (`anyhow`, by way of `prost-derive`), so everything would be built twice.

mod context;
mod encode;
mod export;
mod metrics;
mod settings;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use context::{NoParent, Parent};
pub use settings::{Settings, SettingsError};

use self::export::Exporter;
use self::metrics::{Metrics, OTHER_TOOL};
use crate::journal::Record;
use cofferdam_core::outcome::Status;

/// The maximum number of spans that wait to be sent; further ones are dropped.
const MAX_WAITING_SPANS: usize = 2_048;

/// How long sending the rest may take when the process ends.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The origin of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The span that it belongs to; `None`: the span of the process, if any.
    pub parent: Option<Parent>,
    /// The request of an MCP client that caused the call.
    pub request: Option<McpRequest>,
}

/// A request of an MCP client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpRequest {
    /// The id of the request, a number or a string.
    pub id: String,
    /// The revision of the protocol.
    pub revision: Option<String>,
    /// Whether it came over HTTP, rather than a pipe.
    pub http: bool,
}

/// The span of a call that ended.
struct Span {
    trace: [u8; 16],
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    state: Option<String>,
    name: String,
    kind: Kind,
    /// The start, in nanoseconds of Unix time.
    start: u128,
    end: u128,
    attributes: Vec<(&'static str, Value)>,
    failed: bool,
}

/// The role of this process in a span. Source: OTLP's `SpanKind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Internal = 1,
    Server = 2,
}

/// Collects telemetry, and sends it in the background.
pub struct Telemetry {
    spans: Option<mpsc::Sender<Span>>,
    metrics: Arc<Metrics>,
    parent: Option<Parent>,
    is_full: AtomicBool,
    end: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// A call that a server has accepted, until it is dropped.
pub struct Held(Arc<Telemetry>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.metrics.release();
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Telemetry {
    /// Starts sending telemetry of a host that runs up to `workers` calls at a time. Requires a
    /// tokio runtime.
    pub fn start(mut settings: Settings, workers: usize) -> Arc<Self> {
        let (spans, received) = mpsc::channel(MAX_WAITING_SPANS);
        let metrics: Arc<Metrics> = Arc::default();
        let end = CancellationToken::new();
        let telemetry = Self {
            spans: settings.traces.is_some().then_some(spans),
            metrics: Arc::clone(&metrics),
            parent: settings.parent.take(),
            is_full: AtomicBool::new(false),
            end: end.clone(),
            task: Mutex::default(),
        };
        let exporter = Exporter { settings, spans: received, metrics, workers, end };
        let task = tokio::spawn(exporter.run());
        *telemetry.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        Arc::new(telemetry)
    }

    /// Sends the rest, for two seconds at most.
    pub async fn stop(&self) {
        self.end.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut task) = task else { return };
        if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
            task.abort();
            tracing::warn!("the last telemetry was not sent in time");
        }
    }

    /// Counts a call that a server accepted, until the returned guard is dropped.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.metrics.hold();
        Held(Arc::clone(self))
    }

    /// Counts a call that a server rejected because there were too many.
    pub fn busy(&self) {
        self.metrics.refused();
    }

    /// Records a call that ended now; `tool` is its tool's qualified name, if the tool exists.
    pub fn ended(&self, record: &Record, tool: Option<&str>, origin: &Origin) {
        let tool = tool.unwrap_or(OTHER_TOOL);
        self.metrics.ended(tool, record.outcome(), record.latency_ms / 1000.0);
        let parent = origin.parent.as_ref().or(self.parent.as_ref());
        // If the caller does not record its trace, parts of it are not recorded either.
        let (Some(spans), true) = (&self.spans, parent.is_none_or(|parent| parent.sampled)) else {
            return;
        };
        let is_full = spans.try_send(span(record, tool, parent, origin)).is_err();
        if self.is_full.swap(is_full, Ordering::Relaxed) != is_full && is_full {
            tracing::warn!("spans are left out: they are not sent as fast as calls end");
        }
    }
}

fn span(record: &Record, tool: &str, parent: Option<&Parent>, origin: &Origin) -> Span {
    let end = record.timestamp.as_nanosecond().try_into().unwrap_or_default();
    let took = Duration::try_from_secs_f64(record.latency_ms / 1000.0).unwrap_or_default();
    let (name, kind) = match origin.request {
        Some(_) => (format!("tools/call {tool}"), Kind::Server),
        None => (format!("execute_tool {tool}"), Kind::Internal),
    };
    let failed = record.outcome() != Status::Executed;
    let mut attributes = vec![
        ("gen_ai.operation.name", "execute_tool".into()),
        ("gen_ai.tool.name", tool.into()),
        ("gen_ai.tool.call.id", record.call.as_str().into()),
        ("cofferdam.outcome", record.outcome().as_str().into()),
        ("cofferdam.output.bytes", record.output_bytes.into()),
    ];
    if let Some(McpRequest { id, revision, http }) = &origin.request {
        attributes.push(("mcp.method.name", "tools/call".into()));
        attributes.push(("jsonrpc.request.id", id.as_str().into()));
        let revision = revision.as_deref();
        attributes.extend(revision.map(|it| ("mcp.protocol.version", it.into())));
        attributes.push(("network.transport", if *http { "tcp" } else { "pipe" }.into()));
        attributes.extend(http.then(|| ("network.protocol.name", "http".into())));
    }
    let code = record.code.as_deref();
    attributes.extend(code.map(|code| ("error.type", code.into())));
    let role = record.role.as_deref();
    attributes.extend(role.map(|role| ("cofferdam.role", role.into())));
    let commit = record.commit.as_deref();
    attributes.extend(commit.map(|commit| ("cofferdam.commit", commit.into())));
    attributes.extend(record.dry_run.then(|| ("cofferdam.dry_run", true.into())));
    Span {
        trace: parent.map_or_else(|| *Uuid::new_v4().as_bytes(), |parent| parent.trace),
        id: Uuid::new_v4().as_u64_pair().0.to_be_bytes(),
        parent: parent.map(|parent| parent.span),
        state: parent.and_then(|parent| parent.state.clone()),
        name,
        kind,
        start: u128::saturating_sub(end, took.as_nanos()),
        end,
        attributes,
        failed,
    }
}

/// The current time in nanoseconds of Unix time.
fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}
