//! The commit protocol with crashes and errors at every step and with changes by other processes,
//! and undo.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::test_clock::set_shift;
use crate::disk::faults;
use crate::*;

/// The environment variables for the workspace and the task of a child process.
const ROOT: &str = "COFFERDAM_TEST_ROOT";
const TASK: &str = "COFFERDAM_TEST_TASK";

/// The files of a workspace: content, mode and time by path.
pub(super) type Tree = BTreeMap<String, (String, u32, String)>;

pub(super) fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    walk(root, root, &mut |path, metadata| {
        let content = if metadata.is_symlink() {
            format!("-> {}", fs::read_link(path).unwrap().display())
        } else if metadata.is_file() {
            fs::read_to_string(path).unwrap()
        } else {
            "/".to_owned()
        };
        let name = path.strip_prefix(root).unwrap().display().to_string();
        found.insert(name, (content, metadata.mode(), String::new()));
    });
    found
}

/// Returns the files with their modification times.
pub(super) fn tree_with_times(root: &Path) -> Tree {
    let mut found = tree(root);
    for (name, (_, _, time)) in &mut found {
        let metadata = fs::symlink_metadata(root.join(name)).unwrap();
        *time = format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec());
    }
    found
}

fn walk(root: &Path, directory: &Path, see: &mut dyn FnMut(&Path, &fs::Metadata)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path == root.join(OWN) {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).unwrap();
        see(&path, &metadata);
        if metadata.is_dir() {
            walk(root, &path, see);
        }
    }
}

pub(super) fn begin(workspace: &Arc<Workspace>) -> (Transaction, Option<Commit>) {
    let timers = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    timers.block_on(Transaction::begin(workspace, Duration::from_secs(60))).unwrap()
}

/// Begins a transaction on a workspace that no other process uses.
fn begin_now(workspace: &Arc<Workspace>) -> io::Result<Transaction> {
    when_unlocked(|| Transaction::try_begin(workspace).transpose()).map(|(begun, _)| begun)
}

/// Repeats an attempt that finds the workspace locked. A process that another test starts at the
/// same time has copies of this process's files, locks included, until it executes its program.
fn when_unlocked<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(done) = attempt() {
            return done;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the workspace stays locked");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(super) fn open(root: &Path) -> Arc<Workspace> {
    // The child processes of a test use the same directories.
    let secret = env::current_exe().unwrap().with_file_name("cofferdam-test-secret");
    Arc::new(Workspace::open(root, Secret::In(secret)).unwrap())
}

mod executed;
mod held;
mod new_tree;
mod paused;
mod questions;
mod recovery;
mod running;
mod tasks;

const REPLACE: Opening = Opening { read: false, create: true, exclusive: false, truncate: true };

pub(super) fn write(tree: &Overlay, place: &str, content: &str) {
    let mut file = tree.open_write(place, REPLACE, &Quota::unlimited()).unwrap();
    file.write_all(content.as_bytes()).unwrap();
}

pub(super) fn read(tree: &Overlay, place: &str) -> String {
    let mut content = String::new();
    tree.open_read(place).unwrap().0.read_to_string(&mut content).unwrap();
    content
}

/// Creates six files and a link.
pub(super) fn populate(root: &Path) {
    for directory in ["src/old", "bin"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    for file in ["a.txt", "b.txt", "src/c.txt", "src/old/d.txt", "bin/run", "e.txt"] {
        fs::write(root.join(file), format!("old {file}\n")).unwrap();
    }
    fs::set_permissions(root.join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("a.txt", root.join("link")).unwrap();
}

fn edit(tree: &Overlay) -> io::Result<()> {
    let quota = Quota::unlimited();
    let put = |place: &str, content: &str| {
        tree.open_write(place, REPLACE, &quota)?.write_all(content.as_bytes())
    };
    put("a.txt", "new a\r\n")?;
    put("src/c.txt", "\u{feff}new c, no newline")?;
    put("bin/run", "new run\n")?;
    tree.rename("b.txt", "src/b.txt", &|_| Ok(()), &quota)?;
    // A directory becomes a file, a file a directory, a link is replaced.
    tree.remove_file("src/old/d.txt")?;
    tree.remove_directory("src/old")?;
    put("src/old", "now a file\n")?;
    tree.remove_file("e.txt")?;
    tree.create_directory("e.txt", &quota)?;
    put("e.txt/inside", "new\n")?;
    tree.remove_file("link")?;
    tree.create_link("src/c.txt", "link", &quota)
}

fn after_edit() -> Tree {
    let directory = tempfile::tempdir().unwrap();
    populate(directory.path());
    let (transaction, _) = begin(&open(directory.path()));
    edit(transaction.overlay()).unwrap();
    transaction.commit(Purpose::default()).unwrap().unwrap();
    tree(directory.path())
}

/// Runs the task of a child process, which may be killed, or get an error, at any step.
#[test]
#[ignore = "run by the other tests, in a process of its own"]
fn child() {
    let root = env::var(ROOT).expect("run by the other tests");
    let workspace = recorded(Path::new(&root));
    let done = match env::var(TASK).unwrap().as_str() {
        "edit" => (|| {
            let begun = begin_now(&workspace)?;
            edit(begun.overlay())?;
            begun.commit(Purpose::default()).map_err(io::Error::other)?;
            Ok(())
        })(),
        "texts" => begin_now(&workspace).and_then(|begun| {
            recovery::write_texts(begun.overlay());
            begun.commit(Purpose::default()).map(drop).map_err(io::Error::other)
        }),
        "undo" => begin_now(&workspace).and_then(|begun| {
            let undone = History::new(Arc::clone(&workspace)).undo(begun, None);
            undone.map(drop).map_err(io::Error::other)
        }),
        "hold" => {
            begin_now(&workspace).and_then(|begun| held::more(begun).map_err(io::Error::other))
        }
        "accept" => begin_now(&workspace).and_then(|begun| held::accept_half(&workspace, begun)),
        "reject" => begin_now(&workspace).and_then(|begun| held::reject_all(&workspace, begun)),
        "recover" => begin_now(&workspace).map(|_| ()),
        "count" => {
            (0..100).for_each(|_| count(&workspace));
            Ok(())
        }
        task => panic!("unknown task {task}"),
    };
    let done: io::Result<()> = done;
    println!("steps={} result={:?}", faults::steps(), done.map_err(|error| error.to_string()));
}

/// Opens a workspace whose commits are recorded in a file beside it.
pub(super) fn recorded(root: &Path) -> Arc<Workspace> {
    let (workspace, file) = (open(root), records(root));
    workspace.record_commits(Box::new(move |commit, _| {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&file).unwrap();
        writeln!(file, "{}", commit.id).unwrap();
    }));
    workspace
}

fn records(root: &Path) -> PathBuf {
    root.with_extension("records")
}

fn command(root: &Path, task: &str, fault: Option<&str>) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "tests::child", "--ignored", "--nocapture"])
        .env(ROOT, root)
        .env(TASK, task)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null());
    if let Some(fault) = fault {
        command.env(faults::VARIABLE, fault);
    }
    command
}

fn spawn(root: &Path, task: &str, fault: Option<&str>) -> std::process::Child {
    command(root, task, fault).spawn().unwrap()
}

fn run(root: &Path, task: &str, fault: &str) -> Output {
    spawn(root, task, Some(fault)).wait_with_output().unwrap()
}

fn was_killed(output: &Output) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    output.status.signal() == Some(9)
}

fn leftovers(root: &Path) -> usize {
    fs::read_dir(root.join(OWN).join("staging")).map_or(0, |entries| entries.count())
}

#[test]
fn a_step_that_fails_leaves_all_as_it_was() {
    let wanted = after_edit();
    for errno in [rustix::io::Errno::NOSPC, rustix::io::Errno::ACCESS, rustix::io::Errno::IO] {
        let (mut failed, mut is_over) = (0, false);
        for step in 1.. {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path();
            populate(root);
            let before = tree_with_times(root);
            let output = run(root, "edit", &format!("{}:{step}", errno.raw_os_error()));
            let said = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{said}");
            if said.contains("result=Ok") {
                // Errors after the commit (in times or the history) do not revert it.
                assert_eq!(tree(root), wanted, "{errno} at step {step}: {said}");
                let steps = said.split("steps=").nth(1).unwrap();
                let steps: u64 = steps.split(' ').next().unwrap().parse().unwrap();
                is_over = steps < step;
            } else {
                assert_eq!(tree_with_times(root), before, "{errno} at step {step}: {said}");
                failed += 1;
            }
            begin(&open(root));
            assert_eq!(leftovers(root), 0);
            if is_over {
                break;
            }
        }
        assert!(failed > 20, "{errno} was met {failed} times");
    }
}

/// Increments the numbers in two files.
fn count(workspace: &Arc<Workspace>) {
    let (transaction, _) = begin(workspace);
    let tree = transaction.overlay();
    for place in ["one", "two"] {
        let number: u32 = read(tree, place).trim().parse().unwrap();
        write(tree, place, &format!("{}\n", number + 1));
    }
    transaction.commit(Purpose::default()).unwrap();
}

#[test]
fn two_processes_take_turns() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for name in ["one", "two"] {
        fs::write(root.join(name), "0\n").unwrap();
    }
    let children = [spawn(root, "count", None), spawn(root, "count", None)];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    for name in ["one", "two"] {
        assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "200\n");
    }
}

type Interference = (&'static str, fn(&Overlay), fn(&Path), bool);

/// What a transaction does first, a change by another process, and whether that is a conflict.
const INTERFERENCES: &[Interference] = &[
    (
        "written after it was read",
        |tree| drop(read(tree, "a.txt")),
        |root| fs::write(root.join("a.txt"), "theirs").unwrap(),
        true,
    ),
    (
        "the same length, at once",
        |tree| drop(read(tree, "a.txt")),
        |root| fs::write(root.join("a.txt"), "OLD a.txt\n").unwrap(),
        true,
    ),
    (
        "replaced by another file",
        |tree| drop(read(tree, "a.txt")),
        |root| {
            fs::write(root.join("x"), "theirs").unwrap();
            fs::rename(root.join("x"), root.join("a.txt")).unwrap();
        },
        true,
    ),
    (
        "removed",
        |tree| drop(read(tree, "a.txt")),
        |root| fs::remove_file(root.join("a.txt")).unwrap(),
        true,
    ),
    (
        "made where there was nothing",
        |tree| write(tree, "new", "ours"),
        |root| fs::write(root.join("new"), "theirs").unwrap(),
        true,
    ),
    (
        "its directory is gone",
        |tree| write(tree, "bin/new", "ours"),
        |root| fs::remove_dir_all(root.join("bin")).unwrap(),
        true,
    ),
    (
        "its directory is a link elsewhere",
        |tree| write(tree, "bin/new", "ours"),
        |root| {
            fs::rename(root.join("bin"), root.join("bin2")).unwrap();
            symlink("/tmp", root.join("bin")).unwrap();
        },
        true,
    ),
    (
        "something in a directory that was removed",
        |tree| {
            tree.remove_file("src/old/d.txt").unwrap();
            tree.remove_directory("src/old").unwrap();
        },
        |root| fs::write(root.join("src/old/theirs"), "theirs").unwrap(),
        true,
    ),
    (
        "another file",
        |tree| drop(read(tree, "a.txt")),
        |root| fs::write(root.join("b.txt"), "theirs").unwrap(),
        false,
    ),
    (
        "a file that was only read",
        |tree| drop(read(tree, "b.txt")),
        |root| fs::write(root.join("b.txt"), "theirs").unwrap(),
        false,
    ),
];

#[test]
fn changes_by_somebody_else_are_conflicts() {
    for (name, work, act, conflicts) in INTERFERENCES {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        populate(root);
        let workspace = open(root);
        let (transaction, _) = begin(&workspace);
        work(transaction.overlay());
        act(root);
        write(transaction.overlay(), "a.txt", "ours");
        let theirs = tree_with_times(root);
        let committed = transaction.commit(Purpose::default());
        if *conflicts {
            assert!(matches!(committed, Err(CommitError::Conflict(_))), "{name}: {committed:?}");
            assert_eq!(tree_with_times(root), theirs, "{name}");
        } else {
            committed.unwrap();
            assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), "ours", "{name}");
        }
        assert_eq!(leftovers(root), 0, "{name}");
    }
}

#[test]
fn an_undo_brings_everything_back() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    populate(root);
    let workspace = open(root);
    // Creating the host's own directory changes the time of the workspace.
    workspace.own().unwrap();
    let before = tree_with_times(root);
    let history = History::new(Arc::clone(&workspace));
    let (transaction, _) = begin(&workspace);
    edit(transaction.overlay()).unwrap();
    transaction.commit(Purpose::default()).unwrap().unwrap();
    let after = tree(root);
    assert_ne!(after, tree_with_times(root));

    let undo = |id: Option<&str>| history.undo(begin(&workspace).0, id);
    let (undone, commit) = undo(None).unwrap();
    assert_eq!(tree_with_times(root), before);
    // An undo is a commit, which can be undone as well.
    let commit = commit.unwrap();
    assert_eq!(commit.undoes, Some(undone.id.clone()));
    undo(Some(&commit.id)).unwrap();
    assert_eq!(tree(root), after);

    // Repeated undos go back step by step.
    let (transaction, _) = begin(&workspace);
    write(transaction.overlay(), "a.txt", "later");
    let later = transaction.commit(Purpose::default()).unwrap().unwrap();
    assert_eq!(undo(None).unwrap().0.id, later.id);
    assert_eq!(undo(None).unwrap().0.id, undone.id);
    assert_eq!(tree_with_times(root), before);
    let Err(HistoryError::NothingToUndo) = undo(None) else { panic!("nothing is left") };
    undo(Some(&undone.id)).unwrap_err();
    let (transaction, _) = begin(&workspace);
    edit(transaction.overlay()).unwrap();
    let undone = transaction.commit(Purpose::default()).unwrap().unwrap();

    // Changes since the commit are not overwritten.
    fs::write(root.join("a.txt"), "theirs").unwrap();
    fs::remove_file(root.join("link")).unwrap();
    fs::set_permissions(root.join("bin/run"), fs::Permissions::from_mode(0o700)).unwrap();
    let theirs = tree_with_times(root);
    let Err(HistoryError::Changed { paths, .. }) = undo(Some(&undone.id)) else { panic!("undone") };
    assert_eq!(paths, ["a.txt has other content", "bin/run has other permissions", "link is gone"]);
    assert_eq!(tree_with_times(root), theirs);
}

/// A directory becomes a link, a link and a file directories.
#[test]
fn directories_that_became_links_and_the_reverse_are_undone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    populate(root);
    let workspace = open(root);
    workspace.own().unwrap();
    let before = tree_with_times(root);
    let history = History::new(Arc::clone(&workspace));
    let (transaction, _) = begin(&workspace);
    let (overlay, quota) = (transaction.overlay(), Quota::unlimited());
    overlay.remove_file("src/old/d.txt").unwrap();
    overlay.remove_directory("src/old").unwrap();
    overlay.create_link("../bin", "src/old", &quota).unwrap();
    for path in ["link", "e.txt"] {
        overlay.remove_file(path).unwrap();
        overlay.create_directory(path, &quota).unwrap();
        write(overlay, &format!("{path}/inside"), "new");
    }
    let commit = transaction.commit(Purpose::default()).unwrap().unwrap();
    let after = tree(root);

    // The link leads to a directory with a file of the name of a removed one.
    fs::write(root.join("bin/d.txt"), "theirs").unwrap();
    fs::write(root.join("link/theirs"), "").unwrap();
    let changed = history.undo(begin(&workspace).0, None);
    let Err(HistoryError::Changed { paths, .. }) = changed else { panic!("{changed:?}") };
    assert_eq!(paths, ["link has other files in it"]);
    fs::remove_file(root.join("bin/d.txt")).unwrap();
    fs::remove_file(root.join("link/theirs")).unwrap();
    assert_eq!(tree(root), after);

    let (_, undo) = history.undo(begin(&workspace).0, None).unwrap();
    assert_eq!(tree(root), tree_of(&before));
    history.undo(begin(&workspace).0, Some(&undo.unwrap().id)).unwrap();
    assert_eq!(tree(root), after);
    history.undo(begin(&workspace).0, Some(&commit.id)).unwrap();
    assert_eq!(tree(root), tree_of(&before));
}

/// Returns the files without their modification times.
fn tree_of(tree: &Tree) -> Tree {
    let plain = |(name, (content, mode, _)): (&String, &(String, u32, String))| {
        (name.clone(), (content.clone(), *mode, String::new()))
    };
    tree.iter().map(plain).collect()
}

#[test]
fn a_commit_that_cannot_be_undone_does_not_block_those_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let workspace = open(root);
    let history = History::new(Arc::clone(&workspace));
    let commit = |path: &str, content: &str| {
        let (transaction, _) = begin(&workspace);
        write(transaction.overlay(), path, content);
        transaction.commit(Purpose::default()).unwrap().unwrap().id
    };
    let first = commit("a", "1");
    let second = commit("b", "1");
    let third = commit("b", "2");
    fs::write(root.join("b"), "theirs").unwrap();
    let undo = |id: Option<&str>| history.undo(begin(&workspace).0, id);
    let Err(error) = undo(None) else { panic!("undone") };
    let HistoryError::Changed { commit, earlier, .. } = &error else { panic!("{error}") };
    assert_eq!((commit.as_str(), earlier.as_deref()), (&*third, Some(&*second)));
    assert!(error.to_string().contains(&format!("the one before it is {second}")), "{error}");
    undo(Some(&first)).unwrap();
    assert!(!root.join("a").exists());
    fs::write(root.join("b"), "2").unwrap();

    // The old file of the latest commit is gone, so that this one is skipped.
    let images = root.join(OWN).join("images");
    for image in fs::read_dir(&images).unwrap() {
        let image = image.unwrap();
        if image.file_name().to_string_lossy().starts_with(&*third) {
            fs::remove_file(image.path()).unwrap();
        }
    }
    undo(Some(&third)).unwrap_err();
    let HistoryError::Changed { commit, .. } = undo(None).unwrap_err() else { panic!("undone") };
    assert_eq!(commit, *second);
    fs::write(root.join("b"), "1").unwrap();
    assert_eq!(undo(None).unwrap().0.id, second);
    assert!(!root.join("b").exists());
    // Nothing else is left, so the reason is returned.
    assert!(undo(None).unwrap_err().to_string().contains("is gone"));
}

#[test]
fn a_part_of_the_history_lists_and_undoes_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let workspace = open(root);
    let commit = |path: &str| {
        let (transaction, _) = begin(&workspace);
        write(transaction.overlay(), path, "x");
        transaction.commit(Purpose::default()).unwrap().unwrap().id
    };
    let (ours, theirs) = (commit("ours"), commit("theirs"));
    let part = || History::new(Arc::clone(&workspace)).only([ours.clone()]);
    let (page, count) = part().page(0, 10).unwrap();
    assert_eq!((page.len(), count), (1, 1));
    assert_eq!((&page[0].commit.id, &page[0].undone_by), (&ours, &None));
    for id in [&*theirs, "none", "../../x", "\0"] {
        let undone = part().undo(begin(&workspace).0, Some(id));
        assert!(matches!(undone, Err(HistoryError::Unknown(_))), "{id}: {undone:?}");
        assert!(matches!(part().diff(id), Err(HistoryError::Unknown(_))), "{id}");
    }
    assert_eq!(part().undo(begin(&workspace).0, None).unwrap().0.id, ours);
    assert!(!root.join("ours").exists() && root.join("theirs").exists());
    assert!(part().page(0, 10).unwrap().0[0].undone_by.is_some());
    assert!(matches!(part().undo(begin(&workspace).0, None), Err(HistoryError::NothingToUndo)));
    assert_eq!(part().page(1, 10).unwrap(), (Vec::new(), 1));

    // An undo is a commit of its own.
    let (transaction, _) = begin(&workspace);
    write(transaction.overlay(), "other", "x");
    let history = History::new(Arc::clone(&workspace));
    assert!(matches!(history.undo(transaction, None), Err(HistoryError::NotAlone)));
    // A savepoint restores that nothing is undone.
    let (transaction, _) = begin(&workspace);
    let savepoint = transaction.savepoint();
    history.stage_undo(transaction.overlay(), Some(&theirs), |_| Ok(())).unwrap();
    transaction.roll_back(savepoint);
    write(transaction.overlay(), "other", "x");
    assert_eq!(transaction.commit(Purpose::default()).unwrap().unwrap().undoes, None);
    assert!(root.join("theirs").exists());
}

#[test]
fn a_refactoring_of_two_thousand_files_is_one_commit() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for number in 0..2_000 {
        let folder = root.join(format!("package{}/module{}", number % 10, number % 50));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("file{number}.py"));
        fs::write(&file, format!("import old_name  # {number}\r\n")).unwrap();
        let mode = if number % 7 == 0 { 0o755 } else { 0o640 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let workspace = open(root);
    workspace.own().unwrap();
    let before = tree_with_times(root);
    let (transaction, _) = begin(&workspace);
    let overlay = transaction.overlay();
    for (place, (content, _, _)) in &before {
        if place.ends_with(".py") {
            write(overlay, place, &content.replace("old_name", "new_name"));
        }
    }
    for number in 0..10 {
        let quota = Quota::unlimited();
        let (from, to) = (format!("package{number}"), format!("renamed{number}"));
        overlay.rename(&from, &to, &|_| Ok(()), &quota).unwrap();
    }
    let commit = transaction.commit(Purpose::default()).unwrap().unwrap();
    let after = tree(root);
    assert_eq!(after.len(), before.len());
    assert!(after.iter().all(|(place, (content, mode, _))| {
        let old = &before[&place.replace("renamed", "package")];
        content.replace("new_name", "old_name") == old.0 && *mode == old.1
    }));
    let history = History::new(Arc::clone(&workspace));
    history.undo(begin(&workspace).0, Some(&commit.id)).unwrap();
    assert_eq!(tree_with_times(root), before);
}

#[test]
fn old_commits_are_dropped() {
    use cofferdam_core::policy::Retention;
    let directory = tempfile::tempdir().unwrap();
    let workspace = open(directory.path());
    for number in 0..5 {
        let (transaction, _) = begin(&workspace);
        write(transaction.overlay(), "file", &number.to_string().repeat(1000));
        transaction.commit(Purpose::default()).unwrap();
    }
    let history = History::new(Arc::clone(&workspace));
    let ids = |history: &History| {
        let list = history.list(10).unwrap();
        list.into_iter().map(|commit| commit.id.to_string()).collect::<Vec<_>>()
    };
    let all = ids(&history);
    assert_eq!(all.len(), 5);
    history.prune(&Retention::DEFAULT).unwrap();
    assert_eq!(ids(&history), all);
    history.prune(&Retention { commits: 3, ..Retention::DEFAULT }).unwrap();
    assert_eq!(ids(&history), all[2..]);
    // Each commit has two images of 1,000 bytes.
    history.prune(&Retention { bytes: 4_000, ..Retention::DEFAULT }).unwrap();
    assert_eq!(ids(&history), all[3..]);
    let images = || fs::read_dir(directory.path().join(OWN).join("images")).unwrap().count();
    // The first commit, which had no old file, was removed.
    assert_eq!(images(), 2);
    // A damaged commit is removed with its images, too.
    let mut manifests = fs::read_dir(directory.path().join(OWN).join("history")).unwrap();
    fs::write(manifests.next().unwrap().unwrap().path(), "damaged").unwrap();
    history.prune(&Retention { commits: 0, ..Retention::DEFAULT }).unwrap();
    assert_eq!(ids(&history), [""; 0]);
    assert_eq!(images(), 0);
}

#[test]
fn a_cache_stays() {
    use cofferdam_core::policy::Retention;
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let workspace = open(&root);
    for name in ["", "..", ".", "A", "a/b", "a b", "a.b", "\u{e9}"] {
        workspace.cache_directory(name).unwrap_err();
    }
    let cache = workspace.cache_directory("native-linters_2").unwrap();
    assert_eq!(cache, root.join(".cofferdam/cache/native-linters_2"));
    assert_eq!(fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    fs::write(cache.join("kept"), "").unwrap();
    assert_eq!(workspace.cache_directory("native-linters_2").unwrap(), cache);

    let (transaction, _) = begin(&workspace);
    write(transaction.overlay(), "file", "new");
    transaction.commit(Purpose::default()).unwrap();
    let history = History::new(Arc::clone(&workspace));
    history.undo(begin(&workspace).0, None).unwrap();
    history.prune(&Retention { commits: 0, ..Retention::DEFAULT }).unwrap();
    begin(&workspace);
    assert!(cache.join("kept").exists());

    fs::remove_dir_all(root.join(".cofferdam/cache")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), root.join(".cofferdam/cache")).unwrap();
    workspace.cache_directory("native-linters_2").unwrap();
    assert!(fs::symlink_metadata(root.join(".cofferdam/cache")).unwrap().is_dir());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

/// The diff of a commit shows each kind of change, even after the file has changed again, and an undo
/// detects that change.
#[test]
fn what_a_commit_placed_is_known_afterwards() {
    let lines = |from: usize, to: usize| (from..to).map(|n| format!("line {n}\n")).collect();
    let large: String = lines(0, 40_000);
    let edited = |at: usize, until: usize, text: &str| {
        let mut edited = large.clone();
        edited.replace_range(at..until, text);
        edited
    };
    let middle = large.len() / 2;
    for (what, before, after, copies) in [
        ("small", "old\n", "new\n".to_owned(), 0),
        ("one word", &large, edited(middle, middle + 3, "other"), 0),
        ("longer at the start", &large, edited(0, 0, "first\n"), 0),
        ("shorter at the end", &large, edited(large.len() - 9, large.len(), ""), 0),
        ("the same twice", &large, edited(0, 0, "line 0\n"), 0),
        ("a character that shares a byte", &edited(50, 50, "\u{e9}"), edited(50, 50, "\u{e8}"), 1),
        ("two places", &large, edited(0, 1, "L").replace("line 39999", "last"), 1),
        ("much", &large, edited(middle, middle, &lines(0, 1_000)), 1),
        ("all of it", &large, lines(40_000, 80_000), 1),
        ("nothing left", &large, String::new(), 0),
        ("large from nothing", "", large.clone(), 1),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("file"), before).unwrap();
        let workspace = open(root);
        let (transaction, _) = begin(&workspace);
        write(transaction.overlay(), "file", &after);
        let proposed = transaction.diff().unwrap();
        let commit = transaction.commit(Purpose::default()).unwrap().unwrap();
        let copied = fs::read_dir(root.join(OWN).join("images")).unwrap().count() - 1;
        assert_eq!(copied, copies, "{what}");

        let history = History::new(Arc::clone(&workspace));
        fs::write(root.join("file"), "theirs").unwrap();
        let shown = history.diff(&commit.id).unwrap();
        assert!(!shown.is_empty() && shown == proposed, "{what}");
        history.undo(begin(&workspace).0, None).unwrap_err();
        let mut almost = after.clone();
        almost.push('\n');
        fs::write(root.join("file"), almost).unwrap();
        history.undo(begin(&workspace).0, None).unwrap_err();
        fs::write(root.join("file"), &after).unwrap();
        history.undo(begin(&workspace).0, None).unwrap();
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), before, "{what}");
    }
}

#[test]
fn the_diff_of_several_commits_is_from_before_the_first_to_after_the_last() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let lines = |first: &str, last: &str| format!("{first}\n{}{last}\n", "line\n".repeat(2_000));
    fs::write(root.join("a"), lines("first", "last")).unwrap();
    fs::write(root.join("b"), "b\n").unwrap();
    let workspace = open(root);
    let commit = |files: &[(&str, &str)]| {
        let (transaction, _) = begin(&workspace);
        files.iter().for_each(|(path, text)| write(transaction.overlay(), path, text));
        transaction.commit(Purpose::default()).unwrap().unwrap().id
    };
    let earlier = commit(&[("earlier", "x\n")]);
    // Kept as edits of the file before.
    let one = commit(&[("a", &lines("first", "1")), ("new", &lines("new", "1")), ("gone", "x\n")]);
    let two = commit(&[("a", &lines("2", "1")), ("new", &lines("new", "2")), ("b", "2\n")]);
    // Another program.
    fs::write(root.join("a"), lines("theirs", "1")).unwrap();
    let (transaction, _) = begin(&workspace);
    write(transaction.overlay(), "a", &lines("theirs", "3"));
    write(transaction.overlay(), "b", "b\n");
    transaction.overlay().remove_file("gone").unwrap();
    let three = transaction.commit(Purpose::default()).unwrap().unwrap().id;
    commit(&[("later", "x\n")]);

    let history = History::new(Arc::clone(&workspace));
    let range = history.diff_range(&one, &three).unwrap();
    assert_eq!((range.commits, &range.first.id, &range.last.id), (3, &one, &three));
    assert!(range.unreadable.is_empty(), "{range:?}");
    let diff = String::from_utf8(range.diff.clone()).unwrap();
    let changed = |diff: &str| -> Vec<String> {
        let marked = |line: &&str| line.starts_with(['+', '-']) && !line.contains("+line");
        diff.lines().filter(marked).map(str::to_owned).collect()
    };
    let wanted = [
        "--- a/a",
        "+++ b/a",
        "-first",
        "+theirs",
        "-last",
        "+3",
        "--- /dev/null",
        "+++ b/new",
        "+new",
        "+2",
    ];
    assert_eq!(changed(&diff), wanted);
    assert_eq!(history.diff_range(&three, &one).unwrap(), range);
    assert_eq!(history.diff_range(&one, &one).unwrap().diff, history.diff(&one).unwrap());
    assert_eq!(history.diff_range(&earlier, "").unwrap().commits, 5);
    assert!(matches!(history.diff_range("none", &one), Err(HistoryError::Unknown(_))));
    assert!(matches!(history.diff_range(&one, "none"), Err(HistoryError::Unknown(_))));
    let part = History::new(Arc::clone(&workspace)).only([one.clone(), three.clone()]);
    assert_eq!(part.diff_range(&one, &three).unwrap().commits, 2);
    assert!(part.diff_range(&one, &two).is_err());
    // A file that is not what was kept is named, and the others are shown.
    let old = root.join(OWN).join("images").join(format!("{one}.1"));
    assert!(fs::read_to_string(&old).unwrap().starts_with("first"));
    fs::write(&old, "planted").unwrap();
    let range = history.diff_range(&one, &three).unwrap();
    assert_eq!(range.unreadable, ["a"]);
    assert_eq!(changed(&String::from_utf8(range.diff).unwrap()), wanted[6..]);
}

#[test]
fn renames_are_shown_as_renames() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    for (path, content) in
        [("one/a b", "same\n"), ("one/x", "same\n"), ("void", ""), ("one/empty", "")]
    {
        fs::create_dir_all(root.join("one")).unwrap();
        fs::write(root.join(path), content).unwrap();
    }
    symlink("a b", root.join("link")).unwrap();
    let workspace = open(root);
    let (transaction, _) = begin(&workspace);
    let (overlay, quota) = (transaction.overlay(), Quota::unlimited());
    overlay.rename("one", "two", &|_| Ok(()), &quota).unwrap();
    overlay.rename("link", "moved", &|_| Ok(()), &quota).unwrap();
    overlay.rename("void", "other", &|_| Ok(()), &quota).unwrap();
    overlay.set_executable("two/x", true, &quota).unwrap();
    write(overlay, "new", "same size\n");
    let wanted = "diff --git a/link b/moved\nsimilarity index 100%\nrename from link\nrename to moved\n\
        diff --git a/new b/new\nnew file mode 100644\nindex 0000000..d99284d\n\
        --- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+same size\n\
        diff --git a/other b/other\nnew file mode 100644\nindex 0000000..e69de29\n\
        diff --git a/one/a b b/two/a b\nsimilarity index 100%\nrename from one/a b\n\
        rename to two/a b\n\
        diff --git a/one/empty b/two/empty\nsimilarity index 100%\nrename from one/empty\n\
        rename to two/empty\n\
        diff --git a/one/x b/two/x\nold mode 100644\nnew mode 100755\nsimilarity index 100%\n\
        rename from one/x\nrename to two/x\n\
        diff --git a/void b/void\ndeleted file mode 100644\nindex e69de29..0000000\n";
    let shown = String::from_utf8(transaction.diff().unwrap()).unwrap();
    assert_eq!(shown.replace(&index_of(&shown, "new"), "0000000..d99284d"), wanted);
    let commit = transaction.commit(Purpose::default()).unwrap().unwrap();
    let kept = History::new(workspace).diff(&commit.id).unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), shown);
}

/// Git itself finds the same renames, and applies the diff.
#[test]
fn changed_files_are_renamed_where_git_says_so() {
    let text = |lines: std::ops::Range<u32>| -> String {
        lines.map(|line| format!("this is the line with the number {line}\n")).collect()
    };
    let files = [
        ("changed", text(0..20)),
        ("half", text(100..120)),
        ("other", text(200..220)),
        ("twice/name", text(300..340)),
        ("unrelated", text(400..420)),
        ("short", "x\n".to_owned()),
    ];
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let git = |args: &[&str]| {
        let git = Command::new("git").current_dir(root).args(args).output().unwrap();
        assert!(git.status.success(), "{args:?}: {git:?}");
        String::from_utf8(git.stdout).unwrap()
    };
    for (path, content) in &files {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), content).unwrap();
    }
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    let before = git(&["write-tree"]);
    let workspace = open(root);
    let (transaction, _) = begin(&workspace);
    let overlay = transaction.overlay();
    for (path, _) in &files {
        overlay.remove_file(path).unwrap();
    }
    write(overlay, "new", &(text(0..19) + "one more\n"));
    write(overlay, "a b", &(text(100..112) + &text(500..508)));
    write(overlay, "less than half", &(text(200..208) + &text(600..612)));
    write(overlay, "elsewhere", &(text(300..338) + "end\n"));
    overlay.create_directory("else", &Quota::unlimited()).unwrap();
    write(overlay, "else/name", &(text(300..338) + "end\n"));
    write(overlay, "tiny", "y\n");
    let shown = String::from_utf8(transaction.diff().unwrap()).unwrap();
    let commit = transaction.commit(Purpose::default()).unwrap().unwrap();
    let kept = History::new(Arc::clone(&workspace)).diff(&commit.id).unwrap();
    assert_eq!(String::from_utf8(kept).unwrap(), shown);

    git(&["add", "--all", ":!.cofferdam"]);
    let after = git(&["write-tree"]);
    let found = |diff: &str| -> BTreeSet<String> {
        let is_name = |line: &&str| line.starts_with("rename ");
        diff.lines().filter(is_name).map(str::to_owned).collect()
    };
    let wanted = git(&["diff", "--find-renames", before.trim(), after.trim()]);
    assert_eq!(found(&shown), found(&wanted), "{shown}\n{wanted}");
    assert_eq!(found(&shown).len(), 6);
    git(&["read-tree", "--reset", "-u", before.trim()]);
    fs::write(root.join(".git/diff"), &shown).unwrap();
    git(&["apply", "--index", ".git/diff"]);
    assert_eq!(git(&["write-tree"]), after);
}

/// Returns the blobs of a new file in a diff.
fn index_of(diff: &str, path: &str) -> String {
    let header = format!("b/{path}\nnew file mode 100644\nindex ");
    diff.split(&header).nth(1).unwrap().lines().next().unwrap().to_owned()
}

/// The diff of a commit shows the target of a link, even if the link has changed since.
#[test]
fn a_link_is_known_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = open(directory.path());
    let (transaction, _) = begin(&workspace);
    transaction.overlay().create_link("target", "link", &Quota::unlimited()).unwrap();
    let commit = transaction.commit(Purpose::default()).unwrap().unwrap();
    fs::remove_file(directory.path().join("link")).unwrap();
    let history = History::new(Arc::clone(&workspace));
    let diff = String::from_utf8(history.diff(&commit.id).unwrap()).unwrap();
    assert!(diff.contains("+target"), "{diff}");
    symlink("elsewhere", directory.path().join("link")).unwrap();
    history.undo(begin(&workspace).0, None).unwrap_err();
    fs::remove_file(directory.path().join("link")).unwrap();
    symlink("target", directory.path().join("link")).unwrap();
    history.undo(begin(&workspace).0, None).unwrap();
    assert!(!directory.path().join("link").is_symlink());
}

/// A path is held if a tool could redirect it.
#[test]
fn what_leads_through_a_workspace_is_held() {
    let place = tempfile::tempdir().unwrap();
    let (inside, outside) = (place.path().join("inside"), place.path().join("outside"));
    for directory in [&inside, &outside] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("file"), "").unwrap();
    }
    symlink(&outside, inside.join("out")).unwrap();
    symlink(inside.join("file"), outside.join("in")).unwrap();
    symlink(&inside, outside.join("all")).unwrap();
    symlink(inside.join("missing"), outside.join("later")).unwrap();
    symlink(outside.join("loop"), outside.join("loop")).unwrap();
    let workspace = Workspace::open(&inside, Secret::OfProcess).unwrap();
    for path in ["inside", "inside/file", "inside/missing", "inside/out/file", "outside/in"] {
        assert!(workspace.holds(&place.path().join(path)), "{path}");
    }
    for path in ["outside/all", "outside/all/missing", "outside/all/out/file"] {
        assert!(workspace.holds(&place.path().join(path)), "{path}");
    }
    for path in ["outside/later", "outside/loop", "outside/loop/file"] {
        assert!(workspace.holds(&place.path().join(path)), "{path}");
    }
    assert!(workspace.holds(Path::new("")));
    for path in ["outside", "outside/file", "outside/missing", "outside/file/x", "inside.txt"] {
        assert!(!workspace.holds(&place.path().join(path)), "{path}");
    }
}
