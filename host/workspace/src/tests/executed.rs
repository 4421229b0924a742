//! Files that other programs execute, as a transaction names them before its commit.

use super::*;

fn named(transaction: &Transaction) -> Vec<String> {
    transaction.executed(None).iter().map(ToString::to_string).collect()
}

#[test]
fn files_behind_links_are_named() {
    let root = tempfile::tempdir().unwrap();
    let quota = Quota::unlimited();
    for directory in ["conf", "a/b", "tools"] {
        fs::create_dir_all(root.path().join(directory)).unwrap();
    }
    symlink("conf", root.path().join(".vscode")).unwrap();
    symlink("conf/env", root.path().join(".envrc")).unwrap();
    symlink("../../tools", root.path().join("a/b/.idea")).unwrap();
    symlink("tools", root.path().join("other")).unwrap();
    let (transaction, _) = begin(&open(root.path()));
    let tree = transaction.overlay();
    let code = "VS Code and its relatives read commands from when the directory is opened";
    // Written by its own name: the link is in a directory above it.
    write(tree, "conf/tasks.json", "{}");
    assert_eq!(
        named(&transaction),
        [format!("conf/tasks.json, which {code} (as .vscode/tasks.json)")]
    );
    write(tree, "conf/env", "");
    assert!(named(&transaction)[0].ends_with("(as .envrc)"), "{:?}", named(&transaction));
    // Through a link elsewhere.
    write(tree, "tools/plain", "");
    assert_eq!(named(&transaction).len(), 2);
    let place = tree.resolve("", "a/b/.idea/run.xml", true).unwrap();
    assert_eq!(place, "tools/run.xml");
    write(tree, &place, "");
    let found = named(&transaction);
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[3].ends_with("(as a/b/.idea/run.xml)"), "{found:?}");
    // Nothing by another link, and nothing that the transaction did not write.
    assert!(tree.resolve("", "other/plain", true).is_ok());
    assert_eq!(named(&transaction), found);
    // A link of the transaction's own.
    tree.create_link("a", "a/.zed", &quota).unwrap();
    assert!(named(&transaction)[0].starts_with("a/.zed, which Zed"), "{:?}", named(&transaction));
}

/// The whole tree is listed once for a commit, and anew after the user was asked.
#[test]
fn repositories_are_listed_once_for_a_state() {
    let root = tempfile::tempdir().unwrap();
    for place in ["fixture.git/objects", "fixture.git/refs", "tools"] {
        fs::create_dir_all(root.path().join(place)).unwrap();
    }
    fs::write(root.path().join("fixture.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let config = |text: &str| fs::write(root.path().join("fixture.git/config"), text).unwrap();
    let hook = "tools/run, which git runs as a hook (of a repository in another directory)";
    config("");
    let (transaction, _) = begin(&open(root.path()));
    let tree = transaction.overlay();
    write(tree, "tools/run", "");
    tree.set_executable("tools/run", true, &Quota::unlimited()).unwrap();
    assert!(named(&transaction).is_empty());
    config("[core]\n\thooksPath = ../tools\n");
    assert!(named(&transaction).is_empty(), "nothing was changed by the transaction");
    transaction.preview().unwrap();
    assert_eq!(named(&transaction), [hook]);
    config("");
    assert_eq!(named(&transaction), [hook]);
    write(tree, "tools/other", "");
    assert!(named(&transaction).is_empty(), "changed by the transaction");
}

/// A repository's configuration comes with a workspace: what it names takes a bounded time.
#[test]
fn hostile_configuration_is_read_in_bounded_time() {
    let root = tempfile::tempdir().unwrap();
    for place in ["fixture.git/objects", "fixture.git/refs", "tools"] {
        fs::create_dir_all(root.path().join(place)).unwrap();
    }
    fs::write(root.path().join("fixture.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let path = |unit: &str, bytes: usize| unit.repeat(bytes / unit.len());
    let lines = |line: String| format!("{line}\n").repeat((1 << 20) / (line.len() + 1));
    for (what, config) in [
        ("a path of a megabyte", format!("path = {}", path("/usr/..", 1 << 20))),
        ("long absolute paths", lines(format!("path = {}", path("/usr/..", 4000)))),
        ("long paths below home", lines(format!("path = ~/{}", path("a/", 4000)))),
        ("long relative paths", lines(format!("path = {}x", path("../tools/", 4000)))),
        ("many includes", lines("path = x".to_owned())),
        ("many directories of hooks", lines("[core]hooksPath=x".to_owned())),
        ("many words", lines(format!("[alias]a={}", path("x ", 1000)))),
    ] {
        fs::write(root.path().join("fixture.git/config"), format!("[include]\n{config}")).unwrap();
        let (transaction, _) = begin(&open(root.path()));
        write(transaction.overlay(), "tools/run", "");
        transaction.overlay().set_executable("tools/run", true, &Quota::unlimited()).unwrap();
        let begun = Instant::now();
        named(&transaction);
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
    }
}
