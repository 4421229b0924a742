//! Lists the files that a query selects, with ripgrep's crate for ignore rules (`ignore`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use ignore::{DirEntry, WalkBuilder, WalkState};
use rustix::fs::FileType;

use super::merged::{Problem, Walk};
use super::rules::{MAX_FILES, Rules};
use super::tree::Found;
use crate::call::Control;
use crate::capability::bindings::cofferdam::host::scan::{Error, Query};
use crate::capability::cores;
use crate::capability::files::{Access, FileState, PathAt};
use cofferdam_core::outcome::{NO_DESCRIPTOR, lacks_descriptors};
use cofferdam_core::policy::is_own;
use cofferdam_workspace::Workspace;
use cofferdam_workspace::ignore_files::{MAX_ALTERNATIVES, nests_too_deeply};

/// The maximum length of a glob, in bytes.
const MAX_GLOB_BYTES: usize = 4096;

/// Lists the files that a query selects, in path order.
pub(super) fn list(
    files: &FileState,
    control: &Control,
    query: &Query,
) -> Result<Vec<Found>, Error> {
    let root = if query.root.is_empty() { "." } else { &query.root };
    let (root, kind) = files
        .at(files.tree(), PathAt::new(root, true), Access::Look, |tree, place| {
            Ok(FileType::from_raw_mode(tree.look(place, true)?.st_mode))
        })
        .map_err(|error| root_error(query, &error))?;
    if !matches!(kind, FileType::Directory | FileType::RegularFile) {
        return Err(Error::NotFound(format!("{} is no directory and no regular file", query.root)));
    }
    // A link may lead out of the scope, so links are not followed if there is one.
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

/// Walks the disk and the staged changes as one tree, in one thread.
fn walk_merged(
    files: &FileState,
    control: &Control,
    query: &Query,
    root: &str,
    follow: bool,
) -> Result<Vec<PathBuf>, Error> {
    let filters = filters(query, &files.workspace().path().join(root))?;
    Walk::new(files, control, query, follow, &filters)
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
    // Files opened by the walk are not passed to the plugin: contents and sizes are read beneath
    // the workspace's handle, so replacing a directory by a link reveals nothing.
    let start = workspace.path().join(root);
    let found = Mutex::new(Vec::new());
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
    let (count, is_short) = (AtomicUsize::new(0), AtomicBool::new(false));
    let walk = DiskWalk { files, control, query, follow, count, is_short };
    walker.build_parallel().run(|| {
        let mut batch = Batch { paths: Vec::new(), places: HashMap::new(), found: &found };
        let walk = &walk;
        Box::new(move |entry| walk.visit(entry, &mut batch))
    });
    match rules.problem() {
        // The listing is not complete.
        _ if walk.is_short.into_inner() => Err(Error::Invalid(NO_DESCRIPTOR.to_owned())),
        Some(problem) => Err(Error::Invalid(problem)),
        None => Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

/// The state of a walk of the disk, shared by its threads.
struct DiskWalk<'a> {
    files: &'a FileState,
    control: &'a Control,
    query: &'a Query,
    follow: bool,
    /// How many files were found so far.
    count: AtomicUsize,
    /// Whether the host ran out of file descriptors.
    is_short: AtomicBool,
}

impl DiskWalk<'_> {
    /// Adds an entry to `batch` if the query selects it.
    fn visit(&self, entry: Result<DirEntry, ignore::Error>, batch: &mut Batch<'_>) -> WalkState {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if lacks_descriptors(&error.to_string()) => {
                self.is_short.store(true, Ordering::Relaxed);
                return WalkState::Quit;
            }
            Err(_) => return WalkState::Continue,
        };
        if entry.path_is_symlink() && !self.follow {
            return WalkState::Skip;
        }
        let Some(path) = relative(self.files.workspace(), &entry) else {
            return WalkState::Continue;
        };
        // If there are links in the path, the place differs from it.
        let place = self.place(&path, entry.path_is_symlink(), &mut batch.places);
        let Some(place) = place.filter(|place| !is_own(place)) else {
            return WalkState::Skip;
        };
        if entry.file_type().is_some_and(|kind| kind.is_file())
            && self.files.sight().allows(&place)
            && !is_too_large(self.query, &entry)
        {
            batch.paths.push(path);
            let count = self.count.fetch_add(1, Ordering::Relaxed);
            // Checking the deadline for each file would cost as much as listing it.
            if count > MAX_FILES || (count.is_multiple_of(1024) && self.control.stop().is_some()) {
                return WalkState::Quit;
            }
        }
        WalkState::Continue
    }

    /// The resolved place of a path of the walk; `None` if it leaves the workspace. `places` has those
    /// of the directories seen so far.
    fn place<'a>(
        &self,
        path: &'a Path,
        is_link: bool,
        places: &mut HashMap<PathBuf, Option<String>>,
    ) -> Option<Cow<'a, str>> {
        if !self.follow || path.as_os_str().is_empty() {
            return Some(path.to_string_lossy());
        }
        let resolve = |path: &Path| -> Option<String> {
            self.files.tree().resolve("", path.to_str()?, true).ok().map(Into::into)
        };
        let (above, name) = (path.parent()?, path.file_name()?.to_str()?);
        if is_link {
            return resolve(path).map(Cow::Owned);
        }
        if above.as_os_str().is_empty() {
            return Some(Cow::Borrowed(name));
        }
        if !places.contains_key(above) {
            places.insert(above.to_owned(), resolve(above));
        }
        let above = places.get(above)?.as_deref()?;
        Some(Cow::Owned(if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }))
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
        // Ignore files apply with and without a .git directory.
        .require_git(false)
        .follow_links(follow)
        .overrides(globs)
        .types(types)
        .threads(cores());
    if query.ignore_files {
        walker.add_custom_ignore_filename(".rgignore");
    }
    Ok(walker)
}

/// Refuses a glob whose compilation would use too much stack.
fn check(glob: &str) -> Result<(), Error> {
    if glob.len() > MAX_GLOB_BYTES || nests_too_deeply(glob.as_bytes()) {
        return Err(Error::Invalid(format!(
            "a glob of {} bytes; at most {MAX_GLOB_BYTES}, with at most {MAX_ALTERNATIVES} times '{{'",
            glob.len()
        )));
    }
    Ok(())
}

/// A leading `!` is part of the glob here, not a negation.
fn literal(glob: &str) -> Cow<'_, str> {
    if glob.starts_with('!') { Cow::Owned(format!("\\{glob}")) } else { Cow::Borrowed(glob) }
}

/// The files that one thread found. Dropping it adds them to the result.
struct Batch<'a> {
    paths: Vec<PathBuf>,
    /// The resolved places of the directories that it saw; `None`: outside of the workspace.
    places: HashMap<PathBuf, Option<String>>,
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
