//! Filling the disk, one way or the other.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::Deserialize;

use crate::Tried;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    how: How,
    /// Where: an absolute path of a directory.
    directory: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// A few bytes at a time, each time the same ones.
    Over,
    /// Many small files.
    Files,
    /// One large file.
    Large,
    /// A file that is said to be large.
    Size,
    /// A few bytes far behind the end.
    Far,
    /// The same through a stream.
    FarStream,
    Append,
    /// Files with nothing in them.
    Empty,
    Directories,
    Links,
    /// One file, again and again under another name.
    Names,
    /// A directory in a directory in a directory, each through the handle of the one above; then
    /// all of them get another name.
    Nested,
}

/// What one write holds, in bytes.
const PIECE: usize = 64 << 10;

/// How often something is done that ought to be stopped long before.
const TIMES: u32 = 1_000_000;

const TEBIBYTE: u64 = 1 << 40;

/// Goes on until the host says no, and answers what it said.
pub fn run(flood: &Flood) -> Tried {
    let directory = Path::new(&flood.directory);
    let file = directory.join("flood");
    let piece = vec![b'x'; PIECE];
    let ended = match flood.how {
        How::Over => File::create(&file).and_then(|mut file| {
            again(|_| {
                file.rewind()?;
                file.write_all(&piece)
            })
        }),
        How::Files => again(|number| fs::write(directory.join(number.to_string()), &piece)),
        How::Large => File::create(&file).and_then(|mut file| again(|_| file.write_all(&piece))),
        How::Size => File::create(&file).and_then(|file| file.set_len(TEBIBYTE)),
        How::Far => write_far(directory),
        How::FarStream => File::create(&file).and_then(|mut file| {
            file.seek(SeekFrom::Start(TEBIBYTE))?;
            file.write_all(b"x")
        }),
        How::Append => OpenOptions::new()
            .create(true)
            .append(true)
            .open(&file)
            .and_then(|mut file| again(|_| file.write_all(&piece))),
        How::Empty => again(|number| File::create(directory.join(number.to_string())).map(drop)),
        How::Directories => again(|number| fs::create_dir(directory.join(number.to_string()))),
        How::Links => again(|number| link(directory, number)),
        How::Names => File::create(&file).and_then(|_| {
            again(|number| {
                fs::write(&file, b"x")?;
                fs::rename(&file, directory.join(number.to_string()))
            })
        }),
        How::Nested => return nest(directory).map_err(|error| error.to_string()),
    };
    ended.map(|()| "everything was written".to_owned()).map_err(|error| error.to_string())
}

fn again(mut act: impl FnMut(u32) -> io::Result<()>) -> io::Result<()> {
    (0..TIMES).try_for_each(&mut act)
}

/// Through the bare interface, which takes an offset with each write.
fn write_far(directory: &Path) -> io::Result<()> {
    use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
    let root = directory_handle(directory)?;
    root.open_at(PathFlags::empty(), "flood", OpenFlags::CREATE, DescriptorFlags::WRITE)
        .and_then(|file| file.write(b"x", TEBIBYTE))
        .map(drop)
        .map_err(|error| io::Error::other(error.name()))
}

fn link(directory: &Path, number: u32) -> io::Result<()> {
    directory_handle(directory)?
        .symlink_at("target", &number.to_string())
        .map_err(|error| io::Error::other(error.name()))
}

/// Answers how deep it came, what the host said then, and what to the new name.
fn nest(directory: &Path) -> io::Result<String> {
    use wasip2::filesystem::types::{DescriptorFlags, OpenFlags, PathFlags};
    let top = directory_handle(directory)?;
    let (mut inner, mut depth) = (None, 0);
    let ended = again(|_| {
        let above = inner.as_ref().unwrap_or(&top);
        let (open, read) = (OpenFlags::DIRECTORY, DescriptorFlags::READ);
        let made = above
            .create_directory_at("dd")
            .and_then(|()| above.open_at(PathFlags::empty(), "dd", open, read))
            .map_err(|error| io::Error::other(error.name()))?;
        (inner, depth) = (Some(made), depth + 1);
        Ok(())
    });
    let ended = ended.map_or_else(|error| error.to_string(), |()| String::new());
    let renamed = top.rename_at("dd", &top, "ee").map_err(|error| error.name().to_owned());
    Ok(format!("{depth} {ended} {renamed:?}"))
}

/// The bare interface's handle of one of the directories that the call was given.
fn directory_handle(directory: &Path) -> io::Result<wasip2::filesystem::types::Descriptor> {
    let given = wasip2::filesystem::preopens::get_directories();
    given
        .into_iter()
        .find(|(_, name)| Path::new(name) == directory)
        .map(|(handle, _)| handle)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}
