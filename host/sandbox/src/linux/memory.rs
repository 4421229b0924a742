//! Counts the memory of a run in all its forms: processes, page tables, files in memory, System V
//! memory, anonymous shared memory, and descriptors.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::statfs;
use rustix::process::Pid;

use super::procfs::{self, Status};

/// Descriptors of a run that do not count as memory.
const FREE_DESCRIPTORS: u64 = 1024;

/// The bytes that each further descriptor counts: a pipe holds half of it, a socket up to three
/// times as much.
const BYTES_PER_DESCRIPTOR: u64 = 128 << 10;

/// The bytes that an empty file in memory takes.
const BYTES_PER_INODE: u64 = 1024;

/// The bytes that a System V semaphore takes.
const BYTES_PER_SEMAPHORE: u64 = 128;

/// `f_type` of a tmpfs: statfs(2).
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The time after which an admitted mapping exists for certain.
const MAPPING_DELAY: Duration = Duration::from_secs(1);

/// Counts the memory of one run.
pub(super) struct Memory {
    limit: u64,
    /// Directories of the run that are in memory.
    directories: Vec<PathBuf>,
    /// Whether the run has an IPC namespace of its own.
    own_ipc: bool,
    /// Bytes of anonymous shared memory that were requested since the run last had none.
    shared: u64,
    asked: Instant,
}

impl Memory {
    pub(super) fn new(limit: u64, directories: Vec<PathBuf>, own_ipc: bool) -> Self {
        Self { limit, directories, own_ipc, shared: 0, asked: Instant::now() }
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
        let sum = |of: fn(&Status) -> u64| members.iter().map(of).sum::<u64>();
        let files = self.directories.iter().map(|directory| held_by_files(directory)).sum::<u64>();
        let ipc = if self.own_ipc { system_v() } else { 0 };
        let held = files + ipc + self.shared;
        let descriptors = sum(|status| descriptors(status.thread)).saturating_sub(FREE_DESCRIPTORS);
        let rest = sum(|status| status.tables) + descriptors * BYTES_PER_DESCRIPTOR;
        // An upper bound: pages that processes share with each other or with files count several
        // times.
        if sum(|status| status.resident) + held + rest <= self.limit {
            return false;
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
fn system_v() -> u64 {
    let sum = |list: &str, fields: &[usize]| -> u64 {
        let text = fs::read_to_string(format!("/proc/sysvipc/{list}")).unwrap_or_default();
        let of_line = |line: &str| -> u64 {
            let numbers: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |field: &usize| numbers.get(*field)?.parse::<u64>().ok();
            fields.iter().filter_map(number).sum()
        };
        text.lines().skip(1).map(of_line).sum()
    };
    // `rss` and `swap`; `cbytes`; `nsems`.
    sum("shm", &[14, 15]) + sum("msg", &[3]) + sum("sem", &[3]) * BYTES_PER_SEMAPHORE
}

/// The number of open descriptors of a process. The kernel reports it since Linux 6.2.
fn descriptors(pid: Pid) -> u64 {
    let directory = format!("/proc/{}/fd", pid.as_raw_nonzero());
    fs::metadata(directory).map_or(0, |directory| directory.size())
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
