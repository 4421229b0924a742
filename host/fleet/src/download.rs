//! Reading a tree and the content of files from a store. Everything is compared with its digest before
//! it is used; what is fetched goes to the disk, not into memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::path::join;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::PARALLEL;
use crate::error::FleetError;
use crate::store::Store;
use crate::tree::{
    Content, Directories, DirectoryRef, Entry, Item, Items, MAX_DEPTH, MAX_ENTRIES, Node,
    decode_directory,
};

/// What was fetched from a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) objects: usize,
    pub(crate) bytes: u64,
}

impl Fetched {
    fn add(&mut self, bytes: usize) {
        self.objects += 1;
        self.bytes += bytes as u64;
    }
}

/// Reads the tree of a commit, and the objects of its directories. Directories that are the same in `base` are
/// not fetched.
///
/// # Errors
/// [`FleetError::Invalid`], [`FleetError::MissingObject`], [`FleetError::WrongContent`],
/// [`FleetError::Store`].
pub(crate) async fn tree(
    store: &Store,
    root: DirectoryRef,
    base: (&Items, &Directories),
    fetched: &mut Fetched,
) -> Result<(Items, Directories), FleetError> {
    let (mut items, mut directories) = (Items::new(), Directories::new());
    let mut level = vec![(String::new(), root)];
    for _ in 0..MAX_DEPTH {
        if level.is_empty() {
            return Ok((items, directories));
        }
        let is_known = |(place, directory): &(String, DirectoryRef)| {
            base.1.get(place).is_some_and(|known| known == directory)
        };
        let (known, unknown): (Vec<_>, Vec<_>) = level.into_iter().partition(is_known);
        for (place, directory) in known {
            copy(base.0, &place, &mut items);
            copy(base.1, &place, &mut directories);
            directories.insert(place, directory);
        }
        directories.extend(unknown.iter().cloned());
        level = Vec::new();
        let reads = unknown.into_iter().map(|(place, directory)| async move {
            let bytes = store.object(directory.digest, directory.size).await?;
            Ok::<_, FleetError>((decode_directory(&place, &bytes)?, place, bytes.len()))
        });
        let mut reads = stream::iter(reads).buffer_unordered(PARALLEL);
        while let Some((entries, place, bytes)) = reads.try_next().await? {
            fetched.add(bytes);
            add(&mut items, &mut level, &place, entries);
            if items.len() > MAX_ENTRIES {
                let why = format!("it has more than {MAX_ENTRIES} files, links and directories");
                return Err(FleetError::invalid("the tree", why));
            }
        }
    }
    let why = format!("directories are nested more than {MAX_DEPTH} deep");
    Err(FleetError::invalid("the tree", why))
}

/// Copies what is below a place.
fn copy<T: Clone>(from: &BTreeMap<String, T>, place: &str, to: &mut BTreeMap<String, T>) {
    let is_below = |other: &str| {
        let rest = other.strip_prefix(place);
        rest.is_some_and(|rest| place.is_empty() || rest.starts_with('/'))
    };
    let inside = from.range(place.to_owned()..).take_while(|(other, _)| other.starts_with(place));
    let below = inside.filter(|(other, _)| is_below(other));
    to.extend(below.map(|(other, item)| (other.clone(), item.clone())));
}

fn add(
    items: &mut Items,
    level: &mut Vec<(String, DirectoryRef)>,
    directory: &str,
    entries: Vec<Entry>,
) {
    for Entry { name, node } in entries {
        let place = join(directory, &name);
        let item = match node {
            Node::Directory(below) => {
                level.push((place.clone(), below));
                Item::Directory
            }
            Node::File(content) => Item::File(content),
            Node::Executable(content) => Item::Executable(content),
            Node::Link { target } => Item::Link(target),
        };
        items.insert(place, item);
    }
}

/// The parts of files that were fetched, in a file without a name.
pub(crate) struct Spool {
    file: File,
    end: u64,
    /// Where each part is, by its digest and size.
    parts: HashMap<(Digest, u64), u64>,
}

impl Spool {
    /// Creates a spool in a directory.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn new(directory: &std::path::Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        Ok(Self { file, end: 0, parts: HashMap::new() })
    }

    /// Whether it has all parts of a content.
    pub(crate) fn has(&self, content: &Content) -> bool {
        content.parts().all(|(_, digest, size)| self.parts.contains_key(&(digest, size)))
    }

    /// Fetches the parts that are missing.
    ///
    /// # Errors
    /// [`FleetError::MissingObject`], [`FleetError::WrongContent`], [`FleetError::Store`]; an I/O error.
    pub(crate) async fn fetch(
        &mut self,
        store: &Store,
        contents: impl Iterator<Item = &Content>,
        fetched: &mut Fetched,
    ) -> Result<(), FleetError> {
        let wanted: BTreeSet<(Digest, u64)> = contents
            .flat_map(|content| content.parts().map(|(_, digest, size)| (digest, size)))
            .filter(|part| !self.parts.contains_key(part))
            .collect();
        let reads = wanted.into_iter().map(|part| async move {
            Ok::<_, FleetError>((part, store.object(part.0, part.1).await?))
        });
        let mut reads = stream::iter(reads).buffer_unordered(PARALLEL);
        while let Some((part, bytes)) = reads.try_next().await? {
            self.file.write_all_at(&bytes, self.end)?;
            self.parts.insert(part, self.end);
            self.end += part.1;
            fetched.add(bytes.len());
        }
        Ok(())
    }

    /// Writes a content to a file.
    ///
    /// # Errors
    /// `NotFound` if a part was not fetched; an I/O error.
    pub(crate) fn write(&self, content: &Content, to: &mut File) -> io::Result<()> {
        let mut buffer = Vec::new();
        for (_, digest, size) in content.parts() {
            let at = self.parts.get(&(digest, size)).ok_or(io::ErrorKind::NotFound)?;
            buffer.resize(usize::try_from(size).unwrap_or(0), 0);
            self.file.read_exact_at(&mut buffer, *at)?;
            io::Write::write_all(to, &buffer)?;
        }
        Ok(())
    }
}
