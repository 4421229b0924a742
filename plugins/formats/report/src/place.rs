//! Paths of reports: `reports/phase-3/wave-1/code-reviewer.json` and its siblings, with `-2`, `-3`,
//! ... before the dot if the name exists already.

use super::report::{Agent, Report, Wave};

/// The directory of all reports, relative to the workspace.
pub const ROOT: &str = "reports";

/// The extensions of the three files of a report.
pub const EXTENSIONS: [&str; 3] = ["json", "md", "html"];

/// The prefix of a phase's directory.
const PHASE: &str = "phase-";

/// The directory of a report, relative to the workspace.
pub fn directory(report: &Report) -> String {
    let wave = report.args.wave.map_or_else(String::new, |wave| format!("/{}", wave_name(wave)));
    format!("{ROOT}/{PHASE}{}{wave}", report.phase())
}

/// The name of an agent's report without its extension; `number` counts from 1.
pub fn stem(agent: Agent, number: u32) -> String {
    if number == 1 { agent.to_string() } else { format!("{agent}-{number}") }
}

/// What a file's path says about the report in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The phase, as written in the path.
    pub phase: &'a str,
    /// The wave; `None` for a report without one.
    pub wave: Option<Wave>,
    /// The agent that reported.
    pub agent: Agent,
    /// Which of the agent's reports, counted from 1.
    pub number: u32,
}

impl<'a> Place<'a> {
    /// Parses the path of a report's JSON file, relative to the workspace. `None` if it is not the
    /// path of a report.
    pub fn parse(path: &'a str) -> Option<Self> {
        let (phase, rest) =
            path.strip_prefix(ROOT)?.strip_prefix('/')?.strip_prefix(PHASE)?.split_once('/')?;
        let (wave, file) = match rest.split_once('/') {
            None => (None, rest),
            Some((directory, file)) => {
                (Some(Wave::ALL.into_iter().find(|wave| wave_name(*wave) == directory)?), file)
            }
        };
        let name = file.strip_suffix(".json")?;
        let (agent, number) = Agent::ALL.into_iter().find_map(|agent| {
            let number = match name.strip_prefix(agent.to_string().as_str())? {
                "" => 1,
                rest => rest.strip_prefix('-')?.parse().ok().filter(|number| *number > 1)?,
            };
            (stem(agent, number) == name).then_some((agent, number))
        })?;
        Some(Self { phase, wave, agent, number })
    }
}

fn wave_name(wave: Wave) -> &'static str {
    match wave {
        Wave::Wave1 => "wave-1",
        Wave::Wave2 => "wave-2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_parsed_as_they_are_made() {
        let (agent, phase) = (Agent::CodeReviewer, "3.4");
        for (path, wave, number) in [
            ("reports/phase-3.4/code-reviewer.json", None, 1),
            ("reports/phase-3.4/wave-2/code-reviewer.json", Some(Wave::Wave2), 1),
            ("reports/phase-3.4/wave-1/code-reviewer-12.json", Some(Wave::Wave1), 12),
        ] {
            assert_eq!(Place::parse(path), Some(Place { phase, wave, agent, number }), "{path}");
        }
        for path in [
            "reports/phase-3/notes.json",
            "reports/phase-3/code-reviewer.md",
            "reports/phase-3/code-reviewer-1.json",
            "reports/phase-3/code-reviewer-02.json",
            "reports/phase-3/code-reviewer-x.json",
            "reports/phase-3/wave-3/code-reviewer.json",
            "reports/phase-3/wave-1/old/code-reviewer.json",
            "reports/code-reviewer.json",
            "other/phase-3/code-reviewer.json",
        ] {
            assert_eq!(Place::parse(path), None, "{path}");
        }
    }
}
