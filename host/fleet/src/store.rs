//! An object store: a local directory, or a bucket of a service.
//!
//! | object | content |
//! |---|---|
//! | `cofferdam-store.json` | the [`Marker`], created once |
//! | `objects/sha256/ab/cdef...` | a part of a file, or a directory, named by its digest |
//! | `commits/00000000000000000001` | a [`StoredCommit`], created once |

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::http::Client;
use cofferdam_text::shorten;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    Error, GetOptions, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, RetryConfig,
};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tokio::runtime::Handle;
use url::Url;

use crate::commit::{MAX_COMMIT_BYTES, MAX_MARKER_BYTES, Marker, StoredCommit};
use crate::error::FleetError;

/// The longest address of a store, in bytes.
const MAX_ADDRESS_BYTES: usize = 4 << 10;

/// How often a request is repeated that failed, and for how long.
const MAX_RETRIES: usize = 5;
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// The name of the marker.
const MARKER: &str = "cofferdam-store.json";

/// The address of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The absolute path of a directory.
    Directory(PathBuf),
    /// A bucket, and the prefix of all names in it; empty for none.
    Bucket {
        /// The protocol of the service that has the bucket.
        service: Service,
        /// The name of the bucket.
        bucket: String,
        /// The prefix, without slashes at its ends.
        prefix: String,
    },
}

/// The protocol of a service that stores objects in buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Amazon S3, and the many other servers that speak its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage, whose buckets are called containers.
    Azure,
}

impl Service {
    const ALL: [Self; 3] = [Self::S3, Self::Google, Self::Azure];

    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }

    /// How the names of its environment variables begin, and those of which one is needed.
    fn variables(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::S3 => ("AWS_", &["AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"]),
            Self::Google => (
                "GOOGLE_",
                &["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_BEARER_TOKEN"],
            ),
            Self::Azure => ("AZURE_", &["AZURE_STORAGE_ACCOUNT_NAME"]),
        }
    }
}

/// What the user's requests to a store take.
pub struct Access {
    /// Environment variables. Those that begin with `AWS_`, `GOOGLE_` or `AZURE_` configure a service.
    pub variables: Vec<(String, String)>,
    /// The client that sends requests.
    pub client: Arc<Client>,
}

impl Address {
    /// Parses an address: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`,
    /// `file:///PATH` or a path, which is relative to `current`.
    ///
    /// # Errors
    /// [`FleetError::Address`].
    pub fn parse(text: &str, current: &FilePath) -> Result<Self, FleetError> {
        let error =
            |why: &str| FleetError::Address { text: shorten(text, 120), why: why.to_owned() };
        if text.is_empty() || text.len() > MAX_ADDRESS_BYTES || text.chars().any(char::is_control) {
            return Err(error("it is empty, too long, or has control characters"));
        }
        let service = text.split_once("://").and_then(|(scheme, rest)| {
            Some((Service::ALL.into_iter().find(|service| service.scheme() == scheme)?, rest))
        });
        if let Some((service, rest)) = service {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let is_bucket = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
            if bucket.is_empty() || !bucket.bytes().all(is_bucket) {
                return Err(error("after '://' is the name of a bucket, or BUCKET/PREFIX"));
            }
            let prefix = Path::parse(prefix.trim_matches('/'))
                .map_err(|_| error("the prefix after the bucket is no path"))?;
            let (bucket, prefix) = (bucket.to_owned(), prefix.to_string());
            return Ok(Self::Bucket { service, bucket, prefix });
        }
        if text.starts_with("file:") {
            let path = Url::parse(text).ok().and_then(|url| url.to_file_path().ok());
            let path = path.ok_or_else(|| error("it has the form file:///PATH"))?;
            return resolved(&path).map(Self::Directory).map_err(error);
        }
        if text.contains("://") {
            let why = "there are paths, file:///PATH, and buckets: s3://BUCKET/PREFIX, gs://... and \
                       az://...";
            return Err(error(why));
        }
        resolved(&current.join(text)).map(Self::Directory).map_err(error)
    }
}

impl Address {
    /// The address of what is below a name.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        match self {
            Self::Directory(path) => Self::Directory(path.join(name)),
            Self::Bucket { service, bucket, prefix } => {
                let prefix =
                    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
                Self::Bucket { service: *service, bucket: bucket.clone(), prefix }
            }
        }
    }
}

/// Returns the path without links and `..`, of which the end may not exist yet.
#[expect(clippy::disallowed_methods, reason = "nothing is opened")]
fn resolved(path: &FilePath) -> Result<PathBuf, &'static str> {
    let existing = path.ancestors().find_map(|above| Some((above.canonicalize().ok()?, above)));
    let (real, above) = existing.ok_or("no directory above it exists")?;
    let rest = path.strip_prefix(above).unwrap_or(FilePath::new(""));
    if rest.components().any(|part| part == Component::ParentDir) {
        return Err("there is a '..' after a directory that does not exist");
    }
    Ok(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "{}", path.display()),
            Self::Bucket { service, bucket, prefix } => {
                let slash = if prefix.is_empty() { "" } else { "/" };
                write!(f, "{}://{bucket}{slash}{prefix}", service.scheme())
            }
        }
    }
}

/// An open store.
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    /// The directory, if it is local.
    directory: Option<PathBuf>,
    name: String,
}

impl Store {
    /// Opens a store. A directory is created if `create` is true.
    ///
    /// # Errors
    /// [`FleetError::Empty`] for a directory that does not exist; [`FleetError::Store`] if the address or
    /// a variable can't be used.
    #[expect(clippy::disallowed_methods, reason = "the user names a directory")]
    pub(crate) fn open(
        address: &Address,
        access: &Access,
        create: bool,
    ) -> Result<Self, FleetError> {
        let name = address.to_string();
        let path = match address {
            Address::Bucket { service, bucket, prefix } => {
                let bucket = open_bucket(*service, bucket, access)?;
                let prefix = Path::parse(prefix).map_err(Error::from)?;
                let objects = Arc::new(PrefixStore::new(bucket, prefix));
                return Ok(Self { objects, directory: None, name });
            }
            Address::Directory(path) => path,
        };
        if create {
            std::fs::create_dir_all(path)?;
        }
        if !path.is_dir() {
            return Err(FleetError::Empty(name));
        }
        let path = path.canonicalize()?;
        let not_utf8 = || io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8");
        let name = path.to_str().ok_or_else(not_utf8)?.to_owned();
        let objects = Arc::new(LocalFileSystem::new_with_prefix(&path)?);
        let directory = Some(path);
        Ok(Self { objects, directory, name })
    }

    /// Replaces what is asked for objects, by one that has faults.
    #[cfg(test)]
    pub(crate) fn with(
        self,
        wrap: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>,
    ) -> Self {
        Self { objects: wrap(self.objects), directory: None, ..self }
    }

    /// The address, as text.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id of the store; `None` if nothing was pushed yet.
    ///
    /// # Errors
    /// [`FleetError::Invalid`], [`FleetError::Store`].
    pub(crate) async fn id(&self) -> Result<Option<String>, FleetError> {
        let marker = self.get(&Path::from(MARKER), MAX_MARKER_BYTES).await?;
        Ok(marker.map(|bytes| Marker::parse(&bytes)).transpose()?.map(|marker| marker.id))
    }

    /// Checks that what is at an address can be read, whether it is a workspace or not.
    ///
    /// # Errors
    /// [`FleetError::Empty`] for a directory that does not exist, [`FleetError::Store`].
    pub(crate) async fn reach(address: &Address, access: &Access) -> Result<(), FleetError> {
        Self::open(address, access, false)?.id().await.map(drop)
    }

    /// Whether there is a workspace at an address.
    ///
    /// # Errors
    /// [`FleetError::Invalid`], [`FleetError::Store`].
    pub(crate) async fn exists(address: &Address, access: &Access) -> Result<bool, FleetError> {
        match Self::open(address, access, false) {
            Err(FleetError::Empty(_)) => Ok(false),
            store => Ok(store?.id().await?.is_some()),
        }
    }

    /// Makes sure that commits can be created here: creates the marker if it is missing, and checks that
    /// the store refuses to create it again. Returns the store's id.
    ///
    /// # Errors
    /// [`FleetError::NoConditionalPut`]; as for [`Store::id`].
    pub(crate) async fn prepare(&self) -> Result<String, FleetError> {
        let place = Path::from(MARKER);
        let mut marker = self.get(&place, MAX_MARKER_BYTES).await?;
        if marker.is_none() {
            let new = serde_json::to_vec(&Marker::new()).map_err(io::Error::from)?;
            self.create(&place, new.into()).await?;
            // Another process may have been first.
            marker = self.get(&place, MAX_MARKER_BYTES).await?;
        }
        let missing = || FleetError::invalid("the marker", "it is gone again");
        let bytes = marker.ok_or_else(missing)?;
        let id = Marker::parse(&bytes)?.id;
        if self.create(&place, bytes).await? {
            return Err(FleetError::NoConditionalPut(self.name.clone()));
        }
        Ok(id)
    }

    /// Returns the object with this digest and size, which are compared with its content.
    ///
    /// # Errors
    /// [`FleetError::MissingObject`], [`FleetError::WrongContent`], [`FleetError::Store`].
    pub(crate) async fn object(&self, digest: Digest, size: u64) -> Result<Bytes, FleetError> {
        if let Some(path) = self.local(&object_path(digest)) {
            let read = move || checked(read_local(&path, size), digest, size);
            return tokio::task::spawn_blocking(read).await.map_err(io::Error::from)?;
        }
        let found = self.get(&object_path(digest), size).await;
        let check = move || checked(found, digest, size);
        tokio::task::spawn_blocking(check).await.map_err(io::Error::from)?
    }

    /// As [`Store::object`], on a thread that may wait and is none of `runtime`'s own.
    ///
    /// # Errors
    /// As for [`Store::object`].
    pub(crate) fn wait_for_object(
        &self,
        (digest, size): (Digest, u64),
        runtime: &Handle,
    ) -> Result<Bytes, FleetError> {
        match self.local(&object_path(digest)) {
            Some(path) => checked(read_local(&path, size), digest, size),
            None => runtime.block_on(self.object(digest, size)),
        }
    }

    /// Whether there is an object with this digest and size.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub(crate) async fn has(&self, digest: Digest, size: u64) -> Result<bool, FleetError> {
        match self.objects.head(&object_path(digest)).await {
            Ok(found) => Ok(found.size == size),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Stores an object. One with this digest is replaced: it was torn.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub(crate) async fn put(&self, digest: Digest, bytes: Bytes) -> Result<(), FleetError> {
        self.objects.put(&object_path(digest), bytes.into()).await?;
        Ok(())
    }

    /// Returns a commit and the digest of its document; `None` if the number was not created yet.
    ///
    /// # Errors
    /// [`FleetError::Invalid`], [`FleetError::Store`].
    pub(crate) async fn commit(
        &self,
        number: u64,
    ) -> Result<Option<(StoredCommit, Digest)>, FleetError> {
        let Some(bytes) = self.get(&commit_path(number), MAX_COMMIT_BYTES).await? else {
            return Ok(None);
        };
        Ok(Some((StoredCommit::parse(number, &bytes)?, Digest::of(&bytes))))
    }

    /// Says that a commit may have the result of a call, before that commit is created.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub(crate) async fn put_intent(&self, key: Digest, number: u64) -> Result<(), FleetError> {
        let place = intents_path(key).join(number.to_string());
        self.objects.put(&place, Bytes::new().into()).await?;
        Ok(())
    }

    /// Returns the numbers of the commits that may have the result of a call.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub(crate) async fn intents(&self, key: Digest) -> Result<Vec<u64>, FleetError> {
        let place = intents_path(key);
        let listed = self.objects.list(Some(&place));
        let numbers = listed.map_ok(|found| found.location.filename()?.parse::<u64>().ok());
        Ok(numbers.try_filter_map(|number| async move { Ok(number) }).try_collect().await?)
    }

    /// Creates a commit. Returns false if another host has created its number. Everything that was
    /// stored before is on the disk first.
    ///
    /// # Errors
    /// [`FleetError::Store`].
    pub(crate) async fn create_commit(
        &self,
        commit: &StoredCommit,
        bytes: Vec<u8>,
    ) -> Result<bool, FleetError> {
        self.sync()?;
        let place = commit_path(commit.number);
        let created = self.create(&place, bytes.into()).await;
        let is_ours = match created {
            Ok(true) => true,
            // The first of several requests may have created it, and its answer was lost.
            Ok(false) | Err(_) => match self.commit(commit.number).await {
                Ok(Some((found, _))) if found.id == commit.id => true,
                _ => created?,
            },
        };
        self.sync()?;
        Ok(is_ours)
    }

    /// Creates an object. Returns false if there is one already.
    async fn create(&self, place: &Path, bytes: Bytes) -> Result<bool, FleetError> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.objects.put_opts(place, bytes.into(), options).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(Error::NotImplemented { .. }) => {
                Err(FleetError::NoConditionalPut(self.name.clone()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads an object of at most `most` bytes.
    async fn get(&self, place: &Path, most: u64) -> Result<Option<Bytes>, FleetError> {
        if let Some(path) = self.local(place) {
            let read = move || read_local(&path, most);
            return tokio::task::spawn_blocking(read).await.map_err(io::Error::from)?;
        }
        let found = match self.objects.get_opts(place, GetOptions::default()).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        if found.meta.size > most {
            return Err(too_large(place));
        }
        let mut bytes = BytesMut::new();
        let mut stream = found.into_stream();
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece?);
            if bytes.len() as u64 > most {
                return Err(too_large(place));
            }
        }
        Ok(Some(bytes.freeze()))
    }

    /// The path of an object in a local store.
    fn local(&self, place: &Path) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(place.as_ref()))
    }

    /// Waits until a local store is on the disk.
    fn sync(&self) -> Result<(), FleetError> {
        let Some(path) = &self.directory else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty());
        let directory = directory.map_err(io::Error::from)?;
        #[cfg(target_os = "linux")]
        rustix::fs::syncfs(&directory).map_err(io::Error::from)?;
        #[cfg(not(target_os = "linux"))]
        rustix::fs::fsync(&directory).map_err(io::Error::from)?;
        Ok(())
    }
}

/// Reads a file of a local store that has at most `most` bytes; `None` if it does not exist. Neither a link
/// nor a FIFO is followed or waited for.
fn read_local(path: &FilePath, most: u64) -> Result<Option<Bytes>, FleetError> {
    let name = || path.display().to_string();
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FleetError::invalid(name(), "it changed while it was read"),
        _ => FleetError::Store(shorten(&format!("{}: {error}", name()), 500)),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = match rustix::fs::open(path, flags | OFlags::NOCTTY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NXIO) => {
            return Err(FleetError::invalid(name(), "it is no regular file"));
        }
        file => File::from(file.map_err(|error| failed(error.into()))?),
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(FleetError::invalid(name(), "it is no regular file"));
    }
    if found.len() > most {
        return Err(too_large(name()));
    }
    let mut bytes = vec![0; usize::try_from(found.len()).unwrap_or(0)];
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(Some(bytes.into()))
}

/// Compares what was read of an object with its name.
fn checked(
    found: Result<Option<Bytes>, FleetError>,
    digest: Digest,
    size: u64,
) -> Result<Bytes, FleetError> {
    match found {
        Err(FleetError::Invalid { .. }) => Err(FleetError::WrongContent(digest)),
        Ok(None) => Err(FleetError::MissingObject(digest)),
        Ok(Some(bytes)) if bytes.len() as u64 == size && Digest::of(&bytes) == digest => Ok(bytes),
        Ok(Some(_)) => Err(FleetError::WrongContent(digest)),
        Err(error) => Err(error),
    }
}

fn too_large(what: impl ToString) -> FleetError {
    FleetError::invalid(what.to_string(), "it is larger than it may be")
}

/// Opens a bucket by the environment's variables. The client opens no unencrypted connection to another
/// machine, though the library would.
fn open_bucket(
    service: Service,
    bucket: &str,
    access: &Access,
) -> Result<Arc<dyn ObjectStore>, FleetError> {
    let (prefix, needed) = service.variables();
    let has = |name: &&str| access.variables.iter().any(|(known, _)| known == name);
    if !needed.iter().any(has) {
        let why = format!("one of these is needed in the environment: {}", needed.join(", "));
        return Err(FleetError::Store(why));
    }
    let variables = || {
        let own = access.variables.iter().filter(|(name, _)| name.starts_with(prefix));
        own.map(|(name, value)| (name.to_ascii_lowercase(), value))
    };
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let requests = crate::requests::Requests(Arc::clone(&access.client));
    // The builders have no trait in common.
    macro_rules! open {
        ($builder:ident, $key:ty, $name:ident) => {{
            let known = |(name, value): (String, _)| Some((name.parse::<$key>().ok()?, value));
            let set = |builder: $builder, (key, value)| builder.with_config(key, value);
            let builder = variables().filter_map(known).fold($builder::new(), set);
            let builder = builder.$name(bucket).with_retry(retry).with_http_connector(requests);
            Ok(Arc::new(builder.build()?))
        }};
    }
    match service {
        Service::S3 => open!(AmazonS3Builder, AmazonS3ConfigKey, with_bucket_name),
        Service::Google => open!(GoogleCloudStorageBuilder, GoogleConfigKey, with_bucket_name),
        Service::Azure => open!(MicrosoftAzureBuilder, AzureConfigKey, with_container_name),
    }
}

fn object_path(digest: Digest) -> Path {
    let hex = digest.hex();
    Path::from(format!("objects/sha256/{}/{}", &hex[..2], &hex[2..]))
}

fn intents_path(key: Digest) -> Path {
    let hex = key.hex();
    Path::from(format!("keys/{}/{}", &hex[..2], &hex[2..]))
}

fn commit_path(number: u64) -> Path {
    Path::from(format!("commits/{number:020}"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn addresses_are_parsed_or_refused() {
        let place = tempfile::tempdir().unwrap();
        let here = place.path().canonicalize().unwrap();
        std::fs::create_dir(here.join("sub")).unwrap();
        std::os::unix::fs::symlink("sub", here.join("link")).unwrap();
        let parse = |text: &str| Address::parse(text, &here);
        let directory = |path: &str| Address::Directory(here.join(path));
        let bucket = |service: Service, bucket: &str, prefix: &str| Address::Bucket {
            service,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        };
        for (text, address) in [
            ("/srv/store", Address::Directory("/srv/store".into())),
            ("store", directory("store")),
            ("./new/store", directory("new/store")),
            ("sub/../store", directory("store")),
            ("link/store", directory("sub/store")),
            ("link", directory("sub")),
            ("file:///srv/a%20b", Address::Directory("/srv/a b".into())),
            ("s3://bucket", bucket(Service::S3, "bucket", "")),
            ("s3://bucket/", bucket(Service::S3, "bucket", "")),
            ("s3://bucket/a/b/", bucket(Service::S3, "bucket", "a/b")),
            ("gs://bucket/a", bucket(Service::Google, "bucket", "a")),
            ("az://container", bucket(Service::Azure, "container", "")),
        ] {
            assert_eq!(parse(text).unwrap(), address, "{text}");
            // What is shown is an address again.
            assert_eq!(parse(&address.to_string()).unwrap(), address, "{text}");
        }
        let long = "x".repeat(5000);
        for wrong in [
            "",
            "a\nb",
            "s3://",
            "s3:///x",
            "s3://a b",
            "s3://b/a//c",
            "s3://b/../c",
            "file://host/x",
            "https://example.org",
            "new/../store",
            &long,
        ] {
            parse(wrong).unwrap_err();
        }
    }
}
