//! Contract files: which errors are reported, with their lines, and what `check` finds.

use super::super::{Action, Contract, Contracts, Turn, UnknownAgent};
use super::{EVERY_KIND, contract, every_kind};

/// A part of [`EVERY_KIND`], what is written instead, and the error.
const INVALID_FILES: &[(&str, &str, &str)] = &[
    (
        "purpose =",
        "purposes =",
        "line 3: unknown field `purposes`, expected one of `agent`, `purpose`, `opening`, `rounds`, `none`, `fields`, `next`",
    ),
    (
        "agent = \"demo\"",
        "agent = \"a b\"",
        "line 2: agent: expected letters, digits, '-' and '_', perhaps in parts with ':' between, found 'a b'",
    ),
    (
        "agent = \"demo\"",
        "agent = \"demo\"\nrounds = 4",
        "line 3: rounds: expected 1 to 3, found 4",
    ),
    (
        "agent = \"demo\"",
        "agent = \"demo\"\nrounds = 0",
        "line 3: rounds: expected 1 to 3, found 0",
    ),
    (
        "Try everything",
        "",
        "line 1: purpose: expected a text without spaces around it, and not an empty one",
    ),
    (
        "type = \"text\"",
        "type = \"string\"",
        "line 7: unknown variant `string`, expected one of `text`, `boolean`, `integer`, `choice`, `list`, `progress`",
    ),
    (
        "hint = \"[what]\"",
        "hints = \"[what]\"",
        "line 8: unknown field `hints`, expected one of `name`, `type`, `required`, `none`, `minimum`, `maximum`, `choices`, `hint`, `example`",
    ),
    ("name = \"maybe\"", "name = \"text\"", "line 11: fields: 'text' stands here twice"),
    (
        "name = \"maybe\"",
        "name = \"may be\"",
        "line 11: field 'may be': a name is a letter, then letters, digits, '_' and '-'",
    ),
    ("example = \"anything\"\n", "", "line 5: field 'text': a required field has an example"),
    (
        "example = \"anything\"",
        "example = \"two\\nlines\"",
        "line 5: field 'text': example: expected one line without control characters",
    ),
    (
        "minimum = -5",
        "minimum = 50",
        "line 24: field 'count': its minimum is more than its maximum",
    ),
    (
        "[\"none\", \"low\", \"High\"]",
        "[\"none\"]",
        "line 32: field 'level': a choice has two or more choices, and nothing else has them",
    ),
    (
        "[\"none\", \"low\", \"High\"]",
        "[\"low\", \"LOW\"]",
        "line 32: field 'level': the choice 'LOW' stands there twice",
    ),
    (
        "type = \"progress\"",
        "type = \"progress\"\nminimum = 1",
        "line 46: field 'part': only an integer has a minimum and a maximum",
    ),
    (
        "maybe = { present",
        "may_be = { present",
        "line 63: next: there is no field 'may_be'; did you mean 'maybe'?",
    ),
    (
        "level = \"low\" }",
        "level = \"medium\" }",
        "line 58: next: field 'level': 'medium' is none of its choices none, low, High",
    ),
    (
        "at-least = 4",
        "at-leest = 4",
        "line 59: expected true, false, a whole number, a text, or a table with `present`, `at-least`, `at-most` or `one-of`",
    ),
    (
        "count = { at-least = 4 }",
        "flag = { at-least = 4 }",
        "line 58: next: field 'flag': at-least or at-most is no condition for a field of type \"boolean\"",
    ),
    ("{ present = true }", "{}", "line 63: next: field 'maybe': an empty table is no condition"),
    (
        "then = \"proceed\"",
        "then = \"retry\"",
        "line 69: unknown variant `retry`, expected one of `proceed`, `review`, `fix`, `blocked`",
    ),
    (
        "then = \"proceed\"",
        "when = { flag = true }\nthen = \"proceed\"",
        "line 68: next: expected a last rule without `when`, for everything else",
    ),
];

#[test]
fn invalid_contract_files_are_refused_with_their_line() {
    for &(from, to, wanted) in INVALID_FILES {
        assert!(EVERY_KIND.contains(from), "{from}");
        let error = Contract::from_toml(&EVERY_KIND.replacen(from, to, 1)).unwrap_err();
        assert_eq!(error.to_string(), wanted, "{from} -> {to}");
    }
    assert!(Contract::from_toml("agent = ").is_err());
    assert!(Contract::from_toml("").is_err());
}

#[test]
fn check_finds_inconsistent_contracts() {
    assert_eq!(every_kind().check(), [] as [&str; 0]);
    for (from, to, wanted) in [
        (
            "example = \"3\"",
            "example = \"30\"",
            "the example: line 5, count: expected a whole number from -5 to 10, found \"30\"",
        ),
        (
            "example = \"true\"",
            "example = \"'true'\"",
            "the example: line 4, flag: removed what was around true",
        ),
        (
            "hint = \"[none/low/High]\"",
            "hint = \"[none/low]\"",
            "field 'level': its hint does not name the choice High",
        ),
        (
            "hint = \"[-5-10]\"",
            "hint = \"[count]\"",
            "field 'count': its hint does not name the range -5-10",
        ),
        (
            "hint = '[what] or \"none\"'",
            "hint = '[what]'",
            "field 'maybe': it may be none, and its hint does not say so",
        ),
        (
            "hint = \"[what]\"",
            "hint = '[what] or \"none\"'",
            "field 'text': it may not be none, and its hint says so",
        ),
        ("at-least = 4", "at-least = 11", "next: rule 1 (fix) is never reached"),
        ("when = { maybe = { present = true } }\n", "", "next: rule 3 (proceed) is never reached"),
        (
            "name = \"level\"",
            "name = \"level\"\nnone = true",
            "field 'level': the choice none can't be reached",
        ),
    ] {
        assert!(EVERY_KIND.contains(from), "{from}");
        let problems = Contract::from_toml(&EVERY_KIND.replacen(from, to, 1)).unwrap().check();
        assert!(problems.iter().any(|problem| problem == wanted), "{from} -> {to}: {problems:#?}");
    }
    let rounds = "agent = 'a'\npurpose = 'p'\nrounds = 2\n[[fields]]\nname = 'x'\ntype = 'boolean'\nhint = '[true/false]'\nexample = 'true'\n[[next]]\nthen = 'proceed'\nreason = 'r'\n";
    let problems = Contract::from_toml(rounds).unwrap().check();
    assert_eq!(problems, ["rounds: no rule leads to another round"]);
    // A hint that is itself a value: an agent that repeats the prompt would satisfy the contract.
    let echo = "agent = 'a'\npurpose = 'p'\n[[fields]]\nname = 'x'\ntype = 'text'\nhint = 'yes'\nexample = 'yes'\n[[next]]\nthen = 'proceed'\nreason = 'r'\n";
    let problems = Contract::from_toml(echo).unwrap().check();
    assert_eq!(problems, ["an agent that repeats the prompt would keep the contract"]);
}

#[test]
fn the_first_rule_that_holds_decides() {
    let contract = every_kind();
    for (changes, wanted) in [
        (&[][..], Action::Proceed),
        (&[("count: 3", "count: 4")], Action::Proceed),
        (&[("count: 3", "count: 4"), ("level: none", "level: low")], Action::Fix),
        (&[("maybe: none", "maybe: x")], Action::Blocked),
        (
            &[
                ("maybe: none", "maybe: x"),
                ("count: 3", "count: 10"),
                ("level: none", "level: low"),
            ],
            Action::Fix,
        ),
    ] {
        let mut response = contract.example();
        for (from, to) in changes {
            response = response.replace(from, to);
        }
        let next = contract.next(&contract.parse(&response), Turn::default());
        assert_eq!(next.action, wanted, "{changes:?}");
    }
}

#[test]
fn unique_short_names_are_resolved() {
    let mut contracts = Contracts::built_in().unwrap();
    for (name, agent) in [
        ("code-reviewer", "pr-review-toolkit:code-reviewer"),
        ("code-simplifier", "pr-review-toolkit:code-simplifier"),
        ("review-pr", "pr-review-toolkit:review-pr"),
        ("pr-review-toolkit:review-pr", "pr-review-toolkit:review-pr"),
        ("tdd-task-executor", "tdd-task-executor"),
    ] {
        assert_eq!(contracts.get(name).unwrap().agent, agent);
    }
    let unknown = contracts.get("code-reviwer").unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no contract for 'code-reviwer'; did you mean 'code-reviewer'?"
    );
    assert_eq!(contracts.get("zzz").unwrap_err().to_string(), "there is no contract for 'zzz'");
    let other = Contract { agent: "other:code-reviewer".to_owned(), ..contract("code-reviewer") };
    contracts.add(other.clone());
    assert_eq!(
        contracts.get("code-reviewer").unwrap_err(),
        UnknownAgent::Ambiguous {
            name: "code-reviewer".to_owned(),
            agents: vec![
                "other:code-reviewer".to_owned(),
                "pr-review-toolkit:code-reviewer".to_owned()
            ],
        }
    );
    // A full name is never ambiguous, and a later contract replaces one of the same name.
    contracts.add(Contract {
        agent: "code-reviewer".to_owned(),
        purpose: "mine".to_owned(),
        ..other
    });
    assert_eq!(contracts.get("code-reviewer").unwrap().purpose, "mine");
}
