//! The report as Markdown.

use super::report::{Finding, Report, Summary};
use cofferdam_text::markdown::{code_block, code_span, escape, paragraph, table};
use cofferdam_text::visible as inert;

impl Report {
    /// The report as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut blocks = vec![format!("# {}", escape(&self.title())), totals(&self.args.summary)];
        let times = self.times();
        if !times.is_empty() {
            let items: Vec<String> =
                times.iter().map(|(name, value)| format!("- {name}: {value}")).collect();
            blocks.push(items.join("\n"));
        }
        blocks.push("## Findings".to_owned());
        if self.args.findings.is_empty() {
            blocks.push("None.".to_owned());
        }
        for finding in self.ranked() {
            blocks.extend(finding_blocks(finding, None));
        }
        blocks.join("\n\n") + "\n"
    }
}

pub(super) fn totals(summary: &Summary) -> String {
    let counts = summary.counts();
    let row = counts.map(|(_, count)| count.to_string()).to_vec();
    table(&counts.map(|(name, _)| name), &[true; 5], &[row])
}

/// A finding as Markdown; `by` names who reported it, where the page has several agents.
pub(super) fn finding_blocks(finding: &Finding, by: Option<&str>) -> Vec<String> {
    let by = by.map_or_else(String::new, |by| format!(" ({})", escape(by)));
    let mut blocks = vec![
        format!("### {}: {}{by}", finding.severity, escape(&inert::line(&finding.id))),
        code_span(&inert::line(&finding.place())),
        paragraph(&inert::lines(&finding.finding)),
    ];
    if !finding.fix.trim().is_empty() {
        blocks.push("Fix:".to_owned());
        blocks.push(code_block(&inert::lines(&finding.fix)));
    }
    blocks
}
