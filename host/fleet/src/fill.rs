//! Writing the tree of a commit into a new directory: directories first, links last, so that no file is
//! written through a link. Each content is read once, compared with its digests, and written to its places.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;

use bytes::Bytes;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{CommitError, ExecutedFile, NewFiles, NewTree, Workspace};
use tokio::runtime::Handle;

use crate::PARALLEL;
use crate::download::Fetched;
use crate::error::FleetError;
use crate::pull::{Incoming, check_room};
use crate::store::Store;
use crate::tree::{Content, Item};

/// How many contents a thread takes at a time: files of one directory are created by one thread.
const BATCH: usize = 32;

/// Fills a workspace without files with the tree that a store has.
///
/// # Errors
/// [`FleetError::TooLarge`], [`FleetError::MissingObject`], [`FleetError::WrongContent`];
/// [`FleetError::Commit`] for what a workspace may not contain, and if a file can't be written. The
/// workspace may have a part of the tree then.
pub(crate) async fn fill(
    workspace: &Arc<Workspace>,
    store: Store,
    incoming: &mut Incoming,
) -> Result<(), FleetError> {
    let (workspace, runtime) = (Arc::clone(workspace), Handle::current());
    let items = std::mem::take(&mut incoming.delta.items);
    let work = move || {
        let tree = items.iter().filter_map(|(place, item)| Some((&**place, item.as_ref()?)));
        let parts = Parts::of(tree);
        let source = Source { store: &store, runtime: &runtime };
        let filled = parts.write(&workspace, source);
        (items, filled)
    };
    let (items, filled) = tokio::task::spawn_blocking(work).await.map_err(io::Error::from)?;
    incoming.delta.items = items;
    let Filled { written, fetched, executed } = filled?;
    incoming.fetched.objects += fetched.objects;
    incoming.fetched.bytes += fetched.bytes;
    (incoming.pulled.written, incoming.pulled.executed) = (written, executed);
    Ok(())
}

/// Where contents are read.
#[derive(Clone, Copy)]
struct Source<'a> {
    store: &'a Store,
    runtime: &'a Handle,
}

/// The result of filling a workspace.
struct Filled {
    written: usize,
    fetched: Fetched,
    executed: Vec<ExecutedFile>,
}

/// A tree, by what is done one after the other.
#[derive(Default)]
struct Parts<'a> {
    /// The directory of a directory comes before it.
    directories: Vec<&'a str>,
    /// Different contents, each with the files that have it.
    contents: Vec<(&'a Content, Vec<NewFile<'a>>)>,
    files: Vec<&'a str>,
    links: Vec<(&'a str, &'a str)>,
}

/// A file to be created.
struct NewFile<'a> {
    place: &'a str,
    is_executable: bool,
}

impl<'a> Parts<'a> {
    fn of(tree: impl Iterator<Item = (&'a str, &'a Item)>) -> Self {
        let mut parts = Self::default();
        let mut indices: HashMap<(&[Digest], u64), usize> = HashMap::new();
        for (place, item) in tree {
            let content = match item {
                Item::Directory => {
                    parts.directories.push(place);
                    continue;
                }
                Item::Link(target) => {
                    parts.links.push((place, target));
                    continue;
                }
                Item::File(content) | Item::Executable(content) => content,
            };
            let new = NewFile { place, is_executable: matches!(item, Item::Executable(_)) };
            let next = parts.contents.len();
            let index = *indices.entry((&content.parts, content.size)).or_insert(next);
            if index == next {
                parts.contents.push((content, Vec::new()));
            }
            parts.contents[index].1.push(new);
            parts.files.push(place);
        }
        parts
    }

    fn write(&self, workspace: &Workspace, source: Source<'_>) -> Result<Filled, FleetError> {
        let each = self.contents.iter();
        check_room(workspace, each.flat_map(|(content, files)| files.iter().map(|_| *content)))?;
        let tree = NewTree::begin(workspace)?;
        let mut others = tree.files();
        self.directories.iter().try_for_each(|place| others.create_directory(place))?;
        let fetched = self.write_files(tree, source)?;
        self.links.iter().try_for_each(|(place, target)| others.create_link(target, place))?;
        let links: Vec<&str> = self.links.iter().map(|(place, _)| *place).collect();
        let executed = tree.finish(&self.directories, &self.files, &links)?;
        Ok(Filled { written: self.files.len() + links.len(), fetched, executed })
    }

    /// Writes the files, on several threads.
    fn write_files(&self, tree: NewTree<'_>, source: Source<'_>) -> Result<Fetched, FleetError> {
        let batches: Vec<_> = self.contents.chunks(BATCH).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let (mut files, mut fetched) = (tree.files(), Fetched::default());
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                for (content, places) in *batch {
                    let written = write(&mut files, (content, places), source, &mut fetched);
                    // The other threads have nothing to do any more.
                    written.inspect_err(|_| next.store(batches.len(), Ordering::Relaxed))?;
                }
            }
            Ok::<_, FleetError>(fetched)
        };
        let threads = PARALLEL.min(batches.len());
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            let mut results = threads.into_iter().map(ScopedJoinHandle::join);
            results.try_fold(Fetched::default(), |sum, result| {
                let failed = |_| Err(io::Error::other("a thread panicked").into());
                let Fetched { objects, bytes } = result.unwrap_or_else(failed)?;
                Ok(Fetched { objects: sum.objects + objects, bytes: sum.bytes + bytes })
            })
        })
    }
}

/// Writes a content to each of its files.
fn write(
    files: &mut NewFiles<'_>,
    (content, places): (&Content, &[NewFile<'_>]),
    source: Source<'_>,
    fetched: &mut Fetched,
) -> Result<(), FleetError> {
    let mut first: Option<File> = None;
    for NewFile { place, is_executable } in places {
        let failed = |source| CommitError::Io { place: (*place).to_owned(), source };
        let mut file = files.create_file(place, *is_executable)?;
        if let Some(first) = &mut first {
            first.rewind().and_then(|()| io::copy(first, &mut file)).map_err(failed)?;
            continue;
        }
        let mut last: Option<(Digest, Bytes)> = None;
        for (_, digest, size) in content.parts() {
            let bytes = match last.take() {
                // Large files often have the same part many times.
                Some((same, bytes)) if same == digest && bytes.len() as u64 == size => bytes,
                _ => {
                    fetched.add(size);
                    source.store.wait_for_object((digest, size), source.runtime)?
                }
            };
            file.write_all(&bytes).map_err(failed)?;
            last = Some((digest, bytes));
        }
        first = Some(file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_plugin::http::Client;
    use cofferdam_workspace::Secret;

    use super::*;
    use crate::store::{Access, Address};

    /// A small store can describe large files: they are refused before anything is read or created.
    #[test]
    fn files_that_have_no_room_are_refused_before_anything_is_created() {
        let (place, objects) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let workspace = Workspace::open(place.path(), Secret::OfProcess).unwrap();
        let access = Access { variables: Vec::new(), client: Arc::new(Client::new(None)) };
        let address = Address::Directory(objects.path().to_owned());
        let store = Store::open(&address, &access, false).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        // Each place of a content needs room.
        let large = Item::File(Content { size: 1 << 50, parts: vec![Digest::of(b"x")] });
        let items = [
            ("d", &Item::Directory),
            ("d/a", &large),
            ("d/b", &large),
            ("link", &Item::Link("d".to_owned())),
        ];
        let source = Source { store: &store, runtime: runtime.handle() };
        let error = Parts::of(items.into_iter()).write(&workspace, source).err().unwrap();
        assert!(matches!(error, FleetError::TooLarge { bytes, .. } if bytes == 2 << 50), "{error}");
        assert_eq!(workspace.plain().list("").unwrap().len(), 0);
    }
}
