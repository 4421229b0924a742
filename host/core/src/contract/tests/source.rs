//! The document "Sub-Agent Output Contracts" literally: its prompts, outputs, results of its
//! pseudocode, actions.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::{Action, BUILT_IN, Contract, Contracts, MAX_RETRIES, MAX_ROUNDS, Turn};
use super::contract;

/// The blocks of the document, unchanged.
const DOCUMENT: &str = include_str!("output-contracts.txt");

/// The blocks of the document by agent and kind.
fn blocks(kind: &str) -> BTreeMap<&'static str, &'static str> {
    DOCUMENT
        .split("== ")
        .filter_map(|section| {
            let (title, text) = section.split_once('\n')?;
            let (agent, found) = title.split_once(' ')?;
            (found == kind).then_some((agent, text))
        })
        .collect()
}

#[test]
fn prompts_match_the_output_contracts() {
    let prompts = blocks("prompt");
    assert_eq!(prompts.len(), 7);
    for (agent, wanted) in prompts {
        assert_eq!(contract(agent).prompt(), wanted, "{agent}");
    }
}

#[test]
fn examples_match_the_output_contracts() {
    let outputs = blocks("output");
    assert_eq!(outputs.len(), 6);
    for (agent, wanted) in outputs {
        assert_eq!(contract(agent).example(), wanted, "{agent}");
    }
}

#[test]
fn each_output_contract_has_a_valid_file() {
    let contracts = Contracts::built_in().unwrap();
    let agents: Vec<&str> = contracts.iter().map(|contract| contract.agent.as_str()).collect();
    assert_eq!(agents, blocks("prompt").into_keys().collect::<Vec<_>>());
    for contract in contracts.iter() {
        assert_eq!(contract.check(), [] as [&str; 0], "{}", contract.agent);
    }
    for (file, text) in BUILT_IN {
        assert_eq!(Contract::from_toml(text).unwrap().file_name(), file);
    }
}

/// The results of the document's pseudocode for its own outputs.
const RECORDS: [(&str, &str); 6] = [
    (
        "todo-doc-generator",
        r#"{
            "path": ".claude/features/auth-system-TODO.md",
            "dependencies": null,
            "priority": 1,
            "phases": 3,
            "complexity": "medium"
        }"#,
    ),
    (
        "tdd-task-executor",
        r#"{
            "phase": "2/3",
            "phase_complete": true,
            "files_changed": ["src/auth/service.ts", "src/auth/middleware.ts"],
            "files_created": ["src/auth/__tests__/service.test.ts"],
            "tests_added": 8,
            "tests_passing": true,
            "test_failures": null,
            "blockers": null,
            "next_action": "proceed to phase 3"
        }"#,
    ),
    (
        "pr-review-toolkit:code-reviewer",
        r#"{
            "approved": false,
            "issues_total": 3,
            "critical": null,
            "major": ["Missing input validation on email field", "No rate limiting on login endpoint"],
            "minor": ["Consider extracting magic number to constant"],
            "security": "Rate limiting should be added before production",
            "test_coverage": "adequate",
            "recommendation": "revise"
        }"#,
    ),
    (
        "pr-review-toolkit:code-simplifier",
        r#"{
            "simplified": true,
            "files_modified": ["src/auth/service.ts"],
            "lines_removed": 23,
            "complexity_reduction": "medium",
            "changes_summary": "Extracted duplicate validation logic, removed unused imports"
        }"#,
    ),
    (
        "silent-failure-hunter",
        r#"{
            "silent_failures_found": 2,
            "locations": [
                "src/api/client.ts:45 - swallowed Promise rejection",
                "src/auth/token.ts:112 - empty catch block"
            ],
            "severity": "high",
            "recommendations": ["Add error logging to catch blocks", "Propagate errors to caller"]
        }"#,
    ),
    (
        "pr-review-toolkit:review-pr",
        r#"{
            "ready_to_merge": true,
            "blocking_issues": null,
            "warnings": ["Consider adding integration test for edge case"],
            "test_status": "all-pass",
            "files_reviewed": 7,
            "approval_confidence": "high",
            "final_recommendation": "merge"
        }"#,
    ),
];

#[test]
fn outputs_are_parsed_like_the_pseudocode_does() {
    let outputs = blocks("output");
    assert_eq!(RECORDS.len(), outputs.len());
    for (agent, wanted) in RECORDS {
        let wanted: Value = serde_json::from_str(wanted).unwrap();
        let response = format!("Some prose, to be discarded.\n\n{}", outputs[agent]);
        let parsed = contract(agent).parse(&response);
        assert_eq!(parsed.problems, [], "{agent}");
        assert_eq!(parsed.repairs, [] as [&str; 0], "{agent}");
        assert_eq!(parsed.extracted, [] as [&str; 0], "{agent}");
        // The order as well, so compared as text.
        assert_eq!(Value::Object(parsed.record).to_string(), wanted.to_string(), "{agent}");
    }
}

/// The example of a contract with some lines changed.
fn changed(contract: &Contract, changes: &[(&str, &str)]) -> String {
    let mut response = contract.example();
    for (name, value) in changes {
        let start = response.find(&format!("\n{name}: ")).unwrap() + 1;
        let end = start + response[start..].find('\n').unwrap();
        response.replace_range(start..end, &format!("{name}: {value}"));
    }
    response
}

#[test]
fn next_actions_match_the_output_contracts() {
    use Action::{Blocked, Fix, Proceed, Review};
    for (agent, changes, wanted) in [
        // "Store metadata, add to dependency graph"
        ("todo-doc-generator", &[][..], Proceed),
        // "If phase_complete: true and tests_passing: true -> proceed to review"
        ("tdd-task-executor", &[], Review),
        ("tdd-task-executor", &[("tests_passing", "false")], Fix),
        ("tdd-task-executor", &[("phase_complete", "false")], Fix),
        // "If blockers present -> log and potentially halt"
        ("tdd-task-executor", &[("blockers", "No access to the staging database")], Blocked),
        // "If approved: true -> proceed to PR review"
        ("code-reviewer", &[("approved", "true")], Proceed),
        // "If approved: false -> send issues to tdd-task-executor for fixes"
        ("code-reviewer", &[], Fix),
        ("code-reviewer", &[("recommendation", "block")], Fix),
        // `none` is no approval.
        ("code-reviewer", &[("approved", "none")], Fix),
        ("review-pr", &[("ready_to_merge", "none")], Fix),
        ("tdd-task-executor", &[("tests_passing", "none")], Fix),
        // An approval that contradicts itself does not count.
        ("code-reviewer", &[("approved", "true"), ("critical", "[SQL injection]")], Review),
        ("code-reviewer", &[("approved", "true"), ("recommendation", "block")], Review),
        // "If ready_to_merge: true -> create commit"
        ("review-pr", &[], Proceed),
        // "If ready_to_merge: false -> send blocking_issues to tdd-task-executor"
        ("review-pr", &[("ready_to_merge", "false"), ("blocking_issues", "[No tests]")], Fix),
        ("review-pr", &[("blocking_issues", "[No tests]")], Review),
        ("review-pr", &[("final_recommendation", "reject")], Review),
        // The document names no actions for these.
        ("code-simplifier", &[], Proceed),
        ("silent-failure-hunter", &[], Fix),
        ("silent-failure-hunter", &[("severity", "low")], Review),
        (
            "silent-failure-hunter",
            &[("silent_failures_found", "0"), ("severity", "none"), ("locations", "none")],
            Proceed,
        ),
        ("type-design-analyzer", &[], Review),
        ("type-design-analyzer", &[("issues", "none")], Proceed),
    ] {
        let contract = contract(agent);
        let parsed = contract.parse(&changed(&contract, changes));
        assert_eq!(parsed.problems, [], "{agent} {changes:?}");
        let next = contract.next(&parsed, Turn::default());
        assert_eq!(next.action, wanted, "{agent} {changes:?}: {}", next.reason);
    }
}

/// "Track iteration count (max 3)"
#[test]
fn after_three_rounds_a_review_blocks() {
    for agent in ["code-reviewer", "review-pr"] {
        let contract = contract(agent);
        assert_eq!(contract.rounds, Some(MAX_ROUNDS));
        let first = &contract.fields[0].name;
        let refused = contract.parse(&changed(&contract, &[(first, "false")]));
        let accepted = contract.parse(&changed(&contract, &[(first, "true")]));
        for (round, wanted) in
            [(1, Action::Fix), (2, Action::Fix), (3, Action::Blocked), (4, Action::Blocked)]
        {
            let turn = Turn { round, ..Turn::default() };
            assert_eq!(contract.next(&refused, turn).action, wanted, "{agent} {round}");
            assert_eq!(contract.next(&accepted, turn).action, Action::Proceed, "{agent} {round}");
        }
    }
    // Work that is handed to a review is not in a round of one.
    let executor = contract("tdd-task-executor");
    let done = executor.parse(&executor.example());
    assert_eq!(executor.next(&done, Turn { attempt: 0, round: 3 }).action, Action::Review);
}

/// "Contract Violations", steps 2 to 4.
#[test]
fn an_invalid_response_is_retried_twice_and_then_blocks() {
    let contract = contract("tdd-task-executor");
    let parsed = contract.parse("I have implemented phase 2 and all tests pass.\ntests_added: 8\n");
    assert_eq!(parsed.extracted, ["tests_added"]);
    assert_eq!(parsed.record, json!({"tests_added": 8}).as_object().unwrap().clone());
    for (attempt, wanted) in
        [(0, Action::Retry), (1, Action::Retry), (2, Action::Blocked), (7, Action::Blocked)]
    {
        let turn = Turn { attempt, ..Turn::default() };
        assert_eq!(contract.next(&parsed, turn).action, wanted, "{attempt}");
    }
    assert_eq!(MAX_RETRIES, 2);
    let reminder = contract.reminder(&parsed).unwrap();
    assert!(reminder.starts_with(
        "Your last response did not keep its output contract:\n- expected a block from ---OUTPUT--- to ---END--- at the end of the response, found none\n- phase: expected a number and how many there are, such as 2/3, found nothing\n"
    ), "{reminder}");
    assert!(!reminder.contains("- tests_added"), "{reminder}");
    assert!(reminder.ends_with(&format!("\n\n{}", contract.prompt())), "{reminder}");
    assert_eq!(contract.reminder(&contract.parse(&contract.example())), None);
}

/// "If critical info missing -> re-run agent": only then.
#[test]
fn a_block_without_markers_is_not_retried() {
    for agent in blocks("prompt").into_keys() {
        let contract = contract(agent);
        let example = contract.example();
        let fields: String = example
            .lines()
            .filter(|line| !line.starts_with("---"))
            .map(|line| format!("{line}\n"))
            .collect();
        let parsed = contract.parse(&format!("Done.\n\n{fields}"));
        assert_eq!(parsed.problems.len(), 1, "{agent}");
        assert_eq!(parsed.extracted.len(), contract.fields.len(), "{agent}");
        let whole = contract.parse(&example);
        assert_eq!(parsed.record, whole.record, "{agent}");
        let turn = Turn::default();
        assert_eq!(contract.next(&parsed, turn), contract.next(&whole, turn), "{agent}");
    }
}

#[test]
fn each_missing_field_is_reported() {
    for agent in blocks("prompt").into_keys() {
        let contract = contract(agent);
        for field in &contract.fields {
            let example = contract.example();
            let start = format!("{}: ", field.name);
            let without: String = example
                .lines()
                .filter(|line| !line.starts_with(&start))
                .map(|line| format!("{line}\n"))
                .collect();
            let parsed = contract.parse(&without);
            let problems: Vec<String> = parsed.problems.iter().map(ToString::to_string).collect();
            assert_eq!(
                problems,
                [format!("{}: expected {}, found nothing", field.name, field.expectation())],
                "{agent}"
            );
            assert!(!parsed.record.contains_key(&field.name));
        }
    }
}
