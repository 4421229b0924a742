//! `cofferdam plugin update`: fetches newer versions of installed plugins.

use semver::VersionReq;
use serde_json::{Value, json};

use super::install::{Session, refuse_single_plugin_options, unchanged, wish};
use crate::args::{Global, Update};
use crate::install::{self, InstallError, Wish, is_older};
use crate::output::Output;
use crate::{CliError, exit};
use cofferdam_plugin::lock::{Candidate, Locked};
use cofferdam_plugin::source::{self, Reference, Source, SourceOrigin, Version};

pub fn execute(global: &Global, args: &Update, output: &Output) -> Result<u8, CliError> {
    let session = Session::open(global)?;
    let mut lock = install::lock(&session.workspace)?;
    if let Some(name) = &args.name {
        lock.plugins.retain(|other, _| other == name);
        if lock.plugins.is_empty() {
            return Err(InstallError::Unknown(name.clone()).into());
        }
    } else {
        refuse_single_plugin_options(&args.accepted, &args.granting, "update")?;
    }
    let wish = wish(&args.accepted)?;
    let (mut documents, mut status) = (Vec::new(), exit::OK);
    for (name, locked) in &lock.plugins {
        // If one plugin is refused, the others are still updated.
        documents.push(match one(&session, args, &wish, name, locked) {
            Ok(document) => document,
            Err(error) if lock.plugins.len() == 1 => return Err(error),
            Err(error) => {
                status = status.max(error.status());
                json!({"plugin": name, "state": "refused", "why": error.to_string()})
            }
        });
    }
    output.document(&json!({ "plugins": documents }))?;
    Ok(status)
}

fn one(
    session: &Session,
    args: &Update,
    wish: &Wish,
    name: &str,
    locked: &Locked,
) -> Result<Value, CliError> {
    let accepted = session.store.acceptances()?;
    if !accepted.plugins.contains_key(name) {
        let hint = format!("`cofferdam plugin install {name}` installs what the lock names");
        let error = CliError::denied(format!("'{name}' is not installed here"));
        return Err(error.with_hint(hint));
    }
    let installer = session.installer();
    let origin = accepted.source_origin(name, locked);
    // Before the plugin: a publisher who revokes a version may have removed it as well.
    if let Some(signer) = wish.key.as_ref().or(locked.signer.as_ref()) {
        let fetched = installer.fetch_revocations(&locked.source, origin, signer);
        session.runtime.block_on(fetched)?;
    }
    if locked.source.is_fixed() {
        installer.check_revoked(&locked.source, &locked.digest, locked.signer.as_ref())?;
        return Ok(unchanged(name, locked));
    }
    let name_here = locked.called.as_ref().map(|_| name.to_owned());
    let wish = Wish { range: locked.range.clone(), name: name_here, ..wish.clone() };
    let mut tags = tags(session, locked, origin)?;
    let (source, beyond_range, plan) = loop {
        let Newest { source, beyond_range } = newest(&tags, locked);
        match session.runtime.block_on(installer.consider(&source, origin, &wish)) {
            Err(error @ InstallError::Revoked { .. }) if source != locked.source => {
                tracing::warn!("{error}; the next lower version is looked at");
                tags.retain(|tag| !is_tag(&source, tag));
            }
            considered => break (source, beyond_range, considered?),
        }
    };
    let candidate = &plan.candidate;
    refuse_other(candidate, &source, name, locked)?;
    let is_same = candidate.digest == locked.digest
        && candidate.signer == locked.signer
        && candidate.identity == locked.identity;
    let mut document = if is_same && source == locked.source {
        unchanged(name, locked)
    } else if args.dry_run {
        json!({
            "plugin": name,
            "state": "newer",
            "asks_for": plan.ask.each().map(|each| each.in_words()).collect::<Vec<_>>(),
            "source": source,
            "changes": plan.changes,
        })
    } else {
        let again = format!("cofferdam plugin update {name}");
        session.install_planned(&plan, &args.granting, &again)?
    };
    if let (Some(beyond), Some(document)) = (beyond_range, document.as_object_mut()) {
        document.insert("beyond_range".to_owned(), beyond.into());
    }
    Ok(document)
}

/// Refuses a plugin of another name, and an older version under a higher tag.
fn refuse_other(
    candidate: &Candidate,
    source: &Source,
    name: &str,
    locked: &Locked,
) -> Result<(), CliError> {
    let wanted = locked.own_name(name);
    if candidate.own_name() != wanted {
        let (from, found) = (candidate.source.to_string(), candidate.own_name().to_owned());
        return Err(InstallError::OtherName { from, found, wanted: wanted.to_owned() }.into());
    }
    // A tag is what the registry says, the version in the manifest what the author did.
    let (old, new) = (&locked.version, &candidate.manifest.version);
    if *source != locked.source && is_older(new, old) {
        let why =
            format!("{source}: it is version {new}, and older than {old}, which is installed");
        let hint = format!("`{}` installs it nevertheless", source.install_command());
        return Err(CliError::denied(why).with_hint(hint));
    }
    Ok(())
}

/// Where the newest version of a plugin is.
struct Newest {
    source: Source,
    /// The tag of a higher version that is not in the range.
    beyond_range: Option<String>,
}

/// The tags of the repository of a plugin whose tag is a semantic version; none for other sources.
fn tags(session: &Session, locked: &Locked, origin: SourceOrigin) -> Result<Vec<String>, CliError> {
    let (Some((reference, _)), Some(_)) = (locked.source.release(), &locked.range) else {
        return Ok(Vec::new());
    };
    let tags = session.distribution.tags(reference, origin);
    Ok(session.runtime.block_on(tags).map_err(InstallError::from)?)
}

/// Finds the highest version in the range of a plugin whose tag is a semantic version. All other
/// sources are where they were.
fn newest(tags: &[String], locked: &Locked) -> Newest {
    let source = locked.source.clone();
    let (Some((reference, current)), Some(range)) = (locked.source.release(), &locked.range) else {
        return Newest { source, beyond_range: None };
    };
    let found = source::newest(tags, range, &current);
    let source = found.map_or(source, |tag| {
        Source::Registry(Reference { version: Version::Tag(tag.clone()), ..reference.clone() })
    });
    let current = found.and_then(|tag| source::release(tag)).unwrap_or(current);
    let beyond_range = source::newest(tags, &VersionReq::STAR, &current).cloned();
    Newest { source, beyond_range }
}

/// Whether a source is the tag of its repository.
fn is_tag(source: &Source, tag: &str) -> bool {
    matches!(source, Source::Registry(Reference { version: Version::Tag(own), .. }) if own == tag)
}
