//! Reads facts about processes from `/proc`: proc(5).

use std::fs;
use std::io;
use std::iter;
use std::os::unix::fs::FileExt as _;

use rustix::process::{Pid, getpid};

/// Parses a process id; returns `None` for other text.
pub(super) fn parse(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}

/// The parent of a process, 0 if it is outside of the namespace, `None` if there is no such
/// process.
pub(super) fn parent(pid: Pid) -> Option<i64> {
    field(pid, 4) // `ppid`
}

/// Whether a process is a descendant of this one. Descendants whose parent has ended count: the kernel
/// makes them children of this process.
pub(super) fn is_descendant(pid: Pid) -> bool {
    let own = i64::from(getpid().as_raw_nonzero().get());
    let mut found = ancestors(pid, own);
    loop {
        if found.last() == Some(&own) {
            return true;
        }
        // If an ancestor has ended while they were read, its children have another parent now.
        let again = ancestors(pid, own);
        if again == found {
            return false;
        }
        found = again;
    }
}

/// The parent of a process, its parent, and so on, up to the process `last`, the first process of the
/// namespace, or a process that does not exist any more.
fn ancestors(pid: Pid, last: i64) -> Vec<i64> {
    let up = |pid: &i64| match *pid == last {
        true => None,
        false => parent(Pid::from_raw(i32::try_from(*pid).ok()?)?),
    };
    iter::successors(parent(pid), up).collect()
}

/// What the kernel reports about a process or a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Status {
    /// The process of the thread.
    pub(super) process: Pid,
    /// A thread of the process that has memory and descriptors: the first one may have exited
    /// before the others, and then has none.
    pub(super) thread: Pid,
    pub(super) threads: u64,
    /// Resident memory in bytes.
    pub(super) resident: u64,
    /// Page tables in bytes.
    pub(super) tables: u64,
    /// Address space in bytes.
    pub(super) mapped: u64,
}

/// The status of a process or thread: proc(5), `/proc/pid/status`. `None` if the process does not
/// exist.
pub(super) fn status(pid: Pid) -> Option<Status> {
    let (status, has_memory) = status_of(pid)?;
    if has_memory || status.threads < 2 {
        return Some(status);
    }
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).ok()?;
    let threads = threads.flatten().filter_map(|entry| parse(entry.file_name().to_str()?));
    let alive = threads.filter_map(status_of).find(|(_, has_memory)| *has_memory);
    Some(alive.map_or(status, |(status, _)| status))
}

/// Whether a thread has memory: it has none after it has ended.
pub(super) fn has_memory(thread: Pid) -> bool {
    status_of(thread).is_some_and(|(_, has_memory)| has_memory)
}

/// The status of this thread only, and whether it has memory.
fn status_of(thread: Pid) -> Option<(Status, bool)> {
    let text = fs::read_to_string(format!("/proc/{}/status", thread.as_raw_nonzero())).ok()?;
    let mut status =
        Status { process: thread, thread, threads: 0, resident: 0, tables: 0, mapped: 0 };
    let mut has_memory = false;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name {
            "Tgid" => status.process = parse(value.trim())?,
            "VmSize" => status.mapped = kilobytes(value).unwrap_or(0),
            "VmRSS" => {
                has_memory = true;
                status.resident = kilobytes(value).unwrap_or(0);
            }
            "VmPTE" => status.tables = kilobytes(value).unwrap_or(0),
            "Threads" => {
                status.threads = value.trim().parse().ok()?;
                break; // The last of these lines.
            }
            _ => {}
        }
    }
    Some((status, has_memory))
}

/// Converts a number of kilobytes as the kernel writes it to bytes.
pub(super) fn kilobytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|number| number * 1024)
}

/// A number from `/proc/pid/stat`, proc(5). Fields count from 1; the second is the name of the
/// program in parentheses, which may hold any character.
fn field(pid: Pid, number: usize) -> Option<i64> {
    let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let name_ends = text.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(text.get(name_ends + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// Fills `bytes` from the memory of a thread; `None` if it can't be read.
pub(super) fn read_memory(thread: Pid, address: u64, bytes: &mut [u8]) -> Option<()> {
    let memory = fs::File::open(format!("/proc/{}/mem", thread.as_raw_nonzero())).ok()?;
    memory.read_exact_at(bytes, address).ok()
}

/// The children of all threads of a process: proc(5), `/proc/pid/task/tid/children`.
pub(super) fn children(process: &str) -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let list = fs::read_to_string(thread?.path().join("children"))?;
        pids.extend(list.split_ascii_whitespace().filter_map(parse));
    }
    Ok(pids)
}
