//! `cofferdam plugin push`: publishes a packed plugin in an OCI registry.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::install::InstallError;
use crate::output::Output;
use crate::{CliError, exit, setup};
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
    if matches!(&reference.version, Version::Tag(tag) if tag == revocation::TAG) {
        return push_list(file, &reference, &bytes, output);
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

/// Publishes a list of revocations, which has to be signed.
fn push_list(
    file: &Path,
    reference: &Reference,
    bytes: &[u8],
    output: &Output,
) -> Result<u8, CliError> {
    let usage = |why: String| CliError::usage(format!("{}: {why}", file.display()));
    let list = List::parse(bytes).map_err(|error| usage(error.to_string()))?;
    let signature = signature(file)?.ok_or_else(|| {
        usage(format!("it is not signed: `minisign -Sm {}` signs it", file.display()))
    })?;
    let artifact = Artifact {
        bytes,
        signature: Some(&signature),
        name: revocation::TAG,
        version: "1",
        description: "Which versions of this plugin must not run any more",
        license: None,
        imports: &[],
    };
    let by_digest = publish(reference, &artifact)?;
    output.document(&json!({
        "reference": reference.to_string(),
        "by_digest": by_digest,
        "revoked": list.revoked.len(),
    }))?;
    Ok(exit::OK)
}
