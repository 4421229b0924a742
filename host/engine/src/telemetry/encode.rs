//! Spans and figures as OTLP has them in JSON.
//!
//! Source: <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>: 64-bit integers are
//! text, ids are hexadecimal, kinds are numbers.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Span;
use super::metrics::{BOUNDS, Metrics};

/// A span's status when the call failed.
const FAILED: u32 = 2;

/// Figures that grow from the beginning on.
const CUMULATIVE: u32 = 2;

/// What telemetry is about.
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
        // Sampled.
        "flags": 1,
        "name": span.name,
        "kind": span.kind as u32,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": if span.failed { json!({"code": FAILED}) } else { json!({}) },
    });
    if let Some(parent) = &span.parent {
        document["parentSpanId"] = hex(parent).into();
    }
    if let Some(state) = &span.state {
        document["traceState"] = state.as_str().into();
    }
    document
}

/// The document of a request to `/v1/metrics`: figures from `start` to `now`, in nanoseconds of
/// Unix time, of a host that runs `workers` calls at a time.
pub(super) fn metrics(
    resource: &Value,
    metrics: &Metrics,
    workers: usize,
    start: u128,
    now: u128,
) -> Value {
    let point = |more: Value| -> Value {
        let mut point = json!({
            "startTimeUnixNano": start.to_string(),
            "timeUnixNano": now.to_string(),
        });
        if let (Value::Object(point), Value::Object(more)) = (&mut point, more) {
            point.extend(more);
        }
        point
    };
    let durations: Vec<Value> = metrics
        .durations()
        .into_iter()
        .map(|((tool, outcome), it)| {
            let buckets = it.buckets.iter().map(u64::to_string).collect::<Vec<_>>();
            point(json!({
                "attributes": [
                    attribute("gen_ai.tool.name", tool.into()),
                    attribute("cofferdam.outcome", outcome.into()),
                ],
                "count": it.count.to_string(),
                "sum": it.sum,
                "min": it.min,
                "max": it.max,
                "bucketCounts": buckets,
                "explicitBounds": BOUNDS,
            }))
        })
        .collect();
    let held = metrics.held();
    let number = |number: usize| json!([point(json!({"asInt": number.to_string()}))]);
    let gauge = |name: &str, description: &str, value: usize| {
        json!({
            "name": name,
            "description": description,
            "unit": "{call}",
            "gauge": {"dataPoints": number(value)},
        })
    };
    let mut all = vec![
        gauge("cofferdam.calls.running", "Calls that a worker runs.", held.min(workers)),
        gauge(
            "cofferdam.calls.waiting",
            "Calls that wait for a free worker.",
            held.saturating_sub(workers),
        ),
        json!({
            "name": "cofferdam.calls.busy",
            "description": "Calls that were not taken, since too many waited.",
            "unit": "{call}",
            "sum": {
                "aggregationTemporality": CUMULATIVE,
                "isMonotonic": true,
                "dataPoints": number(metrics.busy()),
            },
        }),
    ];
    // A histogram without a point is not allowed.
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
