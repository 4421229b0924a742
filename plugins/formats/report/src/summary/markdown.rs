//! The overview as Markdown.

use super::super::markdown::{finding_blocks, totals};
use super::{
    AGENT_COLUMNS, Overview, PhaseOverview, ReportProblem, TITLE, agent_cells, duration, names,
    wave_time,
};
use cofferdam_text::markdown::{code_span, escape, table};
use cofferdam_text::visible as inert;

impl Overview {
    /// The overview as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut blocks = vec![format!("# {TITLE}"), totals(&self.totals)];
        if self.phases.is_empty() {
            blocks.push("None.".to_owned());
        }
        self.phases.iter().for_each(|phase| blocks.extend(phase_blocks(phase)));
        blocks.extend(problems("Contradictions", &self.contradictions));
        blocks.extend(problems("Not readable", &self.unreadable));
        if !self.phases.is_empty() {
            blocks.push("## Findings".to_owned());
            if self.findings.is_empty() {
                blocks.push("None.".to_owned());
            }
            for reported in &self.findings {
                blocks.extend(finding_blocks(&reported.finding, Some(&reported.by())));
            }
        }
        blocks.join("\n\n") + "\n"
    }
}

fn phase_blocks(phase: &PhaseOverview) -> Vec<String> {
    let time = phase.elapsed_seconds.map(duration);
    let time = time.map_or_else(String::new, |time| format!(" ({time})"));
    let mut blocks = vec![format!("## Phase {}{time}", phase.phase), totals(&phase.totals)];
    for wave in &phase.waves {
        blocks.push(format!("### {}", wave.wave));
        if !wave.agents.is_empty() {
            let rows: Vec<Vec<String>> = wave
                .agents
                .iter()
                .map(|agent| [vec![agent.agent_name.to_string()], agent_cells(agent)].concat())
                .collect();
            let numbers = [false, true, true, true, true, true, true];
            blocks.push(table(&AGENT_COLUMNS, &numbers, &rows));
        }
        let mut items = Vec::new();
        items.extend(wave_time(wave).map(|time| format!("- Time: {time}")));
        if !wave.missing.is_empty() {
            items.push(format!("- Missing: {}", names(&wave.missing)));
        }
        for path in wave.agents.iter().flat_map(|agent| &agent.superseded) {
            items.push(format!("- Superseded: {}", code_span(&inert::line(path))));
        }
        if !items.is_empty() {
            blocks.push(items.join("\n"));
        }
    }
    blocks
}

fn problems(heading: &str, problems: &[ReportProblem]) -> Vec<String> {
    if problems.is_empty() {
        return Vec::new();
    }
    let item = |ReportProblem { report, problem }: &ReportProblem| {
        format!("- {}: {}", code_span(&inert::line(report)), escape(&inert::line(problem)))
    };
    let items: Vec<String> = problems.iter().map(item).collect();
    vec![format!("## {heading}"), items.join("\n")]
}
