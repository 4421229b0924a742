//! `cofferdam plugin`: the subcommands, and `list`, `inspect` and `pack` themselves.

mod catalogue;
mod check;
mod fetch;
pub(super) mod install;
mod new;
mod push;
mod test;
mod update;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Value, json};

use super::args::{Format, Global, PluginCommand};
use super::output::Output;
use super::setup::Directories;
use super::{CliError, exit, setup};
use cofferdam_core::policy::{Capabilities, Capability, Files};
use cofferdam_engine::host::Host;
use cofferdam_engine::runtime::{Runtime, Workers, initialized};
use cofferdam_plugin::acceptance::AcceptedFile;
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::lock::{Lock, Locked};
use cofferdam_plugin::pack;
use cofferdam_plugin::registry::Plugin;
use cofferdam_plugin::store::Store;
use cofferdam_plugin::typed::{self, Beside, TypedError, wit};

pub fn execute(global: &Global, command: &PluginCommand, output: &Output) -> Result<u8, CliError> {
    match command {
        PluginCommand::List => list(global, output),
        PluginCommand::Inspect { name } => inspect(global, name, output),
        PluginCommand::New(args) => new::execute(args, output),
        PluginCommand::Check { path } => check::execute(path, output),
        PluginCommand::Test { name, grant_requests } => {
            test::execute(global, name, *grant_requests, output)
        }
        PluginCommand::Pack { manifest, component, output: packed, compile } => {
            pack(manifest, component, packed, *compile, output)
        }
        PluginCommand::Install(args) => install::install(global, args, output),
        PluginCommand::Remove { name, everywhere } => {
            install::remove(global, name, *everywhere, output)
        }
        PluginCommand::Update(args) => update::execute(global, args, output),
        PluginCommand::Search(args) => catalogue::search(global, args, output),
        PluginCommand::Fetch(args) => fetch::execute(global, args, output),
        PluginCommand::Catalogue(args) => catalogue::write(args, output),
        PluginCommand::Push { file, reference } => push::execute(file, reference, output),
    }
}

fn list(global: &Global, output: &Output) -> Result<u8, CliError> {
    let (host, _runtime) = setup::host(global, Some(1))?;
    let plugins = host.registry().plugins();
    let lock = crate::install::lock(host.workspace())?;
    if output.format() == Format::Text {
        let line = |plugin: &Plugin| {
            let manifest = &plugin.manifest;
            let from = installed(&lock, plugin).map(|locked| format!("; from {}", locked.source));
            format!(
                "{:14} {:8} {:3} tools {:3} backends  {}{}\n",
                manifest.name,
                manifest.version,
                manifest.tools.len(),
                manifest.backends.len(),
                manifest.description,
                from.unwrap_or_default()
            )
        };
        output.text(&plugins.iter().map(|plugin| line(plugin)).collect::<String>())?;
        return Ok(exit::OK);
    }
    let entries: Vec<Value> = plugins.iter().map(|plugin| entry(&host, &lock, plugin)).collect();
    output.json(&json!({ "plugins": entries }))?;
    Ok(exit::OK)
}

/// The entry of a plugin in the lock file. One that was given with --plugin is not the one that the file
/// names.
fn installed<'a>(lock: &'a Lock, plugin: &Plugin) -> Option<&'a Locked> {
    let locked = lock.plugins.get(&plugin.manifest.name)?;
    (plugin.digest == Some(locked.digest)).then_some(locked)
}

/// What the list says of a plugin.
pub(super) fn entry(host: &Host, lock: &Lock, plugin: &Plugin) -> Value {
    let manifest = &plugin.manifest;
    let granted = host.policy().capabilities(&manifest.name, plugin.built_in, &manifest.requests);
    json!({
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "built_in": plugin.built_in,
        "tools": manifest.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        "backends": manifest.backends.iter().map(|backend| &backend.name).collect::<Vec<_>>(),
        "requests": manifest.requests,
        "granted": granted,
        "installed": installed(lock, plugin).map(|locked| json!({
            "source": locked.source,
            "digest": locked.digest,
            "called": locked.called,
            "signer": locked.signer,
            "identity": locked.identity,
        })),
    })
}

fn inspect(global: &Global, name: &str, output: &Output) -> Result<u8, CliError> {
    let usage = |error: &dyn std::fmt::Display| CliError::usage(format!("{name}: {error}"));
    let (file, called, here) = if Path::new(name).is_file() {
        (PathBuf::from(name), pack::called(Path::new(name)), None)
    } else {
        let (host, _runtime) = setup::host(global, Some(1))?;
        let plugin = host
            .registry()
            .plugins()
            .iter()
            .find(|plugin| plugin.manifest.name == name)
            .ok_or_else(|| {
            usage(&"neither a plugin's name (`cofferdam plugin list`) nor a file")
        })?;
        (plugin.component.clone(), name.to_owned(), Some(name))
    };
    let bytes = fs::read(&file).map_err(|error| usage(&error))?;
    let (manifest, left_out) = match pack::packed_manifest(&bytes).map_err(|error| usage(&error))? {
        Some(manifest) => (manifest, None),
        None => match typed::derive(&bytes, &called, &Beside::read(&file)) {
            Ok(derived) => (derived.manifest, Some(derived.left_out)),
            // What it asks for is known before it runs, its tools are not.
            Err(TypedError::Unlisted(manifest)) => (*manifest, Some(Vec::new())),
            Err(error) => return Err(usage(&error)),
        },
    };
    let imports = pack::imports(&bytes).map_err(|error| usage(&error))?;
    let exports = pack::exports(&bytes).map_err(|error| usage(&error))?;
    let wit = wit::text(&bytes).map_err(|error| usage(&error))?;
    let accepted = accepted_file(&Digest::of(&bytes))?;
    output.document(&json!({
        // The name under which it is installed.
        "name": here.unwrap_or(&manifest.name),
        "version": manifest.version,
        "description": manifest.description,
        "license": manifest.license,
        "asks_for": in_words(&manifest.requests),
        "limits": manifest.limits,
        "has_manifest": left_out.is_none(),
        "signer": accepted.as_ref().and_then(|file| file.signer.as_ref()),
        "identity": accepted.as_ref().and_then(|file| file.identity.as_ref()),
        "attestations": accepted.as_ref().map(|file| &file.attestations),
        "lists_tools_when_installed": manifest.is_unlisted(),
        "tools": manifest.tools.iter().map(|tool| json!({
            "name": tool.name,
            "title": tool.title,
            "description": tool.description,
            "effects": tool.effects,
            "examples": tool.examples.iter().map(|example| &example.name).collect::<Vec<_>>(),
        })).collect::<Vec<Value>>(),
        "left_out": left_out.unwrap_or_default(),
        "backends": manifest.backends,
        "imports": imports,
        "exports": exports,
        "wit": wit,
        "bytes": bytes.len(),
        "sha256": Digest::of(&bytes).hex(),
    }))?;
    Ok(exit::OK)
}

/// What was checked when the user installed this file, in this workspace or another.
fn accepted_file(digest: &Digest) -> Result<Option<AcceptedFile>, CliError> {
    // A command that only reads does not create the store.
    let store = Directories::find().map(|its| its.plugins).filter(|store| store.is_dir());
    let Some(store) = store else { return Ok(None) };
    Ok(Store::open(&store)?.acceptances()?.file(digest).cloned())
}

/// Lists capabilities as words, for the user to decide about.
fn in_words(requests: &Capabilities) -> Vec<String> {
    let none = (requests.files == Files::None).then_some(Capability::Files(Files::None));
    none.into_iter().chain(requests.each()).map(|each| each.in_words()).collect()
}

fn pack(
    manifest: &Path,
    component: &Path,
    packed: &Path,
    compile: bool,
    output: &Output,
) -> Result<u8, CliError> {
    let usage = |path: &Path, error: &dyn std::fmt::Display| {
        CliError::usage(format!("{}: {error}", path.display()))
    };
    let document =
        pack::read_manifest_file(manifest).map_err(|error| CliError::usage(error.to_string()))?;
    let bytes = fs::read(component).map_err(|error| usage(component, &error))?;
    let bytes = initialized(&bytes).map_err(|error| usage(component, &error))?;
    let bytes = pack::pack(&bytes, &document).map_err(|error| usage(component, &error))?;
    if let Some(folder) = packed.parent() {
        fs::create_dir_all(folder)?;
    }
    replace(packed, &bytes)?;
    if compile {
        let runtime = Runtime::new(Workers::default_count(), None).map_err(CliError::host)?;
        let code = runtime.compile(&bytes).map_err(|error| usage(component, &error))?;
        replace(&packed.with_extension("cwasm"), &code)?;
    }
    output.document(&json!({
        "plugin": document.name,
        "file": packed,
        "bytes": bytes.len(),
        "sha256": Digest::of(&bytes).hex(),
    }))?;
    Ok(exit::OK)
}

/// Replaces a file atomically by a new one. A running host may have mapped the old file, and would
/// crash if its contents changed.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    fs::write(&name, bytes)?;
    fs::rename(&name, path)
}
