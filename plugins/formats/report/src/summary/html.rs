//! The overview as a web page.

use maud::{Markup, html};

use super::super::html::{article, totals};
use super::{
    AGENT_COLUMNS, Overview, PhaseOverview, ReportProblem, TITLE, WaveOverview, agent_cells,
    duration, names, wave_time,
};
use cofferdam_text::page::{self, Cell};
use cofferdam_text::{chart, visible as inert};

impl Overview {
    /// The overview as a self-contained web page.
    pub fn to_html(&self) -> String {
        let body = html! {
            (totals(&self.totals))
            @if self.phases.is_empty() { p { "None." } }
            @for phase in &self.phases { (phase_section(phase)) }
            (problems("Contradictions", &self.contradictions))
            (problems("Not readable", &self.unreadable))
            @if !self.phases.is_empty() {
                h2 { "Findings" }
                @if self.findings.is_empty() { p { "None." } }
                @for reported in &self.findings {
                    (article(&reported.finding, Some(&reported.by())))
                }
            }
        };
        page::render(TITLE, &body)
    }
}

fn phase_section(phase: &PhaseOverview) -> Markup {
    html! {
        section {
            h2 {
                "Phase " (phase.phase)
                @if let Some(seconds) = phase.elapsed_seconds { " (" (duration(seconds)) ")" }
            }
            @for wave in &phase.waves { (wave_section(phase, wave)) }
        }
    }
}

fn wave_section(phase: &PhaseOverview, wave: &WaveOverview) -> Markup {
    let rows: Vec<Vec<Cell>> = wave
        .agents
        .iter()
        .map(|agent| {
            let name = Cell::Head(html! { (agent.agent_name) });
            let numbers = agent_cells(agent).into_iter().map(Cell::Number);
            [name].into_iter().chain(numbers).collect()
        })
        .collect();
    let name = format!("Phase {}, {}", phase.phase, wave.wave);
    let findings: Vec<chart::Bar> = wave
        .agents
        .iter()
        .map(|agent| {
            let [_, by_severity @ ..] = agent.totals.counts();
            let parts = by_severity.map(|(name, count)| (name, count as f64)).to_vec();
            let (label, value) = (agent.agent_name.to_string(), agent.totals.total.to_string());
            chart::Bar { label, parts, value }
        })
        .collect();
    let superseded: Vec<&String> = wave.agents.iter().flat_map(|agent| &agent.superseded).collect();
    html! {
        h3 { (wave.wave) }
        @if !rows.is_empty() {
            (page::table(&format!("{name}: findings of each agent"), &AGENT_COLUMNS, rows))
            (chart::bars(&format!("{name}: findings by severity"), &findings))
        }
        @if let Some(time) = wave_time(wave) { p { "Time: " (time) } }
        @if !wave.missing.is_empty() {
            p class="alert" { strong { "Missing: " } (names(&wave.missing)) }
        }
        @if !superseded.is_empty() {
            p { "Superseded:" }
            ul { @for path in superseded { li { code { (inert::line(path)) } } } }
        }
    }
}

fn problems(heading: &str, problems: &[ReportProblem]) -> Markup {
    html! {
        @if !problems.is_empty() {
            h2 { (heading) }
            ul { @for ReportProblem { report, problem } in problems {
                li class="alert" { code { bdi { (inert::line(report)) } } ": " (inert::line(problem)) }
            } }
        }
    }
}
