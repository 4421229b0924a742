//! The objects of a prepared commit, which are not trusted: each is a loose object whose content has
//! the id that its name says.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use rustix::fs::{AtFlags, OFlags};
use sha1_checked::Sha1;

use super::place::{Place, read};
use super::{Result, at, changed, invalid, is_id, is_name};
use crate::disk::{self, Spot};

/// The largest number of new objects.
const MAX_OBJECTS: usize = 50_000;

/// The largest object, in bytes.
const MAX_OBJECT_BYTES: u64 = 128 << 20;

/// The largest size of all new objects, in bytes.
const MAX_TOTAL_BYTES: u64 = 1 << 30;

/// The largest size of the line before an object's content, in bytes.
const MAX_HEADER_BYTES: usize = 32;

/// The largest commit object, in bytes.
const MAX_COMMIT_BYTES: usize = 1 << 20;

/// The largest number of packs in which an object is looked for.
const MAX_PACKS: usize = 10_000;

/// The modes of the entries of trees.
const MODES: [&[u8]; 5] = [b"100644", b"100755", b"120000", b"160000", b"40000"];

/// New objects that have been checked, as temporary files beside the repository's own. Those that
/// [`Objects::place`] has not placed are removed when this is dropped.
pub(super) struct Objects<'a> {
    target: &'a OwnedFd,
    /// Ids and names of temporary files.
    staged: Vec<(String, String)>,
    trees: HashSet<String>,
    commit: Option<(String, Vec<u8>)>,
}

/// What is known of a commit that has been checked.
pub(super) struct Commit {
    committer: String,
    subject: String,
}

impl<'a> Objects<'a> {
    /// Reads and checks the loose objects in a directory.
    pub(super) fn read(from: &OwnedFd, place: &'a Place, stop: &dyn Fn() -> bool) -> Result<Self> {
        let mut objects = Self {
            target: &place.objects,
            staged: Vec::new(),
            trees: HashSet::new(),
            commit: None,
        };
        let mut left = MAX_TOTAL_BYTES;
        for name in names(from, MAX_OBJECTS)? {
            if name.len() != 2 || !is_hex(&name) {
                return Err(invalid(format!(
                    "'{}' is not a directory of loose objects; packs are not taken over",
                    cofferdam_text::shorten(&name, 80)
                )));
            }
            let directory = disk::open(from, &name, OFlags::RDONLY | OFlags::DIRECTORY);
            let directory = directory.map_err(at(&name))?;
            for rest in names(&directory, MAX_OBJECTS)? {
                if stop() {
                    return Err(changed("the call has ended"));
                }
                let id = format!("{name}{rest}");
                if !is_id(id.as_bytes()) {
                    let id = cofferdam_text::shorten(&id, 80);
                    return Err(invalid(format!("'{id}' is not the name of a loose object")));
                }
                if objects.staged.len() == MAX_OBJECTS {
                    return Err(too_many());
                }
                let packed = read(&directory, &rest, MAX_OBJECT_BYTES)?;
                let packed = packed.ok_or_else(|| changed(format!("{id} is gone")))?;
                let object = unpack(&id, &packed)?;
                left = left.checked_sub(object.len() as u64).ok_or_else(|| {
                    invalid(format!("the new objects have more than {MAX_TOTAL_BYTES} bytes"))
                })?;
                objects.add(id, &object)?;
            }
        }
        Ok(objects)
    }

    /// Checks an object by its kind, and stages it.
    fn add(&mut self, id: String, object: &[u8]) -> Result<()> {
        let start = object.iter().position(|byte| *byte == 0).map_or(0, |end| end + 1);
        let (header, content) = object.split_at(start);
        match header.split(|byte| *byte == b' ').next().unwrap_or_default() {
            b"blob" => {}
            b"tree" if is_tree(content) => {
                self.trees.insert(id.clone());
            }
            b"commit" if self.commit.is_none() && content.len() <= MAX_COMMIT_BYTES => {
                self.commit = Some((id.clone(), content.to_owned()));
            }
            kind => {
                return Err(invalid(format!(
                    "the object {id} is not a blob, a valid tree or the one commit: {}",
                    kind.escape_ascii()
                )));
            }
        }
        let temporary = format!("tmp_obj_{}", uuid::Uuid::now_v7().simple());
        self.staged.push((id, temporary.clone()));
        let write = || -> io::Result<()> {
            let file: File = disk::create(self.target, &temporary)?;
            let mut encoder = ZlibEncoder::new(&file, Compression::fast());
            encoder.write_all(object)?;
            encoder.finish()?;
            rustix::fs::fchmod(&file, disk::permissions(0o444))?;
            disk::sync(&file)
        };
        write().map_err(at("objects"))
    }

    /// Checks that the one new commit is `id`, that its parent is the tip of the branch, and that its
    /// tree exists.
    pub(super) fn commit(&self, id: &str, parent: Option<&str>, place: &Place) -> Result<Commit> {
        let content = match &self.commit {
            Some((found, content)) if found == id => content,
            _ => return Err(invalid("that id is not the new commit's")),
        };
        let (found, tree) = parsed(content, parent).ok_or_else(|| {
            invalid("the commit does not have the branch's tip as its only parent")
        })?;
        if !self.trees.contains(tree) && !exists(place, tree)? {
            return Err(invalid(format!("the commit's tree {tree} does not exist")));
        }
        Ok(found)
    }

    /// Gives the objects their names in the repository. One that exists already is left.
    pub(super) fn place(&mut self) -> Result<()> {
        let mut directories = HashSet::new();
        while let Some((id, temporary)) = self.staged.last() {
            let (directory, rest) = id.split_at(2);
            let place = || -> io::Result<()> {
                match disk::create_directory(self.target, directory, disk::DEFAULT_MODE) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => {}
                }
                let to = format!("{directory}/{rest}");
                match Spot::of(self.target, temporary)?.move_to(&Spot::of(self.target, &to)?) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                        disk::remove(self.target, temporary, AtFlags::empty())
                    }
                    moved => moved,
                }
            };
            place().map_err(at(format!("objects/{directory}/{rest}")))?;
            directories.insert(directory.to_owned());
            self.staged.pop();
        }
        let sync = |name: &str| {
            disk::sync(disk::open(self.target, name, OFlags::RDONLY | OFlags::DIRECTORY)?)
        };
        let synced = directories.iter().map(String::as_str).chain([""]).try_for_each(sync);
        synced.map_err(at("objects"))
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        for (_, temporary) in &self.staged {
            if let Err(error) = disk::remove(self.target, temporary, AtFlags::empty()) {
                tracing::warn!("objects/{temporary} is left for git: {error}");
            }
        }
    }
}

impl Commit {
    /// The line for the logs of references.
    pub(super) fn log_line(&self, parent: Option<&str>, id: &str) -> String {
        let Self { committer, subject } = self;
        let none = "0".repeat(40);
        let kind = if parent.is_some() { "commit" } else { "commit (initial)" };
        format!("{} {id} {committer}\t{kind}: {subject}\n", parent.unwrap_or(&none))
    }
}

/// The names in a directory, at most `most`.
fn names(directory: &OwnedFd, most: usize) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in disk::entries(directory).map_err(at("objects"))? {
        if names.len() == most {
            return Err(too_many());
        }
        let name = entry.map_err(at("objects"))?.name;
        names.push(name.to_string_lossy().into_owned());
    }
    Ok(names)
}

fn too_many() -> super::GitCommitError {
    invalid(format!("the commit has more than {MAX_OBJECTS} new objects; commit fewer paths"))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Decompresses a loose object, and checks its length and its id. The result begins with its header.
pub(super) fn unpack(id: &str, packed: &[u8]) -> Result<Vec<u8>> {
    let wrong = |why: &str| invalid(format!("the object {id} {why}"));
    let mut decoder = ZlibDecoder::new(packed);
    let mut object = Vec::new();
    let mut read = |object: &mut Vec<u8>, most: u64| {
        let read = decoder.by_ref().take(most).read_to_end(object);
        read.map_err(|error| wrong(&format!("can't be decompressed: {error}")))
    };
    read(&mut object, MAX_HEADER_BYTES as u64)?;
    let header = object.iter().position(|byte| *byte == 0);
    let header = header.ok_or_else(|| wrong("has no valid header"))?;
    let length = str::from_utf8(&object[..header]).ok().and_then(|text| text.split_once(' '));
    let length = length.and_then(|(_, digits)| digits.parse::<u64>().ok());
    let length = length.ok_or_else(|| wrong("has no valid header"))?;
    if length > MAX_OBJECT_BYTES {
        return Err(wrong(&format!("has more than {MAX_OBJECT_BYTES} bytes")));
    }
    let total = length + header as u64 + 1;
    // One more byte shows that there is more.
    let left = total.saturating_sub(object.len() as u64);
    read(&mut object, left + 1)?;
    if object.len() as u64 != total || decoder.total_in() != packed.len() as u64 {
        return Err(wrong("does not have the length that it says"));
    }
    let hash = Sha1::try_digest(&object);
    let found = cofferdam_text::hex(hash.hash());
    if hash.has_collision() || found != id {
        return Err(wrong("does not have the content that its name says"));
    }
    Ok(object)
}

/// Whether this is the content of a tree: entries with valid modes and names, in git's order.
fn is_tree(mut content: &[u8]) -> bool {
    let mut last: Option<Vec<u8>> = None;
    while !content.is_empty() {
        let parts = content.iter().position(|byte| *byte == 0).and_then(|end| {
            let (mode, name) =
                content[..end].split_at(content.iter().position(|b| *b == b' ')?.min(end));
            Some((mode, name.strip_prefix(b" ")?, content.get(end + 21..)?))
        });
        let Some((mode, name, rest)) = parts else { return false };
        // A directory is compared as if its name ended with a slash.
        let key = if mode == b"40000" { [name, b"/"].concat() } else { name.to_owned() };
        if !MODES.contains(&mode) || !is_name(name) || last.is_some_and(|last| last >= key) {
            return false;
        }
        (last, content) = (Some(key), rest);
    }
    true
}

/// Reads a commit with exactly this parent; returns it and its tree.
fn parsed<'a>(content: &'a [u8], parent: Option<&str>) -> Option<(Commit, &'a str)> {
    let text = str::from_utf8(content).ok().filter(|text| !text.contains('\0'))?;
    let (tree, rest) = text.strip_prefix("tree ")?.split_once('\n')?;
    let rest = match parent {
        Some(parent) => rest.strip_prefix("parent ")?.strip_prefix(parent)?.strip_prefix('\n')?,
        None => rest,
    };
    let (author, rest) = rest.strip_prefix("author ")?.split_once('\n')?;
    let (committer, rest) = rest.strip_prefix("committer ")?.split_once('\n')?;
    let message = rest.strip_prefix('\n')?;
    let subject = message.lines().next().unwrap_or_default().trim_end().to_owned();
    let is_valid = is_id(tree.as_bytes()) && [author, committer].into_iter().all(is_signature);
    is_valid.then(|| (Commit { committer: committer.to_owned(), subject }, tree))
}

/// Whether this is `NAME <ADDRESS> SECONDS ZONE`.
fn is_signature(text: &str) -> bool {
    let parts = text.split_once(" <").and_then(|(name, rest)| Some((name, rest.split_once("> ")?)));
    let Some((name, (address, time))) = parts else { return false };
    let is_plain = |text: &str| !text.contains(['<', '>']) && !text.contains(char::is_control);
    let is_time = time.split_once(' ').is_some_and(|(seconds, zone)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        digits(seconds) && zone.len() == 5 && zone.starts_with(['+', '-']) && digits(&zone[1..])
    });
    is_plain(name) && is_plain(address) && is_time
}

/// Whether the repository has an object: a loose one, or in a pack.
fn exists(place: &Place, id: &str) -> Result<bool> {
    let (directory, rest) = id.split_at(2);
    let loose = format!("{directory}/{rest}");
    let wanted: Vec<u8> =
        (0..20).filter_map(|at| u8::from_str_radix(&id[2 * at..2 * at + 2], 16).ok()).collect();
    for objects in std::iter::once(&place.objects).chain(&place.lenders) {
        if disk::look(objects, &loose).map_err(at(&loose))?.is_some() {
            return Ok(true);
        }
        let packs = match disk::open(objects, "pack", OFlags::RDONLY | OFlags::DIRECTORY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            packs => packs.map_err(at("objects/pack"))?,
        };
        for name in names(&packs, MAX_PACKS)?.iter().filter(|name| name.ends_with(".idx")) {
            let index: File =
                disk::open(packs.as_fd(), name, OFlags::RDONLY).map_err(at(name))?.into();
            if in_pack(&index, &wanted).unwrap_or(false) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether an index of a pack (version 2) lists an id.
fn in_pack(index: &File, wanted: &[u8]) -> io::Result<bool> {
    const FANOUT: u64 = 8;
    const IDS: u64 = FANOUT + 256 * 4;
    let number = |at: u64| -> io::Result<u32> {
        let mut bytes = [0; 4];
        index.read_exact_at(&mut bytes, at)?;
        Ok(u32::from_be_bytes(bytes))
    };
    if number(0)? != 0xff74_4f63 || number(4)? != 2 {
        return Ok(false);
    }
    let first = u64::from(wanted[0]);
    let mut low = if first == 0 { 0 } else { number(FANOUT + (first - 1) * 4)? };
    let mut high = number(FANOUT + first * 4)?;
    while low < high {
        let middle = low + (high - low) / 2;
        let mut found = [0; 20];
        index.read_exact_at(&mut found, IDS + u64::from(middle) * 20)?;
        match found[..].cmp(wanted) {
            std::cmp::Ordering::Equal => return Ok(true),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Ok(false)
}
