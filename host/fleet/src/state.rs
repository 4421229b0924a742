//! What a workspace was when it was last synced: kept in the host's own directory, sealed. It is written
//! in postcard's format, since a tree of many files is read in a fraction of the time that JSON takes.

use std::collections::BTreeMap;

use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::Own;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use crate::error::FleetError;
use crate::tree::{Directories, Items};

/// The name of the file in the host's own directory.
const FILE: &str = "store.state";

/// The largest file, in bytes.
const MAX_STATE_BYTES: u64 = 512 << 20;

/// The version of the format.
const VERSION: u32 = 2;

/// What a workspace was when it was last pushed or pulled.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct State {
    version: u32,
    /// The address of the store.
    pub(crate) store: String,
    /// The id of the store.
    pub(crate) id: String,
    /// The commit of the store, and the digest of its document.
    pub(crate) commit: Option<(u64, Digest)>,
    /// The tree of that commit.
    pub(crate) items: Items,
    /// The objects of its directories.
    pub(crate) directories: Directories,
    /// The files that have the content that is in `items`.
    pub(crate) stamps: BTreeMap<String, Stamp>,
    /// The latest commit of the workspace that is in the store.
    pub(crate) pushed: Option<String>,
}

/// The state of a file whose content is known. The kernel sets the time of the last change, which no
/// program can set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    inode: u64,
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        let rest = |nanoseconds| i64::try_from(nanoseconds).unwrap_or(0);
        Self {
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, rest(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, rest(stat.st_ctime_nsec)),
        }
    }

    /// Whether the file was changed before this time, in seconds since the epoch. A later change has
    /// another time then.
    pub(crate) fn is_before(&self, seconds: i64) -> bool {
        self.changed.0 < seconds
    }
}

impl State {
    /// Reads the state; the default if there is none, or if it is not authentic.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn read(own: &Own) -> Result<Self, FleetError> {
        let bytes = own.read_sealed(FILE, MAX_STATE_BYTES)?;
        let state = bytes.and_then(|bytes| postcard::from_bytes::<Self>(&bytes).ok());
        Ok(state.filter(|state| state.version == VERSION).unwrap_or_default())
    }

    /// Writes the state.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn write(&mut self, own: &Own) -> Result<(), FleetError> {
        self.version = VERSION;
        let bytes = postcard::to_stdvec(self).map_err(std::io::Error::other)?;
        Ok(own.write_sealed(FILE, bytes)?)
    }
}
