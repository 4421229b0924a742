//! Bringing staged files to the disk, and what the history needs of them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::OFlags;

use super::CommitError;
use super::disk::{self, Spot};
use super::manifest::{Change, Image, Kind};
use super::stamp::{digest, hex};

/// The text of a file up to this size goes into the manifest, in bytes: a file less to make.
const SMALL: u64 = 4 << 10;

/// A file of at least this size is read while it is synced, in bytes.
const LARGE: u64 = 256 << 10;

/// How many files are synced at a time: the file system writes its log once for all of them.
const SYNCS: usize = 8;

/// Brings the staged files to the disk, takes their digests and keeps a copy of each for the
/// history; both while the disk is at work.
pub(super) fn settle(stage: &OwnedFd, changes: &mut [Change]) -> Result<(), CommitError> {
    let mut images: Vec<(&str, &mut Image)> = changes
        .iter_mut()
        .filter_map(|change| Some((change.path.as_str(), change.after.as_mut()?)))
        .collect();
    let failed = |place: &str, source| CommitError::Io { place: place.to_owned(), source };
    if let [(place, image)] = &mut images[..] {
        return settle_image(stage, image).map_err(|source| failed(place, source));
    }
    let next = AtomicUsize::new(0);
    let slots: Vec<_> = images.iter_mut().map(std::sync::Mutex::new).collect();
    let work = || {
        while let Some(slot) = slots.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut slot = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (place, image) = &mut **slot;
            settle_image(stage, image).map_err(|source| failed(place, source))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..SYNCS.min(slots.len())).map(|_| scope.spawn(work)).collect();
        let mut results = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        results.try_for_each(|result| {
            result.unwrap_or_else(|_| Err(failed(super::OWN, io::Error::other("no thread"))))
        })
    })
}

fn settle_image(stage: &OwnedFd, image: &mut Image) -> io::Result<()> {
    match image.kind {
        Kind::File => {
            let mut file = disk::open(stage, &image.name, OFlags::RDONLY)?.into();
            if image.size < LARGE {
                disk::sync(&file)?;
                return record_file(stage, image, &mut file);
            }
            let syncing = file.try_clone()?;
            std::thread::scope(|scope| {
                let sync = scope.spawn(|| disk::sync(syncing));
                let recorded = record_file(stage, image, &mut file);
                let synced = sync.join().unwrap_or_else(|_| Err(io::Error::other("no thread")));
                synced.and(recorded)
            })
        }
        Kind::Directory => disk::sync(disk::open(stage, &image.name, OFlags::RDONLY)?),
        Kind::Link => {
            let target = Spot::of(stage, &image.name)?.read_link()?;
            image.digest = Some(hex(&digest(&target[..])?));
            Ok(())
        }
        Kind::Other => Ok(()),
    }
}

/// Takes a file's digest, and keeps its content.
fn record_file(stage: &OwnedFd, image: &mut Image, file: &mut File) -> io::Result<()> {
    let content = if image.size <= SMALL {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let content = digest(&bytes[..])?;
        match String::from_utf8(bytes) {
            Ok(text) => image.text = Some(text),
            Err(error) => {
                disk::create(stage, &image.copy_name())?.write_all(error.as_bytes())?;
            }
        }
        content
    } else {
        let mut copy = disk::create(stage, &image.copy_name())?;
        io::copy(file, &mut copy)?;
        file.rewind()?;
        digest(file)?
    };
    image.digest = Some(hex(&content));
    Ok(())
}
