//! The plugin `symbols` through the whole path of a call: compared with what Python's own parser
//! finds in its standard library, and with files that parsers refuse.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Ended, Place, project};
use crate::trial::configure;

/// The results of these calls, in order. All of them have to succeed.
fn answers(place: &Place, calls: &[(&str, Value)]) -> Vec<Value> {
    let actions: Vec<Value> = calls
        .iter()
        .map(|(tool, arguments)| {
            let mut action = arguments.clone();
            action["type"] = json!(tool);
            action
        })
        .collect();
    let ended: Ended = place.run_with(&["run"], &json!({ "actions": actions }).to_string());
    assert_eq!(
        ended.status,
        0,
        "{}\n{}",
        ended.stderr,
        &ended.stdout[..ended.stdout.len().min(2000)]
    );
    let results = ended.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), calls.len());
    results.into_iter().map(|result| result["metadata"].clone()).collect()
}

#[expect(clippy::disallowed_methods, reason = "Python's own parser is what this is compared with")]
fn python(arguments: &[&str], input: Option<&Path>) -> String {
    let stdin = input.map_or_else(Stdio::null, |path| fs::File::open(path).unwrap().into());
    let output = Command::new("python3").args(arguments).stdin(stdin).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Copies the standard library into the workspace and returns the paths of the copies.
fn library(place: &Place) -> Vec<String> {
    let script = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let library = PathBuf::from(python(&["-c", script], None).trim());
    let mut found = Vec::new();
    let mut pending = vec![library.clone()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            // Installed packages and tests contain files that can't be parsed.
            let left_out = ["site-packages", "dist-packages", "test", "tests"];
            if path.is_symlink() || left_out.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "py") {
                let relative = path.strip_prefix(&library).unwrap().to_str().unwrap().to_owned();
                place.write(&relative, fs::read(&path).unwrap());
                found.push(relative);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_class_and_function_of_the_standard_library_is_found() {
    let place = Place::new();
    let files = library(&place);
    assert!(files.len() >= 500, "only {} files", files.len());
    let list = place.home().with_file_name("files");
    let absolute: Vec<String> =
        files.iter().map(|file| place.workspace().join(file).display().to_string()).collect();
    fs::write(&list, absolute.join("\n")).unwrap();
    let script = project().join("plugins/symbols/tests/definitions.py");
    let parsed = python(&[script.to_str().unwrap()], Some(&list));
    // Name and lines of each definition outside of functions, by file.
    let mut wanted: Vec<(String, Vec<Value>)> = Vec::new();
    for (file, line) in files.iter().zip(parsed.lines()) {
        let parsed: Value = serde_json::from_str(line).unwrap();
        if let Some(definitions) = parsed["definitions"].as_array() {
            wanted.push((file.clone(), definitions.clone()));
        }
    }
    assert!(wanted.len() >= 500, "only {} files parse", wanted.len());

    let calls: Vec<(&str, Value)> = wanted
        .iter()
        .map(|(file, _)| ("discover_api", json!({"module": file, "private": true, "limit": 5000})))
        .collect();
    let mut compared = 0;
    for ((file, definitions), answer) in wanted.iter().zip(answers(&place, &calls)) {
        assert_eq!((&answer["truncated"], answer.get("unparsed")), (&json!(false), None), "{file}");
        let mut found: BTreeMap<(String, u64, u64), i64> = BTreeMap::new();
        let key = |one: &Value| {
            let number = |name: &str| one[name].as_u64().unwrap();
            (one["name"].as_str().unwrap().to_owned(), number("line"), number("end_line"))
        };
        for symbol in answer["files"][0]["symbols"].as_array().unwrap() {
            if ["class", "function", "method", "property"]
                .contains(&symbol["kind"].as_str().unwrap())
            {
                *found.entry(key(symbol)).or_default() += 1;
            }
        }
        let functions: Vec<String> = definitions
            .iter()
            .filter(|one| one["is_class"] == false)
            .map(|one| format!("{}.", one["name"].as_str().unwrap()))
            .collect();
        for one in definitions {
            let name = one["name"].as_str().unwrap();
            if !functions.iter().any(|function| name.starts_with(function)) {
                *found.entry(key(one)).or_default() -= 1;
                compared += 1;
            }
        }
        found.retain(|_, number| *number != 0);
        // Definitions in functions are left out, but a class may have the name of a function.
        assert!(found.is_empty(), "{file}: {found:#?}");
    }
    assert!(compared >= 10_000, "only {compared} definitions");
    assert_found_by_name(&place, &wanted);
}

/// Locates some of the definitions by their names, in all files.
fn assert_found_by_name(place: &Place, wanted: &[(String, Vec<Value>)]) {
    let some: Vec<(&String, &Value)> = wanted
        .iter()
        .flat_map(|(file, definitions)| definitions.iter().map(move |one| (file, one)))
        .step_by(150)
        .collect();
    let calls: Vec<(&str, Value)> = some
        .iter()
        .map(|(_, one)| ("locate_symbol", json!({"symbol": one["name"], "limit": 1000})))
        .collect();
    for ((file, one), answer) in some.iter().zip(answers(place, &calls)) {
        let is_there = answer["matches"].as_array().unwrap().iter().any(|found| {
            found["file"] == **file
                && found["line"] == one["line"]
                && found["end_line"] == one["end_line"]
        });
        assert!(is_there, "{file}: {one}");
    }
}

/// Files of each language that are nested as deeply as the parser accepts, and deeper.
#[expect(clippy::too_many_lines, reason = "a table of files")]
fn nested() -> Vec<(String, String)> {
    let around = |before: &str, inner: &str, after: &str, count: usize| {
        format!("{}{inner}{}", before.repeat(count), after.repeat(count))
    };
    let mut files = Vec::new();
    for (count, chain) in [(190, 360), (199, 1400), (250, 1600), (100_000, 100_000)] {
        let blocks: String =
            (0..count.min(2000)).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect();
        let python = [
            format!("x = {}", around("(", "1", ")", count)),
            format!("x = {}", around("[", "", "]", count)),
            format!("x = {}", around("f(", "1", ")", count)),
            format!("x = {}", around("{1: ", "1", "}", count)),
            format!("x = {}1", "-".repeat(chain)),
            format!("x = {}1", "not ".repeat(chain)),
            format!("x = {}1", "await ".repeat(chain)),
            format!("x = {}1", "lambda: ".repeat(chain)),
            format!("x = {}1", "1 if 1 else ".repeat(chain)),
            format!("x = {}1", "1 + ".repeat(chain)),
            format!("x = {}1", "1 ** ".repeat(chain)),
            format!("x = a{}", ".b".repeat(chain)),
            format!("x = a{}", "()".repeat(chain)),
            format!("x = a{}", "[0]".repeat(chain)),
            format!("x = f'{}1{}'", "{".repeat(count), "}".repeat(count)),
            format!("{blocks}{}pass", " ".repeat(count.min(2000))),
            format!("match a:\n case {}: pass", around("[", "b", "]", count)),
        ];
        for (index, text) in python.into_iter().enumerate() {
            files.push((format!("p{count}_{index}.py"), format!("def target(): ...\n{text}\n")));
        }
        let script = [
            around("(", "1", ")", count),
            around("[", "1", "]", count),
            around("f(", "1", ")", count),
            around("{", "", "}", count),
            around("function f() {", "", "}", count),
            around("`${", "1", "}`", count),
            format!("{}1", "!".repeat(chain)),
            format!("{}1", "a => ".repeat(chain)),
            format!("{}1", "a ? b : ".repeat(chain)),
            format!("{}1", "1 + ".repeat(chain)),
            format!("{}1", "1 ** ".repeat(chain)),
            format!("{}1", "a = ".repeat(chain)),
            format!("a{}", ".b".repeat(chain)),
            format!("a{}", "()".repeat(chain)),
            format!("{};", "if (a) b; else ".repeat(chain)),
            format!("type A = {}", around("B<", "c", ">", count)),
            format!("type A = {}1", "a extends b ? c : ".repeat(chain / 4)),
            format!("class A {}", around("{ a = class ", "{}", "}", count)),
        ];
        for (index, text) in script.into_iter().enumerate() {
            files.push((
                format!("t{count}_{index}.ts"),
                format!("function target() {{}}\n{text}\n"),
            ));
        }
        let go = [
            format!("var x = {}", around("(", "1", ")", count)),
            format!("var x = {}1", "-".repeat(chain)),
            format!("var x = {}1", "1 + ".repeat(chain)),
            format!("var x {}int", "*".repeat(chain)),
            format!("var x {}int", "[]".repeat(chain)),
            format!("var x {}", around("struct{ a ", "int", "}", count)),
            format!("func f() {}", around("{", "", "}", count)),
            format!("func f() {{ {} {{}} }}", "if a {} else ".repeat(chain)),
            format!("var x = a{}", "()".repeat(chain)),
        ];
        for (index, text) in go.into_iter().enumerate() {
            let text = format!("package p\n\nfunc target() {{}}\n\n{text}\n");
            files.push((format!("g{count}_{index}.go"), text));
        }
        let rust = [
            format!("const X: u8 = {};", around("(", "1", ")", count)),
            format!("const X: u8 = {};", around("[", "1", "]", count)),
            format!("const X: u8 = {}1;", "-".repeat(chain)),
            format!("const X: u8 = {}1;", "1 + ".repeat(chain)),
            format!("const X: u8 = {}1;", "|| ".repeat(chain)),
            format!("type A = {}u8;", "&".repeat(chain)),
            format!("type A = {};", around("B<", "c", ">", count)),
            format!("fn f() {}", around("{", "", "}", count)),
            around("mod a {", "", "}", count),
            format!("fn f() {{ {} {{}} }}", "if a {} else ".repeat(chain)),
            format!("const X: u8 = a{};", ".b()".repeat(chain)),
        ];
        for (index, text) in rust.into_iter().enumerate() {
            files.push((format!("r{count}_{index}.rs"), format!("fn target() {{}}\n{text}\n")));
        }
    }
    files
}

/// A file never ends a call: it is parsed, or listed with a line.
#[test]
fn deeply_nested_files_do_not_end_a_call() {
    let place = Place::new();
    let files = nested();
    for (path, text) in &files {
        place.write(path, text);
    }
    let mut broken = Vec::new();
    for (path, _) in &files {
        let call = json!({"symbol": "target", "path": path}).to_string();
        let ended = place.run(&["call", "symbols.locate_symbol", &call]);
        // Refused files have no symbols.
        if !(ended.status == 0 || ended.stdout.contains("SymbolNotFound")) {
            broken.push(format!("{path}: {}", ended.stdout));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    // All files in one call.
    let answers = answers(&place, &[("locate_symbol", json!({"symbol": "target", "limit": 1000}))]);
    let answer = &answers[0];
    let (found, unparsed) =
        (answer["total"].as_u64().unwrap(), answer["unparsed_total"].as_u64().unwrap());
    assert!(found >= 50 && unparsed >= 50, "{found} {unparsed}");
    assert_eq!(answer["files_searched"], files.len());
}

#[test]
fn files_that_are_too_large_or_not_text_are_listed() {
    let place = Place::new();
    place.write("good.py", "def target(): ...\n");
    place.write("huge.py", format!("def target(): ...\n{}", "x = 1\n".repeat(1_000_000)));
    // The largest file that is parsed.
    place.write("large.py", format!("def target(): ...\n{}", "x = [1]\n".repeat(125_000)));
    place.write("large.rs", format!("fn target() {{}}\n{}", "const X: u8 = 1;\n".repeat(58_000)));
    place.write("large.ts", format!("function target() {{}}\n{}", "let x = 1;\n".repeat(270_000)));
    place.write(
        "large.go",
        format!("package a\nfunc target() {{}}\n{}", "var x = 1\n".repeat(50_000)),
    );
    place.write("nul.py", "def target(): ...\n\0");
    place.write("latin.py", b"def target(): '\xe9'\n");
    let answer = &answers(&place, &[("locate_symbol", json!({"symbol": "target"}))])[0];
    let names = |list: &str| -> Vec<String> {
        let list = answer[list].as_array().unwrap();
        list.iter().map(|one| one["file"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        names("matches"),
        ["good.py", "large.go", "large.py", "large.rs", "large.ts", "latin.py"]
    );
    assert_eq!(names("unparsed"), ["huge.py", "latin.py", "nul.py"]);
}

#[test]
fn paths_stay_in_the_workspace() {
    let place = Place::new();
    place.write("a.py", "def target(): ...\n");
    for (tool, arguments) in [
        ("locate_symbol", json!({"symbol": "target", "path": "../.."})),
        ("get_source", json!({"symbol": "target", "path": "/etc"})),
        ("trace_calls", json!({"symbol": "target", "path": ".."})),
        ("trace_endpoint", json!({"path": "/"})),
    ] {
        let ended = place.run(&["call", &format!("symbols.{tool}"), &arguments.to_string()]);
        assert!(ended.stdout.contains("PathNotAllowed"), "{tool}: {}", ended.stdout);
    }
    let ended = place.run(&["call", "symbols.discover_api", r#"{"module": "../../etc"}"#]);
    assert!(
        ended.stdout.contains("ModuleNotFound") || ended.stdout.contains("InvalidSymbol"),
        "{}",
        ended.stdout
    );
}

/// More files with routes than fit into a plugin's memory at once.
#[test]
fn endpoints_of_a_large_project_are_found() {
    let place = Place::new();
    // This tests memory; on a busy machine, the default of 30 s is too short.
    configure(&place, "[limits]\ncall-ms = 300000\n");
    let mut main = "from fastapi import FastAPI\n\napp = FastAPI()\n".to_owned();
    for number in 0..1_600 {
        let mut text = format!(
            "from fastapi import APIRouter, Depends\nfrom shared import get_db\n\n\
             router = APIRouter(prefix='/r{number}')\n"
        );
        for item in 0..60 {
            text += &format!(
                "\n\n@router.get('/i{item}/{{id}}')\nasync def get_{item}(id: int, db=Depends(get_db)):\n    \
                 \"\"\"Item {item}.\"\"\"\n    found = db.find(id)\n    return render(found)\n"
            );
        }
        place.write(&format!("api/r{number}.py"), text);
        main += &format!(
            "from api.r{number} import router as r{number}\n\
             app.include_router(r{number}, prefix='/api')\n"
        );
    }
    place.write("main.py", main);
    place.write("shared.py", "def get_db():\n    return connect()\n");
    let endpoint = |wanted| ("trace_endpoint", json!({ "endpoint": wanted }));
    let answers = answers(&place, &[endpoint("GET /api/r7/i9/5"), endpoint("api.r998.get_59")]);
    for (answer, path, file) in [
        (&answers[0], "/api/r7/i9/{id}", "api/r7.py"),
        (&answers[1], "/api/r998/i59/{id}", "api/r998.py"),
    ] {
        assert_eq!(answer["total"], 1, "{answer}");
        let found = &answer["endpoints"][0];
        assert_eq!((&found["path"], &found["file"]), (&json!(path), &json!(file)));
        assert_eq!(found["mounted"], true);
        assert_eq!(found["dependencies"][0]["symbol"], "shared.get_db");
    }
}

/// Search results are cached for the plugin, separately for each scope, and the cache may be
/// deleted at any time.
#[test]
fn a_search_caches_its_results() {
    let place = Place::new();
    for number in 0..100 {
        place.write(
            &format!("sub/m{number:02}.py"),
            format!("class Thing: # {number}\n    x = 1\n"),
        );
    }
    let kept = place.workspace().join(".cofferdam/cached/symbols");
    let count = || fs::read_dir(&kept).map_or(0, Iterator::count);
    let search = |options: &[&str]| {
        let args = r#"{"symbol": "Thing", "limit": 1}"#;
        let ended = place.run(&[&["call"], options, &["symbols.locate_symbol", args]].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        assert_eq!(ended.json()["total"], 100);
    };
    search(&[]);
    let shelves = count();
    assert!(shelves > 0);
    search(&[]);
    assert_eq!(count(), shelves);
    // Another scope has its own cache.
    let narrow = "[roles.narrow]\ntools = ['symbols.*']\nscope = ['sub']\n";
    configure(&place, narrow);
    search(&["--role", "narrow"]);
    assert_eq!(count(), 2 * shelves);
    configure(&place, "[grants.symbols]\nfiles = 'read'\nscan = true\n");
    search(&[]);
    configure(&place, "");
    let names: Vec<PathBuf> =
        fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in names {
        let mut bytes = fs::read(&name).unwrap();
        bytes.truncate(bytes.len() / 2);
        fs::write(&name, bytes).unwrap();
    }
    search(&[]);
    assert_eq!(count(), 2 * shelves);
    fs::remove_dir_all(&kept).unwrap();
    search(&[]);
    assert_eq!(count(), shelves);
}
