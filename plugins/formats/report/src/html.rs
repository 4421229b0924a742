//! The report as a web page.

use maud::{Markup, html};

use super::report::{Finding, Report, Summary};
use cofferdam_text::{page, visible as inert};

impl Report {
    /// The report as a self-contained web page.
    pub fn to_html(&self) -> String {
        let body = html! {
            (totals(&self.args.summary))
            (times(&self.times()))
            h2 { "Findings" }
            @if self.args.findings.is_empty() { p { "None." } }
            @for finding in self.ranked() { (article(finding, None)) }
        };
        page::render(&self.title(), &body)
    }
}

pub(super) fn totals(summary: &Summary) -> Markup {
    let counts = summary.counts();
    html! {
        table class="totals" {
            thead { tr { @for (name, _) in counts { th scope="col" class=(name) { (name) } } } }
            tbody { tr { @for (_, count) in counts { td { (count) } } } }
        }
    }
}

pub(super) fn times(times: &[(&str, String)]) -> Markup {
    html! {
        @if !times.is_empty() {
            dl { @for (name, value) in times { div { dt { (name) } dd { (value) } } } }
        }
    }
}

/// A finding as HTML; `by` names who reported it, where the page has several agents.
pub(super) fn article(finding: &Finding, by: Option<&str>) -> Markup {
    let severity = finding.severity.to_string();
    html! {
        article class=(severity.to_lowercase()) {
            h3 {
                span class="severity" { (severity) }
                " "
                bdi { (inert::line(&finding.id)) }
            }
            p class="place" {
                code {
                    bdi { (inert::line(&finding.file)) }
                    @if let Some(line) = finding.line { ":" (line) }
                }
                @if let Some(by) = by { " " (by) }
            }
            p class="finding" dir="auto" { (inert::lines(&finding.finding)) }
            @if !finding.fix.trim().is_empty() {
                h4 { "Fix" }
                pre dir="auto" { code { (inert::lines(&finding.fix)) } }
            }
        }
    }
}
