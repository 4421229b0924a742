//! Repositories that programs create or change: in both kinds of sandbox, the changes are not kept.

use serde_json::json;

use super::{ALL, TIERS, ran, runner, script_with, text};
use crate::hostile::repositories::Canary;
use crate::support::Place;

/// Turns a directory into a repository whose configuration runs a command.
const PLANT: &str = "mkdir -p docs/objects docs/refs && cp payload docs/config
echo 'ref: refs/heads/main' > docs/HEAD";

#[test]
fn no_program_makes_or_changes_a_repository() {
    for tier in TIERS {
        for (work, wanted) in [
            (PLANT, "docs/ would be a git repository"),
            ("cp -r fixture.git copy", "copy/ would be a git repository"),
            ("mv fixture.git moved", "fixture.git"),
            ("cp payload .bare/config", ".bare/ is a git repository"),
            ("rm -r .bare && mkdir .bare && cp payload .bare/config", ".bare"),
            ("mkdir x; mv fixture.git/refs x/; mv fixture.git/HEAD x/", "fixture.git"),
            ("git init -q new", ".git"),
            ("git init -q --bare new", "new"),
            ("mkdir -p a && ln -s ../fixture.git a/.git", ".git"),
            (
                "mkdir -p a/objects && ln -s ../src a/refs && ln -s refs/heads/x a/HEAD",
                "a/ would be",
            ),
            ("echo x > nested/.cofferdam/journal.jsonl", ""),
        ] {
            let place = Place::new();
            let canary = Canary::new(&place);
            place.write("payload", &canary.config);
            place.write("src/file", "");
            place.write("nested/.cofferdam/journal.jsonl", "theirs\n");
            place.with_git(&["init", "-q", "--bare", ".bare"]);
            place.with_git(&["init", "-q", "--bare", "fixture.git"]);
            place.write(".git", "gitdir: .bare\n");
            let (before, fixture) = (place.read(".bare/config"), place.read("fixture.git/config"));
            let trial = runner(place, tier, ALL);
            let done = ran(&trial, script_with(work, "changes", json!("keep")));
            // If mounts protect the repository, the program itself gets an error.
            let program_failed = done["end"] != json!({"exited": 0}) && done["error"].is_null();
            assert!(
                wanted.is_empty()
                    || program_failed
                    || text(&done, "error") == "changes" && text(&done, "message").contains(wanted),
                "{tier} {work}: {done}"
            );
            let place = &trial.place;
            assert_eq!(place.read(".bare/config"), before, "{tier} {work}");
            assert_eq!(place.read("fixture.git/config"), fixture, "{tier} {work}");
            assert_eq!(place.read("nested/.cofferdam/journal.jsonl"), "theirs\n", "{tier} {work}");
            assert!(!canary.ran(place), "{tier} {work}: {done}");
        }
    }
}

/// The parts are created by several calls, each of which is harmless by itself.
#[test]
fn no_repository_is_completed_by_several_calls() {
    for tier in TIERS {
        let place = Place::new();
        let canary = Canary::new(&place);
        place.write("payload", &canary.config);
        let trial = runner(place, tier, ALL);
        let keep = |work: &str| ran(&trial, script_with(work, "changes", json!("keep")));
        for work in [
            "mkdir -p docs/objects && echo x > docs/objects/x",
            "cp payload docs/config",
            "echo 'ref: refs/heads/main' > docs/HEAD",
        ] {
            let done = keep(work);
            assert_eq!(done["end"], json!({"exited": 0}), "{tier} {work}: {done}");
        }
        for work in ["mkdir docs/refs", "echo ../src > docs/commondir", "mv docs b; mkdir b/refs"] {
            let done = keep(work);
            assert_eq!(text(&done, "error"), "changes", "{tier} {work}: {done}");
            assert!(text(&done, "message").contains("would be a git repository"), "{done}");
            assert!(!canary.ran(&trial.place), "{tier} {work}");
        }
        std::fs::create_dir(trial.place.workspace().join("docs/refs")).unwrap();
        assert!(canary.ran(&trial.place), "{tier}");
    }
}
