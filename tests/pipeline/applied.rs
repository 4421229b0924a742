//! Successful rounds: what is committed, verified, recorded and reported.

use serde_json::{Value, json};

use super::{
    HELPERS, approval, assert_fits_schema, assert_state, designer, designer_of, log, package,
    replace, round, tree, work_order,
};

const AFTER: &str = "\"\"\"Files.\"\"\"\n\n\ndef get_file(path: str) -> str:\n    return path\n";

/// A machine without mypy: ty checks the types, inside an instance.
#[test]
fn a_round_passes_without_mypy() {
    let place = package();
    crate::trial::configure(&place, "");
    let designer = designer();
    let (order, qa) = (work_order().to_string(), approval(&designer).to_string());
    let ended = round(&place, &order, &designer.to_string(), &qa, &[]);
    assert_state(&ended, "APPLIED", 0);
    assert_eq!(place.read(HELPERS), AFTER);
    let lint = &ended.json()["lints"][0]["result"];
    assert_eq!((&lint["mypy"], &lint["ty"]), (&json!({}), &json!({})), "{lint:#}");
    let stood_in = "lint note: ty stood in for mypy: there is no program 'mypy'";
    assert!(log(&ended).iter().any(|line| line.starts_with(stood_in)), "{ended:?}");
}

#[test]
fn approved_commands_are_one_commit() {
    let place = package();
    let before = tree(&place);
    let designer = designer_of(&[
        replace("    file = path\n", "    name = path\n"),
        // The second command works on the result of the first.
        replace("    name = path\n    return file", "    return path"),
    ]);
    let qa = approval(&designer);
    let record = place.home().join("record.json");
    let options = ["--record", record.to_str().unwrap()];
    let order = work_order().to_string();
    let ended = round(&place, &order, &designer.to_string(), &qa.to_string(), &options);
    assert_state(&ended, "APPLIED", 0);
    assert_eq!(place.read(HELPERS), AFTER);
    assert_eq!(
        log(&ended),
        [
            "invariant not checked: no behavior changes: no machine can tell",
            "lint summary: {\"total_errors\":0,\"clean\":true,\"files_checked\":1}"
        ]
    );
    let document = ended.json();
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    assert_eq!(kept, document);
    let stages = document["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["work_order", "designer", "qa", "apply", "verify", "commit"]);
    assert!(stages.iter().all(|stage| stage["verdict"] == "passed"));
    assert_eq!(stages[0]["input"]["bytes"], order.len());
    assert_eq!(stages[0]["input"]["sha256"].as_str().unwrap().len(), 64);
    let outcomes = document["commands"].as_array().unwrap().iter().map(|c| &c["outcome"]);
    assert_eq!(outcomes.collect::<Vec<_>>(), ["executed", "executed"]);
    let verdicts = document["invariants"].as_array().unwrap().iter().map(|i| &i["verdict"]);
    assert_eq!(verdicts.collect::<Vec<_>>(), ["held", "held", "not_checked"]);
    assert_eq!(document["touched_files"], json!([HELPERS]));
    assert_eq!(document["lints"].as_array().unwrap().len(), 1);

    // There is one commit, which is in the journal and can be undone.
    let commit = document["commit"].as_str().unwrap();
    let commits = place.run(&["log", "--commits"]).json();
    assert_eq!(commits["records"].as_array().unwrap().len(), 1, "{commits:#}");
    assert_eq!(commits["records"][0]["commit"], commit);
    let roles = place.run(&["log", "--tool", "edit.atomic_replace"]).json();
    assert_eq!(roles["records"][0]["role"], "designer");
    assert_eq!(roles["records"][0]["commit"], commit);
    assert_eq!(place.run(&["undo", commit]).status, 0);
    assert_eq!(tree(&place), before);
}

#[test]
fn a_held_round_waits_for_a_user() {
    let place = package();
    let before = tree(&place);
    let designer = designer();
    let (order, qa) = (work_order().to_string(), approval(&designer).to_string());
    let options = ["--hold", "--session", "phase-2"];
    let ended = round(&place, &order, &designer.to_string(), &qa, &options);
    assert_state(&ended, "HELD", 0);
    assert_eq!(tree(&place), before);
    let document = ended.json();
    let proposal = document["proposal"].as_str().unwrap();
    assert!(document["commit"].is_null(), "{document:#}");
    assert_eq!(document["lints"][0]["clean"], true);

    // A later round of the session builds on it; its invariants and lints see what is held.
    let next = designer_of(&[replace("    return path", "    name_id = path\n    return name_id")]);
    let qa = approval(&next).to_string();
    let session = ["--session", "phase-2"];
    let ended = round(&place, &order, &next.to_string(), &qa, &session);
    assert_state(&ended, "HELD", 0);
    assert_eq!(ended.json()["proposal"], proposal);
    let back = designer_of(&[replace("    name_id = path\n    return name_id", "    return path")]);
    let qa = approval(&back).to_string();
    let ended = round(&place, &order, &back.to_string(), &qa, &session);
    assert_state(&ended, "FAILED", 1);
    let broken = "broken invariant: no _id/_key renames";
    assert!(log(&ended).iter().any(|line| line.starts_with(broken)), "{ended:?}");
    assert_eq!(tree(&place), before);

    let shown = place.run(&["review", "show", proposal]).json();
    let view = shown["view"].as_str().unwrap();
    assert_eq!(place.run(&["review", "accept", proposal, "--view", view]).status, 0);
    let after = AFTER.replace("    return path", "    name_id = path\n    return name_id");
    assert_eq!(place.read(HELPERS), after);
}

#[test]
fn the_settings_hold_rounds() {
    let place = package();
    let before = tree(&place);
    let designer = designer();
    let (order, qa) = (work_order().to_string(), approval(&designer).to_string());
    let role = "[roles.designer]\ntools = ['edit.*']\nhold = true\n";
    for (first, last) in [("hold = ['edit.*']\n", ""), ("", role)] {
        let settings = format!("{first}{}\n{last}", crate::programs::settings());
        crate::trial::configure(&place, &settings);
        let ended = round(&place, &order, &designer.to_string(), &qa, &[]);
        assert_state(&ended, "HELD", 0);
        assert_eq!(tree(&place), before, "{settings}");
    }
}

#[test]
fn a_dry_run_shows_what_would_be_committed() {
    let place = package();
    let before = tree(&place);
    let (designer, qa) = (designer().to_string(), approval(&designer()).to_string());
    let order = work_order().to_string();
    let ended = round(&place, &order, &designer, &qa, &["--dry-run"]);
    assert_state(&ended, "APPLIED", 0);
    assert_eq!(tree(&place), before);
    let document = ended.json();
    assert_eq!((&document["dry_run"], &document["commit"]), (&json!(true), &json!(null)));
    let diff = document["diff"].as_str().unwrap();
    assert!(diff.contains("-    file = path\n-    return file\n+    return path\n"), "{diff}");
    let text = round(&place, &order, &designer, &qa, &["--dry-run", "--format", "text"]).stdout;
    assert!(text.starts_with("APPLIED phase-2.step-3 (dry run)\n"), "{text}");
    assert!(text.ends_with(diff), "{text}");
    let markdown =
        round(&place, &order, &designer, &qa, &["--dry-run", "--format", "markdown"]).stdout;
    assert!(markdown.starts_with("# APPLIED phase\\-2.step\\-3\n"), "{markdown}");
    for part in
        ["## Log", "## Stages", "| qa | passed |", "## Commands", "## Invariants", "```diff"]
    {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
}

/// QA may modify commands, and verify more.
#[test]
fn qas_version_of_the_commands_is_executed() {
    let place = package();
    let mut qa = approval(&designer());
    qa["commands"] =
        json!([replace("file = path", "name = path"), replace("return file", "return name")]);
    qa["verification"]["args"] = json!({"path": "nomarr", "check_all": true});
    let ended =
        round(&place, &work_order().to_string(), &designer().to_string(), &qa.to_string(), &[]);
    assert_state(&ended, "APPLIED", 0);
    assert!(place.read(HELPERS).contains("    name = path\n    return name\n"));
    let document = ended.json();
    // The verification includes what the work order requires.
    let lints = document["lints"].as_array().unwrap();
    assert_eq!(lints.len(), 1, "{document:#}");
    assert_eq!(lints[0]["args"], json!({"path": "nomarr", "check_all": true}));
    assert_eq!(lints[0]["result"]["import_linter"], json!({}));
    assert_eq!(document["reasons"], json!(["optional notes"]));
}

/// The work order's own lints are run if the approved verification omits some.
#[test]
fn all_lints_of_the_work_order_are_run() {
    let place = package();
    let mut designer = designer();
    designer["verification"]["args"] = json!({"path": HELPERS, "check_all": false});
    let qa = approval(&designer).to_string();
    let (order, designer) = (work_order().to_string(), designer.to_string());
    for (options, wanted) in [
        (
            &["--dry-run"][..],
            vec![("verification", HELPERS, false), ("acceptance", "nomarr/helpers", false)],
        ),
        (
            &["--dry-run", "--phase-boundary"],
            vec![
                ("verification", HELPERS, false),
                ("acceptance", "nomarr/helpers", false),
                ("acceptance", "nomarr/", true),
            ],
        ),
    ] {
        let ended = round(&place, &order, &designer, &qa, options);
        assert_state(&ended, "APPLIED", 0);
        let document = ended.json();
        let lints: Vec<(&str, &str, bool)> = document["lints"]
            .as_array()
            .unwrap()
            .iter()
            .map(|lint| {
                let args = &lint["args"];
                (
                    lint["reason"].as_str().unwrap(),
                    args["path"].as_str().unwrap(),
                    args["check_all"].as_bool().unwrap(),
                )
            })
            .collect();
        assert_eq!(lints, wanted, "{document:#}");
        assert_eq!(
            log(&ended).iter().filter(|line| line.starts_with("lint summary")).count(),
            wanted.len()
        );
    }
}

/// Text that models write around a document is removed, and this is reported.
#[test]
fn repairs_are_reported() {
    let place = package();
    let designer = format!(
        "<think>{{\"touched_files\": []}} hm</think>\nHere it is:\n```json\n{}\n```\nDone.",
        designer()
    );
    let qa = format!("{}\n{}", super::rejection(), approval(&super::designer()));
    let order = format!("\u{feff}{}", work_order());
    let ended = round(&place, &order, &designer, &qa, &["--dry-run"]);
    assert_state(&ended, "APPLIED", 0);
    let log = log(&ended);
    for line in [
        "work_order: removed a byte order mark",
        "designer: removed reasoning",
        "designer: removed a code fence",
        "designer: removed text before the document",
        "designer: removed text after the document",
        "qa: left out 1 earlier document",
    ] {
        assert!(log.iter().any(|found| found == line), "{line}: {log:?}");
    }
    let document = ended.json();
    assert_eq!(document["stages"][2]["repairs"], json!(["left out 1 earlier document"]));
}

#[test]
fn a_document_can_come_from_standard_input() {
    let place = package();
    let file = |name: &str, document: Value| {
        let path = place.home().join(name);
        std::fs::write(&path, document.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (order, qa) = (file("order.json", work_order()), file("qa.json", approval(&designer())));
    let arguments =
        ["pipeline", "--work-order", &order, "--designer", "-", "--qa", &qa, "--dry-run"];
    let ended = assert_fits_schema(place.run_with(&arguments, &designer().to_string()));
    assert_state(&ended, "APPLIED", 0);
}
