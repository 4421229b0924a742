//! The append-only record of every call, refusals included, of every commit, and of what else
//! happened: one JSON object a line, in `.cofferdam/journal.jsonl` of the workspace.
//!
//! | module | what |
//! |---|---|
//! | [`entry`] | what stands in a line |
//! | [`reader`] | lines, one after the other, however long and however many |
//! | [`seal`] | what shows that a line was written by this host, in this workspace |

mod entry;
mod reader;
mod seal;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use entry::{CommitRecord, Entry, Event, HealthRecord, PathChange, Record, Verdict, library};
pub use reader::{Line, Lines, rotated};

use crate::workspace::{OWN, Own, Workspace};

/// The file's name in the host's own directory.
const FILE: &str = "journal.jsonl";

/// How long an entry is at most, in bytes: with its seal, the reader takes its line.
const MAX_ENTRY_BYTES: usize = reader::MAX_LINE - 1024;

/// How long the file is taken for the one that has its name.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Where a workspace's records go. The file is made with the first one.
pub struct Journal {
    workspace: Arc<Workspace>,
    file: Mutex<Option<Opened>>,
}

/// The file that is written.
struct Opened {
    file: File,
    /// The directory that it is in.
    own: Arc<Own>,
    /// When it was opened.
    at: Instant,
}

impl Journal {
    /// The journal of a workspace.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace, file: Mutex::new(None) }
    }

    /// Appends one line. A workspace that can't be written has no journal: that is logged once for
    /// each line, and is no reason to refuse the call.
    pub fn append(&self, entry: &Entry) {
        if let Err(error) = self.try_append(entry) {
            tracing::warn!("the journal {OWN}/{FILE} can't be written: {error}");
        }
    }

    /// Records each commit of the workspace before it is over. What a host that died had recorded
    /// already is not recorded again.
    pub fn record_commits(self: &Arc<Self>) {
        let journal = Arc::downgrade(self);
        self.workspace.record_commits(Box::new(move |commit, recovered| {
            let Some(journal) = journal.upgrade() else { return };
            if !recovered || !journal.has(&commit.id) {
                journal.append(&Entry::Commit(CommitRecord::new(commit, recovered)));
            }
        }));
    }

    /// Whether a commit is recorded.
    fn has(&self, id: &str) -> bool {
        let is_it = |entry: &Entry| matches!(entry, Entry::Commit(record) if record.commit == id);
        self.latest(1, is_it).is_ok_and(|(found, _)| !found.is_empty())
    }

    fn try_append(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        if line.len() > MAX_ENTRY_BYTES {
            line = serde_json::to_vec(&entry.shortened())?;
        }
        let mut opened = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have rotated it.
        let is_current = |opened: &Opened| opened.at.elapsed() < LOOK_AGAIN;
        let opened = match opened.take().filter(is_current) {
            Some(current) => opened.insert(current),
            None => opened.insert(self.open()?),
        };
        seal::add(opened.own.key(), &mut line);
        line.push(b'\n');
        // One write, so that records of several hosts don't mix.
        opened.file.write_all(&line)
    }

    fn open(&self) -> io::Result<Opened> {
        let own = self.workspace.own()?;
        let mut file = own.append(FILE)?;
        if !ends_a_line(&file)? {
            file.write_all(b"\n")?;
        }
        Ok(Opened { file, own, at: Instant::now() })
    }

    /// Whether a line could be appended.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> io::Result<()> {
        self.workspace.own()?.append(FILE).map(drop)
    }

    /// The latest entries that are `wanted`, at most `most` of them, the oldest first, and how many
    /// lines could not be read: those of a newer version, broken by a crash, or not written by this
    /// host.
    ///
    /// # Errors
    /// A journal that can't be read.
    pub fn latest(
        &self,
        most: usize,
        wanted: impl Fn(&Entry) -> bool,
    ) -> io::Result<(VecDeque<Entry>, usize)> {
        let mut entries = VecDeque::new();
        let mut unreadable = 0;
        for (_, lines) in self.files()? {
            for line in lines {
                match line?.entry {
                    Err(_) => unreadable += 1,
                    Ok(entry) if wanted(&entry) => {
                        entries.push_back(entry);
                        if entries.len() > most {
                            entries.pop_front();
                        }
                    }
                    Ok(_) => {}
                }
            }
        }
        Ok((entries, unreadable))
    }

    /// The files of the journal with their paths in the workspace, the oldest first: those that
    /// were rotated to `journal.jsonl.2`, `journal.jsonl.1` and so on, and the current one.
    ///
    /// # Errors
    /// A journal that can't be read.
    pub fn files(&self) -> io::Result<Vec<(String, Lines<impl io::BufRead>)>> {
        let Some(own) = self.workspace.existing_own()? else { return Ok(Vec::new()) };
        let names = own.names()?;
        let mut files = Vec::new();
        for name in rotated(FILE, names.iter().map(String::as_str)) {
            if let Some(file) = own.open_file(&name)? {
                let lines = Lines::sealed(BufReader::new(file), own.key().clone());
                files.push((format!("{OWN}/{name}"), lines));
            }
        }
        Ok(files)
    }
}

/// Whether nothing was written after the last line: a host may have died, or its disk have been
/// full, within one.
fn ends_a_line(file: &File) -> io::Result<bool> {
    let mut last = [b'\n'];
    if let Some(end) = file.metadata()?.len().checked_sub(1) {
        file.read_exact_at(&mut last, end)?;
    }
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::panic, clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::outcome::{Failure, Outcome, Status};
    use crate::workspace::Secret;

    fn read(journal: &Journal) -> Vec<(String, u64, Result<Entry, String>)> {
        let files = journal.files().unwrap();
        let lines = files.into_iter().flat_map(|(path, lines)| {
            lines.map(move |line| {
                let line = line.unwrap();
                (path.clone(), line.number, line.entry)
            })
        });
        lines.collect()
    }

    #[test]
    fn a_file_that_was_rotated_is_written_no_more() {
        let directory = tempfile::tempdir().unwrap();
        let journal =
            Journal::new(Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap()));
        let entry = |id: &str| {
            let done = Outcome::Executed(serde_json::json!({}));
            Entry::Call(Record::new(id, "a.b", None, &done, 1.0))
        };
        journal.append(&entry("1"));
        let current = directory.path().join(OWN).join(FILE);
        std::fs::rename(&current, current.with_extension("jsonl.1")).unwrap();
        std::thread::sleep(LOOK_AGAIN);
        journal.append(&entry("2"));
        let files: Vec<String> = read(&journal).into_iter().map(|(path, ..)| path).collect();
        assert_eq!(files, [".cofferdam/journal.jsonl.1", ".cofferdam/journal.jsonl"]);
    }

    #[test]
    fn a_record_with_long_lists_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let journal =
            Journal::new(Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap()));
        let done = Outcome::Executed(serde_json::json!({}));
        let mut record = Record::new("1", "a.b", None, &done, 1.0);
        let long: Vec<String> =
            (0..10_000).map(|n| format!("{n}{}", "\u{1}".repeat(200))).collect();
        (record.hosts, record.agents) = (long.clone(), long.clone());
        record.executed = long;
        journal.append(&Entry::Call(record));
        journal.append(&Entry::Event(Event::new("e", "\u{1}".repeat(1 << 20))));
        let (found, unreadable) = journal.latest(10, |_| true).unwrap();
        assert_eq!((found.len(), unreadable), (2, 0));
        let Entry::Call(record) = &found[0] else { panic!("{found:?}") };
        assert!(record.hosts.len() > 50 && record.executed[0].starts_with('0'));
    }

    #[test]
    fn records_come_back_and_broken_lines_keep_their_numbers() {
        let directory = tempfile::tempdir().unwrap();
        let journal =
            Journal::new(Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap()));
        assert_eq!(read(&journal), []);
        let failure = Failure::new(Status::Denied, "NotGranted", "no");
        let first = Record::new("1", "a.b", Some("reader"), &Outcome::Failed(failure), 1.23456);
        let second = Record::new("2", "a.b", None, &Outcome::Executed(serde_json::json!({})), 2.0);
        let third = Entry::Event(Event::fallback("context7_timeout", &first));
        let (first, second) = (Entry::Call(first), Entry::Call(second));
        journal.append(&first);
        let own = directory.path().join(".cofferdam");
        std::fs::rename(own.join("journal.jsonl"), own.join("journal.jsonl.1")).unwrap();
        // A host died within a line.
        std::fs::write(own.join("journal.jsonl"), "{\"timestamp\":").unwrap();
        let journal =
            Journal::new(Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap()));
        journal.check().unwrap();
        journal.append(&second);
        journal.append(&third);
        let (old, new) = (".cofferdam/journal.jsonl.1", ".cofferdam/journal.jsonl");
        let read = read(&journal);
        assert!(read[1].2.is_err(), "{read:?}");
        let whole: Vec<(&str, u64, &Entry)> = read
            .iter()
            .filter_map(|(path, number, entry)| {
                Some((path.as_str(), *number, entry.as_ref().ok()?))
            })
            .collect();
        assert_eq!(whole, [(old, 1, &first), (new, 2, &second), (new, 3, &third)]);
        assert_eq!(std::fs::read_to_string(own.join(".gitignore")).unwrap(), "*\n");
    }
}
