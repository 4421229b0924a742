//! Memory that is in no process's count: first the program that holds it, then what must hold.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use cofferdam_sandbox::{End, Limit, Tier};
use libc::{c_int, c_void};

use crate::hostile::{check, fork};
use crate::support::{Place, Setting};

const MIB: usize = 1 << 20;

/// As much as each way is tried for.
const MOST: usize = 1024 * MIB;

/// Holds memory in some way, says how much, and sleeps.
pub fn hold(way: &str) {
    let held = match way {
        "memfd" => memfd(),
        "system-v" => system_v(),
        "semaphores" => semaphores(),
        "messages" => messages(),
        "posix" => files("/dev/shm"),
        "temporary" => files("/tmp"),
        "shared" => shared(),
        "shared-zero" => shared_zero(),
        "tables" => tables(),
        "first-thread-gone" => first_thread_gone(),
        "sockets" => sockets(),
        "large-buffers" => large_buffers(),
        "connections" => connections(),
        "empty-messages" => empty_messages(),
        "spliced" => spliced(),
        "pipes" => pipes(),
        other => panic!("no such way: {other}"),
    };
    println!("{}", held / MIB);
    std::thread::sleep(Duration::from_millis(500));
}

fn map(flags: c_int, protection: c_int, fd: c_int, bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: the kernel chooses where.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address.cast()) }
}

const BOTH: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Writes to each page, and then lets go of them: they stay where they are.
fn fill(address: *mut u8, bytes: usize) {
    for page in (0..bytes).step_by(4096) {
        // SAFETY: the page is mapped for writing.
        unsafe { address.add(page).write_volatile(1) };
    }
    // SAFETY: the memory is this program's own, and not used any more.
    unsafe { libc::madvise(address.cast::<c_void>(), bytes, libc::MADV_DONTNEED) };
}

/// Repeats something that holds so many bytes until it fails.
fn repeat(bytes: usize, mut once: impl FnMut() -> io::Result<()>) -> usize {
    let mut held = 0;
    while held < MOST && once().is_ok() {
        held += bytes;
    }
    held
}

fn memfd() -> usize {
    let piece = vec![1; MIB];
    let name = CString::new("held").unwrap();
    // SAFETY: the name lives during the call.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), 0) };
    repeat(MIB, || {
        // SAFETY: the piece lives during the call.
        let written = unsafe { libc::write(fd, piece.as_ptr().cast(), piece.len()) };
        check(written as _)
    })
}

fn system_v() -> usize {
    let bytes = 16 * MIB;
    repeat(bytes, || {
        // SAFETY: no pointers.
        let segment = unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, 0o600) };
        check(segment.into())?;
        // SAFETY: the kernel chooses where; it is this program's own.
        unsafe {
            let address = libc::shmat(segment, std::ptr::null(), 0);
            fill(address.cast(), bytes);
            check(libc::shmdt(address).into())
        }
    })
}

fn semaphores() -> usize {
    repeat(2 * MIB, || {
        // SAFETY: no pointers.
        check(unsafe { libc::semget(libc::IPC_PRIVATE, 32_000, 0o600) }.into())
    })
}

fn messages() -> usize {
    let message = [1_u8; 8192 + 8];
    repeat(16 << 10, || {
        // SAFETY: the message lives during the calls.
        unsafe {
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            check(queue.into())?;
            for _ in 0..2 {
                let sent = libc::msgsnd(queue, message.as_ptr().cast(), 8192, libc::IPC_NOWAIT);
                check(sent.into())?;
            }
        }
        Ok(())
    })
}

fn files(directory: &str) -> usize {
    let piece = vec![1; MIB];
    let mut number = 0;
    let mut file = match fs::File::create(format!("{directory}/held")) {
        Ok(file) => file,
        Err(_) => return 0,
    };
    repeat(MIB, || {
        number += 1;
        if number % 32 == 0 {
            file = fs::File::create(format!("{directory}/held{number}"))?;
        }
        file.write_all(&piece)
    })
}

fn shared() -> usize {
    let bytes = 16 * MIB;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    repeat(bytes, || map(flags, BOTH, -1, bytes).map(|address| fill(address, bytes)))
}

fn shared_zero() -> usize {
    let bytes = 16 * MIB;
    let open = |write: bool| fs::File::options().read(true).write(write).open("/dev/zero");
    let (zero, protection) = match open(true) {
        Ok(zero) => (zero, BOTH),
        Err(_) => (open(false).unwrap(), libc::PROT_READ),
    };
    repeat(bytes, || {
        let address = map(libc::MAP_SHARED, protection, zero.as_raw_fd(), bytes)?;
        if protection != BOTH {
            // It can only be read: nothing is kept of it.
            return Err(io::ErrorKind::Unsupported.into());
        }
        fill(address, bytes);
        Ok(())
    })
}

/// Reads one byte of each two megabytes of a large space: each takes a page of tables.
fn tables() -> usize {
    let space: usize = 512 << 30;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let address = map(flags, libc::PROT_READ, -1, space).unwrap();
    // SAFETY: the memory is this program's own.
    unsafe { libc::madvise(address.cast(), space, libc::MADV_NOHUGEPAGE) };
    let mut at = 0;
    repeat(4096, || {
        if at >= space {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // SAFETY: the page can be read.
        unsafe { address.add(at).read_volatile() };
        at += 2 * MIB;
        Ok(())
    })
}

/// The first thread ends; of it, the kernel says no memory any more.
fn first_thread_gone() -> ! {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(50));
        let blocks: Vec<_> = (0..MOST / MIB).map(|_| vec![1_u8; MIB]).collect();
        println!("{}", blocks.len());
        std::thread::sleep(Duration::from_millis(500));
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    });
    // SAFETY: ends this thread only.
    unsafe {
        libc::syscall(libc::SYS_exit, 0);
    }
    unreachable!("a thread that has ended")
}

/// In children, since each has few descriptors.
fn in_children(children: usize, bytes: usize, once: fn() -> usize) -> usize {
    for _ in 0..children {
        if fork() == 0 {
            once();
            std::thread::sleep(Duration::from_secs(60));
        }
    }
    std::thread::sleep(Duration::from_secs(5));
    children * bytes
}

fn sockets() -> usize {
    in_children(10, 100 * MIB, || {
        let piece = vec![1; MIB];
        let mut pairs = Vec::new();
        while let Ok((one, other)) = UnixStream::pair() {
            for mut end in [one, other] {
                end.set_nonblocking(true).unwrap();
                while end.write(&piece).is_ok() {}
                pairs.push(end);
            }
        }
        std::mem::forget(pairs);
        0
    })
}

/// Sockets with buffers as large as they may be.
fn large_buffers() -> usize {
    let bytes = 16 * MIB;
    let piece = vec![1; MIB];
    let mut pairs = Vec::new();
    repeat(bytes, || {
        for mut end in <[UnixStream; 2]>::from(UnixStream::pair()?) {
            rustix::net::sockopt::set_socket_send_buffer_size(&end, 8 * MIB)?;
            end.set_nonblocking(true)?;
            while end.write(&piece).is_ok() {}
            pairs.push(end);
        }
        Ok(())
    })
}

/// Connections that are never accepted; the client has closed them.
fn connections() -> usize {
    let Ok(listener) = std::net::TcpListener::bind("127.0.0.1:0") else { return 0 };
    let piece = vec![1; MIB];
    let mut held = 0;
    let mut listeners = vec![listener];
    while held < MOST {
        let address = listeners[listeners.len() - 1].local_addr().unwrap();
        let timeout = Duration::from_millis(300);
        let Ok(mut stream) = std::net::TcpStream::connect_timeout(&address, timeout) else {
            let Ok(next) = std::net::TcpListener::bind("127.0.0.1:0") else { break };
            listeners.push(next);
            continue;
        };
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(bytes) = stream.write(&piece) {
            sent += bytes;
        }
        held += sent;
        if listeners.len() > 400 {
            break;
        }
    }
    std::mem::forget(listeners);
    held
}

/// Messages of System V without content.
fn empty_messages() -> usize {
    let message = [1_u8; 8];
    repeat(96, || {
        // SAFETY: the message lives during the calls.
        unsafe {
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            check(queue.into())?;
            while libc::msgsnd(queue, message.as_ptr().cast(), 0, libc::IPC_NOWAIT) == 0 {}
        }
        Ok(())
    })
}

/// Pages of a file in pipes, one byte of each large block.
fn spliced() -> usize {
    const BLOCK: usize = 2 * MIB;
    let mut file =
        fs::File::options().read(true).write(true).create(true).truncate(true).open("f").unwrap();
    file.write_all(&vec![1; 16 * BLOCK]).unwrap();
    let mut pipes = Vec::new();
    repeat(16 * BLOCK, || {
        let (reader, writer) = io::pipe()?;
        for block in 0..16 {
            let mut at = (block * BLOCK) as i64;
            let (from, to) = (file.as_raw_fd(), writer.as_raw_fd());
            let (at, none) = (&raw mut at, std::ptr::null_mut());
            // SAFETY: the place in the file lives during the call.
            check(unsafe { libc::splice(from, at, to, none, 1, libc::SPLICE_F_NONBLOCK) } as _)?;
        }
        pipes.push((reader, writer));
        Ok(())
    })
}

fn pipes() -> usize {
    in_children(40, 30 * MIB, || {
        let piece = vec![1; 4096];
        while let Ok((reader, mut writer)) = io::pipe() {
            rustix::io::ioctl_fionbio(&writer, true).unwrap();
            while writer.write(&piece).is_ok() {}
            std::mem::forget((reader, writer));
        }
        0
    })
}

pub fn memory_is_counted_whatever_holds_it(setting: &Setting) {
    let ways = [
        "memfd",
        "system-v",
        "semaphores",
        "messages",
        "posix",
        "temporary",
        "shared",
        "shared-zero",
        "tables",
        "first-thread-gone",
        "sockets",
        "pipes",
        "large-buffers",
        "connections",
        "empty-messages",
        "spliced",
    ];
    for way in ways {
        // There it is on disk.
        if (setting.tier, way) == (Tier::B, "temporary") {
            continue;
        }
        let place = Place::new(setting);
        let mut command = place.command(&["hold", way]);
        command.limits.memory = 256 << 20;
        let report = place.run(command);
        let output = String::from_utf8(report.stdout.bytes).unwrap();
        eprintln!("{way}: {:?} {output:?} after {:?}", report.end, report.wall);
        if report.end == End::Limit(Limit::Memory) {
            continue;
        }
        // It got no more.
        assert_eq!(report.end, End::Exited(0), "{way}");
        let held: u64 = output.trim().parse().unwrap();
        assert!(held <= 256, "{way}: {held} MiB");
    }
}

/// What ordinary programs do: some megabytes of each kind.
pub fn some_shared(kind: &str) {
    let bytes = 8 * MIB;
    match kind {
        "shared" => {
            let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
            // More often than the limit would allow at a time.
            for _ in 0..4 {
                let address = map(flags, BOTH, -1, bytes).unwrap();
                if fork() == 0 {
                    // SAFETY: it is mapped for writing; then this process ends.
                    unsafe {
                        address.write_volatile(7);
                        libc::_exit(0);
                    }
                }
                // SAFETY: a null pointer means that the status is of no interest.
                unsafe { libc::wait(std::ptr::null_mut()) };
                // SAFETY: it is mapped for reading.
                assert_eq!(unsafe { address.read_volatile() }, 7);
                // SAFETY: it is this function's own.
                check(unsafe { libc::munmap(address.cast(), bytes) }.into()).unwrap();
            }
        }
        "posix" => fs::write("/dev/shm/some", vec![1; bytes]).unwrap(),
        "system-v" => {
            // SAFETY: as the calls want it.
            unsafe {
                let segment = libc::shmget(libc::IPC_PRIVATE, bytes, 0o600);
                check(segment.into()).unwrap();
                let address = libc::shmat(segment, std::ptr::null(), 0);
                address.cast::<u8>().write_volatile(1);
                check(libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()).into()).unwrap();
            }
        }
        other => panic!("no such kind: {other}"),
    }
    println!("had it");
}

pub fn some_shared_memory_is_fine(setting: &Setting) {
    let kinds: &[&str] = match setting.tier {
        Tier::A => &["shared", "posix", "system-v"],
        Tier::B => &["shared"],
    };
    for kind in kinds {
        let place = Place::new(setting);
        let mut command = place.command(&["some-shared", kind]);
        command.limits.memory = 64 << 20;
        let report = place.run(command);
        let output = String::from_utf8(report.stdout.bytes).unwrap();
        assert_eq!((report.end, output.as_str()), (End::Exited(0), "had it\n"), "{kind}");
    }
}
