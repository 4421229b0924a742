//! The files of one call: its permissions, and the trees that it sees. Paths of a plugin are
//! resolved and checked here; [`cofferdam_workspace`] implements the operations.

mod convert;
mod listing;
mod permissions;
mod secrets;
mod wasi;
mod wasi03;
mod writer;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use super::context::CallContext;
use crate::call::SecretGuard;
use cofferdam_core::policy::{Files, Scope, is_own, protected};
use cofferdam_workspace::path::{by_names, link_target};
use cofferdam_workspace::{Exceeded, Overlay, Quota, Refused, Workspace, is_full, or_dot};

use listing::Latest;

/// The name of the workspace for plugins.
const WORKSPACE: &str = "/workspace";

pub(super) use permissions::add_to_linker as add_permissions_to_linker;
pub(super) use wasi::add_to_linker;
pub(super) use wasi03::add_to_linker as add_wasi03_to_linker;

/// The file permissions of one call, and its open descriptors.
pub(crate) struct FileState {
    workspace: Arc<Workspace>,
    tree: Arc<Overlay>,
    /// `/tmp`, once the plugin has asked for directories.
    private: Option<Arc<Overlay>>,
    access: Files,
    sight: Scope,
    scope: Scope,
    quota: Arc<Quota>,
    open: HashMap<u32, Open>,
    latest: Option<Latest>,
    /// Is told what is read of secrets.
    secrets: Arc<SecretGuard>,
    /// Other names of secret files, once they were looked for.
    links: OnceLock<secrets::Links>,
    /// Why the host refused the last operation, if it did.
    refused: Option<Refused>,
    /// Whether the component was not made for this host.
    is_stranger: bool,
}

/// An open file or directory.
#[derive(Clone)]
struct Open {
    /// The workspace, or the private `/tmp` of the call.
    tree: Arc<Overlay>,
    place: String,
    is_directory: bool,
    is_writable: bool,
    /// Device and inode, which identify it if it is renamed.
    object: (u64, u64),
}

/// How a call accesses a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Read the metadata. Allowed for directories above the scope as well.
    Look,
    Read,
    Change,
    /// Create a directory, which may be above the scope.
    Lead,
}

/// A path as a plugin writes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathAt<'a> {
    /// The place of the directory that the path is relative to.
    base: &'a str,
    path: &'a str,
    /// Whether a link at the end of the path is followed.
    follow: bool,
}

impl<'a> PathAt<'a> {
    /// A path relative to the top of its tree.
    pub(super) fn new(path: &'a str, follow: bool) -> Self {
        Self { base: "", path, follow }
    }
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
        CallContext { permissions, limits, secrets, .. }: &CallContext,
    ) -> Self {
        Self {
            workspace,
            tree,
            private: None,
            access: permissions.capabilities.files,
            sight: permissions.sight.clone(),
            scope: permissions.scope.clone(),
            quota: Arc::new(Quota::new(limits.write as u64, limits.files as u64)),
            open: HashMap::new(),
            latest: None,
            secrets: Arc::clone(secrets),
            links: OnceLock::new(),
            refused: None,
            is_stranger: permissions.grant.as_granted,
        }
    }

    pub(super) fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    /// The workspace with the staged changes.
    pub(super) fn tree(&self) -> &Arc<Overlay> {
        &self.tree
    }

    /// The paths that the call may read.
    pub(super) fn sight(&self) -> &Scope {
        &self.sight
    }

    /// Counts written bytes and created files.
    pub(super) fn quota(&self) -> &Arc<Quota> {
        &self.quota
    }

    /// Checks whether a program that the call runs may have changed `place`.
    ///
    /// # Errors
    /// [`Refused`], with the reason.
    pub(super) fn allow_change(&self, place: &str) -> io::Result<()> {
        self.allow(&self.tree, place, place, Access::Change)
    }

    /// The names of the workspace as a directory that is open from the start. A component that was
    /// not made for this host has relative paths and the workspace's own path as well; its C library
    /// takes the longest name that a path begins with, so a name is left out where the workspace has
    /// files of that name itself.
    fn workspace_names(&self) -> Vec<String> {
        if !self.is_stranger {
            return vec![WORKSPACE.to_owned()];
        }
        let own = self.workspace.name();
        let own = Some(own).filter(|own| !["/", WORKSPACE].contains(own));
        let names = [WORKSPACE].into_iter().chain(own).filter(|name| !self.is_taken(name));
        names.chain(["/"]).map(str::to_owned).collect()
    }

    /// Whether a relative path of the component could mean `name`, which is absolute.
    fn is_taken(&self, name: &str) -> bool {
        let place = name.trim_start_matches('/');
        self.is_stranger && self.tree.stat(place).is_ok()
    }

    /// Written bytes so far.
    pub(crate) fn written(&self) -> u64 {
        self.quota.taken()
    }

    /// Files, directories and links created or changed so far.
    pub(crate) fn changed(&self) -> u64 {
        self.quota.taken_files()
    }

    /// The write limit that the call has exceeded.
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        self.quota.exceeded()
    }

    /// Resolves a path in one of the call's trees, and runs `act` there if the call may access it.
    /// Returns the resolved place as well.
    ///
    /// # Errors
    /// [`Refused`], and the errors of `act`.
    pub(super) fn at<T>(
        &self,
        tree: &Overlay,
        at: PathAt<'_>,
        access: Access,
        act: impl Fn(&Overlay, &str) -> io::Result<T>,
    ) -> io::Result<(String, T)> {
        let PathAt { base, path, follow } = at;
        // Most paths contain no links. Operations fail on a link, and only then links have to be
        // resolved.
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

    /// Remembers why the host refused an operation, in case the plugin asks.
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        self.refused = done.as_ref().err().and_then(Refused::of).cloned();
        if done.as_ref().is_err_and(is_full) {
            self.quota.note_full();
        }
        done
    }

    /// Checks whether the call may access `place`, which `path` stands for. It may access all of
    /// its own `/tmp`.
    ///
    /// # Errors
    /// [`Refused`], with the reason.
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

    /// Checks whether a new link at `place` may point to `target`: it must not lead out of the
    /// workspace or the scope, nor to protected files. Links in `target` are not resolved; access
    /// through the new link is checked later.
    fn allow_target(&self, tree: &Overlay, place: &str, target: &str) -> io::Result<()> {
        self.allow(tree, target, &link_target(place, target)?, Access::Change)
    }
}
