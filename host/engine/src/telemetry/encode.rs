//! Encodes spans and metrics as OTLP in JSON.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>: 64-bit integers are
//! text, ids are hexadecimal, kinds are numbers.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Span;
use super::metrics::{DURATION_BOUNDS_SECONDS, Histogram, Metrics};

/// The status code of a span whose call failed.
const STATUS_ERROR: u32 = 2;

/// The temporality of metrics that count from the start of the process.
const CUMULATIVE: u32 = 2;

/// The resource of all telemetry, with its attributes.
pub(super) fn resource(attributes: &[(String, String)]) -> Value {
    let attribute = |(name, value): &(String, String)| attribute(name, value.as_str().into());
    json!({"attributes": attributes.iter().map(attribute).collect::<Vec<_>>()})
}

/// The document of a request to `/v1/traces`.
pub(super) fn traces(resource: &Value, spans: &[Span]) -> Value {
    json!({"resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{"scope": scope(), "spans": spans.iter().map(span).collect::<Vec<_>>()}],
    }]})
}

fn scope() -> Value {
    json!({"name": "cofferdam", "version": env!("CARGO_PKG_VERSION")})
}

fn span(span: &Span) -> Value {
    let attributes = span.attributes.iter().map(|(name, value)| attribute(name, value.clone()));
    let mut document = json!({
        "traceId": hex(&span.trace),
        "spanId": hex(&span.id),
        // The span is sampled.
        "flags": 1,
        "name": span.name,
        "kind": span.kind as u32,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": if span.failed { json!({"code": STATUS_ERROR}) } else { json!({}) },
    });
    if let Some(parent) = &span.parent {
        document["parentSpanId"] = hex(parent).into();
    }
    if let Some(state) = &span.state {
        document["traceState"] = state.as_str().into();
    }
    document
}

/// The document of a request to `/v1/metrics`: metrics from `start` to `now`, in nanoseconds of Unix
/// time, of a host that runs up to `workers` calls at a time.
pub(super) fn metrics(
    resource: &Value,
    metrics: &Metrics,
    workers: usize,
    start: u128,
    now: u128,
) -> Value {
    let period = Period { start, now };
    let held = metrics.held();
    let waiting = held.saturating_sub(workers);
    let mut all = vec![
        period.gauge("cofferdam.calls.running", "Calls that a worker runs.", held.min(workers)),
        period.gauge("cofferdam.calls.waiting", "Calls that wait for a free worker.", waiting),
        json!({
            "name": "cofferdam.calls.busy",
            "description": "Calls that were not taken, since too many waited.",
            "unit": "{call}",
            "sum": {
                "aggregationTemporality": CUMULATIVE,
                "isMonotonic": true,
                "dataPoints": period.number(metrics.busy()),
            },
        }),
    ];
    let durations: Vec<Value> = metrics
        .durations()
        .into_iter()
        .map(|((tool, outcome), histogram)| period.histogram(tool, outcome, &histogram))
        .collect();
    // A histogram without a data point is not allowed.
    if !durations.is_empty() {
        all.push(json!({
            "name": "cofferdam.call.duration",
            "description": "How long calls took, refused ones included.",
            "unit": "s",
            "histogram": {"aggregationTemporality": CUMULATIVE, "dataPoints": durations},
        }));
    }
    json!({"resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{"scope": scope(), "metrics": all}],
    }]})
}

/// The period of metrics, in nanoseconds of Unix time.
struct Period {
    start: u128,
    now: u128,
}

impl Period {
    /// A data point with the fields of the object `fields`.
    fn point(&self, fields: Value) -> Value {
        let mut point = json!({
            "startTimeUnixNano": self.start.to_string(),
            "timeUnixNano": self.now.to_string(),
        });
        if let (Value::Object(point), Value::Object(fields)) = (&mut point, fields) {
            point.extend(fields);
        }
        point
    }

    /// The data points of a single number.
    fn number(&self, number: usize) -> Value {
        json!([self.point(json!({"asInt": number.to_string()}))])
    }

    fn gauge(&self, name: &str, description: &str, value: usize) -> Value {
        json!({
            "name": name,
            "description": description,
            "unit": "{call}",
            "gauge": {"dataPoints": self.number(value)},
        })
    }

    fn histogram(&self, tool: String, outcome: &str, histogram: &Histogram) -> Value {
        let buckets = histogram.buckets.iter().map(u64::to_string).collect::<Vec<_>>();
        self.point(json!({
            "attributes": [
                attribute("gen_ai.tool.name", tool.into()),
                attribute("cofferdam.outcome", outcome.into()),
            ],
            "count": histogram.count.to_string(),
            "sum": histogram.sum,
            "min": histogram.min,
            "max": histogram.max,
            "bucketCounts": buckets,
            "explicitBounds": DURATION_BOUNDS_SECONDS,
        }))
    }
}

/// An attribute with a text, a number or a boolean as its value.
fn attribute(name: &str, value: Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(value) => json!({"intValue": value.to_string()}),
        value => json!({"stringValue": value}),
    };
    json!({"key": name, "value": value})
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
