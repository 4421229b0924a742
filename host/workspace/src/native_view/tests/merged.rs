//! Views, and changes that are kept.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::{Duration, SystemTime};

use super::*;

#[test]
fn what_a_program_changes_is_committed_and_undone() {
    let wanted = expected(&[work]);
    for way in WAYS {
        let scene = Scene::new();
        scene.workspace.own().unwrap();
        let before = tree_with_times(&scene.root);
        let (transaction, _) = begin(&scene.workspace);
        let view = scene.show(transaction.overlay(), way);
        work(&*scene.files(&view));
        keep(view, transaction.overlay()).unwrap();
        assert_eq!(scene.runs(), 0, "{way:?}");
        assert_eq!(tree_with_times(&scene.root), before, "{way:?}");
        transaction.commit(Purpose::default()).unwrap().unwrap();
        assert_eq!(tree(&scene.root), wanted, "{way:?}");
        let origin = rustix::fs::getxattr(
            scene.root.join("a.txt"),
            "user.overlay.origin",
            &mut [0_u8; 8][..],
        );
        assert!(origin.is_err());
        let history = History::new(scene.workspace.clone());
        history.undo(begin(&scene.workspace).0, None).unwrap();
        assert_eq!(tree_with_times(&scene.root), before, "{way:?}");
    }
}

#[test]
fn staged_changes_are_shown_and_can_be_changed_again() {
    let again: fn(&dyn Files) = |files| {
        files.put("a.txt", "newer a\n");
        files.remove("src/new.txt");
        files.put("b.txt", "there again\n");
        files.remove("e.txt");
        files.put("bin/run", "there again\n");
        files.remove("link");
        files.remove("deep/deeper");
        files.put("deep/deeper", "a file\n");
        files.make("bin/directory");
    };
    let wanted = expected(&[work, again]);
    for way in WAYS {
        let scene = Scene::new();
        let (transaction, _) = begin(&scene.workspace);
        let overlay = transaction.overlay();
        work(&**overlay);
        let staged = overlay.entries();
        // First, a view that is discarded.
        let view = scene.show(overlay, way);
        again(&*scene.files(&view));
        drop(view);
        assert_eq!(overlay.entries(), staged);
        assert_eq!(read(overlay, "a.txt"), "new a\n");
        let view = scene.show(overlay, way);
        if let ViewKind::Copy(copy) = view.kind() {
            assert_eq!(tree(copy), expected(&[work]));
        }
        again(&*scene.files(&view));
        keep(view, overlay).unwrap();
        transaction.commit(Purpose::default()).unwrap().unwrap();
        assert_eq!(tree(&scene.root), wanted, "{way:?}");
    }
}

#[test]
fn a_run_without_changes_stages_nothing() {
    for way in WAYS {
        let scene = Scene::new();
        let (transaction, _) = begin(&scene.workspace);
        let overlay = transaction.overlay();
        work(&**overlay);
        let staged = overlay.entries();
        keep(scene.show(overlay, way), overlay).unwrap();
        assert_eq!(overlay.entries(), staged, "{way:?}");
        drop(transaction);
        // The overlayfs copied it, since it was opened for writing.
        let (transaction, _) = begin(&scene.workspace);
        let view = scene.show(transaction.overlay(), way);
        let path = Scene::raw(&view).join("a.txt");
        fs::copy(scene.root.join("a.txt"), &path).unwrap();
        let time = fs::metadata(scene.root.join("a.txt")).unwrap().modified().unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        keep(view, transaction.overlay()).unwrap();
        assert!(!transaction.overlay().is_changed(), "{way:?}");
        // Only its time was changed, by which build tools decide.
        let view = scene.show(transaction.overlay(), way);
        let path = Scene::raw(&view).join("a.txt");
        fs::copy(scene.root.join("a.txt"), &path).unwrap();
        let later = SystemTime::now() + Duration::from_secs(1000);
        fs::File::options().append(true).open(&path).unwrap().set_modified(later).unwrap();
        keep(view, transaction.overlay()).unwrap();
        transaction.commit(Purpose::default()).unwrap().unwrap();
        assert_eq!(fs::metadata(scene.root.join("a.txt")).unwrap().modified().unwrap(), later);
    }
}

#[test]
fn the_workspace_itself_is_shown_to_a_call_that_only_reads() {
    let scene = Scene::new();
    let show = |tree: &Overlay, may_change| {
        let options = ViewOptions { mounts: true, scratch: &scene.scratch, may_change };
        NativeView::create(&scene.workspace, tree, options, &|| false).unwrap()
    };
    let view = show(scene.workspace.plain(), false);
    assert_eq!(*view.kind(), ViewKind::Workspace);
    assert!(!scene.root.join(OWN).exists());
    // Several calls that only read, whose changes are discarded.
    let views = [show(scene.workspace.plain(), true), show(scene.workspace.plain(), true)];
    assert_ne!(views[0].kind(), views[1].kind());
    assert_eq!(scene.runs(), 2);
    let (transaction, _) = begin(&scene.workspace);
    assert_eq!(scene.runs(), 2);
    write(transaction.overlay(), "a.txt", "staged");
    let ViewKind::Mount { upper, work } = show(transaction.overlay(), false).kind().clone() else {
        panic!("it has to be mounted")
    };
    assert!(upper.starts_with(scene.root.join(OWN)) && work.starts_with(scene.root.join(OWN)));
    drop(views);
    assert_eq!(scene.runs(), 0);
    // Such a call can't keep changes.
    let view = show(scene.workspace.plain(), true);
    scene.files(&view).put("a.txt", "changed");
    assert!(keep(view, scene.workspace.plain()).is_err());
}

#[test]
fn permissions_times_and_links_come_through() {
    for way in WAYS {
        let scene = Scene::new();
        let (transaction, _) = begin(&scene.workspace);
        let overlay = transaction.overlay();
        write(overlay, "staged", "x");
        overlay.set_mode("staged", 0o751).unwrap();
        overlay.set_modified("staged", 1_000_000_000_123_456_789).unwrap();
        overlay.create_link("a.txt", "staged-link", &Quota::unlimited()).unwrap();
        overlay.set_modified("staged-link", 1_000_000_000_123_456_789).unwrap();
        let view = scene.show(overlay, way);
        let raw = Scene::raw(&view);
        for name in ["staged", "staged-link"] {
            let found = fs::symlink_metadata(raw.join(name)).unwrap();
            assert_eq!((found.mtime(), found.mtime_nsec()), (1_000_000_000, 123_456_789));
        }
        assert_eq!(fs::metadata(raw.join("staged")).unwrap().mode() & 0o7777, 0o751);

        let made = |name: &str, mode: u32| {
            fs::write(raw.join(name), name).unwrap();
            fs::set_permissions(raw.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
            rustix::fs::mknodat(CWD, raw.join(name), kind, Mode::RWXU, 0).unwrap();
        }
        made("secret", 0o600);
        made("as-its-owner", 0o6755);
        made("nobodys", 0o000);
        made("linked", 0o644);
        fs::hard_link(raw.join("linked"), raw.join("linked-too")).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 5);
        let file = fs::File::options().append(true).open(raw.join("secret")).unwrap();
        file.set_modified(time).unwrap();
        fs::create_dir(raw.join("closed")).unwrap();
        fs::write(raw.join("closed/in"), "x").unwrap();
        fs::create_dir(raw.join("closed/deep")).unwrap();
        for (name, mode) in [("closed/deep", 0o000), ("closed", 0o555), ("", 0o500)] {
            fs::set_permissions(raw.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        keep(view, overlay).unwrap();
        transaction.commit(Purpose::default()).unwrap().unwrap();

        let mode = |name: &str| fs::metadata(scene.root.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(
            ["secret", "as-its-owner", "nobodys", "linked", "closed", "closed/deep"].map(mode),
            [0o600, 0o755, 0o400, 0o644, 0o755, 0o700],
            "{way:?}"
        );
        assert_eq!(fs::metadata(scene.root.join("secret")).unwrap().modified().unwrap(), time);
        let linked = fs::metadata(scene.root.join("linked")).unwrap();
        assert_eq!(linked.nlink(), 1);
        assert_eq!(fs::read_to_string(scene.root.join("linked-too")).unwrap(), "linked");
        assert!(!scene.root.join("fifo").exists() && !scene.root.join("socket").exists());
    }
}

#[test]
fn each_changed_place_is_asked_for() {
    let wanted = [
        "a.txt",
        "b.txt",
        "bin",
        "bin/other",
        "bin/run",
        "deep",
        "deep/deeper",
        "deep/deeper/up",
        "e.txt",
        "e.txt/inside",
        "link",
        "src/c.txt",
        "src/new.txt",
        "src/old",
        "src/old/d.txt",
    ];
    for way in WAYS {
        let scene = Scene::new();
        let (transaction, _) = begin(&scene.workspace);
        let view = scene.show(transaction.overlay(), way);
        work(&*scene.files(&view));
        let asked = RefCell::new(std::collections::BTreeSet::new());
        let allow = |place: &str| {
            asked.borrow_mut().insert(place.to_owned());
            Ok(())
        };
        view.keep(transaction.overlay(), &Quota::unlimited(), &allow, None).unwrap();
        let mut wanted: Vec<&str> = wanted.to_vec();
        // The directory is the same, with different contents.
        wanted.retain(|place| *place != "bin");
        assert_eq!(asked.into_inner().into_iter().collect::<Vec<_>>(), wanted, "{way:?}");
    }
}

#[test]
fn a_repository_is_led_to_and_never_taken_in() {
    let scene = Scene::new();
    fs::create_dir_all(scene.root.join(".git/modules/sub")).unwrap();
    fs::create_dir_all(scene.root.join("sub")).unwrap();
    fs::create_dir_all(scene.root.join("nested/.git")).unwrap();
    fs::write(scene.root.join("sub/.git"), "gitdir: ../.git/modules/sub\n").unwrap();
    let (transaction, _) = begin(&scene.workspace);
    let view = scene.show(transaction.overlay(), Way::Copy);
    let copy = Scene::raw(&view);
    assert_eq!(copy.file_name().unwrap(), "project");
    let root = scene.root.display();
    for (place, wanted) in [
        (".git", format!("gitdir: {root}/.git\n")),
        ("nested/.git", format!("gitdir: {root}/nested/.git\n")),
        ("sub/.git", format!("gitdir: {root}/sub/../.git/modules/sub\n")),
    ] {
        assert_eq!(fs::read_to_string(copy.join(place)).unwrap(), wanted);
    }
    assert!(!copy.join(OWN).exists());
    fs::write(copy.join(".git"), "gitdir: elsewhere\n").unwrap();
    fs::remove_file(copy.join("nested/.git")).unwrap();
    fs::create_dir_all(copy.join(OWN).join("history")).unwrap();
    let nothing = |place: &str| Err(Refused::denied(place.to_owned()));
    view.keep(transaction.overlay(), &Quota::unlimited(), &nothing, None).unwrap();
    assert!(!transaction.overlay().is_changed());
    // A new one is an ordinary change, which is not allowed.
    let view = scene.show(transaction.overlay(), Way::Copy);
    fs::create_dir_all(Scene::raw(&view).join("src/.git/hooks")).unwrap();
    let error = view.keep(transaction.overlay(), &Quota::unlimited(), &nothing, None).unwrap_err();
    assert_eq!(error.to_string(), "src/.git");
}

#[test]
fn the_hosts_own_directory_is_hidden() {
    let scene = Scene::new();
    let (transaction, _) = begin(&scene.workspace);
    write(transaction.overlay(), "a.txt", "staged");
    let view = scene.show(transaction.overlay(), Way::Mount);
    let own = Scene::raw(&view).join(OWN);
    assert!(Mounted::is_opaque(&own) && fs::read_dir(&own).unwrap().next().is_none());
    fs::create_dir_all(own.join("cache/tool")).unwrap();
    let staged = transaction.overlay().entries();
    keep(view, transaction.overlay()).unwrap();
    assert_eq!(transaction.overlay().entries(), staged);
}

#[test]
fn what_a_dead_host_left_is_removed_and_what_is_in_use_is_not() {
    let scene = Scene::new();
    let used = [Way::Mount, Way::Copy].map(|way| scene.show(scene.workspace.plain(), way));
    for parent in [scene.root.join(OWN).join(RUNS), scene.scratch.clone()] {
        let left = parent.join("cofferdam-run-0/upper/d");
        fs::create_dir_all(&left).unwrap();
        fs::write(left.join(OsStr::from_bytes(b"\xff")), "").unwrap();
        fs::create_dir(left.join("closed")).unwrap();
        fs::set_permissions(left.join("closed"), fs::Permissions::from_mode(0o000)).unwrap();
        symlink("/", left.join("link")).unwrap();
        // Numbers as names, which entries also get while a directory is removed.
        for name in ["1/2/1", "1/1/3/2", "2/1/2", "3/1"] {
            fs::create_dir_all(parent.join("cofferdam-run-0").join(name)).unwrap();
        }
        fs::write(parent.join("another-users"), "").unwrap();
    }
    begin(&scene.workspace);
    assert!(!scene.root.join(OWN).join(RUNS).join("cofferdam-run-0").exists());
    drop(scene.show(scene.workspace.plain(), Way::Copy));
    assert!(!scene.scratch.join("cofferdam-run-0").exists());
    assert_eq!(scene.runs(), 4);
    for view in &used {
        assert!(Scene::raw(view).is_dir());
    }
    drop(used);
    assert_eq!(scene.runs(), 2);
}
