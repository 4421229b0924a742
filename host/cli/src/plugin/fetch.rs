//! `cofferdam plugin fetch`: gets the built-in plugins of a release, for a command that came without them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::json;

use super::catalogue;
use super::install::no_home;
use crate::args::{self, Global};
use crate::install::InstallError;
use crate::output::Output;
use crate::setup::{self, Directories, VERSION};
use crate::{CliError, exit};
use cofferdam_plugin::catalogue::Entry;
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::distribution::Distribution;
use cofferdam_plugin::pack;
use cofferdam_plugin::source::SourceOrigin;

/// How many plugins a release has at most.
const MAX_PLUGINS: usize = 200;

/// Fetches all plugins of a catalogue, each with the digest that the catalogue has. They replace those of
/// an earlier call all at once.
pub fn execute(global: &Global, args: &args::Fetch, output: &Output) -> Result<u8, CliError> {
    let directory = Directories::find().ok_or_else(no_home)?.built_in;
    let workspace = setup::workspace(global)?;
    let (workspace, distribution) = (workspace.path(), setup::distribution()?);
    let place = catalogue::named_place(&args.catalogue, &args.key, workspace)?;
    let runtime = setup::current_thread_runtime()?;
    let catalogue = runtime.block_on(catalogue::fetch(&distribution, &place, workspace))?;
    let names: BTreeSet<&str> = catalogue.plugins.iter().map(|entry| entry.name.as_str()).collect();
    let count = catalogue.plugins.len();
    if names.len() != count || !(1..=MAX_PLUGINS).contains(&count) {
        let why = format!("it has to name 1 to {MAX_PLUGINS} plugins, each once");
        return Err(refused(&args.catalogue, why));
    }
    let parent = directory.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent)?;
    let fetched = tempfile::Builder::new().prefix(".fetched-").tempdir_in(parent)?;
    for entry in &catalogue.plugins {
        let bytes = runtime.block_on(plugin(&distribution, entry, workspace))?;
        fs::write(fetched.path().join(format!("{}.wasm", entry.name)), bytes)?;
    }
    if directory.exists() {
        fs::rename(&directory, tempfile::tempdir_in(parent)?.path())?;
    }
    fs::rename(fetched.keep(), &directory)?;
    output.document(&json!({ "directory": directory, "plugins": names }))?;
    Ok(exit::OK)
}

/// Fetches a plugin, which has to be the one that the catalogue means.
async fn plugin(
    distribution: &Distribution,
    entry: &Entry,
    workspace: &Path,
) -> Result<Vec<u8>, CliError> {
    let Entry { name, version, source, digest, .. } = entry;
    let digest = digest.ok_or_else(|| refused(name, "the catalogue has no digest of it"))?;
    if version != VERSION {
        return Err(refused(name, format!("it has version {version}, and this command {VERSION}")));
    }
    let fetched = distribution.fetch(source, SourceOrigin::User, workspace).await;
    let bytes = fetched.map_err(InstallError::from)?.bytes;
    let found = Digest::of(&bytes);
    if found != digest {
        return Err(refused(
            name,
            format!("{source} has {found}, and the catalogue says {digest}"),
        ));
    }
    let manifest = pack::manifest(&bytes, name, None).map_err(|error| refused(name, error))?;
    if manifest.name != *name {
        return Err(refused(name, format!("{source} is the plugin {}", manifest.name)));
    }
    Ok(bytes)
}

fn refused(what: &str, why: impl std::fmt::Display) -> CliError {
    CliError::usage(format!("{what}: {why}"))
}
