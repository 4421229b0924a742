//! Scripts through the whole host: one transaction, rights, limits, the journal, script mode. What a script
//! can write is tested in `plugins/python`.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::mcp::server::{Request, SERVE, Server};
use crate::support::{Ended, Place, wait_until};
use crate::trial::configure;

/// Runs a script by the command.
fn script(place: &Place, options: &[&str], code: &str) -> Ended {
    place.run_with(&[&["script", "-"], options].concat(), code)
}

/// The value of a script that has to succeed.
fn value(place: &Place, code: &str) -> Value {
    let ended = script(place, &[], code);
    assert_eq!(ended.status, 0, "{code}: {ended:?}");
    ended.json()["value"].clone()
}

/// Everything that a failed script printed.
fn failed(place: &Place, options: &[&str], code: &str, status: i32) -> String {
    let ended = script(place, options, code);
    assert_eq!(ended.status, status, "{code}: {ended:?}");
    ended.stdout + &ended.stderr
}

/// The records of the journal, the newest last.
fn records(place: &Place, options: &[&str]) -> Vec<Value> {
    let listed = place.run(&[&["log", "--limit", "1000"], options].concat()).json();
    listed["records"].as_array().unwrap().clone()
}

#[test]
fn a_script_is_one_commit_and_is_undone_as_one() {
    let place = Place::new();
    place.write("a", "old\n");
    let code = "for name in ['a', 'b', 'c']:\n    files.write_file(path=name, content=name + '\\n')\n\
                print('done')\nlen(files.read_file(path='c')['content'])";
    let ended = script(&place, &[], code);
    let wanted = json!({
        "value": 2,
        "printed": "done\n",
        "calls": {"files.read_file": 1, "files.write_file": 3},
        "changed": ["a", "b", "c"]
    });
    assert_eq!((ended.status, ended.json()), (0, wanted), "{ended:?}");
    assert_eq!(place.read("a"), "a\n");
    let commits = records(&place, &["--commits"]);
    assert_eq!((commits.len(), &commits[0]["paths"]), (1, &json!(3)), "{commits:?}");

    let calls: Vec<Value> =
        records(&place, &[]).into_iter().filter(|it| it["tool"].is_string()).collect();
    let outer = calls.iter().find(|call| call["tool"] == "python.run_python").unwrap();
    assert_eq!(commits[0]["calls"], json!([outer["call"]]));
    let nested: Vec<&Value> = calls.iter().filter(|call| call["parent"] == outer["call"]).collect();
    assert_eq!(nested.len(), 4, "{calls:?}");
    assert!(nested.iter().all(|call| call["outcome"] == "executed" && call["commit"].is_null()));
    let tree = place.run(&["log", "--format", "text"]).stdout;
    assert_eq!(tree.lines().filter(|line| line.starts_with("  ")).count(), 4, "{tree}");
    let stats = place.run(&["stats"]).json();
    assert_eq!((&stats["total"]["calls"], &stats["total"]["nested"]), (&json!(5), &json!(4)));

    assert_eq!(place.run(&["undo"]).status, 0);
    assert_eq!(place.read("a"), "old\n");
    assert!(!place.workspace().join("b").exists());
}

#[test]
fn an_uncaught_error_discards_everything() {
    let place = Place::new();
    place.write("a", "old\n");
    for (code, wanted) in [
        ("files.write_file(path='a', content='new')\n1 / 0", "ZeroDivisionError"),
        (
            "files.write_file(path='a', content='new')\nfiles.read_file(path='b')",
            "ToolError: FileNotFoundError",
        ),
        ("files.delete_path(path='a')\nlen", "no JSON"),
        (
            "files.write_file(path='b', content='new')\nfiles.write_file(path='../x', content='')",
            "ToolError",
        ),
    ] {
        let said = failed(&place, &[], code, 1);
        assert!(said.contains(wanted) && said.contains("Nothing was changed"), "{said}");
        assert_eq!(place.read("a"), "old\n", "{code}");
        assert!(!place.workspace().join("b").exists(), "{code}");
    }
    assert_eq!(records(&place, &["--commits"]).len(), 0);
}

#[test]
fn a_caught_failure_leaves_the_transaction_as_it_was() {
    let place = Place::new();
    place.write("a", "one two\n");
    let code = "files.write_file(path='b', content='b')\ntry:\n    \
                edit.apply_patch(patch='--- a/a\\n+++ b/a\\n@@ -1 +1 @@\\n-other\\n+x\\n')\n\
                except ToolError as e:\n    code = e.code\n\
                [code != '', files.read_file(path='a')['content'], files.read_file(path='b')['content']]";
    assert_eq!(value(&place, code), json!([true, "one two\n", "b"]));
    assert_eq!((place.read("a").as_str(), place.read("b").as_str()), ("one two\n", "b"));
}

#[test]
fn calls_side_by_side_have_their_results_in_order() {
    let place = Place::new();
    (0..40).for_each(|n| place.write(&format!("f{n}"), format!("{n}")));
    let code = "import asyncio\nread = await asyncio.gather(*[files.read_file(path=f'f{n}') for n in range(40)])\n\
                [int(one['content']) for one in read] == list(range(40))";
    assert_eq!(value(&place, code), json!(true));
}

#[test]
fn a_script_has_the_rights_of_its_call_and_no_more() {
    let place = Place::new();
    place.write("in/a", "a\n");
    place.write("out", "o\n");
    let attempt = |call: &str| {
        format!("try:\n    {call}\n    r = 'done'\nexcept ToolError as e:\n    r = e.code\nr")
    };
    let code = |options: &[&str], call: &str| {
        let ended = script(&place, options, &attempt(call));
        assert_eq!(ended.status, 0, "{call}: {ended:?}");
        ended.json()["value"].as_str().unwrap().to_owned()
    };
    let reader = ["--role", "reader"];
    assert_eq!(code(&reader, "files.read_file(path='out')"), "done");
    let said = failed(&place, &reader, "files.write_file(path='out', content='x')", 1);
    assert!(said.contains("has no tool 'write_file'"), "{said}");
    let narrow = ["--scope", "in"];
    assert_eq!(code(&narrow, "files.write_file(path='in/b', content='b')"), "done");
    assert_ne!(code(&narrow, "files.write_file(path='out', content='x')"), "done");
    assert_ne!(code(&narrow, "files.read_file(path='out')"), "done");
    // What needs a grant needs it in a script as well.
    assert_eq!(code(&[], "shell.bash(command='true')"), "NotGranted");
    // Nothing that can't be rolled back.
    configure(
        &place,
        "[grants.git_commit]\nfiles = 'write'\nprocess = ['git']\ngit-commit = true\n",
    );
    assert_eq!(code(&[], "git_commit.git_commit(message='m', paths=['out'])"), "NotInTransaction");
    assert_eq!(code(&[], "history.undo()"), "NotInTransaction");
    // A script can't start scripts.
    let said = failed(&place, &[], "python.run_python(code='1')", 1);
    assert!(said.contains("name 'python' is not defined"), "{said}");
    // Without the grant, no tool is called; with fewer files, none changes them.
    configure(&place, "[grants.python]\nfiles = 'write'\n");
    assert!(failed(&place, &[], "1", 3).contains("tools = true"));
    configure(&place, "[grants.python]\nfiles = 'read'\ntools = true\n");
    assert!(failed(&place, &[], "1", 3).contains("files = \\\"write\\\""));
    assert_eq!(place.read("out"), "o\n");
}

#[test]
fn limits_end_a_script_and_name_themselves() {
    let place = Place::new();
    place.write("a", "a\n");
    configure(&place, "[limits]\nnested-calls = 5\nmemory-mb = 64\nfiles = 10\n");
    let write = "files.write_file(path='a', content='x')\n";
    for (code, wanted) in [
        (
            "while True:\n  try:\n    files.read_file(path='a')\n  except BaseException:\n    pass",
            "NestedCallLimit",
        ),
        ("while True: pass", "WallClockLimit"),
        ("x = []\nwhile True: x.append('x' * 100000)", "MemoryLimit"),
        ("'x' * 10**9", "MemoryLimit"),
        ("2 ** (10 ** 9)", ""),
        ("import itertools\nsum(itertools.count())", "WallClockLimit"),
        ("while True: print('x' * 1000)", "PrintLimit"),
    ] {
        let begun = Instant::now();
        let ended = script(&place, &["--call-ms", "3000"], &format!("{write}{code}"));
        assert_ne!(ended.status, 0, "{code}: {ended:?}");
        assert!(ended.stdout.contains(wanted), "{code}: {ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{code}");
        assert_eq!(place.read("a"), "a\n", "{code}");
    }
    for code in [
        "def f(): return f()\nf()",
        "x = []\nfor _ in range(100000): x = [x]\nx",
        "x = []\nx.append(x)\nx",
        "x = {}\nfor _ in range(100000): x = {'a': x}\nfiles.write_file(path='b', content=x)",
        "(".repeat(5000).as_str(),
        "files.read_file(path='a' * 1000000)",
    ] {
        let ended = script(&place, &["--call-ms", "5000"], code);
        assert_ne!(ended.status, 0, "{code:.80}");
        assert_ne!(ended.status, 5, "{code:.80}: {ended:?}");
    }
    // The host goes on.
    assert_eq!(value(&place, "1 + 1"), json!(2));
}

#[test]
fn a_dry_run_and_a_check_change_nothing() {
    let place = Place::new();
    place.write("a", "old\n");
    let code = "files.write_file(path='a', content=text)\n'v'";
    let ended = script(&place, &["--dry-run", "--input", "text=new"], code);
    let diff = ended.json()["diff"].as_str().unwrap().to_owned();
    assert!(diff.contains("-old") && diff.contains("+new"), "{diff}");
    assert_eq!(place.read("a"), "old\n");
    let ended = script(&place, &["--check"], "files.write_file(path='a', content='x')");
    assert_eq!((ended.status, &ended.json()["value"]), (0, &Value::Null), "{ended:?}");
    assert_eq!(place.read("a"), "old\n");
    for options in [&["--check"][..], &[]] {
        let said = failed(&place, options, "x = 1\nfiles.write_file(pth='a', content='x')", 1);
        assert!(
            said.contains("line 2, column 18") && said.contains("did you mean path?"),
            "{said}"
        );
        assert!(said.contains("Nothing was run"), "{said}");
    }
}

#[test]
fn changes_that_the_settings_ask_about_need_a_user() {
    let place = Place::new();
    place.write("a", "old\n");
    configure(&place, "ask = ['files.write_file']\n");
    let said = failed(&place, &[], "files.write_file(path='a', content='new')", 3);
    assert!(said.contains("ApprovalNeeded") && said.contains("files.write_file"), "{said}");
    assert_eq!(place.read("a"), "old\n");
    // A dry run only shows them, and other tools are not asked about.
    assert_eq!(
        script(&place, &["--dry-run"], "files.write_file(path='a', content='new')").status,
        0
    );
    assert_eq!(value(&place, "files.read_file(path='a')['content']"), json!("old\n"));
    configure(&place, "ask = ['files.read_file']\n");
    let caught = "try:\n    files.read_file(path='a')\nexcept ToolError as e:\n    r = e.code\nr";
    assert_eq!(value(&place, caught), json!("ApprovalNeeded"));
    // Files that other programs execute are looked at in the script as a whole.
    configure(&place, "executed = 'refused'\n");
    let said = failed(&place, &[], "files.write_file(path='.envrc', content='x')", 1);
    assert!(said.contains("PermissionError"), "{said}");
    assert!(!place.workspace().join(".envrc").exists());
}

#[test]
fn script_mode_lists_little() {
    let place = Place::new();
    configure(
        &place,
        "[roles.s]\ntools = ['*']\nscripts = []\n[roles.t]\ntools = ['files.*']\nscripts = ['files.glob']\n",
    );
    let listed = |role: &str| {
        let tools = place.run(&["tools", "--role", role, "--format", "mcp", "--tokens"]).json();
        let names = tools["tools"].as_array().unwrap().iter();
        let names: Vec<String> =
            names.map(|tool| tool["tool"].as_str().unwrap().to_owned()).collect();
        (names, tools["total"].as_u64().unwrap())
    };
    let (names, tokens) = listed("s");
    assert_eq!(names, ["python.run_python", "python.search_tools"]);
    assert!(tokens <= 1_000, "{tokens}");
    assert_eq!(listed("t").0, ["files.glob", "python.run_python", "python.search_tools"]);
    assert!(!listed("coder").0.iter().any(|name| name.starts_with("python.")));
    assert_eq!(script(&place, &["--role", "t"], "len(files.glob(pattern='*')['files'])").status, 0);

    let mut command = place.command(SERVE);
    let server = Server::started(command.args(["--tools", "scripts,grep.*", "--role", "reader"]));
    let tools = post(&server, "tools/list", &json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["grep", "run_python", "search_text", "search_tools"]);
    let wrong = place.run(&["serve", "--tools", "files.glob"]);
    assert!(wrong.status == 2 && wrong.stderr.contains("begins with `scripts`"), "{wrong:?}");
}

fn post(server: &Server, method: &str, params: &Value) -> Value {
    let (status, _, body) = server.ask(&Request::post("/mcp", method, params));
    assert_eq!(status, 200, "{body}");
    let line = body.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&body);
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[test]
fn many_scripts_at_once_do_not_block_each_other() {
    let place = Place::new();
    place.write("a", "a\n");
    let mut command = place.command(SERVE);
    let server = Server::started(command.args(["--tools", "scripts", "--role", "main"]));
    let code = "n = 0\nfor i in range(50):\n    n += len(files.read_file(path='a')['content'])\n\
                files.write_file(path=f'out{k}', content=str(n))\nn";
    let call = |k: usize| {
        let arguments = json!({"code": code, "inputs": {"k": k}});
        let params = json!({"name": "run_python", "arguments": arguments});
        post(&server, "tools/call", &params)
    };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..32).map(|k| scope.spawn(move || call(k))).collect();
        for call in calls {
            let answer = call.join().unwrap();
            assert_eq!(answer["result"]["structuredContent"]["value"], json!(100), "{answer}");
        }
    });
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    assert!((0..32).all(|k| place.read(&format!("out{k}")) == "100"));
}

#[test]
fn a_killed_host_leaves_nothing_of_a_script() {
    let place = Place::new();
    place.write("a", "old\n");
    let file = place.home_file("endless.py");
    fs::write(
        &file,
        "n = 0\nwhile True:\n    n += 1\n    files.write_file(path='a', content=str(n))\n",
    )
    .unwrap();
    for round in 0..5 {
        let before = records(&place, &["--tool", "files.write_file"]).len();
        let mut child = place.command(&["script", file.to_str().unwrap()]).spawn().unwrap();
        wait_until(|| records(&place, &["--tool", "files.write_file"]).len() > before + round);
        kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(place.read("a"), "old\n");
        // No lock stays.
        assert_eq!(value(&place, "files.read_file(path='a')['content']"), json!("old\n"));
    }
    assert_eq!(records(&place, &["--commits"]).len(), 0);
}

/// The files of a workspace with their contents, without the host's own.
fn files(place: &Place) -> BTreeMap<String, String> {
    let entries = fs::read_dir(place.workspace()).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name.clone(), place.read(&name))
        })
        .collect()
}

#[test]
fn generated_scripts_that_end_badly_change_nothing() {
    let place = Place::new();
    (0..4).for_each(|n| place.write(&format!("f{n}"), format!("{n}\n")));
    configure(&place, "[limits]\nnested-calls = 60\n");
    let before = files(&place);
    let mut state = 25_u64;
    let mut next = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % most
    };
    let endings = [
        "1 / 0",
        "while True: files.read_file(path='f3')",
        "while True: pass",
        "while True: print('x' * 9999)",
        "raise ToolError('no')",
        "len",
        "x = []\nfor _ in range(99999): x = [x]\nx",
    ];
    for round in 0..40 {
        let mut code = String::new();
        for _ in 0..=next(12) {
            let (one, other) = (next(4), next(4));
            let line = match next(4) {
                0 => format!("files.write_file(path='f{one}', content='{round}')"),
                1 => format!("files.delete_path(path='f{one}')"),
                2 => format!("files.move_path(path='f{one}', to='f{other}')"),
                _ => format!("files.copy_path(path='f{one}', to='n{other}')"),
            };
            code += &format!("try:\n    {line}\nexcept ToolError:\n    pass\n");
        }
        code += endings[usize::try_from(next(7)).unwrap()];
        let ended = script(&place, &["--call-ms", "1000", "--memory-mb", "64"], &code);
        assert!(![0, 2, 5].contains(&ended.status), "{code}: {ended:?}");
        assert_eq!(files(&place), before, "{code}");
    }
    assert_eq!(records(&place, &["--commits"]).len(), 0);
    assert_eq!(value(&place, "1"), json!(1));
}

/// Answers for a model are short; what a script reads and writes back is whole.
#[test]
fn large_files_and_long_lists_are_whole() {
    let place = Place::new();
    let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    place.write("large", &text);
    (0..1_500)
        .for_each(|n| place.write(&format!("directory/a-file-with-a-long-name-{n}"), "needle\n"));
    let code = "text = files.read_file(path='large')['content']\n\
                files.write_file(path='large', content=text.replace('line', 'LINE'))\n\
                [len(grep.grep(pattern='needle')['files']), len(text)]";
    assert_eq!(value(&place, code), json!([1_500, text.len()]));
    assert_eq!(place.read("large"), text.replace("line", "LINE"));
    let ended = script(&place, &[], "len(files.glob(pattern='directory/*')['files']) < 1500");
    let output = ended.json();
    assert_eq!(output["value"], true);
    let note = output["note"].as_str().unwrap();
    assert!(note.starts_with("files.glob returned only a part"), "{note}");
}

#[test]
fn tools_are_found_as_signatures() {
    let place = Place::new();
    let found =
        place.run(&["call", "python.search_tools", r#"{"query": "read_file", "limit": 2}"#]).json();
    let text = found["tools"].as_str().unwrap();
    assert!(text.contains("files.read_file(path: str, offset: int = ..."), "{text}");
    assert!(text.contains("-> {path: str, content: str, size: int"), "{text}");
    let names = place.run(&["call", "python.search_tools", "{}"]).json();
    let names: Vec<&str> = names["tools"].as_str().unwrap().lines().collect();
    assert!(
        names.contains(&"grep.grep") && !names.iter().any(|name| name.starts_with("python")),
        "{names:?}"
    );
}
