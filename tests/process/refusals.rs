//! Programs that a plugin can't start, and invalid requests to start one.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use cofferdam_core::outcome::Status;
use cofferdam_engine::host::Helper;

use super::{ALL, TIERS, ran, runner, script, script_with, text};
use crate::hostile::component::Packed;
use crate::support::{Place, built};
use crate::trial::{Trial, assert_failed};

#[test]
fn a_plugin_without_the_grant_runs_no_program() {
    let trial = Trial::with_programs(
        Place::new(),
        vec![Packed::guest("runner")],
        "[grants.runner]\nfiles = 'write'\n",
    );
    let outcome = trial.call("runner.run", script("echo"));
    assert_failed(outcome, Status::Denied, "NotGranted", "needs the grant process = [");
}

#[test]
fn only_granted_programs_start() {
    let trial = runner(Place::new(), "A", "[grants.runner]\nfiles = 'write'\nprocess = ['cat']\n");
    let denied = ran(&trial, script("echo"));
    assert_eq!(text(&denied, "error"), "denied", "{denied}");
    assert!(text(&denied, "message").contains("'bash' is not among the programs"), "{denied}");
    for program in ["/bin/cat", "../../bin/cat", "./cat", "cat ", "CAT", "", "cat\0", "sh"] {
        let denied = ran(&trial, json!({"program": program}));
        assert_eq!(text(&denied, "error"), "denied", "{program:?}: {denied}");
    }
    let ran = ran(&trial, json!({"program": "cat", "stdin": "meow"}));
    assert_eq!(text(&ran, "stdout"), "meow", "{ran}");
}

#[test]
fn a_sandbox_that_can_not_be_started_is_tried_again() {
    let place = Place::new();
    let (helper, real) = (place.home_file("helper"), built().join("cofferdam"));
    let code = place.home().join("code");
    symlink(&real, &helper).unwrap();
    let plugins = vec![Packed::guest("runner")];
    let trial = Trial::compiling(place, plugins, ALL, code, Helper::at(&helper)).unwrap();
    // The plugin is loaded.
    assert_eq!(text(&ran(&trial, json!({"program": "nobodys"})), "error"), "denied");
    fs::remove_file(&helper).unwrap();
    for _ in 0..2 {
        let unavailable = ran(&trial, script("echo here"));
        assert_eq!(text(&unavailable, "error"), "unavailable", "{unavailable}");
        assert!(text(&unavailable, "message").contains("can't be started"), "{unavailable}");
    }
    symlink(&real, &helper).unwrap();
    assert_eq!(text(&ran(&trial, script("echo here")), "stdout"), "here\n");
}

#[test]
fn a_call_that_only_reads_keeps_nothing() {
    let trial = runner(Place::new(), "A", ALL);
    let args = json!({"program": "bash", "arguments": ["-c", "echo > new"], "changes": "keep"});
    let cofferdam_core::outcome::Outcome::Executed(denied) = trial.call("runner.run_read", args)
    else {
        panic!("no answer");
    };
    assert_eq!(text(&denied, "error"), "denied", "{denied}");
    assert!(!trial.place.workspace().join("new").exists());
}

#[test]
fn a_program_in_the_workspace_is_not_found() {
    let place = Place::new();
    place.write("bin/planted", "#!/bin/sh\necho planted\n");
    let bin = place.workspace().join("bin");
    fs::set_permissions(bin.join("planted"), fs::Permissions::from_mode(0o755)).unwrap();
    let settings = format!("{ALL}[programs]\npath = ['{}']\n", bin.display());
    let trial = runner(place, "A", &settings);
    let denied = ran(&trial, json!({"program": "planted"}));
    assert_eq!(text(&denied, "error"), "denied", "{denied}");
    assert!(text(&denied, "message").contains("in the workspace itself"), "{denied}");

    // Nor is one found through a variable or the working directory.
    let place = Place::new();
    place.write("planted", "#!/bin/sh\necho planted\n");
    let planted = place.workspace().join("planted");
    fs::set_permissions(&planted, fs::Permissions::from_mode(0o755)).unwrap();
    let trial = runner(place, "A", ALL);
    let missing = ran(&trial, json!({"program": "planted"}));
    assert_eq!(text(&missing, "error"), "not found", "{missing}");
    assert!(text(&missing, "message").contains("[programs] path"), "{missing}");
    let path = json!({"PATH": trial.place.workspace()});
    let args = json!({"program": "planted", "environment": path});
    assert_eq!(text(&ran(&trial, args), "error"), "not found");
}

#[test]
fn an_operators_program_is_found_and_can_be_read() {
    let place = Place::new();
    let bin = place.home().join("tools/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("tool"), "#!/bin/sh\ncat \"$(dirname \"$0\")/../data\"\n").unwrap();
    fs::set_permissions(bin.join("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(place.home().join("tools/data"), "of the tool").unwrap();
    for (tier, readable, wanted) in [
        ("A", "['DATA']", "of the tool"),
        ("B", "['DATA']", "of the tool"),
        ("A", "[]", ""),
        ("B", "[]", ""),
    ] {
        let data = place.home().join("tools/data");
        let settings = format!(
            "{ALL}[programs]\npath = ['{}']\nreadable = {}\n",
            bin.display(),
            readable.replace("DATA", &data.display().to_string())
        );
        let trial = runner(Place::new(), tier, &settings);
        let ran = ran(&trial, json!({"program": "tool"}));
        assert_eq!(text(&ran, "stdout"), wanted, "{tier} {readable}: {ran}");
    }
}

#[test]
fn arguments_are_not_interpreted_by_a_shell() {
    for tier in TIERS {
        let trial = runner(Place::new(), tier, ALL);
        trial.place.write("a b", "spaced");
        let odd = "$(touch x); `touch x` && touch x | touch x > x * ~ ' \" \\";
        let args = json!({"program": "python3", "arguments": ["-c", "import sys; print(sys.argv[1:])", odd, "--", "-x", ""]});
        let ran_odd = ran(&trial, args);
        let wanted = format!("[{odd:?}, '--', '-x', '']\n").replace('"', "'");
        let shown =
            text(&ran_odd, "stdout").replace('"', "'").replace("\\\\", "\\").replace("\\'", "'");
        assert_eq!(shown, wanted.replace("\\\\", "\\").replace("\\'", "'"), "{ran_odd}");
        assert!(!trial.place.workspace().join("x").exists());
        let ran = ran(&trial, json!({"program": "cat", "arguments": ["a b"]}));
        assert_eq!(text(&ran, "stdout"), "spaced", "{ran}");
    }
}

#[test]
fn arguments_are_compared_with_the_rules() {
    let settings = "[grants.runner]\nfiles = 'write'\nprocess = ['cat', 'git', 'python3']\n\
        [grants.runner.arguments]\ngit = { allow = ['status **', '--version'], deny = ['** -x'] }\n\
        cat = { deny = ['secret*'] }\n";
    let trial = runner(Place::new(), "A", settings);
    trial.place.write("secret", "key");
    trial.place.write("plain", "text");
    let run = |program: &str, arguments: &[&str]| {
        ran(&trial, json!({"program": program, "arguments": arguments}))
    };
    for (program, arguments, wanted) in [
        (
            "git",
            &["push", "origin"][..],
            "`git push origin` is not allowed: the settings allow `git status **`, `git --version` \
             (arguments.git.allow under [grants.runner] in cofferdam.toml",
        ),
        ("git", &[], "`git` is not allowed"),
        ("git", &["-c", "alias.status=!id", "status"], "`git -c alias.status=!id status` is not"),
        ("git", &["status push"], "`git 'status push'` is not allowed"),
        ("git", &["--version", "push"], "`git --version push` is not allowed"),
        ("git", &["status", "-x"], "the settings deny `git ** -x` (arguments.git.deny"),
        ("cat", &["secret"], "`cat secret` is not allowed: the settings deny `cat secret*`"),
    ] {
        let refused = run(program, arguments);
        assert_eq!(text(&refused, "error"), "denied", "{arguments:?}: {refused}");
        assert!(text(&refused, "message").contains(wanted), "{arguments:?}: {refused}");
    }
    assert_eq!(text(&run("cat", &["plain"]), "stdout"), "text");
    // A program without a rule gets any arguments.
    assert_eq!(text(&run("python3", &["-c", "print(7)"]), "stdout"), "7\n");
    let version = run("git", &["--version"]);
    assert!(text(&version, "stdout").starts_with("git version"), "{version}");
}

#[test]
fn a_shell_starts_only_named_programs() {
    const LOADER: &str = "for loader in /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.*; do \
        test -e $loader && exec $loader";
    let narrowed = ALL.replace("'bash', 'cat', 'git', 'planted', 'python3', 'tool'", "'bash'");
    let narrowed = format!("{narrowed}starts.bash = ['cat', 'missing-program']\n");
    for tier in TIERS {
        let place = Place::new();
        place.write("planted", "#!/bin/bash\necho planted\n");
        fs::copy("/usr/bin/id", place.workspace().join("copied")).unwrap();
        for name in ["planted", "copied"] {
            let path = place.workspace().join(name);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let trial = runner(place, tier, &narrowed);
        for allowed in [
            "cat planted > /dev/null && echo ok",
            "/usr/bin/cat planted > /dev/null && echo ok",
            "bash -c 'echo ok'",
            "/proc/self/exe -c 'echo ok' 2>&1 || bash -c 'echo ok'",
            ". ./planted > /dev/null; echo ok",
        ] {
            let ran = ran(&trial, script(allowed));
            assert_eq!(text(&ran, "stdout").lines().last(), Some("ok"), "{tier} {allowed}: {ran}");
        }
        let refused = [
            "id".to_owned(),
            "/usr/bin/id".to_owned(),
            "/bin/../usr/bin/id".to_owned(),
            "exec id".to_owned(),
            "python3 -c 'print(1)'".to_owned(),
            "./planted".to_owned(),
            "./copied".to_owned(),
            "PATH=$PWD copied".to_owned(),
            "cat /usr/bin/id > \"$TMPDIR/id\" && echo read".to_owned(),
            "cd /proc/self/root/usr/bin && ./id".to_owned(),
            format!("{LOADER} /usr/bin/id; done; exit 1"),
        ];
        for refused in refused {
            let ended = ran(&trial, script(&refused));
            assert_ne!(ended["end"]["exited"], 0, "{tier} {refused}: {ended}");
            assert_eq!(text(&ended, "stdout"), "", "{tier} {refused}: {ended}");
            let code = ended["end"]["exited"].as_i64();
            let is_explained = text(&ended, "stderr").contains(
                "the settings let 'bash' start only: cat, missing-program (starts.bash under \
                 [grants.runner] in cofferdam.toml",
            );
            assert_eq!(is_explained, matches!(code, Some(126 | 127)), "{tier} {refused}: {ended}");
        }
        // Without the rule, all of these programs start.
        let trial = runner(trial.place, tier, ALL);
        for allowed in ["id", "/usr/bin/id", "./planted", "./copied", "PATH=$PWD copied"] {
            let ran = ran(&trial, script(allowed));
            assert_eq!(ran["end"]["exited"], 0, "{tier} {allowed}: {ran}");
        }
    }
}

#[test]
fn options_of_a_run_are_validated() {
    let trial = runner(Place::new(), "A", ALL);
    for (key, value, wanted) in [
        ("directory", json!("../"), "leaves the workspace"),
        ("directory", json!("/etc"), "leaves the workspace"),
        ("environment", json!({"A=B": "c"}), "can't be a variable"),
        ("environment", json!({"LD_PRELOAD": "x.so"}), "LD_PRELOAD is the host's to set"),
        ("environment", json!({"LD_AUDIT": "x.so"}), "LD_AUDIT is the host's to set"),
        ("environment", json!({"PATH": "."}), "PATH is the host's to set"),
        ("environment", json!({"A": "nul\0"}), "can't be a variable"),
        ("arguments", json!(["nul\0"]), "holds a NUL"),
    ] {
        let refused = ran(&trial, script_with("echo", key, value.clone()));
        assert_eq!(text(&refused, "error"), "invalid", "{key} {value}: {refused}");
        assert!(text(&refused, "message").contains(wanted), "{key} {value}: {refused}");
    }
    let missing = ran(&trial, script_with("echo", "directory", json!("no/such")));
    assert!(missing["error"].is_string(), "{missing}");
}

#[test]
fn without_a_sandbox_nothing_runs() {
    // A host without a helper, as on a system without any sandbox.
    let trial = Trial::with(Place::new(), vec![Packed::guest("runner")], ALL);
    let refused = ran(&trial, script("echo"));
    assert_eq!(text(&refused, "error"), "unavailable", "{refused}");
}

#[test]
fn a_program_gets_only_granted_environment_variables() {
    for tier in TIERS {
        let settings = ALL.replace("files", "environment = ['GRANTED_TOKEN']\nfiles");
        let trial = runner(Place::new(), tier, &settings);
        let ran = ran(&trial, script("env; echo \"$GRANTED_TOKEN\" >&2; echo ${#GRANTED_TOKEN}"));
        let stdout = text(&ran, "stdout");
        // The value is redacted in what the plugin sees; the program itself has it.
        assert!(stdout.contains("GRANTED_TOKEN=[GRANTED_TOKEN]\n"), "{ran}");
        assert!(stdout.ends_with("\n15\n"), "{ran}");
        assert_eq!(text(&ran, "stderr"), "[GRANTED_TOKEN]\n", "{ran}");
        assert!(!stdout.contains("UNGRANTED"), "{ran}");
        let mut names: Vec<&str> =
            stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        names.sort_unstable();
        names.retain(|name| !["OLDPWD", "PWD", "SHLVL", "_"].contains(name));
        let fixed = ["GRANTED_TOKEN", "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "XDG_CACHE_HOME"];
        // These tell package managers that there is no network.
        let offline = [
            "CARGO_NET_OFFLINE",
            "CARGO_NET_RETRY",
            "COREPACK_ENABLE_NETWORK",
            "GOPROXY",
            "GOTOOLCHAIN",
            "PIP_DISABLE_PIP_VERSION_CHECK",
            "PIP_RETRIES",
            "RUSTUP_AUTO_INSTALL",
            "RUSTUP_MAX_RETRIES",
            "UV_HTTP_RETRIES",
            "UV_OFFLINE",
            "UV_PYTHON_DOWNLOADS",
            "YARN_HTTP_RETRY",
            "npm_config_fetch_retries",
            "npm_config_fund",
            "npm_config_update_notifier",
        ];
        let mut wanted = [&fixed[..], &offline].concat();
        wanted.sort_unstable();
        assert_eq!(names, wanted, "{ran}");
    }
}
