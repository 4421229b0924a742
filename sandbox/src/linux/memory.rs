//! How much memory a run holds, in all places: processes, the tables for their addresses, files
//! in memory, System V's memory, shared memory without a file, and descriptors.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::statfs;
use rustix::process::Pid;

use super::tree::{self, Status};

/// Descriptors that a run may have without their being counted as memory.
const DESCRIPTORS: u64 = 256;

/// What each further one counts: a pipe holds half of it, a socket up to three times as much.
const DESCRIPTOR: u64 = 128 << 10;

/// What an empty file in memory costs.
const INODE: u64 = 1024;

/// What a semaphore of System V costs.
const SEMAPHORE: u64 = 128;

/// What each process may note of it to undo what it did (`SEM_UNDO`).
const UNDO: u64 = 2;

/// What a message of System V costs besides its content.
const MESSAGE: u64 = 96;

/// What a TCP connection costs besides what waits in it.
const CONNECTION: u64 = 4096;

/// `f_type` of a file system in memory: statfs(2).
const TMPFS: u64 = 0x0102_1994;

/// How long after it was allowed a mapping has been made for certain.
const MAPPED: Duration = Duration::from_secs(1);

/// Counts the memory of one run.
pub(super) struct Memory {
    limit: u64,
    /// Directories of the run in memory.
    directories: Vec<PathBuf>,
    /// Whether System V's memory and the network are the run's own.
    own_namespaces: bool,
    /// Bytes of shared memory without a file that were asked for since there was none.
    shared: u64,
    asked: Instant,
}

impl Memory {
    pub(super) fn new(limit: u64, directories: Vec<PathBuf>, own_namespaces: bool) -> Self {
        Self { limit, directories, own_namespaces, shared: 0, asked: Instant::now() }
    }

    /// Notes shared memory that is about to be made. It stays while any process has a part of it
    /// mapped, or used to: so its whole size counts. Says whether it is within the limit.
    pub(super) fn share(
        &mut self,
        bytes: u64,
        members: impl FnOnce() -> io::Result<Vec<Pid>>,
    ) -> bool {
        let is_too_much = |shared: u64| shared.saturating_add(bytes) > self.limit;
        if is_too_much(self.shared)
            && self.asked.elapsed() > MAPPED
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

    /// Whether a run with these processes holds more than its limit.
    pub(super) fn is_exceeded(&self, members: &[Status]) -> bool {
        let sum = |of: fn(&Status) -> u64| members.iter().map(of).sum::<u64>();
        let files = self.directories.iter().map(|directory| held_by_files(directory)).sum::<u64>();
        let kernel =
            if self.own_namespaces { system_v(members.len() as u64) + connections() } else { 0 };
        let held = files + kernel + self.shared;
        let descriptors = sum(|status| descriptors(status.thread)).saturating_sub(DESCRIPTORS);
        let rest = sum(|status| status.tables) + descriptors * DESCRIPTOR;
        // Never too small: pages that processes share, with each other or with what is held
        // otherwise, count several times.
        if sum(|status| status.resident) + held + rest <= self.limit {
            return false;
        }
        let (mut own, mut mapped) = (0, 0);
        for status in members {
            let proportional = proportional(status.thread);
            own += proportional.map_or(status.resident, |(own, _)| own);
            mapped += proportional.map_or(0, |(_, mapped)| mapped);
        }
        // What is held is mapped or not.
        own + held.max(mapped) + rest > self.limit
    }
}

/// What the files in a directory take, if it is in memory.
fn held_by_files(directory: &Path) -> u64 {
    let Ok(found) = statfs(directory) else { return 0 };
    if found.f_type as u64 & 0xffff_ffff != TMPFS {
        return 0;
    }
    let blocks = found.f_blocks.saturating_sub(found.f_bfree);
    let inodes = found.f_files.saturating_sub(found.f_ffree);
    blocks.saturating_mul(found.f_bsize as u64) + inodes * INODE
}

/// What System V's memory, semaphores and messages of so many processes take: proc(5),
/// `/proc/sysvipc`.
fn system_v(processes: u64) -> u64 {
    let sum = |list: &str, fields: &[usize]| -> u64 {
        let text = fs::read_to_string(format!("/proc/sysvipc/{list}")).unwrap_or_default();
        let of_line = |line: &str| -> u64 {
            let numbers: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |field: &usize| numbers.get(*field)?.parse::<u64>().ok();
            fields.iter().filter_map(number).sum()
        };
        text.lines().skip(1).map(of_line).sum()
    };
    // `rss` and `swap`; `cbytes`; `qnum`; `nsems`.
    let messages = sum("msg", &[3]) + sum("msg", &[4]) * MESSAGE;
    sum("shm", &[14, 15]) + messages + sum("sem", &[3]) * (SEMAPHORE + UNDO * processes)
}

/// What TCP connections take: proc(5), `/proc/net/tcp`. Those that no program has accepted, or that
/// one has closed with data in them, have no descriptor.
fn connections() -> u64 {
    let of_line = |line: &str| -> u64 {
        let queues = line.split_ascii_whitespace().nth(4).and_then(|field| field.split_once(':'));
        let bytes = |text: &str| u64::from_str_radix(text, 16).unwrap_or(0);
        // What waits is kept in buffers that are up to twice as large.
        CONNECTION + queues.map_or(0, |(sent, received)| 2 * (bytes(sent) + bytes(received)))
    };
    let of_list = |list: &str| -> u64 {
        let text = fs::read_to_string(format!("/proc/net/{list}")).unwrap_or_default();
        text.lines().skip(1).map(of_line).sum()
    };
    of_list("tcp") + of_list("tcp6")
}

/// How many descriptors a process has open. The kernel tells since Linux 6.2.
fn descriptors(pid: Pid) -> u64 {
    let directory = format!("/proc/{}/fd", pid.as_raw_nonzero());
    fs::metadata(directory).map_or(0, |directory| directory.size())
}

/// The lines `Pss_Anon` and `Pss_File`, together, and `Pss_Shmem` of `/proc/pid/smaps_rollup`:
/// resident memory, shared pages divided by those who share them.
fn proportional(pid: Pid) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero())).ok()?;
    let line = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name));
        value.and_then(tree::kilobytes)
    };
    Some((line("Pss_Anon:")? + line("Pss_File:")?, line("Pss_Shmem:")?))
}

/// Whether a process has shared memory without a file. One that can't be looked at may have.
fn maps_shared(pid: Pid) -> bool {
    let Some(status) = tree::status(pid) else { return false };
    match fs::read(format!("/proc/{}/maps", status.thread.as_raw_nonzero())) {
        Ok(text) => memchr::memmem::find(&text, b"/dev/zero (deleted)").is_some(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}
