//! Directories that are filled without a transaction.

use super::*;

/// What is created in a new workspace.
enum New<'a> {
    Directory(&'a str),
    File(&'a str, &'a str),
    Program(&'a str),
    Link(&'a str, &'a str),
}
use New::{Directory, File, Link, Program};

/// Fills a workspace. Returns the executed files.
fn fill(root: &Path, new: &[New<'_>]) -> Result<Vec<String>, CommitError> {
    let workspace = open(root);
    let tree = NewTree::begin(&workspace).unwrap();
    let mut creating = tree.files();
    let (mut directories, mut files, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for one in new {
        match one {
            Directory(place) => {
                creating.create_directory(place)?;
                directories.push(*place);
            }
            File(place, content) => {
                let mut file = creating.create_file(place, false)?;
                file.write_all(content.as_bytes()).unwrap();
                files.push(*place);
            }
            Program(place) => {
                creating.create_file(place, true)?;
                files.push(*place);
            }
            Link(place, target) => {
                creating.create_link(target, place)?;
                links.push(*place);
            }
        }
    }
    let executed = tree.finish(&directories, &files, &links)?;
    Ok(executed.iter().map(ToString::to_string).collect())
}

/// Makes the changes by a transaction. Returns the executed files.
fn commit(root: &Path, new: &[New<'_>]) -> Result<Vec<String>, CommitError> {
    let quota = Quota::unlimited();
    let (transaction, _) = begin(&open(root));
    let tree = transaction.overlay();
    for one in new {
        match one {
            Directory(place) => tree.create_directory(place, &quota).unwrap(),
            File(place, content) => write(tree, place, content),
            Program(place) => {
                write(tree, place, "");
                tree.set_executable(place, true, &quota).unwrap();
            }
            Link(place, target) => tree.create_link(target, place, &quota).unwrap(),
        }
    }
    let executed = transaction.executed(None).iter().map(ToString::to_string).collect();
    transaction.commit(Purpose::default()).map(|_| executed)
}

#[test]
fn a_new_tree_is_what_a_transaction_would_have_made() {
    let new = [
        Directory("a"),
        Directory("a/empty"),
        Directory("conf"),
        File("a/\u{fc} \n name", "content\n"),
        File("conf/tasks.json", "{}"),
        File("conf/config", "[core]\n\tbare = true\n"),
        File(".envrc", "echo"),
        File("empty", ""),
        Program("run"),
        Link("link", "a/empty"),
        Link("dangling", "nothing"),
        Link(".vscode", "conf"),
        Link(".idea", "link"),
    ];
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let executed = fill(one.path(), &new).unwrap();
    assert_eq!(executed, commit(other.path(), &new).unwrap());
    for (place, expected) in [(".envrc", "direnv"), ("conf/tasks.json", "(as .vscode/tasks.json)")]
    {
        let is_it = |line: &String| line.starts_with(place) && line.contains(expected);
        assert!(executed.iter().any(is_it), "{executed:?}");
    }
    assert_eq!(tree(one.path()), tree(other.path()));
    // It is an ordinary workspace then.
    let (transaction, recovered) = begin(&open(one.path()));
    assert!(recovered.is_none());
    write(transaction.overlay(), "empty", "not any more");
    transaction.commit(Purpose::default()).unwrap().unwrap();
    assert_eq!(fs::read_to_string(one.path().join("empty")).unwrap(), "not any more");
}

#[test]
fn a_new_tree_has_no_repository_and_nothing_that_is_protected() {
    let head = "ref: refs/heads/main\n";
    let repositories = [
        vec![File("HEAD", head), Directory("objects"), Directory("refs")],
        vec![Directory("d"), File("d/HEAD", head), Directory("d/objects"), File("d/refs", "")],
        vec![Directory("d"), File("d/head", head), File("d/Objects", ""), File("d/REFS", "")],
        vec![Directory("d"), File("d/HEAD", head), File("d/commondir", "..")],
        vec![Directory("objects"), Link("refs", "objects"), Link("HEAD", "refs/heads/main")],
    ];
    for new in repositories {
        let [filled, committed] =
            [fill, commit].map(|make| make(tempfile::tempdir().unwrap().path(), &new));
        let is_refused = |made: &Result<_, CommitError>| matches!(made, Err(CommitError::Protected { why, .. }) if why.contains("git repository"));
        assert!(is_refused(&filled), "{filled:?}");
        assert!(is_refused(&committed), "{committed:?}");
    }
    let names =
        [".git", ".GIT", "git~1", "cofferdam.toml", "cofferdam.lock", ".cofferdam", ".Git "];
    for name in names {
        for new in [File(name, ""), Program(name), Directory(name), Link(name, "x")] {
            let root = tempfile::tempdir().unwrap();
            let filled = fill(root.path(), &[new]);
            assert!(matches!(filled, Err(CommitError::Protected { .. })), "{name}: {filled:?}");
            assert_eq!(tree(root.path()), Tree::new(), "{name}");
        }
    }
    // A file that only looks like one of a repository.
    let root = tempfile::tempdir().unwrap();
    fill(root.path(), &[File("HEAD", "x"), Directory("objects"), Directory("refs")]).unwrap();
}

#[test]
fn nothing_is_replaced_and_no_link_is_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let there = outside.path().to_str().unwrap();
    let cases = [
        vec![File("a", "1"), File("a", "2")],
        vec![File("a", "1"), Directory("a")],
        vec![Directory("a"), Link("a", "b")],
        vec![Link("a", "b"), File("a", "2")],
        vec![Link("a", there), File("a/x", "2")],
        vec![Directory("d"), Link("d/a", "../d"), File("d/a/x", "2")],
        vec![Directory("d"), Link("a", "d"), Directory("a/x")],
        vec![File("missing/x", "")],
        vec![Directory("d"), File("d/../../x", "")],
    ];
    for (number, new) in cases.iter().enumerate() {
        let root = root.path().join(number.to_string());
        fs::create_dir(&root).unwrap();
        let filled = fill(&root, new);
        assert!(matches!(filled, Err(CommitError::Io { .. })), "{number}: {filled:?}");
        assert!(tree(outside.path()).is_empty(), "{number}");
    }
    let used = root.path().join("used");
    fs::create_dir_all(used.join("sub")).unwrap();
    let error = NewTree::begin(&open(&used)).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
}

/// Several threads create files of the same directories.
#[test]
fn threads_fill_a_tree_together() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let new = NewTree::begin(&workspace).unwrap();
    let directories = ["0", "1", "2"];
    let mut creating = new.files();
    directories.iter().for_each(|place| creating.create_directory(place).unwrap());
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let mut creating = new.files();
                for file in 0..60 {
                    let place = format!("{}/{number}-{file}", file % 3);
                    let mut file = creating.create_file(&place, false).unwrap();
                    file.write_all(place.as_bytes()).unwrap();
                }
            });
        }
    });
    new.finish(&directories, &[], &[]).unwrap();
    let files: Vec<_> = tree(root.path()).into_iter().filter(|(_, it)| it.0 != "/").collect();
    assert_eq!(files.len(), 240);
    assert!(files.iter().all(|(place, (content, ..))| place == content), "{files:?}");
}
