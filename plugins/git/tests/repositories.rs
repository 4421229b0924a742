//! Runs the tools on real repositories: checks their results, and that nothing runs that a
//! repository plants. Each plant is first tried with plain git if that would run it, which shows
//! that it works.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests run git")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cofferdam_sdk::{Context, git};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A repository with one commit, with a directory beside it for other files.
struct Repository {
    directory: TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(repository.root()).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.git(&["config", "user.name", "A"]);
        repository.git(&["config", "user.email", "a@example.com"]);
        repository.write("file", "one\n");
        repository.commit();
        repository
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// The file that a planted program creates.
    fn marker(&self) -> PathBuf {
        self.directory.path().join("planted-ran")
    }

    /// A shell command that creates the marker and copies its input to its output.
    fn plant(&self) -> String {
        format!("touch '{}'; cat", self.marker().display())
    }

    /// A program file with the command of [`Repository::plant`].
    fn planted_program(&self) -> String {
        let path = self.directory.path().join("planted.sh");
        fs::write(&path, format!("#!/bin/sh\ntouch '{}'\n", self.marker().display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&path, mode).unwrap();
        path.to_string_lossy().into_owned()
    }

    fn write(&self, path: &str, contents: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    fn commit(&self) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=x"]);
    }

    fn git(&self, arguments: &[&str]) -> String {
        let (succeeded, output) = self.try_git(&self.root(), arguments);
        assert!(succeeded, "{arguments:?}: {output}");
        output
    }

    fn try_git(&self, directory: &Path, arguments: &[&str]) -> (bool, String) {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(directory)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn context(&self) -> Context {
        Context::for_directory(&self.root())
    }

    /// Calls a tool; returns its output or the code of its error.
    fn call(&self, tool: &str) -> Result<String, String> {
        let answer = self.call_with(tool, &json!({}))?;
        Ok(answer["output"].as_str().unwrap().to_owned())
    }

    fn call_with(&self, tool: &str, args: &Value) -> Result<Value, String> {
        let answer = cofferdam_git::call(tool, &args.to_string(), &self.context());
        Ok(serde_json::from_str(&answer.map_err(|error| error.code)?).unwrap())
    }

    /// Reads all pages of a tool's output; returns the output and the number of pages.
    fn pages(&self, tool: &str) -> (String, usize) {
        let (mut output, mut pages, mut offset) = (String::new(), 0, json!(0));
        loop {
            let page = self.call_with(tool, &json!({"offset": offset})).unwrap();
            assert!(page.to_string().len() <= 32 << 10, "{}", page.to_string().len());
            output += page["output"].as_str().unwrap();
            pages += 1;
            match page.get("next") {
                Some(next) => offset = next.clone(),
                None => {
                    assert_eq!(page.get("total").unwrap_or(&json!(output.len())), output.len());
                    return (output, pages);
                }
            }
        }
    }
}

#[test]
fn status_and_diff_return_the_output_of_git() {
    let repository = Repository::new();
    assert!(repository.call("git_status").unwrap().contains("nothing to commit"));
    assert_eq!(repository.call("git_diff").unwrap(), "");
    repository.write("file", "two\n");
    repository.write("dir/néw", "x\n");
    let status = repository.call("git_status").unwrap();
    assert!(status.starts_with("On branch main\n"), "{status}");
    assert!(status.contains("modified:   file") && status.contains("dir/"), "{status}");
    assert!(!status.contains("git add"), "hints: {status}");
    let diff = repository.call("git_diff").unwrap();
    assert!(diff.starts_with("diff --git a/file b/file\n"), "{diff}");
    assert!(diff.ends_with("@@ -1 +1 @@\n-one\n+two\n"), "{diff}");
    assert_eq!(git::changed_files(&repository.context()).unwrap(), ["file", "dir/néw"]);
}

#[test]
fn long_output_has_pages() {
    let repository = Repository::new();
    for number in 0..900 {
        repository.write(&format!("some/directory/file{number}.py"), "\tprint(\"old\")\n");
    }
    repository.commit();
    for number in 0..900 {
        repository.write(&format!("some/directory/file{number}.py"), "\tprint(\"new é\")\n");
    }
    // A minified file: a line that is longer than a page.
    repository.write("file", &"é\"x".repeat(20_000));
    for (tool, arguments) in [("git_status", ["status", "--long"]), ("git_diff", ["diff", "-p"])] {
        let (output, pages) = repository.pages(tool);
        let whole = repository.git(&arguments);
        let hints = |line: &&str| !line.starts_with("  (use ") && !line.starts_with("no changes");
        let lines: Vec<&str> = whole.lines().filter(hints).collect();
        let shown: Vec<&str> = output.lines().filter(hints).collect();
        assert!(pages > 1 && shown == lines, "{tool}: {pages} pages");
    }
    let whole = repository.git(&["diff"]).len();
    for (offset, code) in [(whole, "InvalidOffset"), (usize::MAX, "InvalidOffset")] {
        let error = repository.call_with("git_diff", &json!({"offset": offset})).unwrap_err();
        assert_eq!(error, code, "{offset}");
    }
}

#[test]
fn a_path_selects_a_part_of_the_diff() {
    let repository = Repository::new();
    for path in ["a.py", "*.py", "dir/b.py", "dir/gone", ":(top)x"] {
        repository.write(path, "old\n");
    }
    repository.commit();
    for path in ["a.py", "*.py", "dir/b.py", ":(top)x"] {
        repository.write(path, "new\n");
    }
    fs::remove_file(repository.root().join("dir/gone")).unwrap();
    let diff = |path: &str| -> Result<Vec<String>, String> {
        let answer = repository.call_with("git_diff", &json!({"path": path}))?;
        let lines = answer["output"].as_str().unwrap().lines();
        let names = lines.filter_map(|line| line.strip_prefix("--- a/"));
        Ok(names.map(str::to_owned).collect())
    };
    let ok = |names: &[&str]| Ok(names.iter().map(|&name| name.to_owned()).collect());
    for (path, wanted) in [
        ("a.py", ok(&["a.py"])),
        ("*.py", ok(&["*.py"])),
        (":(top)x", ok(&[":(top)x"])),
        ("dir", ok(&["dir/b.py", "dir/gone"])),
        ("./dir/../dir/gone", ok(&["dir/gone"])),
        ("file", ok(&[])),
        ("not-there", Err("FileNotFoundError".to_owned())),
        ("../x", Err("PathNotAllowed".to_owned())),
    ] {
        assert_eq!(diff(path), wanted, "{path}");
    }
    assert_eq!(diff("."), diff(repository.root().to_str().unwrap()));
    assert_eq!(diff(".").unwrap().len(), 5);
}

#[test]
fn repository_settings_do_not_change_the_output_format() {
    let repository = Repository::new();
    for (key, value) in [
        ("color.ui", "always"),
        ("color.diff", "always"),
        ("color.status", "always"),
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("status.short", "true"),
        ("column.ui", "always"),
        ("status.relativePaths", "false"),
    ] {
        repository.git(&["config", key, value]);
    }
    repository.write("file", "two\n");
    let diff = repository.call("git_diff").unwrap();
    assert!(diff.starts_with("diff --git a/file b/file\nindex "), "{diff:?}");
    let status = repository.call("git_status").unwrap();
    assert!(status.starts_with("On branch main\n") && !status.contains('\u{1b}'), "{status:?}");
}

#[test]
fn a_workspace_below_the_root_is_compared_by_itself() {
    let repository = Repository::new();
    repository.write("below/näme", "x\n");
    repository.write(".gitignore", "*.log\n");
    repository.commit();
    repository.write("below/näme", "y\n");
    repository.write("below/new/file", "x\n");
    repository.write("below/x.log", "x\n");
    repository.write("file", "two\n");
    repository.git(&["config", "status.relativePaths", "false"]);
    let below = Context::for_directory(&repository.root().join("below"));
    let call = |tool: &str| -> Value {
        serde_json::from_str(&cofferdam_git::call(tool, "{}", &below).unwrap()).unwrap()
    };
    let (status, diff) = (call("git_status"), call("git_diff"));
    assert_eq!(status["outside"][0], repository.root().join(".git").to_str().unwrap());
    let status = status["output"].as_str().unwrap();
    assert!(status.contains("modified:   näme\n") && status.contains("\tnew/\n"), "{status}");
    assert!(!status.contains("../") && !status.contains("x.log"), "{status}");
    let diff = diff["output"].as_str().unwrap();
    assert!(diff.starts_with("diff --git a/näme b/näme\n"), "{diff}");
    assert!(!diff.contains("a/file"), "{diff}");
    assert_eq!(git::changed_files(&below).unwrap(), ["näme", "new/file"]);
}

#[test]
fn a_directory_without_a_repository_has_none() {
    let directory = tempfile::tempdir().unwrap();
    let context = Context::for_directory(directory.path());
    for tool in ["git_status", "git_diff"] {
        let error = cofferdam_git::call(tool, "{}", &context).unwrap_err();
        assert_eq!(error.code, "NotARepository");
        assert!(error.message.contains("not a git repository"), "{}", error.message);
    }
}

#[test]
fn errors_of_git_are_short() {
    let repository = Repository::new();
    let long = format!("[core]\n\tx = \"{}\n", "y".repeat(63_000));
    fs::write(repository.root().join(".git/config"), &long).unwrap();
    fs::write(repository.root().join(".git/HEAD"), long).unwrap();
    for tool in ["git_status", "git_diff"] {
        let error = cofferdam_git::call(tool, "{}", &repository.context()).unwrap_err();
        assert!(error.message.len() < 3000, "{}", error.message);
    }
}

#[test]
fn core_worktree_does_not_change_the_working_tree() {
    let repository = Repository::new();
    repository.write("below/file", "x\n");
    // A directory elsewhere that the repository names as its working tree.
    let elsewhere = repository.directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("secret"), "x").unwrap();
    repository.git(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
    assert!(repository.git(&["status"]).contains("secret"));
    let status = repository.call("git_status").unwrap();
    assert!(!status.contains("secret") && status.contains("below/"), "{status}");
}

#[test]
fn errors_of_git_are_reported() {
    let repository = Repository::new();
    fs::write(repository.root().join(".git/config"), "[core\n").unwrap();
    let error = cofferdam_git::call("git_status", "{}", &repository.context()).unwrap_err();
    assert_eq!(error.code, "GitFailed");
    assert!(error.message.contains("bad config"), "{}", error.message);
    for args in [r#"{"options": ["--output=x"]}"#, "[1]", "null"] {
        let error = cofferdam_git::call("git_diff", args, &repository.context()).unwrap_err();
        assert_eq!(error.code, "InvalidArguments", "{args}");
    }
}

#[test]
fn a_repository_owned_by_another_user_is_readable() {
    let repository = Repository::new();
    repository.write("file", "two\n");
    let (root, git) = (repository.root(), repository.root().join(".git"));
    // Only root can change a file's owner, so other users can't run this test.
    for path in [&root, &git] {
        if std::os::unix::fs::chown(path, Some(65534), Some(65534)).is_err() {
            return;
        }
    }
    assert!(repository.try_git(&root, &["status"]).1.contains("dubious ownership"));
    assert!(repository.call("git_status").unwrap().contains("modified:   file"));
}

/// Something planted in a repository, and whether plain git runs it on `status` or `diff`.
struct Plant {
    name: &'static str,
    runs_with_plain_git: bool,
    plant: fn(&Repository),
}

/// Sets settings of the repository, then changes a file.
fn settings(repository: &Repository, settings: &[(&str, String)]) {
    for (key, value) in settings {
        repository.git(&["config", key, value]);
    }
    repository.write("file", "two\n");
}

/// Sets an attribute for every file, in the repository's own `info/attributes`.
fn attribute(repository: &Repository, attribute: &str) {
    repository.write(".git/info/attributes", &format!("* {attribute}\n"));
}

/// Makes a file whose contents are missing and promised by a remote at `url`.
fn missing_object(repository: &Repository, url: &str, more: &[(&str, String)]) {
    let object = repository.git(&["rev-parse", "HEAD:file"]);
    let (directory, file) = object.trim().split_at(2);
    repository.write("file", "two\n");
    fs::remove_file(repository.root().join(".git/objects").join(directory).join(file)).unwrap();
    let mut remote = vec![
        ("core.repositoryFormatVersion", "1".to_owned()),
        ("extensions.partialClone", "origin".to_owned()),
        ("remote.origin.promisor", "true".to_owned()),
        ("remote.origin.url", url.to_owned()),
        ("protocol.allow", "always".to_owned()),
    ];
    remote.extend_from_slice(more);
    settings(repository, &remote);
}

/// Makes a submodule with settings of its own.
fn submodule(repository: &Repository, more: &[(&str, String)]) {
    repository.write("sub/file", "one\n");
    let sub = repository.root().join("sub");
    let program = repository.planted_program();
    for arguments in [
        &["init", "--quiet"][..],
        &["add", "file"],
        &["-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-mx"],
    ] {
        assert!(repository.try_git(&sub, arguments).0, "{arguments:?}");
    }
    repository.write(".gitmodules", "[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n");
    repository.commit();
    assert!(repository.try_git(&sub, &["config", "core.fsmonitor", &program]).0);
    repository.write("sub/file", "two\n");
    settings(repository, more);
}

const PLANTS: &[Plant] = &[
    Plant {
        name: "core.fsmonitor",
        runs_with_plain_git: true,
        plant: |repository| {
            settings(repository, &[("core.fsmonitor", repository.planted_program())]);
        },
    },
    Plant {
        name: "a hook",
        runs_with_plain_git: true,
        plant: |repository| {
            let program = repository.planted_program();
            for hook in ["post-index-change", "fsmonitor-watchman", "pre-commit", "query-watchman"]
            {
                let path = repository.root().join(".git/hooks").join(hook);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::copy(&program, path).unwrap();
            }
            // The change makes git write the index.
            repository.write("file", "one\n");
        },
    },
    Plant {
        name: "core.hooksPath",
        runs_with_plain_git: true,
        plant: |repository| {
            let program = repository.planted_program();
            let hooks = repository.root().join("hooks");
            fs::create_dir(&hooks).unwrap();
            fs::copy(program, hooks.join("post-index-change")).unwrap();
            repository.git(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
            repository.write("file", "one\n");
        },
    },
    Plant {
        name: "filter.*.clean",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "filter=x");
            settings(repository, &[("filter.x.clean", repository.plant())]);
        },
    },
    Plant {
        name: "filter.*.clean, required, by .gitattributes",
        runs_with_plain_git: true,
        plant: |repository| {
            repository.write(".gitattributes", "* filter=x\n");
            let required = ("filter.x.required", "true".to_owned());
            settings(repository, &[("filter.x.clean", repository.plant()), required]);
        },
    },
    Plant {
        name: "filter.*.clean with a name like a setting",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "filter=x=y");
            settings(repository, &[("filter.x=y.clean", repository.plant())]);
        },
    },
    Plant {
        name: "filter.*.process and .smudge",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "filter=x");
            let smudge = ("filter.x.smudge", repository.plant());
            settings(repository, &[("filter.x.process", repository.planted_program()), smudge]);
        },
    },
    Plant {
        name: "include.path",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "filter=x");
            let program = repository.planted_program();
            repository.write("included", &format!("[filter \"x\"]\n\tclean = {program}\n"));
            settings(repository, &[("include.path", "../included".to_owned())]);
        },
    },
    Plant {
        name: "includeIf and a configuration of the working tree",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "filter=x");
            let program = repository.planted_program();
            let filter = format!("[filter \"x\"]\n\tclean = {program}\n");
            repository.write(".git/config.worktree", &filter);
            repository.write("included", &filter);
            let extensions = ("extensions.worktreeConfig", "true".to_owned());
            settings(
                repository,
                &[extensions, ("includeIf.gitdir:work/.path", "../included".to_owned())],
            );
        },
    },
    Plant {
        name: "a configuration of the working tree alone",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "filter=x");
            let filter = format!("[filter \"x\"]\n\tclean = {}\n", repository.planted_program());
            repository.write(".git/config.worktree", &filter);
            settings(repository, &[("extensions.worktreeConfig", "true".to_owned())]);
        },
    },
    Plant {
        name: "a section in capital letters",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "filter=x");
            let filter = format!("[FILTER \"x\"]\n\tCLEAN = {}\n", repository.planted_program());
            let path = repository.root().join(".git/config");
            fs::write(&path, fs::read_to_string(&path).unwrap() + &filter).unwrap();
        },
    },
    Plant {
        name: "diff.external",
        runs_with_plain_git: true,
        plant: |repository| {
            settings(repository, &[("diff.external", repository.planted_program())]);
        },
    },
    Plant {
        name: "diff.*.command",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "diff=x");
            settings(repository, &[("diff.x.command", repository.planted_program())]);
        },
    },
    Plant {
        name: "diff.*.textconv",
        runs_with_plain_git: true,
        plant: |repository| {
            attribute(repository, "diff=x");
            settings(repository, &[("diff.x.textconv", repository.planted_program())]);
        },
    },
    Plant {
        name: "merge.*.driver and gpg.program",
        runs_with_plain_git: false,
        plant: |repository| {
            attribute(repository, "merge=x");
            let show = ("log.showSignature", "true".to_owned());
            let gpg = ("gpg.program", repository.planted_program());
            settings(repository, &[("merge.x.driver", repository.plant()), gpg, show]);
        },
    },
    Plant {
        name: "core.pager, pager.*, core.editor, core.askPass",
        runs_with_plain_git: false,
        plant: |repository| {
            let program = repository.planted_program();
            settings(
                repository,
                &["core.pager", "pager.status", "pager.diff", "core.editor", "core.askPass"]
                    .map(|key| (key, program.clone())),
            );
        },
    },
    Plant {
        name: "alias.*",
        runs_with_plain_git: false,
        plant: |repository| {
            let alias = format!("!{}", repository.planted_program());
            settings(
                repository,
                &["alias.status", "alias.diff", "alias.config"].map(|key| (key, alias.clone())),
            );
        },
    },
    Plant {
        name: "core.sshCommand",
        runs_with_plain_git: true,
        plant: |repository| {
            let ssh = ("core.sshCommand", repository.planted_program());
            missing_object(repository, "ssh://localhost/x", &[ssh]);
        },
    },
    Plant {
        name: "core.gitProxy",
        runs_with_plain_git: true,
        plant: |repository| {
            let proxy = ("core.gitProxy", repository.planted_program());
            missing_object(repository, "git://localhost/x", &[proxy]);
        },
    },
    Plant {
        name: "a remote that is a command",
        runs_with_plain_git: true,
        plant: |repository| {
            let url = format!("ext::{}", repository.planted_program());
            missing_object(repository, &url, &[]);
        },
    },
    Plant {
        name: "remote.*.uploadpack and uploadpack.packObjectsHook",
        runs_with_plain_git: true,
        plant: |repository| {
            let program = repository.planted_program();
            let pack = ("remote.origin.uploadpack", program.clone());
            let hook = ("uploadpack.packObjectsHook", program);
            missing_object(repository, ".", &[pack, hook]);
        },
    },
    Plant {
        name: "credential.helper",
        runs_with_plain_git: false,
        plant: |repository| {
            let helper = ("credential.helper", format!("!{}", repository.planted_program()));
            missing_object(repository, "http://a@localhost:9/x", &[helper]);
        },
    },
    Plant {
        name: "core.fsmonitor of a submodule",
        runs_with_plain_git: true,
        plant: |repository| submodule(repository, &[]),
    },
    Plant {
        name: "a submodule that asks to be looked into",
        runs_with_plain_git: true,
        plant: |repository| {
            let update = format!("!{}", repository.planted_program());
            submodule(
                repository,
                &[
                    ("submodule.sub.ignore", "none".to_owned()),
                    ("submodule.sub.update", update),
                    ("diff.ignoreSubmodules", "none".to_owned()),
                    ("diff.submodule", "diff".to_owned()),
                    ("status.submoduleSummary", "true".to_owned()),
                    ("submodule.recurse", "true".to_owned()),
                ],
            );
        },
    },
];

#[test]
fn planted_programs_do_not_run() {
    for plant in PLANTS {
        let repository = Repository::new();
        (plant.plant)(&repository);
        let marker = repository.marker();
        // Making the repository may have run the plant already.
        let _ = fs::remove_file(&marker);
        for tool in ["git_status", "git_diff"] {
            // A missing object has to be an error.
            let answer = repository.call(tool);
            assert!(!marker.exists(), "{}: {tool} ran it: {answer:?}", plant.name);
            let only_missing = matches!(&answer, Err(code) if code == "GitFailed");
            assert!(answer.is_ok() || only_missing, "{}: {answer:?}", plant.name);
        }
        git::changed_files(&repository.context()).unwrap();
        assert!(!marker.exists(), "{}: changed_files ran it", plant.name);
        if plant.runs_with_plain_git {
            for tool in ["status", "diff"] {
                repository.try_git(&repository.root(), &[tool]);
            }
            assert!(marker.exists(), "{}: not even plain git runs it", plant.name);
        }
    }
}

macro_rules! schema {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!(
            "../../../schemas/tools/git.",
            $name,
            ".json"
        )))
        .unwrap()
    };
}

#[test]
fn results_fit_the_schemas() {
    let repository = Repository::new();
    repository.write("file", &"0123456789\n".repeat(200_000));
    repository.write("src/main.py", "print()\n");
    for (tool, input, output, is_part) in [
        ("git_status", schema!("git_status.input"), schema!("git_status.output"), false),
        ("git_diff", schema!("git_diff.input"), schema!("git_diff.output"), true),
    ] {
        for example in input["examples"].as_array().unwrap() {
            jsonschema::validate(&input, example).unwrap();
            match repository.call_with(tool, example) {
                Ok(answer) => jsonschema::validate(&output, &answer).unwrap(),
                Err(code) => {
                    assert!(!is_part && code == "InvalidOffset", "{tool} {example}: {code}")
                }
            }
        }
        let answer = repository.call_with(tool, &json!({})).unwrap();
        assert_eq!(answer.get("next").is_some(), is_part, "{tool}");
        for example in output["examples"].as_array().unwrap() {
            jsonschema::validate(&output, example).unwrap();
        }
        assert!(!jsonschema::is_valid(&input, &json!({"file": "x"})));
    }
}
