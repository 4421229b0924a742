//! Rounds whose documents come from agents: small scripts that act as Designer and QA, correctly or
//! not.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{
    HELPERS, approval, assert_fits_schema, assert_state, designer, log, package, rejection, tree,
    work_order,
};
use crate::support::{Ended, Place, wait_until};

/// A script that stores its prompt, and prints this text.
fn answering(place: &Place, name: &str, answer: &str) -> String {
    let home = place.home();
    fs::write(home.join(format!("{name}.answer")), answer).unwrap();
    let home = home.display();
    place.script(name, &format!("cat > {home}/{name}.prompt; cat {home}/{name}.answer"))
}

fn prompt(place: &Place, name: &str) -> String {
    fs::read_to_string(place.home().join(format!("{name}.prompt"))).unwrap()
}

fn start(place: &Place) {
    fs::create_dir_all(place.home()).unwrap();
}

/// Runs a round whose agents are these commands.
fn ask(place: &Place, designer: &str, qa: &str, options: &[&str]) -> Ended {
    let arguments = ["pipeline", "--work-order", "-", "--designer-cmd", designer, "--qa-cmd", qa];
    assert_fits_schema(place.run_with(&[&arguments, options].concat(), &work_order().to_string()))
}

#[test]
fn a_whole_round_runs_unattended() {
    let place = package();
    start(&place);
    let fenced = format!("I have thought about it.\n```json\n{}\n```", designer());
    let designer_cmd = answering(&place, "designer.sh", &fenced);
    let qa_cmd = answering(&place, "qa.sh", &approval(&designer()).to_string());
    let ended = ask(&place, &designer_cmd, &format!("'{qa_cmd}' --model 'a b'"), &[]);
    assert_state(&ended, "APPLIED", 0);
    assert!(place.read(HELPERS).contains("    return path\n"));
    let document = ended.json();
    assert_eq!(document["stages"][1]["input"]["from"], format!("agent {designer_cmd}"));

    // Each prompt has the required information.
    let (designer_prompt, qa_prompt) = (prompt(&place, "designer.sh"), prompt(&place, "qa.sh"));
    for part in [
        "Annotate get_file",
        "nomarr/helpers/",
        "no _id/_key renames",
        "\"old_string\"",
        "\"source_start\"",
        "\"check_all\"",
        "__error__",
        "\"changed_signatures\"",
    ] {
        assert!(designer_prompt.contains(part), "{part}: {designer_prompt}");
    }
    for part in
        ["REJECTED", "    file = path\\n    return file", "locate_symbol", "required_changes"]
    {
        assert!(qa_prompt.contains(part), "{part}: {qa_prompt}");
    }
}

#[test]
fn a_rejected_round_ends_with_qas_reasons() {
    let place = package();
    start(&place);
    let before = tree(&place);
    let designer_cmd = answering(&place, "designer.sh", &designer().to_string());
    let qa_cmd = answering(&place, "qa.sh", &rejection().to_string());
    let ended = ask(&place, &designer_cmd, &qa_cmd, &[]);
    assert_state(&ended, "BLOCKED", 2);
    assert_eq!(log(&ended), ["Replacement 0 touches file outside step scope"]);
    assert_eq!(tree(&place), before);
}

#[test]
fn qa_is_not_asked_about_an_invalid_document() {
    let place = package();
    start(&place);
    let designer_cmd = answering(&place, "designer.sh", "{\"commands\": []}");
    let qa_cmd = answering(&place, "qa.sh", &approval(&designer()).to_string());
    let ended = ask(&place, &designer_cmd, &qa_cmd, &[]);
    assert_state(&ended, "BLOCKED", 2);
    assert!(!place.home().join("qa.sh.prompt").exists());
}

#[test]
fn an_agent_that_gives_no_answer_blocks() {
    let place = package();
    start(&place);
    let before = tree(&place);
    let good = answering(&place, "designer.sh", &designer().to_string());
    for (name, body, wanted) in [
        ("hangs.sh", "sleep 600", "the agent did not answer within 1.0 s and was ended"),
        (
            "hangs-and-reads.sh",
            "trap '' TERM; cat > /dev/null; sleep 600; sleep 600",
            "the agent did not answer within 1.0 s and was ended",
        ),
        ("silent.sh", "cat > /dev/null", "the agent printed nothing"),
        ("floods.sh", "exec yes", "the agent printed more than 1048576 bytes and was ended"),
        ("floods-stderr.sh", "yes >&2", "the agent did not answer within 1.0 s and was ended"),
        (
            "dies.sh",
            "echo '{'; echo no key >&2; exit 3",
            "the agent ended with exit status 3; it said: no key",
        ),
        ("killed.sh", "kill -9 $$", "the agent ended with signal 9"),
        (
            "binary.sh",
            "printf '\\377'",
            "the agent's answer is not UTF-8 (first bad byte at offset 0)",
        ),
    ] {
        crate::trial::configure(&place, "[limits]\nenvelope-mb = 1\n");
        let bad = place.script(name, body);
        let started = Instant::now();
        for (designer_cmd, qa_cmd, stage) in [(&bad, &good, "designer"), (&good, &bad, "qa")] {
            // An agent that floods is stopped by the size limit, on a machine of any speed.
            let time = if name == "floods.sh" { "60" } else { "1" };
            if name == "hangs-and-reads.sh" && stage == "qa" {
                continue;
            }
            let ended = ask(&place, designer_cmd, qa_cmd, &["--agent-timeout-s", time]);
            // The good agent may take longer than a second on a busy machine.
            if log(&ended)[0].starts_with("designer: the agent did not") && stage == "qa" {
                continue;
            }
            assert_state(&ended, "BLOCKED", 2);
            let line = format!("{stage}: {wanted}");
            assert!(log(&ended)[0].starts_with(&line), "{name}: {ended:?}");
            let document = ended.json();
            let last = document["stages"].as_array().unwrap().last().unwrap().clone();
            assert_eq!((&last["stage"], &last["verdict"]), (&json!(stage), &json!("no_answer")));
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{name}");
    }
    let ended = ask(&place, "no-such-agent --now", &good, &[]);
    assert_state(&ended, "BLOCKED", 2);
    assert!(log(&ended)[0].contains("there is no program 'no-such-agent'"), "{ended:?}");
    assert_eq!(tree(&place), before);
}

#[test]
fn agents_of_the_settings_can_be_asked() {
    let place = package();
    start(&place);
    let designer_cmd = answering(&place, "designer.sh", &designer().to_string());
    let qa_cmd = answering(&place, "qa.sh", &approval(&designer()).to_string());
    let settings = format!(
        "[agents.designer]\ncommand = [{designer_cmd:?}, '--role', 'x y']\n\
         [agents.qa]\ncommand = [{qa_cmd:?}]\nrole = 'reader'\ntimeout-s = 60\n"
    );
    let arguments = [
        "pipeline",
        "--work-order",
        "-",
        "--designer-agent",
        "designer",
        "--qa-agent",
        "qa",
        "--dry-run",
    ];
    let order = work_order().to_string();
    crate::trial::configure(&place, &format!("{settings}{}", crate::programs::settings()));
    assert_state(&assert_fits_schema(place.run_with(&arguments, &order)), "APPLIED", 0);

    // Agents in the workspace's settings are used only after the user has accepted them.
    crate::trial::configure(&place, &crate::programs::settings());
    place.write("cofferdam.toml", &settings);
    let ended = place.run_with(&arguments, &order);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("there is no agent 'designer'"), "{ended:?}");
    let accepted = place.run(&["policy", "accept"]).json();
    let wanted = json!([
        {"agent": "designer", "command": [designer_cmd, "--role", "x y"]},
        {"agent": "qa", "command": [qa_cmd]}
    ]);
    assert_eq!(accepted["agents"], wanted);
    let shown = place.run(&["policy", "show"]).json();
    assert_eq!(shown["agents"][1]["role"], "reader");
    assert_eq!(shown["agents"][1]["timeout-s"], 60);
    assert_state(&assert_fits_schema(place.run_with(&arguments, &order)), "APPLIED", 0);
    // A change has to be accepted again.
    place.write("cofferdam.toml", settings.replace("x y", "z"));
    assert_eq!(place.run_with(&arguments, &order).status, 3);

    crate::trial::configure(&place, "[agents.a]\ncommand = ['sh']\nrole = 'nobody'\n");
    let ended = place.run_with(&["tools", "--trust-workspace"], "");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("agents.a.role: there is no role 'nobody'"), "{ended:?}");
}

/// An agent runs in the workspace, with the user's environment.
#[test]
fn an_agent_runs_with_the_users_environment() {
    let place = package();
    start(&place);
    let home = place.home();
    let seen = home.join("seen");
    let body = format!("pwd > {0}; echo \"$HOME\" >> {0}; exit 1", seen.display());
    let designer_cmd = place.script("designer.sh", &body);
    ask(&place, &designer_cmd, "true", &[]);
    let wanted = format!("{}\n{}\n", place.workspace().display(), home.display());
    assert_eq!(fs::read_to_string(seen).unwrap(), wanted);
}

#[test]
fn an_interrupted_round_ends_its_agent() {
    let place = package();
    start(&place);
    let before = tree(&place);
    let pid = place.home().join("pid");
    let designer_cmd =
        place.script("designer.sh", &format!("echo $$ > {}; exec sleep 600", pid.display()));
    let order = place.home().join("order.json");
    fs::write(&order, work_order().to_string()).unwrap();
    let arguments = [
        "pipeline",
        "--work-order",
        order.to_str().unwrap(),
        "--designer-cmd",
        &designer_cmd,
        "--qa-cmd",
        "true",
    ];
    let child = place.command(&arguments).spawn().unwrap();
    wait_until(|| fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    let host = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(host, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.contains("cancelled while the agent was asked"), "{stdout}");
    let agent = fs::read_to_string(pid).unwrap();
    let process = PathBuf::from(format!("/proc/{}", agent.trim()));
    wait_until(|| !process.exists());
    assert_eq!(tree(&place), before);
}
