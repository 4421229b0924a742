#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]
//! Scripts on a host of the tests.

use std::cell::RefCell;

use cofferdam_sdk::backend::linting::Severity;
use cofferdam_sdk::tools::Effects;
use serde_json::json;

use super::*;

/// Tools that work on a map of files.
#[derive(Default)]
pub struct Fake {
    files: RefCell<BTreeMap<String, String>>,
    batches: RefCell<Vec<usize>>,
    /// What the checker finds, if there is one.
    findings: Option<Vec<Finding>>,
    /// What the checker was asked about.
    sources: RefCell<Vec<(String, String)>>,
}

impl Host for Fake {
    fn call(&self, requests: &[Request]) -> Vec<Result<String, Failure>> {
        self.batches.borrow_mut().push(requests.len());
        requests.iter().map(|request| self.one(request)).collect()
    }

    fn names(&self) -> Vec<String> {
        ["files.move", "files.read_file", "files.write_file", "grep.grep", "grep.list"]
            .map(str::to_owned)
            .into()
    }

    fn search(&self, query: &str, max: u32) -> Vec<Tool> {
        let found = self.names().into_iter().filter(|name| name.contains(query));
        found.take(max as usize).filter_map(|name| self.get(&name)).collect()
    }

    fn get(&self, name: &str) -> Option<Tool> {
        self.names().contains(&name.to_owned()).then(|| Tool {
            name: name.to_owned(),
            description: "Does it.".to_owned(),
            effects: Effects::Read,
            input:
                json!({"x-scripts": if name == "grep.list" { json!({"n": 9}) } else { json!({}) },
                "additionalProperties": false, "required": ["path"], "properties": {
                "path": {"type": "string", "x-aliases": ["file_path"]},
                "-i": {"type": "boolean"}, "from": {}}})
                .to_string(),
            output: json!({"type": "object", "additionalProperties": false, "properties":
                {"content": {"type": "string"}}})
            .to_string(),
        })
    }

    fn changed(&self) -> Changes {
        let paths: Vec<String> = self.files.borrow().keys().cloned().collect();
        Changes { total: u32::try_from(paths.len()).unwrap(), paths }
    }

    fn check(&self, sources: &[(String, String)]) -> Option<Result<Vec<Finding>, Error>> {
        *self.sources.borrow_mut() = sources.to_vec();
        self.findings.clone().map(Ok)
    }
}

impl Fake {
    fn one(&self, request: &Request) -> Result<String, Failure> {
        let args: Value = serde_json::from_str(&request.args).unwrap();
        let path = args["path"].as_str().unwrap_or_default().to_owned();
        match request.tool.as_str() {
            "files.read_file" => match self.files.borrow().get(&path) {
                Some(content) => Ok(json!({"content": content}).to_string()),
                None => Err(Failure {
                    outcome: "error".to_owned(),
                    code: "FileNotFoundError".to_owned(),
                    message: format!("file not found: {path}"),
                    detail: Some(json!({"path": path}).to_string()),
                }),
            },
            "files.write_file" => {
                let content = args["content"].as_str().unwrap().to_owned();
                self.files.borrow_mut().insert(path, content);
                Ok("{}".to_owned())
            }
            "grep.list" if path == "large" => Ok(json!({"truncated": true}).to_string()),
            _ => Ok(args.to_string()),
        }
    }
}

fn run_with(code: &str, inputs: Value, host: &Fake) -> Result<RunOutput, ToolError> {
    let Value::Object(inputs) = inputs else { panic!("no object") };
    script::run(RunArgs { code: code.to_owned(), inputs, check: CheckMode::No }, host)
}

fn value(code: &str) -> Value {
    let host = Fake::default();
    host.files.borrow_mut().insert("a".to_owned(), "text".to_owned());
    run_with(code, json!({}), &host)
        .map(|output| output.value)
        .unwrap_or_else(|error| json!(error.to_string()))
}

fn message(code: &str) -> String {
    run_with(code, json!({}), &Fake::default()).unwrap_err().to_string()
}

#[test]
fn tools_are_functions_of_modules() {
    for (code, wanted) in [
        ("1 + 1", json!(2)),
        ("files.read_file(path='a')", json!({"content": "text"})),
        ("f = files.read_file\nf(path='a')['content']", json!("text")),
        ("[files.read_file(path=p)['content'] for p in ['a', 'a']]", json!(["text", "text"])),
        ("def f(p):\n  return files.read_file(path=p)\nf('a')", json!({"content": "text"})),
        ("grep.grep(pattern='x', i=True)", json!({"pattern": "x", "-i": true})),
        (
            "files.move(from_='x', to={'a': (1, None)})",
            json!({"from": "x", "to": {"a": [1, null]}}),
        ),
        ("files.move(**{'-i': 1})", json!({"-i": 1})),
        ("x = 1", json!(null)),
        ("return 1", json!(1)),
        ("import json\njson.loads('[1]')", json!([1])),
    ] {
        assert_eq!(value(code), wanted, "{code}");
    }
}

#[test]
fn scripts_get_all_where_models_get_a_part() {
    assert_eq!(value("grep.list(path='a')"), json!({"path": "a", "n": 9}));
    assert_eq!(value("grep.list(path='a', n=1)"), json!({"path": "a", "n": 1}));
    assert_eq!(value("grep.grep(path='a')"), json!({"path": "a"}));
    let output = run_with("grep.list(path='large')", json!({}), &Fake::default()).unwrap();
    assert!(output.note.unwrap().starts_with("grep.list returned only a part"));
}

#[test]
fn inputs_are_variables() {
    let output =
        run_with("[a, b['c']]", json!({"a": 1, "b": {"c": "d"}}), &Fake::default()).unwrap();
    assert_eq!(output.value, json!([1, "d"]));
}

#[test]
fn a_failure_is_an_exception_with_attributes() {
    let caught = "try:\n  files.read_file(path='b')\nexcept ToolError as e:\n  x = [e.code, e.message, e.detail, str(e)]\nx";
    let text = "file not found: b";
    let wanted =
        json!(["FileNotFoundError", text, {"path": "b"}, format!("FileNotFoundError: {text}")]);
    assert_eq!(value(caught), wanted);
    let other = "try:\n  1 / 0\nexcept Exception as e:\n  e.code";
    assert!(message(other).contains("'ZeroDivisionError' object has no attribute 'code'"));
    assert_eq!(
        value("try:\n  raise ToolError('x')\nexcept ToolError as e:\n  y = str(e)\ny"),
        json!("x")
    );
}

#[test]
fn calls_side_by_side_are_one_batch() {
    let host = Fake::default();
    host.files.borrow_mut().insert("a".to_owned(), "text".to_owned());
    let code = "import asyncio\nr = await asyncio.gather(*[files.read_file(path='a') for _ in range(5)])\n\
                x = await files.read_file(path='a')\nlen(r) + len(x)";
    let output = run_with(code, json!({}), &host).unwrap();
    assert_eq!((output.value, output.calls["files.read_file"]), (json!(6), 6));
    assert_eq!(*host.batches.borrow(), [5, 1]);
    // Also in a coroutine, a failure can be handled where the call is.
    let caught = "import asyncio\nasync def one(p):\n  try:\n    r = await files.read_file(path=p)\n    \
                  return r['content']\n  except ToolError as e:\n    return e.code\n\
                  await asyncio.gather(one('a'), one('b'))";
    assert_eq!(value(caught), json!(["text", "FileNotFoundError"]));
    let around = "import asyncio\nasync def one(p):\n  return (await files.read_file(path=p))['content']\n\
                  try:\n  await asyncio.gather(one('a'), one('b'))\nexcept ToolError as e:\n  x = e.code\nx";
    assert_eq!(value(around), json!("FileNotFoundError"));
}

#[test]
fn the_result_counts_calls_and_lists_changes() {
    let host = Fake::default();
    let code = "print('hello', 1)\nfor p in ['x', 'y']:\n  files.write_file(path=p, content='c')";
    let output = run_with(code, json!({}), &host).unwrap();
    assert_eq!(output.printed, "hello 1\n");
    assert_eq!(output.calls, BTreeMap::from([("files.write_file".to_owned(), 2)]));
    assert_eq!(output.changed, ["x", "y"]);
    let silent = run_with("x = 1", json!({}), &host).unwrap();
    assert!(silent.note.is_some());
}

#[test]
fn errors_say_where_and_what_would_be_right() {
    for (code, wanted) in [
        (
            "x = 1\nfiles.read_file(path='b')",
            "line 2, in <module>: files.read_file(path='b')\nToolError: FileNotFoundError: file not found: b\nNothing was changed.",
        ),
        ("files.reed_file(path='b')", "did you mean files.read_file?"),
        ("files.qqqqqqqq()", "it has move, read_file, write_file"),
        ("read_file(path='b')", "did you mean files.read_file?"),
        ("flies.read_file(path='b')", "did you mean files?"),
        ("zzz", "name 'zzz' is not defined"),
        (
            "files.read_file('b')",
            "files.read_file takes keywords only: files.read_file(from_=..., i=..., path=...)",
        ),
        ("files.read_file(path={1, 2}, x=len)", "the argument x"),
        ("import files", "Tools are not imported"),
        ("open('x')", "a script has no files"),
        ("def f():\n  return f()\nf()", "RecursionError"),
        ("1 +", "SyntaxError"),
        ("len", "no JSON"),
        ("print('it')\n1 / 0", "It had printed: it"),
        ("async def f(): pass\nx = files.read_file(path='a')\nx['content']", "awaits every call"),
        (
            "async def f(): pass\nfiles.write_file(path='a', content='')\n1",
            "called without `await`",
        ),
    ] {
        let error = message(code);
        assert!(error.contains(wanted), "{code}: {error}");
    }
}

#[test]
fn a_script_is_checked_before_it_runs() {
    let checked = |code: &str, check| {
        let host = Fake::default();
        host.files.borrow_mut().insert("a".to_owned(), "text".to_owned());
        let ended =
            script::run(RunArgs { code: code.to_owned(), inputs: Map::new(), check }, &host);
        (ended, host.batches.into_inner().len())
    };
    for (code, wanted) in [
        (
            "x = 1\ny = files.reed_file(path='a')",
            "line 2, column 11: 'files' has no tool 'reed_file'; did you mean files.read_file?",
        ),
        (
            "files.read_file(pth='a')",
            "line 1, column 17: files.read_file has no keyword 'pth'; did you mean path?\nNothing was run.",
        ),
        ("[files.read_file() for _ in x]", "line 1, column 2: files.read_file needs path=..."),
        (
            "files.read_file('a')",
            "column 17: keywords only: files.read_file(from_=..., i=..., path=...)",
        ),
        ("files.read_file(path=1)", "column 22: files.read_file: path is str, and not int"),
        (
            "if False:\n  files.read_file(path='a', i='x')",
            "line 2, column 31: files.read_file: i is bool, and not str",
        ),
    ] {
        let (ended, calls) = checked(code, CheckMode::Before);
        let error = ended.unwrap_err();
        assert_eq!((error.code.as_str(), calls), ("ScriptRefused", 0), "{code}");
        assert!(error.message.contains(wanted), "{code}: {error}");
    }
    for code in [
        "files.read_file(path='a')",
        "files.read_file(file_path='a')",
        "files.read_file(**{'path': 'a'})",
        "files.read_file(path=None or 'a', i=None)",
        "def f(files):\n  files.anything(1)\nfiles.read_file(1)",
    ] {
        let (ended, _) = checked(code, CheckMode::Only);
        let note = ended.unwrap().note.unwrap();
        assert!(note.starts_with("no problem found; nothing was run"), "{code}: {note}");
    }
    assert!(checked("1 +", CheckMode::Only).0.unwrap_err().message.contains("SyntaxError"));
}

/// A finding of the type checker, whose first line is the import of the stubs.
fn finding(line: u32, column: u32, code: &str, message: &str) -> Finding {
    Finding {
        path: "script.py".to_owned(),
        line: line + 1,
        column,
        end_line: None,
        end_column: None,
        code: code.to_owned(),
        severity: Severity::Error,
        message: message.to_owned(),
        url: None,
        fix: None,
    }
}

#[test]
fn only_what_fails_in_any_case_is_refused_by_its_type() {
    let code = "p = 'a'\nx = files.read_file(path=p)\nx['mine'] = 1\nx.content";
    let (argument, key) = ("invalid-argument-type", "invalid-key");
    let attribute = "unresolved-attribute";
    let expected = |found: &str| {
        format!("Argument to function `read_file` is incorrect: Expected `str`, found `{found}`")
    };
    let key_of = |key: &str| format!("Unknown key \"{key}\" for TypedDict `FilesReadFile`");
    let no_attribute =
        |of: &str, name: &str| format!("Object of type `{of}` has no attribute `{name}`");
    for (found, wanted) in [
        (
            finding(2, 21, argument, &expected("int")),
            Some("line 2, column 26: files.read_file: path is str, and not int"),
        ),
        (finding(2, 21, argument, &expected("int | str")), None),
        (finding(1, 1, argument, &expected("int")), None),
        (
            finding(4, 3, key, &key_of("contents")),
            Some("a result of files.read_file has no key 'contents'; did you mean 'content'?"),
        ),
        (finding(4, 3, key, &key_of("zzz")), Some("has no key 'zzz'; it has content")),
        (finding(3, 3, key, &key_of("mine")), None),
        (
            finding(4, 1, attribute, &no_attribute("FilesReadFile", "content")),
            Some("line 4, column 1: a result of files.read_file is a dict: write [\"content\"]"),
        ),
        (finding(4, 1, attribute, &no_attribute("FilesReadFile", "update")), None),
        (finding(4, 1, attribute, &no_attribute("Exception", "code")), None),
        (
            finding(
                4,
                1,
                attribute,
                "Attribute `group` is not defined on `None` in union `Match[str] | None`",
            ),
            None,
        ),
        (
            finding(4, 1, attribute, &no_attribute("CoroutineType[Any, Any, FilesReadFile]", "x")),
            Some("not awaited"),
        ),
        (finding(4, 1, "invalid-assignment", "whatever"), None),
        (finding(99, 1, key, &key_of("contents")), None),
    ] {
        let host = Fake { findings: Some(vec![found.clone()]), ..Fake::default() };
        let args = RunArgs { code: code.to_owned(), inputs: Map::new(), check: CheckMode::Only };
        match (script::run(args, &host), wanted) {
            (Ok(output), None) => {
                assert_eq!(output.note.as_deref(), Some("no problem found; nothing was run"));
            }
            (Err(error), Some(wanted)) => assert!(error.message.contains(wanted), "{error}"),
            (ended, wanted) => panic!("{found:?}: {ended:?}, and not {wanted:?}"),
        }
        let sources = host.sources.take();
        assert!(sources[1].1.contains("class FilesReadFile(TypedDict):"), "{}", sources[1].1);
    }
}

#[test]
fn without_a_checker_the_result_says_so() {
    let host = Fake::default();
    let run = |code: &str, check| {
        let args = RunArgs { code: code.to_owned(), inputs: Map::new(), check };
        script::run(args, &host).unwrap().note
    };
    let note = run("files.move(path='a')", CheckMode::Before).unwrap();
    assert!(note.contains("types were not checked"), "{note}");
    assert_eq!(run("files.move(path='a')", CheckMode::No), None);
    // Nothing is asked about a script without tools.
    host.sources.take();
    assert_eq!(run("1 + 1", CheckMode::Before), None);
    assert!(host.sources.take().is_empty());
}

#[test]
fn printing_is_bounded_whatever_the_script_does() {
    let error = run_with(
        "while True:\n  try:\n    print('x' * 1000)\n  except BaseException:\n    break",
        json!({}),
        &Fake::default(),
    );
    assert_eq!(error.unwrap_err().code, "PrintLimit");
}

#[test]
fn tools_are_found_as_signatures() {
    let host = Fake::default();
    let args = |query: &str| SearchArgs { query: query.to_owned(), limit: None };
    assert!(search(&args(""), &host).tools.contains("files.read_file\n"));
    assert!(search(&args("grep"), &host).tools.starts_with("grep.grep("));
    assert!(search(&args("nothing"), &host).tools.contains("There are: files.move"));
}
