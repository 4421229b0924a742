//! Finds the workspace of a command that names none: as git does, the nearest directory above that is
//! one.
//!
//! What lies in a directory above may have come with an archive or from another user, and must not
//! widen what the command works on. So only what this user's own host has made counts: a `.cofferdam`
//! with a valid mark, or settings that the user has accepted in this place. The search ends below the
//! home directory, at the boundary of a file system, and at the root of a Git repository.
#![expect(clippy::disallowed_methods, reason = "the current directory is named by its path")]

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::setup::{self, Directories};
use crate::config;
use cofferdam_workspace::{OwnState, Workspace};

/// Returns the workspace above the current directory; `None` if the current directory is to be used.
pub fn find() -> Option<PathBuf> {
    let here = env::current_dir().and_then(|here| here.canonicalize()).ok()?;
    let home = etcetera::home_dir().ok()?.canonicalize().ok()?;
    let accepted = Directories::find()?.accepted;
    above(&here, &home, |directory| is_workspace(directory, &accepted))
}

/// Whether this user's host has used the directory as a workspace, or the user has accepted its
/// settings.
fn is_workspace(directory: &Path, accepted: &Path) -> bool {
    let Ok(workspace) = Workspace::open(directory, setup::secret()) else { return false };
    matches!(workspace.find_own(), Ok(OwnState::Own(_)))
        || config::is_accepted(accepted, &workspace)
}

fn above(here: &Path, home: &Path, is_workspace: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let device = |directory: &Path| directory.metadata().map(|found| found.dev()).ok();
    let own_device = device(here)?;
    for directory in here.ancestors() {
        let is_top = directory == home || directory.parent().is_none();
        if is_top || device(directory) != Some(own_device) {
            return None;
        }
        if is_workspace(directory) {
            return (directory != here).then(|| directory.to_owned());
        }
        if directory.join(".git").symlink_metadata().is_ok() {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use cofferdam_workspace::Secret;

    use super::*;

    #[test]
    fn the_nearest_workspace_above_is_found() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let here = top.join("home/project/src/deep");
        fs::create_dir_all(&here).unwrap();
        let home = top.join("home");
        let find = |from: &Path, workspaces: &[&str]| {
            let found = above(from, &home, |directory| {
                workspaces.iter().any(|name| top.join(name) == directory)
            });
            found.map(|found| found.strip_prefix(&top).unwrap().to_str().unwrap().to_owned())
        };
        let project = Some("home/project".to_owned());
        assert_eq!(find(&here, &["home/project"]), project);
        assert_eq!(
            find(&here, &["home/project/src", "home/project"]),
            Some("home/project/src".into())
        );
        // The current directory itself is no directory above.
        assert_eq!(find(&here, &["home/project/src/deep", "home/project"]), None);
        // Neither the home directory nor one above it is found.
        assert_eq!(find(&here, &["home", ""]), None);
        assert_eq!(find(&home, &["home", ""]), None);
        // Nor is a directory above the repository.
        fs::create_dir(top.join("home/project/src/.git")).unwrap();
        assert_eq!(find(&here, &["home/project"]), None);
        assert_eq!(find(&here, &["home/project/src"]), Some("home/project/src".into()));
        fs::write(here.join(".git"), "gitdir: elsewhere\n").unwrap();
        assert_eq!(find(&here, &["home/project/src"]), None);
    }

    #[test]
    fn planted_files_make_no_workspace() {
        let place = tempfile::tempdir().unwrap();
        let (top, accepted) = (place.path().join("top"), place.path().join("accepted"));
        fs::create_dir_all(top.join(".cofferdam")).unwrap();
        assert!(!is_workspace(&top, &accepted));
        fs::write(top.join(".cofferdam/owner"), "AAAA\n").unwrap();
        fs::write(top.join(config::FILE), "[grants.shell]\nfiles = 'write'\n").unwrap();
        assert!(!is_workspace(&top, &accepted));
        // Settings count that the user has accepted in this place, and in no other one.
        let other = place.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::copy(top.join(config::FILE), other.join(config::FILE)).unwrap();
        config::accept(&Workspace::open(&top, Secret::OfProcess).unwrap(), &accepted).unwrap();
        assert!(is_workspace(&top, &accepted));
        assert!(!is_workspace(&other, &accepted));
    }
}
