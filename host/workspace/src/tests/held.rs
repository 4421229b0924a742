//! Changes that are held: later calls of their session see them, and a user accepts or rejects them by
//! hunk.

use super::*;
use crate::diff::tests::Random;
use crate::disk;
use crate::proposals::Proposals;

fn session(name: &str) -> SessionName {
    name.parse().unwrap()
}

fn author(name: &str) -> Author {
    Author { session: session(name), tools: vec!["edit.edit".to_owned()], ..Author::default() }
}

/// Begins a transaction that sees what is held for a session.
fn begin_in(workspace: &Arc<Workspace>, name: &str) -> Transaction {
    let (mut transaction, _) = begin(workspace);
    transaction.stack(&session(name)).unwrap();
    transaction
}

fn hold(transaction: Transaction, name: &str) -> Option<HeldChanges> {
    transaction.hold(vec!["call".to_owned()], author(name)).unwrap()
}

fn held(workspace: &Arc<Workspace>, name: &str, edit: impl Fn(&Overlay)) -> HeldChanges {
    let transaction = begin_in(workspace, name);
    edit(transaction.overlay());
    hold(transaction, name).unwrap()
}

fn text(tree: &Overlay, place: &str) -> String {
    let mut text = String::new();
    tree.open_read(place).unwrap().0.read_to_string(&mut text).unwrap();
    text
}

fn decide(workspace: &Arc<Workspace>, decision: &Decision) -> Result<Decided, ReviewError> {
    Reviews::new(Arc::clone(workspace)).decide(begin(workspace).0, decision)
}

fn show(workspace: &Arc<Workspace>) -> Review {
    let reviews = Reviews::new(Arc::clone(workspace));
    let listed = reviews.list().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    reviews.show(&listed[0].id).unwrap()
}

fn of_all(review: &Review, verdict: Verdict) -> Decision {
    Decision {
        proposal: review.proposal.id.to_string(),
        view: Some(review.view.clone()),
        chosen: None,
        verdict,
        comment: None,
        reviewer: "ada".to_owned(),
    }
}

fn of_hunks<'a>(
    review: &Review,
    verdict: Verdict,
    hunks: impl IntoIterator<Item = &'a str>,
) -> Decision {
    let chosen = |id: &str| Chosen { id: id.to_owned(), verdict, edited: None };
    let chosen = Some(hunks.into_iter().map(chosen).collect());
    Decision { view: None, chosen, ..of_all(review, verdict) }
}

fn hunks(review: &Review) -> Vec<&str> {
    review.files.iter().flat_map(|file| &file.hunks).map(|hunk| hunk.id.as_str()).collect()
}

/// How many files are kept of proposals. A process that another test starts at the same time may hold
/// copies of locks, and nothing is removed then.
fn kept_files(workspace: &Arc<Workspace>) -> usize {
    let proposals = Proposals::open(workspace.own().unwrap()).unwrap();
    let count = || {
        proposals.tidy().unwrap();
        disk::entries(&*proposals.directory).unwrap().count()
    };
    for _ in 0..1000 {
        if count() == 0 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    count()
}

/// Numbered lines, of which some are replaced.
fn lines(count: usize, changed: &[(usize, &str)]) -> String {
    let line = |number| match changed.iter().find(|(at, _)| *at == number) {
        Some((_, text)) => format!("{text}\n"),
        None => format!("line {number}\n"),
    };
    (1..=count).map(line).collect()
}

fn without_times(tree: Tree) -> Vec<(String, String, u32)> {
    tree.into_iter().map(|(name, (content, mode, _))| (name, content, mode)).collect()
}

fn assert_read_only(tree: &Overlay) {
    let readonly = Some(rustix::io::Errno::ROFS.raw_os_error());
    let written = tree.open_write("a", REPLACE, &Quota::unlimited());
    assert_eq!(written.unwrap_err().raw_os_error(), readonly);
    assert_eq!(tree.remove_file("a").unwrap_err().raw_os_error(), readonly);
}

#[test]
fn later_calls_of_the_session_see_what_is_held() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "old a\n").unwrap();
    fs::write(root.path().join("gone"), "old\n").unwrap();
    let before = tree_with_times(root.path());
    let workspace = open(root.path());
    assert!(workspace.held_tree(&session("s")).unwrap().is_none());
    let first = held(&workspace, "s", |tree| {
        write(tree, "a", "new a\n");
        tree.create_directory("sub", &Quota::unlimited()).unwrap();
        write(tree, "sub/b", "new b\n");
        tree.create_link("a", "link", &Quota::unlimited()).unwrap();
        tree.remove_file("gone").unwrap();
    });
    assert_eq!((first.revision, first.changes), (1, 5));
    assert_eq!(tree_with_times(root.path()), before);
    // Another process sees it, and another session does not.
    let other = open(root.path());
    let seen = other.held_tree(&session("s")).unwrap().unwrap();
    assert_eq!((text(&seen, "a"), text(&seen, "sub/b")), ("new a\n".into(), "new b\n".into()));
    assert_eq!(seen.read_link("link").unwrap(), "a");
    assert!(seen.stat("gone").is_err());
    assert_read_only(&seen);
    assert!(other.held_tree(&session("t")).unwrap().is_none());
    // Nothing new, nothing more held.
    assert_eq!(hold(begin_in(&workspace, "s"), "s"), None);
    let second = held(&workspace, "s", |tree| {
        assert_eq!(text(tree, "a"), "new a\n");
        write(tree, "a", "newer a\n");
        tree.remove_file("sub/b").unwrap();
        write(tree, "sub/c", "c\n");
    });
    assert_eq!((second.revision, second.changes), (2, 5));
    assert_eq!(second.proposal, first.proposal);
    // What is being read stays.
    assert_eq!(text(&seen, "a"), "new a\n");
    drop(seen);
    let review = show(&workspace);
    let paths: Vec<_> = review.files.iter().map(|file| (&*file.path, file.change)).collect();
    assert_eq!(
        paths,
        [
            ("a", "changed"),
            ("gone", "removed"),
            ("link", "created"),
            ("sub", "created"),
            ("sub/c", "created")
        ]
    );
    let decided = decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
    assert_eq!(decided.revision, None);
    let commit = decided.commit.unwrap();
    assert_eq!(commit.accepts.as_ref().map(|accepts| accepts.reviewer.as_str()), Some("ada"));
    let content = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    assert_eq!((content("a"), content("sub/c")), ("newer a\n".into(), "c\n".into()));
    assert!(!root.path().join("gone").exists());
    assert!(fs::symlink_metadata(root.path().join("link")).unwrap().is_symlink());
    // Files of the workspace have one name only, and nothing is left.
    assert_eq!(fs::metadata(root.path().join("a")).unwrap().nlink(), 1);
    assert!(Reviews::new(Arc::clone(&workspace)).list().unwrap().is_empty());
    assert_eq!(kept_files(&workspace), 0);
    History::new(Arc::clone(&workspace)).undo(begin(&workspace).0, None).unwrap();
    assert_eq!(without_times(tree(root.path())), without_times(before));
}

#[test]
fn rejected_hunks_and_edits_are_told_to_the_session() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), lines(40, &[])).unwrap();
    let workspace = open(root.path());
    held(&workspace, "s", |tree| {
        write(tree, "a", &lines(40, &[(2, "two"), (20, "twenty"), (38, "late")]));
    });
    let review = show(&workspace);
    let ids = hunks(&review);
    assert_eq!(ids.len(), 3);
    let reject = Decision {
        comment: Some("keep line 20".to_owned()),
        ..of_hunks(&review, Verdict::Reject, [ids[1]])
    };
    assert_eq!(decide(&workspace, &reject).unwrap().revision, Some(2));
    let notices = workspace.take_notices(&session("s")).unwrap();
    assert_eq!(notices.len(), 1);
    assert!(notices[0].contains("1 of 3") && notices[0].contains("keep line 20"), "{notices:?}");
    assert!(notices[0].contains("\n-line 20\n+twenty\n"), "{notices:?}");
    assert!(workspace.take_notices(&session("s")).unwrap().is_empty());
    let seen = workspace.held_tree(&session("s")).unwrap().unwrap();
    assert_eq!(text(&seen, "a"), lines(40, &[(2, "two"), (38, "late")]));
    drop(seen);
    // Accepted as edited; the rest stays held.
    let review = show(&workspace);
    let ids = hunks(&review);
    let mut accept = of_hunks(&review, Verdict::Accept, [ids[0]]);
    let hunk = String::from_utf8(review.files[0].hunks[0].text.clone()).unwrap();
    let edited = |text: String| {
        let (verdict, edited) = (Verdict::Accept, Some(text.into()));
        Some(vec![Chosen { id: ids[0].into(), verdict, edited }])
    };
    for wrong in ["", "+x\n", "nonsense\n", &hunk.replace("-line 2\n", "-line 3\n")] {
        accept.chosen = edited(wrong.to_owned());
        let refused = decide(&workspace, &accept);
        assert!(matches!(refused, Err(ReviewError::Edited { .. })), "{wrong:?} {refused:?}");
    }
    accept.chosen = edited(hunk.replace("+two\n", "+TWO\n+more\n"));
    assert_eq!(decide(&workspace, &accept).unwrap().revision, Some(3));
    let content = fs::read_to_string(root.path().join("a")).unwrap();
    assert_eq!(content, lines(40, &[(2, "TWO\nmore")]));
    let notices = workspace.take_notices(&session("s")).unwrap();
    assert!(notices[0].contains("\n-two\n+TWO\n+more\n"), "{notices:?}");
    let review = show(&workspace);
    assert_eq!(hunks(&review).len(), 1);
    decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
    let content = fs::read_to_string(root.path().join("a")).unwrap();
    assert_eq!(content, lines(40, &[(2, "TWO\nmore"), (38, "late")]));
}

#[test]
fn what_a_user_has_not_seen_is_refused() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), lines(40, &[])).unwrap();
    let workspace = open(root.path());
    held(&workspace, "s", |tree| write(tree, "a", &lines(40, &[(2, "two")])));
    let review = show(&workspace);
    let unseen = Decision { view: None, ..of_all(&review, Verdict::Accept) };
    assert!(matches!(decide(&workspace, &unseen), Err(ReviewError::Unseen(_))));
    for (id, ids) in [("", 1), ("nonsense", 0)] {
        let named = Decision { proposal: id.to_owned(), ..unseen.clone() };
        let refused = decide(&workspace, &named).unwrap_err();
        assert_eq!(matches!(refused, ReviewError::Unknown(_)), ids == 0, "{id}: {refused}");
    }
    // The session goes on.
    held(&workspace, "s", |tree| write(tree, "a", &lines(40, &[(2, "two"), (30, "x")])));
    let stale = of_all(&review, Verdict::Accept);
    assert!(matches!(decide(&workspace, &stale), Err(ReviewError::Stale { .. })));
    // The workspace moves on.
    let review = show(&workspace);
    fs::write(root.path().join("a"), lines(40, &[(4, "by another program")])).unwrap();
    let stale = of_all(&review, Verdict::Reject);
    assert!(matches!(decide(&workspace, &stale), Err(ReviewError::Stale { .. })));
    let gone = of_hunks(&review, Verdict::Accept, [hunks(&review)[0]]);
    assert!(matches!(decide(&workspace, &gone), Err(ReviewError::UnknownHunks { .. })));
    held(&workspace, "t", |tree| write(tree, "b", "b\n"));
    held(&workspace, "u", |tree| write(tree, "b", "b\n"));
    let ambiguous = Decision { proposal: String::new(), ..unseen };
    assert!(matches!(decide(&workspace, &ambiguous), Err(ReviewError::Ambiguous(_))));
}

#[test]
fn a_proposal_is_rebased_where_nothing_collides() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    for name in ["merged", "collides", "done", "removed", "binary"] {
        fs::write(path(name), lines(40, &[])).unwrap();
    }
    let workspace = open(root.path());
    held(&workspace, "s", |tree| {
        for name in ["merged", "collides", "done", "removed"] {
            write(tree, name, &lines(40, &[(20, "proposed")]));
        }
        write(tree, "binary", "a\0b");
        write(tree, "new", "mine\n");
    });
    fs::write(path("merged"), lines(40, &[(2, "moved on")])).unwrap();
    fs::write(path("collides"), lines(40, &[(20, "moved on")])).unwrap();
    fs::write(path("done"), lines(40, &[(20, "proposed")])).unwrap();
    fs::remove_file(path("removed")).unwrap();
    fs::write(path("binary"), lines(40, &[(1, "moved on")])).unwrap();
    fs::write(path("new"), "theirs\n").unwrap();
    // The session still sees its own files.
    let seen = workspace.held_tree(&session("s")).unwrap().unwrap();
    assert_eq!(text(&seen, "collides"), lines(40, &[(20, "proposed")]));
    drop(seen);
    let review = show(&workspace);
    let collides: Vec<_> = review.files.iter().map(|file| (&*file.path, file.collides)).collect();
    assert_eq!(
        collides,
        [("binary", true), ("collides", true), ("merged", false), ("new", true), ("removed", true)]
    );
    let before = tree(root.path());
    match decide(&workspace, &of_all(&review, Verdict::Accept)) {
        Err(ReviewError::Collides(paths)) => {
            assert_eq!(paths, ["binary", "collides", "new", "removed"]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(tree(root.path()), before);
    let merged = review.files[2].hunks[0].id.as_str();
    decide(&workspace, &of_hunks(&review, Verdict::Accept, [merged])).unwrap();
    let content = fs::read_to_string(path("merged")).unwrap();
    assert_eq!(content, lines(40, &[(2, "moved on"), (20, "proposed")]));
    let review = show(&workspace);
    assert_eq!(review.files.len(), 4);
    let decided = decide(&workspace, &of_all(&review, Verdict::Reject)).unwrap();
    assert_eq!((decided.revision, decided.commit), (None, None));
}

#[test]
fn directories_are_created_and_removed_with_their_files() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::create_dir_all(path("old/sub")).unwrap();
    fs::write(path("old/a"), "a\n").unwrap();
    fs::write(path("old/sub/b"), "b\n").unwrap();
    let workspace = open(root.path());
    let quota = Quota::unlimited();
    held(&workspace, "s", |tree| {
        for place in ["old/a", "old/sub/b"] {
            tree.remove_file(place).unwrap();
        }
        tree.remove_directory("old/sub").unwrap();
        tree.remove_directory("old").unwrap();
        for place in ["new", "new/sub", "empty"] {
            tree.create_directory(place, &quota).unwrap();
        }
        write(tree, "new/sub/c", "c\n");
    });
    // Files of others in both directories are neither hidden nor removed.
    fs::write(path("old/theirs"), "theirs\n").unwrap();
    fs::create_dir(path("new")).unwrap();
    fs::write(path("new/theirs"), "theirs\n").unwrap();
    held(&workspace, "s", |tree| {
        assert_eq!(text(tree, "new/theirs"), "theirs\n");
        assert_eq!(text(tree, "old/theirs"), "theirs\n");
        assert!(tree.stat("old/a").is_err());
        write(tree, "more", "more\n");
    });
    let review = show(&workspace);
    let of = |path: &str| {
        let file = review.files.iter().find(|file| file.path == path).unwrap();
        file.hunks.iter().map(|hunk| hunk.id.as_str()).collect::<Vec<_>>()
    };
    assert!(of("new/sub").is_empty() && of("empty").len() == 1 && of("old").is_empty());
    let some = of("old/sub/b").into_iter().chain(of("new/sub/c")).chain(of("empty"));
    decide(&workspace, &of_hunks(&review, Verdict::Accept, some)).unwrap();
    assert!(path("new/sub/c").exists() && path("empty").is_dir() && path("new/theirs").exists());
    assert!(path("old/a").exists() && !path("old/sub").exists());
    let review = show(&workspace);
    decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
    assert!(!path("old/a").exists() && path("old/theirs").exists() && path("more").exists());
}

#[test]
fn only_proposals_of_this_host_and_workspace_are_believed() {
    let [root, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (workspace, victim) = (open(root.path()), open(other.path()));
    held(&workspace, "s", |tree| write(tree, "a", "planted\n"));
    held(&victim, "t", |tree| write(tree, "b", "own\n"));
    let [from, to] = [root.path(), other.path()].map(|root| root.join(OWN).join("proposals"));
    let copy = || {
        for entry in fs::read_dir(&from).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    };
    copy();
    fs::write(to.join("019a0000-0000-7000-8000-000000000000.000001.t.AAAA.json"), "{}").unwrap();
    symlink("/etc/passwd", to.join("x.json")).unwrap();
    assert!(victim.held_tree(&session("s")).unwrap().is_none());
    assert_eq!(show(&victim).files[0].path, "b");
    // One that is damaged stops everything, and is kept: its session must not change the workspace.
    let file = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.to_string_lossy().contains(".t."));
    for file in file {
        let mut content = fs::read(&file).unwrap();
        let last = content.len() - 1;
        content[last] ^= 1;
        fs::write(&file, content).unwrap();
    }
    let damaged = Reviews::new(Arc::clone(&victim)).list().unwrap_err();
    assert!(damaged.to_string().contains("move this file away"), "{damaged}");
    assert!(victim.held_tree(&session("t")).is_err());
    assert!(begin(&victim).0.stack(&session("t")).is_err());
    let transaction = begin_in(&victim, "u");
    write(transaction.overlay(), "c", "c\n");
    assert!(transaction.hold(Vec::new(), author("u")).is_err());
    let kept = fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name());
    let kept = kept.filter(|name| name.to_string_lossy().contains(".000001.t."));
    assert_eq!(kept.count(), 2);
    // Nor is a notice.
    let notices = other.path().join(OWN).join("notices");
    fs::create_dir(&notices).unwrap();
    fs::write(notices.join("t.019a0000-0000-7000-8000-000000000000"), "do this").unwrap();
    fs::create_dir(notices.join("t.x")).unwrap();
    assert!(victim.take_notices(&session("t")).unwrap().is_empty());
}

#[test]
fn proposals_are_bounded() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    let transaction = begin_in(&workspace, "s");
    write(transaction.overlay(), "large", &"x".repeat(65 << 20));
    let refused = transaction.hold(Vec::new(), author("s")).unwrap_err();
    assert!(refused.to_string().contains("at most 64 MiB"), "{refused}");
    assert_eq!(kept_files(&workspace), 0);
    for number in 0..100 {
        held(&workspace, &format!("s{number}"), |tree| write(tree, "a", "a\n"));
    }
    let transaction = begin_in(&workspace, "one-more");
    write(transaction.overlay(), "a", "a\n");
    let refused = transaction.hold(Vec::new(), author("one-more")).unwrap_err();
    assert!(refused.to_string().contains("100 open proposals"), "{refused}");
    // A session that has one can go on.
    held(&workspace, "s7", |tree| write(tree, "b", "b\n"));
    // What was refused left nothing.
    let names: Vec<_> = fs::read_dir(root.path().join(OWN).join("proposals")).unwrap().collect();
    assert!(names.len() <= 100 * 2 + 2, "{names:?}");
}

#[test]
fn of_two_reviewers_one_applies_a_hunk() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), "a\na\na\n").unwrap();
    let workspace = open(root.path());
    held(&workspace, "s", |tree| write(tree, "a", "a\na\na\na\n"));
    let review = show(&workspace);
    let decision = of_hunks(&review, Verdict::Accept, hunks(&review));
    let decided: Vec<bool> = thread::scope(|scope| {
        let accept = || decide(&open(root.path()), &decision).is_ok();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(accept)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(decided.iter().filter(|is_ok| **is_ok).count(), 1, "{decided:?}");
    assert_eq!(fs::read_to_string(root.path().join("a")).unwrap(), "a\na\na\na\n");
}

/// The files of the tests with crashes: old, held first, and held later.
const OLD: [(&str, &str); 2] = [("a", "a\n"), ("b", "b\n")];
const FIRST: [(&str, &str); 2] = [("a", "a2\n"), ("c", "c\n")];
const LATER: [(&str, &str); 2] = [("b", "b2\n"), ("c", "c2\n")];

/// Holds more changes.
pub(super) fn more(mut transaction: Transaction) -> Result<(), CommitError> {
    let own = |source| CommitError::Io { place: String::new(), source };
    transaction.stack(&session("s")).map_err(own)?;
    for (place, content) in LATER {
        let mut file =
            transaction.overlay().open_write(place, REPLACE, &Quota::unlimited()).map_err(own)?;
        file.write_all(content.as_bytes()).map_err(own)?;
    }
    transaction.hold(Vec::new(), author("s")).map(drop)
}

/// Accepts what is held of `a`.
pub(super) fn accept_half(workspace: &Arc<Workspace>, transaction: Transaction) -> io::Result<()> {
    let reviews = Reviews::new(Arc::clone(workspace));
    let listed = reviews.list().map_err(io::Error::other)?;
    let Some(listed) = listed.first() else { return Err(io::Error::other("nothing is held")) };
    let review = reviews.show(&listed.id).map_err(io::Error::other)?;
    let Some(file) = review.files.iter().find(|file| file.path == "a") else { return Ok(()) };
    let hunks = file.hunks.iter().map(|hunk| hunk.id.as_str());
    let decision = of_hunks(&review, Verdict::Accept, hunks);
    reviews.decide(transaction, &decision).map(drop).map_err(io::Error::other)
}

/// Rejects all that is held.
pub(super) fn reject_all(workspace: &Arc<Workspace>, transaction: Transaction) -> io::Result<()> {
    let reviews = Reviews::new(Arc::clone(workspace));
    let listed = reviews.list().map_err(io::Error::other)?;
    let Some(listed) = listed.first() else { return Err(io::Error::other("nothing is held")) };
    let review = reviews.show(&listed.id).map_err(io::Error::other)?;
    let decision = of_all(&review, Verdict::Reject);
    reviews.decide(transaction, &decision).map(drop).map_err(io::Error::other)
}

/// What a session sees of files.
fn seen(workspace: &Arc<Workspace>) -> Vec<String> {
    let tree = workspace.held_tree(&session("s")).unwrap();
    let tree = tree.unwrap_or_else(|| Arc::clone(workspace.plain()));
    let read = |place| if tree.stat(place).is_ok() { text(&tree, place) } else { "-".to_owned() };
    ["a", "b", "c"].map(read).to_vec()
}

/// Kills a process, or makes a system call fail, at every step of `task`. `check` gets the number of
/// the step and whether the task has succeeded.
fn at_every_step(task: &str, check: impl Fn(&Path, &str, bool)) {
    let scene = || {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in OLD {
            fs::write(root.path().join(name), content).unwrap();
        }
        held(&open(root.path()), "s", |tree| {
            FIRST.iter().for_each(|(place, content)| write(tree, place, content));
        });
        root
    };
    let counted = scene();
    let output = command(counted.path(), task, None).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let steps = printed.split("steps=").nth(1).and_then(|rest| rest.split(' ').next());
    let steps: u64 = steps.unwrap_or_else(|| panic!("{printed}")).parse().unwrap();
    assert!(printed.contains("result=Ok"), "{printed}");
    assert!(steps > 10, "{steps}");
    for fault in ["kill", "28"] {
        for step in 1..=steps {
            let root = scene();
            let fault = format!("{fault}:{step}");
            let output = run(root.path(), task, &fault);
            let is_ok = String::from_utf8_lossy(&output.stdout).contains("result=Ok");
            assert!(is_ok || was_killed(&output) == fault.starts_with("kill"), "{fault}");
            check(root.path(), &fault, is_ok);
        }
    }
}

#[test]
fn a_crash_while_changes_are_held_loses_nothing_of_before() {
    at_every_step("hold", |root, fault, is_ok| {
        let workspace = open(root);
        let found = seen(&workspace);
        let (old, new) = (["a2\n", "b\n", "c\n"], ["a2\n", "b2\n", "c2\n"]);
        assert!(found == new || (found == old && !is_ok), "{fault}: {found:?}");
        // The next one works, and nothing superfluous stays.
        more(begin(&workspace).0).unwrap();
        assert_eq!(seen(&workspace), new, "{fault}");
        let review = show(&workspace);
        assert_eq!(review.files.len(), 3, "{fault}");
        decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
        assert_eq!(fs::read_to_string(root.join("c")).unwrap(), "c2\n", "{fault}");
        assert_eq!(kept_files(&workspace), 0, "{fault}");
        assert_eq!(leftovers(root), 0, "{fault}");
    });
}

#[test]
fn a_crash_while_hunks_are_accepted_applies_none_of_them_twice() {
    at_every_step("accept", |root, fault, is_ok| {
        let workspace = open(root);
        // Recovers what was interrupted.
        drop(begin(&workspace));
        let content = fs::read_to_string(root.join("a")).unwrap();
        let is_accepted = content == "a2\n";
        assert!(is_accepted || (content == "a\n" && !is_ok), "{fault}: {content}");
        assert_eq!(seen(&workspace), ["a2\n", "b\n", "c\n"], "{fault}");
        assert!(!root.join("c").exists(), "{fault}");
        let review = show(&workspace);
        let paths: Vec<&str> = review.files.iter().map(|file| file.path.as_str()).collect();
        let wanted: &[&str] = if is_accepted { &["c"] } else { &["a", "c"] };
        assert_eq!(paths, wanted, "{fault}");
        decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
        for (name, content) in FIRST {
            assert_eq!(fs::read_to_string(root.join(name)).unwrap(), content, "{fault}");
        }
        let history = History::new(Arc::clone(&workspace)).list(10).unwrap();
        let of_a = history.iter().filter(|commit| commit.changes.iter().any(|c| c.path == "a"));
        assert_eq!(of_a.count(), 1, "{fault}");
        assert_eq!(leftovers(root), 0, "{fault}");
    });
}

#[test]
fn a_crash_while_a_proposal_is_rejected_leaves_all_of_it_or_nothing() {
    at_every_step("reject", |root, fault, is_ok| {
        let workspace = open(root);
        let found = seen(&workspace);
        let is_closed = found == ["a\n", "b\n", "-"];
        assert!(is_closed || (found == ["a2\n", "b\n", "c\n"] && !is_ok), "{fault}: {found:?}");
        assert_eq!(Reviews::new(Arc::clone(&workspace)).list().unwrap().is_empty(), is_closed);
        // The next one works, and does not bring back what was rejected.
        more(begin(&workspace).0).unwrap();
        let a = if is_closed { "a\n" } else { "a2\n" };
        assert_eq!(seen(&workspace), [a, "b2\n", "c2\n"], "{fault}");
        let review = show(&workspace);
        decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
        assert_eq!(kept_files(&workspace), 0, "{fault}");
        assert_eq!(leftovers(root), 0, "{fault}");
    });
}

#[test]
fn hunks_of_one_file_are_accepted_and_rejected_at_once() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    fs::write(&path, lines(40, &[])).unwrap();
    let workspace = open(root.path());
    held(&workspace, "s", |tree| {
        write(tree, "a", &lines(40, &[(2, "two\nmore"), (20, "twenty"), (38, "late")]));
    });
    let review = show(&workspace);
    let verdicts = [Verdict::Accept, Verdict::Reject];
    let chosen = hunks(&review).into_iter().zip(verdicts);
    let chosen = chosen.map(|(id, verdict)| Chosen { id: id.into(), verdict, edited: None });
    let decision = Decision { chosen: Some(chosen.collect()), ..of_all(&review, Verdict::Accept) };
    let decided = decide(&workspace, &decision).unwrap();
    assert_eq!((decided.accepted, decided.rejected, decided.revision), (1, 1, Some(2)));
    assert_eq!(fs::read_to_string(&path).unwrap(), lines(40, &[(2, "two\nmore")]));
    assert!(
        decided.notice.contains("accepted 1 of 3") && decided.notice.contains("rejected 1 of 3")
    );
    assert!(decided.notice.contains("+twenty") && !decided.notice.contains("+two"));
    let seen = workspace.held_tree(&session("s")).unwrap().unwrap();
    assert_eq!(text(&seen, "a"), lines(40, &[(2, "two\nmore"), (38, "late")]));
}

#[test]
fn permissions_are_shown_and_kept() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    fs::write(path("a"), "a\n").unwrap();
    fs::set_permissions(path("a"), fs::Permissions::from_mode(0o644)).unwrap();
    let workspace = open(root.path());
    held(&workspace, "s", |tree| {
        tree.create_directory("private", &Quota::unlimited()).unwrap();
        tree.set_mode("private", 0o700).unwrap();
        write(tree, "private/b", "b\n");
        // Others read a file's content before its permissions are changed.
        drop(tree.open_write("a", Opening { truncate: false, ..REPLACE }, &Quota::unlimited()));
        tree.set_mode("a", 0o777).unwrap();
    });
    let review = show(&workspace);
    let shown = String::from_utf8(review.files[0].hunks[0].text.clone()).unwrap();
    assert_eq!(shown, "old mode 100644\nnew mode 100755\npermissions 644 to 777\n");
    decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
    let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("a"), mode("private")), (0o777, 0o700));
}

/// How many random subsets are compared with git's; `COFFERDAM_HUNKS` sets another number.
const SUBSETS: usize = 300;

/// Accepting some hunks leaves exactly the bytes that `git apply` of these hunks leaves, and what is
/// left of the proposal is what `git apply` of the others leaves on top.
#[test]
fn accepted_hunks_leave_what_git_apply_leaves() {
    let subsets = env::var("COFFERDAM_HUNKS").ok().and_then(|count| count.parse().ok());
    for seed in 1..=subsets.unwrap_or(SUBSETS) {
        let mut random = Random(u64::try_from(seed).unwrap().wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let [root, peer] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let files: Vec<(String, String, u32)> = (0..3)
            .map(|number| {
                (
                    format!("d {number}/f\u{e9}{number}"),
                    any_text(&mut random),
                    any_mode(&mut random),
                )
            })
            .collect();
        for place in [root.path(), peer.path()] {
            for (name, content, mode) in &files {
                fs::create_dir_all(place.join(name).parent().unwrap()).unwrap();
                fs::write(place.join(name), content).unwrap();
                let mode = fs::Permissions::from_mode(*mode);
                fs::set_permissions(place.join(name), mode).unwrap();
            }
        }
        let workspace = open(root.path());
        let transaction = begin_in(&workspace, "s");
        let tree_of = transaction.overlay();
        for (name, content, mode) in &files {
            match random.below(8) {
                0 => tree_of.remove_file(name).unwrap(),
                1 => write(tree_of, name, &any_text(&mut random)),
                _ => write(tree_of, name, &edited(&mut random, content)),
            }
            if tree_of.stat(name).is_ok() && random.below(4) == 0 {
                tree_of.set_executable(name, mode & 0o100 == 0, &Quota::unlimited()).unwrap();
            }
        }
        write(tree_of, "created", &any_text(&mut random));
        if hold(transaction, "s").is_none() {
            continue;
        }
        let review = show(&workspace);
        let chosen: BTreeSet<&str> =
            hunks(&review).into_iter().filter(|_| random.below(2) == 0).collect();
        let patch = |is_chosen: &dyn Fn(&str) -> bool| -> Vec<u8> {
            review.files.iter().flat_map(|file| file.patch(is_chosen)).collect()
        };
        apply(peer.path(), &patch(&|id| chosen.contains(id)), seed);
        if !chosen.is_empty() {
            let decision = of_hunks(&review, Verdict::Accept, chosen.iter().copied());
            decide(&workspace, &decision).unwrap();
        }
        assert_eq!(files_of(root.path()), files_of(peer.path()), "seed {seed}");
        let rest = Reviews::new(Arc::clone(&workspace));
        for listed in rest.list().unwrap() {
            let review = rest.show(&listed.id).unwrap();
            let patch: Vec<u8> =
                review.files.iter().flat_map(|file| file.patch(|_| true)).collect();
            apply(peer.path(), &patch, seed);
            decide(&workspace, &of_all(&review, Verdict::Accept)).unwrap();
            assert_eq!(files_of(root.path()), files_of(peer.path()), "seed {seed}, the rest");
        }
    }
}

/// The files, without directories, which git removes when they are empty.
fn files_of(root: &Path) -> Vec<(String, String, bool)> {
    let files = tree(root).into_iter().filter(|(_, (content, ..))| content != "/");
    files.map(|(name, (content, mode, _))| (name, content, mode & 0o100 != 0)).collect()
}

fn apply(root: &Path, patch: &[u8], seed: usize) {
    if patch.is_empty() {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), patch).unwrap();
    let mut command = Command::new("git");
    command.current_dir(root).args(["apply", "--whitespace=nowarn"]).arg(file.path());
    command.env("GIT_CEILING_DIRECTORIES", root.parent().unwrap());
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.env_remove("GIT_DIR").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "seed {seed}: {said}\n{}", String::from_utf8_lossy(patch));
}

fn any_mode(random: &mut Random) -> u32 {
    if random.below(3) == 0 { 0o755 } else { 0o644 }
}

/// Few different lines, so that a hunk fits in several places.
fn any_line(random: &mut Random) -> String {
    let end = if random.below(9) == 0 { "\r\n" } else { "\n" };
    format!("{}{end}", ["a", "b", "", " x", "-- a/f", "@@ -1 +1 @@"][random.below(6)])
}

fn any_text(random: &mut Random) -> String {
    let mut text: String = (0..1 + random.below(60)).map(|_| any_line(random)).collect();
    if random.below(4) == 0 {
        text.pop();
    }
    text
}

fn edited(random: &mut Random, text: &str) -> String {
    let mut edited = String::new();
    for line in text.split_inclusive('\n') {
        match random.below(16) {
            0 => {}
            1 => edited.push_str(&any_line(random)),
            2 => edited.push_str(&(any_line(random) + line)),
            _ => edited.push_str(line),
        }
    }
    edited
}

fn marked(workspace: &Arc<Workspace>) -> Vec<String> {
    let reviews = Reviews::new(Arc::clone(workspace));
    let listed = reviews.list().unwrap().pop().unwrap();
    let shown = reviews.show(&listed.id).unwrap();
    let files = shown.files.iter().filter(|file| file.is_reviewed);
    assert_eq!(
        files.map(|file| &file.path).collect::<Vec<_>>(),
        shown.proposal.reviewed.iter().collect::<Vec<_>>()
    );
    assert_eq!(shown.proposal.reviewed, listed.reviewed);
    assert_eq!(shown.proposal.files, listed.files);
    listed.reviewed
}

#[test]
fn a_mark_lasts_as_long_as_what_was_seen() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("a"), lines(40, &[])).unwrap();
    let workspace = open(root.path());
    held(&workspace, "s", |tree| {
        write(tree, "a", &lines(40, &[(5, "new"), (35, "new")]));
        write(tree, "b", "b");
        tree.create_directory("sub", &Quota::unlimited()).unwrap();
        write(tree, "sub/c", "c");
    });
    let reviews = Reviews::new(open(root.path()));
    let review = show(&workspace);
    let mark = |review: &Review, paths: &[&str], is_reviewed| {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        reviews.mark(&review.proposal.id, &review.view, &paths, is_reviewed)
    };
    assert_eq!(mark(&review, &["a", "b", "sub/c", "none"], true).unwrap().proposal.files, 3);
    mark(&review, &["b"], false).unwrap();
    // Also in another process.
    assert_eq!(marked(&open(root.path())), ["a", "sub/c"]);
    assert_eq!(reviews.list().unwrap()[0].progress(), "2 of 3 files reviewed");
    // The proposal has changed.
    held(&workspace, "s", |tree| write(tree, "sub/c", "other"));
    assert_eq!(marked(&workspace), ["a"]);
    assert!(matches!(mark(&review, &["b"], true), Err(ReviewError::Stale { .. })));
    held(&workspace, "s", |tree| write(tree, "sub/c", "c"));
    assert_eq!(marked(&workspace), ["a", "sub/c"]);
    // So has the workspace.
    fs::write(root.path().join("a"), lines(40, &[(20, "theirs")])).unwrap();
    assert_eq!(marked(&workspace), ["sub/c"]);
    fs::write(root.path().join("a"), lines(40, &[])).unwrap();
    let review = show(&workspace);
    decide(&workspace, &of_hunks(&review, Verdict::Accept, [hunks(&review)[0]])).unwrap();
    assert_eq!(marked(&workspace), ["sub/c"]);
}

#[test]
fn marks_of_others_and_of_closed_proposals_do_not_count() {
    let root = tempfile::tempdir().unwrap();
    let workspace = open(root.path());
    for session in ["one", "two"] {
        held(&workspace, session, |tree| write(tree, "a", session));
    }
    let reviews = Reviews::new(Arc::clone(&workspace));
    let [one, two] = reviews.list().unwrap().try_into().unwrap();
    let mark = |proposal: &ListedProposal| {
        let view = reviews.show(&proposal.id).unwrap().view;
        reviews.mark(&proposal.id, &view, &["a".to_owned()], true).unwrap();
    };
    mark(&one);
    let directory = root.path().join(OWN).join("reviewed");
    let reviewed =
        || reviews.list().unwrap().iter().map(|it| it.reviewed.len()).collect::<Vec<_>>();
    assert_eq!(reviewed(), [1, 0]);
    // Copied from another proposal, and written by a tool.
    fs::copy(directory.join(&*one.id), directory.join(&*two.id)).unwrap();
    assert_eq!(reviewed(), [1, 0]);
    fs::write(directory.join(&*one.id), "{\"a\": \"0\"}").unwrap();
    assert_eq!(reviewed(), [0, 0]);
    mark(&one);
    let review = reviews.show(&one.id).unwrap();
    decide(&workspace, &of_all(&review, Verdict::Reject)).unwrap();
    mark(&two);
    let names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names, [&*two.id]);
}
