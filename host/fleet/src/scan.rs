//! The tree on the disk: everything that a tool may write, without what ignore rules leave out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use cofferdam_core::policy::protected;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::ignore_files::IgnoreRules;
use cofferdam_workspace::path::{MAX_PATH, join};
use cofferdam_workspace::{Listed, Overlay, Workspace};
use jiff::Timestamp;
use rustix::fs::{FileType, Stat};

use crate::error::FleetError;
use crate::state::Stamp;
use crate::tree::{Content, Item, Items, MAX_DEPTH, MAX_ENTRIES, PART_BYTES, check_target};

/// How many paths that are left out are listed.
const MAX_LEFT_OUT: usize = 100;

/// A file that is not pushed although no ignore rule matches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Relative to the workspace.
    pub path: String,
    /// The reason, as the end of a sentence.
    pub why: String,
}

/// A tree that was read before, of which files that have not changed since need not be read again.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) items: &'a Items,
    pub(crate) stamps: &'a BTreeMap<String, Stamp>,
}

/// The tree on the disk.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) items: Items,
    /// Of files that were changed so long ago that a later change has another stamp.
    pub(crate) stamps: BTreeMap<String, Stamp>,
    /// The first files that are left out.
    pub(crate) left_out: Vec<LeftOut>,
    /// How many files and directories ignore rules leave out.
    pub(crate) ignored: usize,
}

struct Scan<'a> {
    tree: &'a Overlay,
    /// What was pushed before is pushed again, even if it is ignored now.
    known: Known<'a>,
    rules: Option<IgnoreRules>,
    /// In seconds since the epoch.
    begun: i64,
    found: Scanned,
}

/// A directory that is being read.
struct Open {
    place: String,
    entries: std::vec::IntoIter<Listed>,
    is_ignored: bool,
}

/// Reads the tree of a workspace.
///
/// # Errors
/// [`FleetError::Unsupported`] for a tree that is too large or an ignore file that can't be used; I/O
/// errors.
pub(crate) fn scan(
    workspace: &Arc<Workspace>,
    known: Known<'_>,
    with_ignored: bool,
) -> Result<Scanned, FleetError> {
    let rules = (!with_ignored).then(|| IgnoreRules::new(workspace.path().to_owned()));
    let begun = Timestamp::now().as_second();
    let tree = workspace.plain();
    let mut scan = Scan { tree, known, rules, begun, found: Scanned::default() };
    let mut open = vec![scan.open(String::new(), false)?];
    while let Some(Open { place, entries, is_ignored }) = open.last_mut() {
        let Some(entry) = entries.next() else {
            open.pop();
            if let Some(rules) = &mut scan.rules {
                rules.leave();
            }
            continue;
        };
        let (place, is_ignored) = (place.clone(), *is_ignored);
        if let Some((below, is_ignored)) = scan.entry(&place, entry, is_ignored)? {
            if open.len() >= MAX_DEPTH {
                let why = format!("directories are nested more than {MAX_DEPTH} deep");
                return Err(FleetError::unsupported(&below, why));
            }
            open.push(scan.open(below, is_ignored)?);
        }
    }
    Ok(scan.found)
}

impl Scan<'_> {
    fn open(&mut self, place: String, is_ignored: bool) -> Result<Open, FleetError> {
        let entries = self.tree.list(&place).map_err(|error| about(&place, &error))?;
        if let Some(rules) = &mut self.rules {
            rules
                .enter(self.tree, &place, &place)
                .map_err(|why| FleetError::unsupported("an ignore file", why))?;
        }
        Ok(Open { place, entries: entries.into_iter(), is_ignored })
    }

    /// Adds an entry. Returns a directory that is to be read, and whether it is ignored.
    fn entry(
        &mut self,
        directory: &str,
        entry: Listed,
        is_in_ignored: bool,
    ) -> Result<Option<(String, bool)>, FleetError> {
        let Ok(name) = entry.name.into_string() else {
            self.leave_out(directory, "has an entry whose name is not UTF-8");
            return Ok(None);
        };
        let place = join(directory, &name);
        if protected(&place).is_some() {
            return Ok(None);
        }
        let is_directory = entry.kind == FileType::Directory;
        let decision = self.rules.as_ref().and_then(|rules| rules.decision(&place, is_directory));
        let is_ignored = is_in_ignored || decision == Some(true);
        if is_ignored && !self.known.items.contains_key(&place) {
            self.found.ignored += 1;
            return Ok(None);
        }
        if place.len() > MAX_PATH {
            self.leave_out(directory, "has an entry whose path is too long");
            return Ok(None);
        }
        if let Some(why) = self.tree.refusal(&place) {
            self.leave_out(&place, &why);
            return Ok(None);
        }
        let stat = match self.tree.stat(&place) {
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            stat => stat?,
        };
        let item = match read_item(self.tree, &place, &stat, self.known) {
            Ok(item) => item,
            Err(FleetError::Unsupported { place, why }) => {
                self.leave_out(&place, &why);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let is_directory = item == Item::Directory;
        let stamp = Stamp::of(&stat);
        if item.content().is_some() && stamp.is_before(self.begun) {
            self.found.stamps.insert(place.clone(), stamp);
        }
        self.found.items.insert(place.clone(), item);
        if self.found.items.len() > MAX_ENTRIES {
            let why = format!("there are more than {MAX_ENTRIES} files, links and directories");
            return Err(FleetError::unsupported("the workspace", why));
        }
        Ok(is_directory.then_some((place, is_ignored)))
    }

    fn leave_out(&mut self, path: &str, why: &str) {
        if self.found.left_out.len() < MAX_LEFT_OUT {
            self.found.left_out.push(LeftOut { path: path.to_owned(), why: why.to_owned() });
        }
    }
}

/// Reads one file, link or directory.
///
/// # Errors
/// [`FleetError::Unsupported`] for what a store can't contain; I/O errors.
pub(crate) fn read_item(
    tree: &Overlay,
    place: &str,
    stat: &Stat,
    known: Known<'_>,
) -> Result<Item, FleetError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(Item::Directory),
        FileType::Symlink => {
            let target = match tree.read_link(place) {
                Err(error)
                    if error.raw_os_error() == Some(rustix::io::Errno::ILSEQ.raw_os_error()) =>
                {
                    return Err(FleetError::unsupported(
                        place,
                        "is a link whose target is not UTF-8",
                    ));
                }
                target => target?,
            };
            check_target(place, &target).map_err(|why| FleetError::unsupported(place, why))?;
            Ok(Item::Link(target))
        }
        FileType::RegularFile => {
            let same = known.stamps.get(place).is_some_and(|stamp| *stamp == Stamp::of(stat));
            let content = known.items.get(place).and_then(Item::content).filter(|_| same);
            let content = match content {
                Some(content) => content.clone(),
                None => {
                    let (file, _) = tree.open_read(place).map_err(|error| about(place, &error))?;
                    hash(file)?
                }
            };
            let is_executable = stat.st_mode & 0o100 != 0;
            Ok(if is_executable { Item::Executable(content) } else { Item::File(content) })
        }
        _ => Err(FleetError::unsupported(place, "is no regular file, directory or link")),
    }
}

/// Computes the digests of a file's parts.
fn hash(mut file: File) -> io::Result<Content> {
    let mut content = Content { size: 0, parts: Vec::new() };
    let mut part = Vec::new();
    loop {
        part.clear();
        (&mut file).take(PART_BYTES).read_to_end(&mut part)?;
        if part.is_empty() {
            return Ok(content);
        }
        content.size += part.len() as u64;
        content.parts.push(Digest::of(&part));
        if (part.len() as u64) < PART_BYTES {
            return Ok(content);
        }
    }
}

fn about(place: &str, error: &io::Error) -> FleetError {
    let place = if place.is_empty() { "the workspace" } else { place };
    io::Error::new(error.kind(), format!("{place}: {error}")).into()
}
