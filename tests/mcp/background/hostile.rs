//! Programs that stay and attack: the workspace, the host's own files, and the ports of others.

use std::fs;

use serde_json::json;

use super::{Client, Scene};

/// What a program tries to write; none of it may succeed.
const WRITES: &str = "
for path in a.txt new.txt dir/b.txt dir/new .git/config .git/hooks/pre-commit .cofferdam/journal.jsonl \\
    .cofferdam/owner .cofferdam/new cofferdam.toml /etc/passwd /usr/bin/new $OUTSIDE; do
  (echo evil > $path) 2>/dev/null && echo \"wrote $path\"
done
rm -f a.txt; rm -rf dir .git; mv a.txt c.txt; mkdir made; ln -s /etc/passwd link; chmod 777 a.txt
ln a.txt hard; touch -d 2000-01-01 a.txt; truncate -s 0 a.txt; mount --bind /tmp dir
for link in /proc/self/root/$PWD/a.txt /proc/1/root/$PWD/a.txt /proc/self/cwd/a.txt; do
  (echo evil > $link) && echo \"wrote $link\"
done
python3 -c \"
import os
for flags in (os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_RDONLY | os.O_TRUNC):
    try:
        os.open('a.txt', flags)
        print('wrote by', flags)
    except OSError:
        pass
\"
cat .cofferdam/journal.jsonl && echo 'read the journal'
echo scratch > $TMPDIR/x && cat $TMPDIR/x
echo tried
exec sleep 1000
";

#[test]
fn a_program_changes_nothing_of_the_workspace() {
    for scene in Scene::all() {
        let place = &scene.place;
        for (path, text) in [("a.txt", "a"), ("dir/b.txt", "b")] {
            place.write(path, text);
        }
        place.with_git(&["init", "--quiet"]);
        let config = place.read(".git/config");
        let outside = place.home_file("outside");
        let server = scene.serve();
        let client = Client::new(&server);
        let writes = WRITES.replace("$OUTSIDE", outside.to_str().unwrap());
        let id = client.start(&writes);
        let output = client.prints(&id, "tried\n");
        assert!(!output.contains("wrote") && !output.contains("read the journal"), "{output}");
        assert!(output.contains("scratch\n"), "{output}");
        assert_eq!((place.read("a.txt"), place.read("dir/b.txt")), ("a".into(), "b".into()));
        assert_eq!(place.read(".git/config"), config);
        assert!(!outside.exists());
        let names = |path: &str| -> Vec<String> {
            let entries = fs::read_dir(place.workspace().join(path)).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names(""), [".cofferdam", ".git", "a.txt", "dir"]);
        assert!(scene.events("commit").is_empty());
        // Calls that write go on beside it.
        client.call("write_file", json!({"path": "a.txt", "content": "changed"}));
        assert_eq!(place.read("a.txt"), "changed");
    }
}

/// A program that listens on everything it can: on the ports of the sandbox's own services, on many
/// ports, and on a port that never accepts.
#[test]
fn strange_listeners_harm_nobody() {
    let scene = Scene::new("A", "");
    let script = "import socket, time\n\
                  held = []\n\
                  for port in [1, 53, 80, 24367] + list(range(30000, 30300)):\n    \
                      try: held.append(socket.create_server(('127.0.0.1', port), backlog=0))\n    \
                      except OSError as error: print(port, error)\n\
                  print('ready')\n\
                  time.sleep(1000)\n";
    scene.place.write("listen.py", script);
    let server = scene.serve();
    let (client, other) = (Client::new(&server), Client::new(&server));
    let id = client.start("exec python3 listen.py");
    client.prints(&id, "ready");
    let listed = client.call("list_processes", json!({}));
    let ports = listed["processes"][0]["ports"].as_array().unwrap();
    assert!(ports.len() <= 64 && !ports.contains(&json!(24367)), "{ports:?}");
    // Connections that are never accepted do not hold up the call's end, nor other calls.
    let connect = "import socket\n\
                   held = [socket.create_connection(('127.0.0.1', 30000), timeout=5) for _ in range(200)]\n\
                   held[0].sendall(b'x' * 100000)\n\
                   print(len(held))\n";
    client.call("write_file", json!({"path": "connect.py", "content": connect}));
    assert_eq!(client.bash("timeout 60 python3 connect.py"), "200\n");
    assert_eq!(other.bash("echo other"), "other\n");
    assert_eq!(client.call("stop_process", json!({"process_id": id}))["state"], "stopped");
    assert_eq!(client.bash("echo own"), "own\n");
}
