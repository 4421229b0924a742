//! Calls that wait for an answer: what they have staged is kept, and staged again.

use super::*;
use crate::disk;
use crate::layout::PAUSED;
use crate::own;
use crate::paused::PausedId;

fn paused(workspace: &Arc<Workspace>, edit: impl Fn(&Overlay)) -> PausedId {
    let (transaction, _) = begin(workspace);
    edit(transaction.overlay());
    transaction.pause(b"state".to_vec()).unwrap()
}

fn count(workspace: &Arc<Workspace>) -> usize {
    let all = own::directory(&*workspace.own().unwrap(), PAUSED).unwrap();
    disk::entries(&all).unwrap().count()
}

#[test]
fn what_was_staged_is_staged_again_once() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "old\n").unwrap();
    fs::write(root.path().join("gone"), "old\n").unwrap();
    let before = tree_with_times(root.path());
    let workspace = open(root.path());
    let id = paused(&workspace, |tree| {
        write(tree, "a", "new\n");
        tree.create_directory("sub", &Quota::unlimited()).unwrap();
        write(tree, "sub/b", "b\n");
        tree.create_link("a", "link", &Quota::unlimited()).unwrap();
        tree.remove_file("gone").unwrap();
    });
    assert_eq!(tree_with_times(root.path()), before);
    // Another process continues.
    let workspace = open(root.path());
    assert_eq!(workspace.paused(&id).unwrap().as_deref(), Some(&b"state"[..]));
    let (transaction, _) = begin(&workspace);
    assert!(transaction.resume(&id).unwrap());
    assert_eq!(read(transaction.overlay(), "sub/b"), "b\n");
    write(transaction.overlay(), "a", "newer\n");
    transaction.commit(Purpose::default()).unwrap();
    assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "newer\n");
    assert_eq!(fs::read_to_string(root.path().join("link")).unwrap(), "newer\n");
    assert!(!root.path().join("gone").exists());
    assert_eq!((workspace.paused(&id).unwrap(), count(&workspace)), (None, 0));
    let (transaction, _) = begin(&workspace);
    assert!(!transaction.resume(&id).unwrap());
}

#[test]
fn a_call_without_changes_is_paused_as_well_and_can_be_discarded() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let id = paused(&workspace, |_| {});
    let (transaction, _) = begin(&workspace);
    assert!(transaction.resume(&id).unwrap());
    drop(transaction);
    let id = paused(&workspace, |tree| write(tree, "a", "a"));
    workspace.discard_paused(&id).unwrap();
    workspace.discard_paused(&id).unwrap();
    assert_eq!((workspace.paused(&id).unwrap(), count(&workspace)), (None, 0));
}

#[test]
fn only_states_of_this_workspace_are_believed() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let [one, other] = [(); 2].map(|()| paused(&workspace, |_| {}));
    let file = |id: &PausedId| root.path().join(format!(".cofferdam/paused/{id}/state"));
    fs::copy(file(&one), file(&other)).unwrap();
    assert!(workspace.paused(&one).unwrap().is_some());
    assert_eq!(workspace.paused(&other).unwrap(), None);
    fs::write(file(&one), "short").unwrap();
    assert_eq!(workspace.paused(&one).unwrap(), None);
    fs::remove_file(file(&one)).unwrap();
    assert!(workspace.paused(&one).is_err());
    fs::create_dir(file(&one)).unwrap();
    assert_eq!(workspace.paused(&one).unwrap(), None);
}

#[test]
fn the_oldest_are_removed() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let ids: Vec<PausedId> = (0..34).map(|_| paused(&workspace, |_| {})).collect();
    assert_eq!(count(&workspace), 32);
    assert!(workspace.paused(&ids[33]).unwrap().is_some());
    let unfinished = root.path().join(".cofferdam/paused/new.x/changes");
    fs::create_dir_all(&unfinished).unwrap();
    set_shift(25 * 60 * 60);
    assert_eq!(workspace.paused(&ids[33]).unwrap(), None);
    paused(&workspace, |_| {});
    assert_eq!(count(&workspace), 1);
}
