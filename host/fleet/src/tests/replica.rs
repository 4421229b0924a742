//! Hosts of a fleet: each has a copy of one workspace.

use cofferdam_workspace::{
    CommitError, KeyedResult, Opening, Overlay, Purpose, Quota, Upstream as _,
};

use super::flaky::{Fault, Flaky};
use super::*;
use crate::copy::{MAX_RESULT_BYTES, Replica};
use crate::local::Synced;
use crate::pull::LOCK_TIMEOUT;
use crate::replica::{Claim, OpenCall};
use crate::store::Store;

/// A host with its copy.
struct Host {
    workspace: Arc<Workspace>,
    replica: Arc<Replica>,
}

/// Writes a file, with the directories above it.
fn put(overlay: &Overlay, place: &str, content: &str) {
    let quota = Quota::new(u64::MAX, u64::MAX);
    let above: Vec<usize> = place.match_indices('/').map(|(at, _)| at).collect();
    for at in above {
        if overlay.stat(&place[..at]).is_err() {
            overlay.create_directory(&place[..at], &quota).unwrap();
        }
    }
    let opening = Opening { read: false, create: true, exclusive: false, truncate: true };
    let mut file = overlay.open_write(place, opening, &quota).unwrap();
    std::io::Write::write_all(&mut file, content.as_bytes()).unwrap();
}

fn begin(scene: &Scene, host: &Host) -> Transaction {
    let begun = Transaction::begin(&host.workspace, std::time::Duration::from_secs(30));
    scene.runtime.block_on(begun).unwrap().0
}

/// Changes files of a copy, as it is, in one commit.
fn change(
    scene: &Scene,
    host: &Host,
    change: impl FnOnce(&Overlay),
    result: Option<(&str, &str)>,
) -> Result<(), CommitError> {
    let transaction = begin(scene, host);
    change(transaction.overlay());
    let result = result.map(|(key, result)| KeyedResult {
        key: key.to_owned(),
        result: result.as_bytes().to_vec(),
    });
    transaction.commit(Purpose { result, ..Purpose::default() }).map(drop)
}

fn conflict(changed: Result<(), CommitError>) -> Vec<String> {
    match changed {
        Err(CommitError::Conflict(places)) => places,
        other => panic!("{other:?}"),
    }
}

impl Host {
    fn refresh(&self, scene: &Scene) {
        scene.runtime.block_on(self.replica.bring_up_to_date(LOCK_TIMEOUT)).unwrap();
    }

    fn claim(&self, scene: &Scene, key: &str) -> Claim {
        scene.runtime.block_on(self.replica.claim(key)).unwrap()
    }

    fn open_call(&self, scene: &Scene, key: &str) -> OpenCall {
        match self.claim(scene, key) {
            Claim::Open(call) => call,
            ended @ Claim::Ended(_) => panic!("{ended:?}"),
        }
    }

    /// What a call with this key has returned.
    fn result(&self, scene: &Scene, key: &str) -> String {
        match self.claim(scene, key) {
            Claim::Ended(result) => String::from_utf8(result.to_vec()).unwrap(),
            open @ Claim::Open(_) => panic!("{open:?}"),
        }
    }
}

impl Scene {
    /// Pushes a workspace with these files, and opens copies of it.
    fn hosts<const N: usize>(&self, files: &[&str], names: [&str; N]) -> [Host; N] {
        self.make("origin", files);
        self.push("origin").unwrap();
        names.map(|name| self.host(name))
    }

    fn host(&self, name: &str) -> Host {
        fs::create_dir_all(self.path(name)).unwrap();
        let workspace = self.open(name);
        let opened = Replica::open(&workspace, self.store(), &self.access);
        let replica = self.runtime.block_on(opened).unwrap();
        Host { workspace, replica }
    }

    /// A host whose store has faults.
    fn flaky(&self, name: &str) -> (Host, Arc<Flaky>) {
        fs::create_dir_all(self.path(name)).unwrap();
        let workspace = self.open(name);
        let synced = Synced::lock(&workspace).unwrap();
        let mut flaky = None;
        let store = Store::open(&self.store(), &self.access, false).unwrap().with(|inner| {
            let wrapped = Flaky::new(inner);
            flaky = Some(Arc::clone(&wrapped));
            wrapped
        });
        let replica = self.runtime.block_on(Replica::with(&workspace, synced, store)).unwrap();
        (Host { workspace, replica }, flaky.unwrap())
    }

    /// The tree of the latest commit, as a clone has it.
    fn stored(&self) -> BTreeMap<String, String> {
        let name = format!("clone-{}", uuid::Uuid::new_v4());
        self.clone(&name).unwrap();
        self.tree(&name)
    }

    fn commits(&self) -> u64 {
        let found = self.clone(&format!("clone-{}", uuid::Uuid::new_v4())).unwrap();
        found.number
    }
}

#[test]
fn hosts_commit_to_one_workspace_and_follow_each_other() {
    let scene = Scene::new();
    let [one, two] = scene.hosts(&["a", "sub/b"], ["one", "two"]);
    change(&scene, &one, |tree| put(tree, "a", "by one"), None).unwrap();
    // The copy of the second host is old, but this is about another file.
    change(&scene, &two, |tree| put(tree, "new/deep/file", "by two"), None).unwrap();
    change(&scene, &two, |tree| tree.remove_file("sub/b").unwrap(), None).unwrap();
    one.refresh(&scene);
    two.refresh(&scene);
    assert_eq!(scene.tree("one"), scene.tree("two"));
    assert_eq!(scene.tree("one"), scene.stored());
    assert_eq!(fs::read(scene.path("two").join("a")).unwrap(), b"by one");
    assert!(scene.path("one").join("new/deep/file").exists());
    assert!(!scene.path("one").join("sub/b").exists() && scene.path("one").join("sub").exists());
    assert_eq!(scene.commits(), 4);
    // A commit that changes nothing which is stored is none of the store.
    change(&scene, &one, |tree| put(tree, "a", "by one"), None).unwrap();
    assert_eq!(scene.commits(), 4);
}

#[test]
fn what_another_host_has_changed_is_a_conflict() {
    let scene = Scene::new();
    let [one, two] = scene.hosts(&["a", "d/x", "e/y", "f"], ["one", "two"]);
    let remove = |tree: &Overlay, files: &[&str], directory: &str| {
        files.iter().for_each(|file| tree.remove_file(file).unwrap());
        tree.remove_directory(directory).unwrap();
    };
    change(&scene, &one, |tree| put(tree, "a", "by one"), None).unwrap();
    change(&scene, &one, |tree| put(tree, "d/new", "by one"), None).unwrap();
    change(&scene, &one, |tree| remove(tree, &["e/y"], "e"), None).unwrap();
    let before = scene.stored();
    let changed = change(
        &scene,
        &two,
        |tree| {
            put(tree, "a", "by two");
            put(tree, "g", "by two");
        },
        None,
    );
    assert_eq!(conflict(changed), ["a"]);
    // Also what the call writes as it was here.
    assert_eq!(conflict(change(&scene, &two, |tree| put(tree, "a", "a"), None)), ["a"]);
    // What is in a directory that is removed, and a directory that is gone.
    assert_eq!(conflict(change(&scene, &two, |tree| remove(tree, &["d/x"], "d"), None)), ["d"]);
    assert_eq!(conflict(change(&scene, &two, |tree| put(tree, "e/z", ""), None)), ["e/z"]);
    assert_eq!(scene.stored(), before);
    two.refresh(&scene);
    assert_eq!(scene.tree("two"), before);
    change(&scene, &two, |tree| put(tree, "a", "by two, then"), None).unwrap();
    // A file in place of a directory, and the reverse.
    let file = |tree: &Overlay| {
        remove(tree, &["d/x", "d/new"], "d");
        put(tree, "d", "a file");
    };
    change(&scene, &two, file, None).unwrap();
    assert_eq!(conflict(change(&scene, &one, |tree| put(tree, "d/more", ""), None)), ["d/more"]);
    one.refresh(&scene);
    let directory = |tree: &Overlay| {
        tree.remove_file("d").unwrap();
        put(tree, "d/again", "x");
    };
    change(&scene, &one, directory, None).unwrap();
    two.refresh(&scene);
    assert_eq!(scene.tree("one"), scene.tree("two"));
    assert_eq!(scene.tree("one"), scene.stored());
}

#[test]
fn a_call_with_a_key_is_made_once() {
    let scene = Scene::new();
    let [one, two, three] = scene.hosts(&["a"], ["one", "two", "three"]);
    let by_one = one.open_call(&scene, "k1");
    change(&scene, &one, |tree| put(tree, "a", "1"), Some(("k1", "done by one"))).unwrap();
    assert_eq!(scene.runtime.block_on(by_one.end(b"not this".to_vec())).unwrap(), "done by one");
    // Delivered again, to each host.
    for host in [&one, &two, &three] {
        assert_eq!(host.result(&scene, "k1"), "done by one");
    }
    // Two hosts make it at the same time: one of them is first, and the changes of the other do not count.
    let (by_one, by_two) = (one.open_call(&scene, "k2"), two.open_call(&scene, "k2"));
    change(&scene, &two, |tree| put(tree, "b", "by two"), Some(("k2", "done by two"))).unwrap();
    let changed = change(&scene, &one, |tree| put(tree, "c", "by one"), Some(("k2", "no")));
    assert!(matches!(changed, Err(CommitError::Repeated)), "{changed:?}");
    for call in [by_one, by_two] {
        assert_eq!(scene.runtime.block_on(call.end(b"failed".to_vec())).unwrap(), "done by two");
    }
    // Also if the first one has told that the call has failed.
    let (by_one, by_two) = (one.open_call(&scene, "k3"), two.open_call(&scene, "k3"));
    assert_eq!(scene.runtime.block_on(by_one.end(b"failed".to_vec())).unwrap(), "failed");
    two.refresh(&scene);
    let changed = change(&scene, &two, |tree| put(tree, "c", "by two"), Some(("k3", "done")));
    assert!(matches!(changed, Err(CommitError::Repeated)), "{changed:?}");
    assert_eq!(scene.runtime.block_on(by_two.end(b"no".to_vec())).unwrap(), "failed");
    assert_eq!(three.result(&scene, "k3"), "failed");
    assert_eq!(scene.stored().into_keys().collect::<Vec<_>>(), ["a", "b"]);
    // A call that was begun and not ended was not made.
    drop(one.open_call(&scene, "k4"));
    drop(two.open_call(&scene, "k4"));
}

#[test]
fn a_refresh_that_nobody_waits_for_is_made_whole() {
    let scene = Scene::new();
    let [one, two] = scene.hosts(&["a"], ["one", "two"]);
    for turn in 0..20 {
        let content = format!("{turn}");
        change(&scene, &one, |tree| put(tree, "a", &content), None).unwrap();
        let replica = Arc::clone(&two.replica);
        let refresh =
            scene.runtime.spawn(async move { replica.bring_up_to_date(LOCK_TIMEOUT).await });
        std::thread::sleep(std::time::Duration::from_micros(200 * turn));
        refresh.abort();
        // What the copy is said to have is what it has.
        let live = scene.runtime.block_on(two.replica.live.lock());
        let on_disk =
            cofferdam_plugin::digest::Digest::of(&fs::read(scene.path("two").join("a")).unwrap());
        let content = live.on_disk("a").and_then(|item| item.content()).unwrap();
        assert_eq!(content.parts().map(|(_, digest, _)| digest).collect::<Vec<_>>(), [on_disk]);
    }
    two.refresh(&scene);
    assert_eq!(scene.tree("two"), scene.stored());
}

#[test]
fn calls_that_read_do_not_wait_for_a_long_one_that_changes_the_workspace() {
    let scene = Scene::new();
    let [one, two] = scene.hosts(&["a"], ["one", "two"]);
    let long = begin(&scene, &two);
    change(&scene, &one, |tree| put(tree, "a", "by one"), None).unwrap();
    let refresh = |only_reads| scene.runtime.block_on(two.replica.refresh(only_reads));
    let begun = std::time::Instant::now();
    assert!(!refresh(true).unwrap());
    assert!(begun.elapsed() < LOCK_TIMEOUT / 2);
    assert_eq!(fs::read(scene.path("two").join("a")).unwrap(), b"a");
    // What it knows of the store is in its own commit, which is about another place.
    put(long.overlay(), "b", "by two");
    long.commit(Purpose::default()).unwrap();
    assert!(refresh(true).unwrap());
    assert_eq!(fs::read(scene.path("two").join("a")).unwrap(), b"by one");
    assert_eq!(scene.tree("two"), scene.stored());
}

#[test]
fn keys_and_results_are_bounded() {
    let scene = Scene::new();
    let [one] = scene.hosts(&["a"], ["one"]);
    let long = "k".repeat(257);
    for key in ["", "a b", "a\n", "é", &long] {
        let error = scene.runtime.block_on(one.replica.claim(key)).unwrap_err();
        assert!(matches!(error, FleetError::Key(_)), "{key}: {error}");
    }
    let before = scene.commits();
    let large = "x".repeat(usize::try_from(MAX_RESULT_BYTES).unwrap() + 1);
    let call = one.open_call(&scene, "../../commits/1");
    let changed =
        change(&scene, &one, |tree| put(tree, "a", "1"), Some(("../../commits/1", &large)));
    assert!(matches!(changed, Err(CommitError::NotPublished(_))), "{changed:?}");
    assert_eq!(fs::read(scene.path("one").join("a")).unwrap(), b"a");
    let error = scene.runtime.block_on(call.end(large.into_bytes())).unwrap_err();
    assert!(matches!(error, FleetError::LargeResult(..)), "{error}");
    assert_eq!(scene.commits(), before);
}

#[test]
fn the_same_call_waits_on_one_host() {
    let scene = Scene::new();
    let [one] = scene.hosts(&["a"], ["one"]);
    let first = one.open_call(&scene, "k");
    let replica = Arc::clone(&one.replica);
    let second = scene.runtime.spawn(async move { replica.claim("k").await });
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!second.is_finished());
    change(&scene, &one, |tree| put(tree, "a", "1"), Some(("k", "once"))).unwrap();
    drop(first);
    let second = scene.runtime.block_on(second).unwrap().unwrap();
    assert!(matches!(second, Claim::Ended(result) if result == "once"));
}

#[test]
fn what_the_store_does_not_have_is_discarded_when_a_copy_is_opened() {
    let scene = Scene::new();
    let [one, two] = scene.hosts(&["a", "sub/b", "keep"], ["one", "two"]);
    change(&scene, &one, |tree| put(tree, "sub/c", "c"), None).unwrap();
    scene.runtime.block_on(one.replica.save()).unwrap();
    drop(one);
    change(&scene, &two, |tree| put(tree, "keep", "by two"), None).unwrap();
    // As a process leaves it that was killed between the two steps of a commit, and worse.
    scene.write("one", "a", "not published");
    scene.write("one", "more", "not published");
    fs::remove_file(scene.path("one").join("sub/b")).unwrap();
    let one = scene.host("one");
    assert_eq!(scene.tree("one"), scene.stored());
    change(&scene, &one, |tree| put(tree, "a", "again"), None).unwrap();
    assert_eq!(scene.tree("one"), scene.stored());
    // No other process uses the copy.
    let workspace = scene.open("one");
    let opened = Replica::open(&workspace, scene.store(), &scene.access);
    assert!(matches!(scene.runtime.block_on(opened), Err(FleetError::InUse)));
}

#[test]
fn what_ignore_rules_leave_out_stays_on_the_host() {
    let scene = Scene::new();
    scene.write("origin", ".gitignore", "target/\n*.log\n!keep.log\n");
    let [one, two] = scene.hosts(&["a"], ["one", "two"]);
    let build = |tree: &Overlay| {
        put(tree, "target/debug/out", "x");
        put(tree, "sub/run.log", "x");
        put(tree, "sub/keep.log", "x");
        put(tree, "sub/.gitignore", "private\n");
        put(tree, "sub/private", "x");
    };
    change(&scene, &one, build, None).unwrap();
    two.refresh(&scene);
    let stored = [".gitignore", "a", "sub", "sub/.gitignore", "sub/keep.log"];
    assert_eq!(scene.stored().into_keys().collect::<Vec<_>>(), stored);
    assert_eq!(scene.tree("two"), scene.stored());
    assert!(scene.path("one").join("target/debug/out").exists());
    // It does not keep a directory on other hosts, and does not hinder them.
    let remove = |tree: &Overlay| {
        tree.remove_file("sub/keep.log").unwrap();
        tree.remove_file("sub/.gitignore").unwrap();
        tree.remove_directory("sub").unwrap();
    };
    change(&scene, &two, remove, None).unwrap();
    one.refresh(&scene);
    assert!(scene.path("one").join("sub/run.log").exists());
    change(&scene, &one, |tree| put(tree, "sub/again", "x"), None).unwrap();
    assert_eq!(
        scene.stored().into_keys().collect::<Vec<_>>(),
        [".gitignore", "a", "sub", "sub/again"]
    );
}

#[test]
fn a_request_that_fails_is_settled() {
    let scene = Scene::new();
    let [other] = scene.hosts(&["a"], ["other"]);
    let (host, flaky) = scene.flaky("flaky");
    let write = |content: &'static str| move |tree: &Overlay| put(tree, "a", content);
    let on_disk = || fs::read_to_string(scene.path("flaky").join("a")).unwrap();
    // It had its effect: the commit counts.
    flaky.fail(&[Fault::After]);
    change(&scene, &host, write("1"), None).unwrap();
    assert_eq!(on_disk(), "1");
    // It had none: an empty commit takes its number, and the next one follows.
    let before = scene.commits();
    flaky.fail(&[Fault::Before]);
    let changed = change(&scene, &host, write("2"), None);
    assert!(matches!(changed, Err(CommitError::NotPublished(_))), "{changed:?}");
    assert_eq!((on_disk().as_str(), scene.commits()), ("1", before + 1));
    // It would have its effect later: it is too late then.
    flaky.fail(&[Fault::Late]);
    change(&scene, &host, write("3"), None).unwrap_err();
    let late = scene.runtime.block_on(flaky.deliver());
    assert!(matches!(&late[..], [Some(_)]), "{late:?}");
    change(&scene, &host, write("4"), None).unwrap();
    // It is not known: what it was is seen when the store answers again.
    flaky.fail(&[Fault::Late, Fault::Before]);
    let changed = change(&scene, &host, write("5"), None);
    assert!(matches!(changed, Err(CommitError::InDoubt(_))), "{changed:?}");
    assert_eq!(on_disk(), "4");
    assert!(matches!(&scene.runtime.block_on(flaky.deliver())[..], [None]));
    host.refresh(&scene);
    other.refresh(&scene);
    assert_eq!(on_disk(), "5");
    assert_eq!(scene.tree("flaky"), scene.tree("other"));
    // A store that is down.
    *flaky.is_down.lock().unwrap() = true;
    let changed = change(&scene, &host, write("6"), None);
    assert!(matches!(changed, Err(CommitError::NotPublished(_))), "{changed:?}");
    *flaky.is_down.lock().unwrap() = false;
    assert_eq!(on_disk(), "5");
    change(&scene, &host, write("6"), None).unwrap();
    other.refresh(&scene);
    assert_eq!(scene.tree("flaky"), scene.tree("other"));
}

#[test]
fn a_call_whose_request_failed_is_ended_once() {
    let scene = Scene::new();
    let [other] = scene.hosts(&["a"], ["other"]);
    let (host, flaky) = scene.flaky("flaky");
    let call = host.open_call(&scene, "k");
    flaky.fail(&[Fault::Late, Fault::Before]);
    let changed = change(&scene, &host, |tree| put(tree, "a", "1"), Some(("k", "done")));
    assert!(matches!(changed, Err(CommitError::InDoubt(_))), "{changed:?}");
    scene.runtime.block_on(flaky.deliver());
    // The host reports what counts, not what it has seen.
    assert_eq!(scene.runtime.block_on(call.end(b"in doubt".to_vec())).unwrap(), "done");
    assert_eq!(other.result(&scene, "k"), "done");
}

#[test]
fn many_hosts_at_the_same_time_lose_nothing() {
    const HOSTS: usize = 4;
    const COMMITS: usize = 12;
    let scene = Scene::new();
    let names: [String; HOSTS] = std::array::from_fn(|number| format!("host-{number}"));
    let hosts = scene.hosts(&["shared"], names.each_ref().map(String::as_str));
    let commit = &|(number, host): (usize, &Host), count: usize| {
        host.refresh(&scene);
        let write = |tree: &Overlay| {
            put(tree, &format!("{number}/{count}"), "x");
            if count.is_multiple_of(3) {
                put(tree, "shared", &format!("{number}/{count}"));
            }
        };
        change(&scene, host, write, None).is_ok()
    };
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for host in hosts.iter().enumerate() {
            let run = move || (0..COMMITS).filter(|count| commit(host, *count)).count();
            threads.push(scope.spawn(run));
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    hosts.iter().for_each(|host| host.refresh(&scene));
    let stored = scene.stored();
    for name in &names {
        assert_eq!(scene.tree(name), stored);
    }
    let files = stored.keys().filter(|place| place.contains('/')).count();
    assert_eq!(files, counts.iter().sum::<usize>());
    // What does not collide is never refused.
    assert!(counts.iter().all(|count| *count >= COMMITS - COMMITS.div_ceil(3)), "{counts:?}");
    assert_eq!(scene.commits(), 1 + files as u64);
}
