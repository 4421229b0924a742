//! Taking the commits of a store over into a workspace, as one transaction.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::{
    Commit, ExecutedFile, Opening, Overlay, Purpose, Quota, Transaction, Workspace,
};

use crate::chain::{Head, head};
use crate::download::{Fetched, Spool, delta};
use crate::error::FleetError;
use crate::local::Synced;
use crate::merge::{Change, Changes, is_gone, merge};
use crate::scan::Known;
use crate::state::Stamp;
use crate::store::{Access, Address, Store};
use crate::tree::{Content, Delta, Item, Items, apply, same_but_for_case};

/// How long to wait for the workspace's lock while other processes change it.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a pull is tried while the workspace changes.
const ATTEMPTS: usize = 5;

/// The result of a pull.
#[derive(Debug, Default)]
pub struct Pulled {
    /// The address of the store.
    pub store: String,
    /// The number of the commit that the workspace has now.
    pub number: u64,
    /// How many new commits of the store it has now.
    pub new_commits: u64,
    /// How many files and links were created or changed.
    pub written: usize,
    /// How many files and links were removed.
    pub removed: usize,
    /// How many objects were fetched from the store, besides commits.
    pub fetched_objects: usize,
    /// Their size, in bytes.
    pub fetched_bytes: u64,
    /// The files that were written and that other programs execute by their names.
    pub executed: Vec<ExecutedFile>,
    /// The commit in the history of the workspace; `None` if nothing had to be changed.
    pub commit: Option<Commit>,
}

/// Takes over the new commits of the store that is named, or else of the one that the workspace is
/// synced with.
///
/// # Errors
/// See [`FleetError`]. Nothing was changed then.
pub async fn pull(
    workspace: &Arc<Workspace>,
    address: Option<Address>,
    access: &Access,
) -> Result<Pulled, FleetError> {
    let mut synced = Synced::lock(workspace)?;
    let store = synced.open(address, access, false).await?;
    pull_from(&mut synced, &store).await
}

/// Takes over the new commits of a store.
///
/// # Errors
/// As for [`pull`].
pub(crate) async fn pull_from(synced: &mut Synced, store: &Store) -> Result<Pulled, FleetError> {
    let mut incoming = Incoming::read(synced, store).await?;
    take_over(synced, store, &mut incoming).await?;
    incoming.end(synced)
}

/// The new commits of a store, which the workspace does not have yet.
pub(crate) struct Incoming {
    /// The id of the store.
    id: String,
    head: (u64, Digest),
    /// What differs from the tree that was synced last.
    pub(crate) delta: Delta,
    pub(crate) pulled: Pulled,
    pub(crate) fetched: Fetched,
}

impl Incoming {
    /// Reads the latest commit of a store, and its directories that differ.
    ///
    /// # Errors
    /// As for [`pull`].
    pub(crate) async fn read(synced: &Synced, store: &Store) -> Result<Self, FleetError> {
        let empty = || FleetError::Empty(store.name().to_owned());
        let id = store.id().await?.ok_or_else(empty)?;
        let seen = synced.state.commit;
        let Head { commit, digest } = head(store, seen).await?.ok_or_else(empty)?;
        let pulled = Pulled {
            store: store.name().to_owned(),
            number: commit.number,
            new_commits: commit.number - seen.map_or(0, |(number, _)| number),
            ..Pulled::default()
        };
        let mut fetched = Fetched::default();
        let state = &synced.state;
        let known = (&state.items, &state.directories);
        let delta = delta(store, commit.tree, known, &mut fetched).await?;
        check_case(&synced.workspace, &state.items, &delta)?;
        Ok(Self { id, head: (commit.number, digest), delta, pulled, fetched })
    }

    /// Notes that the workspace has them.
    ///
    /// # Errors
    /// An I/O error.
    pub(crate) fn end(self, synced: &mut Synced) -> Result<Pulled, FleetError> {
        let Self { id, head, delta, mut pulled, fetched } = self;
        (pulled.fetched_objects, pulled.fetched_bytes) = (fetched.objects, fetched.bytes);
        let state = &mut synced.state;
        state.stamps.retain(|place, _| !delta.items.contains_key(place));
        apply(&mut state.items, delta.items);
        apply(&mut state.directories, delta.directories);
        (state.store, state.id) = (pulled.store.clone(), id);
        state.commit = Some(head);
        synced.save()?;
        Ok(pulled)
    }
}

/// Refuses a tree with two names that are one on a file system which takes upper and lower case for the
/// same. The host's own directory exists.
pub(crate) fn check_case(
    workspace: &Workspace,
    items: &Items,
    delta: &Delta,
) -> Result<(), FleetError> {
    if workspace.plain().stat(&cofferdam_workspace::OWN.to_uppercase()).is_err() {
        return Ok(());
    }
    let mut target = items.clone();
    apply(&mut target, delta.items.clone());
    match same_but_for_case(&target) {
        None => Ok(()),
        Some((one, other)) => {
            let why = format!("'{one}' and '{other}' are one file on this file system");
            Err(FleetError::invalid("the tree", why))
        }
    }
}

/// Changes the workspace to what a tree is.
async fn take_over(
    synced: &Synced,
    store: &Store,
    incoming: &mut Incoming,
) -> Result<(), FleetError> {
    let Incoming { delta, pulled, fetched, .. } = incoming;
    let target = &delta.items;
    let workspace = &synced.workspace;
    let state = &synced.state;
    let known = Known { items: &state.items, stamps: &state.stamps };
    let directory = workspace.path_of_own().ok_or(io::Error::from(io::ErrorKind::NotFound))?;
    let mut spool = Spool::new(&directory)?;
    for _ in 0..ATTEMPTS {
        // No other call waits for the store: the workspace is locked when everything is there.
        let changes = merge(workspace.plain(), known, target)?;
        if changes.is_empty() {
            return Ok(());
        }
        check_room(workspace, contents(&changes))?;
        spool.fetch(store, contents(&changes), fetched).await?;
        let (transaction, _) = Transaction::begin(workspace, LOCK_TIMEOUT).await?;
        let changes = merge(workspace.plain(), known, target)?;
        if !contents(&changes).all(|content| spool.has(content)) {
            continue;
        }
        let after = || changes.values().map(|change| (&change.before, &change.after));
        let is_file = |item: &Item| *item != Item::Directory;
        pulled.written = after().filter(|(_, after)| after.as_ref().is_some_and(is_file)).count();
        pulled.removed = after()
            .filter(|(before, after)| {
                after.is_none() && before.as_ref().is_some_and(|found| is_file(&found.item))
            })
            .count();
        let plain = Arc::clone(workspace.plain());
        let commit = move || {
            stage(transaction.overlay(), &plain, &changes, &spool)?;
            let executed = transaction.executed(None);
            let purpose = Purpose { from_store: true, ..Purpose::default() };
            Ok::<_, FleetError>((executed, transaction.commit(purpose)?))
        };
        let committed = tokio::task::spawn_blocking(commit).await.map_err(io::Error::from)??;
        (pulled.executed, pulled.commit) = committed;
        return Ok(());
    }
    Err(FleetError::Changing("the workspace".to_owned()))
}

/// Checks that the new files have room on the disk.
pub(crate) fn check_room<'a>(
    workspace: &Workspace,
    contents: impl Iterator<Item = &'a Content>,
) -> Result<(), FleetError> {
    let bytes = contents.fold(0_u64, |sum, content| sum.saturating_add(content.size));
    let disk = rustix::fs::statvfs(workspace.path()).map_err(io::Error::from)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if bytes > free { Err(FleetError::TooLarge { bytes, free }) } else { Ok(()) }
}

pub(crate) fn contents(changes: &Changes) -> impl Iterator<Item = &Content> {
    changes.values().filter_map(|change| change.after.as_ref()?.content())
}

/// Stages the changes. `plain` is the tree on the disk.
pub(crate) fn stage(
    overlay: &Overlay,
    plain: &Overlay,
    changes: &Changes,
    spool: &Spool,
) -> Result<(), FleetError> {
    let quota = Quota::new(u64::MAX, u64::MAX);
    // What is in a directory comes after it.
    for (place, change) in changes.iter().rev() {
        remove(overlay, place, change).map_err(|error| collision(place, error))?;
    }
    for (place, change) in changes {
        if let Some(item) = &change.after {
            write(overlay, place, (change, item), spool, &quota)
                .map_err(|error| collision(place, error))?;
        }
    }
    // The transaction has noted what it found; that has to be what was compared.
    for (place, change) in changes {
        let Some(found) = change.before.as_ref().filter(|found| found.item != Item::Directory)
        else {
            continue;
        };
        if plain.stat(place).map(|stat| Stamp::of(&stat)).ok() != Some(found.stamp) {
            return Err(FleetError::Collides(vec![place.clone()]));
        }
    }
    Ok(())
}

/// Removes what does not become something of the same kind.
fn remove(overlay: &Overlay, place: &str, change: &Change) -> io::Result<()> {
    let Some(found) = &change.before else { return Ok(()) };
    match (&found.item, &change.after) {
        (Item::Directory, Some(Item::Directory)) => Ok(()),
        (Item::Directory, after) => match overlay.remove_directory(place) {
            // The workspace has other files in it, which stay.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && after.is_none() => {
                Ok(())
            }
            removed => removed,
        },
        (before, Some(after)) if before.content().is_some() && after.content().is_some() => Ok(()),
        _ => overlay.remove_file(place),
    }
}

fn write(
    overlay: &Overlay,
    place: &str,
    (change, item): (&Change, &Item),
    spool: &Spool,
    quota: &Quota,
) -> io::Result<()> {
    match item {
        Item::Directory => overlay.create_directory(place, quota),
        Item::Link(target) => overlay.create_link(target, place, quota),
        Item::File(content) | Item::Executable(content) => {
            let was_file =
                change.before.as_ref().is_some_and(|found| found.item.content().is_some());
            let opening =
                Opening { read: false, create: true, exclusive: !was_file, truncate: true };
            let mut file = overlay.open_write(place, opening, quota)?;
            spool.write(content, &mut file)?;
            drop(file);
            overlay.set_executable(place, matches!(item, Item::Executable(_)), quota)
        }
    }
}

/// The error for a place that has become something else, or whose directory has.
fn collision(place: &str, error: io::Error) -> FleetError {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory};
    let is_other =
        is_gone(&error) || matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | IsADirectory);
    if is_other {
        return FleetError::Collides(vec![place.to_owned()]);
    }
    io::Error::new(error.kind(), format!("{place}: {error}")).into()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_workspace::Secret;

    use super::*;

    #[test]
    fn files_that_have_no_room_are_refused_before_they_are_fetched() {
        let place = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(place.path(), Secret::OfProcess).unwrap();
        let check = |sizes: &[u64]| {
            let contents = sizes.iter().map(|size| Content { size: *size, parts: Vec::new() });
            check_room(&workspace, contents.collect::<Vec<_>>().iter())
        };
        check(&[1, 2]).unwrap();
        for sizes in [&[1 << 60][..], &[u64::MAX, 2], &[1 << 59, 1 << 59]] {
            let error = check(sizes).unwrap_err();
            assert!(matches!(error, FleetError::TooLarge { .. }), "{error}");
        }
    }
}
