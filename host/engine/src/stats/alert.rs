//! Alerts: the thresholds of the tool schemas, and advice when one is exceeded.

use serde::Serialize;

use super::{FallbackSource, HealthSummary, Scope};

/// The 95th percentile of latencies above which there is an alert, in milliseconds.
const MAX_P95_MS: f64 = 5_000.0;

/// There is an alert if there are fewer calls per fallback.
const MIN_CALLS_PER_FALLBACK: u64 = 10;

/// An alert: a value above its threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alert {
    /// The kind of the alert.
    pub alert: AlertKind,
    /// What it concerns: `total`, a tool, a service, or `health`.
    pub scope: String,
    /// The measured value: a rate, milliseconds, or a number of failures.
    pub value: Option<f64>,
    /// The threshold that the value exceeds.
    pub threshold: f64,
    /// A description of the value and the threshold.
    pub message: String,
    /// What the operator should check.
    pub advice: String,
}

/// The kinds of alerts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// More than 10 % of the calls activated a fallback.
    FallbackRate,
    /// The 95th percentile of latencies is above 5 s, without calls that run programs or ask agents.
    P95Latency,
    /// Three or more health checks failed in a row within an hour.
    HealthCheckFailures,
}

/// All alerts: those in total first, then those of tools with other values.
pub(super) fn alerts(
    total: &Scope,
    tools: &[Scope],
    sources: &[FallbackSource],
    health: &HealthSummary,
) -> Vec<Alert> {
    let mut alerts = Vec::new();
    alerts.extend(fallback_rate("total", total.fallbacks, total.calls, total.fallback_rate));
    // A source with all calls has the same values as the total.
    let others = sources.iter().filter(|source| source.calls != total.calls);
    alerts
        .extend(others.filter_map(|of| fallback_rate(&of.source, of.fallbacks, of.calls, of.rate)));
    let tools = if tools.len() == 1 { &[] } else { tools };
    alerts.extend([total].into_iter().chain(tools).filter_map(p95));
    alerts.extend(health_checks(health));
    alerts
}

fn fallback_rate(scope: &str, fallbacks: u64, calls: u64, rate: Option<f64>) -> Option<Alert> {
    if fallbacks.saturating_mul(MIN_CALLS_PER_FALLBACK) <= calls {
        return None;
    }
    let message = match rate {
        Some(rate) => format!("{:.1} % of {calls} calls fell back (more than 10 %)", rate * 100.0),
        None => format!("{fallbacks} fallbacks, and no call is on record"),
    };
    let service = if scope == "total" || super::short(scope).starts_with("context7") {
        "Context7"
    } else {
        scope
    };
    Some(Alert {
        alert: AlertKind::FallbackRate,
        scope: scope.to_owned(),
        value: rate,
        threshold: 0.1,
        message,
        advice: format!("Investigate {service} connectivity"),
    })
}

fn p95(scope: &Scope) -> Option<Alert> {
    // Slow tests say nothing of the server or the network.
    let p95 = scope.own_p95_ms;
    (p95 > MAX_P95_MS).then(|| Alert {
        alert: AlertKind::P95Latency,
        scope: scope.name.clone(),
        value: Some(p95),
        threshold: MAX_P95_MS,
        message: format!("5 % of the calls took {:.3} s or longer (P95 above 5 s)", p95 / 1000.0),
        advice: "Check server load or network".to_owned(),
    })
}

fn health_checks(health: &HealthSummary) -> Option<Alert> {
    let row = health.failures_in_a_row.as_ref()?;
    Some(Alert {
        alert: AlertKind::HealthCheckFailures,
        scope: "health".to_owned(),
        value: Some(row.checks as f64),
        threshold: super::health::MIN_ROW_FAILURES as f64,
        message: format!(
            "{} checks of the host's health failed in a row, from {} to {}",
            row.checks, row.from, row.to
        ),
        advice: "Run `cofferdam health --format text` and `cofferdam doctor --format text`"
            .to_owned(),
    })
}
