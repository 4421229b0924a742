//! Attempts through the bare `wasi:filesystem` interface, where paths reach the host unchanged.

use cofferdam_sdk::bindings::cofferdam::host::files::{Error, is_executable, set_executable};
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, NewTimestamp, OpenFlags, PathFlags,
    filesystem_error_code,
};
use wasip2::io::streams::StreamError;

use crate::Tried;

/// Makes one attempt; returns `None` for one that is not of this module.
pub fn attempt(what: &str, path: &str, target: &str) -> Option<Tried> {
    let workspace = || workspace().ok_or(ErrorCode::NoEntry);
    let done = |()| String::new();
    let tried = match what {
        "read" => read(path),
        "read-at-once" => {
            open(path, OpenFlags::empty(), DescriptorFlags::READ).and_then(|file| contents(&file))
        }
        "open" => open(path, OpenFlags::empty(), DescriptorFlags::READ).map(|_| String::new()),
        "list" => list(path),
        "stat" => workspace()
            .and_then(|root| root.stat_at(FOLLOW, path))
            .map(|stat| stat.size.to_string()),
        "hash" => {
            workspace().and_then(|root| root.metadata_hash_at(FOLLOW, path)).map(|_| String::new())
        }
        "readlink" => workspace().and_then(|root| root.readlink_at(path)),
        "write" => write(path, OpenFlags::CREATE | OpenFlags::TRUNCATE),
        "overwrite" => write(path, OpenFlags::empty()),
        "create" => write(path, OpenFlags::CREATE | OpenFlags::EXCLUSIVE),
        "truncate" => {
            open(path, OpenFlags::TRUNCATE, DescriptorFlags::WRITE).map(|_| String::new())
        }
        // Writes through a handle that was opened for reading.
        "write-handle" => {
            handle(path).and_then(|file| file.write(b"hostile", 0)).map(|_| String::new())
        }
        "append-handle" => {
            handle(path).and_then(|file| file.append_via_stream()).map(|_| String::new())
        }
        "size-handle" => handle(path).and_then(|file| file.set_size(0)).map(done),
        "times-handle" => handle(path).and_then(|file| file.set_times(NOW, NOW)).map(done),
        "times" => workspace().and_then(|root| root.set_times_at(FOLLOW, path, NOW, NOW)).map(done),
        "mkdir" => workspace().and_then(|root| root.create_directory_at(path)).map(done),
        "rmdir" => workspace().and_then(|root| root.remove_directory_at(path)).map(done),
        "unlink" => workspace().and_then(|root| root.unlink_file_at(path)).map(done),
        "rename" => workspace().and_then(|root| root.rename_at(path, &root, target)).map(done),
        "link" => workspace()
            .and_then(|root| root.link_at(PathFlags::empty(), path, &root, target))
            .map(done),
        "symlink" => workspace().and_then(|root| root.symlink_at(path, target)).map(done),
        "link-here" => workspace().and_then(|root| root.symlink_at("inside.txt", path)).map(done),
        "append" => append(path),
        // Writes to two paths; the first one is allowed.
        "both" => write(target, OpenFlags::CREATE).and_then(|_| write(path, OpenFlags::CREATE)),
        "is-executable" => {
            return Some(is_executable(path).map(|yes| yes.to_string()).map_err(named));
        }
        "set-executable" => {
            return Some(set_executable(path, true).map(|()| String::new()).map_err(named));
        }
        "grow" => open(path, OpenFlags::CREATE, DescriptorFlags::WRITE)
            .and_then(|file| file.set_size(target.parse().unwrap_or(0)))
            .map(done),
        "stale-directory" => stale_directory(path, target),
        "directories" => Ok(get_directories().into_iter().map(|(_, name)| name).collect()),
        _ => return None,
    };
    Some(tried.map_err(|error| error.name().to_owned()))
}

/// The name of an error of the host's own interface.
fn named(error: Error) -> String {
    match error {
        Error::NotFound(_) => "no-entry",
        Error::Denied(_) => "not-permitted",
        Error::Failed(_) => "failed",
    }
    .to_owned()
}

const FOLLOW: PathFlags = PathFlags::SYMLINK_FOLLOW;
const NOW: NewTimestamp = NewTimestamp::Now;

/// How much is read at once, in bytes.
const READ: u64 = 1 << 20;

/// The descriptor of the workspace.
pub fn workspace() -> Option<Descriptor> {
    get_directories().into_iter().next().map(|(descriptor, _)| descriptor)
}

fn open(path: &str, create: OpenFlags, flags: DescriptorFlags) -> Result<Descriptor, ErrorCode> {
    workspace().ok_or(ErrorCode::NoEntry)?.open_at(FOLLOW, path, create, flags)
}

fn handle(path: &str) -> Result<Descriptor, ErrorCode> {
    open(path, OpenFlags::empty(), DescriptorFlags::READ)
}

fn contents(file: &Descriptor) -> Result<String, ErrorCode> {
    let (bytes, _) = file.read(READ, 0)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the start of a file.
pub fn read(path: &str) -> Result<String, ErrorCode> {
    contents(&handle(path)?)
}

/// Lists the names in a directory, one per line.
pub fn list(path: &str) -> Result<String, ErrorCode> {
    let directory = open(path, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
    let entries = directory.read_directory()?;
    let mut names = Vec::new();
    while let Some(entry) = entries.read_directory_entry()? {
        names.push(entry.name);
    }
    names.sort();
    Ok(names.join("\n"))
}

/// Writes to a file.
pub fn write(path: &str, create: OpenFlags) -> Result<String, ErrorCode> {
    let file = open(path, create, DescriptorFlags::WRITE)?;
    file.write(b"hostile", 0).map(|_| String::new())
}

/// Writes at the end of a file.
fn append(path: &str) -> Result<String, ErrorCode> {
    let file = open(path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
    let stream = file.append_via_stream()?;
    let written = stream.blocking_write_and_flush(b"hostile");
    written.map(|()| String::new()).map_err(|error| code(&error))
}

/// The error code of a failed stream.
pub fn code(error: &StreamError) -> ErrorCode {
    match error {
        StreamError::LastOperationFailed(error) => {
            filesystem_error_code(error).unwrap_or(ErrorCode::Io)
        }
        StreamError::Closed => ErrorCode::BadDescriptor,
    }
}

/// Opens a directory through a link, replaces the link by another directory, and uses the handle on
/// `below`, which then seems to be in the new directory.
fn stale_directory(link: &str, below: &str) -> Result<String, ErrorCode> {
    let root = workspace().ok_or(ErrorCode::NoEntry)?;
    let directory = root.open_at(FOLLOW, link, OpenFlags::DIRECTORY, DescriptorFlags::READ)?;
    root.unlink_file_at(link)?;
    root.create_directory_at(link)?;
    directory.set_times_at(PathFlags::empty(), below, NOW, NOW).map(|()| String::new())
}
