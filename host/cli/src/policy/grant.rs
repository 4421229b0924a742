//! `cofferdam policy grant` and `cofferdam policy revoke`, which change only the user's own
//! settings.

use serde_json::json;

use crate::args::{Global, Granted};
use crate::config::grants::{self, Owner};
use crate::output::Output;
use crate::plugin::install::{Session, warn_of_overrides};
use crate::{CliError, ask, exit, setup};
use cofferdam_core::policy::{Capabilities, Capability, Policy};
use cofferdam_engine::journal::Event;

pub fn grant(
    global: &Global,
    name: &str,
    named: &[Granted],
    output: &Output,
) -> Result<u8, CliError> {
    let (host, _runtime) = setup::host(global, Some(1))?;
    let plugins = host.registry().plugins();
    let plugin = plugins.iter().find(|plugin| plugin.manifest.name == name).ok_or_else(|| {
        CliError::usage(format!("there is no plugin '{name}' (`cofferdam plugin list`)"))
    })?;
    let requests = &plugin.manifest.requests;
    let granted = ask::select(name, requests, named)?;
    let session = Session::open(global)?;
    let before = before(&session, name, plugin.built_in, requests)?;
    change(global, &session, name, &before.join(&granted), output)
}

pub fn revoke(
    global: &Global,
    name: &str,
    named: &[Capability],
    output: &Output,
) -> Result<u8, CliError> {
    let session = Session::open(global)?;
    let built_in = session.installer().built_in.contains(name);
    // An installed plugin may no longer load; its grants can be revoked nevertheless.
    let requests = if built_in {
        let (host, _runtime) = setup::host(global, Some(1))?;
        let plugins = host.registry().plugins();
        plugins
            .iter()
            .find(|plugin| plugin.manifest.name == name)
            .map_or(Capabilities::NONE, |plugin| plugin.manifest.requests.clone())
    } else {
        Capabilities::NONE
    };
    let before = before(&session, name, built_in, &requests)?;
    let mut after = if named.is_empty() { Capabilities::NONE } else { before.clone() };
    for capability in named {
        if !before.holds(capability) {
            return Err(CliError::usage(format!(
                "'{name}' is not granted {capability} by your settings; it is granted {before}"
            )));
        }
        after.remove(capability);
    }
    // "All agents" is one grant: a single agent can't be revoked from it, so this is an error.
    if let Some(capability) = named.iter().find(|capability| after.holds(capability)) {
        let error = format!("'{name}' is granted agents=*, and {capability} with it");
        let hint = format!("`cofferdam policy revoke {name} 'agents=*'` takes that back");
        return Err(CliError::usage(error).with_hint(hint));
    }
    // An entry that grants nothing can still have fields that a later grant would activate.
    let has_entry = grants::has_entry(&session.directories.settings, name)?;
    if !built_in && before == Capabilities::NONE && !has_entry {
        return Err(CliError::usage(format!("your settings grant '{name}' nothing")));
    }
    change(global, &session, name, &after, output)
}

/// The current grants in the user's settings. A built-in plugin without an entry has its default
/// permissions.
fn before(
    session: &Session,
    name: &str,
    built_in: bool,
    requests: &Capabilities,
) -> Result<Capabilities, CliError> {
    let path = &session.directories.settings;
    if built_in && !grants::has_entry(path, name)? {
        let nothing_said = Policy::new(&[]).map_err(CliError::host)?;
        return Ok(nothing_said.capabilities(name, true, requests));
    }
    Ok(grants::granted_to(path, name)?)
}

fn change(
    global: &Global,
    session: &Session,
    name: &str,
    granted: &Capabilities,
    output: &Output,
) -> Result<u8, CliError> {
    let path = &session.directories.settings;
    let built_in = session.installer().built_in.contains(name);
    let owner = if built_in { Owner::BuiltIn } else { Owner::Known };
    let lock = session.store.lock()?;
    grants::set_grant(path, name, granted, owner)?;
    drop(lock);
    session.record(Event::GRANTED, format!("{name} is granted {granted}"));
    warn_of_overrides(global, session, name)?;
    output.document(&json!({"plugin": name, "granted": granted, "settings": path}))?;
    Ok(exit::OK)
}
