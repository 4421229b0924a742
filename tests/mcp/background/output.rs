//! The output of programs that stay, and what they see of the workspace.

use serde_json::json;

use super::{Client, Scene, TIERS};

#[test]
fn a_watcher_sees_what_later_calls_write() {
    for tier in TIERS {
        let scene = Scene::new(tier, "");
        // In tier B, later files directly in the root can't be read.
        let (old, new) = ("src/a.txt", "src/new.txt");
        scene.place.write(old, "first\n");
        let server = scene.serve();
        let client = Client::new(&server);
        let watch =
            client.start("while :; do cat src/a.txt src/new.txt 2>/dev/null; sleep 0.05; done");
        client.prints(&watch, "first");
        let args =
            json!({"path": old, "replacements": [{"old_string": "first", "new_string": "second"}]});
        client.call("atomic_replace", args);
        client.call("write_file", json!({"path": new, "content": "third\n"}));
        let output = client.prints(&watch, "second\nthird\n");
        assert!(output.starts_with("first\n"), "{output}");
    }
}

/// `inotify` tells a watcher of changes by other calls. In tier B, there is none.
#[test]
fn a_watcher_is_notified_of_changes() {
    let scene = Scene::new("A", "");
    let script = "import ctypes, os\n\
                  c = ctypes.CDLL(None)\n\
                  f = c.inotify_init()\n\
                  c.inotify_add_watch(f, b'.', 0x3c6)\n\
                  print('ready')\n\
                  while b'new.txt' not in os.read(f, 65536): pass\n\
                  print('changed')\n";
    scene.place.write("watch.py", script);
    let server = scene.serve();
    let client = Client::new(&server);
    let watch = client.start("exec python3 watch.py");
    client.prints(&watch, "ready");
    client.call("write_file", json!({"path": "new.txt", "content": "x"}));
    client.prints(&watch, "changed");
    assert_eq!(client.ended(&watch)["exit_code"], 0);
}

#[test]
fn output_is_read_in_pages() {
    let scene = Scene::new("A", "");
    let server = scene.serve();
    let client = Client::new(&server);
    let id = client.start("seq 1 30000; printf 'é'; printf '\\303'; printf '\\251\\377'");
    client.ended(&id);
    let mut wanted: String = (1..=30_000).map(|line| format!("{line}\n")).collect();
    wanted.push_str("éé\u{fffd}");
    let (mut all, mut offset, mut pages) = (String::new(), 0, 0);
    loop {
        let read = client.call("read_output", json!({"process_id": id, "offset": offset}));
        all.push_str(read["output"].as_str().unwrap());
        assert!(read.get("dropped").is_none() && read["next_offset"].as_u64() > Some(offset));
        offset = read["next_offset"].as_u64().unwrap();
        pages += 1;
        if read["more"] != true {
            break;
        }
    }
    assert!(all == wanted && pages > 5, "{pages}: {}", &all[all.len() - 40..]);
    assert_eq!(offset as usize, wanted.len() - 2, "in bytes of the program");
    // Without an offset, it is the end.
    let read = client.call("read_output", json!({"process_id": id}));
    let output = read["output"].as_str().unwrap();
    assert!(wanted.ends_with(output) && output.len() > 8000 && read.get("more").is_none());
    let read = client.call("read_output", json!({"process_id": id, "offset": offset}));
    assert_eq!((&read["output"], &read["next_offset"]), (&json!(""), &json!(offset)));
    let error = client.fails("read_output", json!({"process_id": id, "offset": offset + 1}));
    assert!(error.starts_with("InvalidOffset: "), "{error}");
}

#[test]
fn old_output_is_dropped_and_that_is_said() {
    let scene = Scene::new("A", "");
    let server = scene.serve();
    let client = Client::new(&server);
    let id = client.start("seq 1 300000");
    let ended = client.ended(&id);
    let written: u64 = (1..=300_000_u64).map(|line| line.to_string().len() as u64 + 1).sum();
    assert!(ended["output"].as_str().unwrap().ends_with("\n300000\n"));
    assert_eq!(ended["next_offset"], written);
    assert!(ended.get("dropped").is_none(), "nothing was asked for that is missing");
    let read = client.call("read_output", json!({"process_id": id, "offset": 10}));
    assert_eq!(read["dropped"], written - (1 << 20) - 10, "{read}");
    assert_eq!(read["more"], true);
}

#[test]
fn reading_waits_for_output() {
    let scene = Scene::new("A", "");
    let server = scene.serve();
    let client = Client::new(&server);
    let id = client.start("sleep 1; echo one; sleep 1000");
    let wait = json!({"process_id": id, "offset": 0, "wait_ms": 30_000});
    assert_eq!(client.call("read_output", wait)["output"], "one\n");
    // It ends at its time, and when the program does.
    let wait = json!({"process_id": id, "offset": 4, "wait_ms": 300});
    let read = client.call("read_output", wait);
    assert_eq!((&read["output"], &read["state"]), (&json!(""), &json!("running")));
    let brief = client.start("sleep 1");
    let wait = json!({"process_id": brief, "wait_ms": 30_000});
    assert_eq!(client.call("read_output", wait)["state"], "exited");
}

#[test]
fn granted_variables_are_redacted() {
    let settings = "[grants.processes]\nfiles = 'read'\nprocess = ['bash']\nbackground = true\n\
                    environment = ['STAY_TOKEN']\n";
    let scene = Scene::new("A", "");
    crate::trial::configure(&scene.place, settings);
    let server = scene.serve();
    let client = Client::new(&server);
    let id = client.start("echo $STAY_TOKEN; printf a-value; sleep 0.3; echo -of-some; echo end");
    let output = client.prints(&id, "end");
    assert_eq!(output, "[STAY_TOKEN]\n[STAY_TOKEN]\nend\n");
}
