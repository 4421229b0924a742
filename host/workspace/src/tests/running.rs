//! Calls under way that other processes see and cancel, and files that no process of this user wrote.

use jiff::Timestamp;

use super::*;
use crate::layout::CALLS;
use crate::running::{CallProgress, RunningCall};

fn call(tool: &str) -> RunningCall {
    RunningCall {
        tool: tool.to_owned(),
        session: "task".to_owned(),
        client: None,
        role: None,
        since: Timestamp::now(),
        has_started: true,
        progress: None,
    }
}

fn id(number: u64) -> String {
    uuid::Uuid::from_u128(number.into()).to_string()
}

#[test]
fn a_call_is_seen_and_cancelled_by_another_process() {
    let root = tempfile::tempdir().unwrap();
    let (making, watching) = (open(root.path()), open(root.path()));
    // Nothing is created for it.
    assert!(making.show_call(&id(1), &call("a")).unwrap().is_none());
    assert!(watching.running_calls().unwrap().is_empty());
    assert!(!root.path().join(OWN).exists());
    making.own().unwrap();
    let mut one = making.show_call(&id(1), &call("a")).unwrap().unwrap();
    let two = making.show_call(&id(2), &call("b")).unwrap().unwrap();
    let shown = watching.running_calls().unwrap();
    assert_eq!(
        shown.iter().map(|(id, call)| (id.clone(), call.tool.as_str())).collect::<Vec<_>>(),
        [(id(1), "a"), (id(2), "b")]
    );
    let progress = CallProgress { done: 1, total: Some(3), message: "one".to_owned() };
    let later = RunningCall { progress: Some(progress), ..shown[0].1.clone() };
    one.replace(&later).unwrap();
    assert_eq!(watching.running_calls().unwrap()[0].1, later);
    assert!(watching.cancel_call(&id(1), "a test").unwrap());
    assert!(watching.cancel_call(&id(1), "a test").unwrap());
    assert_eq!(one.cancelled_by().unwrap().as_deref(), Some("a test"));
    assert_eq!(two.cancelled_by().unwrap(), None);
    drop((one, two));
    assert!(watching.running_calls().unwrap().is_empty());
    assert!(!watching.cancel_call(&id(1), "a test").unwrap());
    assert_eq!(fs::read_dir(root.path().join(OWN).join(CALLS)).unwrap().count(), 0);
    let long = RunningCall { session: "x".repeat(70_000), ..call("a") };
    assert!(making.show_call(&id(1), &long).is_err());
}

#[test]
fn calls_and_cancellations_of_others_do_not_count() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    workspace.own().unwrap();
    let [one, two] =
        [1, 2].map(|number| workspace.show_call(&id(number), &call("a")).unwrap().unwrap());
    let directory = root.path().join(OWN).join(CALLS);
    // Written by a tool, and copied from another call.
    fs::write(directory.join(format!("{}.cancel", id(1))), "{\"by\": \"me\"}").unwrap();
    assert_eq!(one.cancelled_by().unwrap(), None);
    assert!(workspace.cancel_call(&id(2), "a test").unwrap());
    fs::copy(
        directory.join(format!("{}.cancel", id(2))),
        directory.join(format!("{}.cancel", id(1))),
    )
    .unwrap();
    assert_eq!(one.cancelled_by().unwrap(), None);
    assert!(two.cancelled_by().unwrap().is_some());
    // What no process makes is removed, also if it was authentic once, with everything that is no call.
    fs::copy(directory.join(id(1)), directory.join(id(3))).unwrap();
    fs::create_dir(directory.join(id(4))).unwrap();
    symlink("/etc/passwd", directory.join(id(5))).unwrap();
    fs::write(directory.join(format!("{}.cancel", id(6))), "x").unwrap();
    assert_eq!(workspace.running_calls().unwrap().len(), 2);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 4);
    for other in [id(3), "../lock".to_owned(), String::new()] {
        assert!(!workspace.cancel_call(&other, "a test").unwrap(), "{other}");
    }
    // A file that another program holds a lock on is not authentic either.
    fs::write(directory.join(id(7)), "{}").unwrap();
    let planted = fs::File::open(directory.join(id(7))).unwrap();
    rustix::fs::flock(&planted, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(workspace.running_calls().unwrap().len(), 2);
}
