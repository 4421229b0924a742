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
    configure(&place, "[grants.python]\nfiles = 'write'\nbackends = ['checker']\n");
    assert!(failed(&place, &[], "1", 3).contains("tools = true"));
    configure(&place, "[grants.python]\nfiles = 'read'\ntools = true\nbackends = ['checker']\n");
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

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    /// The beginning of a script, which changes files.
    fn changes(&mut self, round: usize) -> String {
        let mut code = String::new();
        for _ in 0..=self.below(12) {
            let (one, other) = (self.below(4), self.below(4));
            let line = match self.below(4) {
                0 => format!("files.write_file(path='f{one}', content='{round}')"),
                1 => format!("files.delete_path(path='f{one}')"),
                2 => format!("files.move_path(path='f{one}', to='f{other}')"),
                _ => format!("files.write_file(path='n{other}/x', content='{round}')"),
            };
            code += &format!("try:\n    {line}\nexcept ToolError:\n    pass\n");
        }
        code
    }
}

/// The variable with another number of generated scripts: `COFFERDAM_SCRIPTS=1000`.
const SCRIPTS_VARIABLE: &str = "COFFERDAM_SCRIPTS";

/// How many scripts are generated in each run of the tests.
const SCRIPTS: usize = 60;

/// Scripts that go on until something ends them.
const ENDLESS: &str =
    "n = 0\nwhile True:\n    n += 1\n    files.write_file(path='f0', content=str(n))\n";

/// The ways in which a generated script ends.
const ENDINGS: [&[&str]; 4] = [
    // An uncaught error.
    &["1 / 0", "raise ToolError('no')", "len", "files.read_file(path='missing')"],
    // A limit.
    &[
        "while True: files.glob(pattern='*')",
        "while True: pass",
        "while True: print('x' * 9999)",
        "x = []\nwhile True: x.append('x' * 100000)",
    ],
    // A trap, or what the interpreter makes of it.
    &["x = []\nfor _ in range(99999): x = [x]\nx", "def f(): return [f()]\nf()"],
    // A rejection: no user can be asked.
    &["files.copy_path(path='kept', to='copied')"],
];

/// Scripts over HTTP that end by errors, limits, traps and rejections, requests that are cancelled, and
/// commands that are killed.
#[test]
#[expect(clippy::disallowed_methods, reason = "the number of scripts")]
fn generated_scripts_that_end_badly_change_nothing() {
    let count = std::env::var(SCRIPTS_VARIABLE).map_or(SCRIPTS, |count| count.parse().unwrap());
    let place = Place::new();
    (0..4).for_each(|n| place.write(&format!("f{n}"), format!("{n}\n")));
    place.write("kept", "kept\n");
    configure(
        &place,
        "ask = ['files.copy_path']\n[limits]\nnested-calls = 60\ncall-ms = 1000\nmemory-mb = 96\n",
    );
    let before = files(&place);
    let mut command = place.command(SERVE);
    let server = Server::started(command.args(["--tools", "scripts", "--role", "main"]));
    let mut random = Random(25);
    for round in 0..count {
        let changes = random.changes(round);
        let request = |code: &str| {
            let params = json!({"name": "run_python", "arguments": {"code": code}});
            Request::post("/mcp", "tools/call", &params)
        };
        match round % 6 {
            4 => {
                let pause = Duration::from_millis(random.below(60));
                let connection = server.try_send(&request(&format!("{changes}{ENDLESS}")));
                std::thread::sleep(pause);
                drop(connection);
            }
            5 => {
                let file = place.home_file("endless.py");
                fs::write(&file, format!("{changes}{ENDLESS}")).unwrap();
                let mut child = place.command(&["script", file.to_str().unwrap()]).spawn().unwrap();
                std::thread::sleep(Duration::from_millis(random.below(120)));
                kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
                child.wait().unwrap();
            }
            kind => {
                let code = format!("{changes}{}", random.one_of(ENDINGS[kind]));
                let (status, _, body) = server.ask(&request(&code));
                // A client that can't ask its user gets an error of the protocol.
                let is_refused = status == 400 && body.contains("needs the yes of a person");
                let is_failed = status == 200 && body.contains("\"isError\":true");
                assert!(is_failed || is_refused, "{code}: {status} {body}");
            }
        }
        assert_eq!(files(&place), before, "round {round}: {changes}");
    }
    assert_eq!(records(&place, &["--commits"]).len(), 0);
    // No lock stays, and no worker is lost: more calls than there are cores run side by side.
    let code =
        "files.write_file(path=f'done{k}', content=files.read_file(path='kept')['content'])\nk";
    std::thread::scope(|scope| {
        let call = |k: usize| {
            let params =
                json!({"name": "run_python", "arguments": {"code": code, "inputs": {"k": k}}});
            post(&server, "tools/call", &params)["result"]["structuredContent"]["value"].clone()
        };
        let calls: Vec<_> = (0..32).map(|k| scope.spawn(move || (k, call(k)))).collect();
        for call in calls {
            let (k, value) = call.join().unwrap();
            assert_eq!(value, json!(k));
        }
    });
    assert!((0..32).all(|k| place.read(&format!("done{k}")) == "kept\n"));
}

#[test]
fn wrong_use_of_values_is_refused_before_anything_runs() {
    let place = Place::new();
    place.write("a", "one\n");
    let write = "files.write_file(path='b', content='b')\n";
    for (code, wanted) in [
        (
            "x = files.read_file(path='a')\nx['contents']",
            "line 3, column 3: a result of files.read_file has no key 'contents'; did you mean 'content'?",
        ),
        (
            "x = files.read_file(path='a')\nx.content",
            "files.read_file is a dict: write [\\\"content\\\"]",
        ),
        (
            "n = len('a')\nfiles.read_file(path=n)",
            "line 3, column 22: files.read_file: path is str, and not int",
        ),
        ("mode = 'wrong'\ngrep.grep(pattern='x', output_mode=mode)", "grep.grep: output_mode is"),
        (
            "for p in ['a']:\n    text = files.read_file(path=p)['contnet']",
            "did you mean 'content'?",
        ),
        ("def f(path):\n    return files.read_file(path=path)['n']", "it has path, content"),
        ("files.read_file(path='a')['content'] + 1", "`+` is not supported"),
    ] {
        let said = failed(&place, &[], &format!("{write}{code}"), 1);
        assert!(said.contains("ScriptRefused") && said.contains("Nothing was run"), "{said}");
        assert!(said.contains(wanted), "{code}: {said}");
        assert!(!place.workspace().join("b").exists());
    }
    let said =
        failed(&place, &[], "async def f(): pass\nx = files.read_file(path='a')['content']", 1);
    assert!(said.contains("line 2") && said.contains("not awaited"), "{said}");
    // Without the check, the script runs until it fails.
    let args = json!({"code": "x = files.read_file(path='a')\nx['contents']", "check": "no"});
    let ended = place.run(&["call", "python.run_python", &args.to_string()]);
    assert!(ended.stdout.contains("KeyError"), "{ended:?}");
}

#[test]
fn what_may_be_right_runs() {
    let place = Place::new();
    place.write("a", "one\n");
    for (code, wanted) in [
        ("r = files.read_file(path='a')\nr['mine'] = 1\nr['mine']", json!(1)),
        (
            "try:\n    files.read_file(path='b')\nexcept Exception as e:\n    c = e.code\nc",
            json!("FileNotFoundError"),
        ),
        ("import re\nre.search('n', files.read_file(path='a')['content']).group(0)", json!("n")),
        ("path = None or 'a'\nlen(files.read_file(path=path)['content'])", json!(4)),
        ("d = {'p': 'a', 'n': 1}\nfiles.read_file(path=d['p'])['size']", json!(4)),
        ("files.read_file(path='a', limit=4 / 2)['content']", json!("one\n")),
        (
            "def f(mode):\n    return grep.grep(pattern='one', output_mode=mode)\nf('count') != {}",
            json!(true),
        ),
        ("files = files.glob(pattern='*')['files']\nlen(files)", json!(1)),
        (
            "import asyncio\nasync def one(p):\n    return (await files.read_file(path=p))['content']\n(await asyncio.gather(one('a'), one('a')))[1]",
            json!("one\n"),
        ),
    ] {
        assert_eq!(value(&place, code), wanted, "{code}");
    }
}

/// Scripts that work, although a type checker of Python has something to say about them.
#[test]
fn scripts_that_work_are_not_refused() {
    let place = Place::new();
    place.write("a", "one\n");
    let read = |code: &str| format!("r = files.read_file(path='a')\n{code}");
    for (code, wanted) in [
        (
            "found = None\nfor p in ['a']:\n    found = files.read_file(path=p)\nfound['content']"
                .to_owned(),
            json!("one\n"),
        ),
        (read("import re\nre.search('n', r['content'])[0]"), json!("n")),
        (read("len(r.pop('content'))"), json!(4)),
        (
            read("def f(x: str):\n    return str(x)\nlen(f(1) + r['content'])"),
            json!(5),
        ),
        (
            read("for k, v in r.items():\n    if k == 'content':\n        n = v.upper()\nn"),
            json!("ONE\n"),
        ),
        (read("c = r['size']\np = 'a' if c else 1\nlen(files.read_file(path=p)['content'])"), json!(4)),
        (
            "best = None\ndef visit(p):\n    global best\n    best = files.read_file(path=p)\n\
             visit('a')\nbest.get('content')"
                .to_owned(),
            json!("one\n"),
        ),
        (
            "def row(p):\n    r = {'n': 1}\n    r['path'] = p\n    return r\n\
             len(files.read_file(path=row('A')['path'].lower())['content'])"
                .to_owned(),
            json!(4),
        ),
        (read("r.update({'mine': 1})\nr['mine']"), json!(1)),
        (read("k = 'mine'\nr[k] = 1\nr[k]"), json!(1)),
        (read("r.pop('mine', None)"), Value::Null),
        (read("try:\n    n = r['total']\nexcept KeyError:\n    n = 0\nn"), json!(0)),
        (
            "import asyncio\na = await asyncio.gather(files.read_file(path='a'), \
             files.read_file(path='a'))\na.append(1)\nlen(a)"
                .to_owned(),
            json!(3),
        ),
        ("files.read_file(path='a', limit=2.0)['content']".to_owned(), json!("one\n")),
        (
            "try:\n    files.read_file(path='b')\nexcept ToolError as grep:\n    r = str(grep)[:17]\nr"
                .to_owned(),
            json!("FileNotFoundError"),
        ),
    ] {
        assert_eq!(value(&place, &code), wanted, "{code}");
    }
}

#[test]
fn without_the_type_checker_scripts_run_and_say_so() {
    let place = Place::new();
    place.write("a", "a\n");
    configure(&place, "[grants.ty]\nfiles = 'read'\n");
    let ended = script(&place, &[], "files.read_file(path='a')['content']");
    let note = ended.json()["note"].as_str().unwrap_or_default().to_owned();
    assert!(ended.status == 0 && note.contains("types were not checked"), "{ended:?}");
    // Names and keywords are checked nevertheless.
    let said = failed(&place, &[], "files.read_file(pth='a')", 1);
    assert!(said.contains("did you mean path?"), "{said}");
}

#[test]
fn common_mistakes_lead_to_errors_that_say_what_to_do() {
    let place = Place::new();
    place.write("a", "one\n");
    for (code, wanted) in [
        // A missing return.
        (
            "def text(p):\n    files.read_file(path=p)['content']\nlines = text('a').splitlines()",
            &["line 3", "NoneType"][..],
        ),
        ("x = 1\nx.append(2)", &["line 2", "append"]),
        // A forgotten await.
        (
            "import asyncio\nfound = await files.glob(pattern='*')\nfiles.read_file(path='a')\n1",
            &["files.read_file was called without `await`"],
        ),
        // A wrong keyword, and no keyword.
        (
            "files.read_file(file='a')",
            &["line 1, column 17", "files.read_file has no keyword 'file'"],
        ),
        ("files.read_file('a')", &["keywords only: files.read_file("]),
        ("read_file(path='a')", &["did you mean files.read_file?"]),
        ("import files", &["Tools are not imported"]),
        ("open('a').read()", &["calls tools, such as files.read_file(path=...)"]),
    ] {
        let said = failed(&place, &[], code, 1);
        for words in wanted {
            assert!(said.contains(words), "{code}: {said}");
        }
        assert!(said.contains("Nothing was"), "{said}");
    }
}

/// What docs/safety.md keeps from tools is kept from the tools of a script as well.
#[test]
fn hostile_scripts_reach_nothing() {
    let place = Place::new();
    place.write("a", "a\n");
    let outside = place.home_file("outside");
    fs::write(&outside, "outside\n").unwrap();
    std::os::unix::fs::symlink(&outside, place.workspace().join("link")).unwrap();
    let attempt = |call: &str| {
        format!("try:\n    {call}\n    r = 'done'\nexcept ToolError as e:\n    r = e.code\nr")
    };
    let outside = outside.to_str().unwrap();
    for call in [
        format!("files.read_file(path={outside:?})"),
        format!("files.write_file(path={outside:?}, content='x')"),
        "files.read_file(path='../home/outside')".to_owned(),
        "files.read_file(path='link')".to_owned(),
        "files.write_file(path='link', content='x')".to_owned(),
        "files.write_file(path='.cofferdam/journal.jsonl', content='')".to_owned(),
        "files.delete_path(path='.cofferdam', recursive=True)".to_owned(),
        "files.read_file(path='/proc/self/environ')".to_owned(),
        "files.write_file(path='a\\0b', content='x')".to_owned(),
        "files.move_path(path='a', to='/tmp/a')".to_owned(),
        "shell.run_command(command='id')".to_owned(),
    ] {
        assert_ne!(value(&place, &attempt(&call)), json!("done"), "{call}");
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), "outside\n");
    assert_eq!(place.read("a"), "a\n");
    for code in [
        "import os\nos.environ['HOME']",
        "__import__('os').listdir('/')",
        "().__class__.__base__.__subclasses__()",
        "exec('1')",
        "int('9' * 10**6)",
        "1 << 10**9",
        "[0] * 10**12",
        "10 ** 10 ** 8",
        "list(range(10**9))",
        "import itertools\nlist(itertools.repeat(1))",
        "import re\nre.match('(a+)+$', 'a' * 40 + 'b')\nwhile True: pass",
        "x = {}\nx['x'] = x\nfiles.write_file(path='b', content=x)",
        "files.write_file(path='b', content='x' * 10**8)",
    ] {
        let begun = Instant::now();
        let ended = script(&place, &["--call-ms", "1500", "--memory-mb", "96"], code);
        assert!(![0, 5].contains(&ended.status), "{code}: {ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{code}");
    }
    assert_eq!(files(&place).len(), 1);
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
