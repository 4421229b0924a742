//! The append-only record of calls, refusals, commits and other events: one JSON object per line,
//! in `.cofferdam/journal.jsonl` of the workspace.
//!
//! | module | is for |
//! |---|---|
//! | [`entry`], [`decision`] | the contents of a line |
//! | [`reader`] | reading lines of any length from files of any size |
//! | [`seal`] | authenticating lines as written by this host in this workspace |

mod decision;
mod entry;
mod reader;
mod seal;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use decision::DecisionRecord;
pub(crate) use decision::bounded;
pub use entry::{CommitRecord, Entry, Event, HealthRecord, PathChange, Record, Verdict, library};
pub use reader::{Line, Lines, rotated};

use cofferdam_workspace::{OWN, Own, Workspace};

/// The file's name in the host's own directory.
const FILE_NAME: &str = "journal.jsonl";

/// How many entries are kept to find a page among them; for pages further back, the journal is read twice.
const MAX_KEPT: usize = 1_000;

/// How much of the end of the current file is read for the latest entries, in bytes.
const TAIL_BYTES: u64 = 512 << 10;

/// How often to check whether the file was rotated.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// Appends to the journal of a workspace. The file is created with the first entry.
pub struct Journal {
    workspace: Arc<Workspace>,
    file: Mutex<Option<Opened>>,
}

/// The open journal file.
struct Opened {
    file: File,
    /// The host's own directory, which contains the file.
    own: Arc<Own>,
    /// When the file was opened.
    at: Instant,
}

impl Journal {
    /// The journal of a workspace.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace, file: Mutex::new(None) }
    }

    /// Appends one entry. An I/O error is logged; it does not make the call fail.
    pub fn append(&self, entry: &Entry) {
        if let Err(error) = self.try_append(entry) {
            tracing::warn!("the journal {OWN}/{FILE_NAME} can't be written: {error}");
        }
    }

    /// Records each commit of the workspace before the commit ends. A commit that was recorded by a
    /// host that died is not recorded again.
    pub fn record_commits(self: &Arc<Self>) {
        let journal = Arc::downgrade(self);
        self.workspace.record_commits(Box::new(move |commit, recovered| {
            let Some(journal) = journal.upgrade() else { return };
            if !recovered || !journal.has(&commit.id) {
                journal.append(&Entry::Commit(CommitRecord::new(commit, recovered)));
            }
        }));
    }

    /// Whether the commit is in the journal.
    fn has(&self, id: &str) -> bool {
        let is_it = |entry: &Entry| matches!(entry, Entry::Commit(record) if record.commit == id);
        self.latest(1, is_it).is_ok_and(|(found, _)| !found.is_empty())
    }

    fn try_append(&self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        let mut opened = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // Another process may have rotated the file.
        let is_current = |opened: &Opened| opened.at.elapsed() < REOPEN_INTERVAL;
        let opened = match opened.take().filter(is_current) {
            Some(current) => opened.insert(current),
            None => opened.insert(self.open()?),
        };
        seal::add(opened.own.key(), &mut line);
        line.push(b'\n');
        // A single write, so that entries of several hosts don't mix.
        opened.file.write_all(&line)
    }

    fn open(&self) -> io::Result<Opened> {
        let own = self.workspace.own()?;
        let mut file = own.append(FILE_NAME)?;
        if !ends_a_line(&file)? {
            file.write_all(b"\n")?;
        }
        Ok(Opened { file, own, at: Instant::now() })
    }

    /// Checks whether entries can be appended.
    ///
    /// # Errors
    /// An I/O error if the file can't be opened for writing.
    pub fn check(&self) -> io::Result<()> {
        self.workspace.own()?.append(FILE_NAME).map(drop)
    }

    /// The latest entries that are `wanted`, at most `most` of them, the oldest first, and the
    /// number of lines that could not be read: those of a newer version, those broken by a crash,
    /// and those not written by this host.
    ///
    /// # Errors
    /// An I/O error if the journal can't be read.
    pub fn latest(
        &self,
        most: usize,
        wanted: impl Fn(&Entry) -> bool,
    ) -> io::Result<(VecDeque<Entry>, usize)> {
        let mut entries = VecDeque::new();
        let unreadable = self.each(|entry| {
            if wanted(&entry) {
                entries.push_back(entry);
                if entries.len() > most {
                    entries.pop_front();
                }
            }
        })?;
        Ok((entries, unreadable))
    }

    /// Passes on each entry, the oldest first; returns the number of lines that could not be read.
    fn each(&self, mut take: impl FnMut(Entry)) -> io::Result<usize> {
        let mut unreadable = 0;
        for (_, lines) in self.files()? {
            for line in lines {
                match line?.entry {
                    Err(_) => unreadable += 1,
                    Ok(entry) => take(entry),
                }
            }
        }
        Ok(unreadable)
    }

    /// A page of the entries that are `wanted`, the newest first: at most `most`, after the `skipped`
    /// newest ones. Also returns whether there are older ones. The latest pages are read from the end of
    /// the current file.
    ///
    /// # Errors
    /// An I/O error if the journal can't be read.
    pub fn page(
        &self,
        skipped: usize,
        most: usize,
        wanted: impl Fn(&Entry) -> bool,
    ) -> io::Result<(Vec<Entry>, bool)> {
        let enough = skipped.saturating_add(most).saturating_add(1);
        if enough > MAX_KEPT {
            return self.deep_page(skipped, most, wanted);
        }
        let mut found = self.tail()?.filter(|entry| wanted(entry)).collect::<VecDeque<Entry>>();
        if found.len() < enough {
            found = self.latest(enough, wanted)?.0;
        }
        let has_more = found.len() > skipped + most;
        Ok((found.into_iter().rev().skip(skipped).take(most).collect(), has_more))
    }

    /// As [`Self::page`], by reading everything twice: what is skipped is counted, and not kept.
    fn deep_page(
        &self,
        skipped: usize,
        most: usize,
        wanted: impl Fn(&Entry) -> bool,
    ) -> io::Result<(Vec<Entry>, bool)> {
        let mut count: usize = 0;
        self.each(|entry| count += usize::from(wanted(&entry)))?;
        let end = count.saturating_sub(skipped);
        let start = end.saturating_sub(most);
        let (mut at, mut found) = (0, Vec::new());
        self.each(|entry| {
            if wanted(&entry) {
                if (start..end).contains(&at) {
                    found.push(entry);
                }
                at += 1;
            }
        })?;
        found.reverse();
        Ok((found, start > 0))
    }

    /// The entries in the end of the current file, the oldest first; none if the file is short.
    fn tail(&self) -> io::Result<impl Iterator<Item = Entry>> {
        let own = self.workspace.existing_own()?;
        let file = own.as_ref().map(|own| own.open_file(FILE_NAME)).transpose()?.flatten();
        let lines = match (own, file) {
            (Some(own), Some(mut file)) if file.metadata()?.len() > TAIL_BYTES => {
                file.seek(SeekFrom::End(-TAIL_BYTES.cast_signed()))?;
                // The first line is probably not whole.
                Some(Lines::sealed(BufReader::new(file), own.key().clone()).skip(1))
            }
            _ => None,
        };
        let entry = |line: io::Result<Line>| line.ok()?.entry.ok();
        Ok(lines.into_iter().flatten().filter_map(entry))
    }

    /// The files of the journal with their paths in the workspace, the oldest first: rotated files
    /// (`journal.jsonl.2`, `journal.jsonl.1` and so on), then the current one.
    ///
    /// # Errors
    /// An I/O error if the journal can't be read.
    pub fn files(&self) -> io::Result<Vec<(String, Lines<impl io::BufRead>)>> {
        let Some(own) = self.workspace.existing_own()? else { return Ok(Vec::new()) };
        let names = own.names()?;
        let mut files = Vec::new();
        for name in rotated(FILE_NAME, names.iter().map(String::as_str)) {
            if let Some(file) = own.open_file(&name)? {
                let lines = Lines::sealed(BufReader::new(file), own.key().clone());
                files.push((format!("{OWN}/{name}"), lines));
            }
        }
        Ok(files)
    }
}

/// Whether the file is empty or ends with a line feed. If not, a host died or the disk was full
/// while a line was written.
fn ends_a_line(file: &File) -> io::Result<bool> {
    let mut last = [b'\n'];
    if let Some(end) = file.metadata()?.len().checked_sub(1) {
        file.read_exact_at(&mut last, end)?;
    }
    Ok(last == *b"\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::*;
    use cofferdam_core::outcome::{DenialCode, Failure, Outcome};
    use cofferdam_workspace::Secret;

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
    fn a_rotated_file_is_not_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let journal =
            Journal::new(Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap()));
        let entry = |id: &str| {
            let done = Outcome::Executed(serde_json::json!({}));
            Entry::Call(Record::new(id, "a.b", None, &done, 1.0).into())
        };
        journal.append(&entry("1"));
        let current = directory.path().join(OWN).join(FILE_NAME);
        std::fs::rename(&current, current.with_extension("jsonl.1")).unwrap();
        std::thread::sleep(REOPEN_INTERVAL);
        journal.append(&entry("2"));
        let files: Vec<String> = read(&journal).into_iter().map(|(path, ..)| path).collect();
        assert_eq!(files, [".cofferdam/journal.jsonl.1", ".cofferdam/journal.jsonl"]);
    }

    #[test]
    fn pages_are_the_same_from_the_end_of_a_file_and_from_all_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let journal =
            Journal::new(Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap()));
        let done = Outcome::Executed(serde_json::json!({}));
        let padding = "x".repeat(2000);
        let number = |entry: &Entry| match entry {
            Entry::Call(record) => record.call.clone(),
            _ => String::new(),
        };
        let append = |number: usize| {
            let mut record = Record::new(&number.to_string(), "a.b", None, &done, 1.0);
            record.agent = Some(padding.clone());
            journal.append(&Entry::Call(record.into()));
        };
        let page = |skipped, most| {
            let (entries, has_more) = journal.page(skipped, most, |_| true).unwrap();
            (entries.iter().map(number).collect::<Vec<String>>(), has_more)
        };
        assert_eq!(page(0, 5), (Vec::new(), false));
        (0..3).for_each(append);
        assert_eq!(page(0, 5), (vec!["2".to_owned(), "1".to_owned(), "0".to_owned()], false));
        assert_eq!(page(1, 1), (vec!["1".to_owned()], true));
        // More than is read of the end.
        (3..1500).for_each(append);
        assert_eq!(page(1, 2), (vec!["1498".to_owned(), "1497".to_owned()], true));
        assert_eq!(page(1498, 5), (vec!["1".to_owned(), "0".to_owned()], false));
        // Far back: what is skipped is not kept.
        assert_eq!(page(1200, 2), (vec!["299".to_owned(), "298".to_owned()], true));
        assert_eq!(page(1500, 2), (Vec::new(), false));
        assert_eq!(page(usize::MAX, 2), (Vec::new(), false));
    }

    #[test]
    fn entries_are_read_back_and_broken_lines_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        let journal =
            Journal::new(Arc::new(Workspace::open(directory.path(), Secret::OfProcess).unwrap()));
        assert_eq!(read(&journal), []);
        let failure = Failure::new(DenialCode::NotGranted, "no");
        let first = Record::new("1", "a.b", Some("reader"), &Outcome::Failed(failure), 1.23456);
        let second = Record::new("2", "a.b", None, &Outcome::Executed(serde_json::json!({})), 2.0);
        let third = Entry::Event(Event::fallback("context7_timeout", &first));
        let (first, second) = (Entry::Call(first.into()), Entry::Call(second.into()));
        journal.append(&first);
        let own = directory.path().join(".cofferdam");
        std::fs::rename(own.join("journal.jsonl"), own.join("journal.jsonl.1")).unwrap();
        // A host died while it wrote a line.
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
