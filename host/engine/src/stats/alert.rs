//! S4's thresholds, and what it advises where one is passed.

use serde::Serialize;

use super::{FallbackSource, HealthSummary, Scope};

/// The 95th percentile above which latency is an alert, in milliseconds.
const P95_MS: f64 = 5_000.0;

/// One fallback in this many calls is no alert yet; more are.
const CALLS_PER_FALLBACK: u64 = 10;

/// Something that is above a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Alert {
    /// Which threshold.
    pub alert: AlertKind,
    /// What it is about: `total`, a tool, a service, or `health`.
    pub scope: String,
    /// What was measured: a rate, milliseconds, or a number of failures.
    pub value: Option<f64>,
    /// What it was measured against.
    pub threshold: f64,
    /// The same in words.
    pub message: String,
    /// What to look at.
    pub advice: String,
}

/// The thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlertKind {
    /// More than 10 % of the calls fell back.
    FallbackRate,
    /// The 95th percentile of the latency is above 5 s.
    P95Latency,
    /// Three or more checks of the host's health failed in a row, within an hour.
    HealthCheckFailures,
}

/// What is above a threshold: in total first, then by tool, where that says more.
pub(super) fn alerts(
    total: &Scope,
    tools: &[Scope],
    sources: &[FallbackSource],
    health: &HealthSummary,
) -> Vec<Alert> {
    let mut alerts = Vec::new();
    alerts.extend(fallback_rate("total", total.fallbacks, total.calls, total.fallback_rate));
    // What is about all calls has been said.
    let others = sources.iter().filter(|source| source.calls != total.calls);
    alerts
        .extend(others.filter_map(|of| fallback_rate(&of.source, of.fallbacks, of.calls, of.rate)));
    let tools = if tools.len() == 1 { &[] } else { tools };
    alerts.extend([total].into_iter().chain(tools).filter_map(p95));
    alerts.extend(health_checks(health));
    alerts
}

fn fallback_rate(scope: &str, fallbacks: u64, calls: u64, rate: Option<f64>) -> Option<Alert> {
    if fallbacks.saturating_mul(CALLS_PER_FALLBACK) <= calls {
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
    let p95 = scope.latency_ms.p95;
    (p95 > P95_MS).then(|| Alert {
        alert: AlertKind::P95Latency,
        scope: scope.name.clone(),
        value: Some(p95),
        threshold: P95_MS,
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
        threshold: super::health::ROW as f64,
        message: format!(
            "{} checks of the host's health failed in a row, from {} to {}",
            row.checks, row.from, row.to
        ),
        advice: "Run `cofferdam health --format text` and `cofferdam doctor --format text`"
            .to_owned(),
    })
}
