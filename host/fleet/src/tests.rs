//! Pushing, cloning and pulling with a local directory as the store, and stores that lie.
#![expect(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod flaky;
mod hostile;
mod replica;
mod s3;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_plugin::http::Client;
use cofferdam_workspace::{History, Secret, Transaction, Workspace};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::state::State;
use crate::store::{Access, Address};
use crate::{FleetError, Pulled, PushOptions, Pushed, clone, log, pull, push};

/// A temporary directory with a store and workspaces.
struct Scene {
    place: TempDir,
    runtime: Runtime,
    access: Access,
}

impl Scene {
    fn new() -> Self {
        let access = Access { variables: Vec::new(), client: Arc::new(Client::new(None)) };
        Self { place: tempfile::tempdir().unwrap(), runtime: Runtime::new().unwrap(), access }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(name)
    }

    fn store(&self) -> Address {
        Address::Directory(self.path("store"))
    }

    fn open(&self, name: &str) -> Arc<Workspace> {
        Arc::new(Workspace::open(&self.path(name), Secret::OfProcess).unwrap())
    }

    /// Writes files, each with its name as its content.
    fn make(&self, name: &str, files: &[&str]) {
        fs::create_dir_all(self.path(name)).unwrap();
        files.iter().for_each(|file| self.write(name, file, file));
    }

    fn write(&self, name: &str, file: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn push_with(&self, name: &str, pull: bool, ignored: bool) -> Result<Pushed, FleetError> {
        let tool_of = |_: &str| None;
        let options = PushOptions { pull, ignored, message: None, tool_of: &tool_of };
        let workspace = self.open(name);
        self.runtime.block_on(push(&workspace, Some(self.store()), &self.access, options))
    }

    fn push(&self, name: &str) -> Result<Pushed, FleetError> {
        self.push_with(name, false, false)
    }

    fn pull(&self, name: &str) -> Result<Pulled, FleetError> {
        let workspace = self.open(name);
        self.runtime.block_on(pull(&workspace, Some(self.store()), &self.access))
    }

    fn clone(&self, name: &str) -> Result<Pulled, FleetError> {
        let directory = self.path(name);
        self.runtime.block_on(clone(self.store(), &directory, Secret::OfProcess, &self.access))
    }

    /// Undoes the latest commit of a workspace.
    fn undo(&self, name: &str) {
        let workspace = self.open(name);
        let begun = Transaction::begin(&workspace, std::time::Duration::from_secs(30));
        let (transaction, _) = self.runtime.block_on(begun).unwrap();
        History::new(workspace).undo(transaction, None).unwrap();
    }

    /// Everything in a directory but the host's own files: type, execute permission, content or target.
    fn tree(&self, name: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        read(&self.path(name), "", &mut found);
        found
    }
}

fn read(top: &Path, below: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(top.join(below)).unwrap() {
        let path = entry.unwrap().path();
        let place = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
        if place == ".cofferdam" {
            continue;
        }
        let metadata = path.symlink_metadata().unwrap();
        let shown = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else if metadata.is_dir() {
            read(top, &place, found);
            "directory".to_owned()
        } else {
            let content = cofferdam_plugin::digest::Digest::of(&fs::read(&path).unwrap());
            format!("{} {content}", metadata.permissions().mode() & 0o100 != 0)
        };
        found.insert(place, shown);
    }
}

fn collides(result: Result<Pulled, FleetError>) -> Vec<String> {
    match result {
        Err(FleetError::Collides(places)) => places,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_clone_has_modes_links_empty_files_and_any_names() {
    let scene = Scene::new();
    scene.make("a", &["plain", "sub/deep/file", "ünï — \u{1b}[31m\nname", "Case", "case"]);
    scene.write("a", "empty", "");
    let large: Vec<u8> = (0_u32..9 << 18).flat_map(u32::to_le_bytes).collect();
    scene.write("a", "large", &large);
    scene.write("a", "exact", &large[..4 << 20]);
    scene.write("a", "run", "#!/bin/sh\n");
    let root = scene.path("a");
    fs::set_permissions(root.join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(root.join("nothing in it")).unwrap();
    symlink("sub/deep", root.join("link")).unwrap();
    symlink("does not exist", root.join("dangling")).unwrap();
    let expected = scene.tree("a");
    let pushed = scene.push("a").unwrap();
    assert_eq!((pushed.number, pushed.files, pushed.left_out.len()), (1, 11, 0));
    let cloned = scene.clone("b").unwrap();
    assert_eq!((cloned.number, cloned.written), (1, 11));
    assert_eq!(scene.tree("b"), expected);
    // The clone knows its store, and has all of it.
    assert_eq!(scene.push("b").unwrap().commit, None);
    let pulled = scene.pull("b").unwrap();
    assert_eq!((pulled.new_commits, pulled.commit), (0, None));
    // Only the new directory of the clone is there, and none of its steps.
    let mut names: Vec<_> =
        fs::read_dir(scene.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a", "b", "store"]);
    let refused = scene.clone("b").unwrap_err();
    assert!(matches!(refused, FleetError::NotEmpty(_)), "{refused}");
}

/// A clone leaves what a pull into an empty workspace leaves, without its history.
#[test]
fn a_clone_knows_what_a_pull_knows() {
    let scene = Scene::new();
    scene.make("a", &["x", "sub/y", ".envrc", "conf/tasks.json"]);
    for place in ["same", "sub/same", "sub/again"] {
        scene.write("a", place, "equal");
    }
    let equal_parts = vec![7_u8; (9 << 20) + 5];
    scene.write("a", "large", &equal_parts);
    scene.write("a", "large again", &equal_parts);
    fs::set_permissions(scene.path("a/sub/again"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("conf", scene.path("a/.vscode")).unwrap();
    scene.push("a").unwrap();
    fs::create_dir(scene.path("pulled")).unwrap();
    let pulled = scene.pull("pulled").unwrap();
    let cloned = scene.clone("cloned").unwrap();
    assert_eq!(scene.tree("cloned"), scene.tree("pulled"));
    assert_eq!(scene.tree("cloned"), scene.tree("a"));
    let counts = |it: &Pulled| (it.number, it.new_commits, it.written, it.removed);
    assert_eq!(counts(&cloned), counts(&pulled));
    // A content is read once, also as a part of one file.
    let fetched = |it: &Pulled| (it.fetched_objects, it.fetched_bytes);
    assert_eq!(fetched(&cloned), fetched(&pulled));
    assert_eq!(cloned.executed, pulled.executed);
    let executed: Vec<&str> = cloned.executed.iter().map(|file| &*file.path).collect();
    assert_eq!(executed, [".envrc", ".vscode", "conf/tasks.json"]);
    let state = |name: &str| {
        let own = scene.open(name).existing_own().unwrap().unwrap();
        State::read(&own).unwrap()
    };
    let (one, other) = (state("cloned"), state("pulled"));
    assert!(one.stamps.is_empty() && !one.items.is_empty());
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
    assert_eq!(History::new(scene.open("cloned")).list(10).unwrap().len(), 0);
    let pulled = scene.pull("cloned").unwrap();
    assert_eq!((pulled.new_commits, pulled.fetched_objects, pulled.commit), (0, 0, None));
    // Only what is written later is a change.
    scene.write("cloned", "sub/again", "changed");
    assert_eq!(scene.push("cloned").unwrap().new_objects, 3);
    scene.pull("a").unwrap();
    assert_eq!(scene.tree("a"), scene.tree("cloned"));
}

/// A directory that can't be written, or is full, keeps nothing of a clone.
#[test]
fn a_clone_that_fails_leaves_nothing() {
    let scene = Scene::new();
    scene.make("a", &["x", "sub/y", "sub/z"]);
    scene.push("a").unwrap();
    let names = |place: &Path| {
        let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names(&scene.path(""));
    let objects = scene.path("store/objects/sha256");
    let (content, root) = (cofferdam_plugin::digest::Digest::of(b"sub/z"), scene.path("saved"));
    let object = objects.join(&content.hex()[..2]).join(&content.hex()[2..]);
    fs::rename(&object, &root).unwrap();
    let error = scene.clone("b").unwrap_err();
    assert!(matches!(error, FleetError::MissingObject(digest) if digest == content), "{error}");
    fs::rename(&root, &object).unwrap();
    assert_eq!(names(&scene.path("")), before);
    // What the user has created stays, and is filled.
    fs::create_dir(scene.path("b")).unwrap();
    scene.clone("b").unwrap();
    assert_eq!(scene.tree("b"), scene.tree("a"));
}

#[test]
fn what_no_tool_may_write_and_ignored_files_are_left_out() {
    let scene = Scene::new();
    scene.make(
        "a",
        &["kept", ".hidden", "build/out", "sub/x.log", "sub/y", "cofferdam.toml", "cofferdam.lock"],
    );
    scene.make(
        "a",
        &["sub/cofferdam.toml", ".git/config", "sub/.git/HEAD", "bare/objects/x", "bare/refs/y"],
    );
    scene.write("a", "bare/HEAD", "ref: refs/heads/main\n");
    scene.write("a", ".gitignore", "build/\n*.log\n");
    let root = scene.path("a");
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    symlink("../elsewhere", root.join("outside")).unwrap();
    let pushed = scene.push("a").unwrap();
    let mut left_out: Vec<&str> = pushed.left_out.iter().map(|left| &*left.path).collect();
    left_out.sort_unstable();
    assert_eq!(left_out, ["absolute", "bare/HEAD", "bare/objects", "bare/refs", "fifo", "outside"]);
    assert_eq!(pushed.ignored, 2);
    scene.clone("b").unwrap();
    let names = |name: &str| scene.tree(name).into_keys().collect::<Vec<_>>();
    let expected = [".gitignore", ".hidden", "bare", "kept", "sub", "sub/cofferdam.toml", "sub/y"];
    assert_eq!(names("b"), expected);
    // With ignored files, and then they stay a part of it.
    scene.push_with("a", false, true).unwrap();
    scene.write("a", "build/out", "changed");
    scene.push("a").unwrap();
    scene.pull("b").unwrap();
    assert_eq!(fs::read_to_string(scene.path("b/build/out")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(scene.path("b/sub/x.log")).unwrap(), "sub/x.log");
}

#[test]
fn only_what_differs_is_uploaded_and_fetched() {
    let scene = Scene::new();
    let files: Vec<String> = (0..50).map(|n| format!("d{}/{n}", n % 5)).collect();
    scene.make("a", &files.iter().map(String::as_str).collect::<Vec<_>>());
    // 50 files, 5 directories and the top.
    assert_eq!(scene.push("a").unwrap().new_objects, 56);
    scene.clone("b").unwrap();
    assert_eq!(scene.push("a").unwrap().commit, None);
    scene.write("a", "d3/3", "new");
    let pushed = scene.push("a").unwrap();
    assert_eq!((pushed.number, pushed.new_objects), (2, 3));
    let pulled = scene.pull("b").unwrap();
    assert_eq!((pulled.fetched_objects, pulled.written, pulled.removed), (3, 1, 0));
    assert_eq!(scene.tree("a"), scene.tree("b"));
    // An object that exists is not uploaded again.
    scene.write("a", "copy", "d0/0");
    assert_eq!(scene.push("a").unwrap().new_objects, 1);
}

#[test]
fn a_pull_is_one_commit_that_can_be_undone() {
    let scene = Scene::new();
    scene.make("a", &["changed", "removed", "d/removed", "kind", "tree/x"]);
    scene.push("a").unwrap();
    scene.clone("b").unwrap();
    scene.write("b", "own", "of b");
    scene.write("b", "d/own", "of b");
    let before = scene.tree("b");
    let root = scene.path("a");
    scene.write("a", "changed", "new");
    scene.write("a", "added/deep", "new");
    scene.write("a", ".envrc", "echo");
    fs::remove_file(root.join("removed")).unwrap();
    fs::remove_dir_all(root.join("d")).unwrap();
    fs::remove_file(root.join("kind")).unwrap();
    symlink("changed", root.join("kind")).unwrap();
    fs::remove_dir_all(root.join("tree")).unwrap();
    scene.write("a", "tree", "a file");
    fs::set_permissions(root.join("changed"), fs::Permissions::from_mode(0o755)).unwrap();
    scene.push("a").unwrap();
    let pulled = scene.pull("b").unwrap();
    assert_eq!((pulled.new_commits, pulled.written, pulled.removed), (1, 5, 3));
    assert_eq!(pulled.executed.iter().map(|file| &*file.path).collect::<Vec<_>>(), [".envrc"]);
    let mut expected = scene.tree("a");
    for own in ["own", "d", "d/own"] {
        expected.insert(own.to_owned(), before[own].clone());
    }
    assert_eq!(scene.tree("b"), expected);
    scene.undo("b");
    assert_eq!(scene.tree("b"), before);
    // What was undone is a change of this workspace now, and can be pushed.
    assert_eq!(scene.push("b").unwrap().number, 3);
}

#[test]
fn colliding_changes_are_named_and_nothing_is_changed() {
    let scene = Scene::new();
    scene.make("a", &["both", "same", "removed", "there", "d/x", "mine", "gone/x"]);
    scene.write("a", ".gitignore", "*.log\n");
    scene.push("a").unwrap();
    scene.clone("b").unwrap();
    for (name, text) in [("a", "of a"), ("b", "of b")] {
        scene.write(name, "both", text);
        scene.write(name, "new", text);
        scene.write(name, "same", "equal");
        scene.write(name, "x.log", text);
    }
    fs::remove_file(scene.path("a/removed")).unwrap();
    scene.write("b", "removed", "of b");
    scene.write("a", "there", "of a");
    fs::remove_file(scene.path("b/there")).unwrap();
    // A directory became a link: nothing is written through it.
    scene.write("a", "d/x", "of a");
    fs::remove_dir_all(scene.path("b/d")).unwrap();
    symlink("..", scene.path("b/d")).unwrap();
    scene.write("a", "gone/new", "of a");
    fs::remove_dir_all(scene.path("b/gone")).unwrap();
    scene.write("b", "mine", "of b");
    scene.push_with("a", false, true).unwrap();
    let before = scene.tree("b");
    let places = collides(scene.pull("b"));
    assert_eq!(places, ["both", "d/x", "new", "removed", "there", "x.log"]);
    assert_eq!(scene.tree("b"), before);
    let behind = scene.push("b").unwrap_err();
    assert!(matches!(behind, FleetError::Behind(2)), "{behind}");
    // Without the collisions, the directory that is gone here is found.
    for place in ["both", "new", "removed", "there", "x.log"] {
        let theirs = fs::read(scene.path("a").join(place));
        match theirs {
            Ok(content) => scene.write("b", place, content),
            Err(_) => fs::remove_file(scene.path("b").join(place)).unwrap(),
        }
    }
    fs::remove_file(scene.path("b/d")).unwrap();
    scene.write("b", "d/x", "of a");
    assert_eq!(collides(scene.pull("b")), ["gone/new"]);
    fs::create_dir(scene.path("b/gone")).unwrap();
    let pushed = scene.push_with("b", true, false).unwrap();
    assert_eq!((pushed.number, pushed.pulled.unwrap().written), (3, 1));
    assert_eq!(fs::read_to_string(scene.path("b/mine")).unwrap(), "of b");
}

#[test]
fn of_two_pushes_at_once_exactly_one_wins_and_nothing_is_lost() {
    let scene = Scene::new();
    scene.make("0", &["shared"]);
    scene.push("0").unwrap();
    (1..4).for_each(|n| drop(scene.clone(&n.to_string()).unwrap()));
    for round in 0..10 {
        let before = scene.open("0");
        drop(before);
        let names: Vec<String> = (0..4).map(|n| n.to_string()).collect();
        for name in &names {
            scene.pull(name).unwrap();
            scene.write(name, &format!("{name}-{round}"), "x");
        }
        let results: Vec<_> = std::thread::scope(|scope| {
            let pushes: Vec<_> =
                names.iter().map(|name| scope.spawn(|| scene.push(name))).collect();
            pushes.into_iter().map(|push| push.join().unwrap()).collect()
        });
        let won: Vec<u64> =
            results.iter().filter_map(|result| Some(result.as_ref().ok()?.number)).collect();
        assert_eq!(won, [(round * 4) + 2], "{results:?}");
        let is_behind = |result: &Result<_, _>| matches!(result, Err(FleetError::Behind(_)));
        assert_eq!(results.iter().filter(|result| is_behind(result)).count(), 3, "{results:?}");
        for (name, result) in names.iter().zip(&results) {
            if result.is_err() {
                scene.push_with(name, true, false).unwrap();
            }
        }
    }
    scene.pull("0").unwrap();
    assert_eq!(scene.tree("0").len(), 41);
    let workspace = scene.open("0");
    let listed = log(&workspace, None, &scene.access, 100);
    let listed = scene.runtime.block_on(listed).unwrap();
    let numbers: Vec<u64> = listed.iter().map(|listed| listed.commit.number).collect();
    assert_eq!(numbers, (1..=41).rev().collect::<Vec<u64>>());
    let few = scene.runtime.block_on(log(&workspace, None, &scene.access, 3)).unwrap();
    assert_eq!(
        few.iter().map(|few| few.digest).collect::<Vec<_>>(),
        listed[..3].iter().map(|l| l.digest).collect::<Vec<_>>()
    );
}

#[test]
fn a_workspace_is_synced_with_one_store_which_may_move() {
    let scene = Scene::new();
    scene.make("a", &["x"]);
    let workspace = scene.open("a");
    let push_to = |address: Option<Address>| {
        let tool_of = |_: &str| None;
        let options = PushOptions { pull: false, ignored: false, message: None, tool_of: &tool_of };
        scene.runtime.block_on(push(&workspace, address, &scene.access, options))
    };
    let none = push_to(None).unwrap_err();
    assert!(matches!(none, FleetError::NoStore), "{none}");
    let inside = push_to(Some(Address::Directory(scene.path("a/store")))).unwrap_err();
    assert!(matches!(inside, FleetError::Address { .. }), "{inside}");
    assert_eq!(scene.tree("a").len(), 1);
    assert_eq!(push_to(Some(scene.store())).unwrap().number, 1);
    assert_eq!(push_to(None).unwrap().commit, None);
    scene.make("b", &["y"]);
    let other = Address::Directory(scene.path("other"));
    let tool_of = |_: &str| None;
    let options = PushOptions { pull: false, ignored: false, message: None, tool_of: &tool_of };
    let b = scene.open("b");
    scene.runtime.block_on(push(&b, Some(other.clone()), &scene.access, options)).unwrap();
    let wrong = push_to(Some(other)).unwrap_err();
    assert!(matches!(wrong, FleetError::OtherStore { .. }), "{wrong}");
    fs::rename(scene.path("store"), scene.path("moved")).unwrap();
    let gone = push_to(None).unwrap_err();
    assert!(matches!(gone, FleetError::Empty(_)), "{gone}");
    assert!(!scene.path("store").exists());
    let moved = Address::Directory(scene.path("moved"));
    scene.write("a", "x", "new");
    assert_eq!(push_to(Some(moved)).unwrap().number, 2);
    fs::rename(scene.path("other"), scene.path("store")).unwrap();
    fs::rename(scene.path("moved"), scene.path("away")).unwrap();
    fs::rename(scene.path("store"), scene.path("moved")).unwrap();
    let another = push_to(None).unwrap_err();
    assert!(matches!(another, FleetError::AnotherStore(_)), "{another}");
}

/// A host that is killed after its commit was created has not noted that.
#[test]
fn a_lost_state_is_found_again_by_a_pull() {
    let scene = Scene::new();
    scene.make("a", &["x", "y"]);
    scene.push("a").unwrap();
    let state = scene.path("a/.cofferdam/store.state");
    let old = fs::read(&state).unwrap();
    scene.write("a", "x", "new");
    assert_eq!(scene.push("a").unwrap().number, 2);
    let before = scene.tree("a");
    // Also a state that no host has written.
    for state_then in [Some(old), None, Some(b"{}".to_vec())] {
        match state_then {
            Some(content) => fs::write(&state, content).unwrap(),
            None => fs::remove_file(&state).unwrap(),
        }
        let behind = scene.push("a").unwrap_err();
        assert!(matches!(behind, FleetError::Behind(2)), "{behind}");
        let pulled = scene.pull("a").unwrap();
        assert_eq!((pulled.number, pulled.commit), (2, None));
        assert_eq!(scene.push("a").unwrap().commit, None);
        assert_eq!(scene.tree("a"), before);
    }
}
