//! Which sandboxes this system offers.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The two ways to build a sandbox, the better one first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tier {
    /// Namespaces (user, process, mount, network, IPC, host name, cgroup), Landlock, seccomp and
    /// resource limits. The program sees only the granted paths, a loopback interface of its own,
    /// and Unix sockets of its own run.
    A,
    /// Landlock, seccomp and resource limits, where namespaces are not available. No sockets, no
    /// overlay, no changing of modes, owners, times or extended attributes by path, no `inotify`.
    B,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A (namespaces, Landlock, seccomp)",
            Self::B => "B (Landlock, seccomp)",
        })
    }
}

/// The result of trying the sandboxes of this system. For a tier that does not work, it says what
/// is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Whether tier A works, or why not.
    pub tier_a: Result<(), String>,
    /// Whether tier B works, or why not.
    pub tier_b: Result<(), String>,
    /// The version of Landlock's interface; 0 without Landlock.
    pub landlock: u32,
    /// The control group of the host, if there is a version 2 hierarchy.
    pub cgroup: Option<Cgroup>,
}

impl Probe {
    /// Returns the better tier that works.
    pub fn best(&self) -> Option<Tier> {
        match (&self.tier_a, &self.tier_b) {
            (Ok(_), _) => Some(Tier::A),
            (Err(_), Ok(_)) => Some(Tier::B),
            (Err(_), Err(_)) => None,
        }
    }
}

/// A version 2 control group. The sandbox reports it and does not use it: see the crate's
/// documentation for how memory and processes are limited instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// The directory of the group.
    pub path: PathBuf,
    /// The controllers that it could delegate.
    pub controllers: Vec<String>,
    /// Whether the host may create groups beneath it.
    pub delegated: bool,
}
