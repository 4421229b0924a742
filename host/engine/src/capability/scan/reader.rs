//! Reads the files of a listing with several threads, and returns them in the order of the listing.
//! The threads may be ahead of the plugin by a limited number of runs of files.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::buffer::spare_capacity;

use super::tree::{Found, Tree};
use crate::call::Control;
use crate::capability::cores;

/// How many files a thread reads at a time. Most runs of source files fill a batch.
const FILES_PER_RUN: usize = 24;

/// How many runs a thread may be ahead of the plugin.
const MAX_RUNS_AHEAD: usize = 4;

/// The maximum size of files that are read ahead, in bytes. A larger file is read on demand, into a
/// batch of its own.
const LARGE_FILE_BYTES: usize = 4 << 20;

/// How much of a run is read ahead, in bytes; the rest is read on demand.
const MAX_RUN_BYTES: usize = 8 << 20;

/// The maximum size of files that are read at all, in bytes: files have to fit into a plugin's
/// memory.
const MAX_FILE_BYTES: usize = 64 << 20;

/// The smallest size of a batch, in bytes, except for the last one.
const MIN_BATCH_BYTES: usize = 4 << 10;

/// The smallest buffer of one read, in bytes.
const MIN_READ_BYTES: usize = 64 << 10;

/// A listing, and the threads that read its files once the plugin asks for contents.
pub struct Scanner {
    pub(super) files: Arc<Vec<Found>>,
    pub(super) reader: Option<Reader>,
    /// Whether each file was returned with its contents.
    pub(super) given: Vec<bool>,
}

/// Files with their contents.
#[derive(Default)]
pub(super) struct Batch {
    /// The files' indices in the listing.
    pub(super) ids: Vec<u32>,
    /// The end of each file in `data`, in bytes.
    pub(super) ends: Vec<u32>,
    /// The contents of all files.
    pub(super) data: Vec<u8>,
}

/// The threads that read a listing.
pub(super) struct Reader {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Remaining batches of the current run, the next one last.
    current: Vec<Piece>,
    next_run: usize,
}

struct Shared {
    tree: Tree,
    files: Arc<Vec<Found>>,
    batch: usize,
    state: Mutex<State>,
    changed: Condvar,
    unreadable: AtomicU32,
}

#[derive(Default)]
struct State {
    /// The next run that no thread has taken.
    untaken: usize,
    /// The run that the plugin waits for.
    wanted: usize,
    ready: BTreeMap<usize, Vec<Piece>>,
    stopped: bool,
}

/// Part of a run.
enum Piece {
    Files(Batch),
    Large(usize),
}

impl Shared {
    fn runs(&self) -> usize {
        self.files.len().div_ceil(FILES_PER_RUN)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads runs until none are left.
    fn work(&self, threads: usize) {
        loop {
            let run = {
                let mut state = self.lock();
                while !state.stopped
                    && state.untaken < self.runs()
                    && state.untaken >= state.wanted + threads * MAX_RUNS_AHEAD
                {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.stopped || state.untaken >= self.runs() {
                    return;
                }
                state.untaken += 1;
                state.untaken - 1
            };
            let pieces = self.read_run(run);
            let mut state = self.lock();
            state.ready.insert(run, pieces);
            if state.wanted == run {
                self.changed.notify_all();
            }
        }
    }

    fn read_run(&self, run: usize) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut batch = self.new_batch();
        let mut room = MAX_RUN_BYTES;
        for id in run * FILES_PER_RUN..(run * FILES_PER_RUN + FILES_PER_RUN).min(self.files.len()) {
            let start = batch.data.len();
            match self.read(id, LARGE_FILE_BYTES.min(room), &mut batch.data) {
                Ok(true) => {
                    room -= batch.data.len() - start;
                    batch.ids.push(id as u32);
                    batch.ends.push(batch.data.len() as u32);
                }
                Ok(false) => {
                    pieces.push(Piece::Files(std::mem::replace(&mut batch, self.new_batch())));
                    pieces.push(Piece::Large(id));
                }
                Err(_) => {
                    self.unreadable.fetch_add(1, Ordering::Relaxed);
                }
            }
            if batch.data.len() >= self.batch {
                pieces.push(Piece::Files(std::mem::replace(&mut batch, self.new_batch())));
            }
        }
        pieces.push(Piece::Files(batch));
        pieces.retain(|piece| !matches!(piece, Piece::Files(batch) if batch.ids.is_empty()));
        pieces.reverse();
        pieces
    }

    fn new_batch(&self) -> Batch {
        Batch {
            ids: Vec::new(),
            ends: Vec::new(),
            data: Vec::with_capacity(self.batch + MIN_READ_BYTES),
        }
    }

    fn read_large(&self, id: usize) -> Option<Batch> {
        let mut data = Vec::new();
        if let Ok(true) = self.read(id, MAX_FILE_BYTES, &mut data) {
            return Some(Batch { ids: vec![id as u32], ends: vec![data.len() as u32], data });
        }
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Appends a file to `data`. Returns false and appends nothing if it has more than `most`
    /// bytes.
    fn read(&self, id: usize, most: usize, data: &mut Vec<u8>) -> io::Result<bool> {
        let start = data.len();
        let read = self.read_into(id, most, data);
        if !matches!(read, Ok(true)) {
            data.truncate(start);
        }
        read
    }

    fn read_into(&self, id: usize, most: usize, data: &mut Vec<u8>) -> io::Result<bool> {
        let start = data.len();
        let file = self.tree.open(&self.files[id].path)?;
        loop {
            if data.capacity() - data.len() < MIN_READ_BYTES {
                data.reserve(MIN_READ_BYTES.max(data.len() - start));
            }
            let room = data.capacity() - data.len();
            let length = rustix::io::read(&file, spare_capacity(data))?;
            if data.len() - start > most {
                return Ok(false);
            }
            // A read of a regular file fills the buffer unless it reaches the end of the file.
            if length < room {
                return Ok(true);
            }
        }
    }
}

impl Reader {
    /// Starts reading. Batches hold about `batch` bytes.
    pub(super) fn start(tree: Tree, files: Arc<Vec<Found>>, batch: usize) -> Self {
        let shared = Arc::new(Shared {
            tree,
            files,
            batch: batch.clamp(MIN_BATCH_BYTES, LARGE_FILE_BYTES),
            state: Mutex::default(),
            changed: Condvar::new(),
            unreadable: AtomicU32::new(0),
        });
        let wanted = cores().min(shared.runs());
        let threads = (0..wanted)
            .map_while(|_| {
                let shared = Arc::clone(&shared);
                thread::Builder::new()
                    .name("cofferdam-scan".to_owned())
                    .spawn(move || shared.work(wanted))
                    .ok()
            })
            .collect();
        Self { shared, threads, current: Vec::new(), next_run: 0 }
    }

    /// The next batch; an empty one at the end, or when the call has to stop.
    pub(super) fn next(&mut self, control: &Control) -> Batch {
        loop {
            match self.current.pop() {
                Some(Piece::Files(batch)) => return batch,
                Some(Piece::Large(id)) => {
                    if let Some(batch) = self.shared.read_large(id) {
                        return batch;
                    }
                }
                None => match self.next_run(control) {
                    Some(pieces) => self.current = pieces,
                    None => return Batch::default(),
                },
            }
        }
    }

    fn next_run(&mut self, control: &Control) -> Option<Vec<Piece>> {
        if self.next_run >= self.shared.runs() {
            return None;
        }
        if self.threads.is_empty() {
            // No thread was started: read on this one.
            self.next_run += 1;
            return Some(self.shared.read_run(self.next_run - 1));
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(pieces) = state.ready.remove(&self.next_run) {
                self.next_run += 1;
                state.wanted = self.next_run;
                self.shared.changed.notify_all();
                return Some(pieces);
            }
            if control.stop().is_some() {
                return None;
            }
            let time = control.deadline().saturating_duration_since(Instant::now());
            state = self
                .shared
                .changed
                .wait_timeout(state, time)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// The number of files that could not be read so far.
    pub(super) fn unreadable(&self) -> u32 {
        self.shared.unreadable.load(Ordering::Relaxed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic of the thread is not an error here.
            let _ = thread.join();
        }
    }
}
