//! How programs that stay end: with all their processes, whatever these have done to outlive them.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{Client, Piped, Scene, TIMEOUT};

/// A program that ignores signals and leaves processes behind in sessions and groups of their own, by
/// double forks. All of them have `marker` among their arguments.
fn stubborn(marker: &str) -> String {
    format!(
        "python3 -c \"
import os, signal, sys, time
for number in (1, 2, 3, 10, 12, 13, 14, 15, 17, 20, 21, 22):
    signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.setpgid(0, 0) if os.getpid() != os.getsid(0) else None
        if os.fork() == 0:
            time.sleep(10000)
        time.sleep(10000)
print('ready')
time.sleep(float(sys.argv[2]))
\" {marker} "
    )
}

/// The processes with a text among their arguments.
fn processes(marker: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let arguments = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    arguments.filter(|text| String::from_utf8_lossy(text).contains(marker)).count()
}

#[track_caller]
fn wait_until_gone(marker: &str) {
    let begin = Instant::now();
    while processes(marker) > 0 {
        assert!(begin.elapsed() < TIMEOUT, "{} are left", processes(marker));
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns a text that no other process has among its arguments.
fn marker(name: &str) -> String {
    static MARKERS: AtomicUsize = AtomicUsize::new(0);
    let number = MARKERS.fetch_add(1, Ordering::Relaxed);
    format!("stays-{name}-{}-{number}", std::process::id())
}

#[test]
fn stopping_a_program_ends_all_its_processes() {
    for scene in Scene::all() {
        let server = scene.serve();
        let client = Client::new(&server);
        let marker = marker("stopped");
        let id = client.start(&format!("{} 10000", stubborn(&marker)));
        client.prints(&id, "ready");
        assert!(processes(&marker) >= 4, "{}", processes(&marker));
        let stopped = client.call("stop_process", json!({"process_id": id}));
        assert_eq!((&stopped["state"], processes(&marker)), (&json!("stopped"), 0));
        // Once more, nothing happens; the output is kept.
        assert_eq!(client.call("stop_process", json!({"process_id": id}))["state"], "stopped");
        assert_eq!(client.prints(&id, "ready"), "ready\n");
        let ended = scene.events("program_ended");
        assert_eq!((scene.events("program_started").len(), ended.len()), (1, 1));
        let reason = ended[0]["reason"].as_str().unwrap();
        assert!(reason.starts_with("process-1, bash of processes, stopped after "), "{reason}");
        assert_eq!(ended[0]["call"], scene.events("program_started")[0]["call"]);
    }
}

#[test]
fn a_program_that_exits_leaves_no_process() {
    for scene in Scene::all() {
        let server = scene.serve();
        let client = Client::new(&server);
        let marker = marker("exited");
        let id = client.start(&format!("{} 0.5; exit 3", stubborn(&marker)));
        let ended = client.ended(&id);
        assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("exited"), &json!(3)));
        assert_eq!(processes(&marker), 0);
    }
}

#[test]
fn the_end_of_a_session_ends_its_programs() {
    for scene in Scene::all() {
        let server = scene.serve();
        let (client, other) = (Client::new(&server), Client::new(&server));
        let (marker, others) = (marker("ended"), marker("other"));
        for _ in 0..2 {
            let id = client.start(&format!("{} 10000", stubborn(&marker)));
            client.prints(&id, "ready");
        }
        let id = other.start(&format!("{} 10000", stubborn(&others)));
        other.prints(&id, "ready");
        client.end();
        wait_until_gone(&marker);
        assert!(processes(&others) >= 4, "a program of another session has ended");
        // The server itself ends, in an orderly way.
        server.stop();
        assert_eq!(processes(&others), 0);
        assert_eq!(scene.events("program_ended").len(), 3);
    }
}

#[test]
fn programs_end_when_the_client_closes_the_pipe() {
    for scene in Scene::all() {
        let mut piped = Piped::new(&scene);
        let marker = marker("closed");
        let command = format!("{} 10000", stubborn(&marker));
        let started = piped.call("start_process", &json!({"command": command, "wait_ms": 30_000}));
        assert_eq!(started["output"], "ready\n", "{started}");
        piped.stdin = None;
        piped.child.wait().unwrap();
        assert_eq!(processes(&marker), 0);
        assert_eq!(scene.events("program_ended").len(), 1);
    }
}

#[test]
fn programs_end_when_the_host_is_killed() {
    for scene in Scene::all() {
        let mut piped = Piped::new(&scene);
        let marker = marker("killed");
        let command = format!("{} 10000", stubborn(&marker));
        let started = piped.call("start_process", &json!({"command": command, "wait_ms": 30_000}));
        assert_eq!(started["output"], "ready\n", "{started}");
        kill_process(Pid::from_child(&piped.child), Signal::KILL).unwrap();
        wait_until_gone(&marker);
    }
}
