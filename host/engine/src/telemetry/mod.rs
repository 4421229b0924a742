//! Telemetry for the operator's systems: a span for each call, and metrics, sent with
//! OpenTelemetry's protocol (OTLP over HTTP) by its own exporters, which use the user's HTTP client. It
//! is off unless the environment names a target. When it is on, it costs a call only a few allocations,
//! and calls never wait for it.
//!
//! Names follow OpenTelemetry's semantic conventions for MCP and generative AI,
//! <https://github.com/open-telemetry/semantic-conventions-genai>. Arguments, results, and messages
//! of failures, which may quote them, are not sent.

mod context;
mod export;
mod metrics;
mod settings;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status as SpanStatus, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
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

/// Collects telemetry, and sends it in the background.
pub struct Telemetry {
    spans: Option<mpsc::Sender<SpanData>>,
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
        let metrics = Arc::new(Metrics::new(settings.resource.clone(), workers));
        let end = CancellationToken::new();
        let telemetry = Self {
            spans: settings.traces.is_some().then_some(spans),
            metrics: Arc::clone(&metrics),
            parent: settings.parent.take(),
            is_full: AtomicBool::new(false),
            end: end.clone(),
            task: Mutex::default(),
        };
        match Exporter::new(settings, received, metrics, end) {
            Ok(exporter) => {
                let task = tokio::spawn(exporter.run());
                *telemetry.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
            }
            Err(error) => tracing::warn!("telemetry is off: {error}"),
        }
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

    /// Counts a request of a tenant; one above its quota is refused.
    pub fn tenant_request(&self, tenant: &str, is_refused: bool) {
        self.metrics.tenant_request(tenant, is_refused);
    }

    /// Counts the time that a tenant's request took, and the bytes of it and its response.
    pub fn tenant_used(&self, tenant: &str, time: Duration, bytes: u64) {
        self.metrics.tenant_used(tenant, time, bytes);
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

fn span(record: &Record, tool: &str, parent: Option<&Parent>, origin: &Origin) -> SpanData {
    let end_time = SystemTime::from(record.timestamp);
    let took = Duration::try_from_secs_f64(record.latency_ms / 1000.0).unwrap_or_default();
    let own = Uuid::parse_str(&record.call).unwrap_or_else(|_| Uuid::new_v4());
    let caller = record.parent.as_deref().and_then(|id| Uuid::parse_str(id).ok());
    let (name, span_kind) = match origin.request {
        Some(_) => (format!("tools/call {tool}"), SpanKind::Server),
        None => (format!("execute_tool {tool}"), SpanKind::Internal),
    };
    // Calls of other tools find the trace and the span of their caller by its id.
    let trace = parent.map_or_else(|| caller.unwrap_or(own).into_bytes(), |parent| parent.trace);
    let above = caller.map(span_id).or_else(|| Some(SpanId::from_bytes(parent?.span)));
    let state = parent.and_then(|parent| parent.state.as_deref()?.parse::<TraceState>().ok());
    let failed = record.outcome() != Status::Executed;
    SpanData {
        span_context: SpanContext::new(
            TraceId::from_bytes(trace),
            span_id(own),
            TraceFlags::SAMPLED,
            false,
            state.unwrap_or_default(),
        ),
        parent_span_id: above.unwrap_or(SpanId::INVALID),
        parent_span_is_remote: caller.is_none() && parent.is_some(),
        span_kind,
        name: name.into(),
        start_time: end_time.checked_sub(took).unwrap_or(end_time),
        end_time,
        attributes: attributes(record, tool, origin),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: if failed { SpanStatus::error("") } else { SpanStatus::Unset },
        instrumentation_scope: scope(),
    }
}

/// The span of a call: the random half of its id.
fn span_id(call: Uuid) -> SpanId {
    SpanId::from_bytes(call.as_u64_pair().1.to_be_bytes())
}

fn attributes(record: &Record, tool: &str, origin: &Origin) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "execute_tool"),
        KeyValue::new("gen_ai.tool.name", tool.to_owned()),
        KeyValue::new("gen_ai.tool.call.id", record.call.clone()),
        KeyValue::new("cofferdam.outcome", record.outcome().as_str()),
        KeyValue::new(
            "cofferdam.output.bytes",
            i64::try_from(record.output_bytes).unwrap_or(i64::MAX),
        ),
    ];
    let mut add = |name: &'static str, value: Option<Value>| {
        attributes.extend(value.map(|value| KeyValue::new(name, value)));
    };
    if let Some(McpRequest { id, revision, http }) = &origin.request {
        add("mcp.method.name", Some("tools/call".into()));
        add("jsonrpc.request.id", Some(id.clone().into()));
        add("mcp.protocol.version", revision.clone().map(Value::from));
        add("network.transport", Some(if *http { "tcp" } else { "pipe" }.into()));
        add("network.protocol.name", http.then(|| "http".into()));
    }
    add("error.type", record.code.clone().map(Value::from));
    add("cofferdam.role", record.role.clone().map(Value::from));
    add("cofferdam.client", record.client.clone().map(Value::from));
    add("cofferdam.session", record.session.clone().map(Value::from));
    add("cofferdam.agent", record.agent.clone().map(Value::from));
    add("cofferdam.approver", record.approver.clone().map(Value::from));
    add("cofferdam.proposal", record.proposal.clone().map(Value::from));
    add("cofferdam.commit", record.commit.clone().map(Value::from));
    add("cofferdam.dry_run", record.dry_run.then(|| true.into()));
    attributes
}

/// The name and version under which everything is sent.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("cofferdam").with_version(env!("CARGO_PKG_VERSION")).build()
}
