//! The overview as text for a terminal.

use std::fmt::Write as _;

use super::{AGENT_COLUMNS, Overview, WaveOverview, agent_cells, duration, names, wave_time};
use cofferdam_text::visible as inert;

impl Overview {
    /// The overview as plain text.
    pub fn to_text(&self) -> String {
        // Writing to a String does not fail.
        let mut text = String::new();
        if self.phases.is_empty() {
            text.push_str("no reports\n");
        }
        for phase in &self.phases {
            let time = phase.elapsed_seconds.map(duration);
            let time = time.map_or_else(String::new, |time| format!(" ({time})"));
            let _ = writeln!(text, "Phase {}{time}: {}", phase.phase, counts(&phase.totals));
            phase.waves.iter().for_each(|wave| write_wave(&mut text, wave));
        }
        for (word, problems) in
            [("contradiction", &self.contradictions), ("not readable", &self.unreadable)]
        {
            for problem in problems {
                let (report, problem) =
                    (inert::line(&problem.report), inert::line(&problem.problem));
                let _ = writeln!(text, "{word}: {report}: {problem}");
            }
        }
        if !self.findings.is_empty() {
            text.push('\n');
        }
        for reported in &self.findings {
            let finding = &reported.finding;
            let _ = writeln!(
                text,
                "{:<8}  {}  {}  [{}]\n          {}",
                finding.severity.to_string(),
                inert::line(&finding.id),
                inert::line(&finding.place()),
                reported.by(),
                inert::line(&finding.finding),
            );
            if !finding.fix.trim().is_empty() {
                let _ = writeln!(text, "          fix: {}", inert::line(&finding.fix));
            }
        }
        text
    }
}

fn write_wave(text: &mut String, wave: &WaveOverview) {
    let time = wave_time(wave).map_or_else(String::new, |time| format!(", {time}"));
    let _ = writeln!(text, "  {}{time}: {}", wave.wave, counts(&wave.totals));
    if !wave.agents.is_empty() {
        let [agent, columns @ ..] = AGENT_COLUMNS;
        let _ = writeln!(text, "    {}", row(agent, &columns));
    }
    for agent in &wave.agents {
        let _ = writeln!(text, "    {}", row(&agent.agent_name.to_string(), &agent_cells(agent)));
        for path in &agent.superseded {
            let _ = writeln!(text, "      superseded: {}", inert::line(path));
        }
    }
    if !wave.missing.is_empty() {
        let _ = writeln!(text, "    missing: {}", names(&wave.missing));
    }
}

fn row(name: &str, cells: &[impl AsRef<str>]) -> String {
    let cells = cells.iter().map(|cell| format!("{:>8}", cell.as_ref()));
    format!("{name:<24}  {}", cells.collect::<Vec<_>>().join("  "))
}

fn counts(summary: &super::Summary) -> String {
    let [total, by_severity @ ..] = summary.counts();
    let parts = by_severity.map(|(name, count)| format!("{count} {name}"));
    format!("{} findings ({})", total.1, parts.join(", "))
}
