//! Finding what a program could plant in a workspace for somebody else to execute.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Everything beneath `workspace` that [`Command::protected`](crate::Command::protected) should
/// name: each `.git`, at any depth, be it a directory, a file or a link, with the repositories in
/// the workspace that such a file or link leads to; and the host's own `.cofferdam` at the top.
/// `workspace` is absolute and without symbolic links.
///
/// A repository is protected as a whole, since more in it than `hooks` and `config` decides what
/// git executes (`commondir`, `config.worktree`, `modules/*/config`: gitrepository-layout(5)).
///
/// # Errors
/// A directory that can't be listed.
pub fn protected_paths(workspace: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![workspace.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_name() == ".git" {
                found.extend(led_to(&entry.path(), workspace));
                found.push(entry.path());
            } else if entry.file_name() == ".cofferdam" && directory == workspace {
                found.push(entry.path());
            } else if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    found.sort();
    found.dedup_by(|path, above| path.starts_with(above)); // What is in one is protected with it.
    Ok(found)
}

/// The directories in the workspace that a `.git` leads to, if it is not the repository itself: the
/// repository, and the one that it shares with other working trees.
fn led_to(git: &Path, workspace: &Path) -> Vec<PathBuf> {
    let named = |file: &Path, prefix: &str| -> Option<PathBuf> {
        let text = fs::read_to_string(file).ok()?;
        file.parent()?.join(text.strip_prefix(prefix)?.trim()).canonicalize().ok()
    };
    let repository = if git.is_file() { named(git, "gitdir:") } else { git.canonicalize().ok() };
    let shared = repository.as_ref().and_then(|git| named(&git.join("commondir"), ""));
    let inside = |path: &PathBuf| path.starts_with(workspace) && path != workspace;
    repository.into_iter().chain(shared).filter(inside).collect()
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::fs;

    use super::protected_paths;

    #[test]
    fn repositories_are_found_at_any_depth_and_in_any_form() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().canonicalize().unwrap();
        let write = |path: &str, text: &str| {
            let path = workspace.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(".cofferdam/state", "");
        write(".git/config", "");
        write(".git/worktrees/linked/commondir", "../..\n");
        write("a/b/.git/config", "");
        write("a/.cofferdam/state", "");
        write("linked/.git", "gitdir: ../.git/worktrees/linked\n");
        write("bare/.git", "gitdir: ./.bare\n");
        write("bare/.bare/config", "");
        write("away/.git", "gitdir: /nowhere/else\n");
        write("data/config", "");
        fs::create_dir(workspace.join("soft")).unwrap();
        std::os::unix::fs::symlink("../data", workspace.join("soft/.git")).unwrap();
        let found = protected_paths(&workspace).unwrap();
        let expected = [
            ".cofferdam",
            ".git",
            "a/b/.git",
            "away/.git",
            "bare/.bare",
            "bare/.git",
            "data",
            "linked/.git",
            "soft/.git",
        ];
        assert_eq!(found, expected.map(|path| workspace.join(path)));
    }
}
