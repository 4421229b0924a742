//! The report of a run.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Tier;

/// The result of a run. None of its processes exists any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How the run ended.
    pub end: End,
    /// The sandbox that it ran in.
    pub tier: Tier,
    /// The captured standard output.
    pub stdout: Captured,
    /// The captured standard error.
    pub stderr: Captured,
    /// Wall-clock time from start to end.
    pub wall: Duration,
    /// Whether processes remained at the end and were killed.
    pub killed: bool,
    /// What the program tried to reach beyond its network, each once; at most 16. It is what the
    /// program said, so the text can be anything that fits the types.
    pub attempts: Vec<Attempt>,
}

/// What a program tried to reach beyond its network. Addresses and names of this machine and of private
/// networks are no attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Attempt {
    /// It asked for the addresses of a name: lower case, of letters, digits, `-`, `_` and dots.
    Name(String),
    /// It connected to an address.
    Address(SocketAddr),
    /// It opened a socket in tier B, which has none.
    Socket,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
            Self::Socket => f.write_str("the network"),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The program exited with this status.
    Exited(i32),
    /// The program was killed by this signal.
    Signalled(i32),
    /// The run exceeded a limit.
    Limit(Limit),
    /// The caller cancelled the run.
    Cancelled,
}

/// A limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// The run exceeded [`Limits::wall`](crate::Limits::wall).
    WallClock,
    /// A process exceeded [`Limits::cpu_seconds`](crate::Limits::cpu_seconds).
    CpuTime,
    /// The run exceeded [`Limits::memory`](crate::Limits::memory). If a program exceeds its address
    /// space, an allocation fails, and the program handles that itself.
    Memory,
    /// A file exceeded [`Limits::file_size`](crate::Limits::file_size). In a program that ignores
    /// SIGXFSZ, the write fails instead.
    FileSize,
    /// A stream exceeded [`Limits::stream`](crate::Limits::stream).
    Output,
    /// The run exceeded [`Limits::processes`](crate::Limits::processes).
    Processes,
    /// A directory exceeded its limit.
    Directory {
        /// The index in [`Command::bounded`](crate::Command::bounded); none for temporary files
        /// ([`Limits::temporary`](crate::Limits::temporary)).
        number: Option<usize>,
        /// The bytes that were counted until the limit was exceeded.
        bytes: u64,
        /// The files, directories and links that were counted until then.
        entries: u64,
    },
    /// The free space of a disk fell below [`Limits::reserve`](crate::Limits::reserve).
    Disk {
        /// The index of a directory on the disk, as above.
        number: Option<usize>,
        /// The bytes that were left.
        free: u64,
        /// The inodes that were left.
        files: u64,
    },
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WallClock => "wall-clock time",
            Self::CpuTime => "processor time",
            Self::Memory => "memory",
            Self::FileSize => "file size",
            Self::Output => "output",
            Self::Processes => "number of processes",
            Self::Directory { .. } => "what a directory holds",
            Self::Disk { .. } => "free room of a disk",
        })
    }
}

/// One of a program's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// The stream of standard output.
    Stdout,
    /// The stream of standard error.
    Stderr,
}

/// What is kept of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The whole stream, with the values of [`Command::hidden`](crate::Command::hidden) redacted;
    /// or its beginning, a line that says how many bytes are missing, and its end. The line comes
    /// in addition to [`Limits::output`](crate::Limits::output).
    pub bytes: Vec<u8>,
    /// How many bytes the program wrote, before redaction.
    pub written: u64,
    /// Whether anything is missing in `bytes`.
    pub cut: bool,
}
