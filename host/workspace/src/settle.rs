//! Bringing staged files to the disk, and what the history needs of them.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::OFlags;

use super::CommitError;
use super::disk::{self, Spot};
use super::manifest::{Change, Copy, Image, Kind, Placed};

/// A text of up to this size goes into the manifest, in bytes: a file less to make.
const SMALL: u64 = 4 << 10;

/// How much text goes into one manifest, in bytes as it is written there: more goes into copies, so
/// that a manifest can be read, independent of what was changed.
const TEXTS: usize = 4 << 20;

/// A file of at least this size is read while the disk writes it, in bytes.
const LARGE: u64 = 256 << 10;

/// How much of two files is compared at a time, in bytes.
const PIECE: usize = 64 << 10;

/// How many files are synced at a time: the file system writes its log once for all of them.
const SYNCS: usize = 8;

/// Brings the staged files to the disk and notes what they hold for the history.
pub(super) fn settle(
    disk: &OwnedFd,
    stage: &OwnedFd,
    changes: &mut [Change],
) -> Result<(), CommitError> {
    let room = Room(AtomicUsize::new(TEXTS));
    let settle = |change: &mut Change| {
        let Change { path, before, after: Some(after) } = change else { return Ok(()) };
        let before = || {
            let before = before.as_ref().filter(|before| before.kind == Kind::File)?;
            let file = File::from(disk::open(disk, path, OFlags::RDONLY).ok()?);
            before.is(&rustix::fs::fstat(&file).ok()?).then_some((file, before.size))
        };
        settle_image(stage, before, after, &room)
            .map_err(|source| CommitError::Io { place: path.clone(), source })
    };
    start(stage, changes);
    if let [change] = changes {
        return settle(change);
    }
    let next = AtomicUsize::new(0);
    let slots: Vec<_> = changes.iter_mut().map(std::sync::Mutex::new).collect();
    let work = || {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            settle(&mut slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SYNCS.min(slots.len())).map(|_| scope.spawn(work)).collect();
        let mut results = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        results.try_for_each(|result| {
            let own = || CommitError::Io { place: super::OWN.to_owned(), source: no_thread() };
            result.unwrap_or_else(|_| Err(own()))
        })
    })
}

/// Has the disk begin with the staged files, unless there is only a small one.
fn start(stage: &OwnedFd, changes: &[Change]) {
    let placed = changes.iter().filter_map(|change| change.after.as_ref());
    for image in placed.filter(|image| image.kind == Kind::File) {
        if changes.len() > 1 || image.size >= LARGE {
            // Whether it works is seen when the file is synced.
            let _ = disk::open(stage, &image.name, OFlags::RDONLY).map(disk::start_sync);
        }
    }
}

/// Room for texts in a manifest.
struct Room(AtomicUsize);

impl Room {
    /// Takes room for a text, if there is enough.
    fn takes(&self, text: &str) -> bool {
        let mut length = Length(0);
        serde_json::to_writer(&mut length, text).is_ok()
            && self
                .0
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(length.0)
                })
                .is_ok()
    }
}

/// Counts what is written.
struct Length(usize);

impl io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn no_thread() -> io::Error {
    io::Error::other("no thread")
}

/// Settles what a commit places. `before` opens the file that is there, with its size, if it is
/// still what was seen.
fn settle_image(
    stage: &OwnedFd,
    before: impl Fn() -> Option<(File, u64)>,
    image: &mut Image,
    room: &Room,
) -> io::Result<()> {
    match image.kind {
        Kind::File => {
            let file: File = disk::open(stage, &image.name, disk::UNSEEN)?.into();
            image.placed =
                told(before, image.size, &file)?.filter(|placed| room.takes(placed.text()));
            if image.placed.is_none() {
                let mut copy = disk::create(stage, &image.copy_name())?;
                io::copy(&mut &file, &mut copy)?;
                image.copy = Some(Copy::of(&rustix::fs::fstat(&copy)?));
            }
            disk::sync(&file)
        }
        Kind::Directory => disk::sync(disk::open(stage, &image.name, OFlags::RDONLY)?),
        Kind::Link => {
            let target = Spot::of(stage, &image.name)?.read_link()?;
            let target = String::from_utf8(target);
            image.placed = Some(Placed::Text(target.map_err(|_| io::ErrorKind::InvalidData)?));
            Ok(())
        }
        Kind::Other => Ok(()),
    }
}

/// What a file of a size holds, if that can be told in a few words: its text where it is small, what
/// differs from the file before where that is little.
fn told(
    before: impl Fn() -> Option<(File, u64)>,
    size: u64,
    file: &File,
) -> io::Result<Option<Placed>> {
    if size > SMALL {
        // Where that is being changed, there will be no commit.
        return Ok(
            before().and_then(|(before, old)| edit((&before, old), (file, size)).ok().flatten())
        );
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8(bytes).ok().map(Placed::Text))
}

/// What was replaced in a file, if that is one [`SMALL`] text. Each file comes with its size.
fn edit(before: (&File, u64), after: (&File, u64)) -> io::Result<Option<Placed>> {
    let shorter = before.1.min(after.1);
    let at = shared(
        shorter,
        |done, [left, right]| {
            before.0.read_exact_at(left, done)?;
            after.0.read_exact_at(right, done)
        },
        |left, right| left.iter().zip(right).take_while(|(one, other)| one == other).count(),
    )?;
    let rest = shared(
        shorter - at,
        |done, [left, right]| {
            let back = done + left.len() as u64;
            before.0.read_exact_at(left, before.1 - back)?;
            after.0.read_exact_at(right, after.1 - back)
        },
        |left, right| {
            left.iter()
                .rev()
                .zip(right.iter().rev())
                .take_while(|(one, other)| one == other)
                .count()
        },
    )?;
    let (until, end) = (before.1 - rest, after.1 - rest);
    if end - at > SMALL {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(end - at).unwrap_or(0)];
    after.0.read_exact_at(&mut bytes, at)?;
    // Where characters are cut in two, a copy is kept.
    Ok(String::from_utf8(bytes).ok().map(|text| Placed::Edit { at, until, text }))
}

/// Counts bytes that two files share, up to `most`. `read` reads the next of both after that many,
/// `count` says how many of two pieces are the same before the first that are not.
fn shared(
    most: u64,
    read: impl Fn(u64, [&mut [u8]; 2]) -> io::Result<()>,
    count: impl Fn(&[u8], &[u8]) -> usize,
) -> io::Result<u64> {
    let (mut left, mut right) = (vec![0; PIECE], vec![0; PIECE]);
    let mut done = 0;
    while done < most {
        let length = usize::try_from(most - done).map_or(PIECE, |rest| rest.min(PIECE));
        let (left, right) = (&mut left[..length], &mut right[..length]);
        read(done, [left, right])?;
        if left != right {
            return Ok(done + count(left, right) as u64);
        }
        done += length as u64;
    }
    Ok(done)
}
