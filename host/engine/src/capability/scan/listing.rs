//! Which files a query means: walks the tree with ripgrep's own crate for ignore rules.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};
use rustix::fs::FileType;

use super::merged::{Problem, Walk};
use super::rules::Rules;
use super::tree::Tree;
use crate::capability::files::{Access, FileState};
use crate::runtime::wit::host::scan::{Error, File, Query};
use crate::runtime::{Control, Workers};
use cofferdam_core::outcome::{NO_DESCRIPTOR, lacks_descriptors};
use cofferdam_core::policy::is_own;
use cofferdam_workspace::Workspace;

/// How many files a listing may hold: about 200 MB of paths.
pub(super) const MAX_FILES: usize = 1_000_000;

/// How long a glob may be, in bytes.
const MAX_GLOB: usize = 4096;

/// How many alternatives in braces a glob may have: inside each other they take stack.
const MAX_NESTING: usize = 200;

/// One file of a listing.
pub(super) struct Found {
    /// Relative to the workspace.
    pub(super) path: PathBuf,
}

impl Found {
    /// The path as a plugin sees it.
    pub(super) fn name(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }

    /// Size and time, as they are now; none for a file that is not there (any more). While a tree
    /// changes, a listing may hold names from elsewhere: those are not files of this tree.
    pub(super) fn describe(&self, tree: &Tree) -> Option<File> {
        let (size, modified_ms) = tree.describe(&self.path).ok()?;
        Some(File { path: self.name().into_owned(), size, modified_ms })
    }
}

/// Lists the files that a query means, in path order.
pub(super) fn list(
    files: &FileState,
    control: &Control,
    query: &Query,
) -> Result<Vec<Found>, Error> {
    let root = if query.root.is_empty() { "." } else { &query.root };
    let (root, kind) = files
        .at(files.tree(), "", root, true, Access::Look, |tree, place| {
            Ok(FileType::from_raw_mode(tree.look(place, true)?.st_mode))
        })
        .map_err(|error| root_error(query, &error))?;
    if !matches!(kind, FileType::Directory | FileType::RegularFile) {
        return Err(Error::NotFound(format!("{} is no directory and no regular file", query.root)));
    }
    // A link may lead out of the scope: with one, links are not followed.
    let follow = query.follow_links && files.sight().is_everything();
    let mut found = if files.tree().is_changed() {
        walk_merged(files, control, query, &root, follow)?
    } else {
        walk_disk(files, control, query, &root, follow)?
    };
    if found.len() > MAX_FILES {
        return Err(Error::Invalid(format!(
            "more than {MAX_FILES} files below '{}'; start deeper or use globs",
            query.root
        )));
    }
    found.sort_unstable_by(|left, right| left.as_os_str().cmp(right.as_os_str()));
    Ok(found.into_iter().map(|path| Found { path }).collect())
}

/// Walks what the disk has and the transaction has changed.
fn walk_merged(
    files: &FileState,
    control: &Control,
    query: &Query,
    root: &str,
    follow: bool,
) -> Result<Vec<PathBuf>, Error> {
    let (globs, types) = filters(query, &files.workspace().path().join(root))?;
    Walk::new(files, control, query, follow, &globs, &types)
        .from(root)
        .map_err(|Problem(problem)| Error::Invalid(problem))
}

/// Walks the disk with several threads.
fn walk_disk(
    files: &FileState,
    control: &Control,
    query: &Query,
    root: &str,
    follow: bool,
) -> Result<Vec<PathBuf>, Error> {
    let workspace = files.workspace();
    // Nothing of what the walk opens is handed to the plugin: contents and sizes are read
    // beneath the workspace's handle, so a directory swapped for a link meanwhile gives nothing.
    let start = workspace.path().join(root);
    let found = Mutex::new(Vec::new());
    let count = AtomicUsize::new(0);
    let is_short = AtomicBool::new(false);
    let mut walker = walker(query, &start, follow)?;
    let rules = Rules::new(workspace);
    if query.ignore_files {
        rules.look_above(&start);
        let rules = rules.clone();
        walker.filter_entry(move |entry| rules.allow(entry));
    }
    if let Some(problem) = rules.problem() {
        return Err(Error::Invalid(problem));
    }
    walker.build_parallel().run(|| {
        let mut batch = Batch { paths: Vec::new(), found: &found };
        let (count, is_short, control) = (&count, &is_short, control);
        Box::new(move |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if lacks_descriptors(&error.to_string()) => {
                    is_short.store(true, Ordering::Relaxed);
                    return WalkState::Quit;
                }
                Err(_) => return WalkState::Continue,
            };
            if entry.path_is_symlink() && !follow {
                return WalkState::Skip;
            }
            let Some(path) = relative(workspace, &entry) else { return WalkState::Continue };
            // Where there are links on the way, it is not where its path says.
            let Some(place) = place(files, &path, follow).filter(|place| !is_own(place)) else {
                return WalkState::Skip;
            };
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && files.sight().allows(&place)
                && !is_too_large(query, &entry)
            {
                batch.paths.push(path);
                let count = count.fetch_add(1, Ordering::Relaxed);
                // Looking at the clock for every file would cost as much as listing it.
                if count > MAX_FILES || (count % 1024 == 0 && control.stop().is_some()) {
                    return WalkState::Quit;
                }
            }
            WalkState::Continue
        })
    });
    match rules.problem() {
        // What was found is not all.
        _ if is_short.into_inner() => Err(Error::Invalid(NO_DESCRIPTOR.to_owned())),
        Some(problem) => Err(Error::Invalid(problem)),
        None => Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// The globs and file types of a query whose walk starts at `start`.
fn filters(query: &Query, start: &Path) -> Result<(Override, Types), Error> {
    let invalid = |error: ignore::Error| Error::Invalid(error.to_string());
    for glob in query.globs.iter().chain(&query.exclude_globs) {
        check(glob)?;
    }
    let mut globs = OverrideBuilder::new(start);
    for glob in &query.globs {
        globs.add(&literal(glob)).map_err(invalid)?;
    }
    for glob in &query.exclude_globs {
        globs.add(&format!("!{}", literal(glob))).map_err(invalid)?;
    }
    let mut types = TypesBuilder::new();
    types.add_defaults();
    for name in &query.types {
        types.select(name);
    }
    Ok((globs.build().map_err(invalid)?, types.build().map_err(invalid)?))
}

fn walker(query: &Query, start: &Path, follow: bool) -> Result<WalkBuilder, Error> {
    let (globs, types) = filters(query, start)?;
    let mut walker = WalkBuilder::new(start);
    walker
        .standard_filters(false)
        .hidden(!query.hidden)
        .parents(query.ignore_files)
        .ignore(query.ignore_files)
        .git_ignore(query.ignore_files)
        .git_exclude(query.ignore_files)
        // A workspace means the same with and without its .git.
        .require_git(false)
        .follow_links(follow)
        .overrides(globs)
        .types(types)
        .threads(Workers::default_count());
    if query.ignore_files {
        walker.add_custom_ignore_filename(".rgignore");
    }
    Ok(walker)
}

/// Refuses a glob that would take too much to compile.
fn check(glob: &str) -> Result<(), Error> {
    if glob.len() > MAX_GLOB || nests_too_deeply(glob.as_bytes()) {
        return Err(Error::Invalid(format!(
            "a glob of {} bytes; at most {MAX_GLOB}, with at most {MAX_NESTING} times '{{'",
            glob.len()
        )));
    }
    Ok(())
}

/// Whether compiling a glob could take more stack than there is.
pub(super) fn nests_too_deeply(glob: &[u8]) -> bool {
    glob.iter().filter(|byte| **byte == b'{').count() > MAX_NESTING
}

/// A leading `!` is part of the glob here, not a negation.
fn literal(glob: &str) -> Cow<'_, str> {
    if glob.starts_with('!') { Cow::Owned(format!("\\{glob}")) } else { Cow::Borrowed(glob) }
}

/// The files that one thread found, handed over in one go.
struct Batch<'a> {
    paths: Vec<PathBuf>,
    found: &'a Mutex<Vec<PathBuf>>,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.paths);
    }
}

fn relative(workspace: &Workspace, entry: &DirEntry) -> Option<PathBuf> {
    entry.path().strip_prefix(workspace.path()).ok().map(Path::to_owned)
}

/// The place that a path of the walk stands for; none for one that leaves the workspace.
fn place<'a>(files: &FileState, path: &'a Path, follow: bool) -> Option<Cow<'a, str>> {
    if !follow || path.as_os_str().is_empty() {
        return Some(path.to_string_lossy());
    }
    files.tree().resolve("", path.to_str()?, true).ok().map(|place| Cow::Owned(place.into()))
}

fn is_too_large(query: &Query, entry: &DirEntry) -> bool {
    query
        .max_file_size
        .is_some_and(|most| entry.metadata().is_ok_and(|metadata| metadata.len() > most))
}

fn root_error(query: &Query, error: &io::Error) -> Error {
    match error.kind() {
        _ if lacks_descriptors(&error.to_string()) => Error::Invalid(NO_DESCRIPTOR.to_owned()),
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            Error::Denied(error.to_string())
        }
        io::ErrorKind::PermissionDenied => {
            Error::Denied(format!("permission denied: {}", query.root))
        }
        _ => Error::NotFound(format!("path not found: {}", query.root)),
    }
}
