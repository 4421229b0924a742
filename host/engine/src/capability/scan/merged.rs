//! Walks the disk and staged changes as one tree. The rules are those of ripgrep's crate, which can
//! only walk the disk: globs, then ignore files from the deepest directory up, then types, then
//! hidden files.

use std::path::PathBuf;

use ignore::Match;
use ignore::overrides::Override;
use ignore::types::Types;
use rustix::fs::FileType;

use super::rules::MAX_FILES;
use crate::call::Control;
use crate::capability::bindings::cofferdam::host::scan::Query;
use crate::capability::files::FileState;
use cofferdam_core::policy::is_own;
use cofferdam_workspace::ignore_files::IgnoreRules;
use cofferdam_workspace::path::join;
use cofferdam_workspace::{Listed, Overlay};

/// A walk and what it found so far.
pub(super) struct Walk<'a> {
    files: &'a FileState,
    tree: &'a Overlay,
    control: &'a Control,
    query: &'a Query,
    follow: bool,
    globs: &'a Override,
    types: &'a Types,
    rules: IgnoreRules,
    found: Vec<PathBuf>,
}

/// A directory that is being walked.
struct Open {
    path: String,
    /// The resolved place of the directory.
    place: String,
    entries: std::vec::IntoIter<Listed>,
}

/// The problem of an ignore file, which ends a walk.
pub(super) struct Problem(pub(super) String);

impl<'a> Walk<'a> {
    pub(super) fn new(
        files: &'a FileState,
        control: &'a Control,
        query: &'a Query,
        follow: bool,
        (globs, types): &'a (Override, Types),
    ) -> Self {
        let (rules, found) = (IgnoreRules::new(files.workspace().path().to_owned()), Vec::new());
        let tree = files.tree();
        Self { files, tree, control, query, follow, globs, types, rules, found }
    }

    /// The files at and below `root`, in no order.
    pub(super) fn from(mut self, root: &str) -> Result<Vec<PathBuf>, Problem> {
        // The rules of parent directories apply as well.
        if !root.is_empty() {
            let above = root.match_indices('/').map(|(end, _)| &root[..end]);
            for directory in std::iter::once("").chain(above) {
                self.enter(directory, directory)?;
            }
        }
        match self.tree.stat(root) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                self.walk(root)?;
            }
            // The root itself is a file.
            Ok(_) => self.found.push(root.into()),
            Err(_) => {}
        }
        Ok(self.found)
    }

    /// Finds the files below a directory.
    fn walk(&mut self, root: &str) -> Result<(), Problem> {
        let mut open = Vec::new();
        open.extend(self.open(root.to_owned(), root.to_owned())?);
        while let Some(Open { path, place, entries }) = open.last_mut() {
            if self.control.stop().is_some() {
                break;
            }
            let Some(Listed { name, kind, .. }) = entries.next() else {
                open.pop();
                self.rules.leave();
                continue;
            };
            // A staged name is always UTF-8, and one that is not can't be opened here.
            let Ok(name) = name.into_string() else { continue };
            let path = join(path, &name);
            let entry = self.entry(join(place, &name), kind);
            match entry.filter(|(place, _)| !is_own(place)) {
                Some((place, FileType::Directory)) => {
                    let is_loop = open.iter().any(|above| above.place == place);
                    if !is_loop && !self.is_hidden(&path, true) {
                        open.extend(self.open(path, place)?);
                    }
                }
                Some((place, FileType::RegularFile))
                    if !self.is_hidden(&path, false)
                        && self.files.sight().allows(&path)
                        && !self.is_too_large(&place)
                        && self.found.len() <= MAX_FILES =>
                {
                    self.found.push(path.into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens a directory and reads its rules. Returns `None` if it can't be read.
    fn open(&mut self, path: String, place: String) -> Result<Option<Open>, Problem> {
        let Ok(entries) = self.tree.list(&place) else { return Ok(None) };
        self.enter(&path, &place)?;
        Ok(Some(Open { path, place, entries: entries.into_iter() }))
    }

    /// The resolved place and type of an entry. Follows a link that stays in the workspace.
    fn entry(&self, place: String, kind: FileType) -> Option<(String, FileType)> {
        if kind != FileType::Symlink {
            return Some((place, kind));
        }
        if !self.follow {
            return None;
        }
        let place = self.tree.resolve("", &place, true).ok()?;
        let stat = self.tree.stat(&place).ok()?;
        Some((place.into(), FileType::from_raw_mode(stat.st_mode)))
    }

    fn is_too_large(&self, place: &str) -> bool {
        self.query.max_file_size.is_some_and(|most| {
            self.tree.stat(place).is_ok_and(|stat| stat.st_size.unsigned_abs() > most)
        })
    }

    fn is_hidden(&self, path: &str, is_directory: bool) -> bool {
        let full = self.files.workspace().path().join(path);
        match self.globs.matched(&full, is_directory) {
            Match::None => {}
            decided => return decided.is_ignore(),
        }
        let ignored = self.rules.decision(path, is_directory);
        if ignored == Some(true) {
            return true;
        }
        let by_type = self.types.matched(&full, is_directory);
        if by_type.is_ignore() {
            return true;
        }
        let is_wanted = ignored == Some(false) || by_type.is_whitelist();
        let name = path.rsplit('/').next().unwrap_or(path);
        !is_wanted && !self.query.hidden && name.starts_with('.')
    }

    /// Reads the rules of a directory.
    fn enter(&mut self, path: &str, place: &str) -> Result<(), Problem> {
        if !self.query.ignore_files {
            self.rules.enter_without();
            return Ok(());
        }
        self.rules.enter(self.tree, path, place).map_err(Problem)
    }
}
