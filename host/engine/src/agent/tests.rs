#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
use std::path::Path;
use std::time::Instant;

use super::*;
use cofferdam_workspace::Secret;

fn open(workspace: impl AsRef<Path>) -> Arc<Workspace> {
    Arc::new(Workspace::open(workspace.as_ref(), Secret::OfProcess).unwrap())
}

/// Runs a shell script as an agent.
fn ask(script: &str, prompt: &str, timeout: Duration) -> Result<String, String> {
    ask_until(script, prompt, timeout, std::future::pending())
}

fn ask_until(
    script: &str,
    prompt: &str,
    timeout: Duration,
    cancelled: impl Future<Output = ()>,
) -> Result<String, String> {
    let words = ["sh", "-c", script].map(str::to_owned);
    let command = AgentCommand::new(&words).unwrap();
    let environment = HashMap::from([
        ("PATH".to_owned(), "relative:/usr/bin:/bin".to_owned()),
        ("TOKEN".to_owned(), "of the person".to_owned()),
    ]);
    let agents = Agents::new(open("/var"), environment);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let question = Question {
        command: &command,
        variables: &[],
        prompt: prompt.to_owned(),
        timeout,
        max_bytes: 1 << 20,
    };
    runtime.block_on(agents.ask(question, cancelled)).map_err(|error| error.to_string())
}

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

#[test]
fn the_response_is_the_standard_output() {
    assert_eq!(ask("cat", "ß {}\n", LONG).unwrap(), "ß {}\n");
    assert_eq!(ask("pwd; echo $TOKEN", "", LONG).unwrap(), "/var\nof the person\n");
    // More than fits into a pipe, in both directions at once.
    let long = "0123456789abcdef".repeat(1 << 15);
    assert_eq!(ask("cat", &long, LONG).unwrap(), long);
}

#[test]
fn unread_input_is_not_an_error() {
    let long = "x".repeat(8 << 20);
    assert_eq!(ask("exec <&-; echo done", &long, LONG).unwrap(), "done\n");
    assert_eq!(ask("echo done", &long, LONG).unwrap(), "done\n");
}

#[test]
fn every_failure_has_a_reason() {
    for (script, wanted) in [
        ("echo no key >&2; exit 3", "the agent ended with exit status 3; it said: no key"),
        ("echo '{}'; exit 1", "the agent ended with exit status 1"),
        ("kill -9 $$", "the agent ended with signal 9"),
        ("echo; echo hm >&2", "the agent printed nothing; it said: hm"),
        ("printf 'a\\377'", "the agent's answer is not UTF-8 (first bad byte at offset 1)"),
        ("yes", "the agent printed more than 1048576 bytes and was ended"),
        ("yes >&2 & wait $!; exit 7", "the agent did not answer within 0.3 s and was ended"),
        ("printf '\\033[2J' >&2; exit 1", "exit status 1; it said: \\u{1b}[2J"),
    ] {
        let time = if script.starts_with("yes >&2") { SHORT } else { LONG };
        let error = ask(script, "", time).unwrap_err();
        assert!(error.contains(wanted), "{script}: {error}");
        assert!(error.len() < 8 << 10, "{script}");
    }
    let command = AgentCommand::new(&["no-such-agent".to_owned()]).unwrap();
    let agents = Agents::new(open("/var"), HashMap::new());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let question = Question {
        command: &command,
        variables: &[],
        prompt: String::new(),
        timeout: LONG,
        max_bytes: 1 << 10,
    };
    let error = runtime.block_on(agents.ask(question, std::future::pending())).unwrap_err();
    assert!(matches!(error, AgentError::NotFound(_)), "{error}");
}

#[test]
fn an_agent_program_in_the_workspace_is_not_run() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let (workspace, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let planted = workspace.path().join("agent");
    std::fs::write(&planted, "#!/bin/sh\necho planted\n").unwrap();
    std::fs::set_permissions(&planted, std::fs::Permissions::from_mode(0o755)).unwrap();
    symlink(&planted, home.path().join("linked")).unwrap();
    symlink(workspace.path(), home.path().join("bin")).unwrap();
    // Tools can create links in the workspace that lead out of it.
    symlink("/bin", workspace.path().join("out")).unwrap();
    let path = [workspace.path(), home.path()].map(|at| at.to_str().unwrap()).join(":");
    let environment = HashMap::from([("PATH".to_owned(), path)]);
    let agents = Agents::new(open(workspace.path()), environment);
    let within = |directory: &Path| directory.join("agent").to_str().unwrap().to_owned();
    for program in [
        "agent".to_owned(),
        "linked".to_owned(),
        within(workspace.path()),
        within(&home.path().join("bin")),
        workspace.path().join("out/sh").to_str().unwrap().to_owned(),
        home.path().join("bin/out/sh").to_str().unwrap().to_owned(),
    ] {
        let found = agents.find(&program);
        assert!(matches!(found, Err(AgentError::InWorkspace(_))), "{program}: {found:?}");
    }
}

#[test]
fn a_hanging_agent_is_killed_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    for script in [
        // Exits on SIGTERM.
        "sleep 600 & echo $! > PID; wait",
        // Ignores SIGTERM.
        "trap '' TERM; sleep 600 & echo $! > PID; while :; do sleep 600; done",
    ] {
        let started = Instant::now();
        let script = script.replace("PID", file.to_str().unwrap());
        let error = ask(&script, "", SHORT).unwrap_err();
        assert_eq!(error, "the agent did not answer within 0.3 s and was ended");
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_dead(&file);
    }
}

#[test]
fn background_processes_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    // The background process keeps the pipes open, which must not block the run.
    let script = format!("sleep 600 & echo $! > {}; echo done", file.display());
    let started = Instant::now();
    assert_eq!(ask(&script, "", LONG).unwrap(), "done\n");
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_dead(&file);
}

#[test]
#[cfg(target_os = "linux")]
fn processes_outside_the_group_are_killed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let stray = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600", file.display());
    let wait = format!("while ! [ -e {} ]; do sleep 0.01; done", file.display());
    let script = format!("setsid sh -c '{stray}' & {wait}; echo done");
    assert_eq!(ask(&script, "", LONG).unwrap(), "done\n");
    assert_dead(&file);
}

#[test]
fn nested_agents_are_limited() {
    let words = ["sh", "-c", "echo $COFFERDAM_TASKS $MORE"].map(str::to_owned);
    let command = AgentCommand::new(&words).unwrap();
    for (around, deep) in [("", 1), ("a", 2), ("a:b", 3), ("a:b:c", 0), ("a:b:c:d", 0)] {
        let environment = HashMap::from([
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            (TASKS_VARIABLE.to_owned(), around.to_owned()),
        ]);
        let agents = Agents::new(open("/var"), environment);
        let variables = &[("MORE".to_owned(), "told".to_owned())];
        let question = Question {
            command: &command,
            variables,
            prompt: "".into(),
            timeout: LONG,
            max_bytes: 999,
        };
        match agents.ask_here(&question, &|| false) {
            Err(error) => assert!(deep == 0 && matches!(error, AgentError::TooDeep), "{error}"),
            Ok(told) => {
                let (tasks, more) = told.trim().split_once(' ').unwrap();
                assert!(tasks.starts_with(around) && more == "told", "{told}");
                assert_eq!(tasks.split(':').count(), deep, "{told}");
            }
        }
    }
}

#[test]
fn a_cancelled_agent_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pid");
    let script = format!("echo $$ > {}; exec sleep 600", file.display());
    let soon = async {
        while std::fs::read_to_string(&file).is_ok_and(|pid| pid.is_empty()) || !file.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let error = ask_until(&script, "", LONG, soon).unwrap_err();
    assert_eq!(error, "cancelled while the agent was asked");
    assert_dead(&file);
}

/// Asserts that the process whose id is in `file` has exited.
fn assert_dead(file: &Path) {
    let pid = std::fs::read_to_string(file).unwrap();
    let status = format!("/proc/{}/stat", pid.trim());
    let deadline = Instant::now() + Duration::from_secs(20);
    // A killed process may remain as a zombie until its parent reaps it.
    while std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "{pid} still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}
