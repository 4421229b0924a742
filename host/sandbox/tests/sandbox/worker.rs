//! Computations in processes of their own, and what hostile ones achieve.

use std::fs;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cofferdam_sandbox::{Bounds, Helper, Limit, WorkError};

use crate::support::Setting;

const BOUNDS: Bounds = Bounds { wall: Duration::from_secs(60), memory: 256 << 20, output: 1 << 20 };

/// The computation of the test binary: the first word of the input selects it.
pub fn work(input: Vec<u8>) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(&input).into_owned();
    match text.split(' ').next().unwrap_or_default() {
        "echo" => Ok(input),
        "refuse" => Err("not this".to_owned()),
        "threads" => {
            let sum = AtomicU32::new(0);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        sum.fetch_add(vec![1_u32; 100_000].iter().sum(), Ordering::Relaxed)
                    });
                }
            });
            Ok(sum.into_inner().to_string().into_bytes())
        }
        "memory" => Ok(vec![1; 1 << 30].split_off(1 << 29)),
        "output" => Ok(vec![1; (1 << 20) + 1]),
        "panic" => panic!("out of order"),
        "abort" => std::process::abort(),
        // It writes its answer and does not exit.
        "stay" => {
            rustix::stdio::dup2_stdout(rustix::stdio::stdin()).ok();
            loop {
                std::hint::spin_loop();
            }
        }
        "spin" => loop {
            std::hint::spin_loop();
        },
        "escape" => Ok(escapes().join("\n").into_bytes()),
        other => Err(format!("no such work: {other}")),
    }
}

/// Returns everything that it got and should not have.
fn escapes() -> Vec<String> {
    let mut got = Vec::new();
    let mut tried = |what: &str, result: io::Result<String>| {
        if let Ok(result) = result {
            got.push(format!("{what}: {result}"));
        }
    };
    let nothing = |()| String::new();
    for path in ["/etc/passwd", "/proc/self/exe", "/proc/self/environ", "/dev/null"] {
        tried(path, fs::read(path).map(|bytes| bytes.len().to_string()));
    }
    tried("list", fs::read_dir("/").map(|_| String::new()));
    tried("metadata", fs::metadata("/etc").map(|_| String::new()));
    tried("write", fs::write("/tmp/cofferdam-worker-was-here", "").map(nothing));
    tried("tcp", TcpStream::connect("127.0.0.1:1").map(|_| String::new()));
    tried("udp", UdpSocket::bind("127.0.0.1:0").map(|_| String::new()));
    tried("program", std::process::Command::new("/bin/true").spawn().map(|_| String::new()));
    let for_the_allocator = ("MIMALLOC_ARENA_EAGER_COMMIT".to_owned(), "0".to_owned());
    let variable = std::env::vars().find(|variable| *variable != for_the_allocator);
    tried(
        "environment",
        variable.map(|(name, _)| name).ok_or_else(|| io::ErrorKind::NotFound.into()),
    );
    escape_by_system_calls(&mut tried);
    got
}

fn escape_by_system_calls(tried: &mut dyn FnMut(&str, io::Result<String>)) {
    // SAFETY: calls with plain numbers; the test checks that they fail.
    unsafe {
        let kill = match libc::syscall(libc::SYS_kill, -1, 0) {
            0 => Ok(String::new()),
            _ => Err(io::Error::last_os_error()),
        };
        tried("kill", kill);
        let fork = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if fork == 0 {
            libc::_exit(0);
        }
        tried(
            "fork",
            if fork > 0 { Ok(fork.to_string()) } else { Err(io::Error::last_os_error()) },
        );
        let code = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        tried(
            "code",
            if code == libc::MAP_FAILED {
                Err(io::Error::last_os_error())
            } else {
                Ok(String::new())
            },
        );
        let descriptors: Vec<i32> =
            (3..1024).filter(|fd| libc::fcntl(*fd, libc::F_GETFD) >= 0).collect();
        tried(
            "descriptors",
            if descriptors.is_empty() {
                Err(io::ErrorKind::NotFound.into())
            } else {
                Ok(format!("{descriptors:?}"))
            },
        );
    }
}

fn ask(work: &str, bounds: &Bounds) -> Result<String, WorkError> {
    let answer = Helper::current().work(work.as_bytes(), bounds, &|| false)?;
    Ok(String::from_utf8(answer).unwrap())
}

pub fn a_worker_answers_or_refuses(_: &Setting) {
    assert_eq!(ask("echo \u{1f980}", &BOUNDS).as_deref(), Ok("echo \u{1f980}"));
    assert_eq!(ask("refuse", &BOUNDS), Err(WorkError::Refused("not this".to_owned())));
    assert_eq!(ask("threads", &BOUNDS).as_deref(), Ok("800000"));
    // More than a pipe holds, in both directions.
    let long = format!("echo {}", "x".repeat(1 << 19));
    assert_eq!(ask(&long, &BOUNDS), Ok(long));
}

pub fn a_worker_gets_nothing_else(_: &Setting) {
    assert_eq!(ask("escape", &BOUNDS).as_deref(), Ok(""));
}

pub fn a_worker_ends_at_its_limits(_: &Setting) {
    let brief = Bounds { wall: Duration::from_millis(300), ..BOUNDS };
    assert_eq!(ask("memory", &BOUNDS), Err(WorkError::Limit(Limit::Memory)));
    assert_eq!(ask("output", &BOUNDS), Err(WorkError::Limit(Limit::Output)));
    assert_eq!(ask("spin", &brief), Err(WorkError::Limit(Limit::WallClock)));
    assert_eq!(ask("stay", &brief), Err(WorkError::Limit(Limit::WallClock)));
    // It does not read its input, which is more than a pipe holds.
    let long = format!("spin {}", "x".repeat(1 << 20));
    assert_eq!(ask(&long, &brief), Err(WorkError::Limit(Limit::WallClock)));
}

pub fn worker_crashes_are_reported(_: &Setting) {
    for (work, said) in [("panic", "out of order"), ("abort", "signal: 6")] {
        match ask(work, &BOUNDS) {
            Err(WorkError::Crashed(how)) => assert!(how.contains(said), "{how}"),
            other => panic!("{other:?}"),
        }
    }
}

pub fn a_cancelled_worker_ends_at_once(_: &Setting) {
    let started = Instant::now();
    let answer = Helper::current()
        .work(b"spin", &BOUNDS, &|| started.elapsed() > Duration::from_millis(100));
    assert_eq!(answer, Err(WorkError::Cancelled));
    assert!(started.elapsed() < BOUNDS.wall);
}

pub fn workers_that_can_not_be_started_are_reported(_: &Setting) {
    let answer = Helper::at("/nowhere/cofferdam").work(b"echo", &BOUNDS, &|| false);
    assert!(matches!(answer, Err(WorkError::Start(_))), "{answer:?}");
}
