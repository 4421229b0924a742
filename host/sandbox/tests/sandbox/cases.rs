//! The test cases, for each tier and user.

use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{
    Attempt, End, Helper, Limit, Overlay, Sandbox, SandboxError, Spill, Stream, Tier,
};
use libtest_mimic::Trial;

use crate::disk;
use crate::support::{HOST_ARGUMENT, Place, Setting, write};
use crate::worker;
use crate::{beyond, held, sockets};

type Case = fn(&Setting);

/// The time in which something immediate happens even on a busy machine.
const IMMEDIATE: Duration = Duration::from_secs(20);

/// All cases, by name.
const CASES: &[(&str, Case)] = &[
    ("exit_statuses_and_signals_are_reported", exit_statuses_and_signals_are_reported),
    ("input_goes_in_and_comes_out", input_goes_in_and_comes_out),
    ("arguments_are_literal", arguments_are_literal),
    (
        "programs_that_can_not_be_executed_are_reported",
        programs_that_can_not_be_executed_are_reported,
    ),
    ("invalid_paths_are_refused", invalid_paths_are_refused),
    ("invalid_words_are_refused", invalid_words_are_refused),
    ("a_gigabyte_of_output_is_cut", a_gigabyte_of_output_is_cut),
    ("endless_output_ends_the_run", endless_output_ends_the_run),
    ("output_does_not_hold_up_the_deadline", output_does_not_hold_up_the_deadline),
    ("long_output_is_passed_on", long_output_is_passed_on),
    ("a_blocked_sink_can_be_cancelled", a_blocked_sink_can_be_cancelled),
    ("no_connection_is_made", no_connection_is_made),
    ("what_is_tried_is_reported", what_is_tried_is_reported),
    ("loopback_is_private_or_absent", loopback_is_private_or_absent),
    ("secrets_are_not_read", secrets_are_not_read),
    ("environments_are_not_read", environments_are_not_read),
    ("nothing_outside_is_changed", nothing_outside_is_changed),
    ("the_workspace_is_changed_as_who_started_it", the_workspace_is_changed),
    ("temporary_files_are_private", temporary_files_are_private),
    ("a_fork_bomb_is_capped_and_ends", a_fork_bomb_is_capped_and_ends),
    ("processes_within_the_limit_are_allowed", processes_within_the_limit_are_allowed),
    ("signals_do_not_interrupt_forks", signals_do_not_interrupt_forks),
    ("processes_that_keep_forking_away_die", processes_that_keep_forking_away_die),
    ("orphans_that_create_groups_die", orphans_that_create_groups_die),
    ("a_daemon_dies_at_the_deadline", a_daemon_dies_at_the_deadline),
    ("a_daemon_dies_after_a_normal_end", a_daemon_dies_after_a_normal_end),
    ("nothing_survives_the_host", nothing_survives_the_host),
    ("a_helper_that_is_kept_ready_is_not_missed", a_helper_that_is_kept_ready_is_not_missed),
    ("a_cancelled_run_ends_at_once", a_cancelled_run_ends_at_once),
    ("a_dropped_run_ends_at_once", a_dropped_run_ends_at_once),
    ("the_helper_survives", the_helper_survives),
    ("each_limit_has_its_code", each_limit_has_its_code),
    ("who_writes_without_end_is_stopped", disk::who_writes_without_end_is_stopped),
    ("open_files_can_not_be_hidden", disk::open_files_can_not_be_hidden),
    ("temporary_files_are_bounded", disk::temporary_files_are_bounded),
    ("an_overlay_is_bounded", disk::an_overlay_is_bounded),
    ("usage_within_the_limits_is_allowed", disk::usage_within_the_limits_is_allowed),
    ("memory_is_counted_over_all_processes", memory_is_counted_over_all_processes),
    ("shared_memory_is_counted_once", shared_memory_is_counted_once),
    ("memory_is_counted_whatever_holds_it", held::memory_is_counted_whatever_holds_it),
    ("some_shared_memory_is_fine", held::some_shared_memory_is_fine),
    ("nothing_is_taken_that_others_wait_for", beyond::nothing_is_taken_that_others_wait_for),
    ("locks_do_not_reach_files_of_others", beyond::locks_do_not_reach_files_of_others),
    ("programs_take_turns_by_locks", beyond::programs_take_turns_by_locks),
    (
        "a_file_exchanged_for_another_is_not_locked",
        beyond::a_file_exchanged_for_another_is_not_locked,
    ),
    ("open_files_of_others_are_not_changed", beyond::open_files_of_others_are_not_changed),
    (
        "the_users_inotify_instances_are_not_taken",
        beyond::the_users_inotify_instances_are_not_taken,
    ),
    ("only_its_own_priority_is_lowered", beyond::only_its_own_priority_is_lowered),
    ("descriptors_in_transit_hold_no_run_up", beyond::descriptors_in_transit_hold_no_run_up),
    (
        "sockets_of_other_processes_are_not_reached",
        sockets::sockets_of_other_processes_are_not_reached,
    ),
    ("sockets_of_the_run_work", sockets::sockets_of_the_run_work),
    ("protected_paths_stay", protected_paths_stay),
    ("an_overlay_takes_the_changes", an_overlay_takes_the_changes),
    ("only_three_descriptors_are_inherited", only_three_descriptors_are_inherited),
    ("no_state_is_inherited", no_state_is_inherited),
    ("no_file_runs_as_its_owner", no_file_runs_as_its_owner),
    ("dangerous_calls_are_refused", dangerous_calls_are_refused),
    ("unavailable_tiers_are_refused", unavailable_tiers_are_refused),
    ("a_start_takes_some_milliseconds", a_start_takes_some_milliseconds),
    ("a_worker_answers_or_refuses", worker::a_worker_answers_or_refuses),
    ("a_worker_gets_nothing_else", worker::a_worker_gets_nothing_else),
    ("a_worker_ends_at_its_limits", worker::a_worker_ends_at_its_limits),
    ("worker_crashes_are_reported", worker::worker_crashes_are_reported),
    ("a_cancelled_worker_ends_at_once", worker::a_cancelled_worker_ends_at_once),
    (
        "workers_that_can_not_be_started_are_reported",
        worker::workers_that_can_not_be_started_are_reported,
    ),
];

/// Returns all cases for one setting.
pub fn all(setting: &Setting) -> Vec<Trial> {
    let of = |(name, case): &(&str, Case)| {
        let (setting, case) = (setting.clone(), *case);
        let name = format!("{}_tier_{:?}::{name}", setting.user, setting.tier);
        Trial::test(name, move || {
            case(&setting);
            Ok(())
        })
    };
    CASES.iter().map(of).collect()
}

fn exit_statuses_and_signals_are_reported(setting: &Setting) {
    let place = Place::new(setting);
    let table: &[(&[&str], End)] = &[
        (&["exit", "0"], End::Exited(0)),
        (&["exit", "42"], End::Exited(42)),
        (&["signal", "15"], End::Signalled(15)),
        (&["signal", "9"], End::Signalled(9)),
    ];
    for (arguments, end) in table {
        let report = place.run(place.command(arguments));
        assert_eq!((report.end, report.killed), (*end, false), "{arguments:?}");
    }
}

fn input_goes_in_and_comes_out(setting: &Setting) {
    let place = Place::new(setting);
    // More than a pipe holds, in both directions.
    for length in [0, 5, 300_000] {
        let mut command = place.command(&["echo"]);
        command.stdin = (0..length).map(|n: u32| n as u8).collect();
        let expected = command.stdin.clone();
        assert!(place.run(command).stdout.bytes == expected, "{length} bytes");
    }
    // The input is not read.
    let mut command = place.command(&["exit", "3"]);
    command.stdin = vec![0; 300_000];
    assert_eq!(place.run(command).end, End::Exited(3));
}

fn arguments_are_literal(setting: &Setting) {
    let place = Place::new(setting);
    let arguments =
        ["arguments", "$(touch planted)", "; touch planted", "`id`", "*", "a b", "\"", "\n", ""];
    let output = place.output(&arguments);
    assert_eq!(output, arguments[1..].join("\n") + "\n");
    assert_eq!(fs::read_dir(place.workspace()).unwrap().count(), 0);
}

fn programs_that_can_not_be_executed_are_reported(setting: &Setting) {
    let place = Place::new(setting);
    write(place.workspace().join("text"), "no program");
    for path in
        [place.workspace().join("missing"), place.workspace().join("text"), place.workspace()]
    {
        let mut command = place.command(&["exit", "0"]);
        command.program = path.clone();
        let error = place.start(command).wait().unwrap_err();
        let named =
            matches!(&error, SandboxError::Program { program, .. } if Path::new(program) == path);
        assert!(named, "{error:?}");
    }
}

fn invalid_paths_are_refused(setting: &Setting) {
    let place = Place::new(setting);
    std::os::unix::fs::symlink(place.outside(), place.workspace().join("link")).unwrap();
    let table = [
        "relative".into(),
        "/".into(),
        place.workspace().join("../outside"),
        place.workspace().join("missing"),
        place.workspace().join("link"),
        place.workspace().join("link/beneath"),
    ];
    for path in table {
        let mut command = place.command(&["exit", "0"]);
        command.writable.push(path.clone());
        let error = place.start(command).wait().unwrap_err();
        assert!(matches!(&error, SandboxError::Command(_)), "{}: {error:?}", path.display());
    }
}

fn invalid_words_are_refused(setting: &Setting) {
    let place = Place::new(setting);
    for (argument, name, value) in
        [("a\0b", "N", "v"), ("a", "N", "\0"), ("a", "N=", "v"), ("a", "", "v")]
    {
        let mut command = place.command(&["arguments", argument]);
        command.environment.push((name.to_owned(), value.to_owned()));
        let error = place.start(command).wait().unwrap_err();
        assert!(matches!(&error, SandboxError::Command(_)), "{error:?}");
    }
}

fn a_gigabyte_of_output_is_cut(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["print", "1000000000"]);
    command.limits.stream = 2_000_000_000;
    command.limits.output = 1000;
    let report = place.run(command);
    assert_eq!(report.end, End::Exited(0));
    assert!(report.stdout.cut);
    assert_eq!(report.stdout.written, 1_000_000_009);
    let text = String::from_utf8(report.stdout.bytes).unwrap();
    let text = text.trim_start_matches("first").trim_start_matches('x');
    assert!(text.starts_with("\n[... 999999009 bytes left out ...]\nx"), "{text}");
    assert!(text.ends_with("xlast"), "{text}");
    assert!(text.len() < 1000);
}

fn endless_output_ends_the_run(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["print", "1000000000000"]);
    command.limits.stream = 10_000_000;
    let report = place.run(command);
    assert_eq!((report.end, report.killed), (End::Limit(Limit::Output), true));
    assert!(report.stdout.bytes.len() <= (1 << 20) + 100);
}

fn output_does_not_hold_up_the_deadline(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["print", "1000000000000"]);
    command.limits.stream = u64::MAX;
    command.limits.wall = Duration::from_millis(300);
    let report = place.run(command);
    assert_eq!(report.end, End::Limit(Limit::WallClock));
    assert!(report.wall < IMMEDIATE, "{:?}", report.wall);
}

fn long_output_is_passed_on(setting: &Setting) {
    let place = Place::new(setting);
    let run = |bytes: &str, most: u64| {
        let mut command = place.command(&["print", bytes]);
        command.limits.output = 1000;
        command.hidden.push(("END".to_owned(), "xlast".to_owned()));
        command.spill = Some(Spill { above: 100, most });
        let mut handed_over = Vec::new();
        let report = place.start(command).wait_with(|stream, bytes| {
            assert_eq!(stream, Stream::Stdout);
            handed_over.extend_from_slice(bytes);
        });
        (report.unwrap(), String::from_utf8(handed_over).unwrap())
    };
    let (report, text) = run("1000000", u64::MAX);
    assert_eq!((report.end, report.stdout.written), (End::Exited(0), 1_000_009));
    assert_eq!(text, format!("first{}[END]", "x".repeat(999_999)));
    assert!(report.stdout.bytes.ends_with(b"x[END]"));
    let (_, text) = run("1000000", 500_000);
    let beginning = format!("first{}", "x".repeat(499_995));
    assert_eq!(text, format!("{beginning}\n[... 500009 bytes left out ...]\n"));
    let (report, text) = run("80", u64::MAX);
    assert_eq!((report.stdout.bytes.len(), text.as_str()), (89, ""));
}

fn a_blocked_sink_can_be_cancelled(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["print", "1000000000000"]);
    command.limits.stream = u64::MAX;
    command.spill = Some(Spill { above: 0, most: u64::MAX });
    let running = place.start(command.clone());
    // Time enough to fill the pipe; without it, the test only covers less.
    std::thread::sleep(Duration::from_millis(200));
    drop(running);
    assert_eq!(place.survivors(), Vec::<String>::new());
    let running = place.start(command);
    let canceller = running.canceller();
    let report = running.wait_with(|_, _| canceller.cancel()).unwrap();
    assert_eq!(report.end, End::Cancelled);
    assert_eq!(place.survivors(), Vec::<String>::new());
}

fn no_connection_is_made(setting: &Setting) {
    let place = Place::new(setting);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp6 = TcpListener::bind("[::1]:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Where the program can see the files.
    let (stream_path, datagram_path) =
        (place.workspace().join("stream"), place.workspace().join("datagram"));
    let stream = UnixListener::bind(&stream_path).unwrap();
    let datagram = UnixDatagram::bind(&datagram_path).unwrap();
    let name = format!("cofferdam-{}", std::process::id());
    let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let output = place.output(&[
        "connect",
        &tcp.local_addr().unwrap().to_string(),
        &tcp6.local_addr().unwrap().to_string(),
        &udp.local_addr().unwrap().to_string(),
        stream_path.to_str().unwrap(),
        datagram_path.to_str().unwrap(),
        &name,
    ]);
    for listener in [tcp, tcp6] {
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "{output}");
    }
    for listener in [stream, named] {
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "{output}");
    }
    udp.set_nonblocking(true).unwrap();
    assert_eq!(udp.recv(&mut [0; 9]).unwrap_err().kind(), io::ErrorKind::WouldBlock, "{output}");
    datagram.set_nonblocking(true).unwrap();
    assert_eq!(
        datagram.recv(&mut [0; 9]).unwrap_err().kind(),
        io::ErrorKind::WouldBlock,
        "{output}"
    );
    // Pairs between a program and its children are allowed, and what is sent in the run's own
    // network is lost there.
    let done: Vec<_> = output.lines().filter(|line| line.ends_with("DONE")).collect();
    let expected: &[&str] = match setting.tier {
        Tier::A => &["udp: DONE", "stream pair: DONE"],
        Tier::B => &["stream pair: DONE"],
    };
    assert_eq!(done, expected, "{output}");
    assert_eq!(output.lines().count(), 9, "{output}");
}

fn what_is_tried_is_reported(setting: &Setting) {
    let place = Place::new(setting);
    let started = Instant::now();
    let report = place.run(place.command(&["reach"]));
    assert!(started.elapsed() < Duration::from_secs(5), "{report:?}");
    let output = String::from_utf8(report.stdout.bytes).unwrap();
    let done: Vec<_> = output.lines().filter(|line| line.ends_with("DONE")).collect();
    assert!(done.is_empty() || done == ["localhost:1: DONE"], "{output}");
    let wanted = match setting.tier {
        Tier::A => vec![
            Attempt::Name("registry.npmjs.org".to_owned()),
            Attempt::Address("192.0.2.1:443".parse().unwrap()),
            Attempt::Address("[2001:db8::1]:443".parse().unwrap()),
        ],
        Tier::B => vec![Attempt::Socket],
    };
    assert_eq!(report.attempts, wanted, "{output}");
}

fn loopback_is_private_or_absent(setting: &Setting) {
    let output = Place::new(setting).output(&["loopback"]);
    assert_eq!(output.trim() == "loopback: DONE", setting.tier == Tier::A, "{output}");
}

fn secrets_are_not_read(setting: &Setting) {
    let place = Place::new(setting);
    let key = place.outside().join(".ssh/id_ed25519");
    write(&key, "SECRET");
    let link = place.workspace().join("link");
    std::os::unix::fs::symlink(&key, &link).unwrap();
    let parent = format!("/proc/{}", std::process::id());
    let paths = [
        key.to_str().unwrap().to_owned(),
        link.to_str().unwrap().to_owned(),
        format!("{parent}/environ"),
        format!("{parent}/cmdline"),
        format!("{parent}/root{}", key.display()),
        format!("{parent}/cwd/Cargo.toml"),
        "/proc/1/environ".to_owned(),
        format!("/proc/1/root{}", key.display()),
        "/etc/shadow".to_owned(),
        "/root/.profile".to_owned(),
        "/etc/ssh/ssh_config".to_owned(),
        "/run/utmp".to_owned(),
    ];
    let arguments: Vec<&str> =
        ["read"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let output = place.output(&arguments);
    assert_eq!(output.matches("refused").count(), paths.len(), "{output}");
    // The test would see what can be read.
    write(place.workspace().join("own"), "own");
    assert!(place.output(&["read", "own"]).contains("GOT own"));
}

fn environments_are_not_read(setting: &Setting) {
    let place = Place::new(setting);
    // Another process of the same user, with a secret in its environment.
    let mut other = crate::support::sleeper("COFFERDAM_SECRET", "SECRET");
    let output = place.output(&["environment"]);
    other.kill().unwrap();
    other.wait().unwrap();
    let own: Vec<_> = output.lines().map(|line| line.split('=').next().unwrap()).collect();
    assert_eq!(own, ["own GRANTED", "own HOME", "own TMPDIR"], "{output}");
}

fn nothing_outside_is_changed(setting: &Setting) {
    let place = Place::new(setting);
    let file = place.outside().join("file");
    write(&file, "as it was");
    fs::create_dir(place.outside().join("directory")).unwrap();
    let link = place.workspace().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let before = state_of(&place.outside());
    let directory = place.outside().join("directory");
    let readable = place.outside().join("readable");
    write(readable.join("file"), "as it was");
    let readable_before = state_of(&readable);
    let names = [file.clone(), directory, readable.join("file"), readable.clone()];
    let mut arguments = vec!["write".to_owned()];
    arguments.extend(names.iter().map(|path| path.to_str().unwrap().to_owned()));
    // Through a link in the workspace.
    arguments.push(link.to_str().unwrap().to_owned());
    let mut command = place.command(&arguments);
    command.readable.push(readable.clone());
    let report = place.run(command);
    let output = String::from_utf8(report.stdout.bytes).unwrap();
    assert_eq!(state_of(&readable), readable_before, "{output}");
    fs::remove_dir_all(&readable).unwrap();
    assert_eq!(state_of(&place.outside()), before, "{output}");
    for (number, path) in names.iter().enumerate() {
        let done = output.lines().filter(|line| line.ends_with("DONE"));
        assert_eq!(
            done.filter(|line| line.contains(path.to_str().unwrap())).count(),
            0,
            "{number} {output}"
        );
    }
}

/// Names, modes, owners, sizes and contents beneath a directory, and its own times except that of
/// access.
fn state_of(directory: &Path) -> Vec<String> {
    let mut state = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        state.push(format!(
            "{} {:o} {} {} {} {:?}",
            path.display(),
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            metadata.mtime(),
            fs::read(&path).ok(),
        ));
        if metadata.is_dir() {
            state.extend(state_of(&path));
        }
    }
    state.sort();
    state
}

fn the_workspace_is_changed(setting: &Setting) {
    let place = Place::new(setting);
    let path = place.workspace().join("made");
    let report = place.run(place.command(&["touch", path.to_str().unwrap()]));
    assert_eq!(report.end, End::Exited(0), "{report:?}");
    let (made, workspace) =
        (fs::metadata(&path).unwrap(), fs::metadata(place.workspace()).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"touched");
    assert_eq!((made.uid(), made.gid()), (workspace.uid(), workspace.gid()));
    assert_eq!(made.mode() & 0o777, 0o644);
    // Existing files can be changed, too.
    write(&path, "older");
    place.run(place.command(&["touch", path.to_str().unwrap()]));
    assert_eq!(fs::read(&path).unwrap(), b"touched");
}

fn temporary_files_are_private(setting: &Setting) {
    let place = Place::new(setting);
    let scratch = place.outside().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let sandbox = setting.sandbox().with_scratch(&scratch);
    let mut command = place.command::<&str>(&[]);
    command.program = "/bin/sh".into();
    command.arguments = ["-c", "echo secret > $TMPDIR/file && cat $TMPDIR/file; ls /tmp /dev/shm"]
        .map(str::to_owned)
        .to_vec();
    let report = sandbox.start(command).unwrap().wait().unwrap();
    let text = String::from_utf8(report.stdout.bytes).unwrap();
    let expected = match setting.tier {
        Tier::A => "secret\n/dev/shm:\n\n/tmp:\nfile\n",
        Tier::B => "secret\n",
    };
    assert_eq!(text, expected, "{}", String::from_utf8_lossy(&report.stderr.bytes));
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
    assert!(!Path::new("/tmp/file").exists());
}

fn a_fork_bomb_is_capped_and_ends(setting: &Setting) {
    let place = Place::new(setting);
    for attack in ["fork-bomb", "thread-bomb", "double-fork-bomb"] {
        let mut command = place.command(&[attack]);
        command.limits.processes = 40;
        let running = place.start(command);
        let done = AtomicBool::new(false);
        let most = std::thread::scope(|scope| {
            let counting = scope.spawn(|| {
                let mut most = 0;
                while !done.load(Ordering::Relaxed) {
                    most = most.max(place.survivors().len());
                }
                most
            });
            let report = running.wait().unwrap();
            done.store(true, Ordering::Relaxed);
            assert_eq!(place.survivors(), Vec::<String>::new());
            assert_eq!((report.end, report.killed), (End::Limit(Limit::Processes), true));
            counting.join().unwrap()
        });
        // More may be forked until the next poll, depending on how busy the machine is; half of
        // the process ids that any Linux system has are never in use.
        assert!(most <= 1 << 14, "{attack}: {most}");
    }
}

fn processes_within_the_limit_are_allowed(setting: &Setting) {
    let place = Place::new(setting);
    // Many one after the other, and always as many as the limit allows.
    let mut command = place.command(&["fork-within", "200", "9"]);
    command.limits.processes = 10;
    assert_eq!(place.run(command).end, End::Exited(0));
    let mut command = place.command(&["fork-within", "2000", "10"]);
    command.limits.processes = 10;
    assert_eq!(place.run(command).end, End::Limit(Limit::Processes));
}

/// A signal would interrupt a fork that waits for the sandbox.
fn signals_do_not_interrupt_forks(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["fork-while-children-end", "4000"]);
    command.limits.processes = 5000;
    let report = place.run(command);
    assert_eq!(report.end, End::Exited(0), "{}", String::from_utf8_lossy(&report.stderr.bytes));
}

fn processes_that_keep_forking_away_die(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["comets"]);
    command.limits.wall = Duration::from_millis(500);
    let start = Instant::now();
    let report = place.run(command);
    assert_eq!((report.end, report.killed), (End::Limit(Limit::WallClock), true));
    assert!(start.elapsed() < IMMEDIATE, "{:?}", start.elapsed());
}

fn orphans_that_create_groups_die(setting: &Setting) {
    let place = Place::new(setting);
    let report = place.run(place.command(&["orphans"]));
    assert_eq!((report.end, report.killed), (End::Exited(0), true));
    assert!(report.wall < IMMEDIATE, "{:?}", report.wall);
    assert!(place.survivors().is_empty());
}

fn a_daemon_dies_at_the_deadline(setting: &Setting) {
    let place = Place::new(setting);
    let heart = place.workspace().join("heart");
    let mut command = place.command(&["daemon", heart.to_str().unwrap(), "sleep"]);
    command.limits.wall = Duration::from_millis(500);
    let report = place.run(command);
    assert_eq!((report.end, report.killed), (End::Limit(Limit::WallClock), true));
    assert!(report.wall < IMMEDIATE, "{:?}", report.wall);
    assert_still(&heart);
}

fn a_daemon_dies_after_a_normal_end(setting: &Setting) {
    let place = Place::new(setting);
    let heart = place.workspace().join("heart");
    let report = place.run(place.command(&["daemon", heart.to_str().unwrap(), "end"]));
    assert_eq!((report.end, report.killed), (End::Exited(0), true));
    assert_still(&heart);
}

/// Asserts that a heartbeat has stopped.
fn assert_still(heart: &Path) {
    let beat = fs::read(heart).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(fs::read(heart).unwrap(), beat);
}

fn nothing_survives_the_host(setting: &Setting) {
    let place = Place::new(setting);
    let heart = place.workspace().join("heart");
    let command = place.command(&["daemon", heart.to_str().unwrap(), "sleep"]);
    let mut host = crate::support::host(&[
        HOST_ARGUMENT,
        if setting.tier == Tier::A { "A" } else { "B" },
        command.program.to_str().unwrap(),
        place.workspace().to_str().unwrap(),
        &command.arguments.join(" "),
        place.helper_program().to_str().unwrap(),
    ]);
    wait_until("the daemon lives", || heart.exists());
    assert!(!place.survivors().is_empty());
    wait_until("a helper is ready", || place.helpers().len() > 2);
    host.kill().unwrap();
    host.wait().unwrap();
    wait_until("all are dead", || place.survivors().is_empty());
    assert_still(&heart);
}

/// The host process of [`nothing_survives_the_host`].
pub fn be_a_host(arguments: &[&str]) {
    let [tier, program, workspace, arguments, helper] = arguments else { panic!("{arguments:?}") };
    let tier = if *tier == "A" { Tier::A } else { Tier::B };
    let mut command = cofferdam_sandbox::Command::new(program, workspace);
    command.writable.push(workspace.into());
    command.arguments = arguments.split(' ').map(str::to_owned).collect();
    let sandbox = Sandbox::open(Helper::at(helper).kept_ready(), Some(tier)).unwrap();
    sandbox.start(command).unwrap().wait().unwrap();
}

fn a_helper_that_is_kept_ready_is_not_missed(setting: &Setting) {
    let place = Place::new(setting);
    let sandbox =
        Sandbox::with(place.helper().kept_ready(), &setting.probe, Some(setting.tier)).unwrap();
    let run = || {
        let command = place.command(&["exit", "3"]);
        assert_eq!(sandbox.start(command).unwrap().wait().unwrap().end, End::Exited(3));
    };
    // The process that forks them, which is the oldest one, and the helper. One that is prepared has the
    // first process of its namespaces beside it, which is the youngest one.
    let processes = || {
        wait_until("a helper is ready", || place.helpers().len() > 1);
        let mut helpers = place.helpers();
        helpers.sort_unstable();
        assert!(matches!(helpers.len(), 2 | 3), "{helpers:?}");
        [helpers[0], helpers[1]]
    };
    // SAFETY: it only sends a signal.
    let kill = |process| assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    run();
    let [server, first] = processes();
    run();
    let [same, second] = processes();
    assert_eq!(server, same);
    assert_ne!(first, second, "it was not used");
    kill(second);
    wait_until("it is dead", || place.helpers() == [server]);
    run();
    let [same, _] = processes();
    assert_eq!(server, same);
    kill(server);
    // Its socket is open until it is a zombie, which is later than the end of its memory.
    let stat = format!("/proc/{server}/stat");
    wait_until("it is dead", || fs::read_to_string(&stat).unwrap().contains(") Z "));
    run();
    wait_until("there is another one", || place.helpers().first().is_some_and(|it| *it != server));
    run();
    drop(sandbox);
    assert_eq!(place.survivors(), Vec::<String>::new());
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < IMMEDIATE, "{what}: not yet");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn a_cancelled_run_ends_at_once(setting: &Setting) {
    let place = Place::new(setting);
    let heart = place.workspace().join("heart");
    let running = place.start(place.command(&["daemon", heart.to_str().unwrap(), "sleep"]));
    let canceller = running.canceller();
    let report = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| running.wait().unwrap());
        wait_until("the daemon lives", || heart.exists());
        canceller.cancel();
        canceller.cancel();
        waiting.join().unwrap()
    });
    assert_eq!((report.end, report.killed), (End::Cancelled, true));
    assert!(report.wall < IMMEDIATE, "{:?}", report.wall);
    assert_eq!(place.survivors(), Vec::<String>::new());
    assert_still(&heart);
}

fn a_dropped_run_ends_at_once(setting: &Setting) {
    let place = Place::new(setting);
    let heart = place.workspace().join("heart");
    let running = place.start(place.command(&["daemon", heart.to_str().unwrap(), "sleep"]));
    wait_until("the daemon lives", || heart.exists());
    drop(running);
    assert_eq!(place.survivors(), Vec::<String>::new());
    assert_still(&heart);
}

fn the_helper_survives(setting: &Setting) {
    let place = Place::new(setting);
    let me = std::process::id().to_string();
    let mut neighbour = crate::support::sleeper("NAME", "neighbour");
    let output = place.output(&["kill", &me, &neighbour.id().to_string()]);
    assert!(output.contains("still here"), "{output}");
    assert!(neighbour.try_wait().unwrap().is_none(), "{output}");
    neighbour.kill().unwrap();
    neighbour.wait().unwrap();
    assert!(!output.contains("DONE"), "{output}");
}

fn each_limit_has_its_code(setting: &Setting) {
    let place = Place::new(setting);
    let table: &[(&[&str], u64, Limit)] = &[
        (&["file-size"], 30, Limit::FileSize),
        (&["memory"], 30, Limit::Memory),
        (&["spin"], 30, Limit::CpuTime),
        (&["sleep"], 1, Limit::WallClock),
    ];
    for (arguments, seconds, limit) in table {
        let mut command = place.command(arguments);
        command.limits.wall = Duration::from_secs(*seconds);
        command.limits.cpu_seconds = 1;
        command.limits.memory = 100 << 20;
        command.limits.file_size = 10 << 20;
        let report = place.run(command);
        assert_eq!(report.end, End::Limit(*limit), "{arguments:?}");
    }
    assert_eq!(fs::metadata(place.workspace().join("large")).unwrap().len(), 10 << 20);
    // A shell that passes the status on.
    let mut command = place.command(&["file-size"]);
    command.limits.file_size = 10 << 20;
    command.arguments.insert(0, command.program.to_str().unwrap().to_owned());
    command.readable.push(command.program.clone());
    command.arguments.splice(0..0, ["-c", "\"$@\"; exit $?", "sh"].map(str::to_owned));
    command.program = "/bin/sh".into();
    assert_eq!(place.run(command).end, End::Limit(Limit::FileSize));
}

fn memory_is_counted_over_all_processes(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["memory-of-children"]);
    command.limits.memory = 100 << 20;
    assert_eq!(place.run(command).end, End::Limit(Limit::Memory));
}

fn shared_memory_is_counted_once(setting: &Setting) {
    let place = Place::new(setting);
    let mut command = place.command(&["shared-memory"]);
    command.limits.memory = 150 << 20;
    assert_eq!(place.run(command).end, End::Exited(0));
}

fn protected_paths_stay(setting: &Setting) {
    let place = Place::new(setting);
    let workspace = place.workspace();
    for repository in ["", "sub/module/"] {
        write(workspace.join(format!("{repository}.git/config")), "as it was");
        write(workspace.join(format!("{repository}.git/hooks/sample")), "as it was");
        write(workspace.join(format!("{repository}src/file")), "as it was");
        write(workspace.join(format!("{repository}evil/hooks/post-commit")), "planted");
    }
    write(workspace.join("worktree/.git"), "gitdir: elsewhere");
    write(workspace.join(".cofferdam/roles"), "as it was");
    write(workspace.join("other"), "other");
    let names = [".cofferdam", ".git", "sub/module/.git", "worktree/.git"];
    let protected: Vec<_> = names.iter().map(|name| workspace.join(name)).collect();
    let state = || -> Vec<_> {
        let directories = protected.iter().filter(|path| path.is_dir());
        directories.flat_map(|path| state_of(path)).collect()
    };
    let before = state();
    let mut command = place.command(&["plant", workspace.to_str().unwrap()]);
    command.protected = protected.clone();
    let report = place.run(command.clone());
    let output = String::from_utf8(report.stdout.bytes).unwrap();
    assert_eq!(state(), before, "{output}");
    assert_eq!(fs::read(workspace.join("worktree/.git")).unwrap(), b"gitdir: elsewhere");
    assert!(output.contains("ordinary: DONE\n"), "{output}");
    assert!(output.contains("beside nested: DONE\n"), "{output}");
    // As a user would try it.
    command.program = "/bin/sh".into();
    let script = "mv .git .git2 && cp -r .git2 .git; echo planted > .git/config; \
                  mv sub sub2 && cp -r sub2 sub; echo planted > sub/module/.git/config; \
                  rm -rf .cofferdam; echo planted > worktree/.git; rm -f worktree/.git";
    command.arguments = ["-c", script].map(str::to_owned).to_vec();
    place.run(command.clone());
    assert_eq!(state(), before, "{output}");
    assert_eq!(fs::read(workspace.join("worktree/.git")).unwrap(), b"gitdir: elsewhere");
    // A link is not replaced, either.
    std::os::unix::fs::symlink("../evil", workspace.join("src/.git")).unwrap();
    command.protected.push(workspace.join("src/.git"));
    let script = "rm -f src/.git; mv src/.git src/x; mv evil/hooks src/.git; ln -sfn /tmp src/.git; echo end";
    command.arguments = ["-c", script].map(str::to_owned).to_vec();
    let report = place.run(command);
    assert_eq!(report.stdout.bytes, b"end\n");
    assert_eq!(fs::read_link(workspace.join("src/.git")).unwrap(), Path::new("../evil"));
    assert!(!workspace.join("src/x").is_symlink());
}

fn an_overlay_takes_the_changes(setting: &Setting) {
    let place = Place::new(setting);
    let workspace = place.workspace();
    write(workspace.join("file"), "as it was");
    write(workspace.join("removed"), "as it was");
    write(workspace.join(".git/config"), "as it was");
    // A long name, with characters that are special in mount options.
    let staging = place.outside().join(format!("a:b,c\\{}", "x".repeat(240)));
    let overlay = Overlay {
        lower: workspace.clone(),
        upper: staging.join("upper"),
        work: staging.join("work"),
    };
    fs::create_dir_all(&overlay.upper).unwrap();
    fs::create_dir_all(&overlay.work).unwrap();
    // A change that was staged before.
    write(overlay.upper.join("staged"), "staged");
    let before = state_of(&workspace);
    let script = "cat staged; echo changed > file; rm removed; echo new > new; \
                  echo planted > .git/config; mv .git .git2; cat file; ls";
    let mut command = place.command::<&str>(&[]);
    command.program = "/bin/sh".into();
    command.arguments = ["-c", script].map(str::to_owned).to_vec();
    command.writable.clear();
    command.overlay = Some(overlay.clone());
    command.protected = vec![workspace.join(".git")];
    if setting.tier == Tier::B {
        let error = place.start(command).wait().unwrap_err();
        assert!(matches!(error, SandboxError::Command(_)), "{error:?}");
        return;
    }
    let report = place.run(command);
    // Otherwise it could not be removed.
    fs::set_permissions(overlay.work.join("work"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(
        String::from_utf8(report.stdout.bytes).unwrap(),
        "stagedchanged\nfile\nnew\nstaged\n",
        "{}",
        String::from_utf8_lossy(&report.stderr.bytes)
    );
    assert_eq!(state_of(&workspace), before);
    assert_eq!(fs::read(overlay.upper.join("file")).unwrap(), b"changed\n");
    assert_eq!(fs::read(overlay.upper.join("new")).unwrap(), b"new\n");
    let removed = fs::symlink_metadata(overlay.upper.join("removed")).unwrap();
    assert_eq!((removed.mode() & 0o170_000, removed.rdev()), (0o020_000, 0));
    assert!(!overlay.upper.join(".git").join("config").exists());
    let owner = |path: PathBuf| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.uid(), metadata.gid())
    };
    assert_eq!(owner(overlay.upper.join("new")), owner(workspace));
}

fn only_three_descriptors_are_inherited(setting: &Setting) {
    let place = Place::new(setting);
    // Two descriptors that a careless host leaves open.
    let file = fs::File::open("/etc/passwd").unwrap();
    let careless = [file.as_fd(), file.as_fd()].map(|fd| rustix::io::dup(fd).unwrap());
    for fd in &careless {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).unwrap();
    }
    assert_eq!(place.output(&["descriptors"]), "open: 0\nopen: 1\nopen: 2\n");
}

fn no_state_is_inherited(setting: &Setting) {
    let place = Place::new(setting);
    // A careless host. SAFETY: a signal is ignored, and later not any more.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_IGN) };
    let output = place.output(&["state"]);
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_DFL) };
    let none = "CapabilitySets { effective: CapabilitySet(0x0), permitted: CapabilitySet(0x0), \
                inheritable: CapabilitySet(0x0) }";
    let expected = format!(
        "no new privileges: true\ncapabilities: {none}\nleader of its session: true\nterminal: false\n"
    );
    assert_eq!(output, expected);
}

fn no_file_runs_as_its_owner(setting: &Setting) {
    let place = Place::new(setting);
    let path = place.workspace().join("set-id");
    let output = place.output(&["set-id", path.to_str().unwrap()]);
    assert!(output.contains("refused") && !output.contains("DONE"), "{output}");
    for entry in fs::read_dir(place.workspace()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{output}");
    }
}

fn dangerous_calls_are_refused(setting: &Setting) {
    let output = Place::new(setting).output(&["calls"]);
    for line in output.lines() {
        let refused = ["(os error 1)", "(os error 38)"].iter().any(|end| line.ends_with(end));
        assert!(refused, "{output}");
    }
    assert!(output.lines().count() > 15, "{output}");
}

fn unavailable_tiers_are_refused(setting: &Setting) {
    // Within a sandbox, none can be set up: namespaces are refused, and /proc has no processes.
    let output = Place::new(setting).output(&["probe"]);
    assert!(output.starts_with("Err(Unavailable("), "{output}");
}

fn a_start_takes_some_milliseconds(setting: &Setting) {
    let place = Place::new(setting);
    let median = |run: &mut dyn FnMut()| {
        let mut times: Vec<_> = (0..50)
            .map(|_| {
                let start = Instant::now();
                run();
                start.elapsed()
            })
            .collect();
        times.sort();
        times[times.len() / 2]
    };
    let plain = median(&mut || crate::support::plain("/bin/true"));
    let [fresh, ready] = [Helper::current(), setting.helper.clone()].map(|helper| {
        let sandbox = Sandbox::with(helper, &setting.probe, Some(setting.tier)).unwrap();
        median(&mut || {
            let mut command = place.command::<&str>(&[]);
            command.program = "/bin/true".into();
            command.arguments.clear();
            let report = sandbox.start(command).unwrap().wait().unwrap();
            assert_eq!(report.end, End::Exited(0));
        })
    });
    eprintln!(
        "{} in tier {:?}: /bin/true takes {plain:?} plain, {fresh:?} sandboxed, {ready:?} with a helper \
         that is kept ready (medians of 50)",
        setting.user, setting.tier
    );
    assert!(fresh.max(ready) < Duration::from_secs(1), "{fresh:?} {ready:?}");
}
