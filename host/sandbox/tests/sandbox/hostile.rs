//! The hostile program. It prints what it achieved; the cases check that.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use libc::c_long;

use crate::{beyond, held};

/// The first argument of the hostile program. It ignores the second, which is a mark.
pub const ARGUMENT: &str = "--hostile";

/// Performs the attack that the arguments name.
pub fn attack(arguments: &[&str]) {
    match arguments {
        ["print", bytes] => print(bytes.parse().unwrap()),
        ["arguments", rest @ ..] => rest.iter().for_each(|argument| println!("{argument}")),
        ["echo"] => {
            io::copy(&mut io::stdin(), &mut io::stdout()).unwrap();
        }
        ["connect", rest @ ..] => connect(rest),
        ["loopback"] => loopback(),
        ["reach"] => reach(),
        ["read", paths @ ..] => paths.iter().for_each(|path| println!("{path}: {}", read(path))),
        ["environment"] => environment(),
        ["write", paths @ ..] => paths.iter().for_each(|path| write(Path::new(path))),
        ["touch", path] => fs::write(path, "touched").unwrap(),
        ["fork-bomb"] => fork_bomb(),
        ["thread-bomb"] => loop {
            // The handle is dropped, and the thread continues.
            let _ = std::thread::Builder::new().spawn(|| std::thread::sleep(Duration::MAX));
        },
        ["double-fork-bomb"] => double_fork_bomb(),
        ["fork-within", rounds, children] => {
            fork_within(rounds.parse().unwrap(), children.parse().unwrap());
        }
        ["fork-while-children-end", times] => fork_while_children_end(times.parse().unwrap()),
        ["comets"] => comets(),
        ["daemon", heartbeat, last] => daemon(heartbeat, last),
        ["kill", rest @ ..] => kill(rest),
        ["orphans"] => orphans(40),
        ["file-size"] => file_size(),
        ["fill", how] => crate::disk::fill(how),
        ["fill-hidden"] => crate::disk::fill_hidden(),
        ["fill-in-thread"] => crate::disk::fill_in_thread(false),
        ["fill-without-thread"] => crate::disk::fill_in_thread(true),
        ["memory"] => memory(),
        ["memory-of-children"] => memory_of_children(),
        ["shared-memory"] => shared_memory(),
        ["spin"] => spin(),
        ["descriptors"] => descriptors(),
        ["plant", workspace] => plant(Path::new(workspace)),
        ["set-id", path] => set_id(path),
        ["calls"] => calls(),
        ["leases", path] => beyond::leases(path),
        ["locks", real, own] => beyond::locks(real, own),
        ["turns", path] => beyond::turns(path),
        ["lock-race", real, own] => beyond::lock_race(real, own),
        ["metadata", path] => beyond::metadata(path),
        ["inotify"] => beyond::inotify(),
        ["reach", path, packets] => crate::sockets::reach(path, packets),
        ["converse"] => crate::sockets::converse(),
        ["in-transit"] => beyond::in_transit(),
        ["priorities"] => beyond::priorities(),
        ["hold", way] => held::hold(way),
        ["some-shared", kind] => held::some_shared(kind),
        ["state"] => state(),
        ["probe"] => probe(),
        ["signal", number] => {
            // SAFETY: a signal to this process itself.
            unsafe { libc::raise(number.parse().unwrap()) };
        }
        ["exit", status] => std::process::exit(status.parse().unwrap()),
        ["sleep"] => std::thread::sleep(Duration::from_secs(60)),
        other => panic!("no such attack: {other:?}"),
    }
}

fn print(bytes: usize) {
    let piece = [b'x'; 1 << 16];
    let mut left = bytes;
    let mut out = io::stdout().lock();
    out.write_all(b"first").unwrap();
    while left > 0 {
        let length = left.min(piece.len());
        out.write_all(&piece[..length]).unwrap();
        left -= length;
    }
    out.write_all(b"last").unwrap();
}

pub fn say<T>(what: &str, result: io::Result<T>) {
    match result {
        Ok(_) => println!("{what}: DONE"),
        Err(error) => println!("{what}: refused: {error}"),
    }
}

fn connect(targets: &[&str]) {
    let [tcp, tcp6, udp, stream, datagram, name] = targets else { panic!("{targets:?}") };
    say("tcp", TcpStream::connect(tcp).and_then(|mut to| to.write_all(b"tcp")));
    say("tcp6", TcpStream::connect(tcp6).and_then(|mut to| to.write_all(b"tcp6")));
    say("udp", UdpSocket::bind("0.0.0.0:0").and_then(|from| from.send_to(b"udp", udp)));
    say("stream", UnixStream::connect(stream).and_then(|mut to| to.write_all(b"stream")));
    say("datagram", UnixDatagram::unbound().and_then(|from| from.send_to(b"x", datagram)));
    let address = SocketAddr::from_abstract_name(name).unwrap();
    say(
        "abstract",
        UnixStream::connect_addr(&address).and_then(|mut to| to.write_all(b"abstract")),
    );
    say("pair", UnixDatagram::pair().and_then(|(one, _)| one.send_to(b"pair", datagram)));
    say("raw pair", raw_pair().and_then(|one| one.send_to(b"raw pair", datagram)));
    say("stream pair", UnixStream::pair());
}

/// The kernel turns it into a pair of datagram sockets.
fn raw_pair() -> io::Result<UnixDatagram> {
    let mut pair = [0; 2];
    // SAFETY: the call fills the two numbers.
    check(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_RAW, 0, pair.as_mut_ptr()) }.into())?;
    // SAFETY: the call succeeded, so both descriptors are open and new.
    let [one, _other] = pair.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(one.into())
}

/// Tries to reach other machines by name and by address.
fn reach() {
    use std::net::ToSocketAddrs as _;
    for name in ["Registry.Npmjs.org:443", "registry.npmjs.org:80", "localhost:1", "printer:1"] {
        let started = Instant::now();
        say(name, name.to_socket_addrs());
        assert!(started.elapsed() < Duration::from_secs(3), "{name}");
    }
    for address in ["192.0.2.1:443", "[2001:db8::1]:443", "10.0.0.1:80", "127.0.0.1:9"] {
        say(address, TcpStream::connect(address));
    }
    let flood = UdpSocket::bind("127.0.0.1:0");
    for length in 0..200 {
        let _ =
            flood.as_ref().map(|socket| socket.send_to(&vec![0xff; length * 7], "127.0.0.1:53"));
    }
    say("name server", UdpSocket::bind("127.0.0.1:53"));
}

/// Runs a server and a client of its own.
fn loopback() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    say("loopback", listener.and_then(|listener| TcpStream::connect(listener.local_addr()?)));
}

fn read(path: &str) -> String {
    let mut text = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(1 << 16).read_to_end(&mut text)) {
        Ok(_) => format!("GOT {}", String::from_utf8_lossy(&text)),
        Err(error) => format!("refused: {error}"),
    }
}

/// Prints its own environment, and those of all processes.
fn environment() {
    for (name, value) in std::env::vars() {
        println!("own {name}={value}");
    }
    let me = std::process::id().to_string();
    let numbers = (1..70_000).map(|pid: u32| pid.to_string());
    for pid in numbers.filter(|pid| *pid != me) {
        let text = read(&format!("/proc/{pid}/environ"));
        if text.starts_with("GOT") {
            println!("of {pid}: {text}");
        }
    }
}

fn write(path: &Path) {
    let name = path.display();
    say(&format!("write {name}"), fs::write(path, "planted"));
    say(&format!("create in {name}"), fs::write(path.join("new"), "planted"));
    say(&format!("append {name}"), fs::OpenOptions::new().append(true).open(path));
    say(&format!("truncate {name}"), check(truncate(path)));
    say(&format!("remove {name}"), fs::remove_file(path));
    say(&format!("remove directory {name}"), fs::remove_dir(path));
    say(&format!("rename {name}"), fs::rename(path, path.with_extension("moved")));
    say(&format!("link from {name}"), fs::hard_link(path, "link"));
    let mode = PermissionsExt::from_mode(0o777);
    say(&format!("mode {name}"), fs::set_permissions(path, mode));
    say(&format!("owner {name}"), std::os::unix::fs::chown(path, None, Some(0)));
    say(&format!("time {name}"), check(set_time(path)));
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).unwrap()
}

fn truncate(path: &Path) -> c_long {
    // SAFETY: the path lives during the call.
    unsafe { libc::truncate(c_path(path).as_ptr(), 0) }.into()
}

fn set_time(path: &Path) -> c_long {
    let times = [libc::timespec { tv_sec: 1, tv_nsec: 0 }; 2];
    // SAFETY: path and times live during the call.
    unsafe { libc::utimensat(libc::AT_FDCWD, c_path(path).as_ptr(), times.as_ptr(), 0) }.into()
}

pub fn check(status: c_long) -> io::Result<()> {
    if status == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub fn fork() -> i32 {
    // SAFETY: this program has one thread.
    unsafe { libc::fork() }
}

fn fork_bomb() -> ! {
    loop {
        fork();
    }
}

/// Forks so that only orphans remain.
fn double_fork_bomb() -> ! {
    loop {
        if fork() == 0 {
            // SAFETY: no pointers.
            unsafe { libc::setsid() };
            if fork() > 0 {
                // SAFETY: ends this process.
                unsafe { libc::_exit(0) };
            }
        }
    }
}

/// Forks as dash does: its handler for SIGCHLD does not restart calls.
fn fork_while_children_end(times: usize) {
    extern "C" fn ignore(_: libc::c_int) {}
    // SAFETY: the handler does nothing; the structure is plain data that the call reads.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
        check(libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()).into())
            .unwrap();
    }
    for _ in 0..times {
        let child = fork();
        check(child.into()).unwrap();
        if child == 0 {
            // SAFETY: ends this process.
            unsafe { libc::_exit(0) };
        }
    }
}

/// Forks so many children at a time, so many times.
fn fork_within(rounds: usize, children: usize) {
    for _ in 0..rounds {
        let mut hold = [0; 2];
        // SAFETY: the call fills the two numbers.
        check(unsafe { libc::pipe(hold.as_mut_ptr()) }.into()).unwrap();
        let pids: Vec<_> = (0..children)
            .map(|_| {
                let child = fork();
                if child == 0 {
                    // All live until the last has been started.
                    let mut byte = 0_u8;
                    // SAFETY: the byte lives during the call; then this process ends.
                    unsafe {
                        libc::close(hold[1]);
                        libc::read(hold[0], (&raw mut byte).cast(), 1);
                        libc::_exit(0);
                    }
                }
                child
            })
            .collect();
        // SAFETY: the pipe is this function's own.
        unsafe { [libc::close(hold[0]), libc::close(hold[1])] };
        for child in pids {
            // SAFETY: a null pointer means that the status is of no interest.
            check(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }.into()).unwrap();
        }
    }
}

/// Processes that are always new: each starts the next one and exits.
fn comets() -> ! {
    for _ in 0..4 {
        if fork() == 0 {
            loop {
                if fork() > 0 {
                    // SAFETY: ends this process.
                    unsafe { libc::_exit(0) };
                }
            }
        }
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Leaves the session and the parent, and writes a heartbeat.
fn daemon(heartbeat: &str, last: &str) {
    if fork() == 0 {
        // SAFETY: no pointers.
        unsafe { libc::setsid() };
        if fork() == 0 {
            // SAFETY: handlers are set to "ignore".
            (1..32).for_each(|signal| unsafe {
                libc::signal(signal, libc::SIG_IGN);
            });
            for beat in 0_u64.. {
                fs::write(heartbeat, beat.to_string()).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        // SAFETY: ends this process.
        unsafe { libc::_exit(0) };
    }
    while fs::metadata(heartbeat).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    if last == "sleep" {
        std::thread::sleep(Duration::from_secs(60));
    }
}

/// Everything that one process can do to another: to its parent, and to the given ones. It is not
/// tried on all processes (-1): without a sandbox, that would kill all processes of the developer.
fn kill(pids: &[&str]) {
    let parent = std::os::unix::process::parent_id().to_string();
    for pid in pids.iter().copied().chain([parent.as_str()]) {
        let number: i32 = pid.parse().unwrap();
        // SAFETY: no pointers but to limits that live during the call.
        unsafe {
            say(&format!("kill {pid}"), check(libc::kill(number, libc::SIGKILL).into()));
            say(&format!("stop {pid}"), check(libc::kill(number, libc::SIGSTOP).into()));
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            let limit =
                libc::prlimit(number, libc::RLIMIT_CPU, &raw const none, std::ptr::null_mut());
            say(&format!("limit {pid}"), check(limit.into()));
            say(&format!("trace {pid}"), check(libc::ptrace(libc::PTRACE_ATTACH, number, 0, 0)));
        }
        say(&format!("memory of {pid}"), fs::File::open(format!("/proc/{pid}/mem")));
    }
    if fork() == 0 {
        // SAFETY: no pointers. The group contains this process and its parent.
        unsafe { libc::setpgid(0, 0) };
        // SAFETY: as above.
        unsafe { libc::kill(0, libc::SIGKILL) };
    }
    println!("still here");
}

/// Leaves processes. Each has created a group while all of its ancestors below this process ended, without
/// becoming zombies.
fn orphans(count: u32) {
    // SAFETY: the signal is set to "ignore".
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    for number in 0..count {
        let moment = Instant::now() + Duration::from_millis(30);
        if fork() == 0 {
            orphan(moment, Duration::from_micros(10) * number);
        }
        std::thread::sleep(Duration::from_millis(60));
    }
}

/// Starts a chain of processes. The last one creates a group at the `moment` and stays; the others end
/// `later`.
fn orphan(moment: Instant, later: Duration) -> ! {
    const DEPTH: usize = 30;
    // SAFETY: no pointers.
    unsafe { libc::setsid() };
    for _ in 0..DEPTH {
        if fork() != 0 {
            std::thread::sleep((moment + later).saturating_duration_since(Instant::now()));
            // SAFETY: ends this process.
            unsafe { libc::_exit(0) };
        }
    }
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
    // SAFETY: no pointers.
    unsafe { libc::setpgid(0, 0) };
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn file_size() {
    let mut file = fs::File::create("large").unwrap();
    loop {
        file.write_all(&[1; 1 << 16]).unwrap();
    }
}

fn memory() {
    let mut blocks = Vec::new();
    loop {
        blocks.push(vec![1_u8; 1 << 20]);
    }
}

/// Each child has less than the limit.
fn memory_of_children() {
    for _ in 0..8 {
        if fork() == 0 {
            let block = vec![1_u8; 24 << 20];
            std::thread::sleep(Duration::from_secs(60));
            drop(block);
        }
    }
    std::thread::sleep(Duration::from_secs(60));
}

/// Shares 60 MiB with four children.
fn shared_memory() {
    let block = vec![1_u8; 60 << 20];
    for _ in 0..4 {
        if fork() == 0 {
            std::thread::sleep(Duration::from_millis(300));
            // SAFETY: ends this process.
            unsafe { libc::_exit(0) };
        }
    }
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(block[block.len() - 1], 1);
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

fn descriptors() {
    for fd in 0..4096 {
        // SAFETY: no pointers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } != -1 {
            println!("open: {fd}");
        }
    }
}

/// Tries in many ways to leave something in a repository that git executes.
fn plant(workspace: &Path) {
    for repository in [workspace.to_owned(), workspace.join("sub/module")] {
        let git = repository.join(".git");
        let moved = repository.join(".git2");
        for path in [git.join("config"), git.join("hooks/post-commit"), git.join("commondir")] {
            say(&format!("write {}", path.display()), fs::write(&path, "planted"));
        }
        say("remove config", fs::remove_file(git.join("config")));
        say(
            "replace config",
            fs::write(repository.join("c"), "planted")
                .and_then(|()| fs::rename(repository.join("c"), git.join("config"))),
        );
        say("link into hooks", fs::hard_link("other", git.join("hooks/other")));
        say(&format!("move {}", git.display()), fs::rename(&git, &moved));
        say("exchange", exchange(&git, &repository.join("evil")));
        say("remove all", fs::remove_dir_all(&git));
    }
    for above in ["sub", "sub/module"] {
        let path = workspace.join(above);
        say(&format!("move {above}"), fs::rename(&path, path.with_extension("moved")));
    }
    say("own", fs::write(workspace.join(".cofferdam/roles"), "planted"));
    say("move own", fs::rename(workspace.join(".cofferdam"), workspace.join("c2")));
    say("ordinary", fs::write(workspace.join("src/ordinary"), "fine"));
    say("beside nested", fs::write(workspace.join("sub/module/src/ordinary"), "fine"));
}

fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    fs::create_dir_all(other)?;
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    Ok(rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, flags)?)
}

/// Creates a set-user-ID file.
fn set_id(path: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;

    for mode in [0o4755, 0o2755] {
        let open =
            |path: &str| fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        say("open with it", open(&format!("{path}-{mode:o}")));
        fs::write(path, "").unwrap();
        say("chmod", fs::set_permissions(path, fs::Permissions::from_mode(mode)));
        let file = fs::File::open(path).unwrap();
        say("fchmod", file.set_permissions(fs::Permissions::from_mode(mode)));
        // SAFETY: the path lives during the call.
        say(
            "mknod",
            check(
                unsafe {
                    let path = CString::new(format!("{path}-node")).unwrap();
                    libc::mknod(path.as_ptr(), libc::S_IFREG | mode, 0)
                }
                .into(),
            ),
        );
    }
}

/// Calls that no program may make. Without a filter, most would fail with other errors, since their
/// arguments are invalid: so the errors are printed.
fn calls() {
    let table: &[(&str, c_long, [c_long; 4])] = &[
        ("add_key", libc::SYS_add_key, [0; 4]),
        ("bpf", libc::SYS_bpf, [0; 4]),
        ("clone with a user namespace", libc::SYS_clone, [libc::CLONE_NEWUSER.into(), 0, 0, 0]),
        ("clone3", libc::SYS_clone3, [0; 4]),
        ("clone with descriptors", libc::SYS_clone, [libc::CLONE_FILES.into(), 0, 0, 0]),
        ("descriptors of a thread", libc::SYS_close_range, [1 << 20, 1 << 20, 2, 0]),
        ("fanotify_init", libc::SYS_fanotify_init, [0; 4]),
        ("file_setattr", 469, [0; 4]),
        ("hiding", libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 0, 0, 0]),
        ("io_setup", libc::SYS_io_setup, [1, 0, 0, 0]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [0; 4]),
        ("keyctl", libc::SYS_keyctl, [0; 4]),
        ("mount", libc::SYS_mount, [0; 4]),
        ("landlock", libc::SYS_landlock_create_ruleset, [0, 0, 1, 0]),
        ("large pages", libc::SYS_mmap, [0, 1 << 21, 3, 0x4_0022]),
        ("memfd_create", libc::SYS_memfd_create, [0; 4]),
        ("mq_open", libc::SYS_mq_open, [0; 4]),
        ("name_to_handle_at", libc::SYS_name_to_handle_at, [0; 4]),
        ("openat2", libc::SYS_openat2, [0; 4]),
        ("perf_event_open", libc::SYS_perf_event_open, [0; 4]),
        ("personality", libc::SYS_personality, [0x0040_0000, 0, 0, 0]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [0; 4]),
        ("ptrace", libc::SYS_ptrace, [0; 4]),
        ("sending without copying", libc::SYS_setsockopt, [0, 1, 60, 0]),
        ("setns", libc::SYS_setns, [0; 4]),
        ("terminal input", libc::SYS_ioctl, [0, 0x5412, 0, 0]),
        ("terminal input, high bits", libc::SYS_ioctl, [0, 0x5412 | 1 << 40, 0, 0]),
        ("unshare", libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0]),
        ("userfaultfd", libc::SYS_userfaultfd, [0; 4]),
        ("vmsplice", libc::SYS_vmsplice, [0; 4]),
        ("verity", libc::SYS_ioctl, [0, 0x4080_6685, 0, 0]),
        ("a later one", 467, [0; 4]),
        #[cfg(target_arch = "x86_64")]
        ("x32 getpid", 0x4000_0000 + libc::SYS_getpid, [0; 4]),
        #[cfg(target_arch = "x86_64")]
        ("x32 socket", 0x4000_0000 + libc::SYS_socket, [1, 1, 0, 0]),
    ];
    for (name, number, [a, b, c, d]) in table {
        // SAFETY: no call gets a pointer that is not null.
        say(name, check(unsafe { libc::syscall(*number, *a, *b, *c, *d) }));
    }
}

/// Prints what a program inherits besides files.
fn state() {
    println!("no new privileges: {}", rustix::thread::no_new_privs().unwrap());
    println!("capabilities: {:?}", rustix::thread::capabilities(None).unwrap());
    // SAFETY: an empty set is valid, and the call fills it.
    let mut blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked) };
    for signal in 1..32 {
        // SAFETY: an empty action is valid, and the call fills it.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
        // Rust itself ignores SIGPIPE.
        if action.sa_sigaction == libc::SIG_IGN && signal != libc::SIGPIPE {
            println!("ignored: {signal}");
        }
        // SAFETY: the set was filled.
        if unsafe { libc::sigismember(&raw const blocked, signal) } == 1 {
            println!("blocked: {signal}");
        }
    }
    // SAFETY: no pointers.
    println!("leader of its session: {}", unsafe { libc::getsid(0) == libc::getpid() });
    println!("terminal: {:?}", fs::File::open("/dev/tty").map(|tty| tty.as_raw_fd()).is_ok());
}

/// Prints what a sandbox offers within a sandbox.
fn probe() {
    let start = Instant::now();
    let opened = cofferdam_sandbox::Sandbox::open(cofferdam_sandbox::Helper::current(), None);
    println!("{opened:?} after {:?}", start.elapsed());
}
