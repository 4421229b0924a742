//! What reaches beyond a run through files that it can only read, and what the user or the machine
//! has one number of: first the program that tries, then what must hold.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{End, Tier};
use libc::{c_int, c_long, c_short};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::hostile::{check, fork, say};
use crate::support::{Place, Setting, write};

/// Commands of `fcntl` that the C library does not name: linux/fcntl.h.
const DN_MODIFY: c_long = 2;
const F_SETSIG: c_int = 10;
const F_SETOWN_EX: c_int = 15;
const F_SETDELEG: c_int = 1024 + 16;

fn fcntl(file: &fs::File, command: c_int, argument: c_long) -> io::Result<()> {
    // SAFETY: these commands take a number.
    check(unsafe { libc::fcntl(file.as_raw_fd(), command, argument) }.into())
}

/// A lock of the whole file.
fn lock(file: &fs::File, command: c_int, kind: c_int) -> io::Result<()> {
    // SAFETY: zeroes are a valid lock, and it lives during the call.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as c_short;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) }.into())
}

fn flock(file: &fs::File, operation: c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::flock(file.as_raw_fd(), operation) }.into())
}

fn create(path: &str) -> fs::File {
    fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// Takes all that other programs wait for.
pub fn leases(path: &str) {
    let file = fs::File::open(path).unwrap();
    for (name, command, argument) in [
        ("lease for reading", libc::F_SETLEASE, c_long::from(libc::F_RDLCK)),
        ("lease for writing", libc::F_SETLEASE, libc::F_WRLCK.into()),
        ("delegation", F_SETDELEG, 0),
        ("notification", libc::F_NOTIFY, DN_MODIFY),
        ("signal", F_SETSIG, libc::SIGKILL.into()),
        ("owner", F_SETOWN_EX, 0),
        ("unknown", 4000, 0),
    ] {
        say(name, fcntl(&file, command, argument));
    }
    let directory = fs::File::open(Path::new(path).parent().unwrap()).unwrap();
    let many = DN_MODIFY | 0x8000_0000;
    say("notification of a directory", fcntl(&directory, libc::F_NOTIFY, many));
    say("lock of an open file", lock(&file, libc::F_OFD_SETLK, libc::F_RDLCK));
    let (pipe, _other) = io::pipe().unwrap();
    let pipe = fs::File::from(OwnedFd::from(pipe));
    say("large pipe", fcntl(&pipe, libc::F_SETPIPE_SZ, 1 << 20));
}

/// Locks a file that it can only read, and one of its own; then waits.
pub fn locks(real: &str, own: &str) {
    let file = fs::File::open(real).unwrap();
    for (name, done) in [
        ("flock", flock(&file, libc::LOCK_EX | libc::LOCK_NB)),
        ("lock", lock(&file, libc::F_SETLK, libc::F_RDLCK)),
    ] {
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let own = create(own);
    flock(&own, libc::LOCK_EX).unwrap();
    lock(&own, libc::F_SETLK, libc::F_WRLCK).unwrap();
    fs::write("ready", "").unwrap();
    std::thread::sleep(Duration::from_millis(700));
}

/// Several threads and processes take turns at files of their own.
pub fn turns(path: &str) {
    let first = create(path);
    flock(&first, libc::LOCK_EX).unwrap();
    let other = create(path);
    assert_eq!(
        flock(&other, libc::LOCK_EX | libc::LOCK_NB).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    // This process has one thread: so does its child.
    let child = fork();
    if child == 0 {
        let mine = create(path);
        flock(&mine, libc::LOCK_EX).unwrap();
        lock(&mine, libc::F_SETLKW, libc::F_WRLCK).unwrap();
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) };
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let start = Instant::now();
            flock(&other, libc::LOCK_EX).unwrap();
            flock(&other, libc::LOCK_UN).unwrap();
            start.elapsed()
        });
        std::thread::sleep(Duration::from_millis(300));
        flock(&first, libc::LOCK_UN).unwrap();
        assert!(waiting.join().unwrap() > Duration::from_millis(200));
        lock(&first, libc::F_SETLK, libc::F_WRLCK).unwrap();
        lock(&first, libc::F_SETLK, libc::F_UNLCK).unwrap();
    });
    let mut status = 0;
    // SAFETY: the number lives during the call.
    check(unsafe { libc::waitpid(child, &raw mut status, 0) }.into()).unwrap();
    assert_eq!(status, 0);
    println!("took turns");
}

/// Exchanges the file between the supervisor's look and the kernel's lock.
pub fn lock_race(real: &str, own: &str) -> ! {
    static AT: AtomicI32 = AtomicI32::new(-1);
    let (real, own) = (fs::File::open(real).unwrap(), create(own));
    // SAFETY: the descriptor is this function's own.
    let at = unsafe { libc::dup(own.as_raw_fd()) };
    AT.store(at, Ordering::SeqCst);
    std::thread::spawn(move || {
        loop {
            for from in [own.as_raw_fd(), real.as_raw_fd()] {
                // SAFETY: both are open, and nothing else uses the second.
                unsafe { libc::dup2(from, AT.load(Ordering::SeqCst)) };
            }
        }
    });
    loop {
        // SAFETY: it stays open, and is not closed here.
        let file = std::mem::ManuallyDrop::new(unsafe { fs::File::from_raw_fd(at) });
        let _ = lock(&file, libc::F_SETLK, libc::F_RDLCK);
        let _ = flock(&file, libc::LOCK_EX | libc::LOCK_NB);
    }
}

/// Changes what a file that is open only for reading says of itself.
pub fn metadata(path: &str) {
    let name = Path::new(path).file_name().unwrap().to_str().unwrap();
    let file = fs::File::open(path).unwrap();
    let fd = file.as_raw_fd();
    let attribute = CString::new("user.planted").unwrap();
    let times = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];
    let flags: c_long = 0x40; // FS_NODUMP_FL
    let mut fsxattr = [0_u32; 7];
    fsxattr[0] = 0x80; // FS_XFLAG_NODUMP
    let verity = [1_u64; 16];
    // SAFETY: what the calls read lives during them.
    unsafe {
        say(&format!("{name} mode"), check(libc::fchmod(fd, 0o604).into()));
        say(&format!("{name} group"), check(libc::fchown(fd, u32::MAX, 65_533).into()));
        say(&format!("{name} times"), check(libc::futimens(fd, times.as_ptr()).into()));
        let set = libc::fsetxattr(fd, attribute.as_ptr(), attribute.as_ptr().cast(), 4, 0);
        say(&format!("{name} attribute"), check(set.into()));
        for (what, request, argument) in [
            ("flags", 0x4008_6602_u64, (&raw const flags).cast::<libc::c_void>()),
            ("more flags", 0x401c_5820, fsxattr.as_ptr().cast()),
            ("verity", 0x4080_6685, verity.as_ptr().cast()),
        ] {
            let set = libc::ioctl(fd, request as _, argument);
            say(&format!("{name} {what}"), check(set.into()));
        }
    }
}

/// Takes all instances that it gets.
pub fn inotify() {
    let mut taken = 0;
    // SAFETY: no pointers.
    while unsafe { libc::inotify_init1(0) } >= 0 {
        taken += 1;
    }
    println!("{taken}");
    fs::write("ready", "").unwrap();
    std::thread::sleep(Duration::from_millis(700));
}

/// Lowers the priority of each kind of target, for the processor and for the disk.
pub fn priorities() {
    const IDLE_CLASS: c_int = 3 << 13;
    for (name, cpu, disk) in [
        ("process", libc::PRIO_PROCESS, 1),
        ("process group", libc::PRIO_PGRP, 2),
        ("user", libc::PRIO_USER, 3),
    ] {
        // SAFETY: no pointers.
        let (cpu, disk) = unsafe {
            (
                libc::setpriority(cpu as _, 0, 15),
                libc::syscall(libc::SYS_ioprio_set, disk, 0, IDLE_CLASS),
            )
        };
        say(&format!("processor, {name}"), check(cpu.into()));
        say(&format!("disk, {name}"), check(disk as _));
    }
}

/// Sends as many descriptors as it can from several processes, and receives none.
pub fn in_flight() {
    for _ in 0..8 {
        if fork() == 0 {
            let null = fs::File::open("/dev/null").unwrap();
            let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
            let descriptors = [null.as_fd(); 250];
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(250))];
            loop {
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
                let byte = [io::IoSlice::new(&[0])];
                if sendmsg(&one, &byte, &mut ancillary, SendFlags::DONTWAIT).is_err() {
                    std::thread::sleep(Duration::from_secs(60));
                }
            }
        }
    }
    std::thread::sleep(Duration::from_millis(500));
    fs::write("ready", "").unwrap();
    std::thread::sleep(Duration::from_secs(5));
}

/// A place with a file that the program can only read. The test owns it, as the program does.
fn place_with_real(setting: &Setting) -> (Place, String) {
    let place = Place::new(setting);
    let real = place.outside().join("real");
    write(&real, "the user's");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).unwrap();
    (place, real.to_str().unwrap().to_owned())
}

fn command(place: &Place, arguments: &[&str]) -> cofferdam_sandbox::Command {
    let mut command = place.command(arguments);
    command.readable.push(place.outside());
    command
}

fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn nothing_is_taken_that_others_wait_for(setting: &Setting) {
    let (place, real) = place_with_real(setting);
    let own = place.workspace().join("own");
    write(&own, "");
    for path in [real.as_str(), own.to_str().unwrap()] {
        let report = place.run(command(&place, &["leases", path]));
        let output = String::from_utf8(report.stdout.bytes).unwrap();
        assert_eq!(output.matches(": refused").count(), 10, "{output}");
        assert!(!output.contains("DONE"), "{output}");
    }
}

pub fn locks_do_not_reach_files_of_others(setting: &Setting) {
    let (place, real) = place_with_real(setting);
    lock_beside(&place, &real, &place.outside());
    // A grant beneath the program's own directory for temporary files.
    let temporary = tempfile::tempdir_in("/tmp").unwrap();
    let real = temporary.path().join("real");
    write(&real, "the user's");
    lock_beside(&Place::new(setting), real.to_str().unwrap(), temporary.path());
}

/// A program locks a file that it can only read; the test locks it meanwhile.
fn lock_beside(place: &Place, real: &str, readable: &Path) {
    let own = place.workspace().join("own");
    let arguments = ["locks", real, own.to_str().unwrap()];
    let mut command = place.command(&arguments);
    command.readable.push(readable.to_owned());
    let running = place.start(command);
    wait_for(&place.workspace().join("ready"));
    let file = fs::File::options().read(true).write(true).open(real).unwrap();
    flock(&file, libc::LOCK_EX | libc::LOCK_NB).unwrap();
    lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK).unwrap();
    // Those on a file of its own are real.
    let file = fs::File::options().read(true).write(true).open(&own).unwrap();
    flock(&file, libc::LOCK_EX | libc::LOCK_NB).unwrap_err();
    lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK).unwrap_err();
    let report = running.wait().unwrap();
    assert_eq!(report.end, End::Exited(0), "{}", String::from_utf8_lossy(&report.stderr.bytes));
}

pub fn programs_take_turns_by_locks(setting: &Setting) {
    let place = Place::new(setting);
    let path = place.workspace().join("own");
    assert_eq!(place.output(&["turns", path.to_str().unwrap()]), "took turns\n");
}

pub fn a_file_exchanged_for_another_is_not_locked(setting: &Setting) {
    let (place, real) = place_with_real(setting);
    let own = place.workspace().join("own");
    let mut command = command(&place, &["lock-race", &real, own.to_str().unwrap()]);
    command.limits.wall = Duration::from_secs(3);
    let running = place.start(command);
    wait_for(&own);
    let file = fs::File::options().read(true).write(true).open(&real).unwrap();
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        let take = |lock: &dyn Fn() -> io::Result<()>| {
            while lock().is_err() {
                assert!(asked.elapsed() < Duration::from_secs(5), "locked for good");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        take(&|| flock(&file, libc::LOCK_EX | libc::LOCK_NB));
        take(&|| lock(&file, libc::F_OFD_SETLK, libc::F_WRLCK));
        longest = longest.max(asked.elapsed());
        flock(&file, libc::LOCK_UN).unwrap();
        lock(&file, libc::F_OFD_SETLK, libc::F_UNLCK).unwrap();
    }
    drop(running);
    assert!(longest < Duration::from_millis(500), "{longest:?}");
}

pub fn open_files_of_others_are_not_changed(setting: &Setting) {
    let (place, real) = place_with_real(setting);
    let before = fs::metadata(&real).unwrap();
    let report = place.run(command(&place, &["metadata", &real]));
    let output = String::from_utf8(report.stdout.bytes).unwrap();
    let after = fs::metadata(&real).unwrap();
    assert_eq!(output.matches(": refused").count(), 7, "{output}");
    let said = |metadata: &fs::Metadata| {
        (metadata.mode(), metadata.gid(), metadata.mtime(), metadata.ctime_nsec())
    };
    assert_eq!(said(&after), said(&before), "{output}");
    // Those of its own are.
    let own = place.workspace().join("own");
    fs::File::options().create(true).append(true).mode(0o644).open(&own).unwrap();
    let report = place.run(command(&place, &["metadata", own.to_str().unwrap()]));
    let output = String::from_utf8(report.stdout.bytes).unwrap();
    for done in ["own mode: DONE", "own times: DONE"] {
        assert!(output.contains(done), "{output}");
    }
    let after = fs::metadata(&own).unwrap();
    assert_eq!((after.mode() & 0o777, after.mtime()), (0o604, 1), "{output}");
}

pub fn the_users_inotify_instances_are_not_taken(setting: &Setting) {
    let place = Place::new(setting);
    let running = place.start(place.command(&["inotify"]));
    wait_for(&place.workspace().join("ready"));
    let taken: Vec<OwnedFd> = (0..64)
        .map(|_| {
            // SAFETY: no pointers; a descriptor that the call returned is open and new.
            let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
            check(fd.into()).unwrap();
            // SAFETY: as above.
            unsafe { OwnedFd::from_raw_fd(fd) }
        })
        .collect();
    drop(taken);
    let report = running.wait().unwrap();
    let most = if setting.tier == Tier::A { "16\n" } else { "0\n" };
    assert_eq!(String::from_utf8(report.stdout.bytes).unwrap(), most);
}

pub fn other_programs_keep_their_priority(setting: &Setting) {
    let place = Place::new(setting);
    let mut other = crate::support::sleeper("NAME", "other");
    let id = other.id();
    // SAFETY: no pointers.
    let priorities = || unsafe {
        (libc::getpriority(libc::PRIO_PROCESS as _, id), libc::syscall(libc::SYS_ioprio_get, 1, id))
    };
    let before = priorities();
    let output = place.output(&["priorities"]);
    let after = priorities();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(after, before, "{output}");
    for own in ["processor, process: DONE", "disk, process: DONE"] {
        assert!(output.contains(own), "{output}");
    }
    assert_eq!(output.matches(": refused").count(), 4, "{output}");
}

pub fn descriptors_in_flight_keep_no_other_program_from_running(setting: &Setting) {
    let place = Place::new(setting);
    let running = place.start(place.command(&["in-flight"]));
    wait_for(&place.workspace().join("ready"));
    let other = Place::new(setting).output(&["descriptors"]);
    drop(running);
    assert_eq!(other, "open: 0\nopen: 1\nopen: 2\n");
}
