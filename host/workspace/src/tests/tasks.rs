//! Tasks: their ends, what is kept of those whose process was killed, and how many there are.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::layout::TASKS;
use crate::tasks::{KeptTask, MAX_TASKS, RunningTask, TASK_TTL, TaskEnd, TaskId, TaskRecord};

fn record() -> TaskRecord {
    let (tool, session) = ("shell.bash".to_owned(), "session".to_owned());
    TaskRecord { tool, role: Some("coder".to_owned()), session, created: Timestamp::now() }
}

fn begin_task(workspace: &Workspace) -> RunningTask {
    workspace.begin_task(record()).unwrap().unwrap()
}

fn end(content: Value) -> TaskEnd {
    TaskEnd { ended: Timestamp::now(), content }
}

fn kept(workspace: &Workspace, id: &TaskId) -> Option<KeptTask> {
    workspace.kept_task(id).unwrap()
}

/// Makes a file look as if it was written so many seconds ago.
fn age(file: &Path, seconds: u64) {
    let modified = std::time::SystemTime::now() - Duration::from_secs(seconds);
    fs::File::options().write(true).open(file).unwrap().set_modified(modified).unwrap();
}

#[test]
fn the_end_of_a_task_is_kept_for_other_processes() {
    let root = tempfile::tempdir().unwrap();
    let (working, other) = (open(root.path()), open(root.path()));
    let task = begin_task(&working);
    let id = task.id().clone();
    assert_eq!(id.to_string().parse(), Ok(id.clone()));
    // While it runs, nobody else has it or takes it over.
    assert_eq!(kept(&other, &id), None);
    assert!(other.resume_task(&id).unwrap().is_none());
    let ended = end(json!({"answer": 1}));
    task.end(ended.clone()).unwrap();
    let found = kept(&other, &id).unwrap();
    assert_eq!((&found.task, &found.end, &found.waits), (task.record(), &Some(ended), &None));
    drop(task);
    assert!(other.resume_task(&id).unwrap().is_none());
    let discarded = begin_task(&working);
    discarded.discard();
    let id = discarded.id().clone();
    drop(discarded);
    assert_eq!(kept(&other, &id), None);
    assert_eq!(kept(&other, &"0".repeat(32).parse().unwrap()), None);
}

/// A program that is being started has copies of all descriptors for a moment.
#[test]
fn a_task_is_unlocked_while_programs_are_started() {
    let root = tempfile::tempdir().unwrap();
    let (working, other) = (open(root.path()), open(root.path()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    assert!(Command::new("true").status().unwrap().success());
                }
            });
        }
        let lost = (0..200).filter(|number| {
            let task = begin_task(&working);
            let id = task.id().clone();
            task.end(end(json!(number))).unwrap();
            kept(&other, &id).is_none()
        });
        let lost = lost.count();
        assert_eq!(lost, 0);
    });
}

#[test]
fn a_task_whose_process_was_killed_goes_on_once() {
    let root = tempfile::tempdir().unwrap();
    let (working, other) = (open(root.path()), open(root.path()));
    let task = begin_task(&working);
    let id = task.id().clone();
    task.wait(Some(json!("state"))).unwrap();
    assert_eq!(kept(&other, &id), None);
    drop(task);
    let found = kept(&other, &id).unwrap();
    assert_eq!((found.end, found.waits), (None, Some(json!("state"))));
    let resumed = other.resume_task(&id).unwrap().unwrap();
    assert!(working.resume_task(&id).unwrap().is_none());
    assert_eq!(kept(&working, &id), None);
    resumed.wait(None).unwrap();
    // It stays locked, though its file is another one.
    assert!(working.resume_task(&id).unwrap().is_none());
    drop(resumed);
    let found = kept(&working, &id).unwrap();
    assert_eq!((found.end, found.waits), (None, None));
}

#[test]
fn what_others_have_written_is_no_task() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let [one, two] = [1, 2].map(|number| {
        let task = begin_task(&workspace);
        task.end(end(json!(number))).unwrap();
        task.id().clone()
    });
    let directory = root.path().join(OWN).join(TASKS);
    let file = |id: &TaskId| directory.join(id.to_string());
    let content = fs::read(file(&one)).unwrap();
    fs::write(file(&two), &content).unwrap();
    assert_eq!(kept(&workspace, &two), None);
    for length in 0..content.len() {
        fs::write(file(&one), &content[..length]).unwrap();
        assert_eq!(kept(&workspace, &one), None);
    }
    fs::write(file(&one), &content).unwrap();
    assert!(kept(&workspace, &one).is_some());
    fs::remove_file(file(&two)).unwrap();
    symlink("/etc/passwd", file(&two)).unwrap();
    assert!(workspace.kept_task(&two).is_err());
    for text in ["", "a", "../owner", "new.0", &"0".repeat(31), &"A".repeat(32), &"é".repeat(16)] {
        assert!(text.parse::<TaskId>().is_err(), "{text}");
    }
}

#[test]
fn tasks_are_bounded_and_kept_for_their_time() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let ended = || {
        let task = begin_task(&workspace);
        task.end(end(json!("x"))).unwrap();
        task.id().clone()
    };
    let directory = root.path().join(OWN).join(TASKS);
    let file = |id: &TaskId| directory.join(id.to_string());
    let (old, young, lost, ancient) =
        (ended(), ended(), begin_task(&workspace), begin_task(&workspace));
    let running = begin_task(&workspace);
    let [lost, ancient] = [lost, ancient].map(|task| task.id().clone());
    fs::write(directory.join("new.x"), "").unwrap();
    let ttl = TASK_TTL.as_secs();
    for (file, seconds) in [
        (file(&old), ttl + 60),
        (file(&young), ttl - 60),
        (file(&lost), ttl + 60),
        (file(&ancient), 24 * ttl + 60),
        (file(running.id()), 24 * ttl + 60),
        (directory.join("new.x"), ttl + 60),
    ] {
        age(&file, seconds);
    }
    let newest = begin_task(&workspace);
    assert_eq!(kept(&workspace, &old), None);
    assert_eq!(kept(&workspace, &ancient), None);
    let until = |id: &TaskId| kept(&workspace, id).unwrap().until;
    let left = |id: &TaskId| until(id).duration_since(Timestamp::now()).as_secs();
    assert!((-3600..-3500).contains(&left(&young)) && left(&lost).abs() < 10);
    assert!(file(running.id()).exists() && !directory.join("new.x").exists());
    let count = fs::read_dir(&directory).unwrap().count();
    for number in count..MAX_TASKS {
        fs::write(directory.join(format!("{number:032x}")), "x").unwrap();
    }
    assert!(workspace.begin_task(record()).unwrap().is_none());
    newest.discard();
    let large = begin_task(&workspace);
    assert!(large.end(end(json!("x".repeat(17 << 20)))).is_err());
    large.end(end(json!("x".repeat(15 << 20)))).unwrap();
    large.discard();
    let filled = fs::File::create(directory.join("0".repeat(32))).unwrap();
    filled.set_len(64 << 20).unwrap();
    assert!(workspace.begin_task(record()).unwrap().is_none());
}
