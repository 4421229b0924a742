//! Installs plugins: a fetched plugin is checked, compared with what the user accepted before, and
//! stored and pinned in the workspace's lock file. The user is not asked here: a [`Plan`] says which
//! questions are open. No code of a plugin is run, except that a component of ACT is asked for its tools
//! once everything else is checked ([`listing`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use semver::VersionReq;
use serde::Serialize;

use crate::config::ConfigError;
use crate::config::grants::{self, Owner};
use crate::listing::{self, ListingError};
use cofferdam_core::policy::Capabilities;
use cofferdam_plugin::acceptance::{Acceptances, TrustChange};
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::distribution::{Distribution, FetchError, Fetched};
use cofferdam_plugin::lock::{self, Candidate, Lock, LockError, Locked};
use cofferdam_plugin::manifest::{Manifest, Tool};
use cofferdam_plugin::pack::{self, PackError};
use cofferdam_plugin::provenance::{Identity, Provenance, Trust};
use cofferdam_plugin::revocation::List;
use cofferdam_plugin::signature::{SignatureError, Signer};
use cofferdam_plugin::source::{Source, SourceOrigin};
use cofferdam_plugin::store::{Resolved, Store, StoreError};
use cofferdam_plugin::typed::Beside;
use cofferdam_workspace::Workspace;

/// Why a plugin is not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The lock file is malformed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock file can't be read or written.
    #[error("{file}: {source}", file = lock::FILE)]
    LockFile { source: std::io::Error },
    /// The store of plugins can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The user's settings can't be changed.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// The plugin can't be downloaded or read.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The file is not a plugin.
    #[error("{from}: {source}")]
    Pack {
        /// The plugin's source.
        from: String,
        source: Box<PackError>,
    },
    /// The component of ACT does not list its tools.
    #[error("{from}: {source}")]
    Listing {
        /// The source of the plugin's component.
        from: String,
        source: ListingError,
    },
    /// The lock file has no plugin of this name.
    #[error("{file} names no plugin '{0}'", file = lock::FILE)]
    Unknown(String),
    /// The plugin has the name of a built-in plugin.
    #[error(
        "{from}: it calls itself '{name}', and that is a plugin that came with the host; `--as NAME` \
         installs it under another name"
    )]
    BuiltIn {
        name: String,
        /// The plugin's source.
        from: String,
    },
    /// The plugin's name is not the one in the lock file.
    #[error("{from}: it calls itself '{found}', and not '{wanted}'")]
    OtherName {
        /// The plugin's source.
        from: String,
        /// The name in the plugin's manifest.
        found: String,
        /// The name in the lock file.
        wanted: String,
    },
    /// The file does not have the requested digest.
    #[error("{from}: it is {found}, and {wanted} was asked for; somebody has changed it, or it is another version{}", if *locked { "; `cofferdam plugin update` takes that" } else { "" })]
    OtherDigest {
        /// The plugin's source.
        from: String,
        /// The digest of the fetched file.
        found: Digest,
        /// The digest that was requested.
        wanted: Digest,
        /// Whether the lock file requested the digest, and not the user.
        locked: bool,
    },
    /// A signature is required, and there is none.
    #[error(
        "{from}: there is no signature by {signer}; it would be {}, or in the registry beside it",
        beside(from)
    )]
    NoSignature {
        /// The plugin's source.
        from: String,
        /// The required signer.
        signer: Signer,
    },
    /// The signature is malformed, or by another key.
    #[error("{from}: {source}{}", if *pinned { "; a person who trusts another key names it: --key KEY --accept-signer" } else { "" })]
    Signature {
        /// The plugin's source.
        from: String,
        source: SignatureError,
        /// Whether the key was pinned by an earlier installation, and not named by the user.
        pinned: bool,
    },
    /// The identity that is required is in none of the attestations that were verified.
    #[error(
        "{from}: no attestation says that {identity} made it{}{}", listed(.found),
        if *pinned { "; a person who trusts another one names it: --require-identity IDENTITY --issuer URL --accept-signer" } else { "" }
    )]
    Identity {
        /// The plugin's source.
        from: String,
        identity: Identity,
        /// What the attestations say, and why others were not verified.
        found: Vec<String>,
        /// Whether the identity was pinned by an earlier installation, and not named by the user.
        pinned: bool,
    },
    /// The publisher has revoked the file.
    #[error("{from}: its publisher has revoked this version: {reason}")]
    Revoked {
        /// The plugin's source.
        from: String,
        reason: String,
    },
    /// The publisher's list of revocations is malformed, or not signed by the plugin's signer.
    #[error("{from}: {why}; nothing is installed without what it says")]
    Revocations {
        /// The source of the list.
        from: String,
        why: String,
    },
    /// A catalogue is malformed, or not signed by the key that the user named.
    #[error("{from}: {why}; nothing of this catalogue is shown")]
    Catalogue {
        /// The source of the catalogue.
        from: String,
        why: String,
    },
    /// The plugin is not the one that the user accepted under this name.
    #[error("'{name}' is refused: {change}; a person who wants it nevertheless says {}", change.option())]
    TrustChange {
        name: String,
        /// The difference that the user has to accept.
        change: Box<TrustChange>,
    },
}

fn beside(from: &str) -> String {
    format!("{from}{}", cofferdam_plugin::signature::SUFFIX)
}

fn listed(found: &[String]) -> String {
    match found {
        [] => "; it has none".to_owned(),
        found => format!("; it has: {}", found.join("; ")),
    }
}

/// The user's options about a plugin to be installed.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The signer that the plugin must have.
    pub key: Option<Signer>,
    /// The identity that an attestation must name as its maker.
    pub identity: Option<Identity>,
    /// The name under which it is installed; `None` for its own.
    pub name: Option<String>,
    /// The digest that the file must have.
    pub digest: Option<Digest>,
    /// Whether another signer than before, or none, is accepted.
    pub accept_signer: bool,
    /// Whether another source than before is accepted.
    pub accept_source: bool,
    /// The versions that later updates take; `None`: those of the lock file, or those that are
    /// compatible.
    pub range: Option<VersionReq>,
}

/// A plugin that can be installed, and what the user has to decide before.
#[derive(Debug)]
pub struct Plan {
    pub candidate: Candidate,
    /// The requested capabilities that the user has not decided about yet: all of them if the
    /// plugin is new to this user.
    pub ask: Capabilities,
    /// Whether a plugin of the same name and signer was accepted before.
    pub is_known: bool,
    /// Whether the existing grants stay. This is the default for a known plugin.
    pub keeps_grants: bool,
    /// Whether there is a signature that was not checked, because no signer is pinned or named.
    pub unchecked_signature: bool,
    /// Why attestations were not verified.
    pub unverified: Vec<String>,
    /// How it differs from the installed version; `None` if none is installed.
    pub changes: Option<Changes>,
}

/// The differences between two versions of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// The version before and after.
    pub version: [String; 2],
    /// The digest before and after.
    pub digest: [Digest; 2],
    /// Who signed it before and after.
    pub signer: [Option<Signer>; 2],
    pub tools_added: Vec<String>,
    pub tools_removed: Vec<String>,
    /// Tools whose manifest differs: description, schemas or effect.
    pub tools_changed: Vec<String>,
    /// Requests that only the new version has.
    pub requests_added: Vec<String>,
    /// Requests that only the old version has.
    pub requests_removed: Vec<String>,
}

/// Installs plugins into a workspace.
pub struct Installer<'a> {
    pub workspace: &'a Workspace,
    /// The user's store of plugins.
    pub store: &'a Store,
    /// Downloads and reads plugins.
    pub distribution: &'a Distribution,
    /// The cache of compiled code.
    pub cache: &'a Path,
    /// Whose attestations are trusted.
    pub trust: &'a Trust,
    /// The names of the built-in plugins.
    pub built_in: BTreeSet<String>,
}

/// Reads the lock file of a workspace; returns an empty lock if there is none.
///
/// # Errors
/// `LockFile` if the file can't be read; `Lock` if it is malformed.
pub fn lock(workspace: &Workspace) -> Result<Lock, InstallError> {
    let text = workspace.read_text(lock::FILE);
    match text.map_err(|source| InstallError::LockFile { source })? {
        Some(text) => Ok(Lock::parse(&text)?),
        None => Ok(Lock::default()),
    }
}

/// Removes a plugin from the lock file of a workspace. The store keeps its file for other
/// workspaces.
///
/// # Errors
/// `Unknown` if the lock file does not name the plugin; `Lock` or `LockFile` if the lock file can't
/// be read or written.
pub fn remove(workspace: &Workspace, name: &str) -> Result<Locked, InstallError> {
    let mut locked = lock(workspace)?;
    let removed =
        locked.plugins.remove(name).ok_or_else(|| InstallError::Unknown(name.to_owned()))?;
    write(workspace, &locked)?;
    Ok(removed)
}

/// Deletes a plugin from the user's store: its acceptance, and its files unless another plugin uses
/// them. Returns whether it was in the store.
///
/// # Errors
/// `Store` if the store can't be read or written.
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

/// Returns the installed plugins that a workspace's lock file names.
///
/// # Errors
/// `Lock` or `LockFile` if the lock file can't be read; `Store` if it names a plugin that the user
/// has not accepted or whose file is gone.
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

/// Compares the file with the digest that the user named, or else with that in the lock file.
fn check_digest(
    from: &str,
    bytes: &[u8],
    wish: &Wish,
    locked: Option<Digest>,
) -> Result<(), InstallError> {
    let found = Digest::of(bytes);
    match wish.digest.or(locked) {
        Some(wanted) if wanted != found => {
            let (from, locked) = (from.to_owned(), wish.digest.is_none());
            Err(InstallError::OtherDigest { from, found, wanted, locked })
        }
        _ => Ok(()),
    }
}

/// Compares the attestations of a candidate with the identity that the user requires, or else the pinned one.
fn check_identity(
    candidate: &mut Candidate,
    provenance: &Provenance,
    wish: &Wish,
    pinned: Option<&Identity>,
) -> Result<(), InstallError> {
    candidate.attestations.clone_from(&provenance.attestations);
    let pinned = pinned.filter(|_| !wish.accept_signer);
    let Some(identity) = wish.identity.as_ref().or(pinned) else { return Ok(()) };
    if identity.is_in(&candidate.attestations) {
        candidate.identity = Some(identity.clone());
        return Ok(());
    }
    let verified = provenance.attestations.iter().map(ToString::to_string);
    let unverified = provenance.unverified.iter().map(|why| format!("one not verified: {why}"));
    Err(InstallError::Identity {
        from: candidate.source.to_string(),
        identity: identity.clone(),
        found: verified.chain(unverified).collect(),
        pinned: wish.identity.is_none(),
    })
}

/// Differences from the accepted plugin of the same name, all of which the user accepts.
struct AcceptedChanges {
    /// Whether the signer or the source differs, so that nothing accepted before applies.
    is_other_plugin: bool,
    /// Requested capabilities that were not requested before.
    wider: Capabilities,
}

fn accepted_changes(
    accepted: &Acceptances,
    candidate: &Candidate,
    wish: &Wish,
) -> Result<AcceptedChanges, InstallError> {
    let mut changes = AcceptedChanges { is_other_plugin: false, wider: Capabilities::NONE };
    for change in accepted.trust_changes(candidate) {
        let is_accepted = match &change {
            TrustChange::OtherSigner { .. }
            | TrustChange::SignatureLost(_)
            | TrustChange::OtherIdentity { .. } => wish.accept_signer,
            TrustChange::OtherSource { .. } => wish.accept_source,
            TrustChange::Wider(more) => {
                changes.wider = more.clone();
                continue;
            }
        };
        if !is_accepted {
            let name = candidate.manifest.name.clone();
            return Err(InstallError::TrustChange { name, change: change.into() });
        }
        changes.is_other_plugin = true;
    }
    Ok(changes)
}

impl Installer<'_> {
    /// Fetches a plugin from a source that `origin` named, and checks it.
    ///
    /// # Errors
    /// `Fetch` if it can't be fetched; otherwise any check that fails, see [`InstallError`].
    pub async fn consider(
        &self,
        source: &Source,
        origin: SourceOrigin,
        wish: &Wish,
    ) -> Result<Plan, InstallError> {
        let fetched = self.distribution.fetch(source, origin, self.workspace.path()).await?;
        let provenance = self.provenance(source, origin, &fetched).await?;
        let plan = self.plan(source.clone(), (fetched, provenance), wish, None)?;
        self.refuse_revoked(&plan.candidate, origin).await?;
        self.listed(plan).await
    }

    /// Fetches the list of revocations that belongs to a source, and adds what `signer` revokes to the
    /// store. Only signed plugins have such a list: nothing else says who may revoke.
    ///
    /// # Errors
    /// `Fetch` if it can't be fetched; `Revocations` if it is not `signer`'s, or malformed; `Store` if the
    /// store can't be read or written.
    pub async fn fetch_revocations(
        &self,
        source: &Source,
        origin: SourceOrigin,
        signer: &Signer,
    ) -> Result<(), InstallError> {
        let source = source.revocations();
        let fetched = self.distribution.fetch(&source, origin, self.workspace.path()).await;
        let Fetched { bytes, signature, .. } = match fetched {
            Ok(fetched) => fetched,
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let refused = |why: &dyn std::fmt::Display| InstallError::Revocations {
            from: source.to_string(),
            why: why.to_string(),
        };
        let signature =
            signature.ok_or_else(|| refused(&"the list of revocations is not signed"))?;
        signer.check(&bytes, &signature).map_err(|error| refused(&error))?;
        let list = List::parse(&bytes).map_err(|error| refused(&error))?;
        let _lock = self.store.lock()?;
        let mut all = self.store.revocations()?;
        if all.add(signer, &list) {
            self.store.set_revocations(&all)?;
        }
        Ok(())
    }

    /// Refuses a file that one of the lists in the store revokes.
    ///
    /// # Errors
    /// `Revoked` if the list of `signer` names it; `Store` if the store can't be read.
    pub fn check_revoked(
        &self,
        source: &Source,
        digest: &Digest,
        signer: Option<&Signer>,
    ) -> Result<(), InstallError> {
        match self.store.revocations()?.reason(signer, digest) {
            Some(reason) => {
                Err(InstallError::Revoked { from: source.to_string(), reason: reason.to_owned() })
            }
            None => Ok(()),
        }
    }

    /// Fetches the list of revocations of a candidate's signer, and checks the candidate.
    async fn refuse_revoked(
        &self,
        candidate: &Candidate,
        origin: SourceOrigin,
    ) -> Result<(), InstallError> {
        let accepted = self.store.acceptances()?;
        // A file that was accepted as signed stays revoked if it comes without its signature.
        let signer = candidate.signer.as_ref().or_else(|| accepted.signer(&candidate.digest));
        let Some(signer) = signer else { return Ok(()) };
        self.fetch_revocations(&candidate.source, origin, signer).await?;
        self.check_revoked(&candidate.source, &candidate.digest, Some(signer))
    }

    /// Like [`consider`](Self::consider), for a plugin of the lock file: exactly the file that the
    /// lock names. Returns `None` if it is installed already.
    ///
    /// # Errors
    /// `Store` if the store can't be read; `Revoked` if it is installed, and revoked by now; `Fetch` if
    /// the plugin can't be fetched; otherwise any check that fails, see [`InstallError`].
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
            let beside = Beside::read(&self.store.path(&locked.digest));
            let (source, workspace) = (locked.source.clone(), self.workspace.path());
            let found = Candidate::read(source, workspace, bytes.clone(), beside);
            let says_the_truth = found.is_ok_and(|found| {
                !found.manifest.is_unlisted()
                    && found.manifest.name == locked.own_name(name)
                    && locked.mismatch(&found.manifest, &found.wit).is_none()
            });
            let is_required = wish.identity.is_none() || wish.identity == locked.identity;
            if says_the_truth && is_required {
                self.check_revoked(&locked.source, &locked.digest, locked.signer.as_ref())?;
                return Ok(None);
            }
        }
        let origin = accepted.source_origin(name, locked);
        let workspace = self.workspace.path();
        let fetched = self.distribution.fetch(&locked.source, origin, workspace).await?;
        let provenance = self.provenance(&locked.source, origin, &fetched).await?;
        let plan =
            self.plan(locked.source.clone(), (fetched, provenance), wish, Some((name, locked)))?;
        self.refuse_revoked(&plan.candidate, origin).await?;
        self.listed(plan).await.map(Some)
    }

    /// Asks a component of ACT for its tools, and compares the plugin with the installed one.
    async fn listed(&self, mut plan: Plan) -> Result<Plan, InstallError> {
        let candidate = &mut plan.candidate;
        if candidate.manifest.is_unlisted() {
            let from = candidate.source.to_string();
            let called = candidate.source.called();
            let list = listing::tools(&candidate.bytes, &called, self.cache).await;
            let list =
                list.map_err(|source| InstallError::Listing { from: from.clone(), source })?;
            let unfit = |source: PackError| InstallError::Pack { from, source: source.into() };
            candidate.pin(list).map_err(unfit)?;
        }
        plan.changes = self.changes(&plan.candidate)?;
        Ok(plan)
    }

    /// Reads the attestations of a plugin that was fetched, and verifies them.
    async fn provenance(
        &self,
        source: &Source,
        origin: SourceOrigin,
        fetched: &Fetched,
    ) -> Result<Provenance, InstallError> {
        let Some(manifest) = fetched.manifest else { return Ok(Provenance::default()) };
        let bundles = self.distribution.bundles(source, origin, fetched).await?;
        Ok(self.trust.verify(&manifest, bundles))
    }

    fn plan(
        &self,
        source: Source,
        (fetched, provenance): (Fetched, Provenance),
        wish: &Wish,
        locked: Option<(&str, &Locked)>,
    ) -> Result<Plan, InstallError> {
        let from = source.to_string();
        check_digest(&from, &fetched.bytes, wish, locked.map(|(_, locked)| locked.digest))?;
        let beside = self.beside(&source, &fetched.bytes);
        let mut candidate =
            Candidate::read(source, self.workspace.path(), fetched.bytes, beside).map_err(
                |source| InstallError::Pack { from: from.clone(), source: source.into() },
            )?;
        let range = wish.range.clone().or_else(|| locked?.1.range.clone());
        candidate.range = range.or(candidate.range);
        self.name(&mut candidate, &from, wish, locked)?;
        let accepted = self.store.acceptances()?;
        let known = accepted.plugins.get(&candidate.manifest.name);
        let pinned = match locked {
            Some((_, locked)) => locked.signer.as_ref(),
            None => known.and_then(|known| known.signer.as_ref()),
        };
        let signer = wish.key.as_ref().or(pinned);
        candidate.signer = match (signer, &fetched.signature) {
            (Some(signer), Some(signature)) => {
                let pinned = wish.key.is_none();
                let refused = |source| InstallError::Signature { from, source, pinned };
                signer.check(&candidate.bytes, signature).map_err(refused)?;
                Some(signer.clone())
            }
            (Some(signer), None) if wish.key.is_some() || locked.is_some() => {
                return Err(InstallError::NoSignature { from, signer: signer.clone() });
            }
            _ => None,
        };
        let pinned = locked.and_then(|(_, locked)| locked.identity.as_ref());
        let pinned = pinned.or_else(|| known.and_then(|known| known.identity.as_ref()));
        check_identity(&mut candidate, &provenance, wish, pinned)?;
        let trust = accepted_changes(&accepted, &candidate, wish)?;
        let is_known = known.is_some() && !trust.is_other_plugin;
        let ask = if is_known { trust.wider } else { candidate.manifest.requests.clone() };
        let unchecked_signature = signer.is_none() && fetched.signature.is_some();
        let keeps_grants = is_known;
        let unverified = provenance.unverified;
        let changes = None;
        Ok(Plan {
            candidate,
            ask,
            is_known,
            keeps_grants,
            unchecked_signature,
            unverified,
            changes,
        })
    }

    /// What the files beside a component say, or those that were kept with it. A list of tools is always
    /// asked for anew.
    fn beside(&self, source: &Source, bytes: &[u8]) -> Beside {
        let origin = source.absolute(self.workspace.path());
        let beside = match origin.path() {
            Some(file) => Beside::read(file),
            None => Beside::read(&self.store.path(&Digest::of(bytes))),
        };
        Beside { list: None, ..beside }
    }

    /// Gives a candidate the name that the user or the lock file has for it. Refuses the name of a built-in plugin,
    /// and a plugin whose own name is not the one in the lock file.
    fn name(
        &self,
        candidate: &mut Candidate,
        from: &str,
        wish: &Wish,
        locked: Option<(&str, &Locked)>,
    ) -> Result<(), InstallError> {
        let from = from.to_owned();
        if let Some((name, locked)) = locked
            && locked.own_name(name) != candidate.own_name()
        {
            let (found, wanted) =
                (candidate.own_name().to_owned(), locked.own_name(name).to_owned());
            return Err(InstallError::OtherName { from, found, wanted });
        }
        if let Some(name) = locked.map(|(name, _)| name).or(wish.name.as_deref()) {
            candidate.rename(name);
        }
        let name = candidate.manifest.name.clone();
        if self.built_in.contains(&name) {
            return Err(InstallError::BuiltIn { name, from });
        }
        Ok(())
    }

    /// Compares a candidate with the plugin of the same name in the lock file.
    fn changes(&self, candidate: &Candidate) -> Result<Option<Changes>, InstallError> {
        let lock = lock(self.workspace)?;
        let Some(old) = lock.plugins.get(&candidate.manifest.name) else { return Ok(None) };
        let called = candidate.own_name();
        // With the texts that were beside it: without them, all its tools would differ.
        let path = self.store.path(&old.digest);
        let manifest = self
            .store
            .get(&old.digest)
            .and_then(|bytes| pack::manifest(&bytes, called, Some(&path)).ok());
        Ok(manifest.map(|manifest| Changes::between(&manifest, old, candidate)))
    }

    /// Installs a plugin: writes the grants to the user's settings, the file to the store, and the
    /// plugin to the lock file. `granted` is granted in addition to what the plugin keeps;
    /// `settings` is the user's file. If the plugin's name is new to this user, or belonged to
    /// another plugin, an existing entry of that name in the settings is replaced: no grants,
    /// variables or headers are inherited.
    ///
    /// # Errors
    /// `Settings`, `Store`, `Lock` or `LockFile` if one of the three can't be read or written.
    pub fn install(
        &self,
        plan: &Plan,
        granted: &Capabilities,
        settings: &Path,
    ) -> Result<Locked, InstallError> {
        let Plan { candidate, is_known, keeps_grants, ask, .. } = plan;
        let name = &candidate.manifest.name;
        let _lock = self.store.lock()?;
        let before = grants::granted_to(settings, name)?;
        let keeps_grants = *keeps_grants && *is_known;
        let granted = if keeps_grants { before.join(granted) } else { granted.clone() };
        if !keeps_grants || *ask != Capabilities::NONE || granted != before {
            let owner = if *is_known { Owner::Known } else { Owner::Other };
            grants::set_grant(settings, name, &granted, owner)?;
        }
        self.store.put(&candidate.digest, &candidate.bytes)?;
        self.store.put_beside(&candidate.digest, &candidate.beside)?;
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

/// Whether the number of a plugin's version is lower than that of another one.
pub fn is_older(version: &str, other: &str) -> bool {
    let number = |version: &str| -> Vec<u64> {
        let numbers = version.split(['-', '+']).next().unwrap_or_default();
        numbers.split('.').filter_map(|part| part.parse().ok()).collect()
    };
    number(version) < number(other)
}

impl Changes {
    /// Whether the new version number is lower. An old version's signature is still valid, so a
    /// downgrade has to be visible.
    pub fn is_older(&self) -> bool {
        let [old, new] = &self.version;
        is_older(new, old)
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
