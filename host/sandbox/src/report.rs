//! How a run ended.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Tier;

/// The end of a run. No process of it lives any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub end: End,
    /// Which sandbox it ran in.
    pub tier: Tier,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// From start to end.
    pub wall: Duration,
    /// Whether processes were still there at the end and had to be killed.
    pub killed: bool,
}

/// Why a run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// The program ended by itself, with this status.
    Exited(i32),
    /// A signal ended the program.
    Signalled(i32),
    /// A limit was reached.
    Limit(Limit),
    /// The caller cancelled the run.
    Cancelled,
}

/// A limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Limit {
    /// [`Limits::wall`](crate::Limits::wall).
    WallClock,
    /// [`Limits::cpu_seconds`](crate::Limits::cpu_seconds).
    CpuTime,
    /// [`Limits::memory`](crate::Limits::memory). A program that is refused address space sees
    /// an allocation fail, and ends in its own way.
    Memory,
    /// [`Limits::file_size`](crate::Limits::file_size). A program that ignores SIGXFSZ sees a
    /// write fail, and goes on.
    FileSize,
    /// [`Limits::stream`](crate::Limits::stream).
    Output,
    /// [`Limits::processes`](crate::Limits::processes).
    Processes,
    /// A directory held too much.
    Directory {
        /// Its number in [`Command::bounded`](crate::Command::bounded); none: it is that of
        /// temporary files ([`Limits::temporary`](crate::Limits::temporary)).
        number: Option<usize>,
        /// What was counted until it was too much.
        bytes: u64,
        /// The same, in files, directories and links.
        entries: u64,
    },
    /// [`Limits::reserve`](crate::Limits::reserve).
    Disk {
        /// On the disk of which directory, as above.
        number: Option<usize>,
        /// The bytes that were left.
        free: u64,
        /// The files that could still be made.
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
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What is kept of an output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// All of it, [`Command::hidden`](crate::Command::hidden) blotted out; or its beginning, a line
    /// that says how much was left out, and its end. The
    /// line comes in addition to [`Limits::output`](crate::Limits::output).
    pub bytes: Vec<u8>,
    /// How many bytes the program wrote, before anything was blotted out.
    pub written: u64,
    /// Whether something was left out of `bytes`.
    pub cut: bool,
}
