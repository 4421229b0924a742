//! The certificate authority of a run. Its key never leaves this process, and only the programs of the
//! run get its certificate.

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tempfile::NamedTempFile;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use cofferdam_core::policy::{Origin, OriginHost};

/// The files with the authorities that the system trusts: Debian, Fedora, Alpine.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The authority of a run.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: NamedTempFile,
    java_file: NamedTempFile,
    configurations: Mutex<HashMap<Origin, Arc<ServerConfig>>>,
}

impl Authority {
    /// Makes an authority. `directory` is where files for the program are created: the authority's
    /// certificate, and the authorities of the system, for connections that pass.
    ///
    /// # Errors
    /// Returns an error if a file can't be written.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut authority = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        authority.distinguished_name.push(DnType::CommonName, "Cofferdam, for one run");
        let certificate = authority.self_signed(&key).map_err(io::Error::other)?;
        let mut all = certificate.pem().into_bytes();
        all.extend(system_authorities());
        let file = readable(directory, ".pem", &all)?;
        let java_file = readable(directory, ".jks", &java_key_store(&all))?;
        let issuer = Issuer::new(authority, key);
        Ok(Self { issuer, file, java_file, configurations: Mutex::default() })
    }

    /// The file with certificates that the program is given.
    pub(crate) fn file(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    /// The certificates in Java's format, since Java reads no PEM.
    pub(crate) fn java_file(&self) -> PathBuf {
        self.java_file.path().to_owned()
    }

    /// The TLS configuration with a certificate for an origin.
    pub(super) fn configuration(&self, origin: &Origin) -> Result<Arc<ServerConfig>, String> {
        let mut known = self.configurations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(configuration) = known.get(origin) {
            return Ok(Arc::clone(configuration));
        }
        let text = |error: &dyn Display| error.to_string();
        let name = match origin.host() {
            OriginHost::Name(name) => name.clone(),
            OriginHost::Address(address) => address.to_string(),
        };
        let key = KeyPair::generate().map_err(|error| text(&error))?;
        let mut leaf = CertificateParams::new(vec![name]).map_err(|error| text(&error))?;
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.use_authority_key_identifier_extension = true;
        let certificate = leaf.signed_by(&key, &self.issuer).map_err(|error| text(&error))?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| text(&error))?;
        let provider = Arc::new(ring::default_provider());
        let mut configuration = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| text(&error))?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .map_err(|error| text(&error))?;
        configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
        let configuration = Arc::new(configuration);
        // At most one for each granted origin.
        known.insert(origin.clone(), Arc::clone(&configuration));
        Ok(configuration)
    }
}

/// Creates a file that the user that the program runs as can read.
fn readable(directory: &Path, suffix: &str, bytes: &[u8]) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut builder = tempfile::Builder::new();
    let mut file = builder.prefix("cofferdam-").suffix(suffix).tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.flush()?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    Ok(file)
}

/// A key store of Java (JKS, version 2) with the certificates of a PEM text. Its digest depends on a
/// password; Java does not compare it where no password is given.
fn java_key_store(pem: &[u8]) -> Vec<u8> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem).flatten().collect();
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
    let text = |text: &str| {
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&length[..], text.as_bytes()].concat()
    };
    let mut store = [0xfeed_feed_u32.to_be_bytes(), number(2), number(certificates.len())].concat();
    for (index, certificate) in certificates.iter().enumerate() {
        store.extend(number(2)); // A trusted certificate.
        store.extend(text(&index.to_string()));
        store.extend([0; 8]); // The time of its creation.
        store.extend(text("X.509"));
        store.extend(number(certificate.len()));
        store.extend_from_slice(certificate);
    }
    store.extend([0; 20]);
    store
}

#[expect(clippy::disallowed_methods, reason = "a file of the system with public certificates")]
fn system_authorities() -> Vec<u8> {
    SYSTEM_AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default()
}
