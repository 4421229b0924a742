//! Unix sockets: a program reaches those of its own run, and none of a process beyond it.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{End, Tier};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::hostile::{check, fork, say};
use crate::support::{Place, Setting};

/// How long each race is tried.
const RACE: Duration = Duration::from_millis(700);

fn socket(kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0) };
    check(fd.into())?;
    // SAFETY: the call succeeded, so the descriptor is open and new.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn address(path: &Path) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: an address is plain data.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    (address, (2 + bytes.len() + 1) as libc::socklen_t)
}

/// Connects a socket of a kind to a path.
fn connect(kind: libc::c_int, path: impl AsRef<Path>) -> io::Result<()> {
    let (socket, (address, length)) = (socket(kind)?, address(path.as_ref()));
    // SAFETY: the address lives during the call.
    let status = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    check(status.into())
}

fn stream(path: impl AsRef<Path>) -> io::Result<()> {
    connect(libc::SOCK_STREAM, path)
}

fn o_path(path: &Path) -> fs::File {
    fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).unwrap()
}

/// Tries to connect to the socket of a process beyond the run.
pub fn reach(path: &str, seqpacket: &str) {
    let path = Path::new(path);
    let (directory, name) = (path.parent().unwrap(), path.file_name().unwrap());
    say("path", stream(path));
    say("seqpacket", connect(libc::SOCK_SEQPACKET, seqpacket));
    say("datagram", socket(libc::SOCK_DGRAM));
    say("raw", socket(libc::SOCK_RAW));
    std::env::set_current_dir(directory).unwrap();
    say("relative", stream(name));
    say("through ..", stream(Path::new("..").join(directory.file_name().unwrap()).join(name)));
    for link in ["/proc/self/root", &format!("/proc/{}/root", std::process::id()), "/proc/1/root"] {
        say(link, stream(Path::new(link).join(path.strip_prefix("/").unwrap())));
    }
    say("working directory", stream(Path::new("/proc/self/cwd").join(name)));
    let (file, folder) = (o_path(path), o_path(directory));
    say("descriptor", stream(format!("/proc/self/fd/{}", file.as_raw_fd())));
    let below = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    say("directory", stream(below));
    say("passed", passed(&file));
    let temporary = std::env::temp_dir();
    let link = temporary.join("link");
    symlink(path, &link).unwrap();
    say("link", stream(&link));
    say("hard link", fs::hard_link(path, "hard").and_then(|()| stream("hard")));
    say("exchanged", exchanged(path));
    say("bound again", UnixListener::bind(path).map(drop));
    let own = temporary.join("own");
    let _listener = UnixListener::bind(&own);
    say("link race", link_race(&own, path));
    say("memory race", memory_race(&own, path));
    say("descriptor race", descriptor_race(path));
}

/// Connects through a descriptor that was sent through a socket.
fn passed(file: &fs::File) -> io::Result<()> {
    let (one, other) = UnixStream::pair()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [file.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(&one, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::empty();
    recvmsg(&other, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let received = received.ok_or(io::ErrorKind::UnexpectedEof)?;
    stream(format!("/proc/self/fd/{}", received.as_raw_fd()))
}

/// Gives the socket beyond the run the name of an own one that is known.
fn exchanged(path: &Path) -> io::Result<()> {
    let listener = UnixListener::bind("mine")?;
    stream("mine")?;
    drop(listener);
    fs::rename("mine", "moved")?;
    fs::rename(path, "mine")?;
    let connected = stream("mine");
    fs::rename("mine", path)?;
    connected
}

/// Repeats `attempt` while another thread repeats `change`. The caller of the run sees whether the
/// socket beyond it was reached.
fn while_racing(change: impl Fn(usize) + Sync, attempt: impl Fn() -> io::Result<()>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                change(round);
            }
        });
        let start = Instant::now();
        while start.elapsed() < RACE {
            let _ = attempt();
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn nothing_reached() -> io::Result<()> {
    Err(io::Error::other("nothing that this program would notice"))
}

/// A link that leads to an own socket and to the one beyond the run in turns.
fn link_race(own: &Path, beyond: &Path) -> io::Result<()> {
    let (link, next) = (std::env::temp_dir().join("raced"), std::env::temp_dir().join("next"));
    let change = |round| {
        let _ = symlink([own, beyond][round % 2], &next);
        let _ = fs::rename(&next, &link);
    };
    // It must not wait until an own connection is accepted.
    while_racing(change, || connect(libc::SOCK_STREAM | libc::SOCK_NONBLOCK, &link));
    nothing_reached()
}

/// An address in memory that names an own socket and the one beyond the run in turns.
fn memory_race(own: &Path, beyond: &Path) -> io::Result<()> {
    let addresses = [own, beyond].map(|path| address(path).0);
    let shared = Box::into_raw(Box::new(addresses[0])) as usize;
    // SAFETY: the memory is never freed, and only the kernel reads what is written.
    let change = |round| unsafe {
        (shared as *mut libc::sockaddr_un).write_volatile(addresses[round % 2]);
    };
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    while_racing(change, || {
        let socket = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        // SAFETY: as above.
        check(unsafe { libc::connect(socket.as_raw_fd(), shared as *const _, length) }.into())
    });
    nothing_reached()
}

/// A descriptor that is a TCP socket and a Unix socket in turns.
fn descriptor_race(beyond: &Path) -> io::Result<()> {
    let tcp = TcpListener::bind("127.0.0.1:0")?;
    let (unix, (address, length)) = (socket(libc::SOCK_STREAM)?, address(beyond));
    let raced = tcp.try_clone()?;
    let (tcp, unix, raced) = (tcp.as_raw_fd(), unix.as_raw_fd(), raced.as_raw_fd());
    let address = &address;
    // SAFETY: the descriptors are open for as long as the threads run.
    let change = |round| unsafe {
        libc::dup3([tcp, unix][round % 2], raced, libc::O_CLOEXEC);
    };
    while_racing(change, || {
        // SAFETY: the address lives during the call.
        check(unsafe { libc::connect(raced, std::ptr::from_ref(address).cast(), length) }.into())
    });
    nothing_reached()
}

pub fn sockets_of_other_processes_are_not_reached(setting: &Setting) {
    for writable in [true, false] {
        let place = Place::new(setting);
        let (path, packets) = (place.workspace().join("beyond"), place.workspace().join("packets"));
        let listener = UnixListener::bind(&path).unwrap();
        let other = socket(libc::SOCK_SEQPACKET).unwrap();
        let (address, length) = address(&packets);
        // SAFETY: the address lives during the call.
        unsafe {
            check(libc::bind(other.as_raw_fd(), (&raw const address).cast(), length).into())
                .unwrap();
            check(libc::listen(other.as_raw_fd(), 9).into()).unwrap();
        }
        for socket in [&path, &packets] {
            fs::set_permissions(socket, std::os::unix::fs::PermissionsExt::from_mode(0o777))
                .unwrap();
        }
        let mut command =
            place.command(&["reach", path.to_str().unwrap(), packets.to_str().unwrap()]);
        if !writable {
            command.writable.clear();
        }
        let report = place.run(command);
        let output = String::from_utf8_lossy(&report.stdout.bytes).into_owned();
        let errors = String::from_utf8_lossy(&report.stderr.bytes);
        assert_eq!(report.end, End::Exited(0), "{output} {errors}");
        assert!(!output.contains("DONE"), "{output}");
        assert_eq!(output.lines().count(), 20, "{output}");
        let other = UnixListener::from(other);
        for listener in [&listener, &other] {
            listener.set_nonblocking(true).unwrap();
            let accepted = listener.accept().map(drop).unwrap_err();
            assert_eq!(accepted.kind(), io::ErrorKind::WouldBlock, "{output}");
        }
        if setting.tier == Tier::A {
            // As if nothing listened there.
            let refused =
                format!("path: refused: {}", io::Error::from_raw_os_error(libc::ECONNREFUSED));
            assert!(output.lines().any(|line| line == refused), "{output}");
        }
        // It still works for the host.
        UnixStream::connect(&path).unwrap();
    }
}

/// Uses sockets as ordinary programs do.
pub fn converse() {
    for path in ["here", "./here2", &format!("{}/there", std::env::temp_dir().display())] {
        say(path, by_path(Path::new(path)));
    }
    say("abstract", by_name());
    say("seqpacket", packets());
    say("child", from_a_child());
    say("moved", moved());
    say("full backlog", full_backlog());
    say("without waiting", without_waiting());
    say("closed", closed());
    say("long path", long_path());
    say("threads", from_threads());
    say("many", many());
}

fn exchange(
    mut one: impl io::Read + io::Write,
    mut other: impl io::Read + io::Write,
) -> io::Result<()> {
    let mut word = [0; 4];
    one.write_all(b"ping")?;
    other.read_exact(&mut word)?;
    other.write_all(b"pong")?;
    one.read_exact(&mut word)?;
    if &word == b"pong" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn by_path(path: &Path) -> io::Result<()> {
    let listener = UnixListener::bind(path)?;
    let client = UnixStream::connect(path)?;
    let server = listener.accept()?.0;
    let names = [listener.local_addr()?, client.peer_addr()?];
    if names.iter().any(|name| name.as_pathname() != Some(path)) {
        return Err(io::Error::other(format!("{names:?}")));
    }
    exchange(&client, &server)
}

fn by_name() -> io::Result<()> {
    let name = SocketAddr::from_abstract_name("of the run")?;
    let listener = UnixListener::bind_addr(&name)?;
    let client = UnixStream::connect_addr(&name)?;
    exchange(&client, &listener.accept()?.0)
}

fn packets() -> io::Result<()> {
    let (socket, (address, length)) =
        (socket(libc::SOCK_SEQPACKET)?, address(Path::new("packets")));
    // SAFETY: the address lives during the call.
    unsafe {
        check(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length).into())?;
        check(libc::listen(socket.as_raw_fd(), 1).into())?;
    }
    connect(libc::SOCK_SEQPACKET, "packets")
}

fn from_a_child() -> io::Result<()> {
    let listener = UnixListener::bind("parent")?;
    if fork() == 0 {
        let mut word = [0; 4];
        let answered = UnixStream::connect("parent").and_then(|mut client| {
            client.read_exact(&mut word)?;
            client.write_all(&word)
        });
        std::process::exit(answered.is_err().into());
    }
    let (mut server, mut word) = (listener.accept()?.0, [0; 4]);
    server.write_all(b"ping")?;
    server.read_exact(&mut word)
}

/// A listening socket keeps its file, also under another name.
fn moved() -> io::Result<()> {
    let listener = UnixListener::bind("before")?;
    fs::rename("before", "after")?;
    let client = UnixStream::connect("after")?;
    exchange(&client, &listener.accept()?.0)
}

fn listen(socket: &OwnedFd, backlog: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) }.into())
}

/// Connections that wait until earlier ones are accepted.
fn full_backlog() -> io::Result<()> {
    const CLIENTS: usize = 8;
    let listener = UnixListener::bind("full")?;
    let listener = OwnedFd::from(listener);
    listen(&listener, 0)?;
    let listener = UnixListener::from(listener);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| stream("full"))).collect();
        std::thread::sleep(Duration::from_millis(100));
        for _ in 0..CLIENTS {
            listener.accept()?;
        }
        clients.into_iter().try_for_each(|client| client.join().unwrap())
    })
}

/// A socket that does not wait gets an error where the backlog is full, and keeps its flags.
fn without_waiting() -> io::Result<()> {
    let listener = OwnedFd::from(UnixListener::bind("busy")?);
    listen(&listener, 0)?;
    let mut results = Vec::new();
    for _ in 0..3 {
        let socket = socket(libc::SOCK_STREAM | libc::SOCK_NONBLOCK)?;
        let (address, length) = address(Path::new("busy"));
        // SAFETY: the address lives during the call.
        let status =
            unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
        results.push(check(status.into()).map_err(|error| error.raw_os_error()));
        assert!(rustix::fs::fcntl_getfl(&socket)?.contains(rustix::fs::OFlags::NONBLOCK));
        std::mem::forget(socket);
    }
    assert_eq!(results.last(), Some(&Err(Some(libc::EAGAIN))), "{results:?}");
    let client = UnixStream::connect("missing").map(drop).map_err(|error| error.raw_os_error());
    assert_eq!(client, Err(Some(libc::ENOENT)));
    fs::write("file", "")?;
    assert_eq!(stream("file").unwrap_err().raw_os_error(), Some(libc::ECONNREFUSED));
    Ok(())
}

/// Nothing listens on the socket of a listener that has ended.
fn closed() -> io::Result<()> {
    drop(UnixListener::bind("gone")?);
    match stream("gone").map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ECONNREFUSED)) => Ok(()),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}

fn long_path() -> io::Result<()> {
    let path = "p".repeat(107);
    let listener = UnixListener::bind(&path)?;
    let client = UnixStream::connect(&path)?;
    exchange(&client, &listener.accept()?.0)
}

/// TCP and Unix sockets of a program with several threads.
fn from_threads() -> io::Result<()> {
    let (tcp, unix) = (TcpListener::bind("127.0.0.1:0")?, UnixListener::bind("threads")?);
    let to = tcp.local_addr()?;
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..20)
            .map(|number| {
                scope.spawn(move || match number % 2 {
                    0 => TcpStream::connect(to).map(drop),
                    _ => UnixStream::connect("threads").map(drop),
                })
            })
            .collect();
        for _ in 0..10 {
            tcp.accept()?;
            unix.accept()?;
        }
        clients.into_iter().try_for_each(|client| client.join().unwrap())?;
        let refused = TcpStream::connect("127.0.0.1:1").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ECONNREFUSED));
        Ok(())
    })
}

/// More listening sockets than are recorded at a time are an error; those that are removed make
/// room.
fn many() -> io::Result<()> {
    for round in 0..3 {
        let mut listeners = Vec::new();
        let error = loop {
            let name = format!("many-{}", listeners.len());
            match UnixListener::bind(&name) {
                Ok(listener) => listeners.push(listener),
                Err(error) => break error,
            }
            stream(&name)?;
        };
        if error.raw_os_error() != Some(libc::ENOBUFS) || listeners.len() < 200 {
            return Err(io::Error::other(format!("{round}: {} {error}", listeners.len())));
        }
        for number in 0..=listeners.len() {
            let _ = fs::remove_file(format!("many-{number}"));
        }
    }
    Ok(())
}

pub fn sockets_of_the_run_work(setting: &Setting) {
    for on_an_overlay in [false, true] {
        if on_an_overlay && setting.tier == Tier::B {
            continue;
        }
        let place = Place::new(setting);
        let mut command = place.command(&["converse"]);
        if on_an_overlay {
            let [upper, work] = ["upper", "work"].map(|name| place.outside().join(name));
            for directory in [&upper, &work] {
                fs::create_dir(directory).unwrap();
            }
            command.writable.clear();
            let lower = place.workspace();
            command.overlay = Some(cofferdam_sandbox::Overlay { lower, upper, work });
        }
        let report = place.run(command);
        let output = String::from_utf8_lossy(&report.stdout.bytes).into_owned();
        let errors = String::from_utf8_lossy(&report.stderr.bytes);
        if setting.tier == Tier::B {
            assert!(!output.contains("DONE"), "{output}");
            continue;
        }
        assert_eq!(report.end, End::Exited(0), "{output} {errors}");
        assert!(output.lines().all(|line| line.ends_with("DONE")), "{output}");
        assert_eq!(output.lines().count(), 13, "{output}");
    }
}
