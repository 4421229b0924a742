//! The parts of a workspace that are read-only, or empty, for a native program that may change it.

use std::io;

use cofferdam_core::policy::place::is_within;
use cofferdam_core::policy::{OWN, is_own};
use rustix::fs::FileType;

use crate::disk::Listed;
use crate::overlay::Overlay;
use crate::path::join;
use crate::workspace::Workspace;

const GIT: &str = ".git";

/// Places of a workspace that programs can't change, with everything beneath them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// Each `.git` at any depth, whether it is a directory, a file or a link, and what it refers to;
    /// bare repositories; the files of their configuration. A repository is protected as a whole,
    /// since more in it than `hooks` and `config` controls what git executes (`commondir`,
    /// `config.worktree`, `modules/*/config`: gitrepository-layout(5)).
    pub git: Vec<String>,
    /// The hosts' own directories in nested workspaces.
    pub own: Vec<String>,
}

impl Workspace {
    /// Searches the whole workspace for places that programs must not change.
    ///
    /// # Errors
    /// A directory that can't be listed.
    pub fn protected(&self) -> io::Result<Protected> {
        let tree = self.plain();
        let mut found = Protected::default();
        let mut waiting = vec![String::new()];
        while let Some(directory) = waiting.pop() {
            let entries = tree.list(&directory)?;
            let is_repository = tree.has_repository(&directory, &entries);
            let trees =
                if is_repository { working_trees(tree, &directory, &entries) } else { Vec::new() };
            if is_repository && !directory.is_empty() && trees.is_empty() {
                found.git.push(directory);
                continue;
            }
            let holds_tree = |place: &str| trees.iter().any(|tree| is_within(tree, place));
            for Listed { name, kind, .. } in &entries {
                // The sandbox can't be given a name that is not UTF-8, and changes there are not kept.
                let Some(name) = name.to_str() else { continue };
                let place = join(&directory, name);
                let is_directory = *kind == FileType::Directory;
                if name == GIT {
                    found.git.extend(tree.led_to(&directory));
                    found.git.push(place);
                } else if is_own(name) {
                    found.own.extend((place != OWN).then_some(place));
                } else if is_repository && !(is_directory && holds_tree(&place)) {
                    found.git.push(place);
                } else if is_directory {
                    waiting.push(place);
                }
            }
        }
        found.git.sort();
        found.git.dedup_by(|place, above| is_within(place, above));
        Ok(found)
    }
}

/// Returns the working trees in a repository, whose files do not belong to the repository: those that
/// it lists, at any depth, and those beside its own files.
fn working_trees(tree: &Overlay, directory: &str, entries: &[Listed]) -> Vec<String> {
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    let beside = names.map(|name| join(directory, name));
    let listed = tree.linked_working_trees(directory).into_iter();
    let is_tree = |place: &String| {
        is_within(place, directory) && place != directory && tree.stat(&join(place, GIT)).is_ok()
    };
    beside.chain(listed).filter(is_tree).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::own::Secret;

    #[test]
    fn repositories_are_found_at_any_depth_and_in_any_form() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = top.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(".cofferdam/state", "");
        write(".git/config", "[include]\npath = ../shared.inc\n");
        write(".git/worktrees/linked/commondir", "../..\n");
        write("a/b/.git/config", "");
        write("a/.cofferdam/state", "");
        write("linked/.git", "gitdir: ../.git/worktrees/linked\n");
        write("bare/.git", "gitdir: ./.bare\n");
        write("bare/.bare/config", "");
        write("absolute/.git", &format!("gitdir: {}/absolute/.bare\n", top.display()));
        write("absolute/.bare/config", "");
        write("away/.git", "gitdir: /nowhere/else\n");
        write("data/config", "");
        write("shared.inc", "");
        for open in ["open/fixture.git", "trees"] {
            write(&format!("{open}/HEAD"), "ref: refs/heads/main\n");
            write(&format!("{open}/objects/x"), "");
            write(&format!("{open}/refs/x"), "");
        }
        write("trees/main/.git", "gitdir: ../worktrees/main\n");
        write("trees/main/src/file", "");
        write("plain/HEAD", "no head\n");
        write("plain/objects/x", "");
        write("plain/refs/x", "");
        fs::create_dir(top.join("soft")).unwrap();
        symlink("../data", top.join("soft/.git")).unwrap();
        let found = Workspace::open(&top, Secret::OfProcess).unwrap().protected().unwrap();
        let expected = [
            ".git",
            "a/b/.git",
            "absolute/.bare",
            "absolute/.git",
            "away/.git",
            "bare/.bare",
            "bare/.git",
            "data",
            "linked/.git",
            "open/fixture.git",
            "shared.inc",
            "soft/.git",
            "trees/HEAD",
            "trees/main/.git",
            "trees/objects",
            "trees/refs",
            "trees/worktrees/main",
        ];
        let found_git: Vec<&str> = found.git.iter().map(String::as_str).collect();
        assert_eq!(found_git, expected[..expected.len() - 1]);
        assert_eq!(found.own, ["a/.cofferdam"]);
    }
}
