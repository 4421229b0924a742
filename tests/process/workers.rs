//! Programs that talk with processes of their own: workers, daemons, watchers. They work as they do
//! without a sandbox, and none of their processes outlives the call.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ALL, TIERS, ran, runner, script_with, text};
use crate::programs;
use crate::support::Place;
use crate::trial::Trial;

/// Uses every way in which Python starts workers, and a manager, which listens on a Unix socket.
const POOLS: &str = "import multiprocessing
def square(x):
    return x * x
if __name__ == '__main__':
    for way in ('fork', 'forkserver', 'spawn'):
        with multiprocessing.get_context(way).Pool(2) as pool:
            print(way, pool.map(square, range(4)))
    with multiprocessing.Manager() as manager:
        shared = manager.dict()
        child = multiprocessing.Process(target=shared.update, args=({'a': 1},))
        child.start()
        child.join()
        print('manager', dict(shared))
";

/// Waits for a change of a file that a child makes: inotify(7).
const WATCH: &str = "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(0)
if watch < 0:
    raise OSError(ctypes.get_errno(), 'inotify')
libc.inotify_add_watch(watch, b'.', 0x100)
if os.fork() == 0:
    open('changed', 'w').close()
    os._exit(0)
print('changed' if b'changed' in os.read(watch, 4096) else 'other')
";

/// A host whose programs are those that were installed for the tests.
fn trial(place: Place, tier: &str) -> Trial {
    runner(place, tier, &format!("{ALL}\n{}", programs::settings()))
}

/// Runs a script whose changes are thrown away.
fn run(trial: &Trial, script: &str) -> Value {
    ran(trial, script_with(script, "changes", json!("discard")))
}

/// Whether a process with this text in its arguments is running.
fn is_running(mark: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).contains(mark)
    })
}

/// Waits until no process with this text in its arguments is running.
fn assert_ends(mark: &str) {
    let started = Instant::now();
    while is_running(mark) {
        assert!(started.elapsed() < Duration::from_secs(5), "{mark} is still running");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn pythons_workers_and_managers_work() {
    let place = Place::new();
    place.write("pools.py", POOLS);
    let trial = trial(place, "A");
    let ended = run(&trial, "python3 pools.py");
    let wanted =
        "fork [0, 1, 4, 9]\nforkserver [0, 1, 4, 9]\nspawn [0, 1, 4, 9]\nmanager {'a': 1}\n";
    assert_eq!(text(&ended, "stdout"), wanted, "{ended}");
}

#[test]
fn mypys_workers_and_daemon_work_and_the_daemon_ends_with_the_call() {
    let place = Place::new();
    place.write("good.py", "x: int = 1\n");
    place.write("bad.py", "x: int = ''\n");
    let trial = trial(place, "A");
    let ended = run(&trial, "mypy -n 2 good.py bad.py");
    assert!(text(&ended, "stdout").contains("Found 1 error in 1 file"), "{ended}");
    let mark = format!("status-{}.json", std::process::id());
    let daemon = format!("dmypy --status-file {mark}");
    let script = format!(
        "{daemon} run -- --cache-dir=/dev/null good.py && {daemon} status && \
         {daemon} check bad.py; echo x > other; {daemon} status"
    );
    let ended = run(&trial, &script);
    let stdout = text(&ended, "stdout");
    assert!(stdout.contains("Success: no issues"), "{ended}");
    assert!(stdout.contains("Found 1 error"), "{ended}");
    assert!(stdout.matches("Daemon is up and running").count() == 2, "{ended}");
    assert_ends(&mark);
}

/// Gradle's daemon listens on loopback, and is found again by a file. It takes some 20 seconds.
#[test]
fn gradles_daemon_works_and_ends_with_the_call() {
    if programs::find("gradle").is_none() {
        return;
    }
    let place = Place::new();
    place.write("build.gradle", "println 'in ' + (System.getProperty('mark') ?: 'none')\n");
    let trial = trial(place, "A");
    let mark = format!("gradle-{}", std::process::id());
    let gradle = format!("gradle --daemon --offline -q -Dorg.gradle.jvmargs=-Dmark={mark} help");
    let home = "export GRADLE_USER_HOME=$XDG_CACHE_HOME/gradle";
    let ended = run(&trial, &format!("{home}; {gradle} && {gradle} && gradle --status"));
    let stdout = text(&ended, "stdout");
    assert_eq!(stdout.matches(&format!("in {mark}")).count(), 2, "{ended}");
    assert_eq!(stdout.matches("IDLE").count(), 1, "{ended}");
    assert_ends(&mark);
}

#[test]
fn pytests_workers_work() {
    for tier in TIERS {
        let place = Place::new();
        for number in 0..4 {
            place.write(&format!("test_{number}.py"), "def test_one():\n    assert True\n");
        }
        let trial = trial(place, tier);
        let ended = run(&trial, "pytest -n 2 -p no:cacheprovider");
        assert!(text(&ended, "stdout").contains("4 passed"), "{tier}: {ended}");
        assert!(text(&ended, "stdout").contains("2 workers"), "{tier}: {ended}");
    }
}

#[test]
fn jests_workers_work() {
    for tier in TIERS {
        let place = Place::new();
        place.write("package.json", "{\"name\": \"a\"}");
        for number in 0..3 {
            let test = "test('one', () => expect(process.env.JEST_WORKER_ID).toMatch(/[12]/));\n";
            place.write(&format!("{number}.test.js"), test);
        }
        let trial = trial(place, tier);
        for workers in ["", "--workerThreads"] {
            let ended = run(&trial, &format!("jest --ci -w 2 {workers} 2>&1"));
            assert!(text(&ended, "stdout").contains("3 passed"), "{tier} {workers}: {ended}");
        }
    }
}

#[test]
fn watchers_work() {
    let place = Place::new();
    place.write("watch.py", WATCH);
    let trial = trial(place, "A");
    let ended = run(&trial, "python3 watch.py");
    assert_eq!(text(&ended, "stdout"), "changed\n", "{ended}");
}

/// In tier B, a Unix socket can't be made, which is said by the error that programs expect.
#[test]
fn without_namespaces_there_are_only_pairs_of_sockets() {
    let trial = runner(Place::new(), "B", ALL);
    let sockets = "import socket\nsocket.socketpair()\nprint('pair')\n\
        try:\n    socket.socket(socket.AF_UNIX)\nexcept PermissionError as error:\n    print(error.errno)\n";
    let ended = ran(&trial, json!({"program": "python3", "arguments": ["-c", sockets]}));
    assert_eq!(text(&ended, "stdout"), "pair\n1\n", "{ended}");
}
