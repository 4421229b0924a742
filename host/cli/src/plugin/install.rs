//! `cofferdam plugin install` and `cofferdam plugin remove`.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use semver::VersionReq;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::args::{Accepted, Global, Granting, Install};
use crate::config::{
    self,
    grants::{self, Owner},
};
use crate::install::{self, Changes, Installer, Plan, Wish};
use crate::output::Output;
use crate::setup::{self, Directories};
use crate::{CliError, ask, exit};
use cofferdam_core::policy::Capabilities;
use cofferdam_engine::journal::{Entry, Event, Journal};
use cofferdam_plugin::acceptance::by;
use cofferdam_plugin::distribution::Distribution;
use cofferdam_plugin::lock::{FILE, Lock, Locked};
use cofferdam_plugin::provenance::{Identity, Trust};
use cofferdam_plugin::registry::Registry;
use cofferdam_plugin::signature::Signer;
use cofferdam_plugin::source::{Source, SourceOrigin};
use cofferdam_plugin::store::Store;
use cofferdam_workspace::Workspace;

/// What the commands that install plugins need: workspace, directories, store.
pub struct Session {
    pub workspace: Arc<Workspace>,
    pub store: Store,
    pub directories: Directories,
    pub runtime: Runtime,
    pub distribution: Distribution,
    trust: Trust,
    built_in: BTreeSet<String>,
}

impl Session {
    pub fn open(global: &Global) -> Result<Self, CliError> {
        let directories = Directories::find().ok_or_else(no_home)?;
        Ok(Self {
            workspace: Arc::new(setup::workspace(global)?),
            store: Store::open(&directories.plugins)?,
            trust: config::trust(&directories.settings)?,
            directories,
            runtime: setup::current_thread_runtime()?,
            distribution: setup::distribution()?,
            built_in: built_in()?,
        })
    }

    pub fn installer(&self) -> Installer<'_> {
        Installer {
            workspace: &self.workspace,
            store: &self.store,
            distribution: &self.distribution,
            cache: &self.directories.cache,
            trust: &self.trust,
            built_in: self.built_in.clone(),
        }
    }

    /// Installs a planned plugin with the user's grants, and returns the document to print.
    pub fn install_planned(
        &self,
        plan: &Plan,
        granting: &Granting,
        again: &str,
    ) -> Result<Value, CliError> {
        let candidate = &plan.candidate;
        let name = &candidate.manifest.name;
        for why in &plan.unverified {
            tracing::warn!("an attestation of {name} is not verified: {why}");
        }
        let is_required = candidate.identity.is_some();
        if !is_required && !candidate.attestations.is_empty() {
            tracing::warn!(
                "{name} has attestations, and no identity is required of them: \
                 --require-identity and --issuer do"
            );
        }
        if plan.unchecked_signature {
            tracing::warn!(
                "{name} has a signature, and nobody has checked it: --key says whose it has to be"
            );
        } else if candidate.signer.is_none() && !is_required {
            tracing::warn!(
                "{name} is not signed: nothing but where it comes from says who made it"
            );
        }
        if let Some(changes) = plan.changes.as_ref().filter(|changes| changes.is_older()) {
            let [old, new] = &changes.version;
            tracing::warn!("{name} {new} is older than {old}, which is installed");
        }
        let granted = ask::grants(candidate, &plan.ask, granting, again)?;
        let settings = &self.directories.settings;
        let had_entry = !plan.is_known && grants::has_entry(settings, name)?;
        let locked = self.installer().install(plan, &granted, settings)?;
        if had_entry {
            tracing::warn!(
                "what your settings said under [grants.{name}] was not said of this plugin: the \
                 entry is new, without variables and headers"
            );
        }
        let event = format!(
            "{name} {} {}, {}, granted {}",
            locked.version,
            locked.digest,
            by(locked.signer.as_ref()),
            locked.granted
        );
        self.record(Event::INSTALLED, event);
        Ok(self.document(plan, &locked))
    }

    fn document(&self, plan: &Plan, locked: &Locked) -> Value {
        let words = |set: &Capabilities| set.each().map(|each| each.in_words()).collect::<Vec<_>>();
        let is_other =
            plan.changes.as_ref().is_some_and(|Changes { digest: [old, new], .. }| old != new);
        json!({
            "plugin": plan.candidate.manifest.name,
            "state": if is_other { "updated" } else { "installed" },
            "version": locked.version,
            "source": locked.source,
            "range": locked.range,
            "digest": locked.digest,
            "called": locked.called,
            "signer": locked.signer,
            "identity": locked.identity,
            "attestations": plan.candidate.attestations,
            "unverified": plan.unverified,
            "tools": plan.candidate.manifest.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            "asks_for": words(&locked.requests),
            "granted": locked.granted,
            "changes": plan.changes,
        })
    }

    /// Writes an event to the journal.
    pub fn record(&self, event: &str, reason: String) {
        Journal::new(Arc::clone(&self.workspace)).append(&Entry::Event(Event::new(event, reason)));
    }
}

pub fn no_home() -> CliError {
    CliError::host("there is no home directory to keep it in".to_owned())
}

/// The names of the built-in plugins.
pub fn built_in() -> Result<BTreeSet<String>, CliError> {
    let mut registry = Registry::default();
    registry
        .add_built_in(&setup::built_in_plugins()?)
        .map_err(|error| CliError::host(error.to_string()))?;
    Ok(registry.plugins().iter().map(|plugin| plugin.manifest.name.clone()).collect())
}

/// Turns the options about a plugin's origin into a [`Wish`].
pub fn wish(accepted: &Accepted) -> Result<Wish, CliError> {
    Ok(Wish {
        key: accepted.key.as_deref().map(key).transpose()?,
        identity: accepted
            .require_identity
            .clone()
            .zip(accepted.issuer.clone())
            .map(|(name, issuer)| Identity { name, issuer }),
        name: None,
        digest: None,
        accept_signer: accepted.accept_signer,
        accept_source: accepted.accept_source,
        range: None,
    })
}

/// The key that `--key` names.
pub fn key(key: &str) -> Result<Signer, CliError> {
    // A file of this name is read; a key itself, 56 characters of base64, is not expected to be
    // a file's name.
    let text = match Path::new(key).is_file() {
        true => setup::read_input(Path::new(key))?,
        false => key.to_owned(),
    };
    text.parse().map_err(|error| CliError::usage(format!("--key: {error}")))
}

pub fn install(global: &Global, args: &Install, output: &Output) -> Result<u8, CliError> {
    let session = Session::open(global)?;
    let lock = install::lock(&session.workspace)?;
    let (name, range) = (args.name.clone(), args.range.clone());
    let wish = Wish { digest: args.digest, name, range, ..wish(&args.accepted)? };
    let Some(name) = &args.source else {
        return install_locked(&session, &lock, args, &wish, output);
    };
    let again = format!("cofferdam plugin install {name}");
    let plan = if let Some(locked) = lock.plugins.get(name) {
        refuse_source_options(args, name, locked)?;
        match session.runtime.block_on(session.installer().restore(name, locked, &wish))? {
            Some(plan) => plan,
            None => {
                output.document(&json!({ "plugins": [unchanged(name, locked)] }))?;
                return Ok(exit::OK);
            }
        }
    } else {
        let source = source(name, session.workspace.path())?.ok_or_else(|| {
            CliError::usage(format!(
                "{name}: there is no such file, and {FILE} has no plugin of that name; \
                 `cofferdam plugin search {name}` looks in the catalogues of your settings"
            ))
        })?;
        check_range(&source, args.range.as_ref())?;
        let installer = session.installer();
        let considered = installer.consider(&source, SourceOrigin::User, &wish);
        let mut plan = session.runtime.block_on(considered)?;
        // If the options name the grants, they replace the existing ones.
        plan.keeps_grants &= !args.granting.deny && args.granting.grant.is_empty();
        plan
    };
    let document = session.install_planned(&plan, &args.granting, &again)?;
    warn_of_overrides(global, &session, &plan.candidate.manifest.name)?;
    output.document(&json!({ "plugins": [document] }))?;
    Ok(exit::OK)
}

/// Refuses the options for a source if the command names a plugin of the lock file.
fn refuse_source_options(args: &Install, name: &str, locked: &Locked) -> Result<(), CliError> {
    let option = match (&args.range, &args.name) {
        (Some(_), _) => "--range VERSIONS",
        (None, Some(_)) => "--as NAME",
        (None, None) => return Ok(()),
    };
    let word = option.split(' ').next().unwrap_or(option);
    Err(CliError::usage(format!(
        "{word} is for a source, and {FILE} has '{name}' already; to change it, install the plugin from its \
         source: `{} {option}`",
        locked.source.install_command()
    )))
}

/// Refuses a range that says nothing about the source, or that its own version is not in.
fn check_range(source: &Source, range: Option<&VersionReq>) -> Result<(), CliError> {
    let Some(range) = range else { return Ok(()) };
    match source.release() {
        Some((_, version)) if range.matches(&version) => Ok(()),
        Some((_, version)) => Err(CliError::usage(format!(
            "--range: {version} is not in {range}, so the range has to be another"
        ))),
        None => Err(CliError::usage(
            "--range is for a tag of a registry that is a semantic version, as in \
             oci://ghcr.io/ada/lines:1.2.0"
                .to_owned(),
        )),
    }
}

/// Refuses the options that are about a single plugin if the command is for all of them.
pub fn refuse_single_plugin_options(
    accepted: &Accepted,
    granting: &Granting,
    command: &str,
) -> Result<(), CliError> {
    if accepted.key.is_none() && accepted.require_identity.is_none() && granting.grant.is_empty() {
        return Ok(());
    }
    Err(CliError::usage(format!(
        "--key, --require-identity and --grant are for one plugin: name it, as in `cofferdam plugin {command} NAME`"
    )))
}

/// Installs what the lock file names and is not installed yet.
fn install_locked(
    session: &Session,
    lock: &Lock,
    args: &Install,
    wish: &Wish,
    output: &Output,
) -> Result<u8, CliError> {
    refuse_single_plugin_options(&args.accepted, &args.granting, "install")?;
    if lock.plugins.is_empty() {
        tracing::warn!("{FILE} names no plugin; `cofferdam plugin install FILE` installs one");
    }
    let mut documents = Vec::new();
    for (name, locked) in &lock.plugins {
        let plan = session.runtime.block_on(session.installer().restore(name, locked, wish))?;
        documents.push(match plan {
            None => unchanged(name, locked),
            Some(plan) => {
                let again = format!("cofferdam plugin install {name}");
                session.install_planned(&plan, &args.granting, &again)?
            }
        });
    }
    output.document(&json!({ "plugins": documents }))?;
    Ok(exit::OK)
}

/// The document for a plugin that is installed already.
pub fn unchanged(name: &str, locked: &Locked) -> Value {
    json!({
        "plugin": name,
        "state": "unchanged",
        "version": locked.version,
        "source": locked.source,
        "digest": locked.digest,
        "signer": locked.signer,
    })
}

/// The source that the user named; `None` if it is a file that does not exist.
pub fn source(name: &str, workspace: &Path) -> Result<Option<Source>, CliError> {
    if name.contains("://") {
        return name.parse().map(Some).map_err(|error| CliError::usage(format!("{error}")));
    }
    if !Path::new(name).exists() {
        return Ok(None);
    }
    let here = std::env::current_dir()?;
    Ok(Some(Source::file(Path::new(name), &here, workspace)))
}

/// Warns if settings of the workspace override what the user grants the plugin.
pub fn warn_of_overrides(global: &Global, session: &Session, name: &str) -> Result<(), CliError> {
    let layers = setup::layers(global, &session.workspace)?;
    for (settings, file) in layers.settings.iter().zip(&layers.files) {
        if file.path != session.directories.settings && settings.grants.contains_key(name) {
            tracing::warn!(
                "what {name} gets here is what {} says under [grants.{name}], not what your own settings say",
                file.path.display()
            );
        }
    }
    Ok(())
}

pub fn remove(
    global: &Global,
    name: &str,
    everywhere: bool,
    output: &Output,
) -> Result<u8, CliError> {
    let session = Session::open(global)?;
    let locked = match install::remove(&session.workspace, name) {
        Ok(locked) => Some(locked),
        Err(install::InstallError::Unknown(_)) if everywhere => None,
        Err(error) => return Err(error.into()),
    };
    let forgotten = everywhere && install::forget(&session.store, name)?;
    if forgotten {
        let settings = &session.directories.settings;
        grants::set_grant(settings, name, &Capabilities::NONE, Owner::Known)?;
    } else if everywhere && locked.is_none() {
        return Err(CliError::usage(format!("no plugin '{name}' is installed")));
    } else {
        let granted = grants::granted_to(&session.directories.settings, name)?;
        if granted != Capabilities::NONE {
            tracing::warn!(
                "your settings still grant {name} {granted}; `cofferdam policy revoke {name}` takes that back"
            );
        }
    }
    session.record(Event::REMOVED, name.to_owned());
    output.document(&json!({
        "plugin": name,
        "removed_from": locked.is_some().then(|| session.workspace.name()),
        "forgotten": forgotten,
    }))?;
    Ok(exit::OK)
}
