//! `cofferdam:host/changes`: whole files, all of the changes or none.
//!
//! Every path is decided and every new file is written beside its place and synced before the
//! first one changes; then each takes its place with one rename. What was there before keeps a
//! second name until the end, so that a failure on the way puts everything back. Surviving a
//! crash of the host in between is not claimed here.

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, OpenOptions, Permissions};
use wasmtime::Result;

use super::files::{Access, FileState, has_other_names};
use super::workspace::or_dot;
use crate::runtime::CallState;
use crate::runtime::wit::host::changes::{Change, Error, Host, Write};

/// Names of files that are not in their place yet, or not any more.
const TEMPORARY: &str = ".cofferdam-";

impl Host for CallState {
    fn apply(&mut self, changes: Vec<Change>) -> Result<std::result::Result<(), Error>> {
        let control = &self.control;
        Ok(apply(&self.files, changes, &|| control.stop().is_some()))
    }
}

/// Applies all of the changes, or none; none as well once `stopped` says that the call is over.
fn apply(
    files: &FileState,
    changes: Vec<Change>,
    stopped: &dyn Fn() -> bool,
) -> std::result::Result<(), Error> {
    let mut transaction = Transaction::new(files, stopped);
    let done = changes
        .into_iter()
        .try_for_each(|change| transaction.stage(change))
        .and_then(|()| transaction.commit());
    match done {
        Ok(()) => transaction.finish(),
        Err(_) => transaction.roll_back(),
    }
    done
}

/// One step of the commit, with everything that it needs prepared.
enum Step {
    /// A staged file takes its place; what is there keeps the name `before`.
    Place { staged: String, path: String, before: Option<String> },
    /// The file at `path` gets the name `before`.
    Remove { path: String, before: String },
}

struct Transaction<'a> {
    files: &'a FileState,
    root: &'a Dir,
    stopped: &'a dyn Fn() -> bool,
    steps: Vec<Step>,
    done: usize,
    touched: HashSet<String>,
    staged: Vec<String>,
    directories: Vec<String>,
}

impl<'a> Transaction<'a> {
    fn new(files: &'a FileState, stopped: &'a dyn Fn() -> bool) -> Self {
        Self {
            files,
            root: files.workspace().root(),
            stopped,
            steps: Vec::new(),
            done: 0,
            touched: HashSet::new(),
            staged: Vec::new(),
            directories: Vec::new(),
        }
    }

    /// Checks one change and prepares its steps. Nothing that anybody looks for changes yet.
    fn stage(&mut self, change: Change) -> std::result::Result<(), Error> {
        self.go_on()?;
        match change {
            Change::Write(write) => self.stage_write(&write),
            Change::Remove(path) => {
                let place = self.place(&path)?;
                self.existing(&place, &path)?.ok_or_else(|| not_found(&path))?;
                let before = temporary(&place);
                self.steps.push(Step::Remove { path: place, before });
                Ok(())
            }
            Change::Rename(rename) => {
                let source = self.place(&rename.source)?;
                let target = self.place(&rename.target)?;
                self.existing(&source, &rename.source)?.ok_or_else(|| not_found(&rename.source))?;
                let before = self.existing(&target, &rename.target)?.map(|_| temporary(&target));
                self.create_parents(&target).map_err(|error| failure(&rename.target, &error))?;
                self.steps.push(Step::Place { staged: source, path: target, before });
                Ok(())
            }
        }
    }

    fn stage_write(&mut self, write: &Write) -> std::result::Result<(), Error> {
        let path = self.place(&write.path)?;
        let existing = self.existing(&path, &write.path)?;
        if existing.is_some() && write.create_new {
            return Err(Error::AlreadyExists(format!("{} exists already", write.path)));
        }
        let like = match &write.like {
            Some(like) => Some(self.permissions_of(like)?),
            None => existing.as_ref().map(Metadata::permissions),
        };
        let before = existing.map(|_| temporary(&path));
        self.create_parents(&path)
            .and_then(|()| self.stage_file(path, like, before, write))
            .map_err(|error| failure(&write.path, &error))
    }

    /// Where a path of the plugin's really is, which no other change may touch.
    fn place(&mut self, path: &str) -> std::result::Result<String, Error> {
        let place = self.locate(path)?;
        if !self.touched.insert(place.clone()) {
            return Err(Error::Unsupported(format!("{path} is changed twice in one go")));
        }
        Ok(place)
    }

    /// Where a path of the plugin's really is. A missing parent is fine: it will be created.
    fn locate(&self, path: &str) -> std::result::Result<String, Error> {
        let located = match self.files.locate("", path, true, Access::Change) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.locate_new(path),
            located => located,
        };
        let place = located.map_err(|error| failure(path, &error))?;
        if place.is_empty() {
            return Err(Error::Unsupported(format!("{path} is the workspace itself")));
        }
        Ok(place)
    }

    /// As [`FileState::locate`], for a path whose last directories don't exist: the deepest
    /// existing one is located, the rest is taken by its names.
    fn locate_new(&self, path: &str) -> io::Result<String> {
        let mut existing = Path::new(path);
        let base = loop {
            existing = existing.parent().unwrap_or(Path::new(""));
            let text = existing.to_str().unwrap_or_default();
            match self.files.workspace().resolve("", text, true) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !text.is_empty() => {}
                resolved => break resolved?,
            }
        };
        let rest = Path::new(path).strip_prefix(existing).map_err(io::Error::other)?;
        let rest: Vec<&str> =
            rest.iter().filter_map(|name| name.to_str()).filter(|name| *name != ".").collect();
        if rest.contains(&"..") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let rest = rest.join("/");
        let place = if base.is_empty() { rest } else { format!("{base}/{rest}") };
        self.files.allow(path, &place, Access::Change)?;
        Ok(place)
    }

    /// The file that is at `place`, if there is one that may be changed.
    fn existing(&self, place: &str, path: &str) -> std::result::Result<Option<Metadata>, Error> {
        let unsupported = |what: &str| Err(Error::Unsupported(format!("{path} is {what}")));
        match self.root.symlink_metadata(place) {
            Ok(metadata) if metadata.is_dir() => unsupported("a directory, not a file"),
            Ok(metadata) if !metadata.is_file() => unsupported("no regular file"),
            Ok(metadata) if has_other_names(&metadata) => unsupported(
                "a file with several hard links; changing it would change a file elsewhere",
            ),
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failure(path, &error)),
        }
    }

    /// The permissions of a file that the call may read.
    fn permissions_of(&self, path: &str) -> std::result::Result<Permissions, Error> {
        let place = self.files.locate("", path, true, Access::Read);
        let metadata = place.and_then(|place| self.root.metadata(place));
        metadata.map(|metadata| metadata.permissions()).map_err(|error| failure(path, &error))
    }

    fn create_parents(&mut self, place: &str) -> io::Result<()> {
        for (end, _) in place.match_indices('/') {
            let directory = &place[..end];
            match self.root.create_dir(directory) {
                Ok(()) => self.directories.push(directory.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes a new file beside `path`, with the permissions of `like` where there is one.
    fn stage_file(
        &mut self,
        path: String,
        like: Option<Permissions>,
        before: Option<String>,
        write: &Write,
    ) -> io::Result<()> {
        let staged = temporary(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let mut file = self.root.open_with(&staged, &options)?;
        self.staged.push(staged.clone());
        file.write_all(&write.contents)?;
        let permissions = match like {
            Some(like) => like,
            None => file.metadata()?.permissions(),
        };
        file.set_permissions(with_executable(permissions, write.executable))?;
        file.sync_all()?;
        self.steps.push(Step::Place { staged, path, before });
        Ok(())
    }

    /// Whether the call may still change something: after its end, nothing may happen any more.
    fn go_on(&self) -> std::result::Result<(), Error> {
        if (self.stopped)() {
            Err(Error::Failed("the call was stopped".to_owned()))
        } else {
            Ok(())
        }
    }

    fn commit(&mut self) -> std::result::Result<(), Error> {
        for step in &self.steps {
            self.go_on()?;
            let (Step::Place { path, .. } | Step::Remove { path, .. }) = step;
            self.take(step).map_err(|error| failure(path, &error))?;
            self.done += 1;
        }
        let mut parents: Vec<&Path> =
            self.touched.iter().filter_map(|path| Path::new(path).parent()).collect();
        parents.sort_unstable();
        parents.dedup();
        for parent in parents {
            let synced = self.root.open(or_dot(parent)).and_then(|directory| directory.sync_all());
            // A removed directory, or a file system that can't sync one.
            drop(synced);
        }
        Ok(())
    }

    fn take(&self, step: &Step) -> io::Result<()> {
        match step {
            Step::Place { staged, path, before } => {
                if let Some(before) = before {
                    self.root.hard_link(path, self.root, before)?;
                }
                self.root.rename(staged, self.root, path)
            }
            Step::Remove { path, before } => self.root.rename(path, self.root, before),
        }
    }

    /// Drops what was kept to be put back.
    fn finish(self) {
        for step in &self.steps {
            if let Step::Place { before: Some(before), .. } | Step::Remove { before, .. } = step {
                self.remove(before);
            }
        }
    }

    /// Puts back what was there, the last change first.
    fn roll_back(self) {
        for step in self.steps[..self.done].iter().rev() {
            let undone = match step {
                Step::Place { staged, path, before } => {
                    self.root.rename(path, self.root, staged).and_then(|()| {
                        before
                            .as_ref()
                            .map_or(Ok(()), |before| self.root.rename(before, self.root, path))
                    })
                }
                Step::Remove { path, before } => self.root.rename(before, self.root, path),
            };
            if let Err(error) = undone {
                tracing::error!("a change could not be put back: {error}");
            }
        }
        if let Some(Step::Place { before: Some(before), .. }) = self.steps.get(self.done) {
            self.remove(before);
        }
        self.staged.iter().for_each(|staged| self.remove(staged));
        for directory in self.directories.iter().rev() {
            // Not empty: somebody else uses it by now.
            let _ = self.root.remove_dir(directory);
        }
    }

    fn remove(&self, path: &str) {
        match self.root.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{path} could not be removed: {error}");
            }
            _ => {}
        }
    }
}

/// A name beside `path` that nobody uses.
fn temporary(path: &str) -> String {
    let directory =
        path.rsplit_once('/').map_or(String::new(), |(directory, _)| format!("{directory}/"));
    format!("{directory}{TEMPORARY}{}", uuid::Uuid::now_v7().simple())
}

#[cfg(unix)]
fn with_executable(permissions: Permissions, executable: Option<bool>) -> Permissions {
    use cap_std::fs::PermissionsExt as _;
    let mode = permissions.mode();
    Permissions::from_mode(match executable {
        None => mode,
        Some(false) => mode & !0o111,
        // Whoever may read it may run it.
        Some(true) => mode | (mode & 0o444) >> 2,
    })
}

fn not_found(path: &str) -> Error {
    Error::NotFound(format!("file not found: {path}"))
}

fn failure(path: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => not_found(path),
        io::ErrorKind::PermissionDenied => Error::Denied(match error.raw_os_error() {
            Some(_) => format!("permission denied: {path}"),
            None => format!("permission denied: {error}"),
        }),
        io::ErrorKind::NotADirectory => {
            Error::Unsupported(format!("{path}: a part of the path is a file, not a directory"))
        }
        _ => Error::Failed(format!("{path}: {error}")),
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        clippy::expect_used,
        clippy::unwrap_used,
        reason = "tests"
    )]
    use super::*;
    use crate::capability::Workspace;
    use crate::policy::{Capabilities, Files, Scope};
    use crate::runtime::wit::host::changes::Rename;
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::sync::Arc;

    fn write(path: &str, contents: &str) -> Change {
        Change::Write(Write {
            path: path.into(),
            contents: contents.into(),
            like: None,
            executable: None,
            create_new: false,
        })
    }
    fn rename(source: &str, target: &str) -> Change {
        Change::Rename(Rename { source: source.into(), target: target.into() })
    }

    fn apply(files: &FileState, changes: Vec<Change>) -> std::result::Result<(), Error> {
        super::apply(files, changes, &|| false)
    }

    fn tree(root: &Path) -> BTreeMap<String, (String, u32)> {
        walk(root, root).into_iter().collect()
    }
    fn walk(root: &Path, directory: &Path) -> Vec<(String, (String, u32))> {
        let mut files = Vec::new();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if metadata.is_dir() {
                files.push((name, (String::new(), 0)));
                files.extend(walk(root, &path));
            } else {
                let text = fs::read_to_string(&path).unwrap_or_default();
                files.push((name, (text, metadata.mode() & 0o777)));
            }
        }
        files
    }

    fn fixture() -> (tempfile::TempDir, FileState) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("a"), "A").unwrap();
        fs::write(root.join("d/b"), "B").unwrap();
        fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o750)).unwrap();
        fs::write(root.join("twin"), "T").unwrap();
        fs::hard_link(root.join("twin"), root.join("twin2")).unwrap();
        symlink("d/b", root.join("link")).unwrap();
        symlink("/tmp", root.join("out")).unwrap();
        let workspace = Arc::new(Workspace::open(root).unwrap());
        let capabilities = Capabilities { files: Files::Write, scan: false };
        (directory, FileState::new(workspace, capabilities, Scope::default()))
    }

    #[test]
    fn all_changes_are_made_and_modes_are_kept() {
        let (directory, files) = fixture();
        let executable = Change::Write(Write {
            path: "d/run".into(),
            contents: "R".into(),
            like: None,
            executable: Some(true),
            create_new: true,
        });
        let moved = vec![
            Change::Remove("d/b".into()),
            Change::Write(Write {
                path: "d/moved".into(),
                contents: "M".into(),
                like: Some("a".into()),
                executable: None,
                create_new: true,
            }),
        ];
        apply(&files, vec![write("a", "A2"), write("x/y/z", "Z"), write("link", "B2"), executable])
            .unwrap();
        assert_eq!(tree(directory.path())["d/b"].0, "B2");
        apply(&files, moved).unwrap();
        apply(&files, vec![rename("a", "e/a"), Change::Remove("d/run".into())]).unwrap();
        let found = tree(directory.path());
        assert_eq!(found["e/a"], ("A2".to_owned(), 0o750));
        assert_eq!(found["x/y/z"].0, "Z");
        assert_eq!(found["d/moved"], ("M".to_owned(), 0o750));
        assert!(!found.contains_key("d/b"));
        assert!(fs::symlink_metadata(directory.path().join("link")).unwrap().is_symlink());
        assert!(!found.contains_key("a") && !found.contains_key("d/run"));
        assert!(!found.keys().any(|name| name.contains(TEMPORARY)), "{found:?}");
    }

    #[test]
    fn one_refusal_leaves_everything_as_it_was() {
        let (directory, files) = fixture();
        let before = tree(directory.path());
        let new = Change::Write(Write {
            path: "a".into(),
            contents: vec![],
            like: None,
            executable: None,
            create_new: true,
        });
        for (bad, wanted) in [
            (new, "AlreadyExists"),
            (Change::Remove("none".into()), "NotFound"),
            (rename("none", "x"), "NotFound"),
            (write("../x", ""), "Denied"),
            (write("/etc/x", ""), "Denied"),
            (write("out/x", ""), "Denied"),
            (write(".git/config", ""), "Denied"),
            (write("new/.git/config", ""), "Denied"),
            (write("d/../.cofferdam/x", ""), "Denied"),
            (write("cofferdam.toml", ""), "Denied"),
            (rename("a", ".git/hooks/pre-commit"), "Denied"),
            (write("twin", ""), "Unsupported"),
            (write("d", ""), "Unsupported"),
            (write("a/x", ""), "Unsupported"),
            (Change::Remove("d".into()), "Unsupported"),
            (write("d/b", "twice"), "Unsupported"),
            (write("", ""), "Unsupported"),
            (write("a\0", ""), "Failed"),
        ] {
            let shown = format!("{bad:?}");
            let changes = vec![write("fresh/file", "F"), write("d/b", "changed"), bad];
            let error = apply(&files, changes).expect_err(&shown);
            assert!(format!("{error:?}").contains(wanted), "{shown}: {error:?}");
            assert_eq!(tree(directory.path()), before, "{shown}");
        }
    }

    #[test]
    fn a_failure_half_way_puts_everything_back() {
        let (directory, files) = fixture();
        let before = tree(directory.path());
        let mut transaction = Transaction::new(&files, &|| false);
        for change in [write("a", "A2"), Change::Remove("d/b".into()), rename("a2", "c")] {
            if let Change::Rename(_) = &change {
                fs::write(directory.path().join("a2"), "moving").unwrap();
            }
            transaction.stage(change).unwrap();
        }
        fs::remove_file(directory.path().join("a2")).unwrap();
        assert!(transaction.commit().is_err());
        assert_eq!(transaction.done, 2);
        transaction.roll_back();
        assert_eq!(tree(directory.path()), before);
    }

    #[test]
    fn a_scope_bounds_changes() {
        let (directory, files) = fixture();
        let scope = Scope::new(&["d".to_owned()]).unwrap();
        let files = FileState::new(
            Arc::clone(files.workspace()),
            Capabilities { files: Files::Write, scan: false },
            scope,
        );
        apply(&files, vec![write("d/new/x", "X")]).unwrap();
        for path in ["a", "e/new", "out/x"] {
            assert!(
                matches!(apply(&files, vec![write(path, "")]), Err(Error::Denied(_))),
                "{path}"
            );
        }
        assert_eq!(tree(directory.path())["a"].0, "A");
    }
}
