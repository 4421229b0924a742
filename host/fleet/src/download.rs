//! Reading a tree and the content of files from a store. Everything is compared with its digest before
//! it is used; what is fetched goes to the disk, not into memory.

use std::collections::{BTreeSet, HashMap};
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
    Content, Delta, Directories, DirectoryRef, Entry, Item, Items, MAX_DEPTH, MAX_ENTRIES, Node,
    below, children, decode_directory,
};

/// What was fetched from a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) objects: usize,
    pub(crate) bytes: u64,
}

impl Fetched {
    pub(crate) fn add(&mut self, bytes: u64) {
        self.objects += 1;
        self.bytes += bytes;
    }
}

/// Returns what differs between a tree and that of a commit. Directories that are the same are not fetched.
///
/// # Errors
/// [`FleetError::Invalid`], [`FleetError::MissingObject`], [`FleetError::WrongContent`],
/// [`FleetError::Store`].
pub(crate) async fn delta(
    store: &Store,
    root: DirectoryRef,
    base: (&Items, &Directories),
    fetched: &mut Fetched,
) -> Result<Delta, FleetError> {
    let mut delta = Delta::default();
    let too_many = || {
        let why = format!("it has more than {MAX_ENTRIES} files, links and directories");
        FleetError::invalid("the tree", why)
    };
    let mut level = vec![(String::new(), root)];
    let mut added = 0;
    for _ in 0..MAX_DEPTH {
        level.retain(|(place, directory)| base.1.get(place) != Some(directory));
        if level.is_empty() {
            let is_new = |place: &String| !base.0.contains_key(place);
            let (some, none): (Vec<_>, Vec<_>) = delta.items.iter().partition(|it| it.1.is_some());
            let new = some.into_iter().filter(|(place, _)| is_new(place)).count();
            let total = base.0.len() + new - none.len();
            return if total > MAX_ENTRIES { Err(too_many()) } else { Ok(delta) };
        }
        let reads = level.into_iter().map(|(place, directory)| async move {
            let bytes = store.object(directory.digest, directory.size).await?;
            Ok::<_, FleetError>((decode_directory(&place, &bytes)?, (place, directory)))
        });
        let mut reads = stream::iter(reads).buffer_unordered(PARALLEL);
        level = Vec::new();
        while let Some((entries, (place, directory))) = reads.try_next().await? {
            fetched.add(directory.size);
            added += entries.len();
            if added > MAX_ENTRIES {
                return Err(too_many());
            }
            compare(&place, entries, base, &mut delta, &mut level);
            delta.directories.insert(place, Some(directory));
        }
    }
    let why = format!("directories are nested more than {MAX_DEPTH} deep");
    Err(FleetError::invalid("the tree", why))
}

/// Adds what differs in a directory; `level` gets the directories in it.
fn compare(
    directory: &str,
    entries: Vec<Entry>,
    base: (&Items, &Directories),
    delta: &mut Delta,
    level: &mut Vec<(String, DirectoryRef)>,
) {
    let mut gone: BTreeSet<String> =
        children(base.0, directory).map(|(name, _)| join(directory, name)).collect();
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
        gone.remove(&place);
        let before = base.0.get(&place);
        if before == Some(&item) {
            continue;
        }
        if before == Some(&Item::Directory) {
            remove_below(&place, base, delta);
        }
        delta.items.insert(place, Some(item));
    }
    for place in gone {
        remove_below(&place, base, delta);
        delta.items.insert(place, None);
    }
}

/// Removes a directory's contents and objects.
fn remove_below(directory: &str, base: (&Items, &Directories), delta: &mut Delta) {
    delta.items.extend(below(base.0, directory).map(|(place, _)| (place.clone(), None)));
    delta.directories.extend(below(base.1, directory).map(|(place, _)| (place.clone(), None)));
    if base.1.contains_key(directory) {
        delta.directories.insert(directory.to_owned(), None);
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
            fetched.add(part.1);
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
