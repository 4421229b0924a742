//! A program that only reads does not block the host or the user, and another process does not
//! block the host.

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::children::Scene;
use super::text;
use crate::support::Place;

/// How long `read_file` and the user's own programs may take meanwhile, on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// Takes as many leases and locks on a file as possible, and sleeps.
const HOLD: &str = "
import ctypes, fcntl, os, struct, sys, time
file = os.open('file', os.O_RDONLY)
def attempt(name, do):
    try:
        do()
        print(name)
    except OSError:
        pass
attempt('lease', lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK))
attempt('lease', lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK))
attempt('notification', lambda: fcntl.fcntl(os.open('.', os.O_RDONLY), fcntl.F_NOTIFY, 2))
attempt('open lock', lambda: fcntl.fcntl(file, 37, struct.pack('hhqqi4x', 0, 0, 0, 0, 0)))
fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
print('tried', flush=True)
time.sleep(3)
";

#[test]
fn a_program_that_only_reads_does_not_block_others() {
    for scene in Scene::all() {
        scene.place.write("file", "the user's\n");
        scene.change_owner(&scene.place.workspace());
        let args = json!({"program": "python3", "arguments": ["-c", HOLD]});
        let mut command = scene.command(&args);
        let run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        let started = Instant::now();
        let path = scene.place.workspace().join("file");
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        lock_all(&file).unwrap_or_else(|error| panic!("{scene}: {error}"));
        let read = scene.place.run(&["call", "files.read_file", r#"{"path": "file"}"#]);
        assert_eq!(read.status, 0, "{scene}: {read:?}");
        assert!(started.elapsed() < SOON, "{scene}: {:?}", started.elapsed());
        let output = run.wait_with_output().unwrap();
        let ended: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(text(&ended, "stdout"), "tried\n", "{scene}: {ended}");
    }
}

/// Takes each kind of lock that another process could hold.
fn lock_all(file: &fs::File) -> io::Result<()> {
    use rustix::fs::{FlockOperation, fcntl_lock, flock};
    flock(file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// A process that has a lease on a file and does not release it.
#[expect(clippy::disallowed_methods, reason = "another program of the user")]
fn leaseholder(place: &Place) -> Child {
    let hold = "
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
time.sleep(60)
";
    let path = place.workspace().join("held");
    let mut child = Command::new("python3")
        .args(["-c", hold, path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    child
}

#[test]
fn another_programs_lease_is_an_immediate_error() {
    let place = Place::new();
    place.write("held", "text\n");
    place.write("other", "text\n");
    let mut holder = leaseholder(&place);
    let started = Instant::now();
    let read = place.run(&["call", "files.read_file", r#"{"path": "held"}"#]);
    let searched = place.run(&["call", "grep.search_text", r#"{"query": "text"}"#]);
    let took = started.elapsed();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_ne!(read.status, 0, "{read:?}");
    let said = format!("{read:?}");
    assert!(said.contains("temporarily unavailable") && !said.contains("Limit"), "{said}");
    assert!(format!("{searched:?}").contains("other"), "{searched:?}");
    assert!(took < SOON, "{took:?}");
}
