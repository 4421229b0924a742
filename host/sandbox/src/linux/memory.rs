//! Counts the memory of a run in all its forms: processes, page tables, mappings, files in memory,
//! System V memory, anonymous shared memory, pipes and sockets.
//!
//! What takes time to count has an upper bound that does not; it is counted only where the upper
//! bounds exceed the limit.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::statfs;
use rustix::process::Pid;

use super::procfs::{self, Status};
use super::sockets;

/// The bytes that a pipe can hold.
const BYTES_PER_PIPE: u64 = 64 << 10;

/// The bytes that a socket can hold, and each direction of a TCP connection: with the sizes that
/// its namespace and, for others, the kernel's default allow, since a program can't raise them.
const BYTES_PER_SOCKET: u64 = 384 << 10;

/// The bytes of another open file in the kernel.
const BYTES_PER_FILE: u64 = 1024;

/// The bytes of a mapping in the kernel.
const BYTES_PER_MAPPING: u64 = 256;

/// The bytes of a page, at least.
const PAGE_BYTES: u64 = 4096;

/// The bytes that an empty file in memory takes.
const BYTES_PER_INODE: u64 = 1024;

/// The bytes that a System V semaphore takes, and what each process may have to undo.
const BYTES_PER_SEMAPHORE: u64 = 128;
const BYTES_PER_UNDO: u64 = 2;

/// The bytes that an empty System V message takes.
const BYTES_PER_MESSAGE: u64 = 64;

/// `f_type` of a tmpfs: statfs(2).
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The time after which an admitted mapping exists for certain.
const MAPPING_DELAY: Duration = Duration::from_secs(1);

/// Counts the memory of one run.
pub(super) struct Memory {
    limit: u64,
    /// Directories of the run that are in memory.
    directories: Vec<PathBuf>,
    /// Whether the run has an IPC and a network namespace of its own.
    has_namespaces: bool,
    /// The most mappings of a process.
    max_mappings: u64,
    /// Bytes of anonymous shared memory that were requested since the run last had none.
    shared: u64,
    asked: Instant,
}

impl Memory {
    pub(super) fn new(limit: u64, directories: Vec<PathBuf>, has_namespaces: bool) -> Self {
        let max_mappings = fs::read_to_string("/proc/sys/vm/max_map_count");
        let max_mappings = max_mappings.ok().and_then(|number| number.trim().parse().ok());
        let max_mappings = max_mappings.unwrap_or(u64::MAX);
        Self { limit, directories, has_namespaces, max_mappings, shared: 0, asked: Instant::now() }
    }

    /// Records shared memory that is about to be created; returns whether it is within the limit.
    /// It stays allocated while any process maps a part of it, or did so: so its whole size counts.
    pub(super) fn share(
        &mut self,
        bytes: u64,
        members: impl FnOnce() -> io::Result<Vec<Pid>>,
    ) -> bool {
        let is_too_much = |shared: u64| shared.saturating_add(bytes) > self.limit;
        if is_too_much(self.shared)
            && self.asked.elapsed() > MAPPING_DELAY
            && members().is_ok_and(|members| !members.into_iter().any(maps_shared))
        {
            self.shared = 0;
        }
        if is_too_much(self.shared) {
            return false;
        }
        self.shared += bytes;
        self.asked = Instant::now();
        true
    }

    /// Whether a run with these processes exceeds its memory limit.
    pub(super) fn is_exceeded(&self, members: &[Status]) -> bool {
        let sum = |of: &dyn Fn(&Status) -> u64| members.iter().map(of).sum::<u64>();
        let files = self.directories.iter().map(|directory| held_by_files(directory)).sum::<u64>();
        let threads = sum(&|status| status.threads);
        let (ipc, connections, unix) = if self.has_namespaces {
            let connections = connections().saturating_mul(2 * BYTES_PER_SOCKET);
            (system_v(threads), connections, sockets::count().saturating_mul(BYTES_PER_SOCKET))
        } else {
            (0, 0, 0)
        };
        let held = files + ipc + self.shared;
        let tables = sum(&|status| status.tables);
        let mappings = |status: &Status| {
            (status.mapped / PAGE_BYTES).min(self.max_mappings).saturating_mul(BYTES_PER_MAPPING)
        };
        let most_descriptors = sum(&|status| descriptors(status.thread) * BYTES_PER_SOCKET);
        // Upper bounds: pages that processes share with each other or with files count several
        // times, all descriptors as sockets, all pages as mappings.
        let most = sum(&|status| status.resident + mappings(status)) + connections + unix;
        if most + held + tables + most_descriptors <= self.limit {
            return false;
        }
        let mut rest = tables + held_by_descriptors(members, self.has_namespaces);
        if connections > 0 {
            rest += held_by_connections();
        }
        for status in members {
            if held + rest > self.limit {
                return true;
            }
            let count = mappings_of(status.thread).map(|count| count * BYTES_PER_MAPPING);
            rest += count.unwrap_or_else(|_| mappings(status));
        }
        let (mut own, mut mapped) = (0, 0);
        for status in members {
            let proportional = proportional(status.thread);
            own += proportional.map_or(status.resident, |(own, _)| own);
            mapped += proportional.map_or(0, |(_, mapped)| mapped);
        }
        // Files and shared memory may be mapped or not.
        own + held.max(mapped) + rest > self.limit
    }
}

/// The bytes of the files in a directory, if it is in memory.
fn held_by_files(directory: &Path) -> u64 {
    let Ok(found) = statfs(directory) else { return 0 };
    if found.f_type as u64 & 0xffff_ffff != TMPFS_MAGIC {
        return 0;
    }
    let blocks = found.f_blocks.saturating_sub(found.f_bfree);
    let inodes = found.f_files.saturating_sub(found.f_ffree);
    blocks.saturating_mul(found.f_bsize as u64) + inodes * BYTES_PER_INODE
}

/// The bytes of System V memory, semaphores and messages: proc(5), `/proc/sysvipc`.
fn system_v(threads: u64) -> u64 {
    // The bytes for each unit of the columns of a list.
    let sum = |list: &str, columns: &[(usize, u64)]| -> u64 {
        let text = fs::read_to_string(format!("/proc/sysvipc/{list}")).unwrap_or_default();
        let of_line = |line: &str| -> u64 {
            let numbers: Vec<&str> = line.split_ascii_whitespace().collect();
            let bytes = |&(column, bytes): &(usize, u64)| {
                Some(numbers.get(column)?.parse::<u64>().ok()?.saturating_mul(bytes))
            };
            columns.iter().filter_map(bytes).sum()
        };
        text.lines().skip(1).map(of_line).sum()
    };
    // `rss` and `swap`; `cbytes` and `qnum`; `nsems`.
    sum("shm", &[(14, 1), (15, 1)])
        + sum("msg", &[(3, 1), (4, BYTES_PER_MESSAGE)])
        + sum("sem", &[(3, BYTES_PER_SEMAPHORE + threads * BYTES_PER_UNDO)])
}

/// The number of TCP sockets of the namespace, also of those without a descriptor: proc(5),
/// `/proc/net/sockstat`.
fn connections() -> u64 {
    let of = |(list, name): (&str, &str)| {
        let text = fs::read_to_string(format!("/proc/net/{list}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    let lists = [("sockstat", "TCP: inuse "), ("sockstat6", "TCP6: inuse ")];
    lists.into_iter().filter_map(of).sum()
}

/// The bytes that TCP connections can hold in those directions in which they hold any: proc(5),
/// `/proc/net/tcp`.
fn held_by_connections() -> u64 {
    let count = |list| {
        let text = fs::read_to_string(format!("/proc/net/{list}")).unwrap_or_default();
        let queues = text.lines().filter_map(|line| line.split_ascii_whitespace().nth(4));
        let queues = queues.filter_map(|queues| queues.split_once(':'));
        queues
            .flat_map(|(sent, received)| [sent, received])
            .filter(|queue| is_filled(queue))
            .count()
    };
    (count("tcp") + count("tcp6")) as u64 * BYTES_PER_SOCKET
}

/// Whether a hexadecimal number is above 0.
fn is_filled(queue: &str) -> bool {
    u32::from_str_radix(queue, 16).is_ok_and(|bytes| bytes > 0)
}

/// The number of open descriptors of a process. The kernel reports it since Linux 6.2.
fn descriptors(pid: Pid) -> u64 {
    let directory = format!("/proc/{}/fd", pid.as_raw_nonzero());
    fs::metadata(directory).map_or(0, |directory| directory.size())
}

/// The bytes that the open files of processes can hold, and in a network namespace of the run Unix
/// sockets that no process has open. Each pipe and socket counts once.
fn held_by_descriptors(members: &[Status], has_namespaces: bool) -> u64 {
    let mut seen = HashSet::new();
    let mut held = 0;
    for Status { thread, .. } in members {
        let directory = format!("/proc/{}/fd", thread.as_raw_nonzero());
        let Ok(list) = fs::read_dir(directory) else {
            held += descriptors(*thread) * BYTES_PER_SOCKET;
            continue;
        };
        for entry in list.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let bytes = match target.as_os_str().as_bytes() {
                link if link.starts_with(b"pipe:") => BYTES_PER_PIPE,
                link if link.starts_with(b"socket:") => BYTES_PER_SOCKET,
                _ => BYTES_PER_FILE,
            };
            if bytes == BYTES_PER_FILE || seen.insert(target) {
                held += bytes;
            }
        }
    }
    if has_namespaces {
        let is_open = |inode: u64| seen.contains(Path::new(&format!("socket:[{inode}]")));
        held += sockets::without_descriptor(is_open) * BYTES_PER_SOCKET;
    }
    held
}

/// The number of mappings of a process.
fn mappings_of(thread: Pid) -> io::Result<u64> {
    let mut maps = fs::File::open(format!("/proc/{}/maps", thread.as_raw_nonzero()))?;
    let (mut buffer, mut lines) = ([0; 4096], 0);
    loop {
        match maps.read(&mut buffer)? {
            0 => return Ok(lines),
            length => lines += memchr::memchr_iter(b'\n', &buffer[..length]).count() as u64,
        }
    }
}

/// The sum of `Pss_Anon` and `Pss_File`, and `Pss_Shmem`, of `/proc/pid/smaps_rollup`: resident
/// memory, shared pages divided by the number of processes that share them.
fn proportional(pid: Pid) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero())).ok()?;
    let line = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(procfs::kilobytes)
    };
    Some((line("Pss_Anon:")? + line("Pss_File:")?, line("Pss_Shmem:")?))
}

/// Whether a process has anonymous shared memory. True for a process that can't be inspected.
fn maps_shared(pid: Pid) -> bool {
    let Some(status) = procfs::status(pid) else { return false };
    match fs::read(format!("/proc/{}/maps", status.thread.as_raw_nonzero())) {
        Ok(text) => memchr::memmem::find(&text, b"/dev/zero (deleted)").is_some(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}
