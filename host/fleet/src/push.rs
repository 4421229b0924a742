//! Uploading a workspace, and creating the next commit of its store.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{History, HistoryError, Overlay, Transaction, Workspace};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::PARALLEL;
use crate::chain::head;
use crate::commit::{About, CommitSource, SourceCall, StoredCommit};
use crate::error::FleetError;
use crate::local::Synced;
use crate::pull::{LOCK_TIMEOUT, Pulled, pull_from};
use crate::scan::{Known, LeftOut, Scanned, scan};
use crate::store::{Access, Address, Store};
use crate::tree::{Content, Directories, Encoded, Items, PART_BYTES, directories, encode};

/// How often a push is tried while the workspace changes, or others push.
const ATTEMPTS: usize = 5;

/// How many commits of the workspace a commit of the store names.
const MAX_SOURCES: usize = 1_000;

/// How a workspace is pushed.
pub struct PushOptions<'a> {
    /// Whether newer commits of the store are pulled first.
    pub pull: bool,
    /// Whether files are pushed that ignore rules leave out.
    pub ignored: bool,
    /// What the user says about the commit.
    pub message: Option<String>,
    /// Returns the qualified name of the tool of a call, by the id of the call.
    pub tool_of: &'a dyn Fn(&str) -> Option<String>,
}

/// The result of a push.
#[derive(Debug, Default)]
pub struct Pushed {
    /// The address of the store.
    pub store: String,
    /// The commit that was created; `None` if nothing has changed since the last one.
    pub commit: Option<StoredCommit>,
    /// The number of the latest commit.
    pub number: u64,
    /// How many files and links the workspace has.
    pub files: usize,
    /// Their size, in bytes.
    pub bytes: u64,
    /// How many objects the store did not have.
    pub new_objects: usize,
    /// Their size, in bytes.
    pub new_bytes: u64,
    /// How many files and directories ignore rules leave out.
    pub ignored: usize,
    /// The first files that are left out for other reasons.
    pub left_out: Vec<LeftOut>,
    /// What was pulled first, if something was.
    pub pulled: Option<Pulled>,
}

/// Where the content of an object is.
#[derive(Clone)]
pub(crate) enum Source {
    Part { place: String, offset: u64, size: u64 },
    Bytes(Bytes),
}

/// Pushes a workspace to the store that is named, or else to the one that it is synced with.
///
/// # Errors
/// See [`FleetError`]. The store has no new commit then.
pub async fn push(
    workspace: &Arc<Workspace>,
    address: Option<Address>,
    access: &Access,
    options: PushOptions<'_>,
) -> Result<Pushed, FleetError> {
    let mut synced = Synced::lock(workspace)?;
    let store = synced.open(address, access, true).await?;
    let id = store.prepare().await?;
    let mut pulled = None;
    for _ in 0..ATTEMPTS {
        let seen = synced.state.commit;
        let head = head(&store, seen).await?;
        let newest = head.as_ref().map_or(0, |head| head.commit.number);
        if newest > seen.map_or(0, |(number, _)| number) {
            if !options.pull {
                return Err(FleetError::Behind(newest));
            }
            pulled = Some(pull_from(&mut synced, &store).await?);
            continue;
        }
        match attempt(&mut synced, &store, &id, &options).await {
            Ok(Some(pushed)) => return Ok(Pushed { pulled, ..pushed }),
            Ok(None) if !options.pull => return Err(FleetError::Behind(newest + 1)),
            Ok(None) | Err(FleetError::Changing(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(FleetError::LostRaces(ATTEMPTS))
}

/// Pushes the workspace as it is now. Returns `None` if another host has created the commit first.
async fn attempt(
    synced: &mut Synced,
    store: &Store,
    id: &str,
    options: &PushOptions<'_>,
) -> Result<Option<Pushed>, FleetError> {
    let workspace = Arc::clone(&synced.workspace);
    // No other call changes the workspace while its tree is read.
    let (transaction, _) = Transaction::begin(&workspace, LOCK_TIMEOUT).await?;
    let state = &synced.state;
    let known = Known { items: &state.items, stamps: &state.stamps };
    let scanned = scan(&workspace, known, options.ignored)?;
    let sources = sources(&workspace, state.pushed.as_deref(), options.tool_of)?;
    let latest = History::new(Arc::clone(&workspace)).list(1).map_err(history)?;
    drop(transaction);
    let latest = latest.into_iter().next().map(|commit| commit.id.to_string());

    let after = encode(&scanned.items, &Directories::new(), &directories(&scanned.items))?;
    let (root, _) = after[""];
    let mut pushed = counts(&scanned);
    pushed.store = store.name().to_owned();
    pushed.number = state.commit.map_or(0, |(number, _)| number);
    if state.commit.is_none() || state.directories.get("") != Some(&root) {
        let objects = new_objects((&state.items, &state.directories), &scanned.items, &after);
        let plain = workspace.plain();
        (pushed.new_objects, pushed.new_bytes) = upload(store, plain, objects).await?;
        let about = About { message: options.message.clone(), sources, call: None };
        let (commit, bytes) = StoredCommit::after(state.commit, root, about)?;
        let digest = Digest::of(&bytes);
        if !store.create_commit(&commit, bytes).await? {
            return Ok(None);
        }
        pushed.number = commit.number;
        synced.state.commit = Some((commit.number, digest));
        pushed.commit = Some(commit);
        synced.state.pushed = latest;
    }
    let state = &mut synced.state;
    (state.store, state.id) = (store.name().to_owned(), id.to_owned());
    (state.items, state.stamps) = (scanned.items, scanned.stamps);
    state.directories =
        after.into_iter().map(|(place, (directory, _))| (place, directory)).collect();
    synced.save()?;
    Ok(Some(pushed))
}

fn counts(scanned: &Scanned) -> Pushed {
    let contents = scanned.items.values().filter_map(|item| item.content());
    Pushed {
        files: scanned.items.values().filter(|item| **item != crate::tree::Item::Directory).count(),
        bytes: contents.map(|content| content.size).sum(),
        ignored: scanned.ignored,
        left_out: scanned.left_out.clone(),
        ..Pushed::default()
    }
}

/// The commits of the workspace since the last one that was pushed, the oldest first, and how many
/// further ones there are.
fn sources(
    workspace: &Arc<Workspace>,
    pushed: Option<&str>,
    tool_of: &dyn Fn(&str) -> Option<String>,
) -> Result<(Vec<CommitSource>, usize), FleetError> {
    let (page, total) =
        History::new(Arc::clone(workspace)).page(0, MAX_SOURCES).map_err(history)?;
    let count = page.iter().take_while(|listed| Some(&*listed.commit.id) != pushed).count();
    let further = if count == page.len() { total - count } else { 0 };
    let source = |listed: &cofferdam_workspace::ListedCommit| CommitSource {
        id: listed.commit.id.to_string(),
        calls: listed
            .commit
            .calls
            .iter()
            .map(|id| SourceCall { id: id.clone(), tool: tool_of(id) })
            .collect(),
    };
    Ok((page[..count].iter().rev().map(source).collect(), further))
}

fn history(error: HistoryError) -> FleetError {
    match error {
        HistoryError::Io(error) => error.into(),
        other => io::Error::other(other).into(),
    }
}

/// The objects of a tree that are not in the tree before, which is empty before the first commit.
fn new_objects(
    (items_before, directories_before): (&Items, &Directories),
    after: &Items,
    encoded_after: &Encoded,
) -> HashMap<Digest, Source> {
    let mut objects = HashMap::new();
    for (place, item) in after {
        for (index, digest, size) in item.content().into_iter().flat_map(|content| content.parts())
        {
            let offset = index as u64 * PART_BYTES;
            objects.insert(digest, Source::Part { place: place.clone(), offset, size });
        }
    }
    let directories = encoded_after.values();
    objects.extend(
        directories.map(|(directory, bytes)| (directory.digest, Source::Bytes(bytes.clone()))),
    );
    let parts = items_before.values().filter_map(|item| item.content()).flat_map(Content::parts);
    parts.for_each(|(_, digest, _)| drop(objects.remove(&digest)));
    let directories = directories_before.values();
    directories.for_each(|directory| drop(objects.remove(&directory.digest)));
    objects
}

/// Uploads the objects that the store does not have. Returns how many, and their size in bytes.
pub(crate) async fn upload(
    store: &Store,
    tree: &Arc<Overlay>,
    objects: HashMap<Digest, Source>,
) -> Result<(usize, u64), FleetError> {
    let uploads = objects.into_iter().map(|(digest, source)| async move {
        let size = match &source {
            Source::Part { size, .. } => *size,
            Source::Bytes(bytes) => bytes.len() as u64,
        };
        if store.has(digest, size).await? {
            return Ok((0, 0));
        }
        let bytes = match source {
            Source::Bytes(bytes) => bytes,
            Source::Part { place, offset, size } => {
                let tree = Arc::clone(tree);
                let read = move || read_part(&tree, (&place, offset, size), digest);
                tokio::task::spawn_blocking(read).await.map_err(io::Error::from)??
            }
        };
        store.put(digest, bytes).await?;
        Ok::<_, FleetError>((1, size))
    });
    let mut uploads = stream::iter(uploads).buffer_unordered(PARALLEL);
    let mut uploaded = (0, 0);
    while let Some((objects, bytes)) = uploads.try_next().await? {
        uploaded = (uploaded.0 + objects, uploaded.1 + bytes);
    }
    Ok(uploaded)
}

/// Reads a part of a file again, which has to have the digest that it had.
fn read_part(
    tree: &Overlay,
    (place, offset, size): (&str, u64, u64),
    digest: Digest,
) -> Result<Bytes, FleetError> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let read = tree.open_read(place).and_then(|(file, _)| file.read_exact_at(&mut bytes, offset));
    if read.is_err() || Digest::of(&bytes) != digest {
        return Err(FleetError::Changing(place.to_owned()));
    }
    Ok(bytes.into())
}
