//! Stores that are damaged, or that lie.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cofferdam_plugin::digest::Digest;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::Scene;
use crate::FleetError;
use crate::commit::{About, StoredCommit};
use crate::tree::DirectoryRef;

fn object(store: &Path, digest: Digest) -> PathBuf {
    let hex = digest.hex();
    store.join("objects/sha256").join(&hex[..2]).join(&hex[2..])
}

fn commit_file(store: &Path, number: u64) -> PathBuf {
    store.join(format!("commits/{number:020}"))
}

fn put(store: &Path, bytes: &[u8]) -> DirectoryRef {
    let digest = Digest::of(bytes);
    let path = object(store, digest);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    DirectoryRef { digest, size: bytes.len() as u64 }
}

fn last(store: &Path, number: u64) -> (u64, Digest) {
    (number, Digest::of(&fs::read(commit_file(store, number)).unwrap()))
}

/// Creates the commit after `number` with a tree.
fn create(store: &Path, number: u64, tree: DirectoryRef) {
    let (_, bytes) =
        StoredCommit::after(Some(last(store, number)), tree, About::default()).unwrap();
    fs::write(commit_file(store, number + 1), bytes).unwrap();
}

fn file(name: &str, content: Digest, size: u64) -> String {
    let name = serde_json::to_string(name).unwrap();
    format!(r#"{{"name":{name},"kind":"file","size":{size},"parts":["{content}"]}}"#)
}

fn directory(entries: &[String]) -> Vec<u8> {
    format!(r#"{{"version":1,"entries":[{}]}}"#, entries.join(",")).into_bytes()
}

/// A workspace `b` that is synced with a store that has a newer commit, and the content of a file that
/// only the newer commit has.
fn prepared() -> (Scene, PathBuf, Digest) {
    let scene = Scene::new();
    scene.make("a", &["x", "sub/y"]);
    scene.push("a").unwrap();
    scene.clone("b").unwrap();
    scene.write("a", "sub/z", "content");
    scene.push("a").unwrap();
    let store = scene.path("store");
    (scene, store, Digest::of(b"content"))
}

/// Pulls and clones; both fail with an error that `is_expected`, and change nothing.
fn refused(scene: &Scene, case: &str, is_expected: impl Fn(&FleetError) -> bool) {
    let before = scene.tree("b");
    for (how, result) in [("pull", scene.pull("b")), ("clone", scene.clone("c"))] {
        let error = result.unwrap_err();
        assert!(is_expected(&error), "{case}, {how}: {error:?}");
        assert_eq!(scene.tree("b"), before, "{case}, {how}");
        assert!(!scene.path("c").exists(), "{case}, {how}");
    }
    let left = fs::read_dir(scene.path("")).unwrap().count();
    assert_eq!(left, 3, "{case}: only a, b and the store");
}

#[test]
fn damaged_and_missing_objects_are_named() {
    type Damage = fn(&Path);
    let wrong: [(&str, Damage); 5] = [
        ("other content", |path| fs::write(path, "CONTENT").unwrap()),
        ("torn", |path| fs::write(path, "cont").unwrap()),
        ("longer", |path| fs::write(path, "content and more").unwrap()),
        ("a link", |path| {
            fs::remove_file(path).unwrap();
            symlink("/etc/hostname", path).unwrap();
        }),
        ("a FIFO", |path| {
            fs::remove_file(path).unwrap();
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        }),
    ];
    for (case, damage) in wrong {
        let (scene, store, content) = prepared();
        damage(&object(&store, content));
        refused(
            &scene,
            case,
            |error| matches!(error, FleetError::WrongContent(digest) if *digest == content),
        );
    }
    let (scene, store, content) = prepared();
    fs::remove_file(object(&store, content)).unwrap();
    refused(
        &scene,
        "missing",
        |error| matches!(error, FleetError::MissingObject(digest) if *digest == content),
    );
}

#[test]
fn a_damaged_directory_is_named() {
    let (scene, store, _) = prepared();
    let commit = fs::read(commit_file(&store, 2)).unwrap();
    let root = StoredCommit::parse(2, &commit).unwrap().tree.digest;
    fs::write(object(&store, root), "{}").unwrap();
    refused(&scene, "root", |error| matches!(error, FleetError::WrongContent(_)));
}

#[test]
fn hostile_names_and_links_are_refused_and_nothing_is_written() {
    let content = Digest::of(b"x");
    let name = |name: &str| file(name, content, 1);
    let link = |target: &str| format!(r#"{{"name":"l","kind":"link","target":"{target}"}}"#);
    let cases = [
        vec![name("..")],
        vec![name(".")],
        vec![name("")],
        vec![name("../escaped")],
        vec![name("/escaped")],
        vec![name("a/b")],
        vec![name("a\0b")],
        vec![name(".git")],
        vec![name(".Git")],
        vec![name(".cofferdam")],
        vec![name("cofferdam.toml")],
        vec![name("a"), name("a")],
        vec![name("b"), name("a")],
        vec![link("/etc/passwd")],
        vec![link("../escaped")],
        vec![file("a", content, u64::MAX)],
        vec![name("a").replace("file", "device")],
    ];
    for entries in cases {
        let (scene, store, _) = prepared();
        put(&store, b"x");
        create(&store, 2, put(&store, &directory(&entries)));
        let before = scene.path("escaped");
        refused(&scene, &entries[0], |error| matches!(error, FleetError::Invalid { .. }));
        assert!(!before.exists());
    }
}

#[test]
fn a_link_and_a_directory_of_one_name_can_not_be_made() {
    // A link, and a file behind it: as one directory, the names occur twice.
    let (scene, store, _) = prepared();
    let below = put(&store, &directory(&[file("planted", Digest::of(b"x"), 1)]));
    let entries = [
        r#"{"name":"d","kind":"link","target":"sub"}"#.to_owned(),
        format!(
            r#"{{"name":"d","kind":"directory","digest":"{}","size":{}}}"#,
            below.digest, below.size
        ),
    ];
    create(&store, 2, put(&store, &directory(&entries)));
    refused(&scene, "link and directory", |error| matches!(error, FleetError::Invalid { .. }));
}

#[test]
fn a_repository_in_a_tree_is_refused() {
    let (scene, store, _) = prepared();
    let head = Digest::of(b"ref: refs/heads/main\n");
    put(&store, b"ref: refs/heads/main\n");
    let empty = put(&store, &directory(&[]));
    let below = |name: &str| {
        format!(
            r#"{{"name":"{name}","kind":"directory","digest":"{}","size":{}}}"#,
            empty.digest, empty.size
        )
    };
    let entries = [file("HEAD", head, 21), below("objects"), below("refs")];
    create(&store, 2, put(&store, &directory(&entries)));
    refused(&scene, "bare repository", |error| {
        matches!(error, FleetError::Commit(cofferdam_workspace::CommitError::Protected { .. }))
    });
}

#[test]
fn deep_trees_and_large_directories_are_refused() {
    let (scene, store, _) = prepared();
    let mut below = put(&store, &directory(&[]));
    for _ in 0..300 {
        let entry = format!(
            r#"{{"name":"d","kind":"directory","digest":"{}","size":{}}}"#,
            below.digest, below.size
        );
        below = put(&store, &directory(&[entry]));
    }
    create(&store, 2, below);
    refused(&scene, "deep", |error| matches!(error, FleetError::Invalid { .. }));

    let (scene, store, _) = prepared();
    create(&store, 2, put(&store, &vec![b' '; (8 << 20) + 1]));
    refused(&scene, "large directory", |error| matches!(error, FleetError::Invalid { .. }));
}

#[test]
fn replaced_removed_and_broken_commits_are_named() {
    // The commit that the workspace has seen.
    let (scene, store, _) = prepared();
    let first = fs::read_to_string(commit_file(&store, 1)).unwrap();
    fs::write(
        commit_file(&store, 1),
        first.replace("\"commits\":[]", "\"message\":\"m\",\"commits\":[]"),
    )
    .unwrap();
    let error = scene.pull("b").unwrap_err();
    assert!(matches!(error, FleetError::Replaced(1)), "{error:?}");
    let error = scene.clone("c").unwrap_err();
    assert!(matches!(error, FleetError::BrokenChain(2)), "{error:?}");
    fs::remove_file(commit_file(&store, 1)).unwrap();
    let error = scene.pull("b").unwrap_err();
    assert!(matches!(error, FleetError::MissingCommit(1)), "{error:?}");
    let error = scene.clone("c").unwrap_err();
    assert!(matches!(error, FleetError::MissingCommit(1)), "{error:?}");

    // A store that went back to an older copy, and one that has other commits since.
    let (scene, store, _) = prepared();
    let second = fs::read(commit_file(&store, 2)).unwrap();
    fs::remove_file(commit_file(&store, 2)).unwrap();
    let error = scene.push("a").unwrap_err();
    assert!(matches!(error, FleetError::MissingCommit(2)), "{error:?}");
    scene.write("b", "of b", "x");
    scene.push("b").unwrap();
    let error = scene.pull("a").unwrap_err();
    assert!(matches!(error, FleetError::Replaced(2)), "{error:?}");
    let workspace = scene.open("a");
    let log = crate::log(&workspace, None, &scene.access, 5);
    let error = scene.runtime.block_on(log).unwrap_err();
    assert!(matches!(error, FleetError::Replaced(2)), "{error:?}");
    drop(second);

    // What is no commit, or one of another number or version.
    for damage in ["", "{}", "null", "[[[[", "{\"version\":1"] {
        let (scene, store, _) = prepared();
        fs::write(commit_file(&store, 2), damage).unwrap();
        refused(&scene, damage, |error| matches!(error, FleetError::Invalid { .. }));
    }
    let (scene, store, _) = prepared();
    fs::copy(commit_file(&store, 1), commit_file(&store, 2)).unwrap();
    refused(&scene, "copied", |error| matches!(error, FleetError::Invalid { .. }));
    let (scene, store, _) = prepared();
    fs::write(commit_file(&store, 2), vec![b' '; 2 << 20]).unwrap();
    refused(&scene, "large", |error| matches!(error, FleetError::Invalid { .. }));
    let (scene, store, _) = prepared();
    fs::remove_file(commit_file(&store, 2)).unwrap();
    mknodat(CWD, commit_file(&store, 2), FileType::Fifo, Mode::RUSR, 0).unwrap();
    refused(&scene, "a FIFO", |error| matches!(error, FleetError::Invalid { .. }));
}

#[test]
fn a_marker_that_is_no_marker_is_refused() {
    for marker in ["", "{}", "{\"version\":2,\"id\":\"x\"}"] {
        let (scene, store, _) = prepared();
        fs::write(store.join("cofferdam-store.json"), marker).unwrap();
        refused(&scene, marker, |error| matches!(error, FleetError::Invalid { .. }));
        let error = scene.push("a").unwrap_err();
        assert!(matches!(error, FleetError::Invalid { .. }), "{error:?}");
    }
}
