#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
use serde_json::{Value, json};

use super::*;

/// The examples of the tool schemas, as in the tool's schema: Wave1 with times, and without a wave.
fn examples() -> Vec<Value> {
    let schema = include_str!("../../../../../schemas/tools/report.save_agent_report.input.json");
    let schema: Value = serde_json::from_str(schema).unwrap();
    schema["examples"].as_array().unwrap().clone()
}

/// A report without findings.
fn report(agent: &str, wave: &str, minutes: Option<(u32, u32)>) -> Value {
    let mut report = json!({
        "agent_name": agent,
        "phase": 3,
        "findings": [],
        "summary": {"total": 0, "critical": 0, "high": 0, "medium": 0, "low": 0},
        "wave": wave,
    });
    if let Some((start, end)) = minutes {
        report["start_time"] = json!(format!("2026-02-07T10:{start:02}:00Z"));
        report["end_time"] = json!(format!("2026-02-07T10:{end:02}:00Z"));
    }
    report
}

fn file(path: &str, report: &Value) -> File {
    File { path: path.to_owned(), contents: Ok(report.to_string().into_bytes()) }
}

fn overview(files: Vec<File>) -> Overview {
    Overview::new(files, &Filter::default())
}

fn problems(problems: &[ReportProblem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{}: {}", problem.report, problem.problem)).collect()
}

#[test]
fn the_documented_examples_are_summed_up() {
    let [best, security, _] = examples().try_into().unwrap();
    let overview = overview(vec![
        file("reports/phase-3/security-auditor.json", &security),
        file("reports/phase-3/wave-1/best-practices-enforcer.json", &best),
    ]);
    assert_eq!(overview.contradictions, []);
    assert_eq!(overview.totals, Summary { total: 3, critical: 1, high: 0, medium: 1, low: 1 });
    let ids: Vec<&str> = overview.findings.iter().map(|found| found.finding.id.as_str()).collect();
    assert_eq!(ids, ["SEC001", "BP001", "BP002"]);
    let [phase] = &overview.phases[..] else { panic!("{overview:?}") };
    let [first, second] = &phase.waves[..] else { panic!("{phase:?}") };
    // The second example names no wave; its agent belongs to the first.
    assert_eq!((first.totals.total, first.agents.len(), first.timed_agents), (3, 2, 1));
    assert_eq!(first.missing, [Agent::HallucinationDetector]);
    assert_eq!(second.missing, [Agent::CodeReviewer, Agent::TestGenerator]);
    assert_eq!((first.elapsed_seconds, second.elapsed_seconds), (Some(300.0), None));
}

#[test]
fn a_waves_duration_is_that_of_its_parallel_agents() {
    // Wave 1 takes 7 minutes, wave 2 another 5, as in the tool schemas; one agent starts late.
    let overview = overview(vec![
        file("reports/phase-3/wave-1/a", &report("best-practices-enforcer", "Wave1", Some((0, 4)))),
        file("reports/phase-3/wave-1/b", &report("security-auditor", "Wave1", Some((1, 7)))),
        file("reports/phase-3/wave-1/c", &report("hallucination-detector", "Wave1", Some((0, 5)))),
        file("reports/phase-3/wave-2/d", &report("code-reviewer", "Wave2", Some((7, 12)))),
        file("reports/phase-3/wave-2/e", &report("test-generator", "Wave2", None)),
    ]);
    let phase = &overview.phases[0];
    assert_eq!(phase.elapsed_seconds, Some(720.0));
    let of = |wave: &WaveOverview| (wave.elapsed_seconds, wave.agent_seconds, wave.timed_agents);
    assert_eq!(of(&phase.waves[0]), (Some(420.0), 900.0, 3));
    assert_eq!(of(&phase.waves[1]), (Some(300.0), 300.0, 1));
    assert!(phase.waves.iter().all(|wave| wave.missing.is_empty()));
    let text = overview.to_text();
    assert!(text.contains("Wave1, 7m (15m of agents' work side by side): 0 findings"), "{text}");
    assert!(
        text.contains("Wave2, 5m (5m of agents' work side by side; 1 without times)"),
        "{text}"
    );
}

#[test]
fn the_last_report_of_an_agent_counts() {
    let best = examples().remove(0);
    let fixed = report("best-practices-enforcer", "Wave1", None);
    let paths = ["", "-2", "-10"]
        .map(|n| format!("reports/phase-3/wave-1/best-practices-enforcer{n}.json"));
    let overview =
        overview(vec![file(&paths[2], &fixed), file(&paths[0], &best), file(&paths[1], &best)]);
    let agent = &overview.phases[0].waves[0].agents[0];
    assert_eq!((&agent.report, agent.totals.total), (&paths[2], 0));
    assert_eq!(agent.superseded, paths[..2]);
    assert_eq!((overview.totals.total, overview.findings.len()), (0, 0));
}

#[test]
fn contradictions_are_reported() {
    let mut counts = examples()[1].clone();
    counts["summary"]["critical"] = json!(2);
    let elsewhere = report("code-reviewer", "Wave1", Some((9, 3)));
    let overview = overview(vec![
        file("reports/phase-4/wave-2/security-auditor.json", &counts),
        file("reports/phase-3/wave-1/code-reviewer.json", &elsewhere),
        file(
            "reports/phase-3/test-generator.json",
            &report("hallucination-detector", "Wave1", None),
        ),
    ]);
    let code_reviewer = "reports/phase-3/wave-1/code-reviewer.json";
    let auditor = "reports/phase-4/wave-2/security-auditor.json";
    let generator = "reports/phase-3/test-generator.json";
    assert_eq!(
        problems(&overview.contradictions),
        [
            format!(
                "{auditor}: the summary does not count the findings: critical is 2, expected 1"
            ),
            format!("{auditor}: it is kept in phase 4 and is about phase 3"),
            format!("{auditor}: it is kept in Wave2 and names no wave"),
            format!(
                "{code_reviewer}: end_time 2026-02-07T10:03:00Z is before start_time 2026-02-07T10:09:00Z"
            ),
            format!("{code_reviewer}: code-reviewer belongs to Wave2, not to Wave1"),
            format!(
                "{generator}: it is kept as a report of test-generator and is one of hallucination-detector"
            ),
            format!("{generator}: it is kept in no wave and names Wave1"),
        ]
    );
    // Counts come from the findings; times that are invalid are ignored.
    assert_eq!(overview.totals.critical, 1);
    assert_eq!(overview.phases[0].elapsed_seconds, None);
}

#[test]
fn invalid_reports_are_listed_and_the_rest_counts() {
    let mut more = examples()[0].clone();
    more["surprise"] = json!(1);
    let overview = overview(vec![
        File { path: "a".to_owned(), contents: Err("permission denied".to_owned()) },
        File { path: "b".to_owned(), contents: Ok(b"{".to_vec()) },
        file("c", &more),
        file("d", &json!({"agent_name": "somebody-else"})),
        file("e", &examples()[0]),
    ]);
    let problems = problems(&overview.unreadable);
    for (problem, part) in problems.iter().zip([
        "a: permission denied",
        "b: no verification report: EOF while parsing",
        "c: no verification report: unknown field `surprise`",
        "d: no verification report: unknown variant `somebody-else`",
    ]) {
        assert!(problem.starts_with(part), "{problem}");
    }
    assert_eq!((problems.len(), overview.totals.total), (4, 2));
}

#[test]
fn reports_are_filtered_by_phase_and_wave() {
    let phase = |number: Value, wave: &str, agent: &str| {
        let mut report = report(agent, wave, None);
        report["phase"] = number;
        report
    };
    let files = || {
        vec![
            file("a", &phase(json!(10), "Wave1", "security-auditor")),
            file("b", &phase(json!(3.0), "Wave2", "code-reviewer")),
            file("c", &phase(json!(3), "Wave1", "security-auditor")),
            file("d", &phase(json!(3.4), "Wave1", "security-auditor")),
        ]
    };
    let numbers = |phase, wave| {
        let overview = Overview::new(files(), &Filter { phase, wave });
        let of = |phase: &PhaseOverview| {
            let agents = phase.waves.iter().map(|wave| wave.agents.len());
            format!(
                "{} {}",
                phase.phase.as_f64().unwrap(),
                agents.map(|count| count.to_string()).collect::<Vec<_>>().join("+")
            )
        };
        overview.phases.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(numbers(None, None), ["3 1+1", "3.4 1+0", "10 1+0"]);
    assert_eq!(numbers(Some(3.0), None), ["3 1+1"]);
    assert_eq!(numbers(None, Some(Wave::Wave2)), ["3 1", "3.4 0", "10 0"]);
    assert_eq!(numbers(Some(5.0), None), [""; 0]);
}

#[test]
fn text_of_agents_is_escaped() {
    let hostile = "<script>alert(1)</script> | \x1b[2J \u{202e} ```";
    let mut args = examples()[1].clone();
    for field in ["id", "finding", "fix"] {
        args["findings"][0][field] = json!(hostile);
    }
    let overview = overview(vec![
        file("reports/phase-3/security-auditor.json", &args),
        File { path: hostile.to_owned(), contents: Err(hostile.to_owned()) },
    ]);
    for text in [overview.to_text(), overview.to_markdown(), overview.to_html()] {
        assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text}");
    }
    let html = overview.to_html();
    assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
    assert!(overview.to_markdown().contains(r"### CRITICAL: \<script\>"));
}

#[test]
fn an_empty_overview_says_so() {
    let overview = overview(Vec::new());
    assert_eq!(overview.to_text(), "no reports\n");
    assert!(overview.to_markdown().contains("\nNone.\n"));
    assert!(overview.to_html().contains("<p>None.</p>"));
    let json = serde_json::to_value(&overview).unwrap();
    assert_eq!((&json["phases"], &json["totals"]["total"]), (&json!([]), &json!(0)));
}
