//! Where plugins come from and go to: files, https, OCI registries. What is got here is bytes
//! and, beside them, a signature; whether they are any good, and wanted, is decided elsewhere
//! ([`cofferdam_cli::install`]).

mod file;
pub mod oci;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::oci::{Credentials, Login};
use crate::digest::Digest;
use crate::http::{Client, ClientError};
use crate::registry::MAX_COMPONENT;
use crate::source::{Reference, Source};
use cofferdam_core::policy::RegistrySettings;

/// What was got.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The packed component, as far as anybody knows.
    pub bytes: Vec<u8>,
    /// A signature in minisign's format, where there is one.
    pub signature: Option<String>,
}

/// What can't be got or published.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A file can't be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Nothing answers, or not as it should.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A host says no.
    #[error("{place}: {why}")]
    Answer {
        /// What it was asked for.
        place: String,
        /// What it said.
        why: String,
    },
    /// What a registry has is not what it says.
    #[error("{place}: it has {found}, where {wanted} was asked for")]
    Digest {
        /// What it was asked for.
        place: String,
        /// The digest of what came.
        found: Digest,
        /// The digest that it should have.
        wanted: Digest,
    },
    /// It is larger than a plugin can be.
    #[error("{place}: more than {MAX_COMPONENT} bytes, which no plugin may have")]
    TooLarge {
        /// What was asked for.
        place: String,
    },
    /// What proves who asks can't be used.
    #[error(transparent)]
    Credentials(#[from] oci::CredentialsError),
}

impl FetchError {
    fn answer(place: impl ToString, why: impl ToString) -> Self {
        Self::Answer { place: place.to_string(), why: why.to_string() }
    }
}

/// Gets and publishes plugins.
pub struct Distribution {
    client: Client,
    docker: Option<PathBuf>,
    /// What the person's settings say of registries, by their names.
    registries: BTreeMap<String, RegistrySettings>,
}

impl Distribution {
    /// `ca_file` has authorities that are trusted besides those that browsers trust; `docker` is
    /// the file in which `docker login` keeps what it was told.
    pub fn new(ca_file: Option<PathBuf>, docker: Option<PathBuf>) -> Self {
        Self { client: Client::new(ca_file), docker, registries: BTreeMap::new() }
    }

    /// Takes in what a person's own settings say of registries.
    #[must_use]
    pub fn with_registries(mut self, registries: BTreeMap<String, RegistrySettings>) -> Self {
        let named = registries.values().flat_map(|of| of.tokens.iter().chain(&of.content));
        self.client = self.client.naming(named.cloned());
        self.registries = registries;
        self
    }

    /// Gets a plugin. `workspace` is what the names of files in it are relative to.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch(&self, source: &Source, workspace: &Path) -> Result<Fetched, FetchError> {
        match source {
            Source::File(path) => file::fetch(path, workspace),
            Source::Web(address) => web::fetch(&self.client, address).await,
            Source::Registry(reference) => {
                oci::pull(&self.client, self.login(reference)?, reference).await
            }
        }
    }

    /// Publishes a plugin, with its signature. Answers the digest by which the registry knows it.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn push(
        &self,
        reference: &Reference,
        plugin: &oci::Artifact<'_>,
    ) -> Result<Digest, FetchError> {
        oci::push(&self.client, self.login(reference)?, reference, plugin).await
    }

    /// Who the person is to a registry, and where that may be said.
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
