//! An index of the symbols that files define, stored between calls: a file with known contents need
//! not be parsed to know whether it defines a name.
//!
//! The index maps the digest of a file's contents to the names and kinds of its symbols, and to its
//! error. It is split into shards by the first bits of the digests. A search reads only the shards
//! that it needs, and writes those to which it has added enough. When calls write the same shard at
//! the same time, the last one wins, and the missing files are parsed again.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use postcard::{take_from_bytes, to_extend};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::outline::{Kind, Outline, Problem};
use crate::project::Files;

/// The number of shards.
const SHARD_COUNT: u8 = 32;

/// The maximum size of a shard, in bytes.
const MAX_SHARD_BYTES: usize = 6 << 20;

/// The minimum number of new files for writing a shard: parsing fewer files again is faster.
const MIN_NEW_FILES: usize = 32;

/// The beginning of a stored shard. The number has to be incremented when the content of outlines
/// changes.
const FORMAT: &str = "outlines 1";

/// The versions of all parsers, as part of the format.
const PARSERS: &[u8] = include_bytes!("../Cargo.lock");

/// The digest of a file's contents.
type Key = [u8; 32];

/// The part of a file's outline that a search needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<'a> {
    /// The package of a Go file.
    pub package: Option<&'a str>,
    /// Line and message of the file's error.
    pub problem: Option<(usize, &'a str)>,
    /// The kind and the path of names of each symbol; the last name is its own.
    #[serde(borrow)]
    pub symbols: Vec<(Kind, Vec<&'a str>)>,
}

impl<'a> Entry<'a> {
    /// Makes the entry for an outline.
    pub fn new(outline: &'a Outline) -> Self {
        let problem = |problem: &'a Problem| (problem.line, problem.message.as_str());
        Self {
            package: outline.package.as_deref(),
            problem: outline.problem.as_ref().map(problem),
            symbols: outline
                .symbols
                .iter()
                .map(|symbol| (symbol.kind, symbol.path.iter().map(String::as_str).collect()))
                .collect(),
        }
    }
}

/// The index during one search.
pub struct Index<'a> {
    files: &'a dyn Files,
    format: Vec<u8>,
    shards: BTreeMap<u8, Shard>,
    added: usize,
}

/// The entries of a shard in their stored form.
#[derive(Default)]
struct Shard {
    bytes: Vec<u8>,
    /// The range of each entry, and whether this search has used it.
    places: HashMap<Key, (Range<usize>, bool)>,
    has_changed: bool,
}

impl<'a> Index<'a> {
    /// Makes an index that has not read any shards yet.
    pub fn new(files: &'a dyn Files) -> Self {
        let mut format = FORMAT.as_bytes().to_vec();
        format.extend_from_slice(&Sha256::digest(PARSERS));
        Self { files, format, shards: BTreeMap::new(), added: 0 }
    }

    /// The key of a file. It includes the extension, which determines the parser.
    pub fn key(path: &str, contents: &[u8]) -> Key {
        let name = path.rsplit('/').next().unwrap_or(path);
        let end = name.split_once('.').map_or("", |(_, end)| end);
        let length = u64::try_from(end.len()).unwrap_or(u64::MAX).to_le_bytes();
        Sha256::new()
            .chain_update(length)
            .chain_update(end)
            .chain_update(contents)
            .finalize()
            .into()
    }

    /// The entry of a file, if it is in the index.
    pub fn find(&mut self, key: &Key) -> Option<Entry<'_>> {
        let shard = self.shard(key);
        let (place, is_used) = shard.places.get_mut(key)?;
        *is_used = true;
        postcard::from_bytes(&shard.bytes[place.clone()]).ok()
    }

    /// Adds the entry of a file.
    pub fn add(&mut self, key: Key, entry: &Entry<'_>) {
        let Ok(bytes) = to_extend(entry, Vec::new()) else { return };
        self.shard(&key).add(key, &bytes, true);
        self.added += 1;
    }

    /// Stores the changed shards that have enough new entries. Errors are ignored: the files are
    /// parsed again.
    pub fn keep(mut self) {
        if self.added < MIN_NEW_FILES {
            return;
        }
        for (number, shard) in &mut self.shards {
            if shard.has_changed {
                self.files.keep(&name(*number), &shard.packed(&self.format));
            }
        }
    }

    fn shard(&mut self, key: &Key) -> &mut Shard {
        let number = key[0] % SHARD_COUNT;
        let (files, format) = (self.files, &self.format);
        self.shards.entry(number).or_insert_with(|| {
            let kept = files.kept(&name(number));
            kept.and_then(|bytes| Shard::unpacked(bytes, format)).unwrap_or_default()
        })
    }
}

fn name(shard: u8) -> String {
    format!("outlines {shard:02}")
}

impl Shard {
    fn add(&mut self, key: Key, bytes: &[u8], is_used: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.places.insert(key, (start..self.bytes.len(), is_used));
        self.has_changed = true;
    }

    /// Decodes a stored shard; `None` if it is invalid or of another version.
    fn unpacked(bytes: Vec<u8>, format: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(format)?;
        let mut places = HashMap::new();
        while !rest.is_empty() {
            let ((key, length), after): ((Key, usize), &[u8]) = take_from_bytes(rest).ok()?;
            let start = bytes.len() - after.len();
            rest = after.get(length..)?;
            places.insert(key, (start..start + length, false));
        }
        Some(Self { bytes, places, has_changed: false })
    }

    /// Encodes a shard. If it is too large, entries that this search has not used are dropped
    /// first.
    fn packed(&self, format: &[u8]) -> Vec<u8> {
        let mut entries: Vec<_> = self.places.iter().collect();
        entries.sort_unstable_by_key(|(key, (_, is_used))| (!is_used, **key));
        let mut packed = format.to_vec();
        for (key, (place, _)) in entries {
            let before = packed.len();
            let written = to_extend(&(key, place.len()), std::mem::take(&mut packed));
            packed = written.unwrap_or_default();
            packed.extend_from_slice(&self.bytes[place.clone()]);
            if packed.len() > MAX_SHARD_BYTES {
                packed.truncate(before);
                break;
            }
        }
        packed
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::language::Language;
    use crate::project::testing::Memory;

    fn outline(number: usize) -> Outline {
        Language::Python.outline("a.py", &format!("class C{number}:\n    def get(self): ..."))
    }

    fn key(number: usize) -> Key {
        Index::key("a.py", &number.to_le_bytes())
    }

    /// An index with new entries for some of `files`.
    fn filled(files: &Memory, numbers: Range<usize>) -> Index<'_> {
        let mut index = Index::new(files);
        for number in numbers {
            index.add(key(number), &Entry::new(&outline(number)));
        }
        index
    }

    #[test]
    fn stored_entries_are_found() {
        let files = Memory::default();
        filled(&files, 0..100).keep();
        assert_eq!(files.1.borrow().len(), usize::from(SHARD_COUNT));
        let mut index = Index::new(&files);
        for number in 0..100 {
            assert_eq!(index.find(&key(number)), Some(Entry::new(&outline(number))));
        }
        assert_eq!(index.find(&key(100)), None);
        // Earlier entries remain beside new ones.
        filled(&files, 100..200).keep();
        let mut index = Index::new(&files);
        assert!((0..200).all(|number| index.find(&key(number)).is_some()));
    }

    #[test]
    fn few_new_entries_are_not_stored() {
        let files = Memory::default();
        filled(&files, 0..MIN_NEW_FILES - 1).keep();
        assert!(files.1.borrow().is_empty());
    }

    #[test]
    fn an_invalid_shard_is_ignored() {
        let files = Memory::default();
        filled(&files, 0..100).keep();
        let whole = files.1.borrow().clone();
        for damage in [
            |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1),
            |bytes: &mut Vec<u8>| bytes.truncate(5),
            |bytes: &mut Vec<u8>| bytes[0] ^= 1,
            |bytes: &mut Vec<u8>| bytes.extend([0xff; 40]),
            |bytes: &mut Vec<u8>| bytes.clear(),
        ] {
            let mut damaged = whole.clone();
            damaged.values_mut().for_each(damage);
            *files.1.borrow_mut() = damaged;
            let mut index = Index::new(&files);
            assert!((0..100).all(|number| index.find(&key(number)).is_none()));
            filled(&files, 0..100).keep();
            assert_eq!(*files.1.borrow(), whole);
        }
    }

    #[test]
    fn the_extension_is_part_of_the_key() {
        let key = |path: &str| Index::key(path, b"let a = <T>x;");
        assert_eq!(key("a/b.ts"), key("c/d.ts"));
        assert_ne!(key("a.ts"), key("a.tsx"));
        assert_ne!(key("a.ts"), key("a.d.ts"));
        assert_ne!(Index::key("a.ts", b"x"), Index::key("a.t", b"sx"));
    }

    #[test]
    fn the_size_of_a_shard_is_limited() {
        let mut shard = Shard::default();
        for number in 0..8_u8 {
            shard.add([number; 32], &vec![number; MAX_SHARD_BYTES / 4], number >= 6);
        }
        let packed = shard.packed(b"f");
        assert!(packed.len() <= MAX_SHARD_BYTES);
        let kept = Shard::unpacked(packed, b"f").unwrap().places;
        assert_eq!(kept.len(), 3);
        // The entries that were used, and one more.
        assert!(kept.contains_key(&[6; 32]) && kept.contains_key(&[7; 32]));
    }
}
