//! Fills the disk in several ways.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use serde::Deserialize;

use crate::Tried;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flood {
    how: How,
    /// The absolute path of the directory to fill.
    directory: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    /// Writes the same few bytes of a file repeatedly.
    Over,
    /// Creates many small files.
    Files,
    /// Writes one large file.
    Large,
    /// Sets a large size of a file.
    Size,
    /// Writes a few bytes far behind the end of a file.
    Far,
    /// As `Far`, through a stream.
    FarStream,
    Append,
    /// Creates empty files.
    Empty,
    Directories,
    Links,
    /// Links one file to many names.
    Names,
    /// Nests directories, each through the handle of the one above; then renames all of them.
    Nested,
}

/// The bytes of one write.
const PIECE: usize = 64 << 10;

/// How often an operation is repeated that the host should refuse much earlier.
const TIMES: u32 = 1_000_000;

const TEBIBYTE: u64 = 1 << 40;

/// Continues until the host returns an error, and returns that error.
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

/// Writes through the bare interface, which takes an offset with each write.
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

/// Returns the depth, the error of the host at that depth, and the result of the renaming.
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

/// The bare interface's handle of one of the call's directories.
fn directory_handle(directory: &Path) -> io::Result<wasip2::filesystem::types::Descriptor> {
    let given = wasip2::filesystem::preopens::get_directories();
    given
        .into_iter()
        .find(|(_, name)| Path::new(name) == directory)
        .map(|(handle, _)| handle)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}
