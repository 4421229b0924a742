//! The files of one call: what it may do with them, and the trees that it sees. Paths that a
//! plugin writes become places here; what is done at a place is [`cofferdam_workspace`]'s.

mod listing;
mod permissions;
mod wasi;
mod writer;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::runtime::Rights;
use cofferdam_core::policy::{Files, Limits, Scope, is_own, protected};
use cofferdam_workspace::path::{by_names, link_target};
use cofferdam_workspace::{Exceeded, Overlay, Quota, Refused, Workspace, is_full, or_dot};

use listing::Latest;

pub(super) use permissions::add_to_linker as add_permissions_to_linker;
pub(super) use wasi::add_to_linker;

/// What one call may do with files, and what it has open.
pub(crate) struct FileState {
    workspace: Arc<Workspace>,
    tree: Arc<Overlay>,
    /// `/tmp`, once somebody asked for directories.
    private: Option<Arc<Overlay>>,
    access: Files,
    sight: Scope,
    scope: Scope,
    quota: Arc<Quota>,
    open: HashMap<u32, Open>,
    latest: Option<Latest>,
    /// Why the last operation was refused, if it was the host that refused it.
    refused: Option<Refused>,
}

/// What a descriptor stands for.
#[derive(Clone)]
struct Open {
    /// The workspace, or the call's own `/tmp`.
    tree: Arc<Overlay>,
    place: String,
    is_directory: bool,
    is_writable: bool,
    /// Device and inode: what it is, whatever its name.
    object: (u64, u64),
}

/// What a call wants to do at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// See whether something is there; a directory above the scope will do.
    Look,
    Read,
    Change,
    /// Make a directory, which may be one on the way to the scope.
    Lead,
}

impl Access {
    fn changes(self) -> bool {
        matches!(self, Self::Change | Self::Lead)
    }
}

impl FileState {
    pub(crate) fn new(
        workspace: Arc<Workspace>,
        tree: Arc<Overlay>,
        rights: &Rights,
        limits: &Limits,
    ) -> Self {
        Self {
            workspace,
            tree,
            private: None,
            access: rights.capabilities.files,
            sight: rights.sight.clone(),
            scope: rights.scope.clone(),
            quota: Arc::new(Quota::new(limits.write as u64, limits.files as u64)),
            open: HashMap::new(),
            latest: None,
            refused: None,
        }
    }

    pub(super) fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// The workspace with what was changed so far.
    pub(super) fn tree(&self) -> &Arc<Overlay> {
        &self.tree
    }

    /// What it may read.
    pub(super) fn sight(&self) -> &Scope {
        &self.sight
    }

    /// What counts what is written.
    pub(super) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// Whether a program that the call runs may have changed what is at `place`.
    ///
    /// # Errors
    /// [`Refused`], saying why not.
    pub(super) fn allow_change(&self, place: &str) -> io::Result<()> {
        self.allow(&self.tree, place, place, Access::Change)
    }

    /// What was written, in bytes.
    pub(crate) fn written(&self) -> u64 {
        self.quota.taken()
    }

    /// The limit of writing that the call has reached.
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.quota.exceeded()
    }

    /// Does something at the place that `path`, beneath a directory of one of the call's trees,
    /// stands for, if the call may go there.
    ///
    /// # Errors
    /// [`Refused`], and those of `act`.
    pub(super) fn at<T>(
        &self,
        tree: &Overlay,
        base: &str,
        path: &str,
        follow: bool,
        access: Access,
        act: impl Fn(&Overlay, &str) -> io::Result<T>,
    ) -> io::Result<(String, T)> {
        // Most paths mean what their names say: whatever is done at a place fails where a link
        // is on the way, and only then the links have to be looked at.
        if let Some(place) = by_names(base, path)?
            && self.allow(tree, path, &place, access).is_ok()
        {
            match act(tree, &place) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {}
                done => return done.map(|done| (place.into(), done)),
            }
        }
        let place = tree.resolve(base, path, follow)?;
        self.allow(tree, path, &place, access)?;
        let done = act(tree, &place)?;
        Ok((place.into(), done))
    }

    /// Remembers why the host refused something, should the plugin want to know.
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.refused = done.as_ref().err().and_then(Refused::of).cloned();
        if done.as_ref().is_err_and(is_full) {
            self.quota.note_full();
        }
        done
    }

    /// Whether the call may go to `place`, which is what `path` stands for. Its own `/tmp` is
    /// all its own.
    ///
    /// # Errors
    /// [`Refused`], saying why.
    fn allow(&self, tree: &Overlay, path: &str, place: &str, access: Access) -> io::Result<()> {
        if !std::ptr::eq(tree, &*self.tree) {
            return Ok(());
        }
        match self.access {
            Files::None => {
                let why = format!("{path}: the call has nothing to do with files");
                return Err(Refused::denied(why));
            }
            Files::Read if access.changes() => {
                return Err(Refused::denied(format!("{path}: the call may only read")));
            }
            Files::Read | Files::Write => {}
        }
        let scope = if access.changes() { &self.scope } else { &self.sight };
        let is_on_the_way =
            matches!(access, Access::Look | Access::Lead) && scope.leads_on_from(place);
        if !scope.allows(place) && !is_on_the_way {
            let path = or_dot(Path::new(path)).display();
            return Err(Refused::denied(format!(
                "{path} is outside of the call's scope: {}",
                scope.paths().join(", ")
            )));
        }
        let why = if access.changes() {
            tree.refusal(place)
        } else if is_own(place) {
            protected(place).map(str::to_owned)
        } else {
            None
        };
        match why {
            Some(why) => Err(Refused::denied(format!("{path} is protected: {why}"))),
            None => Ok(()),
        }
    }

    /// Whether a new link at `place` may point to `target`: not out of the workspace or the
    /// scope, and not to what is protected. Its names are taken as they are: what is opened
    /// through the link later is decided on then.
    fn allow_target(&self, tree: &Overlay, place: &str, target: &str) -> io::Result<()> {
        self.allow(tree, target, &link_target(place, target)?, Access::Change)
    }
}
