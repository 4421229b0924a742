//! Plugins in OCI registries (OCI distribution-spec and image-spec 1.1), in the format that other
//! WebAssembly hosts use, too: a manifest with one layer `application/wasm` and a config
//! `application/vnd.wasm.config.v0+json` (CNCF TAG Runtime, "Wasm OCI Artifact layout").
//!
//! | module | content |
//! |---|---|
//! | [`credentials`] | the credentials of `docker login` |
//! | [`referrers`] | the attestations of an artefact |
//! | [`session`] | authenticated requests to one repository |

mod credentials;
mod referrers;
mod session;

use std::collections::BTreeMap;

use hyper::header;
use hyper::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use credentials::{Credentials, CredentialsError};
pub use referrers::bundles;
pub use session::{Login, tokens};
use session::{MAX_ANSWER_BYTES, Session};

use super::{FetchError, Fetched};
use crate::digest::Digest;
use crate::http::{Client, Request};
use crate::registry::MAX_COMPONENT_BYTES;
use crate::revocation;
use crate::source::{Reference, SourceOrigin, Version};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";
/// The media type of a list of revocations, which has the tag `revoked`.
const LIST_LAYER: &str = "application/vnd.cofferdam.revoked.v1+toml";

/// The annotation of the layer with its signature in minisign's format.
const SIGNATURE: &str = "cofferdam.minisig";

/// The largest size of a manifest in bytes (distribution-spec, "Pushing Manifests").
const MAX_IMAGE_MANIFEST_BYTES: u64 = 4 << 20;

/// A plugin to publish.
#[derive(Debug, Clone, Copy)]
pub struct Artifact<'a> {
    /// The bytes of the packed component.
    pub bytes: &'a [u8],
    /// Its signature in minisign's format.
    pub signature: Option<&'a str>,
    /// The name of the plugin.
    pub name: &'a str,
    /// The version of the plugin.
    pub version: &'a str,
    /// What the plugin is for.
    pub description: &'a str,
    /// The license as an SPDX expression.
    pub license: Option<&'a str>,
    /// The interfaces that it imports.
    pub imports: &'a [String],
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageManifest {
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

impl Descriptor {
    fn new(media_type: &str, content: &[u8]) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: Digest::of(content).to_string(),
            size: content.len() as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }
}

/// Downloads the plugin that a reference names.
pub async fn pull(
    client: &Client,
    login: Login,
    reference: &Reference,
    origin: SourceOrigin,
) -> Result<Fetched, FetchError> {
    let mut session = Session::pull(client, login, reference, origin);
    let wanted = match &reference.version {
        Version::Tag(tag) => tag.clone(),
        Version::Digest(digest) => digest.to_string(),
    };
    let accept = [(header::ACCEPT, MANIFEST.to_owned())];
    let answer =
        session.get(&format!("manifests/{wanted}"), &accept, MAX_IMAGE_MANIFEST_BYTES).await?;
    if let Version::Digest(wanted) = reference.version {
        check(reference, &answer, wanted)?;
    }
    let manifest: ImageManifest = serde_json::from_slice(&answer)
        .map_err(|error| FetchError::answer(reference, format!("its manifest: {error}")))?;
    let [layer] = manifest.layers.as_slice() else {
        let why = format!("{} layers, where a plugin is one", manifest.layers.len());
        return Err(FetchError::answer(reference, why));
    };
    let expected = media_type(reference);
    if layer.media_type != expected {
        let found = cofferdam_text::shorten(&layer.media_type, 80);
        let why = format!("its content is {found}, and not {expected}");
        return Err(FetchError::answer(reference, why));
    }
    if layer.size > MAX_COMPONENT_BYTES {
        return Err(FetchError::TooLarge { place: reference.to_string() });
    }
    let digest: Digest =
        layer.digest.parse().map_err(|error| FetchError::answer(reference, error))?;
    let content = session.get(&format!("blobs/{digest}"), &[], MAX_COMPONENT_BYTES).await;
    let bytes = content.map_err(|error| match error {
        // The manifest exists, so neither does a plugin's source not exist, nor is there no list.
        FetchError::Missing { .. } => {
            FetchError::answer(reference, format!("its content {digest} is missing"))
        }
        error => error,
    })?;
    check(reference, &bytes, digest)?;
    let signature = layer.annotations.get(SIGNATURE).cloned();
    Ok(Fetched { signature, bytes, manifest: Some(Digest::of(&answer)) })
}

/// The most tags that a page of a registry is asked for, and the most pages that are read.
const TAGS_PER_PAGE: usize = 1_000;
const MAX_TAG_PAGES: usize = 20;

/// The tags of a repository (distribution-spec, "Listing Tags"): of the first 20 pages.
pub async fn tags(
    client: &Client,
    login: Login,
    reference: &Reference,
    origin: SourceOrigin,
) -> Result<Vec<String>, FetchError> {
    #[derive(Deserialize)]
    struct Page {
        #[serde(default)]
        tags: Option<Vec<String>>,
    }
    let mut session = Session::pull(client, login, reference, origin);
    let mut next = Some(session.address(&format!("tags/list?n={TAGS_PER_PAGE}"))?);
    let mut tags = Vec::new();
    for _ in 0..MAX_TAG_PAGES {
        let Some(address) = next else { break };
        let answer = session.send(Request::get(address.clone()), MAX_IMAGE_MANIFEST_BYTES).await?;
        session.expect(&answer, StatusCode::OK)?;
        let page: Page = serde_json::from_slice(&answer.body)
            .map_err(|error| FetchError::answer(reference, format!("its tags: {error}")))?;
        tags.extend(page.tags.unwrap_or_default());
        let link = answer.headers.get(header::LINK).and_then(|link| link.to_str().ok());
        // A page elsewhere is not of this registry.
        next = link.and_then(|link| address.join(next_page(link)?));
        next = next.filter(|next| next.origin == address.origin);
    }
    Ok(tags)
}

/// The reference of a `Link` header to the next page (RFC 8288).
fn next_page(link: &str) -> Option<&str> {
    let (reference, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    parameters.replace('"', "").to_ascii_lowercase().contains("rel=next").then_some(reference)
}

/// The media type of what a reference names.
fn media_type(reference: &Reference) -> &'static str {
    match &reference.version {
        Version::Tag(tag) if tag == revocation::TAG => LIST_LAYER,
        _ => LAYER,
    }
}

fn check(reference: &Reference, content: &[u8], wanted: Digest) -> Result<(), FetchError> {
    let found = Digest::of(content);
    if found == wanted {
        return Ok(());
    }
    Err(FetchError::Digest { place: reference.to_string(), found, wanted })
}

/// Publishes a plugin under a tag. Returns the digest of its manifest.
pub async fn push(
    client: &Client,
    login: Login,
    reference: &Reference,
    artifact: &Artifact<'_>,
) -> Result<Digest, FetchError> {
    let Version::Tag(tag) = &reference.version else {
        return Err(FetchError::answer(reference, "what is published needs a tag: NAME:TAG"));
    };
    let mut session = Session::push(client, login, reference);
    let mut layer = Descriptor::new(media_type(reference), artifact.bytes);
    if let Some(signature) = artifact.signature {
        layer.annotations.insert(SIGNATURE.to_owned(), signature.to_owned());
    }
    let config = serde_json::to_vec(&json!({
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [layer.digest],
        "component": {"exports": [], "imports": artifact.imports},
    }))
    .map_err(|error| FetchError::answer(reference, error))?;
    upload(&mut session, reference, artifact.bytes).await?;
    upload(&mut session, reference, &config).await?;
    let mut annotations = json!({
        "org.opencontainers.image.title": artifact.name,
        "org.opencontainers.image.version": artifact.version,
        "org.opencontainers.image.description": artifact.description,
    });
    if let Some(license) = artifact.license {
        annotations["org.opencontainers.image.licenses"] = license.into();
    }
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": Descriptor::new(CONFIG, &config),
        "layers": [layer],
        "annotations": annotations,
    }))
    .map_err(|error| FetchError::answer(reference, error))?;
    let digest = Digest::of(&manifest);
    let place = session.address(&format!("manifests/{tag}"))?;
    let request = Request { body: manifest.into(), ..Request::new(Method::PUT, place) };
    let answer =
        session.send(request.with(header::CONTENT_TYPE, MANIFEST), MAX_ANSWER_BYTES).await?;
    session.expect(&answer, StatusCode::CREATED)?;
    Ok(digest)
}

/// Uploads content, unless the repository has it already.
async fn upload(
    session: &mut Session<'_>,
    reference: &Reference,
    content: &[u8],
) -> Result<(), FetchError> {
    let digest = Digest::of(content);
    let place = session.address(&format!("blobs/{digest}"))?;
    let known = session.send(Request::new(Method::HEAD, place), MAX_ANSWER_BYTES).await?;
    if known.status == StatusCode::OK {
        return Ok(());
    }
    let place = session.address("blobs/uploads/")?;
    let begun = session.send(Request::new(Method::POST, place.clone()), MAX_ANSWER_BYTES).await?;
    session.expect(&begun, StatusCode::ACCEPTED)?;
    let location = begun.header(header::LOCATION).and_then(|location| place.join(location));
    let mut location =
        location.filter(|location| location.origin == reference.registry).ok_or_else(|| {
            FetchError::answer(reference, "its address for uploads is missing or on another origin")
        })?;
    let separator = if location.path.contains('?') { '&' } else { '?' };
    location.path.push_str(&format!("{separator}digest={digest}"));
    let body = bytes::Bytes::copy_from_slice(content);
    let request = Request { body, ..Request::new(Method::PUT, location) };
    let request = request.with(header::CONTENT_TYPE, "application/octet-stream");
    let answer = session.send(request, MAX_ANSWER_BYTES).await?;
    session.expect(&answer, StatusCode::CREATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_link_to_the_next_page_is_followed() {
        for (link, wanted) in [
            ("</v2/a/tags/list?n=1&last=x>; rel=\"next\"", Some("/v2/a/tags/list?n=1&last=x")),
            ("</v2/a/tags/list>;rel=next", Some("/v2/a/tags/list")),
            ("</v2/a/tags/list>; rel=\"prev\"", None),
            ("</v2/a/tags/list", None),
            ("", None),
        ] {
            assert_eq!(next_page(link), wanted, "{link}");
        }
    }
}
