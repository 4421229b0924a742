#![expect(clippy::expect_used, clippy::unwrap_used, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "Python's own parser is what this is compared with")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::outline;
use crate::language::Language;
use crate::outline::{Kind, Outline, Symbol};
use crate::search::outline_of;

fn found<'a>(outline: &'a Outline, name: &str) -> &'a Symbol {
    outline.symbols.iter().find(|symbol| symbol.qualified() == name).expect(name)
}

/// A Python file with definitions of every kind.
const PYTHON: &str = r#""""About the module."""
import os
from typing import overload

__all__ = ["get", "Session"]
LIMIT: int = 3
first, (second, *rest) = os.environ, (1, 2, 3)
type Pair[T] = tuple[T, T]

@overload
def get(name: str) -> str: ...
@overload
def get(name: int) -> int: ...
def get(name, /, path: "str" = 'a  b', *args: int, key=None, **rest) -> list[
    str  # why
]:
    """Gets it.

    In full.
    """
    def inner():
        class Deep:
            async def run(self): pass
    return inner

@decorator(
    1,
)
# between
class Session(Base, metaclass=Meta):
    """Holds."""
    size = 3
    _hidden: int
    def __init__(self, name):
        self.name: str = name
        self.name = 1
        self._count, other.x = 0, 1
    @property
    def label(self): return 1
    @staticmethod
    async def open(*, now): ...
if os:
    try:
        def late(): pass
    except Exception:
        def late(): return 1
    finally:
        with x as y:
            for z in y:
                while z:
                    match z:
                        case 1:
                            def deepest(): ...
"#;

#[test]
fn definitions_of_every_kind_are_found() {
    let outline = outline(PYTHON);
    assert_eq!(outline.problem, None);
    assert_eq!(outline.doc.as_deref(), Some("About the module."));
    assert_eq!(outline.exports.as_deref().unwrap(), ["get", "Session"]);
    let listed: Vec<(String, Kind, usize, usize, usize)> = outline
        .symbols
        .iter()
        .map(|symbol| {
            let Symbol { kind, start_line, line, end_line, .. } = symbol;
            (symbol.qualified(), *kind, *start_line, *line, *end_line)
        })
        .collect();
    let wanted = [
        ("__all__", Kind::Variable, 5, 5, 5),
        ("LIMIT", Kind::Constant, 6, 6, 6),
        ("first", Kind::Variable, 7, 7, 7),
        ("second", Kind::Variable, 7, 7, 7),
        ("rest", Kind::Variable, 7, 7, 7),
        ("Pair", Kind::Type, 8, 8, 8),
        ("get", Kind::Function, 10, 11, 11),
        ("get", Kind::Function, 12, 13, 13),
        ("get", Kind::Function, 14, 14, 24),
        ("get.inner", Kind::Function, 21, 21, 23),
        ("get.inner.Deep", Kind::Class, 22, 22, 23),
        ("get.inner.Deep.run", Kind::Method, 23, 23, 23),
        ("Session", Kind::Class, 26, 30, 41),
        ("Session.size", Kind::Field, 32, 32, 32),
        ("Session._hidden", Kind::Field, 33, 33, 33),
        ("Session.__init__", Kind::Method, 34, 34, 37),
        ("Session.name", Kind::Field, 35, 35, 35),
        ("Session._count", Kind::Field, 37, 37, 37),
        ("Session.label", Kind::Property, 38, 39, 39),
        ("Session.open", Kind::Method, 40, 41, 41),
        ("late", Kind::Function, 44, 44, 44),
        ("late", Kind::Function, 46, 46, 46),
        ("deepest", Kind::Function, 53, 53, 53),
    ];
    let wanted: Vec<_> =
        wanted.into_iter().map(|(name, kind, a, b, c)| (name.to_owned(), kind, a, b, c)).collect();
    assert_eq!(listed, wanted);
}

#[test]
fn signatures_documentation_and_visibility_are_found() {
    let text = PYTHON;
    let outline = outline(text);
    for (name, signature) in [
        ("LIMIT", "LIMIT: int = 3"),
        ("Pair", "type Pair[T] = tuple[T, T]"),
        ("Session", "class Session(Base, metaclass=Meta)"),
        ("Session.open", "async def open(*, now)"),
        ("get.inner.Deep.run", "async def run(self)"),
    ] {
        assert_eq!(found(&outline, name).signature, signature);
    }
    let get = outline.symbols.iter().rfind(|symbol| symbol.name() == "get").unwrap();
    assert!(get.signature.starts_with(
        r#"def get(name, /, path: "str" = 'a b', *args: int, key=None, **rest) -> list["#
    ));
    assert_eq!(get.doc.as_deref(), Some("Gets it.\n\nIn full."));
    assert_eq!(get.summary().as_deref(), Some("Gets it."));
    let session = found(&outline, "Session");
    assert_eq!(session.decorators, ["decorator( 1, )"]);
    assert!(text[session.span.clone()].starts_with("@decorator("));
    assert!(text[session.span.clone()].ends_with("..."));
    assert!(!found(&outline, "Session._hidden").public);
    assert!(found(&outline, "Session.__init__").public);
    assert!(found(&outline, "get.inner.Deep").local && !session.local);
}

#[test]
fn odd_files_keep_their_lines() {
    for (what, bytes, wanted) in [
        ("CRLF", &b"x = 1\r\n\r\ndef f():\r\n    pass\r\n"[..], Some(("f", 3, 4))),
        ("CR", b"x = 1\r\rdef f():\r    pass\r", Some(("f", 3, 4))),
        ("BOM", b"\xef\xbb\xbfdef f(): pass\n", Some(("f", 1, 1))),
        ("tabs", b"class A:\n\tdef f(self):\n\t\treturn 1\n", Some(("A.f", 2, 3))),
        ("unicode", "def größe(): pass\n".as_bytes(), Some(("größe", 1, 1))),
        ("NFKC", "def ﬁle(): pass\n".as_bytes(), Some(("file", 1, 1))),
        ("latin-1", b"# coding: latin-1\ndef f():\n    '\xe9'\n", Some(("f", 2, 3))),
        ("form feed", b"x = 1\n\x0c\ndef f(): pass\n", Some(("f", 3, 3))),
        ("empty", b"", None),
        ("backslash", b"@a\\\n.b\ndef f(): \\\n  pass\n", Some(("f", 3, 4))),
        ("async", b"@a\nasync \\\n def f(): pass\n", Some(("f", 2, 3))),
    ] {
        let (language, outline) = outline_of("a.py", bytes).unwrap();
        assert_eq!((language, &outline.problem), (Language::Python, &None), "{what}");
        let symbol = wanted.map(|(name, line, end_line)| (name.to_owned(), line, end_line));
        let last = outline.symbols.last();
        let shown = last.map(|symbol| (symbol.qualified(), symbol.line, symbol.end_line));
        assert_eq!(shown, symbol, "{what}");
    }
}

#[test]
fn files_with_syntax_errors_keep_their_symbols() {
    let outline =
        outline("def good():\n    return 1\n\ndef bad(:\n    pass\n\nclass After:\n    pass\n");
    assert_eq!(outline.problem.as_ref().unwrap().line, 4);
    assert_eq!(found(&outline, "good").end_line, 2);
    assert_eq!(found(&outline, "After").line, 7);
    let (_, lossy) = outline_of("a.py", b"def f():\n    '\xe9'\n").unwrap();
    assert!(lossy.problem.unwrap().message.contains("UTF-8"));
    assert_eq!(lossy.symbols.len(), 1);
}

/// All files of the standard library of an installed Python.
fn library() -> Vec<PathBuf> {
    let script = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let answer = Command::new("python3").args(["-c", script]).output().expect("python3 is needed");
    let directory = String::from_utf8(answer.stdout).unwrap();
    let mut files = Vec::new();
    collect(Path::new(directory.trim()), &mut files);
    files.sort();
    files
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        // Installed packages, and tests, which contain files with intentional syntax errors.
        let left_out = ["site-packages", "dist-packages", "test", "tests"];
        if path.is_symlink() || left_out.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
}

/// What Python's own parser finds in these files: a JSON line for each.
fn definitions_by_python(files: &[PathBuf]) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions.py");
    let mut python = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let mut stdin = python.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(names.join("\n").as_bytes()).unwrap());
    let output = python.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// A definition found by Python, as text.
fn wanted_definition(one: &Value) -> String {
    let name = one["name"].as_str().unwrap();
    let doc = one["doc"].as_str().map(plain);
    let [is_class, start, line, end] =
        ["is_class", "start_line", "line", "end_line"].map(|key| &one[key]);
    format!("{name} {is_class} {start} {line} {end} {doc:?}")
}

/// A class or function of an outline, in the form of [`wanted_definition`].
fn found_definition(symbol: &Symbol) -> Option<String> {
    let is_class = symbol.kind == Kind::Class;
    if !is_class && !matches!(symbol.kind, Kind::Function | Kind::Method | Kind::Property) {
        return None;
    }
    let Symbol { start_line, line, end_line, .. } = *symbol;
    let (name, doc) = (symbol.qualified(), symbol.doc.as_deref().map(plain));
    Some(format!("{name} {is_class} {start_line} {line} {end_line} {doc:?}"))
}

#[test]
fn the_standard_library_has_the_symbols_that_python_finds() {
    let files = library();
    assert!(files.len() >= 500, "only {} files", files.len());
    let (mut compared, mut definitions) = (0, 0);
    for line in definitions_by_python(&files).lines() {
        let wanted: Value = serde_json::from_str(line).unwrap();
        let path = wanted["path"].as_str().unwrap();
        let Some(list) = wanted["definitions"].as_array() else {
            continue;
        };
        let (_, outline) = outline_of(path, &fs::read(path).unwrap()).unwrap();
        assert_eq!(outline.problem, None, "{path}");
        let mut count: BTreeMap<String, i64> = BTreeMap::new();
        for one in list {
            *count.entry(wanted_definition(one)).or_default() += 1;
        }
        for found in outline.symbols.iter().filter_map(found_definition) {
            *count.entry(found).or_default() -= 1;
        }
        count.retain(|_, number| *number != 0);
        assert!(count.is_empty(), "{path}: {count:#?}");
        compared += 1;
        definitions += list.len();
    }
    assert!(
        compared >= 500 && definitions >= 10_000,
        "{compared} files, {definitions} definitions"
    );
}

/// A documentation without white space: tabs can be expanded in different ways.
fn plain(doc: &str) -> String {
    doc.split_whitespace().collect()
}
