//! `team.task`: agents are small scripts that answer correctly, incorrectly, late or never.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Ended, Place, built, wait_until};
use crate::trial::configure;

/// The example in the tool schemas, except for the tool's name.
const AGENT: &str = "code-implementer";
const PROMPT: &str = "Implement domain layer for user management module";
const CONTRACT: &str = "tdd-task-executor";

/// A workspace in whose settings `AGENT` is a script, with more settings of the agent and others.
fn place(body: &str, own: &str, others: &str) -> Place {
    let place = Place::new();
    let script = place.script("agent.sh", &body.replace("HOME/", &home(&place)));
    let settings = format!(
        "[grants.team]\nfiles = 'write'\nagents = ['{AGENT}']\n\
         [agents.{AGENT}]\ncommand = [{script:?}]\n{own}\n{others}\n"
    );
    configure(&place, &settings);
    place
}

fn home(place: &Place) -> String {
    format!("{}/", place.home().display())
}

/// An agent with a contract, which prints `answers` one after the other, and stores its prompts.
fn answering(answers: &[&str]) -> Place {
    let place = place(
        "n=$(cat HOME/count 2>/dev/null || echo 0); echo $((n + 1)) > HOME/count\n\
         cat > HOME/prompt.$n; cat HOME/answer.$n",
        &format!("contract = '{CONTRACT}'"),
        "",
    );
    for (n, answer) in answers.iter().enumerate() {
        fs::write(place.home_file(&format!("answer.{n}")), answer).unwrap();
    }
    place
}

fn task(place: &Place, options: &[&str]) -> Ended {
    let args = json!({"subagent_type": AGENT, "prompt": PROMPT}).to_string();
    place.run(&[&["call"], options, &["team.task", &args]].concat())
}

/// A block that fulfils the contract (the output contracts, "Expected Output").
fn example(place: &Place) -> String {
    let contract = place.run(&["contract", "show", CONTRACT]).json();
    contract["example"].as_str().unwrap().to_owned()
}

fn prompt(place: &Place, n: usize) -> String {
    fs::read_to_string(place.home_file(&format!("prompt.{n}"))).unwrap()
}

/// The last line of the journal.
fn recorded(place: &Place) -> Value {
    let log = place.read(".cofferdam/journal.jsonl");
    let mut lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).rev();
    lines.find(|line| line["tool"] == "team.task").unwrap_or_else(|| panic!("{log}"))
}

/// Asserts how a call failed, and a part of its message.
fn assert_failed(ended: &Ended, status: i32, code: &str, words: &str) {
    assert_eq!(ended.status, status, "{ended:?}");
    let said = format!("{}{}", ended.stdout, ended.stderr).replace("\\\"", "\"");
    assert!(said.contains(code) && said.contains(words), "{said}");
}

/// Waits until the process whose id is in a file has exited.
fn assert_dies(file: &Path) {
    let process = fs::read_to_string(file).unwrap();
    let state = PathBuf::from(format!("/proc/{}/stat", process.trim()));
    wait_until(|| fs::read_to_string(&state).map_or(true, |state| state.contains(") Z ")));
}

#[test]
fn the_sources_example_succeeds() {
    let place = place(
        "cat > HOME/prompt.0; echo \"$COFFERDAM_ROLE $COFFERDAM_MAX_TURNS\" > HOME/told\n\
         echo 'I have done it.'; cat HOME/answer.0",
        "role = 'implementer'\nmax-turns = 15",
        &format!("[roles.implementer]\ntools = ['files.*']\ncontract = '{CONTRACT}'"),
    );
    fs::write(place.home_file("answer.0"), example(&place)).unwrap();
    let envelope = json!({
        "tool": "task",
        "subagent_type": AGENT,
        "prompt": PROMPT,
        "context": "The layers are in docs/layers.md",
    });
    let ended = place.run_with(&["run"], &envelope.to_string());
    assert_eq!(ended.status, 0, "{ended:?}");
    let answer = ended.json();
    assert_eq!((&answer["tool"], &answer["status"]), (&json!("task"), &json!("success")));
    let result = &answer["result"];
    let wanted = json!({"agent": AGENT, "role": "implementer", "tries": 1, "contract": CONTRACT});
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(&result[key], value, "{result:#}");
    }
    assert_eq!(result["record"]["phase"], "2/3");
    assert_eq!(result["record"]["tests_added"], 8);
    assert_eq!(result["record"]["blockers"], Value::Null);
    assert_eq!(result["next"], "review");
    assert_eq!(result.get("problems"), None);

    let suffix = place.run(&["contract", "prompt", CONTRACT, "--format", "text"]).stdout;
    let wanted = format!("{PROMPT}\n\nContext:\n\nThe layers are in docs/layers.md\n\n{suffix}");
    assert_eq!(prompt(&place, 0), wanted);
    assert_eq!(fs::read_to_string(place.home_file("told")).unwrap(), "implementer 15\n");
    let record = recorded(&place);
    assert_eq!((&record["agents"], &record["status"]), (&json!([AGENT]), &json!("success")));
}

#[test]
fn an_invalid_answer_is_retried() {
    let place = answering(&["Done!", "---OUTPUT---\nphase: two\n---END---", ""]);
    fs::write(place.home_file("answer.2"), example(&place)).unwrap();
    let ended = task(&place, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.json()["tries"], 3);
    assert!(ended.stderr.contains("retry 2 of 2"), "{ended:?}");
    let suffix = place.run(&["contract", "prompt", CONTRACT, "--format", "text"]).stdout;
    for n in [1, 2] {
        let prompt = prompt(&place, n);
        assert!(prompt.starts_with(PROMPT) && prompt.ends_with(&suffix), "{prompt}");
        assert!(prompt.contains("did not keep its output contract"), "{prompt}");
    }
    assert!(prompt(&place, 2).contains("phase: expected"), "{}", prompt(&place, 2));
}

/// The output contracts, "Contract Violations": at most 2 retries, then a blocker.
#[test]
fn an_answer_that_stays_invalid_blocks() {
    let place = answering(&["Done!", "Done!", "I said: done!", "never asked for"]);
    let ended = task(&place, &[]);
    assert_failed(&ended, 1, "", "still broken after 2 retries");
    let document = ended.json();
    assert_eq!((&document["next"], &document["tries"]), (&json!("blocked"), &json!(3)));
    assert_eq!(document["response"], "I said: done!");
    assert!(!document["problems"].as_array().unwrap().is_empty(), "{document:#}");
    assert_eq!(fs::read_to_string(place.home_file("count")).unwrap(), "3\n");
    let record = recorded(&place);
    assert_eq!((&record["agents"], &record["code"]), (&json!([AGENT]), &json!("ContractBroken")));
}

/// The output contracts, "Attempt to extract key information from response": no required field is
/// missing, so the agent is not asked again.
#[test]
fn fields_in_the_text_of_an_answer_are_extracted() {
    let place = answering(&[]);
    let example = example(&place);
    let lines: Vec<&str> = example.lines().filter(|line| !line.starts_with("---")).collect();
    fs::write(place.home_file("answer.0"), lines.join("\n")).unwrap();
    let ended = task(&place, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let answer = ended.json();
    assert_eq!((&answer["tries"], &answer["next"]), (&json!(1), &json!("review")));
    assert_eq!(answer["problems"].as_array().unwrap().len(), 1, "{answer:#}");
}

#[test]
fn without_a_contract_the_answer_is_its_text() {
    let place = place("cat", "", "");
    let ended = task(&place, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.json(), json!({"agent": AGENT, "tries": 1, "response": PROMPT}));
}

#[test]
fn contracts_of_the_user_apply() {
    let place = place("echo '---OUTPUT---\npages: [a.md]\n---END---'", "contract = 'writer'", "");
    let settings = place.home_file(".config/cofferdam/cofferdam.toml");
    let folder = place.home_file("contracts");
    fs::create_dir(&folder).unwrap();
    let ended = task(&place, &[]);
    assert_failed(&ended, 2, "agents.code-implementer.contract", "no contract for 'writer'");
    let contract = "agent = 'writer'\npurpose = 'Write'\n[[fields]]\nname = 'pages'\n\
                    type = 'list'\nhint = '[page.md]'\nexample = '[guide.md]'\n\
                    [[next]]\nthen = 'proceed'\nreason = 'publish'\n";
    fs::write(folder.join("writer.toml"), contract).unwrap();
    let text = fs::read_to_string(&settings).unwrap();
    fs::write(&settings, format!("contracts = [{folder:?}]\n{text}")).unwrap();
    let ended = task(&place, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(ended.json()["record"], json!({"pages": ["a.md"]}));
    fs::write(folder.join("writer.toml"), "agent = 1").unwrap();
    assert_failed(&task(&place, &[]), 2, "writer.toml", "line 1");
    fs::write(&settings, format!("contracts = ['contracts']\n{text}")).unwrap();
    assert_failed(&task(&place, &[]), 2, "contracts", "no absolute path");
}

#[test]
fn a_hanging_agent_is_killed_with_its_children() {
    let place = place(
        "trap '' TERM\nsetsid sh -c 'echo $$ > HOME/stray; exec sleep 600' &\n\
         while ! [ -s HOME/stray ]; do sleep 0.01; done\n\
         echo $$ > HOME/pid; while :; do sleep 600; done",
        "timeout-s = 6",
        "",
    );
    assert_failed(&task(&place, &[]), 4, "AgentTimeout", "did not answer within 6.0 s");
    assert_dies(&place.home_file("pid"));
    assert_dies(&place.home_file("stray"));
    assert_eq!(recorded(&place)["agents"], json!([AGENT]));
}

#[test]
fn the_end_of_the_call_is_the_end_of_its_agent() {
    let place = place("echo $$ > HOME/pid; exec sleep 600", "", "");
    // Two seconds of these are reserved for killing the agent and answering.
    assert_failed(&task(&place, &["--call-ms", "8000"]), 4, "AgentTimeout", "did not answer");
    assert_dies(&place.home_file("pid"));
    let ended = task(&place, &["--call-ms", "1000"]);
    assert_failed(&ended, 4, "AgentTimeout", "no time was left");
}

#[test]
fn an_interrupted_call_ends_its_agent() {
    let place = place("echo $$ > HOME/pid; exec sleep 600", "", "");
    let args = json!({"subagent_type": AGENT, "prompt": PROMPT}).to_string();
    let child = place.command(&["call", "team.task", &args]).spawn().unwrap();
    let pid = place.home_file("pid");
    wait_until(|| fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n')));
    let host = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(host, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert_dies(&pid);
}

#[test]
fn a_missing_answer_has_a_reason() {
    for (body, status, code, words) in [
        ("echo no key >&2; exit 3", 1, "AgentFailed", "exit status 3; it said: no key"),
        ("kill -9 $$", 1, "AgentFailed", "signal 9"),
        ("cat > /dev/null", 1, "AgentFailed", "printed nothing"),
        ("printf '\\377'", 1, "AgentFailed", "not UTF-8"),
        ("exec yes", 1, "AgentFailed", "printed more than 8388608 bytes and was ended"),
    ] {
        let place = place(body, "", "");
        assert_failed(&task(&place, &[]), status, code, words);
    }
}

#[test]
fn a_missing_agent_is_named() {
    let place = Place::new();
    let one = "[agents.code-implementer]\ncommand = ['no-such-agent']\n";
    configure(&place, &format!("[grants.team]\nagents = ['*']\n{one}"));
    assert_failed(&task(&place, &[]), 1, "AgentNotFound", "there is no program 'no-such-agent'");
    let args = json!({"subagent_type": "code-implementor", "prompt": PROMPT}).to_string();
    let ended = place.run(&["call", "team.task", &args]);
    assert_failed(&ended, 1, "AgentNotFound", "did you mean 'code-implementer'?");
    assert_eq!(recorded(&place).get("agents"), None);
}

#[test]
fn an_agent_is_asked_only_if_granted() {
    let place = place("touch HOME/asked", "", "[agents.other]\ncommand = ['true']");
    let settings = place.home_file(".config/cofferdam/cofferdam.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let other = text.replace("agents = ['code-implementer']", "agents = ['other']");
    fs::write(&settings, &other).unwrap();
    assert_failed(&task(&place, &[]), 3, "AgentNotGranted", "may give tasks to here (other)");
    for none in ["files = 'write'", "files = 'write'\nagents = []"] {
        let none = other.replace("files = 'write'\nagents = ['other']", none);
        fs::write(&settings, none).unwrap();
        let lines = r#"agents = ["code-implementer", "other"]"#;
        assert_failed(&task(&place, &[]), 3, "NotGranted", lines);
    }
    // A built-in plugin is granted what it requests, except this.
    fs::write(&settings, other.replace("[grants.team]\nfiles = 'write'\nagents = ['other']", ""))
        .unwrap();
    assert_failed(&task(&place, &[]), 3, "NotGranted", "agents = [");
    let message = json!({"type": "broadcast", "content": "a", "summary": "b"}).to_string();
    assert_eq!(place.run(&["call", "team.send_message", &message]).status, 0);
    fs::write(&settings, &text).unwrap();
    assert_failed(&task(&place, &["--role", "reader"]), 3, "ToolNotInRole", "reader");
    assert!(!place.home_file("asked").exists());
}

#[test]
fn unknown_roles_and_contracts_are_reported_before_anything_runs() {
    for (own, others, words) in [
        ("role = 'nobody'", "", "agents.code-implementer.role: there is no role 'nobody'"),
        ("contract = 'tdd-task-executer'", "", "did you mean 'tdd-task-executor'?"),
        ("", "[roles.r]\ntools = []\ncontract = 'no'", "roles.r.contract: there is no contract"),
    ] {
        let place = place("touch HOME/asked", own, others);
        assert_failed(&task(&place, &[]), 2, "", words);
        assert!(!place.home_file("asked").exists());
    }
}

/// An agent's changes can't be rolled back with a transaction.
#[test]
fn a_task_is_not_allowed_in_a_transaction() {
    let place = place("touch HOME/asked; echo done", "", "");
    for option in ["--atomic", "--dry-run"] {
        let envelope = json!({"tool": "task", "subagent_type": AGENT, "prompt": PROMPT});
        let ended = place.run_with(&["run", option], &envelope.to_string());
        assert_failed(&ended, 3, "NotInTransaction", "can't be taken back");
        assert!(!place.home_file("asked").exists());
    }
}

/// Each task sees the changes of the tasks before it, and so do later calls.
#[test]
fn tasks_run_one_after_the_other() {
    let place = place("read word; cat log; echo $word >> log", "", "");
    let call = |prompt: &str| json!({"type": "task", "subagent_type": AGENT, "prompt": prompt});
    place.write("log", "");
    let read = json!({"type": "read_file", "path": "log"});
    let envelope = json!({"actions": [call("one"), read.clone(), call("two"), read]});
    let ended = place.run_with(&["run"], &envelope.to_string());
    assert_eq!(ended.status, 1, "the first agent had nothing to print: {ended:?}");
    let envelope = json!({"actions": [call("three"), call("four")]});
    let ended = place.run_with(&["run"], &envelope.to_string());
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(place.read("log"), "one\ntwo\nthree\nfour\n");
}

#[test]
fn an_agents_own_calls_are_made_under_its_role() {
    let body = format!(
        "exec 2>&1\n{0} call files.write_file '{{\"path\": \"a\", \"content\": \"b\"}}'\n\
         {0} call --role main files.read_file '{{\"path\": \"log\"}}'\n\
         {0} call files.read_file '{{\"path\": \"log\"}}'",
        built().join("cofferdam").display()
    );
    let place = place(&body, "role = 'reader'", "");
    place.write("log", "in the log");
    let ended = task(&place, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let response = ended.json()["response"].as_str().unwrap().to_owned();
    for words in
        ["the role 'reader' does not include the tool", "the role here is 'reader'", "in the log"]
    {
        assert!(response.contains(words), "{words}: {response}");
    }
    assert!(!place.workspace().join("a").exists());
}

#[test]
fn nested_agents_have_a_maximum_depth() {
    let args = json!({"subagent_type": AGENT, "prompt": PROMPT}).to_string();
    let binary = built().join("cofferdam");
    let body = format!(
        "echo x >> HOME/asked; exec 2>&1; {} call team.task '{args}'; true",
        binary.display()
    );
    let place = place(&body, "", "");
    let ended = task(&place, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.stdout.contains("AgentsTooDeep"), "{ended:?}");
    assert_eq!(fs::read_to_string(place.home_file("asked")).unwrap(), "x\nx\nx\n");
}

/// An agent's agent is killed with it, although it has a process group of its own and ignores
/// signals.
#[test]
fn an_agents_agent_is_killed_with_it() {
    let args = json!({"subagent_type": "inner", "prompt": PROMPT}).to_string();
    let binary = built().join("cofferdam");
    let body = format!("exec {} call team.task '{args}'", binary.display());
    let place = place(&body, "timeout-s = 10", "");
    let inner = place.script(
        "inner.sh",
        &format!("trap '' TERM; echo $$ > {}pid; while :; do sleep 600; done", home(&place)),
    );
    let settings = place.home_file(".config/cofferdam/cofferdam.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let text = text.replace("agents = ['code-implementer']", "agents = ['*']");
    fs::write(&settings, format!("{text}\n[agents.inner]\ncommand = [{inner:?}]\n")).unwrap();
    assert_failed(&task(&place, &[]), 4, "AgentTimeout", "did not answer within 10.0 s");
    assert_dies(&place.home_file("pid"));
}

#[test]
fn the_tools_annotations_and_requests_are_listed() {
    let place = Place::new();
    let tools = place.run(&["tools", "--format", "mcp"]).json();
    let tools = tools["tools"].as_array().unwrap();
    let task = tools.iter().find(|tool| tool["name"] == "team__task").unwrap();
    assert_ne!(task["annotations"]["readOnlyHint"], true);
    assert_ne!(task["annotations"]["openWorldHint"], false);
    let shown = place.run(&["policy", "show"]).json();
    let team = shown["grants"].as_array().unwrap().iter().find(|one| one["plugin"] == "team");
    let team = team.unwrap();
    assert_eq!(team["requests"]["agents"], json!(["*"]));
    assert_eq!(team["granted"].get("agents"), None);
}
