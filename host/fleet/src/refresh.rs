//! Taking over what other hosts have published.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cofferdam_workspace::{Purpose, Transaction, Workspace};

use crate::chain::{Head, newer};
use crate::copy::Replica;
use crate::download::{Fetched, Spool, delta};
use crate::error::FleetError;
use crate::keys::Ended;
use crate::live::Live;
use crate::merge::{Change, Changes, look};
use crate::pull::{LOCK_TIMEOUT, check_case, contents, stage};
use crate::scan::{Known, scan};
use crate::tree::Item;

/// How often a copy is brought up to date while others publish.
const ATTEMPTS: usize = 20;

impl Replica {
    /// Reads the commits that others have published. The disk stays as it is.
    ///
    /// # Errors
    /// Those of [`newer`], and of reading a tree.
    pub(crate) async fn advance(&self, live: &mut Live) -> Result<(), FleetError> {
        // Mostly there is none.
        if self.store.commit(live.number() + 1).await?.is_none() {
            return Ok(());
        }
        let mut note = |commit: &crate::StoredCommit| {
            if let Some(call) = &commit.call {
                self.active.end(&call.key, || Ended::Elsewhere(call.clone()));
            }
        };
        let found = newer(&self.store, live.head, &mut note).await?;
        let Some(Head { commit, digest }) = found else { return Ok(()) };
        let known = (&live.items, &live.directories);
        let delta = delta(&self.store, commit.tree, known, &mut Fetched::default()).await?;
        if let Some(workspace) = self.workspace.upgrade() {
            check_case(&workspace, &live.items, &delta)?;
        }
        live.follow((commit.number, digest), delta);
        Ok(())
    }

    /// Makes the directory what the latest commit is. Returns whether something had to be changed. Waits for
    /// the lock of the workspace at most as long as `patience`.
    ///
    /// # Errors
    /// [`BeginError::Busy`](cofferdam_workspace::BeginError::Busy); those of [`Replica::advance`], of reading
    /// objects and of changing the directory.
    pub(crate) async fn bring_up_to_date(&self, patience: Duration) -> Result<bool, FleetError> {
        let Some(workspace) = self.workspace.upgrade() else { return Ok(false) };
        if self.is_unreliable.load(Ordering::Acquire) {
            self.compare(&workspace).await?;
        }
        for _ in 0..ATTEMPTS {
            let wanted = {
                let mut live = self.live.lock().await;
                self.advance(&mut live).await?;
                if live.pending.is_empty() {
                    return Ok(false);
                }
                wanted(&live)
            };
            let directory = workspace.path_of_own();
            let directory = directory.ok_or(io::Error::from(io::ErrorKind::NotFound))?;
            let mut spool = Spool::new(&directory)?;
            let contents = wanted.iter().filter_map(|item| item.content());
            spool.fetch(&self.store, contents, &mut Fetched::default()).await?;
            match self.apply(&workspace, spool, patience).await {
                Ok(true) => return Ok(true),
                Ok(false) | Err(FleetError::Collides(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(FleetError::LostRaces(ATTEMPTS))
    }

    /// Applies what is pending. Returns false if something is missing in the spool.
    async fn apply(
        &self,
        workspace: &Arc<Workspace>,
        spool: Spool,
        patience: Duration,
    ) -> Result<bool, FleetError> {
        let (transaction, _) = Transaction::begin(workspace, patience).await?;
        let mut live = Arc::clone(&self.live).lock_owned().await;
        let changes = changes(&live, workspace)?;
        if !contents(&changes).all(|content| spool.has(content)) {
            return Ok(false);
        }
        let plain = Arc::clone(workspace.plain());
        let commit = move || {
            stage(transaction.overlay(), &plain, &changes, &spool)?;
            transaction.commit(Purpose { from_store: true, ..Purpose::default() })?;
            // Here, so that it is done even if the refresh was cancelled.
            live.pending.clear();
            Ok::<_, FleetError>(())
        };
        tokio::task::spawn_blocking(commit).await.map_err(io::Error::from)??;
        Ok(true)
    }

    /// Compares the directory with the tree of the latest commit that is known.
    async fn compare(&self, workspace: &Arc<Workspace>) -> Result<(), FleetError> {
        // Recovers what a process has left.
        let (transaction, _) = Transaction::begin(workspace, LOCK_TIMEOUT).await?;
        let mut live = self.live.lock().await;
        let known = Known { items: &live.items, stamps: &live.stamps };
        let scanned = scan(workspace, known, false)?;
        drop(transaction);
        self.is_unreliable.store(false, Ordering::Release);
        let mut pending = BTreeMap::new();
        for (place, item) in &scanned.items {
            if live.items.get(place) != Some(item) {
                pending.insert(place.clone(), Some(item.clone()));
            }
        }
        let missing = live.items.keys().filter(|place| !scanned.items.contains_key(*place));
        pending.extend(missing.map(|place| (place.clone(), None)));
        live.pending = pending;
        live.stamps = scanned.stamps;
        Ok(())
    }
}

/// What has to be on the disk.
fn wanted(live: &Live) -> Vec<Item> {
    live.pending.keys().filter_map(|place| live.items.get(place).cloned()).collect()
}

/// Returns the changes that make the disk what the latest commit is.
fn changes(live: &Live, workspace: &Workspace) -> Result<Changes, FleetError> {
    let known = Known { items: &live.items, stamps: &live.stamps };
    let mut changes = Changes::new();
    for place in live.pending.keys() {
        let before = look(workspace.plain(), place, known)?;
        let after = live.items.get(place).cloned();
        if before.as_ref().map(|found| &found.item) != after.as_ref() {
            changes.insert(place.clone(), Change { before, after });
        }
    }
    Ok(changes)
}
