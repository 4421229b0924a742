//! Files that other programs execute by their names: writing one is reported, asked about or
//! refused, by any tool.

use serde_json::{Value, json};

use crate::mcp::server::{Request, Server};
use crate::support::{Ended, Place};
use crate::trial::configure;

const PATCH: &str = "diff --git a/.husky/pre-commit b/.husky/pre-commit\n--- a/.husky/pre-commit\n\
                     +++ b/.husky/pre-commit\n@@ -1 +1 @@\n-before\n+after\n";

fn write(path: &str, content: &str) -> Value {
    json!({"type": "write_file", "path": path, "content": content})
}

fn run(place: &Place, options: &[&str], actions: &[Value]) -> (Ended, Vec<Value>) {
    let args = [&["run"], options].concat();
    let ended = place.run_with(&args, &json!({ "actions": actions }).to_string());
    let results = ended.json()["results"].as_array().unwrap().clone();
    (ended, results)
}

fn place(settings: &str) -> Place {
    let place = Place::new();
    configure(&place, settings);
    place.write(".husky/pre-commit", "before\n");
    place
}

#[test]
fn writing_executed_files_is_reported() {
    let place = place("");
    let actions = [
        write(".envrc", "x\n"),
        json!({"type": "apply_patch", "patch": PATCH}),
        write("src/plain", "x\n"),
    ];
    let (_, results) = run(&place, &[], &actions);
    let direnv = "wrote .envrc, which direnv runs when the directory is entered";
    let hook = "wrote .husky/pre-commit, which git runs as hooks, on a commit and the like";
    assert_eq!(results[0]["warnings"], json!([direnv]));
    assert_eq!(results[1]["warnings"], json!([hook]));
    assert_eq!(results[2].get("warnings"), None, "{results:?}");
    let log = place.run(&["log", "--format", "text"]);
    assert_eq!(log.stdout.matches(direnv).count(), 1, "{log:?}");
    let records = place.run(&["log", "--commits"]).json();
    let commits = records["records"].as_array().unwrap();
    let named = |what: &str| commits.iter().any(|commit| commit["executed"] == json!([what]));
    assert!(named(direnv) && named(hook), "{records}");
    // An undo that restores such a file reports it as well.
    let undone = place.run(&["undo", "--format", "text"]);
    assert!(!undone.stdout.contains("wrote"), "{undone:?}");
    let undone = place.run(&["undo", "--format", "text"]);
    assert!(undone.stdout.contains(hook), "{undone:?}");
    // `cofferdam call` reports it beside the answer.
    let args = json!({"path": ".vscode/tasks.json", "content": "{}"}).to_string();
    let called = place.run(&["call", "files.write_file", &args]);
    assert!(
        called.stderr.contains("warning: wrote .vscode/tasks.json, which VS Code"),
        "{called:?}"
    );
    // Each call of a transaction reports its own files; a discarded transaction reports none.
    let actions = [write("a", ""), write(".envrc", "y\n"), write(".idea/x", "")];
    let (_, results) = run(&place, &["--atomic"], &actions);
    let count = |result: &Value| result["warnings"].as_array().map_or(0, Vec::len);
    assert_eq!(results.iter().map(count).collect::<Vec<_>>(), [0, 1, 1], "{results:?}");
    let (_, results) = run(&place, &["--atomic"], &[write(".envrc", "z"), write(".git/x", "")]);
    assert_eq!(results[0].get("warnings"), None, "{results:?}");
}

#[test]
fn files_that_gits_configuration_runs_are_reported() {
    let place = place("");
    place.with_git(&["init", "-q"]);
    for (key, value) in [
        ("core.hooksPath", "tools/hooks"),
        ("filter.x.clean", "sh tools/clean.sh %f"),
        ("commit.template", "tools/template"),
    ] {
        place.with_git(&["config", key, value]);
    }
    std::fs::remove_dir_all(place.workspace().join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink("../scripts", place.workspace().join(".git/hooks")).unwrap();
    std::fs::create_dir(place.workspace().join("scripts")).unwrap();
    for (path, wanted) in [
        ("tools/hooks/pre-commit", Some("git runs as a hook (by .git)")),
        ("scripts/post-merge", Some("git runs as a hook (by .git)")),
        ("tools/clean.sh", Some("git runs (by the configuration in .git)")),
        ("tools/template", None),
        ("tools/other.sh", None),
    ] {
        let (_, results) = run(&place, &[], &[write(path, "x\n")]);
        let wanted = wanted.map(|wanted| json!([format!("wrote {path}, which {wanted}")]));
        assert_eq!(results[0].get("warnings"), wanted.as_ref(), "{results:?}");
    }
}

/// A link gives a file elsewhere the name by which it is executed.
#[test]
fn what_is_executed_through_a_link_is_named() {
    let place = place("");
    std::fs::create_dir_all(place.workspace().join("conf")).unwrap();
    std::fs::create_dir_all(place.workspace().join("app/shared")).unwrap();
    std::os::unix::fs::symlink("conf", place.workspace().join(".vscode")).unwrap();
    std::os::unix::fs::symlink("../shared", place.workspace().join("app/.idea")).unwrap();
    std::fs::create_dir(place.workspace().join("shared")).unwrap();
    let line = |path: &str, program: &str, name: &str| {
        json!([format!(
            "wrote {path}, which {program} commands from when the directory is opened (as {name})"
        )])
    };
    let (code, jetbrains) = ("VS Code and its relatives read", "JetBrains' IDEs read");
    for (written, wanted) in [
        // Through the link, and by its own name beneath the directory of the link.
        (".vscode/tasks.json", Some(line("conf/tasks.json", code, ".vscode/tasks.json"))),
        ("conf/settings.json", Some(line("conf/settings.json", code, ".vscode/settings.json"))),
        ("app/.idea/x.xml", Some(line("shared/x.xml", jetbrains, "app/.idea/x.xml"))),
        ("app/shared/x.xml", None),
    ] {
        let (_, results) = run(&place, &[], &[write(written, "{}")]);
        assert_eq!(results[0].get("warnings"), wanted.as_ref(), "{written}: {results:?}");
    }
    let log = place.run(&["log", "--format", "text"]);
    assert!(log.stdout.contains("(as .vscode/tasks.json)"), "{log:?}");
}

#[test]
fn executed_files_are_refused_by_a_roles_settings() {
    let role = "[roles.careful]\ntools = ['*']\nexecuted = 'refused'\n";
    let place = place(role);
    for action in [write(".envrc", "x\n"), json!({"type": "apply_patch", "patch": PATCH})] {
        for options in [&["--role", "careful"][..], &["--role", "careful", "--atomic"]] {
            let (_, results) = run(&place, options, std::slice::from_ref(&action));
            assert_eq!(results[0]["metadata"]["outcome"], "denied", "{results:?}");
            assert_eq!(results[0]["metadata"]["code"], "PermissionError", "{results:?}");
            let reason = results[0]["metadata"]["reason"].as_str().unwrap();
            assert!(reason.contains("which"), "{reason}");
        }
    }
    assert!(!place.workspace().join(".envrc").exists());
    assert_eq!(place.read(".husky/pre-commit"), "before\n");
    let (_, results) = run(&place, &["--role", "careful"], &[write("plain", "x")]);
    assert_eq!(results[0]["status"], "executed", "{results:?}");
    // A role can't be laxer than the settings.
    configure(&place, "executed = 'refused'\n[roles.lax]\ntools = ['*']\nexecuted = 'named'\n");
    for options in [&["--role", "lax"][..], &[]] {
        let (_, results) = run(&place, options, &[write(".envrc", "x")]);
        assert_eq!(results[0]["metadata"]["outcome"], "denied", "{results:?}");
    }
    configure(&place, "executed = 'sometimes'\n");
    let ended = place.run(&["policy", "show"]);
    assert!(ended.stderr.contains("refused"), "{ended:?}");
}

#[test]
fn executed_files_are_not_written_if_the_user_can_not_be_asked() {
    let place = place("executed = 'ask'\n");
    for options in [&[][..], &["--atomic"], &["--dry-run"]] {
        let (_, results) = run(&place, options, &[write(".envrc", "x\n")]);
        assert_eq!(results[0]["metadata"]["code"], "ApprovalNeeded", "{results:?}");
        let reason = results[0]["metadata"]["reason"].as_str().unwrap();
        assert!(reason.contains(".envrc, which direnv runs"), "{reason}");
    }
    assert!(!place.workspace().join(".envrc").exists());
    let (_, results) = run(&place, &[], &[write("plain", "x")]);
    assert_eq!(results[0]["status"], "executed", "{results:?}");
}

/// An MCP client gets the report after the answer, or the refusal.
#[test]
fn mcp_clients_are_told_about_executed_files() {
    for (settings, wanted) in [
        ("", "[Warning: wrote .envrc, which direnv runs when the directory is entered]"),
        ("executed = 'refused'\n", "PermissionError: nothing was changed"),
        ("executed = 'ask'\n", "this call needs the yes of a person"),
    ] {
        let place = place(settings);
        let server = Server::new(&place, &[]);
        let arguments = json!({"path": ".envrc", "content": "x\n"});
        let params = json!({"name": "files.write_file", "arguments": arguments});
        let (_, _, body) = server.ask(&Request::post("/mcp", "tools/call", &params));
        assert!(body.contains(wanted), "{settings}: {body}");
        assert_eq!(place.workspace().join(".envrc").exists(), settings.is_empty());
    }
}
