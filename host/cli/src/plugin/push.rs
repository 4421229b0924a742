//! `cofferdam plugin push`: publishes a packed plugin in an OCI registry.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::install::InstallError;
use crate::output::Output;
use crate::{CliError, exit, setup};
use cofferdam_plugin::catalogue::{self, Catalogue};
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::distribution::oci::Artifact;
use cofferdam_plugin::pack;
use cofferdam_plugin::revocation::{self, List};
use cofferdam_plugin::signature::SUFFIX;
use cofferdam_plugin::source::{Reference, Version};

pub fn execute(file: &Path, reference: &str, output: &Output) -> Result<u8, CliError> {
    let usage =
        |error: &dyn std::fmt::Display| CliError::usage(format!("{}: {error}", file.display()));
    let reference: Reference =
        reference.parse().map_err(|error| CliError::usage(format!("{error}")))?;
    if let Version::Digest(_) = reference.version {
        return Err(CliError::usage(format!(
            "{reference}: what is published needs a tag: NAME:TAG"
        )));
    }
    let bytes = std::fs::read(file).map_err(|error| usage(&error))?;
    if let Version::Tag(tag) = &reference.version
        && let Some(list) = list(tag, file, &bytes)?
    {
        return push_list(file, &reference, &list, output);
    }
    let manifest =
        pack::manifest(&bytes, &pack::called(file), Some(file)).map_err(|error| usage(&error))?;
    let imports = pack::imports(&bytes).map_err(|error| usage(&error))?;
    let signature = signature(file)?;
    let artifact = Artifact {
        bytes: &bytes,
        signature: signature.as_deref(),
        name: &manifest.name,
        version: &manifest.version,
        description: &manifest.description,
        license: manifest.license.as_deref(),
        imports: &imports,
    };
    let by_digest = publish(&reference, &artifact)?;
    output.document(&json!({
        "plugin": manifest.name,
        "version": manifest.version,
        "reference": reference.to_string(),
        "by_digest": by_digest,
        "digest": Digest::of(&bytes),
        "has_signature": signature.is_some(),
    }))?;
    Ok(exit::OK)
}

/// Publishes an artifact; returns the reference to it by its digest.
fn publish(reference: &Reference, artifact: &Artifact<'_>) -> Result<String, CliError> {
    let runtime = setup::current_thread_runtime()?;
    let pushed = runtime.block_on(setup::distribution()?.push(reference, artifact));
    let version = Version::Digest(pushed.map_err(InstallError::from)?);
    Ok(Reference { version, ..reference.clone() }.to_string())
}

/// The signature in the file beside a file, if there is one.
fn signature(file: &Path) -> Result<Option<String>, CliError> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(SUFFIX);
    let beside = PathBuf::from(beside);
    beside.is_file().then(|| setup::read_input(&beside)).transpose()
}

/// A signed list that is published under a tag of its own.
struct SignedList<'a> {
    bytes: &'a [u8],
    description: &'static str,
    /// What it is a list of, for the document to print.
    of: &'static str,
    entries: usize,
}

/// Reads the list that belongs under this tag; `None` under other tags.
fn list<'a>(tag: &str, file: &Path, bytes: &'a [u8]) -> Result<Option<SignedList<'a>>, CliError> {
    let usage =
        |error: &dyn std::fmt::Display| CliError::usage(format!("{}: {error}", file.display()));
    let (description, of, entries) = match tag {
        revocation::TAG => {
            let list = List::parse(bytes).map_err(|error| usage(&error))?;
            ("Which versions of this plugin must not run any more", "revoked", list.revoked.len())
        }
        catalogue::TAG => {
            let list = Catalogue::parse(bytes, None).map_err(|error| usage(&error))?;
            ("A catalogue of plugins", "plugins", list.plugins.len())
        }
        _ => return Ok(None),
    };
    Ok(Some(SignedList { bytes, description, of, entries }))
}

/// Publishes a list, which has to be signed.
fn push_list(
    file: &Path,
    reference: &Reference,
    list: &SignedList<'_>,
    output: &Output,
) -> Result<u8, CliError> {
    let signature = signature(file)?.ok_or_else(|| {
        let file = file.display();
        CliError::usage(format!("{file}: it is not signed: `minisign -Sm {file}` signs it"))
    })?;
    let artifact = Artifact {
        bytes: list.bytes,
        signature: Some(&signature),
        name: list.of,
        version: "1",
        description: list.description,
        license: None,
        imports: &[],
    };
    let by_digest = publish(reference, &artifact)?;
    output.document(&json!({
        "reference": reference.to_string(),
        "by_digest": by_digest,
        list.of: list.entries,
    }))?;
    Ok(exit::OK)
}
