//! Hostile programs that a plugin started: attempts to escape, to outlive the call, or to exhaust
//! the machine. Each attack runs in both kinds of sandbox, as the user who runs the tests and, if
//! that is root, as an ordinary user as well.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ALL, TIERS, script, text};
use crate::support::{Ended, ORDINARY_UID, Place, copy_command, guest};
use crate::trial::configure;

/// A place whose programs run in one kind of sandbox, for one user.
pub(super) struct Scene {
    pub(super) place: Place,
    pub(super) user: Option<u32>,
    pub(super) tier: &'static str,
    /// The command and the guest, in a directory that every user can read.
    pub(super) open: Rc<TempDir>,
}

impl Scene {
    /// A scene for each kind of sandbox and each user.
    pub(super) fn all() -> Vec<Self> {
        let mut users = vec![None];
        if rustix::process::geteuid().is_root() {
            users.push(Some(ORDINARY_UID));
        }
        let open = Rc::new(tempfile::tempdir().unwrap());
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // The command expects its plugins beside itself; none are needed here.
        fs::create_dir(open.path().join("plugins")).unwrap();
        copy_command(&open.path().join("cofferdam"));
        fs::copy(guest("runner"), open.path().join("runner.wasm")).unwrap();
        let scene = |user| TIERS.map(|tier| Self::new(user, tier, &open));
        users.into_iter().flat_map(scene).collect()
    }

    fn new(user: Option<u32>, tier: &'static str, open: &Rc<TempDir>) -> Self {
        let place = Place::new();
        configure(&place, &format!("{ALL}[programs]\ntier = '{tier}'\n"));
        let scene = Self { place, user, tier, open: Rc::clone(open) };
        scene.change_owner(&scene.place.workspace());
        scene.change_owner(&scene.place.home());
        for folder in [scene.place.workspace(), scene.place.home()] {
            let above = folder.parent().unwrap();
            fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
        }
        scene
    }

    /// Makes the user the owner of everything beneath a directory.
    pub fn change_owner(&self, path: &Path) {
        let Some(user) = self.user else { return };
        chown(path, Some(user), Some(user)).unwrap();
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                self.change_owner(&entry.unwrap().path());
            }
        }
    }

    pub(super) fn command(&self, args: &Value) -> std::process::Command {
        let guest = self.open.path().join("runner.wasm");
        let args = args.to_string();
        self.command_of(&["--plugin", guest.to_str().unwrap(), "call", "runner.run", &args])
    }

    /// The command with other arguments, run as the scene's user.
    fn command_of(&self, args: &[&str]) -> std::process::Command {
        let mut command = self.place.command_at(&self.open.path().join("cofferdam"), args);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs a program and returns the result.
    pub(super) fn run(&self, args: &Value) -> Value {
        let output = self.command(args).output().unwrap();
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{self}: {error}: {output:?}"))
    }
}

impl std::fmt::Display for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tier {} as {:?}", self.tier, self.user)
    }
}

/// Whether a process with this word in its arguments is running.
fn is_alive(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap();
    processes.flatten().any(|process| {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&arguments).split('\0').any(|argument| argument == word)
    })
}

/// Waits until no such process is running.
fn assert_dies(word: &str, within: Duration, scene: &Scene) {
    let started = Instant::now();
    while is_alive(word) {
        assert!(started.elapsed() < within, "{scene}: {word} is still alive");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A word that no other process has in its arguments.
fn word(scene: &Scene, what: &str) -> String {
    format!("{what}-{}-{}-{:?}", std::process::id(), scene.tier, scene.user)
}

#[test]
fn no_socket_can_be_connected_to() {
    for scene in Scene::all() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let unix = scene.place.workspace().join("socket");
        let _unix = UnixListener::bind(&unix).unwrap();
        scene.change_owner(&unix);
        let attempts = format!(
            "import socket as s
def attempt(name, make):
    try:
        make()
        print(name)
    except OSError as e:
        pass
def tcp(family, address):
    c = s.socket(family, s.SOCK_STREAM); c.settimeout(2); c.connect(address)
def udp():
    c = s.socket(s.AF_INET, s.SOCK_DGRAM); c.settimeout(2); c.connect(('8.8.8.8', 53)); c.send(b'x')
attempt('tcp', lambda: tcp(s.AF_INET, ('127.0.0.1', {port})))
attempt('tcp out', lambda: tcp(s.AF_INET, ('1.1.1.1', 80)))
attempt('ipv6', lambda: tcp(s.AF_INET6, ('::1', {port})))
attempt('udp', udp)
attempt('unix', lambda: tcp(s.AF_UNIX, {unix:?}))
attempt('abstract', lambda: tcp(s.AF_UNIX, '\\0cofferdam-test'))
attempt('raw', lambda: s.socket(s.AF_INET, s.SOCK_RAW, 1))
attempt('packet', lambda: s.socket(17, s.SOCK_RAW, 0))
attempt('netlink', lambda: s.socket(16, s.SOCK_RAW, 0).send(b'x'))
print('tried')",
            unix = unix.to_str().unwrap()
        );
        let abstracts = abstract_listener();
        let tried = scene.run(&json!({"program": "python3", "arguments": ["-c", attempts]}));
        let mut connected: Vec<&str> = text(&tried, "stdout").lines().collect();
        // A socket in the program's own namespace leads nowhere.
        connected
            .retain(|name| !(scene.tier == "A" && ["netlink", "raw", "packet"].contains(name)));
        assert_eq!(connected, ["tried"], "{scene}: {tried}");
        drop(abstracts);
    }
}

#[cfg(target_os = "linux")]
fn abstract_listener() -> io::Result<UnixListener> {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name("cofferdam-test")?;
    UnixListener::bind_addr(&address)
}

#[test]
fn files_elsewhere_can_neither_be_read_nor_written() {
    for scene in Scene::all() {
        let secret = scene.place.home().join(".ssh/id_test");
        fs::create_dir_all(secret.parent().unwrap()).unwrap();
        fs::write(&secret, "the key").unwrap();
        scene.change_owner(&scene.place.home());
        let tried = scene.run(&script(&format!(
            "cat {key} 2>/dev/null; cat /proc/$PPID/environ /proc/1/environ 2>/dev/null | tr '\\0' '\\n' | grep HOME={home}; \
             cat /etc/shadow 2>/dev/null; ls {home} 2>/dev/null; \
             echo x > {key} 2>/dev/null; echo x > /usr/planted 2>/dev/null; echo x > /etc/planted 2>/dev/null; \
             echo x > {home}/planted 2>/dev/null; ln {key} /tmp/key 2>/dev/null && cat /tmp/key; echo tried",
            key = secret.display(),
            home = scene.place.home().display(),
        )));
        assert_eq!(text(&tried, "stdout"), "tried\n", "{scene}: {tried}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "the key", "{scene}");
        for planted in [Path::new("/usr/planted"), Path::new("/etc/planted")] {
            assert!(!planted.exists(), "{scene}");
        }
        assert!(!scene.place.home().join("planted").exists(), "{scene}");
    }
}

#[test]
fn the_hosts_records_are_not_changed_by_programs() {
    for scene in Scene::all() {
        // Creates records of the host: a commit.
        let mut first = script("echo 1 > file");
        first["changes"] = json!("keep");
        scene.run(&first);
        for changes in ["discard", "keep"] {
            let mut args = script(
                "rm -rf .cofferdam/history .cofferdam/journal*; echo x > .cofferdam/lock; echo 2 > file; true",
            );
            args["changes"] = json!(changes);
            scene.run(&args);
            let log = Ended::of(&mut scene.command_of(&["log", "--commits"]));
            assert_eq!(log.status, 0, "{scene}: {log:?}");
            assert!(!log.json()["records"].as_array().unwrap().is_empty(), "{scene}: {log:?}");
        }
    }
}

/// A program that can change nothing works directly on the workspace, which contains the host's
/// directory.
#[test]
fn the_hosts_records_are_not_read_by_programs() {
    for scene in Scene::all() {
        scene.place.write("file", "the first\n");
        scene.change_owner(&scene.place.workspace());
        let mut change = script("echo the second > file");
        change["changes"] = json!("keep");
        scene.run(&change);
        for changes in ["none", "discard", "keep"] {
            let mut look = script(
                "cat file; find .cofferdam -type f ! -name .gitignore -exec cat {} + 2>/dev/null; \
                 cat .cofferdam/journal.jsonl .cofferdam/*/* 2>/dev/null; cat .cofferdam/.gitignore",
            );
            look["changes"] = json!(changes);
            let seen = scene.run(&look);
            let wanted = if changes == "none" { "the second\n*\n" } else { "the second\n" };
            assert_eq!(text(&seen, "stdout"), wanted, "{scene}, {changes}: {seen}");
        }
    }
}

#[test]
fn no_process_outlives_a_run() {
    for scene in Scene::all() {
        let word = word(&scene, "daemon");
        let daemon = format!(
            "import os, sys, time
for _ in range(2):
    if os.fork(): sys.exit(0)
    os.setsid()
os.execvp('python3', ['python3', '-c', 'import time; time.sleep(300)', '{word}'])"
        );
        // After the program has exited, and after it was stopped.
        let mut args = json!({"program": "python3", "arguments": ["-c", daemon]});
        let ended = scene.run(&args);
        assert_eq!(ended["end"], json!({"exited": 0}), "{scene}: {ended}");
        assert_dies(&word, Duration::from_secs(20), &scene);
        args = json!({"program": "bash", "arguments": ["-c", format!("python3 -c \"$0\"; sleep 300"), daemon], "timeout_ms": 700});
        let ended = scene.run(&args);
        assert_eq!(ended["end"], "timed out", "{scene}: {ended}");
        assert_dies(&word, Duration::from_secs(20), &scene);
    }
}

#[test]
fn programs_are_killed_with_the_host() {
    // In tier B, a program that has left the process group is found by the helper.
    for scene in Scene::all() {
        let word = word(&scene, "orphan");
        let args = json!({"program": "python3", "arguments": ["-c", "import time; time.sleep(300)", word]});
        let mut host = scene.command(&args).spawn().unwrap();
        let started = Instant::now();
        while !is_alive(&word) {
            assert!(started.elapsed() < Duration::from_secs(30), "{scene}: never started");
            std::thread::sleep(Duration::from_millis(20));
        }
        // The arguments of the host itself contain the word only inside of its JSON.
        std::thread::sleep(Duration::from_millis(100));
        host.kill().unwrap();
        host.wait().unwrap();
        assert_dies(&word, Duration::from_secs(20), &scene);
    }
}

#[test]
fn each_limit_has_its_own_code() {
    for scene in Scene::all() {
        let limits = "[limits]\nprogram-memory-mb = 200\nprocesses = 40\nwrite-mb = 8\nprogram-call-ms = 40000\n";
        let settings = format!("{ALL}[programs]\ntier = '{}'\n{limits}", scene.tier);
        configure(&scene.place, &settings);
        let python = |program: &'static str, wanted| ("python3", program, wanted);
        for (name, program, wanted) in [
            python(
                "x = []\nwhile True: x.append(bytearray(b'x' * 1000000))",
                json!({"limit": "ProgramMemoryLimit"}),
            ),
            python(
                "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
                json!({"limit": "ProcessLimit"}),
            ),
            (
                // Python would ignore the signal and get an error from the write.
                "bash",
                "exec head -c 100000000 /dev/zero > \"$TMPDIR/large\"",
                json!({"limit": "FileSizeLimit"}),
            ),
            python("while True: print('x' * 10000)", json!({"limit": "ProgramOutputLimit"})),
        ] {
            let args = json!({"program": name, "arguments": ["-c", program], "timeout_ms": 30000});
            let ended = scene.run(&args);
            assert_eq!(ended["end"], wanted, "{scene}: {program}: {}", shown(&ended));
        }
        let endless = json!({"program": "python3", "arguments": ["-c", "while True: pass"], "timeout_ms": 500});
        assert_eq!(scene.run(&endless)["end"], "timed out", "{scene}");
    }
}

/// A result without its long parts.
fn shown(answer: &Value) -> String {
    answer.to_string().chars().take(400).collect()
}

#[test]
fn output_is_bounded_and_escaped() {
    for scene in Scene::all() {
        let args =
            json!({"program": "python3", "arguments": ["-c", "print('a' * 20_000_000 + 'z')"]});
        // This is more than an answer may contain, so the plugin's answer is refused after the
        // program succeeded.
        let ended = scene.command(&args).output().unwrap();
        assert_eq!(ended.status.code(), Some(4), "{scene}");
        let output: Value = serde_json::from_slice(&ended.stdout).unwrap();
        assert!(output.to_string().contains("OutputLimit"), "{scene}: {}", shown(&output));

        let args = script("printf '\\033]52;c;eA==\\007\\033[2J\\342\\200\\256'");
        let output = scene.command(&args).output().unwrap();
        assert!(!output.stdout.contains(&0x1b), "{scene}: {output:?}");
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(!shown.contains('\u{202e}'), "{scene}: {shown}");
    }
}

#[test]
fn only_three_descriptors_are_open() {
    for scene in Scene::all() {
        let look = "import os
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
print([fd for fd in range(1000) if is_open(fd)])";
        let tried = scene.run(&json!({"program": "python3", "arguments": ["-c", look]}));
        assert_eq!(text(&tried, "stdout"), "[0, 1, 2]\n", "{scene}: {tried}");
    }
}
