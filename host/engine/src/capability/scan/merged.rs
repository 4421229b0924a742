//! The walk of a tree in which a transaction has changed something: what the disk has and what
//! is staged, as one. It decides as ripgrep's crate does on the disk alone: globs first, then
//! ignore files from the deepest directory up, then types, then a leading dot.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::Override;
use ignore::types::Types;
use rustix::fs::FileType;

use super::listing::MAX_FILES;
use super::rules::{self, NAMES};
use crate::capability::FileState;
use crate::runtime::Control;
use crate::runtime::wit::host::scan::Query;
use cofferdam_core::policy::is_own;
use cofferdam_workspace::path::join;
use cofferdam_workspace::{Listed, Overlay};

/// Where a repository keeps ignore rules that are not shared, relative to its top.
const EXCLUDE: &str = ".git/info/exclude";

/// A walk and what it found so far.
pub(super) struct Walk<'a> {
    files: &'a FileState,
    tree: &'a Overlay,
    control: &'a Control,
    query: &'a Query,
    follow: bool,
    globs: &'a Override,
    types: &'a Types,
    /// The rules of the directories that the walk is in, the deepest ones last; of each by
    /// [`NAMES`], and what its repository excludes.
    rules: Vec<Vec<Gitignore>>,
    found: Vec<PathBuf>,
}

/// A directory that the walk is in.
struct Open {
    path: String,
    /// Where it really is.
    place: String,
    /// What is left to look at.
    entries: std::vec::IntoIter<Listed>,
}

/// Why a walk ended early: a file of rules that can't be used.
pub(super) struct Problem(pub(super) String);

impl<'a> Walk<'a> {
    pub(super) fn new(
        files: &'a FileState,
        control: &'a Control,
        query: &'a Query,
        follow: bool,
        globs: &'a Override,
        types: &'a Types,
    ) -> Self {
        let (rules, found) = (Vec::new(), Vec::new());
        let tree = files.tree();
        Self { files, tree, control, query, follow, globs, types, rules, found }
    }

    /// The files at and below `root`, in no order.
    pub(super) fn from(mut self, root: &str) -> Result<Vec<PathBuf>, Problem> {
        // The rules of the directories above count as well.
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
            // A file stands for itself.
            Ok(_) => self.found.push(root.into()),
            Err(_) => {}
        }
        Ok(self.found)
    }

    /// Finds what is below a directory.
    fn walk(&mut self, root: &str) -> Result<(), Problem> {
        let mut open = Vec::new();
        open.extend(self.open(root.to_owned(), root.to_owned())?);
        while let Some(Open { path, place, entries }) = open.last_mut() {
            if self.control.stop().is_some() {
                break;
            }
            let Some(Listed { name, kind, .. }) = entries.next() else {
                open.pop();
                self.rules.pop();
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

    /// Enters a directory, if it can be read.
    fn open(&mut self, path: String, place: String) -> Result<Option<Open>, Problem> {
        let Ok(entries) = self.tree.list(&place) else { return Ok(None) };
        self.enter(&path, &place)?;
        Ok(Some(Open { path, place, entries: entries.into_iter() }))
    }

    /// Where and what an entry really is; a link that stays inside is what it leads to.
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
        let ignored = self.ignored(&full, is_directory);
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

    /// What the ignore files say: each kind's deepest word counts, and among the kinds the
    /// first one's.
    fn ignored(&self, full: &Path, is_directory: bool) -> Option<bool> {
        (0..=NAMES.len()).find_map(|kind| {
            self.rules.iter().rev().filter_map(|rules| rules.get(kind)).find_map(
                |rules| match rules.matched(full, is_directory) {
                    Match::None => None,
                    decided => Some(decided.is_ignore()),
                },
            )
        })
    }

    /// Reads the rules of a directory.
    fn enter(&mut self, path: &str, place: &str) -> Result<(), Problem> {
        if !self.query.ignore_files {
            self.rules.push(Vec::new());
            return Ok(());
        }
        let full = self.files.workspace().path().join(path);
        let names = NAMES.iter().rev().chain([&EXCLUDE]);
        let rules = names.map(|name| self.read(&full, &join(place, name)));
        let rules = rules.collect::<Result<_, _>>()?;
        self.rules.push(rules);
        Ok(())
    }

    fn read(&self, directory: &Path, file: &str) -> Result<Gitignore, Problem> {
        let Ok((opened, stat)) = self.tree.open_read(file) else { return Ok(Gitignore::empty()) };
        let wrong = |what: &str| Err(Problem(format!("{file} {what}")));
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return wrong(rules::NO_FILE);
        }
        let mut text = Vec::new();
        let read = opened.take(rules::MAX_SIZE + 1).read_to_end(&mut text);
        if read.is_err() || rules::is_unusable(&text) {
            return wrong(rules::TOO_MUCH);
        }
        let mut builder = GitignoreBuilder::new(directory);
        for line in String::from_utf8_lossy(&text).lines() {
            // What is not a glob hides nothing, as in git.
            let _ = builder.add_line(None, line);
        }
        Ok(builder.build().unwrap_or_else(|_| Gitignore::empty()))
    }
}
