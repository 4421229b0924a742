//! The report for people with a browser: one file that loads nothing and runs nothing.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::inert;
use crate::report::{Finding, Report};

const STYLE: &str = include_str!("report.css");

/// What the page may do, should a finding ever get out of its text.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Renders the report.
pub fn render(report: &Report) -> String {
    let title = report.title();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    h1 { (title) }
                    (totals(report))
                    (times(report))
                    h2 { "Findings" }
                    @if report.args.findings.is_empty() { p { "None." } }
                    @for finding in report.ranked() { (article(finding)) }
                }
            }
        }
    };
    page.into_string() + "\n"
}

fn totals(report: &Report) -> Markup {
    let counts = report.args.summary.counts();
    html! {
        table {
            thead { tr { @for (name, _) in counts { th scope="col" class=(name) { (name) } } } }
            tbody { tr { @for (_, count) in counts { td { (count) } } } }
        }
    }
}

fn times(report: &Report) -> Markup {
    let times = report.times();
    html! {
        @if !times.is_empty() {
            dl { @for (name, value) in times { div { dt { (name) } dd { (value) } } } }
        }
    }
}

fn article(finding: &Finding) -> Markup {
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
            }
            p class="finding" dir="auto" { (inert::lines(&finding.finding)) }
            @if !finding.fix.trim().is_empty() {
                h4 { "Fix" }
                pre dir="auto" { code { (inert::lines(&finding.fix)) } }
            }
        }
    }
}
