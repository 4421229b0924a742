//! The processes of a run: finding them, and killing them until none is left.

use std::fs;
use std::io::{self, Read as _};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait,
};

/// Where the processes of a run are found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tree {
    /// All others in this process's namespace. This one is its first.
    Namespace,
    /// The descendants of this process. Orphans among them become its children.
    Descendants,
}

impl Tree {
    /// The processes that live now, without this one, or some that have just ended.
    ///
    /// # Errors
    /// A system without the list.
    pub(super) fn members(self) -> io::Result<Vec<Pid>> {
        match self {
            Self::Namespace => {
                let mut pids = Vec::new();
                for entry in fs::read_dir("/proc")? {
                    let name = entry?.file_name();
                    pids.extend(name.to_str().and_then(parse).filter(|pid| *pid != Pid::INIT));
                }
                Ok(pids)
            }
            Self::Descendants => {
                let mut pids = children("self")?;
                let mut next = 0;
                while let Some(pid) = pids.get(next) {
                    // One that has ended meanwhile has no children any more.
                    pids.extend(children(&pid.as_raw_nonzero().to_string()).unwrap_or_default());
                    next += 1;
                }
                Ok(pids)
            }
        }
    }

    /// Kills everything and waits until all are gone. Says whether one was still there.
    /// `ended` sees how each ended. The gate is closed, so there are no new ones.
    ///
    /// # Errors
    /// The processes can't be listed, or can't be waited for.
    pub(super) fn kill(self, mut ended: impl FnMut(Pid, WaitStatus)) -> io::Result<bool> {
        let mut killed = false;
        loop {
            let options = match self {
                Self::Namespace => {
                    // Reaches all at once, so no fork gets away. Nobody left is an error.
                    let _ = kill_process_group(Pid::INIT, Signal::KILL);
                    WaitOptions::empty()
                }
                Self::Descendants => {
                    for pid in self.members()? {
                        // It may have gone meanwhile. Numbers are given out in a circle, so
                        // nobody else has it yet.
                        let _ = kill_process(pid, Signal::KILL);
                    }
                    WaitOptions::NOHANG
                }
            };
            // No child means no descendant: the topmost of those would be a child.
            while let Some((pid, status)) = match wait(options) {
                Err(rustix::io::Errno::CHILD) => return Ok(killed),
                other => other?,
            } {
                killed |= status.terminating_signal() == Some(Signal::KILL.as_raw());
                ended(pid, status);
            }
            // They have not gone yet, or one was not seen while it changed its parent.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// How many threads some processes have together.
    pub(super) fn threads(pids: &[Pid]) -> usize {
        let threads = |pid: &Pid| fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).ok();
        pids.iter().filter_map(threads).map(Iterator::count).sum()
    }

    /// The resident memory of processes, in bytes, each page counted once. Exact only above
    /// `enough`; up to there, a sum that is quick and never too small.
    pub(super) fn memory(pids: &[Pid], enough: u64) -> u64 {
        let sum = |of: fn(Pid) -> Option<u64>| pids.iter().copied().filter_map(of).sum();
        let quick: u64 = sum(resident);
        if quick <= enough { quick } else { sum(|pid| proportional(pid).or_else(|| resident(pid))) }
    }
}

/// Reaps who has ended, without waiting.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        ended(pid, status);
    }
}

fn parse(number: &str) -> Option<Pid> {
    number.parse().ok().and_then(Pid::from_raw)
}

/// The children of all threads of a process: proc(5), `/proc/pid/task/tid/children`.
fn children(process: &str) -> io::Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let list = fs::read_to_string(thread?.path().join("children"))?;
        pids.extend(list.split_ascii_whitespace().filter_map(parse));
    }
    Ok(pids)
}

/// The second field of `/proc/pid/statm`: resident pages.
fn resident(pid: Pid) -> Option<u64> {
    let mut text = String::new();
    let path = format!("/proc/{}/statm", pid.as_raw_nonzero());
    fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)).ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

/// The line `Pss` of `/proc/pid/smaps_rollup`: resident memory, shared pages divided by those who
/// share them.
fn proportional(pid: Pid) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", pid.as_raw_nonzero())).ok()?;
    let kilobytes = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    kilobytes
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kilobytes| kilobytes * 1024)
}
