//! Which files a query means: walks the tree with ripgrep's own crate for ignore rules.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::rules::Rules;
use crate::capability::files::{Access, FileState};
use crate::capability::workspace::{Workspace, or_dot};
use crate::runtime::wit::host::scan::{Error, File, Query};
use crate::runtime::{Control, Workers};

/// How many files a listing may hold: about 200 MB of paths.
const MAX_FILES: usize = 1_000_000;

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

    /// Size and time, as they are now; none for a file that is not there (any more). While a
    /// tree changes, a listing may hold names from elsewhere: those are none of its files.
    pub(super) fn describe(&self, workspace: &Workspace) -> Option<File> {
        let metadata = workspace.root().metadata(&self.path).ok()?;
        let modified = metadata
            .modified()
            .ok()
            .and_then(|time| time.into_std().duration_since(UNIX_EPOCH).ok());
        Some(File {
            path: self.name().into_owned(),
            size: metadata.len(),
            modified_ms: modified
                .map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        })
    }
}

/// Lists the files that a query means, in path order.
pub(super) fn list(
    files: &FileState,
    control: &Control,
    query: &Query,
) -> Result<Vec<Found>, Error> {
    let workspace = files.workspace();
    let root = files
        .locate("", &query.root, true, Access::Look)
        .map_err(|error| root_error(query, &error))?;
    let metadata = workspace
        .root()
        .metadata(or_dot(Path::new(&root)))
        .map_err(|error| root_error(query, &error))?;
    if !metadata.is_dir() && !metadata.is_file() {
        return Err(Error::NotFound(format!("{} is no directory and no regular file", query.root)));
    }
    // Nothing of what the walk opens is handed to the plugin: contents and sizes are read
    // beneath the workspace's handle, so a directory swapped for a link meanwhile gives nothing.
    let start = workspace.path().join(&root);
    // A link may lead out of the scope: with one, links are not followed.
    let follow = query.follow_links && files.scope().is_everything();
    let found = Mutex::new(Vec::new());
    let count = AtomicUsize::new(0);
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
        let (count, control) = (&count, control);
        Box::new(move |entry| {
            let Ok(entry) = entry else { return WalkState::Continue };
            if entry.path_is_symlink() && !(follow && stays_inside(workspace, &entry)) {
                return WalkState::Skip;
            }
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                return WalkState::Continue;
            }
            if let Some(path) = relative(workspace, &entry)
                && files.scope().allows(&path.to_string_lossy())
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
    if let Some(problem) = rules.problem() {
        return Err(Error::Invalid(problem));
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    if found.len() > MAX_FILES {
        return Err(Error::Invalid(format!(
            "more than {MAX_FILES} files below '{}'; start deeper or use globs",
            query.root
        )));
    }
    found.sort_unstable_by(|left, right| left.as_os_str().cmp(right.as_os_str()));
    Ok(found.into_iter().map(|path| Found { path }).collect())
}

fn walker(query: &Query, start: &Path, follow: bool) -> Result<WalkBuilder, Error> {
    let invalid = |error: ignore::Error| Error::Invalid(error.to_string());
    for glob in query.globs.iter().chain(&query.exclude_globs) {
        check(glob)?;
    }
    let mut overrides = OverrideBuilder::new(start);
    for glob in &query.globs {
        overrides.add(&literal(glob)).map_err(invalid)?;
    }
    for glob in &query.exclude_globs {
        overrides.add(&format!("!{}", literal(glob))).map_err(invalid)?;
    }
    let mut types = TypesBuilder::new();
    types.add_defaults();
    for name in &query.types {
        types.select(name);
    }
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
        .overrides(overrides.build().map_err(invalid)?)
        .types(types.build().map_err(invalid)?)
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

/// A leading `!` is part of the glob here, and no negation.
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

fn stays_inside(workspace: &Workspace, entry: &DirEntry) -> bool {
    relative(workspace, entry).is_some_and(|path| workspace.root().metadata(path).is_ok())
}

fn is_too_large(query: &Query, entry: &DirEntry) -> bool {
    query
        .max_file_size
        .is_some_and(|most| entry.metadata().is_ok_and(|metadata| metadata.len() > most))
}

fn root_error(query: &Query, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            Error::Denied(error.to_string())
        }
        io::ErrorKind::PermissionDenied => {
            Error::Denied(format!("permission denied: {}", query.root))
        }
        _ => Error::NotFound(format!("path not found: {}", query.root)),
    }
}
