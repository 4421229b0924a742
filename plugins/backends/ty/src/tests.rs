//! Requests on small projects.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use cofferdam_sdk::backend::linting::{Finding, Severity};
use cofferdam_sdk::scan::Query;

use super::*;
use crate::testing::Files;

/// A request for these paths.
fn request(paths: &[&str]) -> Request {
    Request {
        root: String::new(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        config: None,
        select: Vec::new(),
        timeout_ms: 0,
    }
}

/// Lists files as the host does, without ignore files.
fn list(query: &Query, files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![query.root.clone()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(files.path(&directory).as_std_path()) else { continue };
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().into_string().unwrap();
            let kind = entry.file_type().unwrap();
            let path =
                if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
            if query.exclude_globs.contains(&name) {
                continue;
            } else if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn ask(files: &Files, request: &Request) -> Result<Report, Error> {
    lint(request, &files.context(), &|query| Ok(list(query, files)))
}

fn report(files: &[(&str, &str)]) -> Report {
    ask(&Files::new(files), &request(&["."])).unwrap()
}

/// The places and codes of findings.
fn places(report: &Report) -> Vec<String> {
    let place = |found: &Finding| {
        let Finding { path, line, column, code, .. } = found;
        format!("{path}:{line}:{column} {code}")
    };
    report.findings.iter().map(place).collect()
}

const WRONG: &str = "from shop.store import Item, find\n\n\
                     print(len(1))\n\
                     print(Item('a').prise)\n\
                     print(find('a').price)\n";

const STORE: &str = "class Item:\n    def __init__(self, name: str) -> None:\n        self.name = name\n\
                     \x20       self.price = 1\n\n\n\
                     def find(name: str) -> Item | None:\n    return Item(name) if name else None\n";

#[test]
fn types_are_checked_across_files() {
    let found = report(&[("shop/__init__.py", ""), ("shop/store.py", STORE), ("app.py", WRONG)]);
    assert_eq!(
        places(&found),
        [
            "app.py:3:11 invalid-argument-type",
            "app.py:4:7 unresolved-attribute",
            "app.py:5:7 unresolved-attribute",
        ]
    );
    assert_eq!(found.files_checked, 3);
    let first = &found.findings[0];
    assert_eq!((first.end_line, first.end_column), (Some(3), Some(12)));
    assert_eq!(first.severity, Severity::Error);
    assert!(first.message.contains("Expected `Sized`"), "{}", first.message);
    assert!(first.url.as_deref().is_some_and(|url| url.contains("invalid-argument-type")));
    let clean = report(&[("shop/__init__.py", ""), ("shop/store.py", STORE)]);
    assert_eq!((clean.findings.len(), clean.raw.as_str()), (0, ""));
}

#[test]
fn only_the_files_of_the_request_have_findings() {
    let files = Files::new(&[("a.py", "import b\nlen(1)\n"), ("b.py", "len(2)\n"), ("c.txt", "")]);
    for (paths, wanted) in [
        (vec!["a.py"], vec!["a.py:2:5 invalid-argument-type"]),
        (
            vec!["b.py", "a.py", "b.py"],
            vec!["a.py:2:5 invalid-argument-type", "b.py:1:5 invalid-argument-type"],
        ),
        (vec!["c.txt"], vec![]),
    ] {
        assert_eq!(places(&ask(&files, &request(&paths)).unwrap()), wanted);
    }
}

#[test]
fn a_file_that_nests_too_deeply_is_a_finding() {
    let deep = format!("x = 1{}\n", " + 1".repeat(5_000));
    let found = report(&[("deep.py", &deep), ("app.py", "import deep\nlen(1)\n")]);
    let codes: Vec<(&str, &str)> =
        found.findings.iter().map(|found| (found.path.as_str(), found.code.as_str())).collect();
    assert_eq!(codes, [("app.py", "invalid-argument-type"), ("deep.py", "io")]);
    assert!(found.findings[1].message.contains("nested operators"), "{found:?}");
}

#[test]
fn the_configuration_decides() {
    let app = "def f(x: int) -> None: ...\n\n\nf('a')\nprint(undefined)\n";
    for (pyproject, wanted) in [
        ("", vec!["error invalid-argument-type", "error unresolved-reference"]),
        ("[tool.ty.rules]\ninvalid-argument-type = 'ignore'\n", vec!["error unresolved-reference"]),
        (
            "[tool.ty.rules]\nall = 'ignore'\nunresolved-reference = 'warn'\n",
            vec!["warning unresolved-reference"],
        ),
        ("[tool.ty.src]\nexclude = ['app.py']\n", vec![]),
        ("[tool.ty.src]\ninclude = ['src']\n", vec![]),
    ] {
        let found = report(&[("app.py", app), ("pyproject.toml", pyproject)]);
        let findings: Vec<String> = found
            .findings
            .iter()
            .map(|found| {
                let severity = if found.severity == Severity::Error { "error" } else { "warning" };
                format!("{severity} {}", found.code)
            })
            .collect();
        assert_eq!(findings, wanted, "{pyproject}");
    }
    // A file that is named is checked in any case.
    let files = Files::new(&[("app.py", app), ("ty.toml", "src.exclude = ['app.py']")]);
    assert_eq!(ask(&files, &request(&["app.py"])).unwrap().findings.len(), 2);
    let newer = "type A = int\n";
    let files = Files::new(&[("a.py", newer), ("old.toml", "environment.python-version = '3.11'")]);
    assert_eq!(ask(&files, &request(&["a.py"])).unwrap().findings.len(), 0);
    let with = Request { config: Some("old.toml".to_owned()), ..request(&["a.py"]) };
    assert_eq!(places(&ask(&files, &with).unwrap()), ["a.py:1:1 syntax-error"]);
}

#[test]
fn codes_can_be_selected() {
    let files = Files::new(&[(
        "a.py",
        "len(1)\nprint(undefined)\nfrom typing import reveal_type\nreveal_type(1)\n",
    )]);
    for (select, wanted) in [
        ("unresolved", "a.py:2:7 unresolved-reference"),
        ("invalid-argument-type", "a.py:1:5 invalid-argument-type"),
    ] {
        let select = vec![select.to_owned()];
        let found = ask(&files, &Request { select, ..request(&["a.py"]) }).unwrap();
        assert_eq!(places(&found), [wanted]);
    }
}

#[test]
fn packages_that_may_be_installed_elsewhere_are_not_findings() {
    let app = "import requests.adapters\nfrom numpy import array\nimport shop.missing\n\
               from .near import x\n\nprint(array([1]) + requests.get('x').text + x)\n";
    let files = [("shop/__init__.py", ""), ("app.py", app)];
    let found = report(&files);
    let own = ["app.py:3:8 unresolved-import", "app.py:4:7 unresolved-import"];
    assert_eq!(places(&found), own);
    let line = "not checked: what comes from packages that are not installed in the workspace: \
                numpy, requests";
    assert_eq!(found.raw.lines().next(), Some(line));
    let venv =
        (".venv/lib/python3.12/site-packages/numpy.py", "def array(x: list[int]) -> int: ...\n");
    let found = report(&[files.as_slice(), &[venv]].concat());
    assert_eq!(found.findings[0].message, "Cannot resolve imported module `requests.adapters`");
    assert_eq!(found.findings.len(), 3, "{:?}", places(&found));
    let named = ("ty.toml", "rules.unresolved-import = 'warn'\n");
    let found = report(&[files.as_slice(), &[named]].concat());
    assert_eq!(found.findings.len(), 4, "{:?}", places(&found));
}

#[test]
fn files_that_can_not_be_checked_are_findings() {
    let files = Files::new(&[("broken.py", "def broken(:\n    pass\n")]);
    files.write("latin.py", b"# caf\xe9\nlen(1)\n");
    files.write("huge.py", vec![b'#'; 5 << 20]);
    files.write("nul.py", b"x = 1\0\n");
    let found = ask(&files, &request(&["."])).unwrap();
    let of = |path: &str| -> Vec<&str> {
        let of_file = found.findings.iter().filter(|found| found.path == path);
        of_file.map(|found| found.code.as_str()).collect()
    };
    assert!(of("broken.py").contains(&SYNTAX), "{:?}", places(&found));
    assert!(of("nul.py").contains(&SYNTAX), "{:?}", places(&found));
    assert_eq!((of("latin.py"), of("huge.py")), (vec!["io"], vec!["io"]));
}

const SYNTAX: &str = settings::SYNTAX_ERROR;

#[test]
fn odd_files_do_no_harm() {
    let files = Files::new(&[("a.py", "import loop\nimport wait\nfrom loop import x\n")]);
    for (target, link) in [("loop.py", "loop.py"), ("..", "up"), ("/etc/passwd", "out.py")] {
        std::os::unix::fs::symlink(target, files.path(link).as_std_path()).unwrap();
    }
    let found = ask(&files, &request(&["."])).unwrap();
    assert!(found.files_checked >= 1, "{:?}", places(&found));
    let nested = format!("x = {}1{}\n", "(".repeat(5_000), ")".repeat(5_000));
    files.write("deep.py", nested);
    let found = ask(&files, &request(&["deep.py"])).unwrap();
    assert_eq!(places(&found), ["deep.py:0:0 io"]);
}

#[test]
fn invalid_requests_are_refused() {
    let files = Files::new(&[("a.py", ""), ("broken.toml", "]]] = [[[\n"), ("d/x.toml", "")]);
    let configured =
        |config: &str| Request { config: Some(config.to_owned()), ..request(&["a.py"]) };
    for request in [
        request(&["missing.py"]),
        request(&["../outside.py"]),
        request(&["/outside.py"]),
        configured("missing.toml"),
        configured("../outside.toml"),
        configured("broken.toml"),
        configured("d"),
        Request { select: vec!["E501".to_owned()], ..request(&["a.py"]) },
    ] {
        let answer = ask(&files, &request);
        assert!(matches!(answer, Err(Error::Invalid(_))), "{request:?}: {answer:?}");
    }
    let started = Instant::now() - Duration::from_secs(1);
    assert!(matches!(within(1, started), Err(Error::Limit(_))));
    assert!(within(0, started).is_ok() && within(60_000, started).is_ok());
}

#[test]
fn the_version_is_that_of_the_crates() {
    let manifest = include_str!("../Cargo.toml");
    assert!(manifest.contains(&format!("ty_python_semantic = \"={VERSION}\"")));
}
