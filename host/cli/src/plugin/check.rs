//! `cofferdam plugin check`: reports everything that is wrong with a plugin, without running it.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::args::Format;
use crate::output::Output;
use crate::setup::Directories;
use crate::{CliError, exit};
use cofferdam_core::policy::Limits;
use cofferdam_engine::host::Helper;
use cofferdam_engine::runtime::{Compiler, Runtime};
use cofferdam_plugin::cache::CodeCache;
use cofferdam_plugin::check::{self, Checked, Finding, Place, Severity};
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::typed::Generation;

/// The file name of the manifest in a project's folder.
pub const MANIFEST: &str = "plugin.toml";

pub fn execute(path: &Path, output: &Output) -> Result<u8, CliError> {
    let usage =
        |error: &dyn std::fmt::Display| CliError::usage(format!("{}: {error}", path.display()));
    let Found { manifest, wasi, findings } = if path.is_dir() {
        folder(path)?
    } else if path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
        let Checked { manifest, findings } = check::manifest_file(path);
        Found { manifest, wasi: None, findings }
    } else {
        let bytes = fs::read(path).map_err(|error| usage(&error))?;
        let Component { manifest, wasi, of_manifest, of_component } = component(path, &bytes)?;
        let findings = of_manifest.into_iter().chain(of_component).collect();
        Found { manifest, wasi: Some(wasi), findings }
    };
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let name = manifest.as_ref().map(|manifest| manifest.name.as_str());
    if output.format() == Format::Text {
        let mut text: String = findings.iter().map(in_words).collect();
        text.push_str(&format!(
            "{}: {}{errors} errors, {warnings} warnings\n",
            name.map_or_else(|| path.display().to_string(), str::to_owned),
            wasi.map_or_else(String::new, |wasi| format!("WASI {wasi}, ")),
        ));
        output.text(&text)?;
    } else {
        output.json(&json!({
            "plugin": name,
            "wasi": wasi.map(|wasi| wasi.to_string()),
            "errors": errors,
            "warnings": warnings,
            "findings": findings,
        }))?;
    }
    Ok(if errors == 0 { exit::OK } else { exit::ERROR })
}

/// What is found in a project or a file.
struct Found {
    manifest: Option<Manifest>,
    /// The generation of WASI of the component, if there is one.
    wasi: Option<Generation>,
    findings: Vec<Finding>,
}

/// Checks a project: its manifest, and the packed component if it has been built.
fn folder(folder: &Path) -> Result<Found, CliError> {
    let path = folder.join(MANIFEST);
    let Checked { manifest, mut findings } = check::manifest_file(&path);
    let Some(written) = manifest else {
        return Ok(Found { manifest: None, wasi: None, findings });
    };
    let packed = folder.join(format!("{}.wasm", written.name));
    let place = || Place::file(packed.display().to_string());
    if !packed.is_file() {
        let problem = "the packed component is not there, so only the manifest was checked";
        let cure = format!(
            "build the project, with `cofferdam plugin pack --output {}` at the end",
            packed.display()
        );
        findings.push(Finding::warning(place(), problem, cure));
        return Ok(Found { manifest: Some(written), wasi: None, findings });
    }
    let found = component(&packed, &fs::read(&packed)?)?;
    match found.manifest {
        Some(of_component) if of_component == written => {
            // What is wrong with the manifest is reported for the file that the author wrote.
            findings.extend(found.of_component.into_iter().map(|finding| {
                match &finding.place.pointer {
                    Some(pointer) => {
                        Finding { place: check::manifest_place(&path, pointer), ..finding }
                    }
                    None => finding,
                }
            }));
        }
        _ => {
            findings.extend(found.of_manifest);
            findings.extend(found.of_component);
            let problem = format!("the manifest inside is not that of {}", path.display());
            findings.push(Finding::error(place(), problem, "build and pack it anew"));
        }
    }
    Ok(Found { manifest: Some(written), wasi: Some(found.wasi), findings })
}

/// What is found in a packed component.
struct Component {
    manifest: Option<Manifest>,
    wasi: Generation,
    /// What is wrong with the manifest itself.
    of_manifest: Vec<Finding>,
    /// What is wrong with the component, and with what its manifest says of it.
    of_component: Vec<Finding>,
}

fn component(path: &Path, bytes: &[u8]) -> Result<Component, CliError> {
    let file = path.display().to_string();
    let Checked { manifest, findings } = check::packed(&file, bytes);
    let is_of_manifest = |finding: &Finding| finding.place.pointer.is_some();
    let (of_manifest, mut of_component) =
        findings.into_iter().partition::<Vec<_>, _>(is_of_manifest);
    // Without a cache it only takes longer.
    let cache = Directories::find().and_then(|its| CodeCache::open(&its.cache).ok());
    let runtime = Runtime::new(1, cache).map_err(CliError::host)?;
    let compiler = Compiler::new(Helper::current(), &Limits::DEFAULT);
    let runtime = runtime.compiling_with(Some(compiler));
    of_component.extend(runtime.check(&file, bytes, manifest.as_ref()));
    Ok(Component { manifest, wasi: Generation::of(bytes), of_manifest, of_component })
}

fn in_words(finding: &Finding) -> String {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    format!("{}: {severity}: {}\n  cure: {}\n", finding.place, finding.problem, finding.cure)
}
