//! What a plugin's author does, in each language: `plugin new`, the commands of the README, a
//! successful call. Languages whose tools could not be installed are skipped with a message.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Ended, Place, built};

/// The entry for a language in `target/programs/authors.toml`, which `cargo xtask test` writes.
#[derive(Debug, Deserialize)]
struct Tools {
    #[serde(default)]
    variables: BTreeMap<String, String>,
    path: Option<PathBuf>,
    packages: Option<PathBuf>,
    missing: Option<String>,
}

fn target() -> PathBuf {
    built().parent().unwrap().to_owned()
}

/// The tools of a language; `None` if they could not be installed.
#[expect(clippy::print_stderr, reason = "reports what was skipped")]
fn tools(language: &str) -> Option<&'static Tools> {
    static TOOLS: LazyLock<BTreeMap<String, Tools>> = LazyLock::new(|| {
        let file = target().join("programs/authors.toml");
        let text = fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask test`", file.display()));
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    });
    let tools = &TOOLS[language];
    match &tools.missing {
        Some(why) => {
            eprintln!("without plugins in {language}: {why}");
            None
        }
        None => Some(tools),
    }
}

/// A new project in the workspace of a place, and the tools that build it.
struct Project<'a> {
    place: &'a Place,
    name: &'a str,
    path: Vec<PathBuf>,
}

impl<'a> Project<'a> {
    #[expect(clippy::disallowed_methods, reason = "where the tools of this machine are")]
    fn new(place: &'a Place, name: &'a str, args: &[&str], tools: &Tools) -> Self {
        let ended = place.run(&[&["plugin", "new", name, "--lang"], args].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [built()]
            .into_iter()
            .chain(tools.path.clone())
            .chain(std::env::split_paths(&path))
            .collect();
        Self { place, name, path }
    }

    fn folder(&self) -> PathBuf {
        self.place.workspace().join(self.name)
    }

    /// Runs a command of the README.
    #[expect(clippy::disallowed_methods, reason = "the tools of an author's language")]
    fn run(&self, line: &[&str], variables: &BTreeMap<String, String>) {
        let output = Command::new(line[0])
            .args(&line[1..])
            .current_dir(self.folder())
            .env("PATH", std::env::join_paths(&self.path).unwrap())
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TARGET_DIR", target().join("authors"))
            // The command must find the compiled code that this test's own runs have cached.
            .env("XDG_CACHE_HOME", self.place.home().join(".cache"))
            .env("XDG_CONFIG_HOME", self.place.home().join(".config"))
            .env("XDG_STATE_HOME", self.place.home().join(".local/state"))
            .env_remove("CARGO")
            .env_remove("RUSTFLAGS")
            .envs(variables)
            .output()
            .unwrap_or_else(|error| panic!("{line:?}: {error}"));
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line:?}: {stdout}\n{stderr}");
    }

    fn packed(&self) -> String {
        format!("{}/{}.wasm", self.name, self.name)
    }

    /// Calls the built plugin.
    fn call(&self, args: &Value) -> Ended {
        let tool = format!("{}.greet", self.name);
        self.place.run(&["--plugin", &self.packed(), "call", &tool, &args.to_string()])
    }

    /// Makes the first calls, without any grant.
    fn greets(&self) {
        let answered = self.call(&json!({"name": "Grace \"ä\" 😀"}));
        assert_eq!(answered.json(), json!({"text": "Hello, Grace \"ä\" 😀!"}), "{answered:?}");
        let refused = self.call(&json!({"name": "\t"}));
        assert_eq!(refused.status, 1, "{refused:?}");
        assert!(refused.stdout.contains("BlankName"), "{refused:?}");
    }
}

#[test]
fn rust_from_template_to_successful_call() {
    let Some(tools) = tools("rust") else { return };
    let place = Place::new();
    let project = Project::new(&place, "my-rust", &["rust"], tools);
    project.run(&["make"], &tools.variables);
    // The other targets need no toolchain for components.
    project.run(&["make", "-o", "build", "test"], &BTreeMap::new());
    project.greets();

    for kind in ["lint-backend", "test-backend"] {
        let project = Project::new(&place, kind, &["rust", "--kind", kind], tools);
        project.run(&["make"], &tools.variables);
        project.run(&["make", "-o", "build", "test"], &BTreeMap::new());
    }
    a_linter_lints(&place);
}

/// The linter of the template finds conflict markers.
fn a_linter_lints(place: &Place) {
    place.write("a.txt", "one\n<<<<<<< ours\ntwo\n=======\nthree\n>>>>>>> theirs\n");
    place.write("b.txt", "Heading\n=======\n");
    let settings = place.home_file(".config/cofferdam/cofferdam.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "[grants.lint-backend]\nfiles = \"read\"\n").unwrap();
    let plugin = "lint-backend/lint-backend.wasm";
    let args = ["--plugin", plugin, "backend", "compare", "lint-backend", "lint-backend", "."];
    let compared = place.run(&args);
    assert_eq!(compared.status, 0, "{compared:?}");
    assert_eq!(compared.json()["lines_in_both"], 3, "{compared:?}");
}

#[test]
fn c_from_template_to_successful_call() {
    let Some(tools) = tools("c") else { return };
    let place = Place::new();
    let project = Project::new(&place, "my-c", &["c"], tools);
    project.run(&["make", "test"], &tools.variables);
    project.greets();

    let checked = place.run(&["plugin", "check", "my-c"]);
    assert_eq!(checked.json()["findings"], json!([]), "{checked:?}");
    let tested = place.run(&["plugin", "test", "my-c"]);
    let examples = tested.json()["examples"].clone();
    let verdicts = examples.as_array().unwrap().iter().map(|tried| &tried["verdict"]);
    assert_eq!(verdicts.collect::<Vec<_>>(), ["right", "right"], "{tested:?}");
    mistakes_are_found(&project);
}

/// Typical mistakes of an author are found, both in the project's folder and in the packed file.
fn mistakes_are_found(project: &Project<'_>) {
    let Project { place, name, .. } = project;
    let manifest = place.read("my-c/plugin.toml");
    let changed = manifest
        .replace("version = \"0.1.0\"", "version = \"1\"")
        .replace("Hello, Ada!", "Goodbye, Ada!")
        .replace("[requests]", "[requests]\nscan = true");
    place.write("my-c/plugin.toml", &changed);
    let ended = place.run(&["plugin", "check", name]);
    assert_eq!(ended.status, 1, "{ended:?}");
    let found = ended.json()["findings"].as_array().unwrap().clone();
    let wanted = [
        json!({"file": "my-c/plugin.toml", "line": 4, "pointer": "/version"}),
        json!({"file": "my-c/my-c.wasm"}),
    ];
    for place in wanted {
        let is_there = |finding: &Value| finding["place"] == place && finding["cure"].is_string();
        assert!(found.iter().any(is_there), "{place}: {found:#?}");
    }
    let as_text = place.run(&["plugin", "check", name, "--format", "text"]);
    assert!(as_text.stdout.contains("my-c/plugin.toml:4 at /version: error: "), "{as_text:?}");

    // The packed file is tested, not the folder, which has changed meanwhile.
    let changed = changed.replace("version = \"1\"", "version = \"0.1.1\"");
    place.write("my-c/plugin.toml", &changed);
    let component = "my-c/build/component.wasm";
    let pack = ["plugin", "pack", "--manifest", "my-c/plugin.toml", "--component", component];
    let packed = place.run(&[&pack[..], &["--output", "my-c/my-c.wasm"]].concat());
    assert_eq!(packed.status, 0, "{packed:?}");
    let tested = place.run(&["plugin", "test", "my-c/my-c.wasm"]);
    assert_eq!(tested.status, 1, "{tested:?}");
    let tried = &tested.json()["examples"][0];
    assert_eq!(tried["verdict"], "wrong", "{tested:?}");
    let why = tried["why"].as_str().unwrap();
    assert!(why.contains("answered {\"text\":\"Hello, Ada!\"}"), "{why}");
    let checked = place.run(&["plugin", "check", "my-c/my-c.wasm"]);
    assert_eq!(checked.status, 0, "{checked:?}");
    assert_eq!(checked.json()["findings"][0]["place"]["pointer"], "/requests/scan");
    let checked = place.run(&["plugin", "check", component]);
    assert_eq!(checked.status, 1, "{checked:?}");
    assert!(checked.stdout.contains("has no manifest"), "{checked:?}");
}

#[test]
fn python_from_template_to_successful_call() {
    let Some(tools) = tools("python") else { return };
    let place = Place::new();
    let project = Project::new(&place, "my-python", &["python"], tools);
    project.run(&["make", "test"], &tools.variables);
    project.greets();
}

#[test]
fn javascript_and_typescript_from_template_to_successful_call() {
    let Some(tools) = tools("javascript") else { return };
    for language in ["javascript", "typescript"] {
        let place = Place::new();
        let project = Project::new(&place, "my-script", &[language], tools);
        link(tools.packages.as_deref().unwrap(), &project.folder().join("node_modules"));
        project.run(&["npm", "run", "build"], &tools.variables);
        project.run(&["npm", "test"], &tools.variables);
        project.greets();
    }
}

/// Links the packages as `npm install` would do.
fn link(packages: &Path, to: &Path) {
    std::os::unix::fs::symlink(packages, to).unwrap();
}

#[test]
fn a_missing_template_is_an_error() {
    let place = Place::new();
    for (args, wanted) in [
        (&["plugin", "new", "Hello", "--lang", "c"][..], "[a-z][a-z0-9_-]*"),
        (&["plugin", "new", "../x", "--lang", "c"], "[a-z][a-z0-9_-]*"),
        (&["plugin", "new", "x", "--lang", "cobol"], "possible values: rust"),
        (&["plugin", "new", "x"], "--lang"),
        (
            &["plugin", "new", "x", "--lang", "python", "--kind", "lint-backend"],
            "there is a template of a backend in Rust only",
        ),
    ] {
        let ended = place.run(args);
        assert_eq!(ended.status, 2, "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(wanted), "{args:?}: {ended:?}");
        assert_eq!(fs::read_dir(place.workspace()).unwrap().count(), 0, "{args:?}");
    }
    place.write("x/mine", "1");
    let ended = place.run(&["plugin", "new", "x", "--lang", "c"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("x is there already"), "{ended:?}");
    assert_eq!(fs::read_dir(place.workspace().join("x")).unwrap().count(), 1);
    let ended = place.run(&["plugin", "new", "x", "--lang", "c", "elsewhere/x"]);
    assert_eq!(ended.json()["directory"], "elsewhere/x");
    assert!(place.workspace().join("elsewhere/x/plugin.toml").is_file());
}
