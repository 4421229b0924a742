//! Syncing staged files to the disk, and recording their content for the history.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

use cofferdam_core::policy::OWN;
use rustix::fs::OFlags;

use crate::commit::{Change, CopyIdentity, Image, Kind, Placed};
use crate::disk::{self, Spot};
use crate::error::CommitError;

/// The longest text that becomes part of a commit's file, in bytes: this saves a copy.
const MAX_TEXT_BYTES: u64 = 4 << 10;

/// The size of all texts in one commit's file, in bytes of JSON. Other texts are copied, so that
/// the file can be read regardless of what was changed.
const MAX_TEXTS_BYTES: usize = 4 << 20;

/// The least size of a file of which the disk starts writing before it is read, in bytes.
const EARLY_SYNC_BYTES: u64 = 256 << 10;

/// How much of two files is compared at a time, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// How many files are synced at a time: the file system writes its log once for all of them.
const THREADS: usize = 8;

/// Syncs the staged files to the disk, and records their content for the history.
pub(crate) fn sync_staged(
    disk: &OwnedFd,
    stage: &OwnedFd,
    changes: &mut [Change],
) -> Result<(), CommitError> {
    let budget = TextBudget(AtomicUsize::new(MAX_TEXTS_BYTES));
    let sync = |change: &mut Change| {
        let Change { path, before, after: Some(after) } = change else { return Ok(()) };
        let before = || {
            let before = before.as_ref().filter(|before| before.kind == Kind::File)?;
            let file = File::from(disk::open(disk, path, OFlags::RDONLY).ok()?);
            before.is(&rustix::fs::fstat(&file).ok()?).then_some((file, before.size))
        };
        sync_image(stage, before, after, &budget)
            .map_err(|source| CommitError::Io { place: path.clone(), source })
    };
    start_sync(stage, changes);
    if let [change] = changes {
        return sync(change);
    }
    let next = AtomicUsize::new(0);
    let slots: Vec<_> = changes.iter_mut().map(Mutex::new).collect();
    let work = || {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            sync(&mut slot.lock().unwrap_or_else(PoisonError::into_inner))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.min(slots.len())).map(|_| scope.spawn(work)).collect();
        let mut results = threads.into_iter().map(ScopedJoinHandle::join);
        results.try_for_each(|result| {
            result.unwrap_or_else(|_| {
                let source = io::Error::other("a thread panicked");
                Err(CommitError::Io { place: OWN.to_owned(), source })
            })
        })
    })
}

/// Starts writing the staged files to the disk, unless there is only a small one.
fn start_sync(stage: &OwnedFd, changes: &[Change]) {
    let placed = changes.iter().filter_map(|change| change.after.as_ref());
    for image in placed.filter(|image| image.kind == Kind::File) {
        if changes.len() > 1 || image.size >= EARLY_SYNC_BYTES {
            // Errors are reported when the file is synced.
            let _ = disk::open(stage, &image.name, OFlags::RDONLY).map(disk::start_sync);
        }
    }
}

/// The bytes left for texts in a commit's file.
struct TextBudget(AtomicUsize);

impl TextBudget {
    /// Reserves space for a text; returns false if too little is left.
    fn reserve(&self, text: &str) -> bool {
        let mut length = ByteCounter(0);
        if serde_json::to_writer(&mut length, text).is_err() {
            return false;
        }
        let take = |left: usize| left.checked_sub(length.0);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Counts the bytes written to it.
struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Syncs the new file `image`. `before` opens the old file and returns its size, if it is
/// unchanged.
fn sync_image(
    stage: &OwnedFd,
    before: impl Fn() -> Option<(File, u64)>,
    image: &mut Image,
    budget: &TextBudget,
) -> io::Result<()> {
    match image.kind {
        Kind::File => {
            let file: File = disk::open(stage, &image.name, disk::READ_NO_ATIME)?.into();
            image.placed = short_content(before, image.size, &file)?
                .filter(|placed| budget.reserve(placed.text()));
            if image.placed.is_none() {
                let mut copy = disk::create(stage, &image.copy_name())?;
                io::copy(&mut &file, &mut copy)?;
                image.copy = Some(CopyIdentity::of(&rustix::fs::fstat(&copy)?));
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

/// Returns the content of a file of `size` bytes in short form, if there is one: as its text, or as
/// the difference from the old file.
fn short_content(
    before: impl Fn() -> Option<(File, u64)>,
    size: u64,
    file: &File,
) -> io::Result<Option<Placed>> {
    if size > MAX_TEXT_BYTES {
        // An error means that the old file is being changed; then the commit fails anyway.
        return Ok(before()
            .and_then(|(before, old)| find_edit((&before, old), (file, size)).ok().flatten()));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(String::from_utf8(bytes).ok().map(Placed::Text))
}

/// Returns the difference between two files, if it is one text of up to [`MAX_TEXT_BYTES`]. Each
/// file comes with its size.
fn find_edit(before: (&File, u64), after: (&File, u64)) -> io::Result<Option<Placed>> {
    let shorter = before.1.min(after.1);
    let at = common_bytes(
        shorter,
        |done, [left, right]| {
            before.0.read_exact_at(left, done)?;
            after.0.read_exact_at(right, done)
        },
        |left, right| left.iter().zip(right).take_while(|(one, other)| one == other).count(),
    )?;
    let rest = common_bytes(
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
    if end - at > MAX_TEXT_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(end - at).unwrap_or(0)];
    after.0.read_exact_at(&mut bytes, at)?;
    // If the difference begins or ends within a character, the file is copied instead.
    Ok(String::from_utf8(bytes).ok().map(|text| Placed::Edit { at, until, text }))
}

/// Counts the bytes that two files have in common, up to `most`. `read` fills a chunk of each file,
/// after the given number of bytes; `count` returns how many bytes of two chunks are equal before
/// the first that differ.
fn common_bytes(
    most: u64,
    read: impl Fn(u64, [&mut [u8]; 2]) -> io::Result<()>,
    count: impl Fn(&[u8], &[u8]) -> usize,
) -> io::Result<u64> {
    let (mut left, mut right) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut done = 0;
    while done < most {
        let length = usize::try_from(most - done).map_or(CHUNK_BYTES, |rest| rest.min(CHUNK_BYTES));
        let (left, right) = (&mut left[..length], &mut right[..length]);
        read(done, [left, right])?;
        if left != right {
            return Ok(done + count(left, right) as u64);
        }
        done += length as u64;
    }
    Ok(done)
}
