//! Programs that fill the disk: the workspace's changes, the plugin's cache, a full disk.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::children::Scene;
use super::{ALL, script_with};
use crate::support::Ended;
use crate::trial::configure;

/// By how much a run may exceed its limit for a moment, on a busy machine with a fast disk, in
/// bytes.
const SLACK_BYTES: u64 = 600 << 20;

/// Writes files of 1 MiB without end: `x1`, `x2`, ... in the directory `$0`.
const FILL: &str =
    "cd \"$0\"; for i in $(seq 4000); do head -c 1048576 /dev/zero > x$i || exit 9; done";

fn settings(scene: &Scene, limits: &str) {
    let tier = scene.tier;
    configure(&scene.place, &format!("{ALL}[programs]\ntier = '{tier}'\n[limits]\n{limits}\n"));
}

fn fill(directory: &str, changes: &str) -> Value {
    let arguments = json!(["-c", FILL, directory]);
    json!({"program": "bash", "arguments": arguments, "changes": changes, "timeout_ms": 120_000})
}

/// Runs a command; also returns the maximum number of bytes beneath these directories meanwhile.
fn run_watched(mut command: Command, directories: &[&Path]) -> (Ended, u64) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (done, over) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let mut most = 0;
            while over.recv_timeout(Duration::from_millis(20)).is_err() && most < 4 * SLACK_BYTES {
                most = most.max(directories.iter().map(|directory| size(directory)).sum());
                if matches!(over.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)) {
                    break;
                }
            }
            most
        });
        let output = child.wait_with_output().unwrap();
        drop(done);
        (output.into(), watch.join().unwrap())
    })
}

fn size(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

#[track_caller]
fn assert_stopped(ended: &Ended, code: &str, words: &str, scene: &Scene) {
    assert_ne!(ended.status, 0, "{scene}: {ended:?}");
    let answer = ended.json();
    assert!(ended.stdout.contains(&format!("\"{code}\"")), "{scene}: {answer}");
    assert!(ended.stdout.contains(words), "{scene}: {answer}");
}

/// Asserts that no temporary files are left.
fn assert_nothing_left(scene: &Scene) {
    let own = scene.place.workspace().join(".cofferdam");
    for directory in ["runs", "staging"] {
        let left = fs::read_dir(own.join(directory)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{scene}: {directory}");
    }
}

#[test]
fn changes_are_limited_while_they_are_written() {
    for scene in Scene::all() {
        settings(&scene, "write-mb = 32");
        for changes in ["keep", "discard"] {
            let runs = scene.place.workspace().join(".cofferdam/runs");
            let command = scene.command(&fill(".", changes));
            let (ended, most) = run_watched(command, &[&runs, Path::new("/var/tmp")]);
            assert_stopped(&ended, "WriteLimit", "limits.write-mb", &scene);
            assert!(most < (32 << 20) + SLACK_BYTES, "{scene} {changes}: {most} bytes");
            assert!(!scene.place.workspace().join("x1").exists(), "{scene}");
            assert_nothing_left(&scene);
        }
        // Many small files.
        settings(&scene, "files = 500");
        let many = "i=0; while :; do i=$((i+1)); : > f$i; done";
        let args = script_with(many, "changes", json!("discard"));
        let ended = Ended::of(&mut scene.command(&args));
        assert_stopped(&ended, "FileLimit", "limits.files", &scene);
        assert_nothing_left(&scene);
    }
}

/// For a tool that only reads, changes are discarded, but its cache stays.
#[test]
fn a_cache_has_a_limit_and_is_emptied() {
    for scene in Scene::all() {
        settings(&scene, "cache-mb = 24\nwrite-mb = 64");
        let cache = scene.place.workspace().join(".cofferdam/cache/runner");
        for changes in ["none", "discard", "keep"] {
            let mut args = fill("", changes);
            args["arguments"][1] = json!(FILL.replace("\"$0\"", "\"$XDG_CACHE_HOME\""));
            let (ended, most) = run_watched(scene.command(&args), &[&cache]);
            assert_stopped(&ended, "CacheLimit", "limits.cache-mb", &scene);
            assert!(most < (24 << 20) + SLACK_BYTES, "{scene} {changes}: {most} bytes");
            // The next run has space again.
            let next = scene.run(&script_with("true", "changes", json!(changes)));
            assert_eq!(next["end"], json!({"exited": 0}), "{scene}: {next}");
            assert!(size(&cache) <= 12 << 20, "{scene}: {} bytes", size(&cache));
        }
    }
}

/// An unnamed file uses space as long as it is open.
#[test]
fn unnamed_files_count() {
    const PROGRAM: &str = "import os, time
for directory in [os.environ['XDG_CACHE_HOME'], '.']:
    try: f = open(directory + '/gone', 'wb')
    except OSError: continue
    os.unlink(directory + '/gone')
    for _ in range(60): f.write(b'x' * (1 << 20)); f.flush()
    time.sleep(3)
    f.close()
time.sleep(60)";
    for scene in Scene::all() {
        settings(&scene, "cache-mb = 24\nwrite-mb = 80");
        let args = json!({"program": "python3", "arguments": ["-c", PROGRAM], "changes": "keep"});
        let begun = Instant::now();
        let ended = Ended::of(&mut scene.command(&args));
        assert_stopped(&ended, "CacheLimit", "limits.cache-mb", &scene);
        assert!(begun.elapsed() < Duration::from_secs(30), "{scene}");
        assert_nothing_left(&scene);
    }
}

/// The command of a scene with workspace and temporary files on a file system of so many MiB.
/// Returns `None` without the permission to mount one.
#[expect(clippy::disallowed_methods, reason = "the command is what is tested")]
fn on_small_disk(scene: &Scene, command: &Command, megabytes: u32) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let workspace = scene.place.workspace();
    let user = scene.user.unwrap_or(0);
    let mount = format!(
        "mount -t tmpfs -o size={megabytes}m,mode=1777 none /var/tmp && \
         mount -t tmpfs -o size={megabytes}m,uid={user},gid={user} none '{}' && \
         cd '{}' && exec setpriv --reuid {user} --regid {user} --clear-groups \"$@\"",
        workspace.display(),
        workspace.display()
    );
    let mut small = Command::new("unshare");
    small.args(["-m", "sh", "-c", &mount, "sh"]).arg(command.get_program());
    small.args(command.get_args()).env_clear().env("HOME", scene.place.home());
    small.env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin");
    small.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(small)
}

/// The program ignores a failed write and exits with 0.
#[test]
fn a_full_disk_is_never_a_success() {
    for scene in Scene::all() {
        settings(&scene, "write-mb = 200\ncache-mb = 200");
        let ignoring = FILL.replace("exit 9", "true").replace("seq 4000", "seq 60");
        for (directory, changes) in [
            (".", "keep"),
            (".", "discard"),
            ("$XDG_CACHE_HOME", "none"),
            ("$XDG_CACHE_HOME", "keep"),
        ] {
            let mut args = fill("", changes);
            let program = ignoring.replace("$0", directory);
            args["arguments"][1] = json!(format!("{{ {program}; }} 2>&-; exit 0"));
            let command = scene.command(&args);
            let Some(mut small) = on_small_disk(&scene, &command, 48) else { return };
            let ended = Ended::of(&mut small);
            assert_stopped(&ended, "DiskFull", " is full or nearly so: ", &scene);
        }
    }
}

/// Writes by the tool itself.
#[test]
fn a_tool_that_writes_to_a_full_disk_fails_with_that() {
    for mut scene in Scene::all() {
        scene.user = None;
        let content = "x".repeat(6 << 20);
        let envelope = scene.place.home_file("envelope.json");
        let action = |path| json!({"type": "write_file", "path": path, "content": content});
        let text = json!({"actions": [action("a"), action("b")]}).to_string();
        fs::write(&envelope, text).unwrap();
        let plain = scene.place.command(&["run", envelope.to_str().unwrap()]);
        let Some(mut small) = on_small_disk(&scene, &plain, 8) else { return };
        let ended = Ended::of(&mut small);
        assert_stopped(&ended, "DiskFull", "free some room", &scene);
    }
}
