//! What files define, kept from call to call: a file whose contents are known need not be parsed
//! to see whether it defines a name.
//!
//! For each file's contents, by their digest, there are its symbols' names and kinds, and what is
//! wrong with it. They lie on shelves, by the digests' first bits; a search takes those that it
//! needs, and puts back those to which it has added much. Whoever else does so at the same time
//! puts back a shelf of their own: what is missing then is parsed again.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use postcard::{take_from_bytes, to_extend};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::outline::{Kind, Outline, Problem};
use crate::project::Files;

/// How many shelves there are.
const SHELVES: u8 = 32;

/// How large a shelf may be, in bytes.
const SIZE: usize = 6 << 20;

/// How many files have to be new before anything is put back. Parsing fewer again takes less time
/// than writing what they define.
const WORTH: usize = 32;

/// What a shelf begins with. The number is to be raised whenever outlines hold something else.
const FORMAT: &str = "outlines 1";

/// The versions of all parsers.
const PARSERS: &[u8] = include_bytes!("../Cargo.lock");

/// What names the contents of a file.
type Key = [u8; 32];

/// What a file defines, as far as a search has to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry<'a> {
    /// The package that a Go file belongs to.
    pub package: Option<&'a str>,
    /// The line and the words of what is wrong with the file.
    pub problem: Option<(usize, &'a str)>,
    /// For each symbol its kind and the names that lead to it, the last its own.
    #[serde(borrow)]
    pub symbols: Vec<(Kind, Vec<&'a str>)>,
}

impl<'a> Entry<'a> {
    /// What an outline says.
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

/// The index of one search.
pub struct Index<'a> {
    files: &'a dyn Files,
    format: Vec<u8>,
    shelves: BTreeMap<u8, Shelf>,
    added: usize,
}

/// Entries as they are kept, one after the other.
#[derive(Default)]
struct Shelf {
    bytes: Vec<u8>,
    /// Where each entry is, and whether this search has asked for it.
    places: HashMap<Key, (Range<usize>, bool)>,
    has_changed: bool,
}

impl<'a> Index<'a> {
    /// Nothing is read yet.
    pub fn new(files: &'a dyn Files) -> Self {
        let mut format = FORMAT.as_bytes().to_vec();
        format.extend_from_slice(&Sha256::digest(PARSERS));
        Self { files, format, shelves: BTreeMap::new(), added: 0 }
    }

    /// What names a file of these contents. The end of its name says how it is parsed.
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

    /// What is known of a file.
    pub fn find(&mut self, key: &Key) -> Option<Entry<'_>> {
        let shelf = self.shelf(key);
        let (place, is_used) = shelf.places.get_mut(key)?;
        *is_used = true;
        postcard::from_bytes(&shelf.bytes[place.clone()]).ok()
    }

    /// Keeps what a file defines.
    pub fn add(&mut self, key: Key, entry: &Entry<'_>) {
        let Ok(bytes) = to_extend(entry, Vec::new()) else { return };
        self.shelf(&key).add(key, &bytes, true);
        self.added += 1;
    }

    /// Puts back what has changed, if that is worth it. What can't be kept is parsed again.
    pub fn keep(mut self) {
        if self.added < WORTH {
            return;
        }
        for (number, shelf) in &mut self.shelves {
            if shelf.has_changed {
                self.files.keep(&name(*number), &shelf.packed(&self.format));
            }
        }
    }

    fn shelf(&mut self, key: &Key) -> &mut Shelf {
        let number = key[0] % SHELVES;
        let (files, format) = (self.files, &self.format);
        self.shelves.entry(number).or_insert_with(|| {
            let kept = files.kept(&name(number));
            kept.and_then(|bytes| Shelf::unpacked(bytes, format)).unwrap_or_default()
        })
    }
}

fn name(shelf: u8) -> String {
    format!("outlines {shelf:02}")
}

impl Shelf {
    fn add(&mut self, key: Key, bytes: &[u8], is_used: bool) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.places.insert(key, (start..self.bytes.len(), is_used));
        self.has_changed = true;
    }

    /// A shelf as it was kept; none where it is another version's, or none at all.
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

    /// The shelf as it is kept. Where there is too much, what nobody has asked for goes first.
    fn packed(&self, format: &[u8]) -> Vec<u8> {
        let mut entries: Vec<_> = self.places.iter().collect();
        entries.sort_unstable_by_key(|(key, (_, is_used))| (!is_used, **key));
        let mut packed = format.to_vec();
        for (key, (place, _)) in entries {
            let before = packed.len();
            let written = to_extend(&(key, place.len()), std::mem::take(&mut packed));
            packed = written.unwrap_or_default();
            packed.extend_from_slice(&self.bytes[place.clone()]);
            if packed.len() > SIZE {
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

    /// An index that has just learned of `files`.
    fn filled(files: &Memory, numbers: Range<usize>) -> Index<'_> {
        let mut index = Index::new(files);
        for number in numbers {
            index.add(key(number), &Entry::new(&outline(number)));
        }
        index
    }

    #[test]
    fn what_was_kept_is_found() {
        let files = Memory::default();
        filled(&files, 0..100).keep();
        assert_eq!(files.1.borrow().len(), usize::from(SHELVES));
        let mut index = Index::new(&files);
        for number in 0..100 {
            assert_eq!(index.find(&key(number)), Some(Entry::new(&outline(number))));
        }
        assert_eq!(index.find(&key(100)), None);
        // What was there stays beside what is new.
        filled(&files, 100..200).keep();
        let mut index = Index::new(&files);
        assert!((0..200).all(|number| index.find(&key(number)).is_some()));
    }

    #[test]
    fn a_little_is_not_kept() {
        let files = Memory::default();
        filled(&files, 0..WORTH - 1).keep();
        assert!(files.1.borrow().is_empty());
    }

    #[test]
    fn what_is_no_shelf_is_thrown_away() {
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
    fn the_end_of_a_name_is_part_of_its_key() {
        let key = |path: &str| Index::key(path, b"let a = <T>x;");
        assert_eq!(key("a/b.ts"), key("c/d.ts"));
        assert_ne!(key("a.ts"), key("a.tsx"));
        assert_ne!(key("a.ts"), key("a.d.ts"));
        assert_ne!(Index::key("a.ts", b"x"), Index::key("a.t", b"sx"));
    }

    #[test]
    fn a_shelf_is_bounded() {
        let mut shelf = Shelf::default();
        for number in 0..8_u8 {
            shelf.add([number; 32], &vec![number; SIZE / 4], number >= 6);
        }
        let packed = shelf.packed(b"f");
        assert!(packed.len() <= SIZE);
        let kept = Shelf::unpacked(packed, b"f").unwrap().places;
        assert_eq!(kept.len(), 3);
        // Those that were asked for, and one more.
        assert!(kept.contains_key(&[6; 32]) && kept.contains_key(&[7; 32]));
    }
}
