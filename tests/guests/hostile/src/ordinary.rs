//! Attempts through the standard library, with absolute paths: what an ordinary program does.

use std::fs;
use std::io;
use std::path::Path;

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};

use crate::Tried;

/// Makes one attempt; returns `None` for one that is not of this module.
pub fn attempt(what: &str, path: &str, target: &str) -> Option<Tried> {
    let done = |()| String::new();
    let tried = match what {
        "plain-read" => fs::read_to_string(path),
        "plain-list" => list(Path::new(path)),
        "plain-write" => fs::write(path, "hostile").map(done),
        "plain-rename" => fs::rename(path, target).map(done),
        "plain-copy" => fs::copy(path, target).map(|size| size.to_string()),
        "plain-mkdir" => fs::create_dir_all(path).map(done),
        "plain-unlink" => fs::remove_file(path).map(done),
        // Writes a file and reads it back.
        "plain-keep" => fs::write(path, target).and_then(|()| fs::read_to_string(path)),
        "plain-then-bare" => fs::write("/tmp/x", path).and_then(|()| bare(target)),
        "file-to-directory" => file_to_directory(Path::new(path)).map(done),
        "directory-to-file" => directory_to_file(Path::new(path)).map(done),
        _ => return None,
    };
    Some(tried.map_err(|error| error.kind().to_string()))
}

/// Lists the names in a directory, one per line.
fn list(directory: &Path) -> io::Result<String> {
    let names = fs::read_dir(directory)?;
    let names: io::Result<Vec<String>> =
        names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect();
    let mut names = names?;
    names.sort();
    Ok(names.join("\n"))
}

/// Reads a file of the call's own `/tmp` through the bare interface.
fn bare(name: &str) -> io::Result<String> {
    let mut directories = get_directories().into_iter();
    let tmp = directories.find(|(_, name)| name == "/tmp").ok_or(io::ErrorKind::NotFound)?.0;
    let flags = (OpenFlags::empty(), DescriptorFlags::READ);
    tmp.open_at(PathFlags::empty(), name, flags.0, flags.1)
        .and_then(|file| file.read(1 << 10, 0))
        .map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| io::Error::other(error.name()))
}

fn file_to_directory(path: &Path) -> io::Result<()> {
    let contents = fs::read(path)?;
    fs::remove_file(path)?;
    fs::create_dir(path)?;
    fs::write(path.join("below"), contents)
}

fn directory_to_file(path: &Path) -> io::Result<()> {
    let contents = fs::read(path.join("below"))?;
    fs::remove_dir_all(path)?;
    fs::write(path, contents)
}
