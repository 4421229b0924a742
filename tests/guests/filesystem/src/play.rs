//! Runs steps through the bare `wasi:filesystem` interface.

use std::collections::HashMap;

use wasip2::clocks::wall_clock::Datetime;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{
    Descriptor, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntryStream, ErrorCode,
    NewTimestamp, OpenFlags, PathFlags, filesystem_error_code,
};
use wasip2::io::streams::StreamError;

use crate::step::{Flags, Place, Step, Time};

/// The result of a step, or the host's error.
type Played = Result<String, ErrorCode>;

/// The call's directories and the open handles.
pub struct Player {
    roots: HashMap<String, Descriptor>,
    handles: HashMap<String, Descriptor>,
    listings: HashMap<String, DirectoryEntryStream>,
}

/// The directory beneath which paths are by default.
const ROOT: &str = "/workspace";

impl Player {
    pub fn new() -> Self {
        let roots = get_directories().into_iter().map(|(root, name)| (name, root));
        Self { roots: roots.collect(), handles: HashMap::new(), listings: HashMap::new() }
    }

    /// Runs one step.
    #[expect(clippy::too_many_lines, reason = "an arm for each kind of step")]
    pub fn play(&mut self, step: &Step) -> String {
        let done = |()| "ok".to_owned();
        let played = match step {
            Step::Open { handle, place, flags } => self.open(handle, place, *flags),
            Step::Close { handle } => {
                self.handles.remove(handle).map(drop).map(done).ok_or(UNOPENED)
            }
            Step::Read { handle, offset, length } => self
                .handle(handle)
                .and_then(|file| file.read(*length, *offset))
                .map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned()),
            Step::Write { handle, offset, text } => self
                .handle(handle)
                .and_then(|file| file.write(text.as_bytes(), *offset))
                .map(|length| length.to_string()),
            Step::Append { handle, text } => {
                self.handle(handle).and_then(|file| append(file, text)).map(done)
            }
            Step::Size { handle, length } => {
                self.handle(handle).and_then(|file| file.set_size(*length)).map(done)
            }
            Step::StatHandle { handle } => {
                self.handle(handle).and_then(Descriptor::stat).map(|stat| describe(&stat))
            }
            Step::Stat { place, follow } => self
                .base(place)
                .and_then(|base| base.stat_at(following(*follow), &place.path))
                .map(|stat| describe(&stat)),
            Step::List { place } => self.names(place).map(|names| names.join(",")),
            Step::Count { place } => self.names(place).map(|names| names.len().to_string()),
            Step::Fill { place, count } => self.fill(place, *count).map(done),
            Step::Inodes { place } => self.inodes(place).map(|count| count.to_string()),
            Step::Entries { handle, directory } => self
                .handle(directory)
                .and_then(Descriptor::read_directory)
                .map(|listing| drop(self.listings.insert(handle.clone(), listing)))
                .map(done),
            Step::Drain { handle } => self
                .listings
                .get(handle)
                .ok_or(UNOPENED)
                .and_then(rest)
                .map(|names| names.join(",")),
            Step::MakeDirectory { place } => {
                self.base(place).and_then(|base| base.create_directory_at(&place.path)).map(done)
            }
            Step::RemoveDirectory { place } => {
                self.base(place).and_then(|base| base.remove_directory_at(&place.path)).map(done)
            }
            Step::Unlink { place } => {
                self.base(place).and_then(|base| base.unlink_file_at(&place.path)).map(done)
            }
            Step::ReadLink { place } => {
                self.base(place).and_then(|base| base.readlink_at(&place.path))
            }
            Step::Rename { from, to } => self.rename(from, to).map(done),
            Step::Link { from, to } => self.link(from, to).map(done),
            Step::Symlink { target, place } => {
                self.base(place).and_then(|base| base.symlink_at(target, &place.path)).map(done)
            }
            Step::Times { place } => self
                .base(place)
                .and_then(|base| base.stat_at(PathFlags::empty(), &place.path))
                .map(|stat| times(&stat)),
            Step::SetTimes { place, accessed, modified } => self
                .base(place)
                .and_then(|base| {
                    let flags = PathFlags::empty();
                    base.set_times_at(
                        flags,
                        &place.path,
                        timestamp(*accessed),
                        timestamp(*modified),
                    )
                })
                .map(done),
            Step::SetTimesOfHandle { handle, accessed, modified } => self
                .handle(handle)
                .and_then(|file| file.set_times(timestamp(*accessed), timestamp(*modified)))
                .map(done),
            Step::Same { left, right } => self.same(left, right).map(|same| same.to_string()),
            Step::SameHash { left, right } => {
                self.same_hash(left, right).map(|same| same.to_string())
            }
        };
        played.unwrap_or_else(|error| error.name().to_owned())
    }

    fn handle(&self, name: &str) -> Result<&Descriptor, ErrorCode> {
        self.handles.get(name).ok_or(UNOPENED)
    }

    fn base(&self, place: &Place) -> Result<&Descriptor, ErrorCode> {
        let name = place.base.as_deref().unwrap_or(ROOT);
        self.handles.get(name).or_else(|| self.roots.get(name)).ok_or(UNOPENED)
    }

    fn open(&mut self, handle: &str, place: &Place, flags: Flags) -> Played {
        let mut opening = OpenFlags::empty();
        for (is_set, flag) in [
            (flags.create, OpenFlags::CREATE),
            (flags.exclusive, OpenFlags::EXCLUSIVE),
            (flags.truncate, OpenFlags::TRUNCATE),
            (flags.directory, OpenFlags::DIRECTORY),
        ] {
            if is_set {
                opening |= flag;
            }
        }
        let mut mode = DescriptorFlags::empty();
        for (is_set, flag) in
            [(flags.read, DescriptorFlags::READ), (flags.write, DescriptorFlags::WRITE)]
        {
            if is_set {
                mode |= flag;
            }
        }
        let follow = following(!flags.no_follow);
        let opened = self.base(place)?.open_at(follow, &place.path, opening, mode)?;
        self.handles.insert(handle.to_owned(), opened);
        Ok("ok".to_owned())
    }

    fn names(&self, place: &Place) -> Result<Vec<String>, ErrorCode> {
        let flags = (OpenFlags::DIRECTORY, DescriptorFlags::READ);
        let directory =
            self.base(place)?.open_at(following(true), &place.path, flags.0, flags.1)?;
        rest(&directory.read_directory()?)
    }

    /// Asks for the hash of each entry right after its name, as C libraries do, and again at the
    /// end.
    fn inodes(&self, place: &Place) -> Result<usize, ErrorCode> {
        let flags = (OpenFlags::DIRECTORY, DescriptorFlags::READ);
        let directory =
            self.base(place)?.open_at(following(true), &place.path, flags.0, flags.1)?;
        let listing = directory.read_directory()?;
        let mut count = 0;
        while let Some(entry) = listing.read_directory_entry()? {
            let hash = || {
                let hash = directory.metadata_hash_at(PathFlags::empty(), &entry.name)?;
                Ok((hash.lower, hash.upper))
            };
            count += usize::from(hash()? == hash()?);
        }
        Ok(count)
    }

    fn fill(&self, place: &Place, count: u64) -> Result<(), ErrorCode> {
        let base = self.base(place)?;
        for number in 0..count {
            let path = format!("{}/{number}", place.path);
            base.open_at(following(true), &path, OpenFlags::CREATE, DescriptorFlags::WRITE)?;
        }
        Ok(())
    }

    fn rename(&self, from: &Place, to: &Place) -> Result<(), ErrorCode> {
        self.base(from)?.rename_at(&from.path, self.base(to)?, &to.path)
    }

    fn link(&self, from: &Place, to: &Place) -> Result<(), ErrorCode> {
        self.base(from)?.link_at(PathFlags::empty(), &from.path, self.base(to)?, &to.path)
    }

    fn same(&self, left: &str, right: &str) -> Result<bool, ErrorCode> {
        Ok(self.handle(left)?.is_same_object(self.handle(right)?))
    }

    fn same_hash(&self, left: &Place, right: &Place) -> Result<bool, ErrorCode> {
        let hash = |place: &Place| {
            let hash = self.base(place)?.metadata_hash_at(following(true), &place.path)?;
            Ok((hash.lower, hash.upper))
        };
        Ok(hash(left)? == hash(right)?)
    }
}

/// For a handle that the script has not opened, or whose opening failed.
const UNOPENED: ErrorCode = ErrorCode::BadDescriptor;

fn following(follow: bool) -> PathFlags {
    if follow { PathFlags::SYMLINK_FOLLOW } else { PathFlags::empty() }
}

/// The remaining names of a listing, sorted, without the host's own directory.
fn rest(listing: &DirectoryEntryStream) -> Result<Vec<String>, ErrorCode> {
    let mut names = Vec::new();
    while let Some(entry) = listing.read_directory_entry()? {
        if entry.name != ".cofferdam" {
            names.push(format!("{}:{}", entry.name, kind(entry.type_)));
        }
    }
    names.sort();
    Ok(names)
}

fn append(file: &Descriptor, text: &str) -> Result<(), ErrorCode> {
    let stream = file.append_via_stream()?;
    stream.blocking_write_and_flush(text.as_bytes()).map_err(|error| match error {
        StreamError::LastOperationFailed(error) => {
            filesystem_error_code(&error).unwrap_or(ErrorCode::Io)
        }
        StreamError::Closed => UNOPENED,
    })
}

fn kind(kind: DescriptorType) -> &'static str {
    match kind {
        DescriptorType::RegularFile => "file",
        DescriptorType::Directory => "directory",
        DescriptorType::SymbolicLink => "link",
        _ => "other",
    }
}

/// The size of a directory depends on the file system, so it is left out.
fn describe(stat: &DescriptorStat) -> String {
    match stat.type_ {
        DescriptorType::Directory => "directory".to_owned(),
        type_ => format!("{} {}", kind(type_), stat.size),
    }
}

fn times(stat: &DescriptorStat) -> String {
    let seconds = |time: Option<Datetime>| time.map_or(0, |time| time.seconds);
    format!("{} {}", seconds(stat.data_access_timestamp), seconds(stat.data_modification_timestamp))
}

fn timestamp(time: Time) -> NewTimestamp {
    match time {
        Time::Same => NewTimestamp::NoChange,
        Time::Now => NewTimestamp::Now,
        Time::Seconds(seconds) => NewTimestamp::Timestamp(Datetime { seconds, nanoseconds: 0 }),
    }
}
