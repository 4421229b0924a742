//! The Sigstore bundles that refer to an artefact (distribution-spec 1.1, "Listing Referrers"): by the registry's
//! list, or by the tag that stands for it in registries without one. What is returned is not verified.

use std::time::Duration;

use hyper::header;
use serde::Deserialize;
use tokio::time::timeout;

use super::session::{Login, MAX_ANSWER_BYTES, Session};
use super::{Descriptor, MANIFEST, MAX_IMAGE_MANIFEST_BYTES, check};
use crate::digest::Digest;
use crate::distribution::FetchError;
use crate::http::Client;
use crate::provenance::{Bundles, MAX_BUNDLE_BYTES, MAX_BUNDLES};
use crate::source::{Reference, SourceOrigin};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// What the media types of all versions of bundles begin with.
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The media type that the registry is asked for, as part of an address.
const FILTER: &str = "application%2Fvnd.dev.sigstore.bundle.v0.3%2Bjson";

/// How long reading all bundles of an artefact may take.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Referrer {
    subject: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// Reads the bundles that refer to the manifest `subject`. What can't be read is in the result, too.
pub async fn bundles(
    client: &Client,
    login: Login,
    reference: &Reference,
    subject: Digest,
    origin: SourceOrigin,
) -> Bundles {
    let mut bundles = Bundles::default();
    let mut session = Session::pull(client, login, reference, origin);
    let read = read(&mut session, reference, subject, &mut bundles);
    match timeout(TIMEOUT, read).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => bundles.unread.push(format!("they can't be listed: {error}")),
        Err(_) => {
            let seconds = TIMEOUT.as_secs();
            bundles.unread.push(format!("not all could be read in {seconds} s"));
        }
    }
    bundles
}

async fn read(
    session: &mut Session<'_>,
    reference: &Reference,
    subject: Digest,
    bundles: &mut Bundles,
) -> Result<(), FetchError> {
    let index = index(session, subject).await?;
    let Some(index) = index else { return Ok(()) };
    let index: Index = serde_json::from_slice(&index)
        .map_err(|error| FetchError::answer(reference, format!("its referrers: {error}")))?;
    let is_bundle = |descriptor: &Descriptor| {
        descriptor.artifact_type.as_ref().is_some_and(|of| of.starts_with(BUNDLE))
    };
    let found: Vec<Descriptor> = index.manifests.into_iter().filter(is_bundle).collect();
    for descriptor in found.iter().take(MAX_BUNDLES) {
        match bundle(session, reference, descriptor, subject).await {
            Ok(bytes) => bundles.found.push(bytes),
            Err(error) => bundles.unread.push(error.to_string()),
        }
    }
    if let more @ 1.. = found.len().saturating_sub(MAX_BUNDLES) {
        bundles.unread.push(format!("{more} more are not read, after the first {MAX_BUNDLES}"));
    }
    Ok(())
}

/// The list of what refers to a manifest; `None` if there is none.
async fn index(session: &mut Session<'_>, subject: Digest) -> Result<Option<Vec<u8>>, FetchError> {
    let accept = [(header::ACCEPT, INDEX.to_owned())];
    let list = format!("referrers/{subject}?artifactType={FILTER}");
    // A registry that does not know the list may return any error.
    if let Ok(index) = session.get(&list, &accept, MAX_IMAGE_MANIFEST_BYTES).await {
        return Ok(Some(index));
    }
    let tag = format!("manifests/sha256-{}", subject.hex());
    match session.get(&tag, &accept, MAX_IMAGE_MANIFEST_BYTES).await {
        Ok(index) => Ok(Some(index)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads one bundle, whose manifest has to name the subject.
async fn bundle(
    session: &mut Session<'_>,
    reference: &Reference,
    descriptor: &Descriptor,
    subject: Digest,
) -> Result<Vec<u8>, FetchError> {
    let wrong = |why: String| FetchError::answer(reference, format!("an attestation: {why}"));
    let digest: Digest = descriptor.digest.parse().map_err(|error| wrong(format!("{error}")))?;
    let accept = [(header::ACCEPT, MANIFEST.to_owned())];
    let manifest = session.get(&format!("manifests/{digest}"), &accept, MAX_ANSWER_BYTES).await?;
    check(reference, &manifest, digest)?;
    let referrer: Referrer = serde_json::from_slice(&manifest)
        .map_err(|error| wrong(format!("its manifest: {error}")))?;
    if referrer.subject.is_none_or(|named| named.digest != subject.to_string()) {
        return Err(wrong("its manifest is about another artefact".to_owned()));
    }
    let [layer] = referrer.layers.as_slice() else {
        return Err(wrong(format!("{} layers, where a bundle is one", referrer.layers.len())));
    };
    if layer.size > MAX_BUNDLE_BYTES {
        return Err(wrong(format!("more than {MAX_BUNDLE_BYTES} bytes, which no bundle may have")));
    }
    let digest: Digest = layer.digest.parse().map_err(|error| wrong(format!("{error}")))?;
    let bytes = session.get(&format!("blobs/{digest}"), &[], MAX_BUNDLE_BYTES).await?;
    check(reference, &bytes, digest)?;
    Ok(bytes)
}
