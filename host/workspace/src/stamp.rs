//! What a file was when somebody looked at it, so that a change by somebody else is seen.

use std::io::{self, BufRead as _, BufReader, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use rustix::fs::{FileType, Stat};
use sha2::{Digest as _, Sha256};

use super::disk;
use super::manifest::{Image, Kind};

/// A file, directory or link at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    image: Image,
    /// When its inode last changed, in nanoseconds since the epoch.
    changed: i64,
    /// The content of a file that was too young for its times to tell two states apart.
    content: Option<[u8; 32]>,
}

impl Stamp {
    /// The stamp of what was looked at; `read` opens its content, should that be needed.
    pub(super) fn of<R: Read>(
        stat: &Stat,
        read: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<Self> {
        let changed = disk::changed(stat);
        let is_file = disk::file_type(stat) == FileType::RegularFile;
        let is_young = is_file && changed >= tick();
        let content = if is_young { Some(digest(read()?)?) } else { None };
        Ok(Self { image: Image::of(stat, String::new()), changed, content })
    }

    /// Whether it was changed at a time or later, in nanoseconds since the epoch. What is in a
    /// directory has stamps of its own.
    pub(super) fn is_since(&self, time: i64) -> bool {
        self.image.kind != Kind::Directory && self.changed >= time
    }

    /// Whether what is looked at now is still what it was.
    pub(super) fn holds<R: Read>(
        &self,
        stat: &Stat,
        read: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<bool> {
        // What is in a directory has stamps of its own.
        let is_untouched =
            self.image.kind == Kind::Directory || self.changed == disk::changed(stat);
        if !self.image.is(stat) || !is_untouched {
            return Ok(false);
        }
        match &self.content {
            Some(content) => Ok(digest(read()?)? == *content),
            None => Ok(true),
        }
    }
}

/// SHA-256 of everything that can be read.
pub(super) fn digest(mut content: impl Read) -> io::Result<[u8; 32]> {
    let mut digest = Sha256::new();
    let mut buffer = [0; 16 << 10];
    loop {
        match content.read(&mut buffer)? {
            0 => return Ok(digest.finalize().into()),
            length => digest.update(&buffer[..length]),
        }
    }
}

/// Whether two readers yield the same.
pub(super) fn is_same(left: impl Read, right: impl Read) -> io::Result<bool> {
    const PIECE: usize = 64 << 10;
    let (mut left, mut right) =
        (BufReader::with_capacity(PIECE, left), BufReader::with_capacity(PIECE, right));
    loop {
        let (one, other) = (left.fill_buf()?, right.fill_buf()?);
        let length = one.len().min(other.len());
        if length == 0 {
            return Ok(one.len() == other.len());
        }
        if one[..length] != other[..length] {
            return Ok(false);
        }
        left.consume(length);
        right.consume(length);
    }
}

/// The time that commits are dated with.
pub(super) fn present() -> Timestamp {
    #[cfg(test)]
    return Timestamp::now() + clock::shift();
    #[cfg(not(test))]
    Timestamp::now()
}

/// A new UUID of version 7.
pub(super) fn new_id() -> String {
    let present = present();
    let seconds = u64::try_from(present.as_second()).unwrap_or(0);
    let rest = u32::try_from(present.subsec_nanosecond()).unwrap_or(0);
    let time = uuid::Timestamp::from_unix(uuid::NoContext, seconds, rest);
    uuid::Uuid::new_v7(time).to_string()
}

/// The time in nanoseconds since the epoch.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// What the kernel's clock for file times shows. It ticks every 1 to 10 ms; whatever changes
/// after the next tick gets another time.
#[cfg(target_os = "linux")]
fn tick() -> i64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    disk::nanoseconds(time.tv_sec, time.tv_nsec)
}

/// Waits until the kernel's clock for file times has passed the present, and answers what it
/// shows then: whatever was changed before has an earlier time, and whatever changes from now on
/// has not.
#[cfg(target_os = "linux")]
pub(super) fn next_tick() -> i64 {
    const MOMENT: Duration = Duration::from_micros(200);
    /// Longer than any tick, should somebody set the clock back.
    const MOMENTS: usize = 500;
    // The time of a change can be finer than the ticks, and so later than the latest one.
    let present = now();
    for _ in 0..MOMENTS {
        std::thread::sleep(MOMENT);
        if tick() > present {
            break;
        }
    }
    tick()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn next_tick() -> i64 {
    std::thread::sleep(Duration::from_millis(10));
    now()
}

#[cfg(not(target_os = "linux"))]
fn tick() -> i64 {
    const TICK: i64 = 10_000_000;
    now() - TICK
}

/// Sets the clock that commits are dated with.
#[cfg(test)]
pub(super) mod clock {
    use std::cell::Cell;

    use jiff::SignedDuration;

    thread_local! {
        static SHIFT: Cell<i64> = const { Cell::new(0) };
    }

    pub(super) fn shift() -> SignedDuration {
        SignedDuration::from_secs(SHIFT.get())
    }

    /// From now on, on this thread, it is so much later than it is, in seconds.
    pub(crate) fn set_shift(seconds: i64) {
        SHIFT.set(seconds);
    }
}
