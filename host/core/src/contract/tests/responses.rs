//! The parsing rules of the output contracts and their repairs; no text makes the parser panic.

use serde_json::{Value, json};

use super::super::{Action, Contract, Contracts, Parsed, Turn};
use super::{contract, every_kind};

fn read(contract: &Contract, name: &str, value: &str) -> (Option<Value>, Vec<String>, Vec<String>) {
    let mut lines = String::new();
    for field in &contract.fields {
        let example = field.example.as_deref();
        if let Some(value) = if field.name == name { Some(value) } else { example } {
            lines.push_str(&format!("{}: {value}\n", field.name));
        }
    }
    let Parsed { record, problems, repairs, .. } =
        contract.parse(&format!("---OUTPUT---\n{lines}---END---\n"));
    let problems = problems.iter().map(ToString::to_string).collect();
    (record.get(name).cloned(), problems, repairs)
}

/// `parse_value` of the output contracts, for a field of each kind.
#[test]
fn values_are_parsed_by_the_rules_of_the_output_contracts() {
    let contract = every_kind();
    for (name, value, wanted) in [
        ("items", "[]", json!([])),
        ("items", "[x]", json!(["x"])),
        ("items", "[x, y]", json!(["x", "y"])),
        ("items", "[ x ,  y ]", json!(["x", "y"])),
        ("items", "[1, true]", json!(["1", "true"])),
        ("items", "none", json!(null)),
        ("items", "None", json!(null)),
        ("flag", "true", json!(true)),
        ("flag", "True", json!(true)),
        ("flag", "FALSE", json!(false)),
        ("count", "7", json!(7)),
        ("count", "-2", json!(-2)),
        ("count", "+2", json!(2)),
        ("maybe", "none", json!(null)),
        ("maybe", "NONE", json!(null)),
        ("maybe", "nonexistent", json!("nonexistent")),
        // Types decide where the output contracts only look at the form of a value.
        ("text", "none", json!("none")),
        ("text", "3", json!("3")),
        ("text", "true", json!("true")),
        ("text", "[x, y]", json!("[x, y]")),
        ("text", "see http://a.b:80/c: it fails", json!("see http://a.b:80/c: it fails")),
        ("text", "\"quoted\" text", json!("\"quoted\" text")),
        ("level", "none", json!("none")),
        ("level", "low", json!("low")),
        ("part", "2/3", json!("2/3")),
        ("note", "more", json!("more")),
    ] {
        let (found, problems, repairs) = read(&contract, name, value);
        assert_eq!((found, problems, repairs), (Some(wanted), vec![], vec![]), "{name}: {value}");
    }
}

#[test]
fn decorated_values_are_repaired_and_reported() {
    let contract = every_kind();
    for (name, value, wanted, repair) in [
        ("items", "[x,y]", json!(["x", "y"]), "separated items at commas without a space"),
        ("items", "[\"x, y\", z]", json!(["x, y", "z"]), "removed the quotes around items"),
        ("items", "[x, y,]", json!(["x", "y"]), "left out empty items"),
        ("items", "[none]", json!(null), "read [none] as none"),
        ("items", "\"none\"", json!(null), "read \"none\" as none"),
        ("maybe", "[]", json!(null), "read [] as none"),
        ("maybe", "[none]", json!(null), "read [none] as none"),
        ("flag", "**true**", json!(true), "removed what was around true"),
        ("count", "`3`", json!(3), "removed what was around 3"),
        ("level", "high", json!("High"), "read high as High"),
        ("level", "\"low\"", json!("low"), "removed what was around low"),
    ] {
        let (found, problems, repairs) = read(&contract, name, value);
        assert_eq!((found, problems), (Some(wanted), vec![]), "{name}: {value}");
        let [found] = repairs.as_slice() else { panic!("{name}: {value}: {repairs:?}") };
        assert!(found.ends_with(&format!("{name}: {repair}")), "{name}: {value}: {found}");
    }
    // A comma within a bracket needs no repair: the output contracts would split it wrongly.
    let (found, _, repairs) = read(&contract, "items", "[f(a, b), m[k, v]]");
    assert_eq!((found, repairs), (Some(json!(["f(a, b)", "m[k, v]"])), vec![]));
}

#[test]
fn wrong_values_are_problems_and_not_in_the_record() {
    let contract = every_kind();
    for (name, value, wanted) in [
        ("text", "", "expected text, found nothing"),
        ("text", "[what]", "expected text, found the prompt's own words: [what]"),
        ("flag", "yes", "expected true or false, found \"yes\""),
        ("flag", "none", "expected true or false, found \"none\""),
        (
            "flag",
            "[true/false]",
            "expected true or false, found the prompt's own words: [true/false]",
        ),
        ("count", "3.5", "expected a whole number from -5 to 10, found \"3.5\""),
        ("count", "three", "expected a whole number from -5 to 10, found \"three\""),
        ("count", "11", "expected a whole number from -5 to 10, found \"11\""),
        (
            "count",
            "99999999999999999999",
            "expected a whole number from -5 to 10, found \"99999999999999999999\"",
        ),
        ("count", "3 issues", "expected a whole number from -5 to 10, found \"3 issues\""),
        ("level", "lo", "expected one of none, low, High, found \"lo\"; did you mean 'low'?"),
        (
            "level",
            "[none/low/High]",
            "expected one of none, low, High, found the prompt's own words: [none/low/High]",
        ),
        (
            "items",
            "x, y",
            "expected a list in brackets, such as [one, two] or []; or none, found \"x, y\"",
        ),
        (
            "items",
            "[x], [y]",
            "expected a list in brackets, such as [one, two] or []; or none, found \"[x], [y]\"",
        ),
        ("part", "3/2", "expected a number and how many there are, such as 2/3, found \"3/2\""),
        ("part", "0/2", "expected a number and how many there are, such as 2/3, found \"0/2\""),
        ("part", "2", "expected a number and how many there are, such as 2/3, found \"2\""),
        (
            "part",
            "2 of 3",
            "expected a number and how many there are, such as 2/3, found \"2 of 3\"",
        ),
    ] {
        let (found, problems, _) = read(&contract, name, value);
        assert_eq!(found, None, "{name}: {value}");
        let line = 2 + contract.fields.iter().position(|field| field.name == name).unwrap();
        assert_eq!(problems, [format!("line {line}, {name}: {wanted}")], "{name}: {value}");
    }
}

#[test]
fn an_optional_field_may_be_missing_but_not_invalid() {
    let contract = every_kind();
    let parsed = contract.parse(&contract.example());
    assert!(!parsed.record.contains_key("note") && parsed.problems.is_empty());
    let (_, problems, _) = read(&contract, "note", "");
    assert_eq!(problems, ["line 9, note: expected text, found nothing"]);
}

/// `parse_value` makes null of `none` for every field; only a choice with that word keeps it.
#[test]
fn built_in_contracts_accept_none_for_every_field() {
    for contract in Contracts::built_in().unwrap().iter() {
        for field in &contract.fields {
            let is_word = field.choices.iter().any(|choice| choice == "none");
            let wanted = if is_word { json!("none") } else { json!(null) };
            let (found, problems, _) = read(contract, &field.name, "none");
            let place = format!("{}, {}", contract.agent, field.name);
            assert_eq!((found, problems), (Some(wanted), vec![]), "{place}");
        }
    }
    // The reminder does not offer what the hint does not offer.
    let contract = contract("code-reviewer");
    let (_, problems, _) = read(&contract, "approved", "perhaps");
    assert_eq!(problems, ["line 2, approved: expected true or false, found \"perhaps\""]);
}

#[test]
fn no_block_counts_if_the_reasoning_was_cut_off() {
    let contract = contract("code-reviewer");
    let example = contract.example();
    for text in [
        format!("<think>I could say\n{example}"),
        format!("{example}\n<think>no, rather"),
        format!("<think>hm</think>\n{example}\n<thinking>"),
        format!("<think>{}", example.replace("---OUTPUT---", "").replace("---END---", "")),
    ] {
        let parsed = contract.parse(&text);
        assert!(parsed.record.is_empty() && !parsed.is_complete(), "{text}: {parsed:?}");
        assert_eq!(contract.next(&parsed, Turn::default()).action, Action::Retry, "{text}");
    }
    assert!(contract.parse(&format!("<think>hm</think>\n{example}")).is_complete());
}

/// What the parser looks at, and what it does not.
const PIECES: [&str; 44] = [
    "---OUTPUT---",
    "---END---",
    "\n",
    "\n",
    "\n",
    "\r\n",
    " ",
    ": ",
    ":",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ", ",
    ",",
    "\"",
    "'",
    "`",
    "\\",
    "```",
    "- ",
    "* ",
    "> ",
    "**",
    "<think>",
    "</think>",
    "</",
    "approved",
    "issues_total",
    "critical",
    "test_coverage",
    "Approved",
    "none",
    "true",
    "3",
    "adequate",
    "\u{feff}",
    "\u{2014}",
    "\u{201c}",
    "\u{ff1a}",
    "漢",
    "x",
];

/// Parts of texts, concatenated at random: the parser accepts all of them.
#[test]
fn no_text_makes_the_parser_panic() {
    let contract = contract("code-reviewer");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..5_000 {
        let length = random(60);
        let text: String = (0..length).map(|_| PIECES[random(PIECES.len())]).collect();
        check_invariants(&contract, &text);
    }
    // The example with one part inserted anywhere.
    let example = contract.example();
    for (at, _) in example.char_indices() {
        for piece in PIECES.into_iter().skip(at % 5).step_by(5) {
            let mut text = example.clone();
            text.insert_str(at, piece);
            check_invariants(&contract, &text);
        }
        check_invariants(&contract, &example[..at]);
        check_invariants(&contract, &example[at..]);
    }
}

/// What must hold for every text.
fn check_invariants(contract: &Contract, text: &str) {
    let parsed = contract.parse(text);
    let has_all = contract.fields.iter().all(|field| parsed.record.contains_key(&field.name));
    assert!(!parsed.is_complete() || has_all, "{text:?}: {parsed:?}");
    assert_eq!(contract.reminder(&parsed).is_none(), parsed.problems.is_empty(), "{text:?}");
    assert!(
        parsed.record.keys().all(|name| contract.fields.iter().any(|field| field.name == *name))
    );
    let next = contract.next(&parsed, Turn::default());
    assert!(!next.reason.is_empty());
    assert_eq!(next.action == Action::Retry, !parsed.is_complete(), "{text:?}");
}

#[test]
fn hostile_text_costs_little() {
    let contract = contract("code-reviewer");
    let field = |value: String| format!("---OUTPUT---\ncritical: [{value}]\n");
    for text in [
        "---OUTPUT---\n".repeat(1 << 15),
        "<think>\n".repeat(1 << 15),
        "<think></think>\n".repeat(1 << 16),
        format!("<think>{}", "\n".repeat(1 << 16)),
        "---OUTPUT---\na: 1\n</think>".repeat(1 << 15),
        field("[".repeat(1 << 16)),
        field("(]".repeat(1 << 17)),
        field("\"x,".repeat(1 << 16)),
        field("\u{201c}x, ".repeat(1 << 15)),
        format!("---OUTPUT---\n{}", "unknown: 1\n".repeat(1 << 15)),
        format!("---OUTPUT---\ncritical: [\n{}", "a,\n".repeat(1 << 16)),
        format!("---OUTPUT---\nsecurity: x\n{}", "a\n".repeat(1 << 16)),
    ] {
        contract.parse(&text);
    }
}
