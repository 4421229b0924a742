//! Downloads and publishes plugins: files, https, OCI registries. It returns bytes and, if there is
//! one, a signature; [`cofferdam_cli::install`] decides whether they are valid and trusted.

mod file;
pub mod oci;
mod web;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use self::oci::{Credentials, Login};
use crate::digest::Digest;
use crate::http::{Client, ClientError, Proxies};
use crate::provenance::Bundles;
use crate::registry::MAX_COMPONENT_BYTES;
use crate::source::{Reference, Source, SourceOrigin};
use cofferdam_core::policy::RegistrySettings;

/// A downloaded plugin with its signature.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// The bytes, which should be a packed component.
    pub bytes: Vec<u8>,
    /// A signature in minisign's format, if there is one.
    pub signature: Option<String>,
    /// The digest of its manifest, which attestations are about; only plugins of a registry have one.
    pub manifest: Option<Digest>,
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
    /// Only a lock names the source, and it has a private address.
    #[error(
        "{0} has no public address, and cofferdam.lock names it, not you; if you trust it, install \
         the plugin from there yourself: `{command}`",
        command = .0.install_command()
    )]
    Private(Box<Source>),
    /// The server returned an error.
    #[error("{place}: {why}")]
    Answer {
        /// The plugin that was requested.
        place: String,
        /// What the server replied.
        why: String,
    },
    /// It does not exist.
    #[error("{place}: {why}")]
    Missing {
        /// What was requested.
        place: String,
        /// What the server replied.
        why: &'static str,
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
    fn missing(place: impl ToString, why: &'static str) -> Self {
        Self::Missing { place: place.to_string(), why }
    }

    /// Whether the source does not exist.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::File { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
            _ => false,
        }
    }

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

    /// Sends all requests through the proxies of the user's environment.
    #[must_use]
    pub fn through(mut self, proxies: Proxies) -> Self {
        self.client = self.client.through(proxies);
        self
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
    pub fn fetch<'a>(
        &'a self,
        source: &'a Source,
        origin: SourceOrigin,
        workspace: &'a Path,
    ) -> BoxFuture<'a, Result<Fetched, FetchError>> {
        async move {
            let fetched = match source {
                Source::File(path) => file::fetch(path, workspace),
                Source::Web(address) => web::fetch(&self.client, address, origin).await,
                Source::Registry(reference) => {
                    let login = self.login(reference).await?;
                    oci::pull(&self.client, login, reference, origin).await
                }
            };
            fetched.map_err(|error| match error {
                FetchError::Client(ClientError::Private(host))
                    if origin == SourceOrigin::Lock && source.host() == Some(&host) =>
                {
                    FetchError::Private(source.clone().into())
                }
                // Of another origin, a redirect: the user can't allow it by naming the source.
                error => error,
            })
        }
        .boxed()
    }

    /// The bundles with attestations of a plugin that was fetched; only those of a registry have some. They are
    /// not verified.
    ///
    /// # Errors
    /// `Credentials` if those for the registry can't be used. What can't be read is named in the result.
    pub fn bundles<'a>(
        &'a self,
        source: &'a Source,
        origin: SourceOrigin,
        fetched: &'a Fetched,
    ) -> BoxFuture<'a, Result<Bundles, FetchError>> {
        async move {
            let (Source::Registry(reference), Some(manifest)) = (source, fetched.manifest) else {
                return Ok(Bundles::default());
            };
            let login = self.login(reference).await?;
            Ok(oci::bundles(&self.client, login, reference, manifest, origin).await)
        }
        .boxed()
    }

    /// The tags of the repository that a reference names.
    ///
    /// # Errors
    /// Those of [`FetchError`].
    pub fn tags<'a>(
        &'a self,
        reference: &'a Reference,
        origin: SourceOrigin,
    ) -> BoxFuture<'a, Result<Vec<String>, FetchError>> {
        async move {
            let login = self.login(reference).await?;
            oci::tags(&self.client, login, reference, origin).await
        }
        .boxed()
    }

    /// Publishes a plugin with its signature. Returns its digest in the registry.
    ///
    /// # Errors
    /// Those of [`FetchError`].
    pub fn push<'a>(
        &'a self,
        reference: &'a Reference,
        plugin: &'a oci::Artifact<'a>,
    ) -> BoxFuture<'a, Result<Digest, FetchError>> {
        async move {
            let login = self.login(reference).await?;
            oci::push(&self.client, login, reference, plugin).await
        }
        .boxed()
    }

    /// The credentials for a registry, and the origin that may receive them.
    async fn login(&self, reference: &Reference) -> Result<Login, FetchError> {
        let registry = reference.registry.authority();
        let credentials = match &self.docker {
            Some(file) => Credentials::find(file, &registry).await?,
            None => None,
        };
        let settings = self.registries.get(&registry);
        let tokens = settings.and_then(|settings| settings.tokens.clone());
        Ok(Login { credentials, tokens: tokens.or_else(|| oci::tokens(&registry)) })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// A server on this machine that returns one status for every request.
    struct Server {
        address: SocketAddr,
        connections: Arc<AtomicUsize>,
    }

    impl Server {
        #[expect(clippy::disallowed_methods, reason = "a real server, which counts connections")]
        fn start(status: &'static str) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let connections = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&connections);
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.read(&mut [0; 4096]);
                    let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                    let _ = stream.write_all(head.as_bytes());
                }
            });
            Self { address, connections }
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::SeqCst)
        }
    }

    fn fetch(source: &str, origin: SourceOrigin) -> Result<Fetched, FetchError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let source = source.parse().unwrap();
        let distribution = Distribution::new(None, None);
        runtime.block_on(distribution.fetch(&source, origin, Path::new("/nowhere")))
    }

    #[test]
    fn a_lock_connects_to_no_private_address() {
        let server = Server::start("404 Not Found");
        let SocketAddr::V4(address) = server.address else { unreachable!("an IPv4 address") };
        let port = address.port();
        for source in [
            format!("http://{address}/lines.wasm"),
            format!("http://localhost:{port}/lines.wasm"),
            format!("https://[::1]:{port}/lines.wasm"),
            format!("oci://{address}/lines:1.0"),
            format!("oci://localhost:{port}/lines:1.0"),
            "https://10.0.0.1/lines.wasm".to_owned(),
            "https://169.254.169.254/latest".to_owned(),
            "oci://10.0.0.1/lines:1.0".to_owned(),
        ] {
            let refused = fetch(&source, SourceOrigin::Lock).unwrap_err();
            assert!(matches!(refused, FetchError::Private(..)), "{source}: {refused}");
            let command = format!("`cofferdam plugin install '{source}'`");
            let message = refused.to_string();
            assert!(message.contains("no public address, and cofferdam.lock"), "{message}");
            assert!(message.ends_with(&command), "{message}");
        }
        assert_eq!(server.connections(), 0);
    }

    #[test]
    fn a_user_connects_to_private_addresses() {
        let server = Server::start("404 Not Found");
        for (number, (source, why)) in [
            (format!("http://{}/lines.wasm", server.address), "there is nothing (404)"),
            (format!("oci://{}/lines:1.0", server.address), "there is nothing of that name"),
        ]
        .iter()
        .enumerate()
        {
            let error = fetch(source, SourceOrigin::User).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(server.connections(), number + 1);
        }
    }

    /// The user's settings name its origin, so that a lock may name it as well.
    #[test]
    fn a_lock_connects_to_origins_of_the_users_settings() {
        let server = Server::start("404 Not Found");
        let origin = format!("http://{}", server.address).parse().unwrap();
        let settings = RegistrySettings { content: vec![origin], ..RegistrySettings::default() };
        let registries = BTreeMap::from([("registry.example".to_owned(), settings)]);
        let distribution = Distribution::new(None, None).with_registries(registries);
        let source = format!("http://{}/lines.wasm", server.address).parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let fetched = distribution.fetch(&source, SourceOrigin::Lock, Path::new("/nowhere"));
        assert!(matches!(runtime.block_on(fetched), Err(FetchError::Missing { .. })));
    }

    /// What a lock names is shown as a command, which must not run anything else.
    #[test]
    fn sources_are_quoted_for_a_shell() {
        let source: Source = "https://10.0.0.1/$(x)'`y`".parse().unwrap();
        let wanted = r"cofferdam plugin install 'https://10.0.0.1/$(x)'\''`y`'";
        assert_eq!(source.install_command(), wanted);
    }
}
