//! The operator's account, and which of its directories programs may use.
#![expect(clippy::disallowed_methods, reason = "looks at toolchains outside of the workspace")]

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

/// How much of a file that names versions or configures a toolchain is read, in bytes.
const MAX_FILE_BYTES: u64 = 256 << 10;

/// The system's directories of programs, which are searched last.
pub const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// The number of directories above the working directory in which version files are looked for.
const MAX_DEPTH: usize = 64;

/// The operator's account as the host sees it.
pub(super) struct Account<'a> {
    /// The home directory, without symbolic links.
    pub(super) home: PathBuf,
    variables: &'a HashMap<String, String>,
    workspace: &'a Path,
    directory: &'a Path,
}

impl<'a> Account<'a> {
    /// Returns `None` for a user without a home directory.
    pub(super) fn new(
        variables: &'a HashMap<String, String>,
        workspace: &'a Path,
        directory: &'a Path,
    ) -> Option<Self> {
        let home = fs::canonicalize(variables.get("HOME").filter(|home| home.starts_with('/'))?);
        Some(Self { home: home.ok()?, variables, workspace, directory })
    }

    /// The value of a variable of the host; an empty one counts as missing.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A path in the home directory, if it starts with `~/`; otherwise, an absolute path.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        path.strip_prefix("~/").map_or_else(|| path.into(), |below| self.home.join(below))
    }

    /// Returns a directory without symbolic links, if programs may use what is in it: it exists, is
    /// neither the home directory nor above it, and the workspace is neither in it nor above it.
    pub(super) fn directory(&self, path: &Path) -> Option<PathBuf> {
        self.existing(path).filter(|path| path.is_dir())
    }

    /// As [`Account::directory`], for a file or a directory.
    pub(super) fn existing(&self, path: &Path) -> Option<PathBuf> {
        if !path.is_absolute() {
            return None;
        }
        let real = fs::canonicalize(path).ok()?;
        let is_too_wide = self.home.starts_with(&real) || self.workspace.starts_with(&real);
        let is_usable = !is_too_wide && is_text(&real) && !real.starts_with(self.workspace);
        is_usable.then_some(real)
    }

    /// Returns a directory without symbolic links that may hold toolchains: its path can be part of a
    /// search path, and it is not in the workspace.
    pub(super) fn root(&self, path: &Path) -> Option<PathBuf> {
        let real = path.is_absolute().then(|| fs::canonicalize(path).ok()).flatten()?;
        let is_usable = real.is_dir() && is_text(&real) && !real.starts_with(self.workspace);
        is_usable.then_some(real)
    }

    /// Whether a directory is in the workspace.
    pub(super) fn is_in_workspace(&self, path: &Path) -> bool {
        path.starts_with(self.workspace)
            || fs::canonicalize(path).is_ok_and(|real| real.starts_with(self.workspace))
    }

    /// The names in a directory, sorted.
    pub(super) fn names(&self, directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The working directory and those above it, up to the workspace.
    pub(super) fn project_directories(&self) -> impl Iterator<Item = &'a Path> {
        let plain = self.directory.components().all(|part| part != Component::ParentDir);
        let within = self.directory.ancestors().take_while(|path| path.starts_with(self.workspace));
        within.take(if plain { MAX_DEPTH } else { 0 })
    }

    /// The texts of a file of this name in the working directory and those above it, up to the
    /// workspace, the nearest first. Links are not followed.
    pub(super) fn project_files(&self, name: &str) -> Vec<String> {
        self.project_directories()
            .map(|path| path.join(name))
            .filter(|file| file.symlink_metadata().is_ok_and(|metadata| metadata.is_file()))
            .filter_map(|file| self.text(&file))
            .collect()
    }

    /// The text of a regular file of bounded size.
    pub(super) fn text(&self, file: &Path) -> Option<String> {
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        fs::File::open(file).ok()?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).ok()?;
        (text.len() as u64 <= MAX_FILE_BYTES).then_some(text)
    }

    /// Whether a file or directory exists.
    pub(super) fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    /// The directory that the first program of this name in `directories` or in the system's is
    /// installed in: the parent of its `bin`.
    pub(super) fn installation(&self, name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
        let system = SYSTEM_DIRECTORIES.map(PathBuf::from);
        let directories: Vec<PathBuf> = directories.iter().cloned().chain(system).collect();
        let program =
            fs::canonicalize(cofferdam_sandbox::find_program(name, &directories)?).ok()?;
        Some(program.parent()?.parent()?.to_owned())
    }

    /// The target of a link, without further links; `None` for what is no link.
    pub(super) fn link(&self, path: &Path) -> Option<PathBuf> {
        path.is_symlink().then(|| fs::canonicalize(path).ok()).flatten()
    }
}

/// Whether a path can be part of a search path.
fn is_text(path: &Path) -> bool {
    path.to_str().is_some_and(|text| !text.contains([':', '\n']))
}

/// Whether a name can be that of an installed version: one name of a directory.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0'])
}
