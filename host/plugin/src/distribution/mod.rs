//! Downloads and publishes plugins: files, https, OCI registries. It returns bytes and, if there is
//! one, a signature; [`cofferdam_cli::install`] decides whether they are valid and trusted.

mod file;
pub mod oci;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::oci::{Credentials, Login};
use crate::digest::Digest;
use crate::http::{Client, ClientError};
use crate::registry::MAX_COMPONENT_BYTES;
use crate::source::{Reference, Source};
use cofferdam_core::policy::RegistrySettings;

/// A downloaded plugin with its signature.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The bytes, which should be a packed component.
    pub bytes: Vec<u8>,
    /// A signature in minisign's format, if there is one.
    pub signature: Option<String>,
}

/// A plugin could not be downloaded or published.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A file can't be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// The request for it failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server returned an error.
    #[error("{place}: {why}")]
    Answer {
        /// The plugin that was requested.
        place: String,
        /// What the server replied.
        why: String,
    },
    /// The content does not have the expected digest.
    #[error("{place}: it has {found}, where {wanted} was asked for")]
    Digest {
        /// The plugin that was requested.
        place: String,
        /// The digest of the content.
        found: Digest,
        /// The digest that was expected.
        wanted: Digest,
    },
    /// It is larger than a plugin may be.
    #[error("{place}: more than {MAX_COMPONENT_BYTES} bytes, which no plugin may have")]
    TooLarge {
        /// The plugin that was requested.
        place: String,
    },
    /// The credentials for a registry can't be used.
    #[error(transparent)]
    Credentials(#[from] oci::CredentialsError),
}

impl FetchError {
    fn answer(place: impl ToString, why: impl ToString) -> Self {
        Self::Answer { place: place.to_string(), why: why.to_string() }
    }
}

/// Downloads and publishes plugins.
pub struct Distribution {
    client: Client,
    docker: Option<PathBuf>,
    /// The user's settings for registries, by name.
    registries: BTreeMap<String, RegistrySettings>,
}

impl Distribution {
    /// `ca_file` has certificate authorities that are trusted in addition to those of browsers;
    /// `docker` is the file with the credentials of `docker login`.
    pub fn new(ca_file: Option<PathBuf>, docker: Option<PathBuf>) -> Self {
        Self { client: Client::new(ca_file), docker, registries: BTreeMap::new() }
    }

    /// Adds the user's settings for registries.
    #[must_use]
    pub fn with_registries(mut self, registries: BTreeMap<String, RegistrySettings>) -> Self {
        let named = registries.values().flat_map(|of| of.tokens.iter().chain(&of.content));
        self.client = self.client.naming(named.cloned());
        self.registries = registries;
        self
    }

    /// Downloads a plugin. Relative file names are resolved in `workspace`.
    ///
    /// # Errors
    /// Those of [`FetchError`].
    pub async fn fetch(&self, source: &Source, workspace: &Path) -> Result<Fetched, FetchError> {
        match source {
            Source::File(path) => file::fetch(path, workspace),
            Source::Web(address) => web::fetch(&self.client, address).await,
            Source::Registry(reference) => {
                oci::pull(&self.client, self.login(reference)?, reference).await
            }
        }
    }

    /// Publishes a plugin with its signature. Returns its digest in the registry.
    ///
    /// # Errors
    /// Those of [`FetchError`].
    pub async fn push(
        &self,
        reference: &Reference,
        plugin: &oci::Artifact<'_>,
    ) -> Result<Digest, FetchError> {
        oci::push(&self.client, self.login(reference)?, reference, plugin).await
    }

    /// The credentials for a registry, and the origin that may receive them.
    fn login(&self, reference: &Reference) -> Result<Login, FetchError> {
        let registry = reference.registry.authority();
        let credentials = match &self.docker {
            Some(file) => Credentials::find(file, &registry)?,
            None => None,
        };
        let settings = self.registries.get(&registry);
        let tokens = settings.and_then(|settings| settings.tokens.clone());
        Ok(Login { credentials, tokens: tokens.or_else(|| oci::tokens(&registry)) })
    }
}
