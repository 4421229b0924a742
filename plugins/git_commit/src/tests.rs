//! Runs the tool on real repositories, with the part of the host that takes commits over, and compares
//! the result with `git commit --only` in a twin.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests run git and make files")]

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use cofferdam_testing::{fits, parsed, takes_examples};
use cofferdam_workspace::{self as workspace, GitCommitError, Repository, Secret, Workspace};

use super::*;

const IDENTITY: &str = "[user]\n\tname = \"Uma\"\n\temail = \"uma@example.com\"\n";

/// A repository with a few files in one commit, and a directory for its twin.
struct Scene {
    directory: tempfile::TempDir,
    identity: &'static str,
}

/// What the host does.
struct Side<'a> {
    scene: &'a Scene,
    workspace: Workspace,
    prepared: RefCell<Option<workspace::GitCommit>>,
}

impl Commits for Side<'_> {
    fn prepare(&self) -> Result<Preparation, Error> {
        let top = self.workspace.path();
        let home = self.scene.directory.path().canonicalize().unwrap();
        let repository =
            Repository::find(top, Some(&home)).map_err(|error| Error::Denied(error.to_string()))?;
        let identity = self.scene.identity;
        let commit =
            workspace::GitCommit::prepare(&self.workspace, &repository, "git_commit", identity);
        let commit = commit.map_err(converted)?;
        let text = |path: &Path| path.display().to_string();
        let prepared = Preparation {
            directory: text(commit.path()),
            objects: text(&commit.objects()),
            branch: commit.branch().to_owned(),
            parent: commit.parent().map(str::to_owned),
        };
        *self.prepared.borrow_mut() = Some(commit);
        Ok(prepared)
    }

    fn finish(&self, id: &str) -> Result<(), Error> {
        let commit = self.prepared.borrow_mut().take().unwrap();
        commit.finish(id, &|| false).map_err(converted)
    }
}

fn converted(error: GitCommitError) -> Error {
    match error {
        GitCommitError::Denied(why) => Error::Denied(why),
        GitCommitError::Invalid(why) => Error::Invalid(why),
        GitCommitError::Changed(why) => Error::Changed(why),
        error @ GitCommitError::Io { .. } => Error::Failed(error.to_string()),
    }
}

impl Scene {
    fn new() -> Self {
        let scene = Self { directory: tempfile::tempdir().unwrap(), identity: IDENTITY };
        fs::create_dir(scene.root()).unwrap();
        scene.git(&["init", "--quiet", "--initial-branch=main"]);
        for (path, content) in
            [("a", "one\n"), ("b", "one\n"), ("dir/c", "c\n"), ("dir/d", "d\n"), ("gone", "x\n")]
        {
            scene.write(path, content);
        }
        scene.write(".gitignore", "*.log\n.cofferdam\n");
        scene.git(&["add", "--all"]);
        scene.git(&["commit", "--quiet", "--message=first"]);
        scene
    }

    fn root(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    fn write(&self, path: &str, content: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), content).unwrap();
    }

    fn git(&self, arguments: &[&str]) -> String {
        git(&self.root(), arguments)
    }

    fn commit_at(&self, top: &Path, message: &str, paths: &[&str]) -> Result<Output, ToolError> {
        let secret = Secret::In(self.directory.path().join("secret"));
        let workspace = Workspace::open(top, secret).unwrap();
        let side = Side { scene: self, workspace, prepared: RefCell::default() };
        let paths = paths.iter().map(|&path| path.to_owned()).collect();
        let args = Args { message: message.to_owned(), paths };
        commit(&args, &Context::for_directory(top), &side)
    }

    fn commit(&self, paths: &[&str]) -> Result<Output, ToolError> {
        self.commit_at(&self.root(), "second\n", paths)
    }

    /// Commits with the tool, and with git in a copy; asserts that trees, index and status agree.
    fn commit_as_git_does(&self, paths: &[&str]) -> Output {
        let twin = self.root().with_file_name("twin");
        let copied = std::process::Command::new("cp")
            .args(["-a", self.root().to_str().unwrap(), twin.to_str().unwrap()])
            .status();
        assert!(copied.unwrap().success());
        let only = ["commit", "--quiet", "--only", "--message=second", "--"];
        git(&twin, &[&only, paths].concat());
        let output = self.commit(paths).unwrap();
        for arguments in [
            &["rev-parse", "HEAD^{tree}"][..],
            &["status", "--porcelain"],
            &["diff", "--cached"],
            &["ls-files", "--stage"],
            &["log", "--format=%s%n%b", "HEAD"],
        ] {
            assert_eq!(self.git(arguments), git(&twin, arguments), "{paths:?} {arguments:?}");
        }
        assert_eq!(self.git(&["rev-parse", "HEAD"]), output.commit);
        self.git(&["fsck", "--strict", "--no-dangling"]);
        fs::remove_dir_all(twin).unwrap();
        output
    }
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=T", "-c", "user.email=t@example.com"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

macro_rules! schema {
    ($name:literal) => {
        parsed(include_str!(concat!(
            "../../../schemas/tools/git_commit.git_commit.",
            $name,
            ".json"
        )))
    };
}

#[test]
fn examples_can_be_decoded() {
    takes_examples::<Args>(&schema!("input"));
}

#[test]
fn exactly_the_paths_are_committed() {
    let scene = Scene::new();
    // Another change is staged, and one file is staged and then changed again.
    scene.write("staged", "s\n");
    scene.write("b", "staged\n");
    scene.git(&["add", "staged", "b"]);
    scene.write("b", "changed again\n");
    scene.write("a", "two\n");
    scene.write("dir/new", "n\n");
    fs::remove_file(scene.at("gone")).unwrap();
    let output = scene.commit_as_git_does(&["a"]);
    fits(&schema!("output"), &serde_json::to_value(&output).unwrap());
    assert_eq!((output.branch.as_str(), output.summary.as_str()), ("main", "second"));
    assert_eq!((output.files, output.changes), (1, vec!["M a".to_owned()]));
    assert_eq!(scene.git(&["log", "-1", "--format=%an <%ae> %cn"]), "Uma <uma@example.com> Uma");
    let log = scene.git(&["reflog", "-1", "--format=%gs %gn"]);
    assert_eq!(log, "commit: second Uma");

    scene.write("other", "not named\n");
    scene.git(&["add", "dir/new"]);
    assert_eq!(scene.commit_as_git_does(&["dir", "gone"]).changes, ["A dir/new", "D gone"]);
    assert_eq!(scene.commit_as_git_does(&["b"]).changes, ["M b"]);
    // Absolute paths, and everything.
    let root = scene.root();
    assert_eq!(scene.commit(&[root.to_str().unwrap()]).unwrap().changes, ["A other", "A staged"]);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
}

#[test]
fn every_kind_of_change_is_committed() {
    let scene = Scene::new();
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scene.at("a"), executable).unwrap();
    fs::remove_file(scene.at("b")).unwrap();
    symlink("/etc/passwd", scene.at("b")).unwrap();
    fs::rename(scene.at("dir/c"), scene.at("moved")).unwrap();
    fs::remove_file(scene.at("gone")).unwrap();
    scene.write("new/is a directory/*", "x\n");
    scene.git(&["add", "--intent-to-add", "moved"]);
    scene.git(&["add", "--all"]);
    let output = scene.commit_as_git_does(&["."]);
    let wanted =
        ["M a", "T b", "D dir/c", "D gone", "A moved", "A new/is a directory/*"].map(str::to_owned);
    assert_eq!(output.changes, wanted);
    assert!(scene.git(&["ls-tree", "HEAD", "a"]).starts_with("100755"));
    assert!(scene.git(&["ls-tree", "HEAD", "b"]).starts_with("120000"));
    // Directories that become a file and a link, and a file that becomes a directory.
    fs::remove_dir_all(scene.at("new")).unwrap();
    scene.write("new", "a file\n");
    fs::remove_dir_all(scene.at("dir")).unwrap();
    symlink("new", scene.at("dir")).unwrap();
    fs::remove_file(scene.at("moved")).unwrap();
    scene.write("moved/x", "x\n");
    let output = scene.commit(&["."]).unwrap();
    let wanted = ["A dir", "D dir/d", "D moved", "A moved/x", "A new", "D new/is a directory/*"];
    assert_eq!(output.changes, wanted);
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
    // A name with magic of pathspecs is only a name.
    scene.write(":(top)x", "x\n");
    assert_eq!(scene.commit(&["./:(top)x"]).unwrap().files, 1);
    // A file above the usual threshold for packs.
    scene.git(&["config", "core.bigFileThreshold", "10"]);
    scene.write("big", &"x".repeat(1000));
    assert_eq!(scene.commit(&["big"]).unwrap().files, 1);
    scene.git(&["fsck", "--strict"]);
}

#[test]
fn each_layout_is_committed_to() {
    let scene = Scene::new();
    // The first commit of a branch.
    scene.git(&["checkout", "--quiet", "--orphan", "new"]);
    let output = scene.commit(&["a", "dir"]).unwrap();
    assert_eq!((output.branch.as_str(), output.files), ("new", 3));
    assert_eq!(scene.git(&["log", "--format=%s"]), "second");
    assert!(scene.git(&["status", "--porcelain"]).contains("A  b"));
    scene.git(&["commit", "--quiet", "--all", "--message=rest"]);
    // Packed references, a linked working tree.
    scene.git(&["gc", "--quiet"]);
    let linked = scene.root().with_file_name("linked");
    scene.git(&["worktree", "add", "--quiet", "-b", "side/branch", linked.to_str().unwrap()]);
    fs::write(linked.join("a"), "linked\n").unwrap();
    let output = scene.commit_at(&linked, "linked", &["a"]).unwrap();
    assert_eq!((output.branch.as_str(), output.files), ("side/branch", 1));
    assert_eq!(scene.git(&["rev-parse", "side/branch"]), output.commit);
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
    // A directory below the root: paths are its own.
    scene.write("dir/c", "changed\n");
    scene.write("a", "not this\n");
    let output = scene.commit_at(&scene.at("dir"), "below", &["c"]).unwrap();
    assert_eq!((output.files, output.changes), (1, vec!["M c".to_owned()]));
    assert_eq!(scene.git(&["show", "--format=", "--name-only", "HEAD"]), "dir/c");
    assert_eq!(scene.git(&["diff", "--name-only"]), "a");
    scene.git(&["fsck", "--strict"]);
}

#[test]
fn what_can_not_be_committed_is_an_error() {
    let scene = Scene::new();
    scene.write("x.log", "x\n");
    scene.write("lfs.bin", "x\n");
    scene.write(".gitattributes", "*.bin filter=lfs\n");
    fs::create_dir(scene.at("nested")).unwrap();
    git(&scene.at("nested"), &["init", "--quiet"]);
    git(&scene.at("nested"), &["commit", "--quiet", "--allow-empty", "--message=x"]);
    symlink("dir", scene.at("link")).unwrap();
    let head = scene.git(&["rev-parse", "HEAD"]);
    for (paths, code, names) in [
        (&["a"][..], "NothingToCommit", "latest commit"),
        (&["a", "missing"], "FileNotFoundError", "missing"),
        (&["a", "x.log"], "IgnoredPath", "x.log"),
        (&["lfs.bin"], "FilterNotRun", "lfs.bin"),
        (&["nested"], "NestedRepository", "nested"),
        (&["../x"], "PathNotAllowed", "../x"),
        (&["/etc/passwd"], "PathNotAllowed", "/etc/passwd"),
        (&[""], "InvalidPath", "empty"),
        (&[], "InvalidPath", "at least one"),
        (&["link/c"], "GitFailed", "beyond a symbolic link"),
    ] {
        let error = scene.commit(paths).unwrap_err();
        assert_eq!(error.code, code, "{paths:?}: {error}");
        assert!(error.message.contains(names), "{error}");
    }
    for message in ["", " \n\t\n", "a\0b"] {
        let error = scene.commit_at(&scene.root(), message, &["link"]).unwrap_err();
        assert_eq!(error.code, "InvalidMessage");
    }
    let state = ["MERGE_HEAD", "index.lock"];
    for (name, code) in state.into_iter().zip(["CommitNotPossible", "RepositoryChanged"]) {
        scene.write(&format!(".git/{name}"), "x\n");
        assert_eq!(scene.commit(&["link"]).unwrap_err().code, code);
        fs::remove_file(scene.at(".git").join(name)).unwrap();
    }
    let unknown = Scene { identity: "", ..scene };
    let error = unknown.commit(&["link"]).unwrap_err();
    assert_eq!(error.code, "NoIdentity");
    assert!(error.message.contains("git config --global user.name"), "{error}");
    assert_eq!(unknown.git(&["rev-parse", "HEAD"]), head);
    // The repository's own settings are enough.
    unknown.git(&["config", "user.name", "Own"]);
    unknown.git(&["config", "user.email", "own@example.com"]);
    unknown.commit(&["link"]).unwrap();
    assert_eq!(unknown.git(&["log", "-1", "--format=%an"]), "Own");
}

#[test]
fn submodules_are_left_out() {
    let scene = Scene::new();
    let other = Scene::new();
    let url = other.root().display().to_string();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "sub"];
    scene.git(&add);
    scene.git(&["commit", "--quiet", "--message=sub"]);
    git(&scene.at("sub"), &["commit", "--quiet", "--allow-empty", "--message=x"]);
    scene.write("a", "two\n");
    assert_eq!(scene.commit(&["."]).unwrap().changes, ["M a"]);
    assert!(scene.git(&["status", "--porcelain"]).contains("M sub"));
    for path in ["sub", "sub/a"] {
        assert_eq!(scene.commit(&[path]).unwrap_err().code, "SubmoduleNotSupported");
    }
}

#[test]
fn nothing_runs_that_the_repository_names() {
    let scene = Scene::new();
    let marker = scene.directory.path().join("planted-ran");
    let program = scene.directory.path().join("planted.sh");
    fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat\n", marker.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    for hook in [
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "post-rewrite",
        "pre-auto-gc",
    ] {
        fs::create_dir_all(scene.at(".git/hooks")).unwrap();
        fs::copy(&program, scene.at(".git/hooks").join(hook)).unwrap();
    }
    let program = program.to_str().unwrap();
    for name in
        ["core.fsmonitor", "gpg.program", "filter.x.clean", "filter.x.process", "core.editor"]
    {
        scene.git(&["config", name, program]);
    }
    let _ = fs::remove_file(&marker);
    scene.git(&["config", "commit.gpgSign", "true"]);
    scene.write(".git/info/attributes", "b filter=x\n");
    for path in ["a", "b", "dir/c"] {
        scene.write(path, "two\n");
    }
    // Each of the programs is one that git runs.
    scene.git(&["status"]);
    fs::remove_file(&marker).unwrap();
    scene.commit(&["a"]).unwrap();
    assert_eq!(scene.commit(&["b"]).unwrap_err().code, "FilterNotRun");
    let output = scene.commit(&["dir"]).unwrap();
    assert!(!marker.exists());
    assert!(!scene.git(&["cat-file", "commit", &output.commit]).contains("gpgsig"));
}

#[test]
fn a_message_is_cleaned_up_as_git_does() {
    for (message, wanted) in [
        ("x", "x\n"),
        ("\n\n  x  \n\n\n\ny\t\n\n", "  x\n\ny\n"),
        ("# no comment\r\nb\r\n", "# no comment\nb\n"),
    ] {
        assert_eq!(cleaned(message).unwrap(), wanted);
    }
}

#[test]
fn refusals_have_their_codes() {
    let why = || "why".to_owned();
    for (error, code) in [
        (Error::Denied(why()), "PermissionError"),
        (Error::Invalid(why()), "CommitNotPossible"),
        (Error::Changed(why()), "RepositoryChanged"),
        (Error::Failed(why()), "OSError"),
    ] {
        assert_eq!(failure(error).code, code);
    }
}
