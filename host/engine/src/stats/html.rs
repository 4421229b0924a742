//! The statistics as a dashboard in one HTML file.

use std::collections::BTreeMap;

use cofferdam_text::chart::{self, Bar};
use cofferdam_text::page::{self, Cell};
use cofferdam_text::visible as inert;
use maud::{Markup, html};

use super::text::{PLUGIN_COLUMNS, TOOL_COLUMNS, cells, milliseconds, uses};
use super::{Bucket, Scope, Summary};

/// The number of bars in a chart: the slowest tools, the most frequent callers.
const MAX_CHART_BARS: usize = 15;

impl Summary {
    /// The statistics as an HTML page without external resources.
    pub fn to_html(&self, title: &str) -> String {
        page::render(&inert::line(title), &self.to_markup())
    }

    /// The statistics as a part of a page, whose style sheet colours the classes `calls`, `errors` and
    /// `fallbacks` of charts.
    pub fn to_markup(&self) -> Markup {
        html! {
            p class="quiet" { (self.period_in_words()) }
            (self.alerts())
            h2 { "Calls" }
            (page::table("Calls by tool", &TOOL_COLUMNS, self.rows()))
            (self.charts())
            (self.callers())
            (self.uses())
            h2 { "More" }
            dl { @for (about, value) in self.facts() {
                div { dt { (about) } dd { (inert::line(&value)) } }
            } }
            (self.problems())
        }
    }

    fn alerts(&self) -> Markup {
        html! {
            h2 { "Alerts" }
            @if self.alerts.is_empty() { p class="ok" { "None." } }
            @for alert in &self.alerts {
                p class="alert" {
                    strong { (inert::line(&alert.scope)) } ": "
                    (inert::line(&alert.message)) ". " (inert::line(&alert.advice)) "."
                }
            }
        }
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let row = |scope: &Scope| {
            let name = Cell::Head(html! { bdi { (inert::line(&scope.name)) } });
            [name].into_iter().chain(cells(scope).map(Cell::Number)).collect()
        };
        self.tools.iter().chain([&self.total]).map(row).collect()
    }

    fn charts(&self) -> Markup {
        let mut slowest: Vec<&Scope> = self.tools.iter().filter(|tool| tool.calls > 0).collect();
        slowest.sort_by(|a, b| b.latency_ms.p95.total_cmp(&a.latency_ms.p95));
        slowest.truncate(MAX_CHART_BARS);
        let bars: Vec<Bar> = slowest.into_iter().map(latency_bar).collect();
        html! {
            @if !bars.is_empty() {
                (chart::columns(
                    &format!("Calls over time, each column {}", self.timeline.span()),
                    &self.timeline.columns(),
                ))
                ul class="key" {
                    li { "succeeded" }
                    li class="errors" { "failed" }
                    li class="fallbacks" { "fallbacks" }
                }
                (chart::bars("95th percentile of the latency in milliseconds, the slowest tools", &bars))
            }
        }
    }

    /// Calls by client, role and agent, and decisions of users.
    fn callers(&self) -> Markup {
        let bars = |counts: &BTreeMap<String, u64>| {
            let mut counts: Vec<(&String, &u64)> = counts.iter().collect();
            counts.sort_by(|a, b| b.1.cmp(a.1));
            let bar = |(name, count): (&String, &u64)| Bar {
                label: inert::line(name),
                parts: vec![("calls", *count as f64)],
                value: count.to_string(),
            };
            counts.into_iter().take(MAX_CHART_BARS).map(bar).collect::<Vec<Bar>>()
        };
        html! {
            @for (title, counts) in [
                ("Calls by client, role and agent, the most frequent callers", &self.callers),
                ("Decisions of users, by answer", &self.decisions),
            ] {
                @if !counts.is_empty() { (chart::bars(title, &bars(counts))) }
            }
        }
    }

    fn uses(&self) -> Markup {
        let row = |plugin: &super::PluginUse| {
            let name = Cell::Head(html! { bdi { (inert::line(&plugin.name)) } });
            [name].into_iter().chain(uses(plugin).map(Cell::Number)).collect()
        };
        html! {
            @if !self.plugins.is_empty() {
                h2 { "Plugins" }
                (page::table("What plugins have used", &PLUGIN_COLUMNS, self.plugins.iter().map(row).collect()))
            }
        }
    }

    fn problems(&self) -> Markup {
        html! {
            @if !self.lines.problems.is_empty() {
                h2 { "Lines that can't be read" }
                ul { @for problem in &self.lines.problems {
                    li {
                        code { bdi { (inert::line(&problem.file)) } ":" (problem.line) } ": "
                        (inert::line(&problem.problem))
                    }
                } }
            }
        }
    }
}

fn latency_bar(scope: &Scope) -> Bar {
    let p95 = scope.latency_ms.p95;
    Bar { label: inert::line(&scope.name), parts: vec![("calls", p95)], value: milliseconds(p95) }
}

impl super::Timeline {
    fn span(&self) -> String {
        format!("{:#}", jiff::SignedDuration::from_secs(self.bucket_seconds))
    }

    /// One column for each span from the first to the last, including empty ones.
    fn columns(&self) -> Vec<Bar> {
        let (Some(first), Some(last)) = (self.buckets.first(), self.buckets.last()) else {
            return Vec::new();
        };
        let mut buckets = self.buckets.iter().peekable();
        let starts = (first.start.as_second()..=last.start.as_second())
            .step_by(usize::try_from(self.bucket_seconds).unwrap_or(usize::MAX));
        let at = |start| {
            let there = buckets.next_if(|bucket| bucket.start.as_second() <= start);
            let start = jiff::Timestamp::from_second(start).unwrap_or_default();
            column(&there.copied().unwrap_or(Bucket { start, ..Bucket::default() }))
        };
        starts.map(at).collect()
    }
}

fn column(bucket: &Bucket) -> Bar {
    let Bucket { start, calls, errors, fallbacks } = *bucket;
    let mut value = format!("{calls} calls");
    for (count, word) in [(errors, "failed"), (fallbacks, "fallbacks")] {
        if count > 0 {
            value.push_str(&format!(", {count} {word}"));
        }
    }
    let parts = [("calls", calls - errors), ("errors", errors), ("fallbacks", fallbacks)];
    Bar {
        label: start.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        parts: parts.into_iter().map(|(class, count)| (class, count as f64)).collect(),
        value,
    }
}
