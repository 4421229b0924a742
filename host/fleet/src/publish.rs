//! Creating a commit in the store before it is applied on this host.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::ignore_files::IgnoreRules;
use cofferdam_workspace::{Commit, CommitError, KeyedResult, Overlay};
use rustix::fs::FileType;

use crate::commit::{About, CommitSource, KeyedCall, SourceCall, StoredCommit};
use crate::copy::{MAX_RESULT_BYTES, Replica};
use crate::error::FleetError;
use crate::keys::{self, Ended};
use crate::live::Live;
use crate::merge::is_gone;
use crate::push::{Source, upload};
use crate::scan::{Known, read_item};
use crate::tree::{DirectoryRef, Item, MAX_ENTRIES, PART_BYTES, apply, below, encode};

/// How often a commit is created anew after others were first.
const ATTEMPTS: usize = 100;

/// The changes of a commit, by place; `None`: nothing is there afterwards.
pub(crate) type Ours = BTreeMap<String, Option<Item>>;

/// The error of a commit that was not published.
pub(crate) fn not_published(error: FleetError) -> CommitError {
    match error {
        FleetError::Commit(error) => error,
        FleetError::Collides(places) => CommitError::Conflict(places),
        other => CommitError::NotPublished(other.to_string()),
    }
}

impl Replica {
    /// Publishes a commit of this host. `tree` has its changes; the workspace is locked.
    ///
    /// # Errors
    /// [`FleetError::Collides`] if another host has changed the same; [`CommitError::Repeated`],
    /// [`CommitError::InDoubt`]; those of the store.
    pub(crate) async fn publish_commit(
        &self,
        commit: &Commit,
        tree: &Arc<Overlay>,
        result: Option<&KeyedResult>,
    ) -> Result<(), FleetError> {
        let (ours, objects) = {
            let live = self.live.lock().await;
            read(commit, tree, &live)?
        };
        if ours.is_empty() && result.is_none() {
            return Ok(());
        }
        upload(&self.store, tree, objects).await?;
        let calls = commit.calls.iter().map(|id| SourceCall { id: id.clone(), tool: None });
        let source = CommitSource { id: commit.id.to_string(), calls: calls.collect() };
        self.publish_changes(ours, vec![source], result).await
    }

    /// Publishes changes whose contents are in the store.
    ///
    /// # Errors
    /// As for [`Replica::publish_commit`].
    pub(crate) async fn publish_changes(
        &self,
        ours: Ours,
        sources: Vec<CommitSource>,
        result: Option<&KeyedResult>,
    ) -> Result<(), FleetError> {
        let call = match result {
            Some(result) => Some(self.upload_result(result).await?),
            None => None,
        };
        let mut live = self.live.lock().await;
        for _ in 0..ATTEMPTS {
            if let Some(call) = &call
                && self.active.ended(&call.key).is_some()
            {
                return Err(CommitError::Repeated.into());
            }
            let about = About { call: call.clone(), sources: (sources.clone(), 0), message: None };
            if self.attempt(&mut live, &ours, about).await? {
                if let Some(KeyedResult { key, result }) = result {
                    self.active.end(key, || Ended::Here(Bytes::from(result.clone())));
                }
                return Ok(());
            }
            self.advance(&mut live).await?;
        }
        Err(FleetError::LostRaces(ATTEMPTS))
    }

    async fn upload_result(&self, result: &KeyedResult) -> Result<KeyedCall, FleetError> {
        let size = result.result.len();
        if size as u64 > MAX_RESULT_BYTES {
            return Err(FleetError::LargeResult(size, MAX_RESULT_BYTES));
        }
        let bytes = Bytes::from(result.result.clone());
        let digest = Digest::of(&bytes);
        self.store.put(digest, bytes).await?;
        Ok(KeyedCall { key: result.key.clone(), result: digest, size: size as u64 })
    }

    /// Tries to create the next commit. Returns false if another host was first.
    async fn attempt(
        &self,
        live: &mut Live,
        ours: &Ours,
        about: About,
    ) -> Result<bool, FleetError> {
        let ours = with_parents(live, ours)?;
        let items_before = apply(&mut live.items, ours.clone());
        let created = match self.encoded(live, &ours).await {
            Ok(directories) => {
                let directories_before = apply(&mut live.directories, directories);
                let created = self.create(live, about, directories_before.get("")).await;
                if !matches!(created, Ok(Created::Ours(_))) {
                    apply(&mut live.directories, directories_before);
                }
                created
            }
            Err(error) => Err(error),
        };
        let Ok(Created::Ours(head)) = created else {
            apply(&mut live.items, items_before);
            return match created? {
                // Only this host knows of it: the tree is the same.
                Created::Nothing(head, error) => {
                    live.head = Some(head);
                    Err(error)
                }
                _ => Ok(false),
            };
        };
        live.head = Some(head);
        live.stamps.retain(|place, _| !ours.contains_key(place));
        // The disk will have them.
        live.pending.retain(|place, _| !ours.contains_key(place));
        Ok(true)
    }

    /// Uploads the objects of the directories that have changed. Returns their names.
    async fn encoded(
        &self,
        live: &Live,
        ours: &Ours,
    ) -> Result<BTreeMap<String, Option<DirectoryRef>>, FleetError> {
        if live.items.len() > MAX_ENTRIES {
            let why = format!("there are more than {MAX_ENTRIES} files, links and directories");
            return Err(FleetError::unsupported("the workspace", why));
        }
        let is_directory =
            |place: &str| place.is_empty() || live.items.get(place) == Some(&Item::Directory);
        let touched: BTreeSet<String> = ours
            .keys()
            .flat_map(|place| [place.as_str()].into_iter().chain(parents(place)))
            .map(str::to_owned)
            .chain(live.directories.is_empty().then(String::new))
            .collect();
        let (changed, gone): (BTreeSet<_>, BTreeSet<_>) =
            touched.into_iter().partition(|place| is_directory(place));
        let encoded = encode(&live.items, &live.directories, &changed)?;
        let objects = encoded.values();
        let objects =
            objects.map(|(directory, bytes)| (directory.digest, Source::Bytes(bytes.clone())));
        self.upload_bytes(objects.collect()).await?;
        let gone = gone.into_iter().map(|place| (place, None));
        Ok(encoded
            .into_iter()
            .map(|(place, (found, _))| (place, Some(found)))
            .chain(gone)
            .collect())
    }

    async fn upload_bytes(&self, objects: HashMap<Digest, Source>) -> Result<(), FleetError> {
        let Some(workspace) = self.workspace.upgrade() else { return Ok(()) };
        upload(&self.store, workspace.plain(), objects).await.map(drop)
    }

    /// Creates the commit of the tree. `before` is the top directory without its changes.
    async fn create(
        &self,
        live: &Live,
        about: About,
        before: Option<&Option<DirectoryRef>>,
    ) -> Result<Created, FleetError> {
        let missing = || FleetError::invalid("the tree", "it has no top directory");
        let root = live.directories.get("").copied().ok_or_else(missing)?;
        if let Some(call) = &about.call {
            self.store.put_intent(keys::digest(&call.key), live.number() + 1).await?;
        }
        let (commit, bytes) = StoredCommit::after(live.head, root, about)?;
        let head = (commit.number, Digest::of(&bytes));
        let error = match self.store.create_commit(&commit, bytes).await {
            Ok(true) => return Ok(Created::Ours(head)),
            Ok(false) => return Ok(Created::Theirs),
            Err(error) => error,
        };
        // The request may still be under way. It has no effect once there is a commit with this number.
        let before = before.copied().flatten().unwrap_or(root);
        let (nothing, bytes) = StoredCommit::after(live.head, before, About::default())?;
        let settled = (nothing.number, Digest::of(&bytes));
        let in_doubt = |error: FleetError| CommitError::InDoubt(error.to_string());
        if self.store.create_commit(&nothing, bytes).await.map_err(in_doubt)? {
            return Ok(Created::Nothing(settled, error));
        }
        match self.store.commit(commit.number).await.map_err(in_doubt)? {
            Some((found, _)) if found.id == commit.id => Ok(Created::Ours(head)),
            _ => Ok(Created::Theirs),
        }
    }
}

/// What became of an attempt to create a commit.
enum Created {
    /// It was created; its number and digest.
    Ours((u64, Digest)),
    /// Another host was first.
    Theirs,
    /// The request failed, and a commit without changes has the number now.
    Nothing((u64, Digest), FleetError),
}

/// The directories above a place, and the top.
fn parents(place: &str) -> impl Iterator<Item = &str> {
    let slashes = place.rmatch_indices('/').map(|(at, _)| &place[..at]);
    slashes.chain([""])
}

/// Reads the changes of a commit. Returns them, and the objects of their contents. What ignore rules leave
/// out is not published.
fn read(
    commit: &Commit,
    tree: &Overlay,
    live: &Live,
) -> Result<(Ours, HashMap<Digest, Source>), FleetError> {
    let (mut ours, mut objects) = (Ours::new(), HashMap::new());
    let (items, stamps) = (&BTreeMap::new(), &BTreeMap::new());
    let mut ignored = Ignored::new(tree);
    let places: BTreeSet<&String> = commit.changes.iter().map(|change| &change.path).collect();
    for place in places {
        let before = live.on_disk(place);
        let after = match tree.stat(place) {
            Err(error) if is_gone(&error) => None,
            stat => {
                let stat = stat?;
                let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                if before.is_none() && ignored.matches(place, is_directory)? {
                    continue;
                }
                Some(read_item(tree, place, &stat, Known { items, stamps })?)
            }
        };
        // What is written as it was is no change, unless another host has changed it meanwhile.
        if before == after.as_ref() && !live.pending.contains_key(place) {
            continue;
        }
        let parts = after.iter().filter_map(Item::content).flat_map(|content| content.parts());
        objects.extend(parts.map(|(index, digest, size)| {
            let offset = index as u64 * PART_BYTES;
            (digest, Source::Part { place: place.clone(), offset, size })
        }));
        ours.insert(place.clone(), after);
    }
    Ok((ours, objects))
}

/// Adds the directories above new places that the tree does not have: they are on the disk, since nothing
/// in them was stored before.
///
/// # Errors
/// [`FleetError::Collides`] if another host has changed one of the places, or what is needed for it.
fn with_parents(live: &Live, ours: &Ours) -> Result<Ours, FleetError> {
    let mut all = ours.clone();
    let mut collisions: BTreeSet<&str> =
        ours.keys().map(String::as_str).filter(|place| live.pending.contains_key(*place)).collect();
    for (place, after) in ours {
        if after.is_some() {
            for parent in parents(place).filter(|parent| !parent.is_empty()) {
                let found = match ours.get(parent) {
                    Some(found) => found.as_ref(),
                    None => live.items.get(parent),
                };
                match found {
                    Some(Item::Directory) => {}
                    None if !live.pending.contains_key(parent) && !ours.contains_key(parent) => {
                        all.insert(parent.to_owned(), Some(Item::Directory));
                    }
                    _ => drop(collisions.insert(place)),
                }
            }
        }
        if *after != Some(Item::Directory)
            && below(&live.items, place).any(|(inside, _)| !matches!(ours.get(inside), Some(None)))
        {
            collisions.insert(place);
        }
    }
    if collisions.is_empty() {
        return Ok(all);
    }
    Err(FleetError::Collides(collisions.into_iter().map(str::to_owned).collect()))
}

/// The ignore rules of a tree, asked about places in order.
struct Ignored<'a> {
    tree: &'a Overlay,
    rules: IgnoreRules,
    /// The directories that were entered, each with whether it is ignored.
    entered: Vec<(String, bool)>,
}

impl<'a> Ignored<'a> {
    fn new(tree: &'a Overlay) -> Self {
        // The rules are relative to the place of their file, so any top does.
        Self { tree, rules: IgnoreRules::new("/".into()), entered: Vec::new() }
    }

    /// Whether a place is ignored, or a directory above it.
    fn matches(&mut self, place: &str, is_directory: bool) -> Result<bool, FleetError> {
        let above: Vec<&str> = parents(place).collect();
        while let Some((last, _)) = self.entered.last() {
            if above.contains(&last.as_str()) {
                break;
            }
            self.entered.pop();
            self.rules.leave();
        }
        for directory in above.into_iter().rev().skip(self.entered.len()) {
            let is_ignored = !directory.is_empty() && self.decide(directory, true);
            let unusable = |why| FleetError::unsupported("an ignore file", why);
            self.rules.enter(self.tree, directory, directory).map_err(unusable)?;
            self.entered.push((directory.to_owned(), is_ignored));
        }
        Ok(self.decide(place, is_directory))
    }

    fn decide(&self, place: &str, is_directory: bool) -> bool {
        self.entered.last().is_some_and(|(_, is_ignored)| *is_ignored)
            || self.rules.decision(place, is_directory) == Some(true)
    }
}
