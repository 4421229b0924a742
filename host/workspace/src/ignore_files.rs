//! Ignore files of a workspace, checked before they are compiled. They are not trusted: the glob compiler
//! uses stack for each nested alternative, and opening a FIFO or a device would block.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::FileType;

use crate::disk;
use crate::overlay::Overlay;
use crate::path::join;

/// The names of ignore files; a later one takes precedence.
pub const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];

/// A repository's local ignore rules, relative to its top.
const EXCLUDE_FILE: &str = ".git/info/exclude";

/// The error message for an ignore file that is not a regular file.
pub const NOT_A_FILE: &str = "is no regular file; remove it, or scan without ignore files";

/// The error message for an ignore file that can't be compiled.
pub const TOO_COMPLEX: &str = "is too large, or nests too deeply; scan without ignore files";

/// The maximum size of an ignore file, in bytes.
pub const MAX_IGNORE_FILE_BYTES: u64 = 4 << 20;

/// The maximum number of alternatives in braces of a glob: nested ones use stack.
pub const MAX_ALTERNATIVES: usize = 200;

/// Whether compiling a glob could exceed the stack.
pub fn nests_too_deeply(glob: &[u8]) -> bool {
    glob.iter().filter(|byte| **byte == b'{').count() > MAX_ALTERNATIVES
}

/// Whether an ignore file is too large or contains a glob that nests too deeply.
pub fn is_unusable(text: &[u8]) -> bool {
    text.len() as u64 > MAX_IGNORE_FILE_BYTES
        || text.split(|byte| *byte == b'\n').any(nests_too_deeply)
}

/// The rules of the directory that a walk has entered, and of its parents: those of ripgrep's crate,
/// which can only walk the disk itself.
pub struct IgnoreRules {
    /// The absolute path of the workspace.
    top: PathBuf,
    /// The deepest directory last. Each has one entry for each name in [`IGNORE_FILES`], and one for
    /// the exclude file of its repository.
    levels: Vec<Vec<Gitignore>>,
}

impl IgnoreRules {
    /// Creates rules without any directory.
    pub fn new(top: PathBuf) -> Self {
        Self { top, levels: Vec::new() }
    }

    /// Reads the rules of a directory; `place` is its path without links.
    ///
    /// # Errors
    /// The first file that can't be used, and why.
    pub fn enter(&mut self, tree: &Overlay, path: &str, place: &str) -> Result<(), String> {
        let full = self.top.join(path);
        let names = IGNORE_FILES.iter().rev().chain([&EXCLUDE_FILE]);
        let rules = names.map(|name| read(tree, &full, &join(place, name)));
        self.levels.push(rules.collect::<Result<_, _>>()?);
        Ok(())
    }

    /// Enters a directory whose rules do not apply.
    pub fn enter_without(&mut self) {
        self.levels.push(Vec::new());
    }

    /// Leaves the directory that was entered last.
    pub fn leave(&mut self) {
        self.levels.pop();
    }

    /// The decision about a path: whether it is ignored, or `None` if no rule matches. The first kind of
    /// file with a decision takes precedence, and within a kind the deepest directory.
    pub fn decision(&self, path: &str, is_directory: bool) -> Option<bool> {
        let full = self.top.join(path);
        (0..=IGNORE_FILES.len()).find_map(|kind| {
            self.levels.iter().rev().filter_map(|rules| rules.get(kind)).find_map(|rules| {
                match rules.matched(&full, is_directory) {
                    Match::None => None,
                    decided => Some(decided.is_ignore()),
                }
            })
        })
    }
}

fn read(tree: &Overlay, directory: &Path, file: &str) -> Result<Gitignore, String> {
    let Ok((opened, stat)) = tree.open_read(file) else { return Ok(Gitignore::empty()) };
    if disk::file_type(&stat) != FileType::RegularFile {
        return Err(format!("{file} {NOT_A_FILE}"));
    }
    let mut text = Vec::new();
    let read = opened.take(MAX_IGNORE_FILE_BYTES + 1).read_to_end(&mut text);
    if read.is_err() || is_unusable(&text) {
        return Err(format!("{file} {TOO_COMPLEX}"));
    }
    let mut builder = GitignoreBuilder::new(directory);
    for line in String::from_utf8_lossy(&text).lines() {
        // As in git, a line that is not a glob has no effect.
        let _ = builder.add_line(None, line);
    }
    Ok(builder.build().unwrap_or_else(|_| Gitignore::empty()))
}
