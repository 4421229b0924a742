//! The statistics as plain text for a terminal.

use std::fmt::Write as _;

use super::{PluginUse, Scope, Summary};
use cofferdam_text::escape_control;

/// The columns of the table of tools.
pub(super) const TOOL_COLUMNS: [&str; 10] = [
    "tool",
    "calls",
    "errors",
    "error rate",
    "fallbacks",
    "avg ms",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "max ms",
];

/// Whether each column has numbers.
pub(super) const IS_NUMBER: [bool; 10] =
    [false, true, true, true, true, true, true, true, true, true];

/// The columns of the table of plugins.
pub(super) const PLUGIN_COLUMNS: [&str; 10] = [
    "plugin",
    "calls",
    "errors",
    "limits",
    "total s",
    "p95 ms",
    "memory MiB",
    "host calls",
    "answers KiB",
    "writes KiB",
];

/// The minimum width of the column of names.
const MIN_NAME_WIDTH: usize = 28;

impl Summary {
    /// The statistics as plain text.
    pub fn to_text(&self) -> String {
        // Writing to a String does not fail.
        let mut text = String::new();
        let _ = writeln!(text, "{}", self.period_in_words());
        for alert in &self.alerts {
            let _ = writeln!(text, "ALERT {}: {}. {}.", alert.scope, alert.message, alert.advice);
        }
        let [first, columns @ ..] = TOOL_COLUMNS;
        let _ = writeln!(text, "\n{}", row(first, columns));
        for scope in self.tools.iter().chain([&self.total]) {
            let _ = writeln!(text, "{}", row(&scope.name, cells(scope)));
        }
        if !self.plugins.is_empty() {
            let [first, columns @ ..] = PLUGIN_COLUMNS;
            let _ = writeln!(text, "\n{}", row(first, columns));
            for plugin in &self.plugins {
                let _ = writeln!(text, "{}", row(&plugin.name, uses(plugin)));
            }
        }
        text.push('\n');
        for (about, value) in self.facts() {
            let _ = writeln!(text, "{about}: {value}");
        }
        for problem in &self.lines.problems {
            let _ = writeln!(text, "  {}:{}: {}", problem.file, problem.line, problem.problem);
        }
        escape_control(&text)
    }

    /// The period of the statistics, in words.
    pub(super) fn period_in_words(&self) -> String {
        match self.period {
            None => "nothing is on record".to_owned(),
            Some(period) => format!("from {} to {}", period.from, period.to),
        }
    }

    /// The values that are not in tables, with their names.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        let total = &self.total;
        let rate = percent(total.fallback_rate);
        let fallbacks = format!("{} of {} calls ({rate})", total.fallbacks, total.calls);
        facts.push(("fallbacks", fallbacks));
        if !self.fallbacks.reasons.is_empty() {
            let reasons = self.fallbacks.reasons.iter();
            let reasons = reasons.map(|(reason, count)| format!("{reason} {count}"));
            facts.push(("reasons", reasons.collect::<Vec<_>>().join(", ")));
        }
        for of in &self.fallbacks.sources {
            let rate = percent(of.rate);
            let about = format!("{}: {} of {} calls ({rate})", of.source, of.fallbacks, of.calls);
            facts.push(("fallbacks of", about));
        }
        if let Some(last) = &self.health.last {
            let health = &self.health;
            facts.push((
                "health",
                format!(
                    "{} checks: {} healthy, {} degraded, {} failed; the last one at {}: {}",
                    health.checks,
                    health.healthy,
                    health.degraded,
                    health.failed,
                    last.timestamp,
                    last.verdict.as_str()
                ),
            ));
        }
        for plugin in self.plugins.iter().filter(|plugin| !plugin.limits.is_empty()) {
            let limits = plugin.limits.iter().map(|(limit, count)| format!("{limit} {count}"));
            let limits = limits.collect::<Vec<_>>().join(", ");
            facts.push(("limits of", format!("{}: {limits}", plugin.name)));
        }
        if total.nested > 0 {
            let nested = format!("{} of {} calls", total.nested, total.calls);
            facts.push(("made by other calls, such as scripts", nested));
        }
        facts.push(("commits", self.commits.to_string()));
        for (about, counts) in [("calls of", &self.callers), ("decisions", &self.decisions)] {
            let counts = counts.iter().map(|(name, count)| format!("{name}: {count}"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            if !counts.is_empty() {
                facts.push((about, counts));
            }
        }
        if self.total.latency_ms.relative_error > 0.0 {
            let error = self.total.latency_ms.relative_error * 100.0;
            facts.push(("percentiles", format!("exact to {error:.3} %")));
        }
        if self.lines.unreadable > 0 {
            let lines = &self.lines;
            facts.push(("not readable", format!("{} of {} lines", lines.unreadable, lines.read)));
        }
        facts
    }
}

/// The cells of a tool's row, without its name.
pub(super) fn cells(scope: &Scope) -> [String; 9] {
    let latency = &scope.latency_ms;
    [
        scope.calls.to_string(),
        scope.errors.to_string(),
        percent(scope.error_rate),
        scope.fallbacks.to_string(),
        milliseconds(latency.avg),
        milliseconds(latency.p50),
        milliseconds(latency.p95),
        milliseconds(latency.p99),
        milliseconds(latency.max),
    ]
}

/// The cells of a plugin's row, without its name.
pub(super) fn uses(plugin: &PluginUse) -> [String; 9] {
    let rounded_up = |bytes: u64, unit: u64| bytes.div_ceil(unit).to_string();
    [
        plugin.calls.to_string(),
        plugin.errors.to_string(),
        plugin.limits.values().sum::<u64>().to_string(),
        format!("{:.1}", plugin.time_ms / 1000.0),
        milliseconds(plugin.p95_ms),
        rounded_up(plugin.peak_memory_bytes, 1 << 20),
        plugin.host_calls.to_string(),
        rounded_up(plugin.answered_bytes, 1 << 10),
        rounded_up(plugin.written_bytes, 1 << 10),
    ]
}

fn row(name: &str, cells: [impl AsRef<str>; 9]) -> String {
    // A space separates cells of any width.
    let cells = cells.each_ref().map(|cell| format!(" {:>11}", cell.as_ref()));
    format!("{name:<MIN_NAME_WIDTH$}{}", cells.concat())
}

fn percent(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{:.1} %", rate * 100.0))
}

/// Formats milliseconds with an appropriate number of digits.
pub(super) fn milliseconds(value: f64) -> String {
    let digits = if value < 10.0 { 2 } else { usize::from(value < 1_000.0) };
    format!("{value:.digits$}")
}
