//! The branch of a working tree, git's locks, and the logs of references.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, OFlags};

use super::place::{Place, read};
use super::{Result, at, changed, invalid, is_id};
use crate::disk;

/// The file that names the branch.
pub(super) const HEAD: &str = "HEAD";

/// The largest file of one reference, in bytes.
const MAX_REF_BYTES: u64 = 4096;

/// The largest list of packed references, in bytes.
const MAX_PACKED_BYTES: u64 = 64 << 20;

/// The directory of the logs of references.
const LOGS: &str = "logs";

/// The branch of a working tree.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Branch {
    /// The full name: `refs/heads/NAME`.
    pub(super) name: String,
    /// Its latest commit; `None` before the first one.
    pub(super) tip: Option<String>,
}

impl Branch {
    /// Reads which branch is checked out.
    pub(super) fn current(place: &Place) -> Result<Self> {
        let head = read(&place.own, HEAD, MAX_REF_BYTES)?;
        let head = head.ok_or_else(|| invalid("the repository has no HEAD"))?;
        if is_id(head.trim_ascii()) {
            return Err(invalid(
                "HEAD is detached: no branch is checked out; check one out with git first",
            ));
        }
        let name = head.strip_prefix(b"ref:").and_then(|name| str::from_utf8(name).ok());
        let name = name.map(str::trim).filter(|name| is_branch(name));
        let name = name.ok_or_else(|| invalid("HEAD does not name a branch (refs/heads/...)"))?;
        let tip = match loose(place, name)? {
            Some(tip) => Some(tip),
            None => packed(place, name)?,
        };
        Ok(Self { name: name.to_owned(), tip })
    }
}

/// Reads a reference with a file of its own. A directory is left of branches that are gone.
fn loose(place: &Place, name: &str) -> Result<Option<String>> {
    let found = disk::look(&place.common, name);
    match found.map_err(at(name))? {
        Some(stat) if disk::file_type(&stat) != FileType::Directory => {}
        _ => return Ok(None),
    }
    let Some(bytes) = read(&place.common, name, MAX_REF_BYTES)? else { return Ok(None) };
    let tip = bytes.trim_ascii_end();
    if !is_id(tip) {
        return Err(invalid(format!("{name} is not the id of a commit")));
    }
    Ok(Some(String::from_utf8_lossy(tip).into_owned()))
}

fn packed(place: &Place, name: &str) -> Result<Option<String>> {
    let list = read(&place.common, "packed-refs", MAX_PACKED_BYTES)?.unwrap_or_default();
    let found = list.split(|byte| *byte == b'\n').find_map(|line| {
        let (tip, rest) = line.split_at_checked(40)?;
        (is_id(tip) && rest.strip_prefix(b" ")? == name.as_bytes()).then_some(tip)
    });
    Ok(found.map(|tip| String::from_utf8_lossy(tip).into_owned()))
}

/// Whether a name is that of a branch, by the rules of git-check-ref-format(1).
fn is_branch(name: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let is_special = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    name.strip_prefix("refs/heads/").is_some_and(|short| short.split('/').all(is_part))
        && !name.contains(is_special)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
}

/// A lock of git's: the file `NAME.lock`, which is removed when this is dropped.
pub(super) struct Lock {
    directory: OwnedFd,
    target: String,
    /// The name of the lock.
    pub(super) name: String,
    pub(super) file: File,
    is_held: bool,
}

impl Lock {
    /// Locks a file of a directory.
    pub(super) fn take(directory: &OwnedFd, target: &str) -> Result<Self> {
        let name = format!("{target}.lock");
        let file = disk::create(directory, &name).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => changed(format!(
                "another git is running, or one has crashed: {name} exists in the repository"
            )),
            _ => at(&name)(error),
        })?;
        let lock = |directory| Self {
            directory,
            target: target.to_owned(),
            name: name.clone(),
            file,
            is_held: true,
        };
        Ok(lock(directory.try_clone().map_err(at(&name))?))
    }

    /// Locks a branch. An empty directory with its name is removed, as git does.
    pub(super) fn of_branch(place: &Place, branch: &Branch) -> Result<Self> {
        let (above, short) = disk::split(&branch.name);
        let directory = directories(&place.common, above).map_err(at(&branch.name))?;
        let lock = Self::take(&directory, short)?;
        let removed = match disk::look(&directory, short).map_err(at(&branch.name))? {
            Some(stat) if disk::file_type(&stat) == FileType::Directory => {
                disk::remove(&directory, short, AtFlags::REMOVEDIR)
            }
            _ => Ok(()),
        };
        removed.map_err(at(&branch.name))?;
        Ok(lock)
    }

    /// Replaces the locked file with the lock's content.
    pub(super) fn replace(&mut self) -> Result<()> {
        let renamed = disk::rename(&self.directory, &self.name, &self.directory, &self.target);
        renamed.map_err(at(&self.target))?;
        self.is_held = false;
        if let Err(error) = disk::sync(&self.directory) {
            tracing::warn!("'{}' may not be on the disk yet: {error}", self.target);
        }
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_held
            && let Err(error) = disk::remove(&self.directory, &self.name, AtFlags::empty())
        {
            tracing::warn!("the lock '{}' is left: {error}", self.name);
        }
    }
}

/// The logs of `HEAD` and of a branch, open for appending.
pub(super) struct Logs(Vec<File>);

impl Logs {
    /// Opens the logs; creates them unless the repository has none.
    pub(super) fn open(place: &Place, branch: &Branch) -> Result<Self> {
        let mut logs = Vec::new();
        for (root, name) in [(&place.own, HEAD), (&place.common, branch.name.as_str())] {
            let path = format!("{LOGS}/{name}");
            let log = log(root, &path, place.storage.has_logs).map_err(at(&path))?;
            logs.extend(log);
        }
        Ok(Self(logs))
    }

    /// Adds a line to each.
    pub(super) fn append(mut self, line: &str) -> Result<()> {
        for log in &mut self.0 {
            log.write_all(line.as_bytes()).map_err(at(LOGS))?;
        }
        Ok(())
    }
}

fn log(root: &OwnedFd, path: &str, create: bool) -> io::Result<Option<File>> {
    let open = || disk::open(root, path, OFlags::WRONLY | OFlags::APPEND);
    let opened = match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !create => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let (above, name) = disk::split(path);
            disk::create(directories(root, above)?, name).map(OwnedFd::from)
        }
        opened => opened,
    };
    let file = File::from(opened?);
    if file.metadata()?.is_file() {
        Ok(Some(file))
    } else {
        Err(io::Error::other("no regular file"))
    }
}

/// Opens a directory below another one, and creates what is missing of it.
pub(super) fn directories(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let mut directory = root.try_clone()?;
    for name in path.split('/') {
        let open = |directory: &OwnedFd| {
            disk::open(directory.as_fd(), name, OFlags::RDONLY | OFlags::DIRECTORY)
        };
        directory = match open(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match disk::create_directory(&directory, name, disk::DEFAULT_MODE) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                    _ => open(&directory),
                }
            }
            opened => opened,
        }?;
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::is_branch;

    #[test]
    fn names_of_branches_follow_the_rules_of_git() {
        for (name, wanted) in [
            ("refs/heads/main", true),
            ("refs/heads/feature/näme", true),
            ("refs/heads/a@b", true),
            ("refs/tags/v1", false),
            ("refs/heads/", false),
            ("refs/heads/../../config", false),
            ("refs/heads/a..b", false),
            ("refs/heads/a/.b", false),
            ("refs/heads/a.lock", false),
            ("refs/heads/a//b", false),
            ("refs/heads/a b", false),
            ("refs/heads/a\nb", false),
            ("refs/heads/a.", false),
            ("refs/heads/a@{1}", false),
        ] {
            assert_eq!(is_branch(name), wanted, "{name:?}");
        }
    }
}
