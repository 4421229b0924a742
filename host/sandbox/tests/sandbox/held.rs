//! Memory that no process's own count includes: first the program that holds it, then the tests.

use std::ffi::CString;
use std::fs;
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use cofferdam_sandbox::{End, Limit, Tier};
use libc::{c_int, c_void};

use crate::hostile::{check, fork};
use crate::support::{Place, Setting};

const MIB: usize = 1 << 20;

/// The most that is tried in each way, in bytes.
const MAX_HELD_BYTES: usize = 1024 * MIB;

/// Holds memory in some way, prints how much, and sleeps.
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
        "pipes" => pipes(),
        // SAFETY: the offset lives during the call.
        "pipes-of-files" => page_cache(|file, at, pipe| unsafe {
            libc::splice(file, at, pipe, std::ptr::null_mut(), 1, libc::SPLICE_F_NONBLOCK)
        }),
        // SAFETY: as above.
        "sent-files" => page_cache(|file, at, pipe| unsafe { libc::sendfile(pipe, file, at, 1) }),
        "large-sockets" => large_sockets(),
        "unaccepted-unix" => unaccepted_unix(),
        "unaccepted" => unaccepted(),
        "rulesets" => rulesets(),
        "empty-messages" => empty_messages(),
        "undo" => undo(),
        "mappings" => mappings(),
        other => panic!("no such way: {other}"),
    };
    println!("{}", held / MIB);
    // Counting the memory of many mappings takes seconds on a busy machine.
    let seconds = if held > 256 * MIB { 10.0 } else { 0.5 };
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

fn map(flags: c_int, protection: c_int, fd: c_int, bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: the kernel chooses where.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address.cast()) }
}

const BOTH: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// Writes to each page, and then unmaps them: they stay allocated.
fn fill(address: *mut u8, bytes: usize) {
    for page in (0..bytes).step_by(4096) {
        // SAFETY: the page is mapped for writing.
        unsafe { address.add(page).write_volatile(1) };
    }
    // SAFETY: the memory is this program's own, and not used any more.
    unsafe { libc::madvise(address.cast::<c_void>(), bytes, libc::MADV_DONTNEED) };
}

/// Repeats an operation that holds so many bytes until it fails.
fn repeat(bytes: usize, mut once: impl FnMut() -> io::Result<()>) -> usize {
    let mut held = 0;
    while held < MAX_HELD_BYTES && once().is_ok() {
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
            // It is read-only, so nothing of it is kept.
            return Err(io::ErrorKind::Unsupported.into());
        }
        fill(address, bytes);
        Ok(())
    })
}

/// Reads one byte of each two megabytes of a large mapping: each takes a page of page tables.
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

/// The first thread exits; the kernel then reports no memory for it.
fn first_thread_gone() -> ! {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(50));
        let blocks: Vec<_> = (0..MAX_HELD_BYTES / MIB).map(|_| vec![1_u8; MIB]).collect();
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

/// The size of the file for [`page_cache`].
const PAGE_CACHE_BYTES: u64 = 600 << 20;

/// Has pipes refer to one byte of each large folio of the page cache.
fn page_cache(link: fn(c_int, *mut libc::off_t, c_int) -> isize) -> usize {
    let file = fs::File::create_new("sparse").unwrap();
    file.set_len(PAGE_CACHE_BYTES).unwrap();
    let file = fs::File::open("sparse").unwrap();
    let (mut at, mut pipes): (libc::off_t, _) = (0, Vec::new());
    repeat(2 * MIB, || {
        if at as u64 >= PAGE_CACHE_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if at % (32 << 20) == 0 {
            pipes.push(io::pipe()?);
        }
        let (_, writer) = pipes.last().ok_or(io::ErrorKind::NotFound)?;
        let mut from = at;
        check(link(file.as_raw_fd(), &raw mut from, writer.as_raw_fd()) as _)?;
        at += 2 << 20;
        Ok(())
    })
}

/// Writes as much as it can without waiting.
fn write_all(mut to: impl io::Write, piece: &[u8]) -> usize {
    std::iter::from_fn(|| to.write(piece).ok()).sum()
}

fn large_sockets() -> usize {
    let (piece, size) = (vec![1; MIB], c_int::MAX);
    let mut pairs = Vec::new();
    let mut held = 0;
    while let Ok((one, other)) = UnixStream::pair()
        && held < MAX_HELD_BYTES
    {
        for end in [&one, &other] {
            let (option, bytes) = (libc::SO_SNDBUF, size_of_val(&size) as u32);
            // SAFETY: the number lives during the call.
            let set = unsafe {
                let size = (&raw const size).cast();
                libc::setsockopt(end.as_raw_fd(), libc::SOL_SOCKET, option, size, bytes)
            };
            check(set.into()).unwrap();
            end.set_nonblocking(true).unwrap();
            held += write_all(end, &piece);
        }
        pairs.push((one, other));
    }
    std::mem::forget(pairs);
    held
}

/// Connections that are closed by the client, and never accepted.
fn unaccepted() -> usize {
    let Ok(listener) = TcpListener::bind("127.0.0.1:0") else { return 0 };
    let address = listener.local_addr().unwrap();
    let piece = vec![1; MIB];
    let (mut listeners, mut held, mut connections) = (vec![listener], 0, 0);
    while held < MAX_HELD_BYTES {
        let to = listeners.last().map_or(address, |listener| listener.local_addr().unwrap());
        let Ok(client) = TcpStream::connect_timeout(&to, Duration::from_millis(200)) else { break };
        client.set_nonblocking(true).unwrap();
        held += write_all(&client, &piece);
        connections += 1;
        if connections % 100 == 0 {
            listeners.push(TcpListener::bind("127.0.0.1:0").unwrap());
        }
    }
    std::mem::forget(listeners);
    held
}

/// Fills connections to Unix sockets that are never accepted, and closes the other end.
fn unaccepted_unix() -> usize {
    let piece = vec![1; MIB];
    let (mut listeners, mut held) = (Vec::new(), 0);
    while held < MAX_HELD_BYTES {
        let name = format!("listener-{}", listeners.len());
        let Ok(listener) = UnixListener::bind(&name) else { break };
        listeners.push(listener);
        for _ in 0..100 {
            let Ok(client) = UnixStream::connect(&name) else { break };
            client.set_nonblocking(true).unwrap();
            held += write_all(&client, &piece);
        }
    }
    std::mem::forget(listeners);
    held
}

/// Landlock's rulesets, with a rule for each port: linux/landlock.h.
fn rulesets() -> usize {
    #[repr(C, packed)]
    struct Port {
        allowed: u64,
        port: u64,
    }
    let handled: [u64; 2] = [0, 3];
    repeat(65_536 * 64, || {
        // SAFETY: the structures live during the calls.
        unsafe {
            let ruleset =
                libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, 16, 0);
            check(ruleset)?;
            for port in 0..65_536 {
                let port = Port { allowed: 1, port };
                let rule = &raw const port;
                check(libc::syscall(libc::SYS_landlock_add_rule, ruleset, 2, rule, 0))?;
            }
        }
        Ok(())
    })
}

fn empty_messages() -> usize {
    let message: libc::c_long = 1;
    repeat(16_384 * 64, || {
        // SAFETY: the message lives during the calls.
        unsafe {
            let queue = libc::msgget(libc::IPC_PRIVATE, 0o600);
            check(queue.into())?;
            let message = (&raw const message).cast();
            while libc::msgsnd(queue, message, 0, libc::IPC_NOWAIT) == 0 {}
        }
        Ok(())
    })
}

/// What semaphores have to undo when a process ends: two bytes for each of a set.
fn undo() -> usize {
    const SEMAPHORES: c_int = 32_000;
    // SAFETY: no pointers.
    let set = || unsafe { libc::semget(libc::IPC_PRIVATE, SEMAPHORES, 0o600) };
    let sets: Vec<c_int> = (0..20).map(|_| set()).take_while(|set| *set >= 0).collect();
    let bytes = sets.len() * SEMAPHORES as usize * 2;
    if sets.is_empty() {
        return 0;
    }
    repeat(bytes, || {
        let child = fork();
        check(child.into())?;
        if child == 0 {
            for set in &sets {
                let mut raise =
                    libc::sembuf { sem_num: 0, sem_op: 1, sem_flg: libc::SEM_UNDO as i16 };
                // SAFETY: the operation lives during the call.
                unsafe { libc::semop(*set, &raw mut raise, 1) };
            }
            std::thread::sleep(Duration::from_secs(60));
        }
        Ok(())
    })
}

/// Many small mappings in many processes.
fn mappings() -> usize {
    const COUNT: usize = 60_000;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let address = map(flags, libc::PROT_NONE, -1, COUNT * 4096).unwrap();
    for page in (0..COUNT).step_by(2) {
        // SAFETY: the memory is this program's own.
        let changed =
            unsafe { libc::mprotect(address.add(page * 4096).cast(), 4096, libc::PROT_READ) };
        check(changed.into()).unwrap();
    }
    let held = in_children(50, COUNT * 256, || 0);
    // Counting them takes a while.
    std::thread::sleep(Duration::from_secs(10));
    held
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
        "pipes-of-files",
        "sent-files",
        "large-sockets",
        "unaccepted",
        "unaccepted-unix",
        "rulesets",
        "empty-messages",
        "undo",
        "mappings",
    ];
    let mut wrong = Vec::new();
    for way in ways {
        // There it is on disk.
        if (setting.tier, way) == (Tier::B, "temporary") {
            continue;
        }
        let place = Place::new(setting);
        let mut command = place.command(&["hold", way]);
        command.limits.memory = 256 << 20;
        command.limits.file_size = 1 << 30;
        let report = place.run(command);
        let output = String::from_utf8(report.stdout.bytes).unwrap();
        eprintln!("{way}: {:?} {output:?} after {:?}", report.end, report.wall);
        if report.end == End::Limit(Limit::Memory) {
            continue;
        }
        // The program got no more.
        let is_less = output.trim().parse().is_ok_and(|held: u64| held <= 256);
        if report.end != End::Exited(0) || !is_less {
            wrong.push((way, report.end, output));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
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
