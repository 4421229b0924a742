//! `cofferdam plugin update`: fetches newer versions of installed plugins.

use serde_json::{Value, json};

use super::install::{Session, refuse_single_plugin_options, unchanged, wish};
use crate::args::{Global, Update};
use crate::install::{self, InstallError, Wish};
use crate::output::Output;
use crate::{CliError, exit};
use cofferdam_plugin::lock::Locked;

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
    if locked.source.is_fixed() {
        return Ok(unchanged(name, locked));
    }
    let installer = session.installer();
    let origin = accepted.source_origin(name, locked);
    let plan = session.runtime.block_on(installer.consider(&locked.source, origin, wish))?;
    let candidate = &plan.candidate;
    if candidate.manifest.name != *name {
        let (from, found) = (candidate.source.to_string(), candidate.manifest.name.clone());
        return Err(InstallError::OtherName { from, found, wanted: name.to_owned() }.into());
    }
    if candidate.digest == locked.digest && candidate.signer == locked.signer {
        return Ok(unchanged(name, locked));
    }
    if args.dry_run {
        return Ok(json!({
            "plugin": name,
            "state": "newer",
            "asks_for": plan.ask.each().map(|each| each.in_words()).collect::<Vec<_>>(),
            "changes": plan.changes,
        }));
    }
    session.install_planned(&plan, &args.granting, &format!("cofferdam plugin update {name}"))
}
