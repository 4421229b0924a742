//! The limits of programs that stay.

use serde_json::json;

use super::{Client, Scene, TIERS};

#[test]
fn the_number_of_programs_is_limited() {
    let scene = Scene::new("A", "");
    let server = scene.serve();
    let clients: Vec<Client<'_>> = (0..5).map(|_| Client::new(&server)).collect();
    let sleep = json!({"command": "exec sleep 1000", "wait_ms": 0});
    for client in &clients[..4] {
        for _ in 0..4 {
            client.call("start_process", sleep.clone());
        }
        let error = client.fails("start_process", sleep.clone());
        assert!(error.starts_with("TooManyProcesses: 4 programs of this session"), "{error}");
    }
    let error = clients[4].fails("start_process", sleep.clone());
    assert!(error.starts_with("TooManyProcesses: 16 programs of all sessions"), "{error}");
    clients[0].call("stop_process", json!({"process_id": "process-2"}));
    clients[4].call("start_process", sleep.clone());
    let error = clients[0].fails("start_process", sleep);
    assert!(error.starts_with("TooManyProcesses: 16"), "{error}");
}

/// Those that have ended are listed, and the oldest of them forgotten.
#[test]
fn the_number_of_known_programs_is_limited() {
    let scene = Scene::new("A", "");
    let server = scene.serve();
    let client = Client::new(&server);
    let stays = client.start("exec sleep 1000");
    for _ in 0..20 {
        let id = client.start("true");
        client.ended(&id);
    }
    let listed = client.call("list_processes", json!({}));
    let listed = listed["processes"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["process_id"]), (16, &json!(stays)));
    assert_eq!(listed[15]["process_id"], "process-21");
    let error = client.fails("read_output", json!({"process_id": "process-2"}));
    assert!(error.starts_with("ProcessNotFoundError: "), "{error}");
}

#[test]
fn what_takes_too_much_is_stopped() {
    for tier in TIERS {
        let scene = Scene::new(tier, "[limits]\nprogram-memory-mb = 64\nprocesses = 40\n");
        let server = scene.serve();
        let client = Client::new(&server);
        for (command, limit) in [
            ("exec cat /dev/zero", "ProgramOutputLimit"),
            (
                "exec python3 -c \"x = b'x' * (1 << 28); import time; time.sleep(100)\"",
                "ProgramMemoryLimit",
            ),
            ("for i in $(seq 60); do sleep 100 & done; wait", "ProcessLimit"),
        ] {
            let id = client.start(command);
            let ended = client.ended(&id);
            assert_eq!((&ended["state"], &ended["reason"]), (&json!("limit"), &json!(limit)));
        }
        let brief = json!({"command": "exec sleep 1000", "timeout_s": 1, "wait_ms": 30_000});
        let ended = client.call("start_process", brief);
        assert!(ended["running_ms"].as_u64().unwrap() < 20_000, "{ended}");
        assert_eq!(ended["state"], "timed_out");
        let reason = scene.events("program_ended").pop().unwrap()["reason"].take();
        assert!(reason.as_str().unwrap().contains("stopped at the limit"), "{reason}");
    }
}
