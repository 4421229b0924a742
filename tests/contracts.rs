//! `cofferdam contract`, as an orchestrator of agents uses it.

use serde_json::json;

use crate::support::Place;

const DOCS_WRITER: &str = r#"
agent = "docs-writer"
purpose = "Write documentation"

[[fields]]
name = "pages"
type = "list"
hint = "[page1.md, page2.md]"
example = "[guide.md]"

[[next]]
then = "proceed"
reason = "publish the pages"
"#;

#[test]
fn a_response_is_read_and_says_what_comes_next() {
    let place = Place::new();
    let response = "Reviewed.\n---OUTPUT---\ntypes_analyzed: 4\nquality_score: 7\nissues: [a, b]\nrecommendations: none\n---END---\n";
    let wanted = json!({
        "agent": "type-design-analyzer",
        "record": {"types_analyzed": 4, "quality_score": 7, "issues": ["a", "b"], "recommendations": null},
        "next": "review",
        "reason": "have the issues looked at",
        "problems": [],
    });
    place.write("response.txt", response);
    for (args, input) in [(&["response.txt"][..], ""), (&["-"], response), (&[], response)] {
        let ended =
            place.run_with(&[&["contract", "parse", "type-design-analyzer"], args].concat(), input);
        assert_eq!(
            (ended.status, ended.json(), ended.stderr.as_str()),
            (0, wanted.clone(), ""),
            "{args:?}"
        );
    }
}

#[test]
fn a_broken_contract_exits_with_1_and_reminds() {
    let place = Place::new();
    let response = "---OUTPUT---\ntypes_analysed: 4\nquality_score: 11\nissues: none\nrecommendations: none\n---END---\n";
    for (attempt, next) in [("0", "retry"), ("1", "retry"), ("2", "blocked")] {
        let args = ["contract", "parse", "type-design-analyzer", "--attempt", attempt];
        let ended = place.run_with(&args, response);
        let document = ended.json();
        assert_eq!((ended.status, &document["next"]), (1, &json!(next)), "{ended:?}");
        assert_eq!(
            document["problems"],
            json!([
                {
                    "code": "UnknownField",
                    "line": 2,
                    "field": "types_analysed",
                    "expected": "one of the fields types_analyzed, quality_score, issues, recommendations",
                    "found": "an unknown field",
                    "did_you_mean": "types_analyzed",
                },
                {
                    "code": "OutOfRange",
                    "line": 3,
                    "field": "quality_score",
                    "expected": "a whole number from 1 to 10",
                    "found": "\"11\"",
                },
                {
                    "code": "MissingField",
                    "field": "types_analyzed",
                    "expected": "a whole number, at least 0",
                    "found": "nothing",
                },
            ])
        );
        let reminder = document["reminder"].as_str().unwrap();
        assert!(reminder.contains("- types_analyzed: expected a whole number"), "{reminder}");
        assert!(
            reminder.ends_with("\nrecommendations: [list] or \"none\"\n---END---\n"),
            "{reminder}"
        );
    }
}

#[test]
fn a_response_without_a_block_is_warned_of_with_the_agents_name() {
    let ended =
        Place::new().run_with(&["contract", "parse", "review-pr"], "ready_to_merge: true\n");
    let document = ended.json();
    assert_eq!((ended.status, &document["next"]), (1, &json!("retry")));
    assert_eq!(document["record"], json!({"ready_to_merge": true}));
    assert_eq!(document["extracted"], json!(["ready_to_merge"]));
    assert!(
        ended.stderr.contains(
            "pr-review-toolkit:review-pr: the response has no ---OUTPUT--- block; 1 of 7 fields"
        ),
        "{ended:?}"
    );
}

#[test]
fn too_many_rounds_block() {
    let place = Place::new();
    let shown = place.run(&["contract", "show", "code-reviewer"]).json();
    let response = shown["example"].as_str().unwrap();
    for (round, next) in [("1", "fix"), ("2", "fix"), ("3", "blocked")] {
        let ended =
            place.run_with(&["contract", "parse", "code-reviewer", "--round", round], response);
        assert_eq!((ended.status, &ended.json()["next"]), (0, &json!(next)), "{round}");
    }
}

#[test]
fn the_prompt_is_printed_as_it_is_or_as_a_document() {
    let place = Place::new();
    let text = place.run(&["contract", "prompt", "code-simplifier", "--format", "text"]).stdout;
    assert!(
        text.starts_with(
            "CRITICAL - End your response with:\n---OUTPUT---\nsimplified: [true/false]\n"
        ),
        "{text}"
    );
    let document = place.run(&["contract", "prompt", "code-simplifier"]).json();
    assert_eq!(document, json!({"agent": "pr-review-toolkit:code-simplifier", "prompt": text}));
}

#[test]
fn a_users_contract_is_a_file_in_a_directory() {
    let place = Place::new();
    place.write("own/docs-writer.toml", DOCS_WRITER);
    place.write("own/README.md", "not a contract");
    let own = ["--contracts", "own"];
    let list = |options: &[&str]| {
        place.run(&[&["contract", "list", "--format", "text"], options].concat()).stdout
    };
    assert_eq!(list(&[]).lines().count(), 7);
    assert!(
        list(&own).starts_with("docs-writer                        Write documentation\n"),
        "{}",
        list(&own)
    );
    let args = [&["contract", "parse", "docs-writer"], &own[..]].concat();
    let ended = place.run_with(&args, "---OUTPUT---\npages: [a.md]\n---END---");
    assert_eq!((ended.status, &ended.json()["record"]), (0, &json!({"pages": ["a.md"]})));
    // It replaces a built-in contract of the same agent.
    place.write("other/review-pr.toml", DOCS_WRITER.replace("docs-writer", "review-pr"));
    let ended = place.run(&["contract", "show", "review-pr", "--contracts", "other"]);
    assert_eq!(ended.json()["fields"][0]["name"], "pages");
    // An invalid file is reported with the line of the problem.
    place.write("broken/docs-writer.toml", DOCS_WRITER.replace("hint", "hints"));
    let ended = place.run(&["contract", "list", "--contracts", "broken"]);
    assert_eq!(ended.status, 2);
    assert!(
        ended.stderr.starts_with("error: broken/docs-writer.toml: line 8: unknown field `hints`"),
        "{ended:?}"
    );
    place.write("named/else.toml", DOCS_WRITER);
    let ended = place.run(&["contract", "list", "--contracts", "named"]);
    assert_eq!(
        ended.stderr,
        "error: named/else.toml: the contract of docs-writer belongs into docs-writer.toml\n"
    );
}

#[test]
fn check_accepts_contracts_by_name_and_by_file() {
    let place = Place::new();
    let ended = place.run(&["contract", "check"]);
    assert_eq!(ended.status, 0);
    let document = ended.json();
    let checked = document["checked"].as_array().unwrap();
    assert_eq!(checked.len(), 7);
    assert!(checked.iter().all(|contract| contract["problems"] == json!([])), "{document:#}");
    place.write("docs-writer.toml", DOCS_WRITER.replace("\"[guide.md]\"", "\"guide.md\""));
    let ended =
        place.run(&["contract", "check", "review-pr", "docs-writer.toml", "--format", "text"]);
    assert_eq!(ended.status, 1);
    assert_eq!(
        ended.stdout,
        "review-pr: right\ndocs-writer.toml: the example: line 2, pages: expected a list in brackets, such as [one, two] or [], found \"guide.md\"\n"
    );
    place.write("docs-writer.toml", "agent = 1\n");
    let ended = place.run(&["contract", "check", "docs-writer.toml", "--format", "text"]);
    assert_eq!(ended.status, 1);
    assert!(ended.stdout.starts_with("docs-writer.toml: line 1: "), "{ended:?}");
}

/// The contract that the manual shows is valid.
#[test]
fn the_example_in_the_manual_is_valid() {
    let place = Place::new();
    let manual =
        std::fs::read_to_string(crate::support::project().join("docs/contracts.md")).unwrap();
    let (_, rest) = manual.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    place.write("docs-writer.toml", example);
    let ended = place.run(&["contract", "check", "docs-writer.toml", "--format", "text"]);
    assert_eq!(ended.stdout, "docs-writer.toml: right\n");
}

#[test]
fn run_names_the_command_for_a_contract() {
    let response = "Done.\n---OUTPUT---\napproved: true\n---END---\n";
    for options in [&["run"][..], &["run", "--strict"], &["validate"]] {
        let ended = Place::new().run_with(options, response);
        let problem = ended.json()["refused"]["problems"][0].clone();
        assert_eq!(ended.status, 2, "{options:?}");
        let found = problem["found"].as_str().unwrap();
        assert!(
            found.contains("dialect `contract`") && found.contains("cofferdam contract parse"),
            "{found}"
        );
    }
}
