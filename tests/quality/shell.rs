//! `run_command`, `bash`, `git_status` and `git_diff`.

use serde_json::json;

use super::{configure, configure_programs, executed, project, run};
use crate::support::Place;

const SHELL: &str = "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n";

#[test]
fn the_shell_is_disabled_unless_granted() {
    let place = Place::new();
    for action in [
        json!({"type": "run_command", "command": "echo hello"}),
        json!({"type": "bash", "command": "echo hello"}),
    ] {
        let result = run(&place, &[action]).remove(0);
        assert_eq!(result["status"], "error", "{result:#}");
        assert_eq!(result["metadata"]["outcome"], "denied", "{result:#}");
        assert!(result["message"].as_str().unwrap().contains("[grants.shell]"), "{result:#}");
    }
}

#[test]
fn commands_run_in_the_given_directory() {
    let place = Place::new();
    configure_programs(&place, SHELL);
    place.write("frontend/package.json", "{}");
    let answer = executed(
        &place,
        json!({"type": "run_command", "command": "pwd; echo made > made", "working_dir": "frontend"}),
    );
    assert_eq!(answer["exit_code"], 0, "{answer:#}");
    assert!(!answer["command_id"].as_str().unwrap().is_empty(), "{answer:#}");
    assert!(answer["output"].as_str().unwrap().contains("frontend"), "{answer:#}");
    assert_eq!(place.read("frontend/made"), "made\n");
    assert_eq!(place.run(&["undo"]).status, 0);
    assert!(!place.workspace().join("frontend/made").exists());

    let result =
        run(&place, &[json!({"type": "run_command", "command": "echo half > half; exit 3"})])
            .remove(0);
    assert_eq!(
        (&result["status"], &result["message"]),
        (&json!("error"), &json!("command execution failed")),
        "{result:#}"
    );
    assert_eq!(result["metadata"]["detail"]["exit_code"], 3, "{result:#}");
    assert!(!place.workspace().join("half").exists());
}

#[test]
fn named_files_stay_although_the_command_fails() {
    for tier in ["A", "B"] {
        let place = Place::new();
        configure(&place, &format!("{SHELL}[programs]\ntier = '{tier}'\n"));
        place.write("source", "old\n");
        place.write("reports/old.xml", "old\n");
        let call = |command: &str, files: &[&str]| {
            let action = json!({"type": "run_command", "command": command, "keep_files": files});
            run(&place, &[action]).remove(0)
        };
        let tests = "echo half > source; mkdir -p deep/er; echo 1 > deep/er/junit.xml; \
            echo 2 > deep/other; echo 3 > reports/new.xml; rm reports/old.xml; echo out; exit 1";
        let answer = call(tests, &["deep/er/junit.xml", "./reports", "none/such"]);
        assert_eq!(answer["metadata"]["exit_code"], 1, "{tier}: {answer:#}");
        assert_eq!(answer["metadata"]["output"], "out\n", "{tier}: {answer:#}");
        assert_eq!(place.read("source"), "old\n", "{tier}");
        assert_eq!(place.read("deep/er/junit.xml"), "1\n", "{tier}");
        assert_eq!(place.read("reports/new.xml"), "3\n", "{tier}");
        assert!(!place.workspace().join("reports/old.xml").exists(), "{tier}");
        assert!(!place.workspace().join("deep/other").exists(), "{tier}");
        assert_eq!(place.run(&["undo"]).status, 0, "{tier}");
        assert_eq!(place.read("reports/old.xml"), "old\n", "{tier}");
        assert!(!place.workspace().join("deep").exists(), "{tier}");

        // A command that succeeds leaves everything.
        let answer = call("echo new > source; echo 1 > report", &["report"]);
        assert_eq!(answer["metadata"]["exit_code"], 0, "{tier}: {answer:#}");
        assert_eq!((place.read("source"), place.read("report")), ("new\n".into(), "1\n".into()));
    }
}

#[test]
fn files_that_may_not_be_kept_are_refused() {
    let place = Place::new();
    configure_programs(&place, SHELL);
    place.write("file", "old\n");
    let outside = place.workspace().parent().unwrap().join("outside");
    std::fs::write(&outside, "old\n").unwrap();
    let leave = format!("ln -s {} link; echo new > file; exit 1", outside.display());
    for (command, files, complaint) in [
        ("exit 1", vec!["../outside"], "PathNotAllowed"),
        ("exit 1", vec!["/etc/passwd"], "PathNotAllowed"),
        ("exit 1", vec!["."], "no file or directory below the workspace"),
        ("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; exit 1", vec![".git"], ".git"),
        ("echo x > cofferdam.toml; exit 1", vec!["cofferdam.toml"], "cofferdam.toml"),
        (&leave, vec!["file", "link"], "link"),
        ("rm file; mkfifo file; exit 1", vec!["file", ".git/config", "../x"], "PathNotAllowed"),
    ] {
        let action = json!({"type": "run_command", "command": command, "keep_files": files});
        let refused = run(&place, &[action]).remove(0);
        assert_eq!(refused["status"], "error", "{command}: {refused:#}");
        assert!(refused.to_string().contains(complaint), "{command}: {refused:#}");
        assert_eq!(place.read("file"), "old\n", "{command}");
        for made in ["link", ".git"] {
            assert!(!place.workspace().join(made).exists(), "{command}");
        }
    }
}

#[test]
fn bash_fails_as_its_source_says() {
    let place = Place::new();
    configure_programs(&place, SHELL);
    for (args, code) in [
        (json!({"command": "sleep 60", "timeout_ms": 1000}), "TimeoutError"),
        (json!({"command": "no-such-program-here"}), "CommandNotFoundError"),
        (json!({"command": "exit 1"}), "ExitCode"),
        (json!({"command": "/etc/passwd"}), "PermissionDenied"),
    ] {
        let ended = place.run(&["call", "bash", &args.to_string()]);
        assert_ne!(ended.status, 0, "{args}: {ended:?}");
        assert!(ended.stdout.contains(code), "{args}: {ended:?}");
    }
    let refused = place.run(&["call", "bash", r#"{"command": "true", "timeout_ms": 10}"#]);
    assert_eq!(refused.status, 2, "{refused:?}");
    let fine = place.run(&[
        "call",
        "bash",
        r#"{"command": "echo $((6 * 7)) | cat", "description": "Multiply"}"#,
    ]);
    assert_eq!(fine.status, 0, "{fine:?}");
    assert!(fine.stdout.contains("42"), "{fine:?}");
}

#[test]
fn git_runs_no_planted_command() {
    let place = project("python", "");
    let result = run(&place, &[json!({"type": "git_status"})]).remove(0);
    assert_eq!(result["status"], "error", "{result:#}");
    place.with_git(&["init", "-q"]);
    place.with_git(&["add", "."]);
    place.with_git(&["commit", "-q", "-m", "all"]);
    place.write("shop/__init__.py", "changed = True\n");
    place.write("new file", "");
    // Everything in a workspace that git could execute.
    let planted = place.workspace().join("planted");
    let plant = format!("touch {}", planted.display());
    for (key, value) in [
        ("core.fsmonitor", plant.as_str()),
        ("core.pager", &plant),
        ("diff.external", &plant),
        ("filter.evil.clean", &plant),
        ("diff.evil.textconv", &plant),
        ("core.sshCommand", &plant),
    ] {
        place.with_git(&["config", key, value]);
    }
    place.write(".gitattributes", "*.py filter=evil diff=evil\n");
    place.write(".git/hooks/post-index-change", format!("#!/bin/sh\n{plant}\n"));
    let status = executed(&place, json!({"type": "git_status"}));
    let output = status["output"].as_str().unwrap();
    assert!(output.contains("shop/__init__.py") && output.contains("new file"), "{output}");
    let diff = executed(&place, json!({"type": "git_diff"}));
    assert!(diff["output"].as_str().unwrap().contains("+changed = True"), "{diff:#}");
    assert!(!planted.exists());
}
