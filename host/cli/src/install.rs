//! Taking plugins in: what was got is looked at, compared with what the person has accepted before,
//! and, if they want it, kept and pinned in the workspace's lock. Nothing of a plugin is run or
//! compiled here, and nobody is asked: a [`Plan`] says what has to be asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use crate::config::ConfigError;
use crate::config::grants::{self, Owner};
use cofferdam_core::policy::Capabilities;
use cofferdam_plugin::acceptance::TrustChange;
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::distribution::{Distribution, FetchError, Fetched};
use cofferdam_plugin::lock::{self, Candidate, Lock, LockError, Locked};
use cofferdam_plugin::manifest::{Manifest, Tool};
use cofferdam_plugin::pack::{self, PackError};
use cofferdam_plugin::signature::{SignatureError, Signer};
use cofferdam_plugin::source::{Source, SourceOrigin};
use cofferdam_plugin::store::{Resolved, Store, StoreError};
use cofferdam_workspace::Workspace;

/// A plugin that is not taken in.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The lock can't be read.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock can't be read from the disk, or written there.
    #[error("{file}: {source}", file = lock::FILE)]
    LockFile {
        /// Why.
        source: std::io::Error,
    },
    /// The store can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The person's settings can't be changed.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// It can't be got.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It is not a plugin.
    #[error("{from}: {source}")]
    Pack {
        /// Where it comes from.
        from: String,
        /// What is wrong with it.
        source: Box<PackError>,
    },
    /// The lock has no plugin of that name.
    #[error("{file} names no plugin '{0}'", file = lock::FILE)]
    Unknown(String),
    /// It would stand in for a plugin that came with the host.
    #[error("{from}: it calls itself '{name}', and that is a plugin that came with the host")]
    BuiltIn {
        /// The name.
        name: String,
        /// Where it comes from.
        from: String,
    },
    /// It has another name than the lock says.
    #[error("{from}: it calls itself '{found}', and not '{wanted}'")]
    OtherName {
        /// Where it comes from.
        from: String,
        /// What it calls itself.
        found: String,
        /// What the lock says.
        wanted: String,
    },
    /// It is not what was asked for.
    #[error("{from}: it is {found}, and {wanted} was asked for; somebody has changed it, or it is another version{}", if *locked { "; `cofferdam plugin update` takes that" } else { "" })]
    OtherDigest {
        /// Where it comes from.
        from: String,
        /// What came.
        found: Digest,
        /// What should have come.
        wanted: Digest,
        /// Whether the lock asked for it, and not the person.
        locked: bool,
    },
    /// A signature was asked for, and there is none.
    #[error(
        "{from}: there is no signature by {signer}; it would be {}, or in the registry beside it",
        beside(from)
    )]
    NoSignature {
        /// Where it comes from.
        from: String,
        /// Whose signature it should have.
        signer: Signer,
    },
    /// The signature says nothing, or something else.
    #[error("{from}: {source}{}", if *pinned { "; a person who trusts another key names it: --key KEY --accept-signer" } else { "" })]
    Signature {
        /// Where it comes from.
        from: String,
        /// What is wrong with it.
        source: SignatureError,
        /// Whether the key was pinned, and not named by the person.
        pinned: bool,
    },
    /// It is not the plugin that was accepted under that name.
    #[error("'{name}' is refused: {change}; a person who wants it nevertheless says {}", change.option())]
    TrustChange {
        /// The plugin.
        name: String,
        /// What is different.
        change: Box<TrustChange>,
    },
}

fn beside(from: &str) -> String {
    format!("{from}{}", cofferdam_plugin::signature::SUFFIX)
}

/// What a person says about a plugin that they want.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Whose signature it has to have.
    pub key: Option<Signer>,
    /// What it has to be.
    pub digest: Option<Digest>,
    /// Another signer than before is accepted, or none.
    pub accept_signer: bool,
    /// Another source than before is accepted.
    pub accept_source: bool,
}

/// A plugin that can be taken in, and what there is to know before.
#[derive(Debug)]
pub struct Plan {
    /// The plugin.
    pub candidate: Candidate,
    /// What it asks for and nobody has decided about: everything, for a plugin that is new here.
    pub ask: Capabilities,
    /// Whether a plugin of the same name and signer was accepted before.
    pub is_known: bool,
    /// Whether what it was granted stays, as that of a known plugin does unless somebody says
    /// otherwise.
    pub keeps_grants: bool,
    /// It has a signature, and nobody has said whose it should be.
    pub unchecked_signature: bool,
    /// How it differs from the one that is installed; none, where none is.
    pub changes: Option<Changes>,
}

/// How two versions of a plugin differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The version before and after.
    pub version: [String; 2],
    /// The digest before and after.
    pub digest: [Digest; 2],
    /// Who signed it before and after.
    pub signer: [Option<Signer>; 2],
    /// New tools.
    pub tools_added: Vec<String>,
    /// Tools that no longer exist.
    pub tools_removed: Vec<String>,
    /// Tools whose manifest differs: what they say to models, take, answer or do.
    pub tools_changed: Vec<String>,
    /// What it asks for now.
    pub requests_added: Vec<String>,
    /// What it does not ask for any more.
    pub requests_removed: Vec<String>,
}

/// Takes plugins in for a workspace.
pub struct Installer<'a> {
    /// The workspace.
    pub workspace: &'a Workspace,
    /// The person's store.
    pub store: &'a Store,
    /// What gets them.
    pub distribution: &'a Distribution,
    /// The names of the plugins that came with the host.
    pub built_in: BTreeSet<String>,
}

/// The lock of a workspace; an empty one, where there is none.
///
/// # Errors
/// One that can't be read.
pub fn lock(workspace: &Workspace) -> Result<Lock, InstallError> {
    let text = workspace.read_text(lock::FILE);
    match text.map_err(|source| InstallError::LockFile { source })? {
        Some(text) => Ok(Lock::parse(&text)?),
        None => Ok(Lock::default()),
    }
}

/// Removes a plugin from the lock of a workspace. The store keeps it, for other workspaces.
///
/// # Errors
/// See [`InstallError`].
pub fn remove(workspace: &Workspace, name: &str) -> Result<Locked, InstallError> {
    let mut locked = lock(workspace)?;
    let removed =
        locked.plugins.remove(name).ok_or_else(|| InstallError::Unknown(name.to_owned()))?;
    write(workspace, &locked)?;
    Ok(removed)
}

/// Forgets a plugin: what was accepted of it, and its files. Answers whether there was any.
///
/// # Errors
/// See [`InstallError`].
pub fn forget(store: &Store, name: &str) -> Result<bool, InstallError> {
    let _lock = store.lock()?;
    let mut accepted = store.acceptances()?;
    let Some(gone) = accepted.plugins.remove(name) else { return Ok(false) };
    store.set_acceptances(&accepted)?;
    for file in gone.files {
        let is_used = |other: &cofferdam_plugin::acceptance::Acceptance| {
            other.files.iter().any(|other| other.digest == file.digest)
        };
        if !accepted.plugins.values().any(is_used) {
            store.remove(&file.digest)?;
        }
    }
    Ok(true)
}

/// The installed plugins that a workspace's lock names.
///
/// # Errors
/// A lock that can't be read, or that names what is not what the person has accepted.
pub fn pinned(workspace: &Workspace, store: &Path) -> Result<Resolved, InstallError> {
    let lock = lock(workspace)?;
    if lock.plugins.is_empty() {
        return Ok(Resolved::default());
    }
    Ok(Store::open(store)?.resolve(&lock)?)
}

fn write(workspace: &Workspace, lock: &Lock) -> Result<(), InstallError> {
    let error = |source| InstallError::LockFile { source };
    let text = lock.to_text().map_err(|wrong| error(std::io::Error::other(wrong)))?;
    workspace.replace_text(lock::FILE, &text).map_err(error)
}

impl Installer<'_> {
    /// Gets a plugin from a source that `origin` named, and looks at it.
    ///
    /// # Errors
    /// See [`InstallError`].
    pub async fn consider(
        &self,
        source: &Source,
        origin: SourceOrigin,
        wish: &Wish,
    ) -> Result<Plan, InstallError> {
        let fetched = self.distribution.fetch(source, origin, self.workspace.path()).await?;
        self.plan(source.clone(), fetched, wish, None)
    }

    /// As [`consider`](Self::consider), for a plugin of the lock: exactly the one that it names.
    /// `None`: it is installed, and nothing is to be done.
    ///
    /// # Errors
    /// See [`InstallError`].
    pub async fn restore(
        &self,
        name: &str,
        locked: &Locked,
        wish: &Wish,
    ) -> Result<Option<Plan>, InstallError> {
        let kept = self.store.get(&locked.digest);
        let accepted = self.store.acceptances()?;
        let is_accepted = accepted.check(name, locked).is_ok();
        if let (Some(bytes), true) = (&kept, is_accepted) {
            let says_the_truth =
                Candidate::read(locked.source.clone(), self.workspace.path(), bytes.clone())
                    .is_ok_and(|found| locked.mismatch(&found.manifest, &found.wit).is_none());
            if says_the_truth {
                return Ok(None);
            }
        }
        let origin = accepted.source_origin(name, locked);
        let workspace = self.workspace.path();
        let fetched = self.distribution.fetch(&locked.source, origin, workspace).await?;
        self.plan(locked.source.clone(), fetched, wish, Some((name, locked))).map(Some)
    }

    fn plan(
        &self,
        source: Source,
        fetched: Fetched,
        wish: &Wish,
        locked: Option<(&str, &Locked)>,
    ) -> Result<Plan, InstallError> {
        let from = source.to_string();
        let wanted = wish.digest.or(locked.map(|(_, locked)| locked.digest));
        let found = Digest::of(&fetched.bytes);
        if let Some(wanted) = wanted
            && wanted != found
        {
            let locked = wish.digest.is_none();
            return Err(InstallError::OtherDigest { from, found, wanted, locked });
        }
        let mut candidate = Candidate::read(source, self.workspace.path(), fetched.bytes)
            .map_err(|source| InstallError::Pack { from: from.clone(), source: source.into() })?;
        let name = candidate.manifest.name.clone();
        if self.built_in.contains(&name) {
            return Err(InstallError::BuiltIn { name, from });
        }
        if let Some((wanted, _)) = locked
            && wanted != name
        {
            let (found, wanted) = (name, wanted.to_owned());
            return Err(InstallError::OtherName { from, found, wanted });
        }
        let accepted = self.store.acceptances()?;
        let known = accepted.plugins.get(&name);
        let pinned = locked.map_or_else(
            || known.and_then(|known| known.signer.clone()),
            |(_, locked)| locked.signer.clone(),
        );
        let signer = wish.key.clone().or(pinned.clone());
        candidate.signer = match (&signer, &fetched.signature) {
            (Some(signer), Some(signature)) => {
                let checked = signer.check(&candidate.bytes, signature);
                checked.map_err(|source| InstallError::Signature {
                    from: from.clone(),
                    source,
                    pinned: wish.key.is_none(),
                })?;
                Some(signer.clone())
            }
            (Some(signer), None) if wish.key.is_some() || locked.is_some() => {
                return Err(InstallError::NoSignature { from, signer: signer.clone() });
            }
            _ => None,
        };
        let mut identity_changes = false;
        let mut ask = candidate.manifest.requests.clone();
        let mut wider = Capabilities::NONE;
        for change in accepted.trust_changes(&candidate) {
            let is_fine = match &change {
                TrustChange::OtherSigner { .. } | TrustChange::SignatureLost(_) => {
                    wish.accept_signer
                }
                TrustChange::OtherSource { .. } => wish.accept_source,
                TrustChange::Wider(more) => {
                    wider = more.clone();
                    continue;
                }
            };
            if !is_fine {
                return Err(InstallError::TrustChange { name, change: change.into() });
            }
            identity_changes = true;
        }
        let is_known = known.is_some() && !identity_changes;
        if is_known {
            ask = wider;
        }
        let unchecked_signature = signer.is_none() && fetched.signature.is_some();
        let changes = self.changes(&candidate)?;
        Ok(Plan { candidate, ask, is_known, keeps_grants: is_known, unchecked_signature, changes })
    }

    /// How a candidate differs from what the lock has under its name.
    fn changes(&self, candidate: &Candidate) -> Result<Option<Changes>, InstallError> {
        let lock = lock(self.workspace)?;
        let Some(old) = lock.plugins.get(&candidate.manifest.name) else { return Ok(None) };
        let called = &candidate.manifest.name;
        let manifest =
            self.store.get(&old.digest).and_then(|bytes| pack::manifest(&bytes, called).ok());
        Ok(manifest.map(|manifest| Changes::between(&manifest, old, candidate)))
    }

    /// Takes a plugin in: what the person grants it goes to their settings, its file to the store,
    /// and its name to the lock. `granted`: what it is granted besides what it keeps; `settings`:
    /// the person's file. What that says already of a name that is new here, or was another
    /// plugin's, is not this one's: neither grants, nor variables and headers beside them.
    ///
    /// # Errors
    /// See [`InstallError`].
    pub fn take_in(
        &self,
        plan: &Plan,
        granted: &Capabilities,
        settings: &Path,
    ) -> Result<Locked, InstallError> {
        let Plan { candidate, is_known, keeps_grants, ask, .. } = plan;
        let name = &candidate.manifest.name;
        let _lock = self.store.lock()?;
        let before = grants::of(settings, name)?;
        let keeps_grants = *keeps_grants && *is_known;
        let granted = if keeps_grants { before.join(granted) } else { granted.clone() };
        if !keeps_grants || *ask != Capabilities::NONE || granted != before {
            let owner = if *is_known { Owner::Known } else { Owner::Other };
            grants::set_grant(settings, name, &granted, owner)?;
        }
        self.store.put(&candidate.digest, &candidate.bytes)?;
        let mut accepted = self.store.acceptances()?;
        accepted.accept(candidate, *is_known);
        self.store.set_acceptances(&accepted)?;
        let locked = Locked::new(candidate, granted.meet(&candidate.manifest.requests));
        let mut lock = lock(self.workspace)?;
        lock.plugins.insert(name.clone(), locked.clone());
        write(self.workspace, &lock)?;
        Ok(locked)
    }
}

impl Changes {
    /// Whether the version went down: an old signature is as good as a new one.
    pub fn is_older(&self) -> bool {
        let number = |version: &str| -> Vec<u64> {
            let numbers = version.split(['-', '+']).next().unwrap_or_default();
            numbers.split('.').filter_map(|part| part.parse().ok()).collect()
        };
        let [old, new] = &self.version;
        number(new) < number(old)
    }

    fn between(old: &Manifest, locked: &Locked, new: &Candidate) -> Self {
        let tools = |manifest: &Manifest| -> BTreeMap<String, Tool> {
            manifest.tools.iter().map(|tool| (tool.name.clone(), tool.clone())).collect()
        };
        let (before, after) = (tools(old), tools(&new.manifest));
        let missing = |from: &BTreeMap<String, Tool>, to: &BTreeMap<String, Tool>| {
            from.keys().filter(|name| !to.contains_key(*name)).cloned().collect()
        };
        let changed =
            after.iter().filter(|(name, tool)| before.get(*name).is_some_and(|old| old != *tool));
        let words = |set: Capabilities| set.each().map(|each| each.to_string()).collect();
        let (asked, asks) = (&old.requests, &new.manifest.requests);
        Self {
            version: [old.version.clone(), new.manifest.version.clone()],
            digest: [locked.digest, new.digest],
            signer: [locked.signer.clone(), new.signer.clone()],
            tools_added: missing(&after, &before),
            tools_removed: missing(&before, &after),
            tools_changed: changed.map(|(name, _)| name.clone()).collect(),
            requests_added: words(asks.beyond(asked)),
            requests_removed: words(asked.beyond(asks)),
        }
    }
}
