//! What a plugin's author does, in each language: `plugin new`, the commands of the README, calls,
//! `plugin install`, the README's way to files, a new version, `plugin update`. Languages whose tools
//! could not be installed are skipped with a message.

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
    /// Its folder in the workspace.
    directory: &'a str,
    path: Vec<PathBuf>,
}

impl<'a> Project<'a> {
    fn new(place: &'a Place, name: &'a str, args: &[&str], tools: &Tools) -> Self {
        Self::within(place, name, name, args, tools)
    }

    #[expect(clippy::disallowed_methods, reason = "where the tools of this machine are")]
    fn within(
        place: &'a Place,
        directory: &'a str,
        name: &'a str,
        args: &[&str],
        tools: &Tools,
    ) -> Self {
        let ended = place.run(&[&["plugin", "new", name, directory, "--lang"], args].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = [built()]
            .into_iter()
            .chain(tools.path.clone())
            .chain(std::env::split_paths(&path))
            .collect();
        Self { place, name, directory, path }
    }

    fn folder(&self) -> PathBuf {
        self.place.workspace().join(self.directory)
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
            // Optimising takes longer than everything else here.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
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
        format!("{}/{}.wasm", self.directory, self.name)
    }

    /// The bytes of the built plugin.
    fn bytes(&self) -> Vec<u8> {
        fs::read(self.place.workspace().join(self.packed())).unwrap()
    }

    /// Changes a file of the project.
    fn edit(&self, file: &str, edits: &[(&str, &str)]) {
        let path = self.folder().join(file);
        let mut text = fs::read_to_string(&path).unwrap();
        for (old, new) in edits {
            assert_eq!(text.matches(old).count(), 1, "{file}: {old}\n{text}");
            text = text.replace(old, new);
        }
        fs::write(&path, text).unwrap();
    }

    /// Installs the plugin, lets it write a file as its README says, by `edits` of a source file,
    /// and updates it: `build` builds and tests.
    fn lives(&self, file: &str, edits: &[(&str, &str)], build: &dyn Fn(&Self)) {
        let Self { place, name, .. } = self;
        self.greets();
        place.works(&["plugin", "install", &self.packed(), "--deny"]);
        let tool = format!("{name}.greet");
        let call = |name: &str| place.run(&["call", &tool, &json!({"name": name}).to_string()]);
        assert_eq!(call("Ada").json(), json!({"text": "Hello, Ada!"}));
        assert!(!place.workspace().join("greetings.txt").exists());

        self.edit(file, edits);
        self.edit(
            "plugin.toml",
            &[
                ("version = \"0.1.0\"", "version = \"0.2.0\""),
                ("[requests]\n", "[requests]\nfiles = \"write\"\n"),
                ("done = \"greeted\"", "done = \"greeted\"\neffects = \"write\""),
                (
                    "answer = { text = \"Hello, Ada!\" }",
                    "answer = { text = \"Hello, Ada!\" }\n\
                     after = { \"greetings.txt\" = \"Hello, Ada!\" }",
                ),
            ],
        );
        build(self);
        let checked = place.works(&["plugin", "check", self.directory]);
        assert_eq!(checked["findings"], json!([]), "{checked}");

        let refused = place.run(&["plugin", "update", name]);
        assert_eq!(refused.status, 3, "{refused:?}");
        assert!(refused.stderr.contains("files=write"), "{refused:?}");
        let updated = place.works(&["plugin", "update", name, "--grant", "files=write"]);
        let changes = &updated["plugins"][0]["changes"];
        assert_eq!(changes["version"], json!(["0.1.0", "0.2.0"]), "{updated}");
        assert_eq!(changes["requests_added"], json!(["files=write"]), "{updated}");
        assert_eq!(call("Grace ä 😀").json(), json!({"text": "Hello, Grace ä 😀!"}));
        assert_eq!(place.read("greetings.txt"), "Hello, Grace ä 😀!");
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
    let test = |project: &Project<'_>| {
        project.run(&["make", "-o", "build", "test"], &BTreeMap::new());
    };
    test(&project);
    let other = Project::within(&place, "deep/other", "my-rust", &["rust"], tools);
    other.run(&["make"], &tools.variables);
    assert!(project.bytes() == other.bytes(), "a build is the same in every directory");
    let edits = [
        ("_: &Context", "context: &Context"),
        ("greet::greet(&args).map_err", "let greeting = greet::greet(&args).map_err"),
        (
            "        })\n    }",
            "        })?;\n        let path = context.resolve(\"greetings.txt\")?;\n        \
             context.write(&path, greeting.text.as_bytes())?;\n        Ok(greeting)\n    }",
        ),
    ];
    project.lives("src/lib.rs", &edits, &|project| {
        project.run(&["make"], &tools.variables);
        test(project);
    });

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
    let checked = place.run(&["plugin", "check", "my-c"]);
    assert_eq!(checked.json()["findings"], json!([]), "{checked:?}");
    let tested = place.run(&["plugin", "test", "my-c"]);
    let examples = tested.json()["examples"].clone();
    let verdicts = examples.as_array().unwrap().iter().map(|tried| &tried["verdict"]);
    assert_eq!(verdicts.collect::<Vec<_>>(), ["right", "right"], "{tested:?}");
    mistakes_are_found(&project);

    let place = Place::new();
    let project = Project::new(&place, "my-c", &["c"], tools);
    project.run(&["make"], &tools.variables);
    let other = Project::within(&place, "deep/other", "my-c", &["c"], tools);
    other.run(&["make"], &tools.variables);
    assert!(project.bytes() == other.bytes(), "a build is the same in every directory");
    let writing = "    FILE *file = result == GREET_DONE ? fopen(\"/workspace/greetings.txt\", \"w\") : NULL;\n    \
                   if (!file || fwrite(text, 1, text_length, file) != text_length || fclose(file)) {\n        \
                   return fail(error, COFFERDAM_TOOL_TYPES_ERROR_KIND_FAILED, \"NotWritten\", \"not written\");\n    \
                   }\n    char *quoted";
    let edits = [
        ("#include <stdlib.h>", "#include <stdio.h>\n#include <stdlib.h>"),
        ("    char *quoted", writing),
    ];
    project.lives("src/plugin.c", &edits, &|project| {
        project.run(&["make", "test"], &tools.variables);
    });
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
    let of_file = checked.json()["findings"].clone();
    assert_eq!(of_file[0]["place"]["pointer"], "/requests/scan");
    // In the folder, the same is found, at the author's line.
    let checked = place.run(&["plugin", "check", "my-c"]);
    assert_eq!(checked.status, 0, "{checked:?}");
    let of_folder = checked.json()["findings"].clone();
    assert_eq!(of_folder.as_array().map(Vec::len), of_file.as_array().map(Vec::len));
    let wanted = json!({"file": "my-c/plugin.toml", "line": 9, "pointer": "/requests/scan"});
    assert_eq!(of_folder[0]["place"], wanted);
    assert_eq!(of_folder[0]["problem"], of_file[0]["problem"]);
    let checked = place.run(&["plugin", "check", component]);
    assert_eq!(checked.status, 1, "{checked:?}");
    assert!(checked.stdout.contains("has no manifest"), "{checked:?}");
}

#[test]
fn python_from_template_to_successful_call() {
    let Some(tools) = tools("python") else { return };
    let place = Place::new();
    let project = Project::new(&place, "my-python", &["python"], tools);
    let test = |project: &Project<'_>| project.run(&["make", "test"], &tools.variables);
    test(&project);
    let edits = [(
        "            return json.dumps({\"text\": greet(json.loads(args)[\"name\"])})",
        "            text = greet(json.loads(args)[\"name\"])\n            \
         with open(\"/workspace/greetings.txt\", \"w\") as file:\n                \
         file.write(text)\n            return json.dumps({\"text\": text})",
    )];
    project.lives("src/app.py", &edits, &test);
}

#[test]
fn javascript_and_typescript_from_template_to_successful_call() {
    let Some(tools) = tools("javascript") else { return };
    for language in ["javascript", "typescript"] {
        let place = Place::new();
        let project = Project::new(&place, "my-script", &[language], tools);
        link(tools.packages.as_deref().unwrap(), &project.folder().join("node_modules"));
        let build = |project: &Project<'_>| {
            project.run(&["npm", "run", "build"], &tools.variables);
            project.run(&["npm", "test"], &tools.variables);
        };
        build(&project);
        let import = "import { BlankName, greet } from './greet.js';";
        let imports = format!("{import}\nimport {{ readText, writeText }} from './files.js';");
        let edits = [
            (import, imports.as_str()),
            (
                "return JSON.stringify(greet(JSON.parse(args)));",
                "writeText('greetings.txt', greet(JSON.parse(args)).text);\n            \
                 return JSON.stringify({ text: readText('greetings.txt') });",
            ),
        ];
        let extension = if language == "javascript" { "js" } else { "ts" };
        project.lives(&format!("src/plugin.{extension}"), &edits, &build);
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
