//! Finds the git repository of a workspace, whose files may be outside of the workspace: those of a
//! linked working tree, of a submodule, of a repository in a directory above, or of a repository
//! whose objects a shared clone uses.
//!
//! The files of a workspace are not trusted, and may name any place. So a place outside of it counts
//! only if it belongs to this user and is confirmed by what the workspace does not decide:
//!
//! | layout | confirmed by |
//! |---|---|
//! | linked working tree | the file `gitdir` of `worktrees/NAME` in the repository names this working tree, and `commondir` names the repository around it |
//! | submodule | `core.worktree` in the repository's `config` names this working tree |
//! | directory below the root | `.git` is a directory above, where the workspace can't write |
//! | `objects/info/alternates` | both repositories know a common commit: who can't read the other repository does not know the tips of its branches |
//!
//! This module reads only: it starts no program, and follows no link in the last name of a path.
#![expect(clippy::disallowed_methods, reason = "git's files name places by absolute paths")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cofferdam_core::policy::git;
use rustix::fs::OFlags;

use crate::path::MAX_PATH;

/// How much of a file that lists objects or references is read, in bytes.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// How much of a repository's configuration is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// How many files of references one repository may have; further ones are not read.
const MAX_REFERENCE_FILES: usize = 20_000;

/// How deep directories of references are read.
const MAX_REFERENCE_DEPTH: usize = 32;

/// How many repositories one repository may take objects from, directly or not.
const MAX_ALTERNATES: usize = 16;

/// The length of the shortest id of an object, in digits.
const MIN_ID_DIGITS: usize = 40;

/// What git reads of a repository that several working trees share. `worktrees` is left out, and any
/// working tree inside of the repository.
const SHARED: [&str; 11] = [
    "HEAD",
    "config",
    "config.worktree",
    "info",
    "logs",
    "modules",
    "objects",
    "packed-refs",
    "refs",
    "reftable",
    "shallow",
];

/// What git reads besides in the repository of a single working tree, or of the main one.
const OWN: [&str; 8] = [
    "CHERRY_PICK_HEAD",
    "MERGE_HEAD",
    "MERGE_MSG",
    "REVERT_HEAD",
    "index",
    "rebase-apply",
    "rebase-merge",
    "sequencer",
];

/// Files above the workspace that git reads in a working tree.
const TREE_FILES: [&str; 2] = [".gitattributes", ".gitignore"];

/// The git repository of a workspace.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// The repository: `.git`, or an absolute path outside of the workspace.
    pub git_dir: PathBuf,
    /// The absolute path of the repository's directory for this working tree, without links; empty
    /// if `.git` is a link.
    pub own: PathBuf,
    /// The absolute path of the directory with objects and references, which several working trees
    /// may share.
    pub common: PathBuf,
    /// The root of the working tree: `.`, or an absolute path above the workspace.
    pub work_tree: PathBuf,
    /// The workspace's path in the working tree; empty for its root.
    pub prefix: PathBuf,
    /// Directories and files outside of the workspace that belong to the repository.
    pub outside: Vec<PathBuf>,
    /// The files and directories in `outside` that git reads.
    pub readable: Vec<PathBuf>,
}

/// Why a workspace has no usable repository.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepositoryError {
    /// The workspace is in no repository.
    #[error("{0}")]
    NotFound(String),
    /// The files of the workspace name one that is not confirmed.
    #[error("{0}")]
    NotConfirmed(String),
}

impl Repository {
    /// Finds the repository of the directory `top`, an absolute path without links. The search in
    /// the directories above ends below `home`, at the root and at another file system.
    ///
    /// # Errors
    /// See [`RepositoryError`]. The message says what was looked for, where, and what would be right.
    pub fn find(top: &Path, home: Option<&Path>) -> Result<Self, RepositoryError> {
        let device = |directory: &Path| directory.metadata().map(|found| found.dev()).ok();
        let mut last = top;
        for directory in top.ancestors() {
            let is_end = Some(directory) == home || directory.parent().is_none();
            if directory != top && (is_end || device(directory) != device(top)) {
                break;
            }
            last = directory;
            if directory.join(".git").symlink_metadata().is_ok() {
                let mut found = Search { top, found: Self::default() };
                found.at(directory)?;
                return Ok(found.found);
            }
        }
        let above = if last == top {
            String::new()
        } else {
            format!(", nor in a directory above it, up to {}", last.display())
        };
        Err(RepositoryError::NotFound(format!(
            "the workspace is not a git repository: there is no .git in {}{above}; the user can \
             create a repository with git init",
            top.display()
        )))
    }
}

struct Search<'a> {
    top: &'a Path,
    found: Repository,
}

impl Search<'_> {
    /// Uses the `.git` of a directory, which is the workspace or above it.
    fn at(&mut self, directory: &Path) -> Result<(), RepositoryError> {
        let git = directory.join(".git");
        let is_here = directory == self.top;
        self.found.prefix = self.top.strip_prefix(directory).unwrap_or(Path::new("")).to_owned();
        self.found.work_tree = if is_here { ".".into() } else { directory.to_owned() };
        let kind = git.symlink_metadata().map(|found| found.file_type());
        let (own, common) = match kind {
            Ok(kind) if kind.is_dir() => {
                if !is_here {
                    self.confirm_above(&git)?;
                }
                (git.clone(), git)
            }
            Ok(kind) if kind.is_file() => self.named_by(directory, &git)?,
            Ok(kind) if kind.is_symlink() => (PathBuf::new(), self.linked(&git)?),
            _ => return Err(refused(&git, "it is neither a directory nor a file", "git init")),
        };
        if self.found.git_dir.as_os_str().is_empty() {
            self.found.git_dir = ".git".into();
        }
        self.add_alternates(&common)?;
        self.add_tree_files(directory);
        (self.found.own, self.found.common) = (own, common);
        Ok(())
    }

    /// Uses the repository in a directory above the workspace.
    fn confirm_above(&mut self, git: &Path) -> Result<(), RepositoryError> {
        if self.top.starts_with(git) {
            let why = "the workspace is inside of that repository";
            return Err(refused(git, why, "use the root of the working tree as the workspace"));
        }
        if !is_own(git) || !is_repository(git) {
            let why = "it is not a repository that belongs to you (HEAD, objects and refs, owned \
                       by your user id)";
            return Err(refused(git, why, "git init in the workspace gives it its own"));
        }
        self.found.git_dir = git.to_owned();
        self.add(git, &[&SHARED[..], &OWN].concat());
        Ok(())
    }

    /// Uses the repository that the file `.git` of a directory names; returns its directory for this
    /// working tree and the one with its objects.
    fn named_by(
        &mut self,
        directory: &Path,
        git: &Path,
    ) -> Result<(PathBuf, PathBuf), RepositoryError> {
        let text = text(git, MAX_PATH as u64).unwrap_or_default();
        let Some(path) = git::gitfile(&text) else {
            return Err(refused(git, "it is not one line 'gitdir: PATH'", "git worktree repair"));
        };
        let named = directory.join(path).canonicalize();
        let why = format!(
            "in {}, there is no repository of yours that names {} back, neither in the file gitdir \
             and below worktrees/ (a linked working tree), nor by core.worktree in config (a \
             submodule)",
            cofferdam_text::shorten(path, 400),
            directory.display()
        );
        let cure = format!(
            "'git worktree repair {0}' in the main working tree, or 'git submodule update --init' in \
             the repository around the submodule; then 'git -C {0} status' works and names the same \
             place",
            directory.display()
        );
        let refusal = || refused(git, &why, &cure);
        let named = named.map_err(|_| refusal())?;
        if named.starts_with(self.top) {
            let common = self.common_inside(&named);
            return Ok((named, common));
        }
        let common = match linked_repository(&named, directory) {
            Some(common) => common,
            None if is_submodule(&named, directory) => named.clone(),
            None => return Err(refusal()),
        };
        if !is_own(&named) || !is_own(&common) || self.top.starts_with(&named) {
            return Err(refusal());
        }
        self.found.git_dir.clone_from(&named);
        if named == common {
            self.add(&common, &[&SHARED[..], &OWN].concat());
            return Ok((named, common));
        }
        if !common.starts_with(self.top) {
            self.add(&common, &SHARED);
        }
        self.add_all(named.clone());
        Ok((named, common))
    }

    /// Uses a link as the `.git` of the workspace if it leads into the workspace.
    fn linked(&mut self, git: &Path) -> Result<PathBuf, RepositoryError> {
        match git.canonicalize() {
            Ok(target) if target.starts_with(self.top) => Ok(target),
            _ => Err(refused(
                git,
                "it is a symbolic link to a place that is not in the workspace, and nothing there \
                 can confirm that it belongs here",
                "a working tree that git worktree add creates",
            )),
        }
    }

    /// The directory with the objects of a repository in the workspace.
    fn common_inside(&self, git: &Path) -> PathBuf {
        let common = common_named_by(git);
        common.filter(|common| common.starts_with(self.top)).unwrap_or_else(|| git.to_owned())
    }

    /// Shows a whole directory.
    fn add_all(&mut self, directory: PathBuf) {
        self.found.outside.push(directory.clone());
        self.show(directory);
    }

    /// Shows some files and directories of a repository.
    fn add(&mut self, repository: &Path, names: &[&str]) {
        self.found.outside.push(repository.to_owned());
        for name in names {
            self.show(repository.join(name));
        }
    }

    /// Shows a file or directory, but no link, nothing in the workspace and nothing around it.
    fn show(&mut self, path: PathBuf) {
        let is_link = path.symlink_metadata().map_or(true, |found| found.is_symlink());
        if !is_link && !path.starts_with(self.top) && !self.top.starts_with(&path) {
            self.found.readable.push(path);
        }
    }

    /// Shows what git reads in the directories between the root of the working tree and the
    /// workspace.
    fn add_tree_files(&mut self, root: &Path) {
        for directory in self.top.ancestors().skip(1).take_while(|above| above.starts_with(root)) {
            for name in TREE_FILES {
                let file = directory.join(name);
                if file.symlink_metadata().is_ok_and(|found| found.is_file()) {
                    self.found.outside.push(file.clone());
                    self.show(file);
                }
            }
        }
    }

    /// Shows the directories of objects that a repository names, and those that they name.
    fn add_alternates(&mut self, common: &Path) -> Result<(), RepositoryError> {
        let mut waiting = vec![common.to_owned()];
        let mut seen = HashSet::new();
        while let Some(borrower) = waiting.pop() {
            let Ok(info) = borrower.join("objects/info").canonicalize() else { continue };
            if !info.starts_with(&borrower) {
                continue;
            }
            let (list, objects) = (info.join("alternates"), borrower.join("objects"));
            let Some(text) = text(&list, MAX_CONFIG_BYTES) else { continue };
            let mut known = None;
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let known = known.get_or_insert_with(|| ids_of(&borrower));
                let Some(lender) = lender(&objects.join(line), known) else {
                    return Err(not_lent(&list, line, self.top));
                };
                if !seen.insert(lender.clone()) {
                    continue;
                }
                if seen.len() > MAX_ALTERNATES {
                    let why = format!("more than {MAX_ALTERNATES} repositories are named");
                    return Err(refused(&list, &why, "git repack -a -d in the workspace"));
                }
                let objects = lender.join("objects");
                if !objects.starts_with(self.top) {
                    self.add_all(objects);
                }
                waiting.push(lender);
            }
        }
        Ok(())
    }
}

fn refused(place: &Path, why: &str, cure: &str) -> RepositoryError {
    let place = place.display();
    RepositoryError::NotConfirmed(format!(
        "{place} can't be used: {why}. What would be right: {cure}"
    ))
}

/// The message is the same whether the place exists or not: a workspace must not learn that.
fn not_lent(list: &Path, line: &str, top: &Path) -> RepositoryError {
    let why = format!(
        "it names {}, but as the user's objects directory of a repository whose branches or logs \
         have a commit in common with those of this one, nothing was found there",
        cofferdam_text::shorten(line, 400)
    );
    let cure = format!(
        "'git -C {0} fetch' from that repository, or 'git -C {0} repack -a -d' and no line for it \
         in that file",
        top.display()
    );
    refused(list, &why, &cure)
}

/// The repository of a linked working tree, if its directory in `worktrees` names the working tree.
fn linked_repository(named: &Path, working_tree: &Path) -> Option<PathBuf> {
    let list = named.parent().filter(|above| above.ends_with("worktrees"))?;
    let common = list.parent()?;
    let back = text(&named.join("gitdir"), MAX_PATH as u64)?;
    let back = named.join(git::control_path(&back));
    let is_back = back.ends_with(".git") && back.parent()?.canonicalize().ok()? == working_tree;
    let is_common = common_named_by(named)? == common && is_repository(common);
    (is_back && is_common).then(|| common.to_owned())
}

/// The repository that the file `commondir` of another one names.
fn common_named_by(git: &Path) -> Option<PathBuf> {
    let named = text(&git.join("commondir"), MAX_PATH as u64)?;
    git.join(git::control_path(&named)).canonicalize().ok()
}

/// Whether a repository's configuration names this working tree.
fn is_submodule(named: &Path, working_tree: &Path) -> bool {
    let config = text(&named.join("config"), MAX_CONFIG_BYTES).unwrap_or_default();
    let back = git::working_tree(&config).and_then(|path| named.join(path).canonicalize().ok());
    is_repository(named) && back.is_some_and(|back| back == working_tree)
}

/// Whether a directory has a valid `HEAD`, `objects` and `refs` of its own.
fn is_repository(directory: &Path) -> bool {
    let is_directory =
        |name: &str| directory.join(name).symlink_metadata().is_ok_and(|found| found.is_dir());
    let head = text(&directory.join("HEAD"), MAX_PATH as u64);
    head.is_some_and(|head| git::is_head(head.as_bytes()))
        && is_directory("objects")
        && is_directory("refs")
        && directory.join("commondir").symlink_metadata().is_err()
}

/// Whether a directory belongs to the user that runs the host.
fn is_own(directory: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    directory.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
}

/// The repository around a directory of objects, if it belongs to this user and knows one of the
/// ids.
fn lender(objects: &Path, known: &HashSet<String>) -> Option<PathBuf> {
    let objects = objects.canonicalize().ok().filter(|real| real.ends_with("objects"))?;
    let lender = objects.parent()?;
    let is_trusted = is_repository(lender) && is_own(lender) && is_own(&objects);
    (is_trusted && !ids_of(lender).is_disjoint(known)).then(|| lender.to_owned())
}

/// The ids in the references and logs of a repository.
fn ids_of(repository: &Path) -> HashSet<String> {
    let mut ids = HashSet::new();
    let mut left = MAX_LIST_BYTES;
    let mut add = |file: &Path| {
        let text = text(file, left).unwrap_or_default();
        left -= (text.len() as u64).min(left);
        let words = text.split([' ', '\t', '\n', '^']);
        let is_id = |word: &&str| {
            word.len() >= MIN_ID_DIGITS
                && word.bytes().all(|byte| byte.is_ascii_hexdigit())
                && word.bytes().any(|byte| byte != b'0')
        };
        ids.extend(words.filter(is_id).map(str::to_owned));
    };
    add(&repository.join("HEAD"));
    add(&repository.join("packed-refs"));
    // A link could lead to the references of the other repository.
    let is_directory = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let lists = ["logs", "refs"].map(|name| repository.join(name)).into_iter();
    let mut waiting: Vec<_> = lists.filter(is_directory).map(|list| (list, 0)).collect();
    let mut files = 0;
    while let Some((directory, depth)) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            files += 1;
            if files > MAX_REFERENCE_FILES {
                return ids;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < MAX_REFERENCE_DEPTH => {
                    waiting.push((entry.path(), depth + 1));
                }
                Ok(kind) if kind.is_file() => add(&entry.path()),
                _ => {}
            }
        }
    }
    ids
}

/// The beginning of a regular file as text; `None` if there is none, or for a link.
fn text(path: &Path, most: u64) -> Option<String> {
    // A FIFO must not block.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
    let file = File::options().read(true).custom_flags(flags.cast_signed()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
