//! `cofferdam plugin search`, which looks in catalogues, and `cofferdam plugin catalogue`, which writes
//! one.

use std::fmt::Write as _;
use std::path::{Component, Path};

use serde_json::{Value, json};

use super::install::{key, no_home, source};
use super::{in_words, replace};
use crate::args::{self, Format, Global};
use crate::install::InstallError;
use crate::output::Output;
use crate::setup::{self, Directories};
use crate::{CliError, config, exit};
use cofferdam_core::policy::CatalogueSettings;
use cofferdam_plugin::catalogue::{self, Catalogue, Entry};
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::distribution::Distribution;
use cofferdam_plugin::pack;
use cofferdam_plugin::signature::Signer;
use cofferdam_plugin::source::{Source, SourceOrigin};

/// Where a catalogue is and who signs it, under the name that the settings give it.
pub(super) struct Place {
    name: String,
    source: Source,
    key: Signer,
}

pub fn search(global: &Global, args: &args::Search, output: &Output) -> Result<u8, CliError> {
    let workspace = setup::workspace(global)?;
    let (workspace, distribution) = (workspace.path(), setup::distribution()?);
    let runtime = setup::current_thread_runtime()?;
    let places = match (&args.catalogue, &args.key) {
        (Some(named), Some(signer)) => vec![named_place(named, signer, workspace)?],
        _ => places(&Directories::find().ok_or_else(no_home)?.settings)?,
    };
    let mut catalogues = Vec::with_capacity(places.len());
    for place in &places {
        catalogues.push((place, runtime.block_on(fetch(&distribution, place, workspace))?));
    }
    let entries = catalogues.iter().flat_map(|(place, catalogue)| {
        catalogue.plugins.iter().map(move |entry| (place.name.as_str(), entry))
    });
    let found = catalogue::search(entries, &args.words.join(" "));
    if output.format() == Format::Text {
        output.text(&text(&found))?;
        return Ok(exit::OK);
    }
    let document = |(catalogue, entry): &(&str, &Entry)| -> Result<Value, CliError> {
        let mut document = serde_json::to_value(entry).map_err(CliError::host)?;
        document["catalogue"] = json!(catalogue);
        document["install"] = json!(entry.install_command());
        Ok(document)
    };
    let plugins = found.iter().map(document).collect::<Result<Vec<Value>, _>>()?;
    let looked_in: Vec<Value> = catalogues
        .iter()
        .map(|(Place { name, source, .. }, catalogue)| {
            json!({ "name": name, "source": source, "plugins": catalogue.plugins.len() })
        })
        .collect();
    output.json(&json!({ "plugins": plugins, "catalogues": looked_in }))?;
    Ok(exit::OK)
}

fn text(found: &[(&str, &Entry)]) -> String {
    let mut text = String::new();
    for (catalogue, entry) in found {
        let Entry { name, version, description, .. } = entry;
        let _ = writeln!(text, "{name} {version} ({catalogue})  {description}");
        let parts = [("tools", &entry.tools), ("backends", &entry.backends)];
        for (title, names) in parts.into_iter().filter(|(_, names)| !names.is_empty()) {
            let _ = writeln!(text, "  {title}: {}", names.join(", "));
        }
        let _ = writeln!(text, "  asks for: {}", entry.asks_for.join("; "));
        let _ = writeln!(text, "  {}", entry.install_command());
    }
    if found.is_empty() {
        text.push_str("no plugin matches\n");
    }
    text
}

/// The catalogue that the options name.
pub(super) fn named_place(name: &str, signer: &str, workspace: &Path) -> Result<Place, CliError> {
    let missing = || CliError::usage(format!("{name}: there is no such file"));
    let source = source(name, workspace)?.ok_or_else(missing)?;
    Ok(Place { name: name.to_owned(), source, key: key(signer)? })
}

/// The catalogues of the user's settings.
fn places(settings: &Path) -> Result<Vec<Place>, CliError> {
    let catalogues = config::catalogues(settings)?;
    if catalogues.is_empty() {
        return Err(CliError::usage(format!(
            "{} names no catalogue: add `[catalogues.NAME]` with `source` and `key`, or use \
             --catalogue and --key",
            settings.display()
        )));
    }
    let place = |(name, CatalogueSettings { source, key }): (String, CatalogueSettings)| {
        let usage = |field: &str, error: &dyn std::fmt::Display| {
            CliError::usage(format!("{}: [catalogues.{name}] {field}: {error}", settings.display()))
        };
        let parsed: Source = source.parse().map_err(|error| usage("source", &error))?;
        if parsed.path().is_some_and(Path::is_relative) {
            return Err(usage("source", &"a file has an absolute path here"));
        }
        let key = key.parse().map_err(|error| usage("key", &error))?;
        Ok(Place { name, source: parsed, key })
    };
    catalogues.into_iter().map(place).collect()
}

/// Fetches a catalogue and checks its signature.
pub(super) async fn fetch(
    distribution: &Distribution,
    place: &Place,
    workspace: &Path,
) -> Result<Catalogue, CliError> {
    let fetched = distribution.fetch(&place.source, SourceOrigin::User, workspace).await;
    let fetched = fetched.map_err(InstallError::from)?;
    let refused = |why: &dyn std::fmt::Display| InstallError::Catalogue {
        from: place.source.to_string(),
        why: why.to_string(),
    };
    let signature = fetched.signature.ok_or_else(|| refused(&"it is not signed"))?;
    place.key.check(&fetched.bytes, &signature).map_err(|error| refused(&error))?;
    let source = place.source.absolute(workspace);
    Ok(Catalogue::parse(&fetched.bytes, Some(&source)).map_err(|error| refused(&error))?)
}

pub fn write(args: &args::Catalogue, output: &Output) -> Result<u8, CliError> {
    let key = args.key.as_deref().map(key).transpose()?;
    let mut entries = Vec::with_capacity(args.files.len());
    for file in &args.files {
        let usage =
            |error: &dyn std::fmt::Display| CliError::usage(format!("{}: {error}", file.display()));
        let bytes = std::fs::read(file).map_err(|error| usage(&error))?;
        let manifest = pack::manifest(&bytes, &pack::called(file), Some(file))
            .map_err(|error| usage(&error))?;
        let source = match &args.from {
            None => beside(file, &args.output),
            Some(prefix) if prefix.starts_with("oci://") => {
                let prefix = prefix.trim_end_matches('/');
                Some(format!("{prefix}/{}:{}", manifest.name, manifest.version))
            }
            Some(prefix) => {
                let name = file.file_name().and_then(|name| name.to_str());
                name.map(|name| format!("{}/{name}", prefix.trim_end_matches('/')))
            }
        };
        let source = source.ok_or_else(|| {
            usage(&"it is not below the catalogue's directory; --from says where it is published")
        })?;
        let source: Source = source.parse().map_err(|error| usage(&error))?;
        let asks_for = in_words(&manifest.requests);
        let entry = Entry::new(&manifest, source, Digest::of(&bytes), asks_for);
        entries.push(Entry { signer: key.clone(), ..entry });
    }
    let plugins: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
    let text = Catalogue::new(entries).to_text().map_err(CliError::host)?;
    replace(&args.output, text.as_bytes())?;
    output.document(&json!({ "file": args.output, "plugins": plugins }))?;
    Ok(exit::OK)
}

/// The path of a file relative to the catalogue, which begins with `./`.
fn beside(file: &Path, catalogue: &Path) -> Option<String> {
    let directory = match catalogue.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let inside = file.canonicalize().ok()?;
    let inside = inside.strip_prefix(directory.canonicalize().ok()?).ok()?;
    let is_plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then(|| inside.to_str().map(|path| format!("./{path}")))?
}
