//! Changes that can't be kept, conflicts with other processes, trees that can't be shown.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::*;

type Refusal = (&'static str, fn(&dyn Files, &Path), &'static str);

/// Changes by a program, and the expected error messages.
const REFUSALS: &[Refusal] = &[
    ("not allowed", |files, _| files.put("src/new", "x"), "not here: src/new"),
    ("removed where not allowed", |files, _| files.remove("src"), "not here: src"),
    (
        "a link out of the workspace",
        |files, _| files.link("/etc/passwd", "out"),
        "the program made out: a link to /etc/passwd would leave the workspace",
    ),
    (
        "a link further up",
        |files, _| files.link("../../x", "bin/out"),
        "the program made bin/out: a link to ../../x would leave the workspace",
    ),
    (
        "a link to what is not allowed",
        |files, _| files.link("src/c.txt", "in"),
        "the program made in: not here: src/c.txt",
    ),
    (
        "a name that is no text",
        |files, raw| {
            files.make("new");
            fs::write(raw.join("new").join(OsStr::from_bytes(b"\xff")), "").unwrap();
        },
        "the name new/\u{fffd} is no UTF-8",
    ),
    (
        "a target that is no text",
        |_, raw| symlink(OsStr::from_bytes(b"\xff"), raw.join("x")).unwrap(),
        "x is a link to \"\u{fffd}\", which is no UTF-8",
    ),
    (
        "content elsewhere",
        |files, raw| {
            files.put("x", "");
            let flags = XattrFlags::empty();
            rustix::fs::setxattr(raw.join("x"), "user.overlay.metacopy", b"", flags).unwrap();
        },
        "x has the attribute user.overlay.metacopy, which nothing here should have set",
    ),
    (
        "a directory elsewhere",
        |files, raw| {
            files.make("x");
            let flags = XattrFlags::empty();
            rustix::fs::setxattr(raw.join("x"), "user.overlay.redirect", b"/", flags).unwrap();
        },
        "x has the attribute user.overlay.redirect, which nothing here should have set",
    ),
    (
        "too deep",
        |files, raw| {
            files.make("d");
            let name = "d".repeat(200);
            let mut at =
                rustix::fs::open(raw.join("d"), rustix::fs::OFlags::DIRECTORY, Mode::empty())
                    .unwrap();
            for _ in 0..30 {
                rustix::fs::mkdirat(&at, &name, Mode::empty()).unwrap();
                rustix::fs::chmodat(&at, &name, Mode::RWXU, rustix::fs::AtFlags::empty()).unwrap();
                let flags = rustix::fs::OFlags::DIRECTORY;
                at = rustix::fs::openat(&at, &name, flags, Mode::empty()).unwrap();
            }
        },
        "the program made a path of more than 4096 bytes",
    ),
    ("too many files", |files, _| (0..40).for_each(|i| files.put(&format!("n{i}"), "")), "quota"),
    ("too much", |files, _| files.put("large", &"x".repeat(2000)), "quota"),
    (
        "a file with other names",
        |files, _| files.put("bin/hard", "x"),
        "bin/hard is a file with several hard links",
    ),
];

#[test]
fn what_can_not_be_kept_changes_nothing() {
    for way in WAYS {
        for (name, act, wanted) in REFUSALS {
            let scene = Scene::new();
            fs::hard_link(scene.root.join("bin/run"), scene.root.join("bin/hard")).unwrap();
            let before = tree_with_times(&scene.root);
            let (transaction, _) = begin(&scene.workspace);
            let overlay = transaction.overlay();
            write(overlay, "a.txt", "staged");
            let staged = overlay.entries();
            let view = scene.show(overlay, way);
            let files = scene.files(&view);
            files.put("a.txt", "changed");
            files.remove("b.txt");
            act(&*files, &Scene::raw(&view));
            let allow = |place: &str| {
                if place.starts_with("src") {
                    Err(Refused::denied(format!("not here: {place}")))
                } else {
                    Ok(())
                }
            };
            let kept = view.keep(overlay, &Quota::new(1000, 30), &allow, None);
            let error = kept.expect_err(name).to_string();
            assert!(error.contains(wanted), "{name}, {way:?}: {error}");
            assert_eq!(overlay.entries(), staged, "{name}, {way:?}");
            assert_eq!(read(overlay, "a.txt"), "staged");
            assert_eq!(scene.runs(), 0, "{name}, {way:?}");
            transaction.commit(Purpose::default()).unwrap();
            let mut after = tree_with_times(&scene.root);
            after.insert("a.txt".to_owned(), before["a.txt"].clone());
            assert_eq!(after.len(), before.len(), "{name}, {way:?}");
        }
    }
}

/// Changes by another process while a program runs, and whether they are detected.
#[test]
fn changes_by_somebody_else_are_conflicts() {
    type Ours = fn(&dyn Files);
    type Theirs = fn(&PathBuf);
    let cases: &[(&str, Ours, Theirs, bool)] = &[
        ("changed", |f| f.put("a.txt", "ours"), |r| r.put("a.txt", "theirs"), true),
        ("made", |f| f.put("new", "ours"), |r| r.put("new", "theirs"), true),
        ("removed by us", |f| f.remove("a.txt"), |r| r.put("a.txt", "theirs"), true),
        (
            "replaced",
            |f| f.put("a.txt", "ours"),
            |r| {
                fs::write(r.join("x"), "theirs").unwrap();
                fs::rename(r.join("x"), r.join("a.txt")).unwrap();
            },
            true,
        ),
        ("in a removed directory", |f| f.remove("src"), |r| r.put("src/c.txt", "theirs"), true),
        (
            "a link instead of the directory",
            |f| f.put("src/new", "ours"),
            |r| {
                fs::rename(r.join("src"), r.join("elsewhere")).unwrap();
                symlink("elsewhere", r.join("src")).unwrap();
            },
            true,
        ),
        ("staged before", |f| f.put("e.txt", "ours"), |r| r.put("e.txt", "theirs"), true),
        ("another file", |f| f.put("a.txt", "ours"), |r| r.put("b.txt", "theirs"), false),
        ("beside it", |f| f.put("src/new", "ours"), |r| r.put("src/c.txt", "theirs"), false),
    ];
    for way in WAYS {
        for (name, ours, theirs, conflicts) in cases {
            let scene = Scene::new();
            let (transaction, _) = begin(&scene.workspace);
            write(transaction.overlay(), "e.txt", "staged");
            let view = scene.show(transaction.overlay(), way);
            ours(&*scene.files(&view));
            theirs(&scene.root);
            let found = tree_with_times(&scene.root);
            let done = keep(view, transaction.overlay()).map_err(|error| error.to_string());
            let done = done.and_then(|()| match transaction.commit(Purpose::default()) {
                Err(error @ CommitError::Conflict(_)) => Err(error.to_string()),
                done => {
                    done.unwrap();
                    Ok(())
                }
            });
            if *conflicts {
                let error = done.expect_err(name);
                assert!(error.contains("by another process"), "{name}, {way:?}: {error}");
                assert_eq!(tree_with_times(&scene.root), found, "{name}, {way:?}");
            } else {
                done.unwrap();
            }
        }
    }
}

#[test]
fn what_was_committed_just_now_is_no_conflict() {
    for way in WAYS {
        let scene = Scene::new();
        for number in 0..10 {
            let (transaction, _) = begin(&scene.workspace);
            write(transaction.overlay(), "a.txt", &format!("written {number}"));
            transaction.commit(Purpose::default()).unwrap();
            let (transaction, _) = begin(&scene.workspace);
            let view = scene.show(transaction.overlay(), way);
            scene.files(&view).put("a.txt", &format!("changed {number}"));
            keep(view, transaction.overlay()).unwrap();
            transaction.commit(Purpose::default()).unwrap().unwrap();
        }
    }
}

#[test]
fn a_stopped_call_gets_no_copy() {
    let scene = Scene::new();
    let options = ViewOptions { mounts: false, scratch: &scene.scratch, may_change: true };
    let shown = NativeView::create(&scene.workspace, scene.workspace.plain(), options, &|| true);
    assert_eq!(shown.err().unwrap().kind(), io::ErrorKind::TimedOut);
    assert_eq!(scene.runs(), 0);
    let options = ViewOptions { mounts: false, scratch: Path::new("/nowhere"), may_change: true };
    NativeView::create(&scene.workspace, scene.workspace.plain(), options, &|| false)
        .err()
        .unwrap();
    // The tree is too large.
    let large = fs::File::create(scene.root.join("large")).unwrap();
    large.set_len(5 << 30).unwrap();
    let options = ViewOptions { mounts: false, scratch: &scene.scratch, may_change: true };
    let shown = NativeView::create(&scene.workspace, scene.workspace.plain(), options, &|| false);
    let error = shown.err().unwrap().to_string();
    assert!(error.contains("more than 4 GiB"), "{error}");
}
