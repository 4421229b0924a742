//! Beads: from an agent's action to the output of `cofferdam beads`, and through merges by git.

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Ended, Place};

impl Place {
    /// Runs these actions, each of which has to succeed, and returns their outputs.
    fn do_all(&self, actions: &[Value]) -> Vec<Value> {
        let ended = self.run_with(&["run"], &json!({ "actions": actions }).to_string());
        assert_eq!(ended.status, 0, "{ended:?}");
        let results = ended.json()["results"].as_array().unwrap().clone();
        results.into_iter().map(|result| result["metadata"].clone()).collect()
    }

    /// Creates a bead with these fields and returns its id.
    fn create(&self, fields: Value) -> String {
        let mut bead = json!({"title": "x", "project_id": "p"});
        bead.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let answer = self.do_all(&[json!({"type": "create_bead", "bead": bead})]);
        answer[0]["bead_id"].as_str().unwrap().to_owned()
    }

    fn beads(&self, options: &[&str]) -> Ended {
        self.run(&[&["beads", "list"], options].concat())
    }

    /// The titles that are listed with these options.
    fn titles(&self, options: &[&str]) -> Vec<String> {
        let ended = self.beads(options);
        assert_eq!(ended.status, 0, "{ended:?}");
        let listed = ended.json();
        assert_eq!(listed["problems"], json!([]));
        let title = |bead: &Value| bead["title"].as_str().unwrap().to_owned();
        listed["beads"].as_array().unwrap().iter().map(title).collect()
    }

    fn show(&self, id: &str) -> Value {
        let ended = self.run(&["beads", "show", id]);
        assert_eq!(ended.status, 0, "{ended:?}");
        ended.json()
    }

    /// Creates a FIFO, which a careless reader would block on.
    fn mkfifo(&self, path: &str) -> bool {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.workspace().join(path), FileType::Fifo, Mode::RUSR, 0).is_ok()
    }

    fn commit(&self) {
        self.with_git(&["add", "-A"]);
        self.with_git(&["commit", "-qm", "more"]);
    }
}

/// The example of an action in the actions reference, for a bead of this id.
fn example(action: &str, id: &str) -> Value {
    match action {
        "create_bead" => json!({
            "type": "create_bead",
            "bead": {
                "title": "Fix authentication bug",
                "description": "Users cannot login after password reset",
                "project_id": "proj-123",
                "priority": 1,
                "type": "bug",
                "tags": ["security", "urgent"],
            },
        }),
        "close_bead" => json!({
            "type": "close_bead",
            "bead_id": id,
            "reason": "Fixed authentication bug and added tests",
        }),
        "escalate_ceo" => json!({
            "type": "escalate_ceo",
            "bead_id": id,
            "reason": "Need architectural decision on database choice",
            "returned_to": "agent-456",
        }),
        "approve_bead" => json!({
            "type": "approve_bead",
            "bead_id": id,
            "reason": "Code review passed, tests are comprehensive",
        }),
        "reject_bead" => json!({
            "type": "reject_bead",
            "bead_id": id,
            "reason": "Missing error handling in new code",
        }),
        "ask_followup" => json!({
            "type": "ask_followup",
            "question": "Should I use PostgreSQL or MySQL for the database?",
        }),
        action => panic!("{action}"),
    }
}

#[test]
fn the_actions_references_examples_succeed() {
    let place = Place::new();
    let created = place.do_all(&[example("create_bead", "")]).remove(0);
    let id = created["bead_id"].as_str().unwrap();
    let escalated = place.do_all(&[example("escalate_ceo", id)]).remove(0);
    let decision = escalated["decision_id"].as_str().unwrap();
    assert_eq!(place.show(id)["waits_for"], json!([decision]));
    assert_eq!(place.show(id)["status"], "escalated");
    let shown = place.show(decision);
    assert_eq!(
        (&shown["type"], &shown["decides"], &shown["returned_to"], &shown["description"]),
        (
            &json!("decision"),
            &json!(id),
            &json!("agent-456"),
            &json!("Need architectural decision on database choice")
        )
    );
    let answers = place.do_all(&[
        json!({"type": "approve_bead", "bead_id": decision, "reason": "PostgreSQL"}),
        example("reject_bead", id),
        example("approve_bead", id),
        example("close_bead", id),
        example("ask_followup", ""),
    ]);
    assert_eq!(
        answers[..4],
        [
            json!({ "bead_id": decision }),
            json!({"bead_id": id, "reason": "Missing error handling in new code"}),
            json!({ "bead_id": id }),
            json!({ "bead_id": id }),
        ]
    );
    let question = place.show(answers[4]["bead_id"].as_str().unwrap());
    assert_eq!(
        (&question["type"], &question["title"], &question["project_id"]),
        (
            &json!("question"),
            &json!("Should I use PostgreSQL or MySQL for the database?"),
            &Value::Null
        )
    );
    assert_closed_bead(&place.show(id), id);
    // An answer is undone like any other commit.
    assert_eq!(place.run(&["undo"]).status, 0);
    assert_eq!(place.titles(&["--type", "question"]).len(), 0);
}

/// Asserts the fields and the history of the example's bead after it was closed.
fn assert_closed_bead(bead: &Value, id: &str) {
    for (field, wanted) in [
        ("id", json!(id)),
        ("title", json!("Fix authentication bug")),
        ("status", json!("closed")),
        ("type", json!("bug")),
        ("priority", json!(1)),
        ("project_id", json!("proj-123")),
        ("tags", json!(["security", "urgent"])),
        ("description", json!("Users cannot login after password reset")),
        ("waits_for", json!([])),
    ] {
        assert_eq!(bead[field], wanted, "{field}");
    }
    let history = bead["history"].as_array().unwrap();
    let events: Vec<&str> = history.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["escalated", "decided", "rejected", "approved", "closed"]);
}

#[test]
fn beads_are_listed_by_priority_and_age() {
    let place = Place::new();
    assert_eq!(place.titles(&[]), [""; 0]);
    let first = place.create(json!({"title": "old", "tags": ["a", "b"], "project_id": "q"}));
    for (title, priority, kind, tags) in [
        ("backlog", 4, "epic", json!([])),
        ("new", 2, "task", json!(["a"])),
        ("critical", 0, "bug", json!(["b", "a"])),
    ] {
        place.create(json!({"title": title, "priority": priority, "type": kind, "tags": tags}));
    }
    place.do_all(&[json!({"type": "approve_bead", "bead_id": first})]);
    for (options, wanted) in [
        (&[][..], &["critical", "old", "new", "backlog"][..]),
        (&["--status", "open"], &["critical", "new", "backlog"]),
        (&["--status", "open", "--status", "approved"], &["critical", "old", "new", "backlog"]),
        (&["--status", "closed"], &[]),
        (&["--type", "bug"], &["critical"]),
        (&["--type", "bug", "--type", "epic"], &["critical", "backlog"]),
        (&["--project", "q"], &["old"]),
        (&["--project", "p", "--type", "task"], &["new"]),
        (&["--tag", "a"], &["critical", "old", "new"]),
        (&["--tag", "a", "--tag", "b"], &["critical", "old"]),
        (&["--tag", "none"], &[]),
    ] {
        assert_eq!(place.titles(options), wanted, "{options:?}");
    }
    let text = place.beads(&["--format", "text"]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].ends_with("  P0  open       bug       p  critical"), "{text}");
    assert_eq!(lines[1], format!("{first}  P2  approved   task      q  old"));
    let shown = place.run(&["beads", "show", &first[..9], "--format", "text"]);
    assert_eq!(shown.status, 0, "{shown:?}");
    assert!(shown.stdout.starts_with(&format!("id: {first}\ntitle: old\nstatus: approved\n")));

    for (args, wanted) in [
        (&["beads", "list", "--status", "done"][..], "[possible values: open, escalated, "),
        (&["beads", "list", "--type", "chore"], "[possible values: task, bug, feature, epic, "),
        (&["beads", "show", "bead-zzzz-zzzz"], "error: there is no bead 'bead-zzzz-zzzz'\n"),
        (&["beads", "show", "bead-"], "error: there is no bead 'bead-'"),
    ] {
        let ended = place.run(args);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains(wanted), "{ended:?}");
    }
}

#[test]
fn listing_and_showing_beads_changes_nothing() {
    let place = Place::new();
    assert_eq!(place.beads(&[]).status, 0);
    assert_eq!(fs::read_dir(place.workspace()).unwrap().count(), 0);
}

#[test]
fn invalid_beads_are_reported_and_the_others_listed() {
    let place = Place::new();
    let good = place.create(json!({"title": "good"}));
    place.write(".beads/bead-a.yaml", "title: \"a\"\npriority: high\n");
    place.write(".beads/bead-B.yaml", "");
    place.write(".beads/bead-c.yaml", b"\xff");
    place.write(".beads/bead-d.yaml/x", "");
    place.write(".beads/bead-e.yaml", " ".repeat(5 << 20));
    assert!(place.mkfifo(".beads/bead-f.yaml"));
    place.write(".beads/config.yaml", "none of ours");
    let ended = place.beads(&[]);
    assert_eq!(ended.status, 1, "{ended:?}");
    let listed = ended.json();
    assert_eq!(listed["beads"][0]["id"], good);
    assert_eq!(listed["beads"].as_array().unwrap().len(), 1);
    let problems = listed["problems"].as_array().unwrap();
    let found: Vec<(&str, Option<u64>)> = problems
        .iter()
        .map(|problem| (problem["path"].as_str().unwrap(), problem["line"].as_u64()))
        .collect();
    assert_eq!(
        found,
        [
            (".beads/bead-B.yaml", None),
            (".beads/bead-a.yaml", Some(2)),
            (".beads/bead-c.yaml", Some(1)),
            (".beads/bead-d.yaml", None),
            (".beads/bead-e.yaml", None),
            (".beads/bead-f.yaml", None),
        ]
    );
    let text = place.beads(&["--format", "text"]);
    assert_eq!((text.status, text.stdout.lines().count()), (1, 1), "{text:?}");
    for line in [".beads/bead-a.yaml:2: ", ".beads/bead-c.yaml:1: the file is not UTF-8 text"] {
        assert!(text.stderr.contains(line), "{text:?}");
    }
    let shown = place.run(&["beads", "show", "bead-a"]);
    assert_eq!((shown.status, &shown.json()["problems"][0]["line"]), (1, &json!(2)));
}

#[test]
fn control_characters_in_titles_are_escaped() {
    let place = Place::new();
    let id = place.create(json!({"title": "a\u{1b}[31m\u{202e}\nb"}));
    assert!(!place.read(&format!(".beads/{id}.yaml")).contains(['\u{1b}', '\u{202e}']));
    let text = place.beads(&["--format", "text"]).stdout;
    assert!(text.lines().count() == 1 && !text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    assert_eq!(place.titles(&[]), ["a\u{1b}[31m\u{202e}\nb"]);
}

#[test]
fn a_link_out_of_the_workspace_shows_nothing() {
    let (place, other) = (Place::new(), Place::new());
    other.create(json!({"title": "secret"}));
    let theirs = other.workspace().join(".beads");
    std::os::unix::fs::symlink(&theirs, place.workspace().join(".beads")).unwrap();
    let ended = place.beads(&[]);
    assert!(ended.status != 0 && !ended.stdout.contains("secret"), "{ended:?}");
    fs::remove_file(place.workspace().join(".beads")).unwrap();
    fs::create_dir(place.workspace().join(".beads")).unwrap();
    let file = fs::read_dir(&theirs).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|end| end == "yaml"));
    let link = place.workspace().join(".beads/bead-x.yaml");
    std::os::unix::fs::symlink(file.unwrap(), link).unwrap();
    let ended = place.beads(&[]);
    assert!(ended.status == 1 && !ended.stdout.contains("secret"), "{ended:?}");
}

#[test]
fn without_permission_to_write_no_bead_is_created() {
    let place = Place::new();
    let envelope = json!({"actions": [example("create_bead", "")]}).to_string();
    let scoped = place.run_with(&["run", "--scope", "src"], &envelope);
    assert_eq!(scoped.status, 3, "{scoped:?}");
    let result = &scoped.json()["results"][0];
    assert_eq!(result["message"], "bead creator not configured");
    assert_eq!(result["metadata"]["outcome"], "denied");

    place.write("cofferdam.toml", "[grants.beads]\nfiles = \"read\"\n");
    let denied = place.run_with(&["run", "--trust-workspace"], &envelope);
    assert_eq!(denied.status, 3, "{denied:?}");
    let result = &denied.json()["results"][0];
    assert_eq!(result["metadata"]["code"], "NotGranted");
    assert!(result["message"].as_str().unwrap().contains("[grants.beads]"), "{result:#}");
    assert!(!place.workspace().join(".beads").exists());
}

#[test]
fn branches_that_change_beads_merge_without_conflict() {
    let place = Place::new();
    let ids = ["shared", "closed here", "escalated there"]
        .map(|title| place.create(json!({ "title": title })));
    let [shared, closed, escalated] = &ids;
    place.with_git(&["init", "-qb", "main"]);
    place.commit();

    place.with_git(&["checkout", "-qb", "there"]);
    place.create(json!({"title": "made there", "priority": 0}));
    place.do_all(&[
        json!({"type": "reject_bead", "bead_id": shared, "reason": "no tests"}),
        json!({"type": "approve_bead", "bead_id": closed}),
        json!({"type": "escalate_ceo", "bead_id": escalated, "reason": "which?"}),
    ]);
    place.commit();

    place.with_git(&["checkout", "-q", "main"]);
    place.create(json!({"title": "made here", "priority": 4}));
    place.do_all(&[
        json!({"type": "approve_bead", "bead_id": shared, "reason": "good"}),
        json!({"type": "close_bead", "bead_id": closed, "reason": "done"}),
        json!({"type": "approve_bead", "bead_id": escalated}),
    ]);
    place.commit();

    // Merging in the other direction gives the same beads.
    place.with_git(&["branch", "here"]);
    place.with_git(&["merge", "-q", "--no-edit", "there"]);
    let merged = place.beads(&[]).json();
    place.with_git(&["checkout", "-q", "there"]);
    place.with_git(&["merge", "-q", "--no-edit", "here"]);
    assert_eq!(place.beads(&[]).json(), merged);

    let mut titles = place.titles(&[]);
    titles.retain(|title| !title.starts_with("Decide about "));
    assert_eq!(titles, ["made there", "shared", "closed here", "escalated there", "made here"]);
    // No event of either side is lost, and the latest status is taken.
    for (id, events, status) in [
        (shared, &["rejected", "approved"][..], "approved"),
        (closed, &["approved", "closed"], "closed"),
        (escalated, &["escalated", "approved"], "escalated"),
    ] {
        let bead = place.show(id);
        let history = bead["history"].as_array().unwrap();
        let found: Vec<&str> =
            history.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!((found.as_slice(), &bead["status"]), (events, &json!(status)), "{bead:#}");
    }
    // Merged beads can be changed as usual.
    place.do_all(&[json!({"type": "close_bead", "bead_id": shared})]);
}

#[test]
fn two_processes_lose_no_bead_and_no_event() {
    let place = Place::new();
    let id = place.create(json!({"title": "shared"}));
    let envelope = |who: &str| {
        let create = json!({"type": "create_bead", "bead": {"title": who, "project_id": "p"}});
        let reject = json!({"type": "reject_bead", "bead_id": id, "reason": who});
        let actions: Vec<Value> = (0..20).flat_map(|_| [create.clone(), reject.clone()]).collect();
        let file = place.workspace().with_file_name(format!("{who}.json"));
        fs::write(&file, json!({ "actions": actions }).to_string()).unwrap();
        file
    };
    let children = ["one", "two"].map(|who| {
        let file = envelope(who);
        let mut command = place.command(&["run", file.to_str().unwrap()]);
        command.stdout(Stdio::null()).spawn().unwrap()
    });
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(place.titles(&[]).len(), 41);
    assert_eq!(place.show(&id)["history"].as_array().unwrap().len(), 40);
}
