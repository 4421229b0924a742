//! The commits of a store: each names the digest of the one before. A store that removed or replaced a
//! commit that was seen, or whose commits do not follow each other, is refused.

use std::sync::Arc;

use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::Workspace;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::PARALLEL;
use crate::commit::StoredCommit;
use crate::error::FleetError;
use crate::local::Synced;
use crate::store::{Access, Address, Store};

/// How many new commits are read at once, at most.
const MAX_NEW: u64 = 1_000_000;

/// How many commits are asked for at first.
const MIN_WINDOW: usize = 4;

/// The latest commit of a store, with the digest of its document.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) commit: StoredCommit,
    pub(crate) digest: Digest,
}

/// A commit in a list.
#[derive(Debug, Clone)]
pub struct ListedCommit {
    /// The commit.
    pub commit: StoredCommit,
    /// The digest of its document, by which the next commit names it.
    pub digest: Digest,
}

/// Returns the latest commit, after checking all commits from the one that was seen last; `None` if
/// there are none.
///
/// # Errors
/// [`FleetError::MissingCommit`], [`FleetError::Replaced`], [`FleetError::BrokenChain`],
/// [`FleetError::Invalid`], [`FleetError::Store`].
pub(crate) async fn head(
    store: &Store,
    seen: Option<(u64, Digest)>,
) -> Result<Option<Head>, FleetError> {
    let mut head = None;
    if let Some((number, digest)) = seen {
        let found = store.commit(number).await?.ok_or(FleetError::MissingCommit(number))?;
        if found.1 != digest {
            return Err(FleetError::Replaced(number));
        }
        head = Some(Head { commit: found.0, digest });
    }
    Ok(newer(store, seen, &mut |_| {}).await?.or(head))
}

/// Returns the latest commit after the one that was seen last, after checking all that follow it; `None`
/// if there are none. Each of them is passed to `visit`, in order.
///
/// # Errors
/// As for [`head`], without `Replaced`.
pub(crate) async fn newer(
    store: &Store,
    seen: Option<(u64, Digest)>,
    visit: &mut (dyn FnMut(&StoredCommit) + Send),
) -> Result<Option<Head>, FleetError> {
    let (first, mut parent) = match seen {
        Some((number, digest)) => (number + 1, Some(digest)),
        None => (1, None),
    };
    let (mut head, mut next) = (None, first);
    // So that a gap is noticed in which only few are missing.
    let mut window = MIN_WINDOW;
    while next - first < MAX_NEW {
        let found = read(store, next, window).await?;
        let count = found.iter().take_while(|found| found.is_some()).count();
        let has_gap = found[count..].iter().any(Option::is_some);
        // It may have been created after it was read, and the one after it then.
        if has_gap && store.commit(next + count as u64).await?.is_none() {
            return Err(FleetError::MissingCommit(next + count as u64));
        }
        for (commit, digest) in found.into_iter().flatten() {
            if commit.parent != parent {
                return Err(FleetError::BrokenChain(commit.number));
            }
            visit(&commit);
            parent = Some(digest);
            head = Some(Head { commit, digest });
        }
        next += count as u64;
        if count < window && !has_gap {
            return Ok(head);
        }
        window = (2 * window).min(PARALLEL);
    }
    Err(FleetError::invalid("the list of commits", format!("more than {MAX_NEW} new ones")))
}

/// Reads some consecutive commits at a time.
async fn read(
    store: &Store,
    from: u64,
    count: usize,
) -> Result<Vec<Option<(StoredCommit, Digest)>>, FleetError> {
    let reads = (from..).take(count).map(|number| store.commit(number));
    stream::iter(reads).buffered(PARALLEL).try_collect().await
}

/// Returns the `most` latest commits of a store, newest first: of the one that is named, or of the one
/// that the workspace is synced with.
///
/// # Errors
/// [`FleetError::NoStore`]; as for [`head`].
pub async fn log(
    workspace: &Arc<Workspace>,
    address: Option<Address>,
    access: &Access,
    most: usize,
) -> Result<Vec<ListedCommit>, FleetError> {
    let synced = Synced::look(workspace)?;
    let address = match address {
        Some(address) => address,
        None => synced.address()?.ok_or(FleetError::NoStore)?,
    };
    let store = Store::open(&address, access, false)?;
    let seen = synced.seen_in(&store).await?;
    let Some(Head { commit, digest }) = head(&store, seen).await? else { return Ok(Vec::new()) };
    let first = commit.number.saturating_sub(most as u64 - 1).max(1);
    let count = usize::try_from(commit.number - first).unwrap_or(usize::MAX);
    let mut list = vec![ListedCommit { commit, digest }];
    for (number, found) in
        (first..).zip(read(&store, first, count).await?).collect::<Vec<_>>().into_iter().rev()
    {
        let (commit, digest) = found.ok_or(FleetError::MissingCommit(number))?;
        let next = &list[list.len() - 1].commit;
        if next.parent != Some(digest) {
            return Err(FleetError::BrokenChain(next.number));
        }
        list.push(ListedCommit { commit, digest });
    }
    list.truncate(most);
    Ok(list)
}
