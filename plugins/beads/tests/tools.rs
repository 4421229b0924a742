//! What the tools change in a workspace, and that arguments and results fit their schemas.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use cofferdam_beads::call;
use cofferdam_beads_format::bead::ATTRIBUTES;
use cofferdam_beads_format::{Bead, Change, Id, Kind, Status};
use cofferdam_sdk::{Context, ErrorKind};
use serde_json::{Value, json};
use tempfile::TempDir;

const TOOLS: [&str; 6] =
    ["create_bead", "close_bead", "escalate_ceo", "approve_bead", "reject_bead", "ask_followup"];

/// The input or output schema of a tool.
fn schema(tool: &str, side: &str) -> Value {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schemas/tools");
    let file = root.join(format!("beads.{tool}.{side}.json"));
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// A temporary directory as a workspace.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Calls a tool and checks arguments and result against the schemas; a failure is its code and
    /// message.
    fn call(&self, tool: &str, args: Value) -> Result<Value, (String, String)> {
        jsonschema::validate(&schema(tool, "input"), &args).unwrap_or_else(|e| panic!("{e}"));
        let context = Context::for_directory(self.0.path());
        match call(tool, &args.to_string(), &context) {
            Ok(answer) => {
                let answer = serde_json::from_str(&answer).unwrap();
                jsonschema::validate(&schema(tool, "output"), &answer)
                    .unwrap_or_else(|e| panic!("{e}"));
                Ok(answer)
            }
            Err(error) => Err((error.code, error.message)),
        }
    }

    fn create(&self) -> String {
        let bead = json!({"bead": {"title": "Fix it", "project_id": "proj-123"}});
        text(&self.call("create_bead", bead).unwrap()["bead_id"])
    }

    fn path(&self, id: &str) -> PathBuf {
        self.0.path().join(".beads").join(format!("{id}.yaml"))
    }

    fn file(&self, id: &str) -> String {
        fs::read_to_string(self.path(id)).unwrap()
    }

    fn bead(&self, id: &str) -> Bead {
        Bead::parse(self.file(id)).unwrap()
    }

    fn status(&self, id: &str) -> Status {
        self.bead(id).status()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn every_example_is_accepted() {
    for tool in TOOLS {
        let input = schema(tool, "input");
        let examples = input["examples"].as_array().unwrap();
        assert!(!examples.is_empty(), "{tool}");
        for example in examples {
            let place = Place::new();
            // The examples of the actions reference name such a bead.
            let id = place.create();
            fs::rename(place.path(&id), place.path("bead-abc-123")).unwrap();
            place.call(tool, example.clone()).unwrap_or_else(|error| panic!("{tool}: {error:?}"));

            let mut unknown = example.clone();
            unknown["unknown"] = Value::Null;
            assert!(!jsonschema::is_valid(&input, &unknown), "{tool}");
            let context = Context::for_directory(place.0.path());
            assert!(call(tool, &unknown.to_string(), &context).is_err(), "{tool}");
        }
    }
}

#[test]
fn arguments_outside_the_actions_reference_do_not_fit() {
    let bead = |field: &str, value: Value| {
        let mut bead = json!({"title": "x", "project_id": "p"});
        bead[field] = value;
        ("create_bead", json!({ "bead": bead }))
    };
    for (tool, args) in [
        ("create_bead", json!({})),
        ("create_bead", json!({"bead": {"title": "x"}})),
        ("create_bead", json!({"bead": {"project_id": "p"}})),
        ("create_bead", json!({"title": "x", "project_id": "p"})),
        bead("title", json!("")),
        bead("title", json!(" \n")),
        bead("project_id", json!("")),
        bead("priority", json!(-1)),
        bead("priority", json!(5)),
        bead("priority", json!(1.5)),
        bead("priority", json!("1")),
        bead("type", json!("decision")),
        bead("type", json!("chore")),
        bead("type", json!("Bug")),
        bead("tags", json!("security")),
        bead("tags", json!([1])),
        bead("tags", json!([""])),
        bead("status", json!("open")),
        ("close_bead", json!({})),
        ("close_bead", json!({"reason": "x"})),
        ("close_bead", json!({"bead_id": ""})),
        ("close_bead", json!({"bead_id": 7})),
        ("escalate_ceo", json!({"reason": "x"})),
        ("escalate_ceo", json!({"bead_id": "bead-a", "returned_to": ""})),
        ("approve_bead", json!({"reason": "x"})),
        ("reject_bead", json!({"bead_id": "bead-a"})),
        ("reject_bead", json!({"bead_id": "bead-a", "reason": " "})),
        ("reject_bead", json!({"reason": "x"})),
        ("ask_followup", json!({})),
        ("ask_followup", json!({"question": " "})),
    ] {
        assert!(!jsonschema::is_valid(&schema(tool, "input"), &args), "{tool} {args}");
    }
    for priority in 0..=4 {
        let (tool, args) = bead("priority", json!(priority));
        let place = Place::new();
        let id = text(&place.call(tool, args).unwrap()["bead_id"]);
        assert_eq!(place.bead(&id).priority.get(), priority);
    }
    for kind in ["task", "bug", "feature", "epic"] {
        let (tool, args) = bead("type", json!(kind));
        let place = Place::new();
        let id = text(&place.call(tool, args).unwrap()["bead_id"]);
        assert_eq!(place.bead(&id).kind.as_str(), kind);
    }
    // JSON does not distinguish integers from such numbers.
    let (tool, args) = bead("priority", json!(1.0));
    assert!(Place::new().call(tool, args).is_ok());
}

#[test]
fn a_bead_file_has_one_line_per_field() {
    let place = Place::new();
    let example = &schema("create_bead", "input")["examples"][0];
    let id = text(&place.call("create_bead", example.clone()).unwrap()["bead_id"]);
    assert_eq!(id.parse::<Id>().unwrap().as_str(), id);
    let file = place.file(&id);
    let created = place.bead(&id).created;
    assert_eq!(
        file,
        format!(
            "title: \"Fix authentication bug\"\n\
             type: \"bug\"\n\
             priority: 1\n\
             project_id: \"proj-123\"\n\
             tags: [\"security\",\"urgent\"]\n\
             description: \"Users cannot login after password reset\"\n\
             created: \"{created}\"\n\
             history:\n"
        )
    );
    // Fields without a value are not written.
    let least = place.bead(&place.create());
    assert_eq!((least.kind, least.priority.get()), (Kind::Task, 2));
    assert_eq!((least.tags.len(), least.description), (0, None));
    // The file for git is created, and an existing one is not changed.
    let (name, attributes) = ATTRIBUTES;
    let path = place.0.path().join(".beads").join(name);
    assert_eq!(fs::read_to_string(&path).unwrap(), attributes);
    fs::write(&path, "mine\n").unwrap();
    place.create();
    assert_eq!(fs::read_to_string(&path).unwrap(), "mine\n");
}

#[test]
fn ids_do_not_collide() {
    let place = Place::new();
    let ids: BTreeSet<String> = (0..200).map(|_| place.create()).collect();
    assert_eq!(ids.len(), 200);
}

#[test]
fn a_bead_is_reviewed_and_closed() {
    let place = Place::new();
    let id = place.create();
    let before = place.file(&id);
    let rejected = place
        .call("reject_bead", json!({"bead_id": id, "reason": "Missing error handling in new code"}))
        .unwrap();
    assert_eq!(rejected, json!({"bead_id": id, "reason": "Missing error handling in new code"}));
    assert_eq!(place.status(&id), Status::Rejected);
    let approved = json!({"bead_id": id, "reason": "Code review passed, tests are comprehensive"});
    assert_eq!(place.call("approve_bead", approved).unwrap(), json!({ "bead_id": id }));
    assert_eq!(place.status(&id), Status::Approved);
    let closed = json!({"bead_id": id, "reason": "Fixed authentication bug and added tests"});
    assert_eq!(place.call("close_bead", closed).unwrap(), json!({ "bead_id": id }));
    assert_eq!(place.status(&id), Status::Closed);
    // Earlier lines are unchanged, and each action has added one.
    let file = place.file(&id);
    let added: Vec<&str> = file.strip_prefix(&before).unwrap().lines().collect();
    assert_eq!(added.len(), 3, "{file}");
    let times: Vec<_> = place.bead(&id).history.iter().map(|event| event.at).collect();
    assert!(times.is_sorted() && times[0] < times[1] && times[1] < times[2], "{times:?}");
}

#[test]
fn refused_actions_change_nothing() {
    let place = Place::new();
    let id = place.create();
    let reason = |reason: &str| json!({"bead_id": id, "reason": reason});
    place.call("reject_bead", reason("no tests")).unwrap();
    let refused = |tool: &str, args: Value, code: &str| {
        let before = place.file(&id);
        let (found, message) = place.call(tool, args).unwrap_err();
        assert_eq!(found, code, "{tool}: {message}");
        assert!(message.contains(&id), "{message}");
        assert_eq!(place.file(&id), before);
    };
    refused("close_bead", json!({ "bead_id": id }), "BeadRejected");
    refused("close_bead", reason(" "), "BeadRejected");
    place.call("approve_bead", json!({ "bead_id": id })).unwrap();
    refused("approve_bead", json!({ "bead_id": id }), "BeadApproved");
    place.call("close_bead", json!({ "bead_id": id })).unwrap();
    for (tool, args) in [
        ("close_bead", json!({ "bead_id": id })),
        ("approve_bead", json!({ "bead_id": id })),
        ("reject_bead", reason("late")),
        ("escalate_ceo", json!({ "bead_id": id })),
    ] {
        refused(tool, args, "BeadClosed");
    }
}

#[test]
fn an_escalated_bead_waits_for_its_decision() {
    for (tool, args, code) in [
        ("approve_bead", json!({}), Some("DecisionMade")),
        ("reject_bead", json!({"reason": "too dear"}), Some("DecisionMade")),
        ("close_bead", json!({"reason": "PostgreSQL"}), Some("BeadClosed")),
    ] {
        let place = Place::new();
        let id = place.create();
        let escalation = json!({
            "bead_id": id,
            "reason": "Need architectural decision on database choice",
            "returned_to": "agent-456",
        });
        let answer = place.call("escalate_ceo", escalation).unwrap();
        let decision_id = text(&answer["decision_id"]);
        assert_eq!(answer, json!({ "decision_id": decision_id }));

        // Each refers to the other.
        let (bead, decision) = (place.bead(&id), place.bead(&decision_id));
        assert_eq!(decision.kind, Kind::Decision);
        assert_eq!(decision.decides.as_ref().map(Id::as_str), Some(id.as_str()));
        assert_eq!(decision.returned_to.as_deref(), Some("agent-456"));
        assert_eq!(decision.title, format!("Decide about {id}: Fix it"));
        let reason = Some("Need architectural decision on database choice");
        assert_eq!(decision.description.as_deref(), reason);
        assert_eq!((decision.priority, decision.project_id), (bead.priority, bead.project_id));
        let Change::Escalated { decision: link, reason: why } = &bead.history[0].change else {
            panic!("{:?}", bead.history)
        };
        assert_eq!((link.as_str(), why.as_deref()), (decision_id.as_str(), reason));

        // Until then, the bead can't be changed, and the decision can't be escalated.
        assert_eq!(place.status(&id), Status::Escalated);
        for early in ["approve_bead", "close_bead", "escalate_ceo"] {
            let (found, message) = place.call(early, json!({ "bead_id": id })).unwrap_err();
            assert_eq!(found, "BeadEscalated");
            assert!(message.contains(&decision_id), "{message}");
        }
        let again = place.call("escalate_ceo", json!({ "bead_id": decision_id }));
        assert_eq!(again.unwrap_err().0, "NotEscalatable");

        let mut args = args;
        args["bead_id"] = json!(decision_id);
        place.call(tool, args).unwrap();
        assert_eq!(place.status(&id), Status::Open);
        let change = &place.bead(&id).history[1].change;
        assert_eq!(*change, Change::Decided { decision: decision_id.parse().unwrap() });
        let twice = place.call("approve_bead", json!({ "bead_id": decision_id }));
        assert_eq!(twice.unwrap_err().0, code.unwrap());
        place.call("approve_bead", json!({ "bead_id": id })).unwrap();
        // Closing a decision that was made does not release the bead a second time.
        if tool != "close_bead" {
            place.call("close_bead", json!({ "bead_id": decision_id })).unwrap();
            assert_eq!(place.bead(&id).history.len(), 3);
        }
    }
}

#[test]
fn a_decision_can_be_made_if_its_bead_was_deleted() {
    let place = Place::new();
    let id = place.create();
    let answer = place.call("escalate_ceo", json!({ "bead_id": id })).unwrap();
    let decision_id = text(&answer["decision_id"]);
    fs::remove_file(place.path(&id)).unwrap();
    place.call("approve_bead", json!({ "bead_id": decision_id })).unwrap();
    assert_eq!(place.status(&decision_id), Status::Approved);
    assert!(!place.path(&id).exists());
}

#[test]
fn a_question_is_a_bead_that_is_closed_with_the_response() {
    let place = Place::new();
    let question = "Should I use PostgreSQL or MySQL for the database?";
    let id = text(&place.call("ask_followup", json!({ "question": question })).unwrap()["bead_id"]);
    let bead = place.bead(&id);
    assert_eq!((bead.kind, bead.title.as_str()), (Kind::Question, question));
    assert_eq!((bead.description, bead.project_id), (None, None));
    place.call("close_bead", json!({"bead_id": id, "reason": "PostgreSQL"})).unwrap();
    let answer = Change::Closed { reason: Some("PostgreSQL".to_owned()) };
    assert_eq!(place.bead(&id).history[0].change, answer);
    for (question, title) in [
        ("Which?\n\n1. This\n2. That", "Which?"),
        (&"ä".repeat(101), &format!("{}...", "ä".repeat(100))),
        (&"ä".repeat(100), &"ä".repeat(100)),
        ("  Which?", "Which?"),
    ] {
        let answer = place.call("ask_followup", json!({ "question": question })).unwrap();
        let bead = place.bead(&text(&answer["bead_id"]));
        assert_eq!(bead.title, title);
        assert_eq!(bead.description.as_deref(), (title != question).then_some(question));
    }
}

#[test]
fn a_bead_is_found_by_an_abbreviated_id() {
    let place = Place::new();
    let id = place.create();
    for name in ["bead-abc-123", "bead-abc-456"] {
        fs::copy(place.path(&id), place.path(name)).unwrap();
    }
    for (given, wanted) in [("bead-abc-1", "bead-abc-123"), ("abc-4", "bead-abc-456")] {
        let answer = place.call("approve_bead", json!({ "bead_id": given })).unwrap();
        assert_eq!(answer["bead_id"], wanted);
    }
    for (given, code, wanted) in [
        ("bead-abc", "AmbiguousBead", "'bead-abc' could be bead-abc-123 or bead-abc-456"),
        (
            "bead-abc-132",
            "BeadNotFound",
            "there is no bead 'bead-abc-132'; did you mean 'bead-abc-123'?",
        ),
        ("../../etc/passwd", "BeadNotFound", "there is no bead '../../etc/passwd'"),
    ] {
        let (found, message) = place.call("close_bead", json!({ "bead_id": given })).unwrap_err();
        assert_eq!((found.as_str(), message.as_str()), (code, wanted));
    }
    let empty = Place::new().call("close_bead", json!({"bead_id": "bead-abc-123"})).unwrap_err();
    assert_eq!(empty.1, "there is no bead 'bead-abc-123'");
}

#[test]
fn an_invalid_file_is_reported_with_its_line_and_not_changed() {
    let place = Place::new();
    let (id, other) = (place.create(), place.create());
    let good = place.file(&id);
    for (broken, wanted) in [
        (good.replace("priority: 2", "priority: 9"), ":3: priority: expected a whole number"),
        (good.replace("\"Fix it\"", "Fix it"), ":1: title: expected value, found 'Fix it'"),
        (
            format!("{good}<<<<<<< HEAD\n- {{}}\n=======\n>>>>>>> other\n"),
            ":7: a merge conflict: keep the history of both sides",
        ),
        (format!("{good}- {{\"event\":\"closed\"}}\n"), ":7: history: missing field `at`"),
        (String::new(), ":1: the file ends without the field title"),
    ] {
        fs::write(place.path(&id), &broken).unwrap();
        for tool in ["close_bead", "approve_bead", "escalate_ceo"] {
            let (code, message) = place.call(tool, json!({ "bead_id": id })).unwrap_err();
            assert_eq!(code, "InvalidBeadFile", "{message}");
            assert!(message.starts_with(&format!(".beads/{id}.yaml{wanted}")), "{message}");
        }
        assert_eq!(place.file(&id), broken);
    }
    // Other beads can still be used.
    place.call("close_bead", json!({ "bead_id": other })).unwrap();
    // Files with CRLF and without the last line end.
    for file in [good.replace('\n', "\r\n"), good.trim_end().to_owned()] {
        fs::write(place.path(&id), file).unwrap();
        place.call("close_bead", json!({ "bead_id": id })).unwrap();
        assert_eq!(place.status(&id), Status::Closed);
    }
}

#[test]
fn an_unwritable_directory_is_bead_creator_not_configured() {
    let bead = json!({"bead": {"title": "x", "project_id": "p"}}).to_string();
    let error_in = |place: &Place, tool: &str, args: &str| {
        call(tool, args, &Context::for_directory(place.0.path())).unwrap_err()
    };
    let place = Place::new();
    fs::write(place.0.path().join(".beads"), "a file").unwrap();
    for (tool, args) in [("create_bead", bead.as_str()), ("close_bead", r#"{"bead_id": "bead-a"}"#)]
    {
        let error = error_in(&place, tool, args);
        assert_eq!(error.code, "BeadCreatorNotConfigured", "{}", error.message);
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.starts_with("beads are kept in .beads, which can't be used: "));
    }

    let place = Place::new();
    let directory = place.0.path().join(".beads");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o500)).unwrap();
    let may_all = fs::write(directory.join("probe"), "").is_ok();
    if !may_all {
        let error = error_in(&place, "create_bead", &bead);
        assert_eq!(
            (error.code.as_str(), error.kind),
            ("BeadCreatorNotConfigured", ErrorKind::Denied)
        );
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
}
