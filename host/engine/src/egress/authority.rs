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
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use cofferdam_core::policy::{Origin, OriginHost};

/// The files with the authorities that the system trusts: Debian, Fedora, Alpine.
const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The authority of a run.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: NamedTempFile,
    configurations: Mutex<HashMap<Origin, Arc<ServerConfig>>>,
}

impl Authority {
    /// Makes an authority. `directory` is where a file for the program is created: the authority's
    /// certificate, and the authorities of the system, for connections that pass.
    ///
    /// # Errors
    /// Returns an error if the file can't be written.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut authority = CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        authority.distinguished_name.push(DnType::CommonName, "Cofferdam, for one run");
        let certificate = authority.self_signed(&key).map_err(io::Error::other)?;
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix("cofferdam-").suffix(".pem").tempfile_in(directory)?;
        file.write_all(certificate.pem().as_bytes())?;
        file.write_all(&system_authorities())?;
        file.flush()?;
        readable(&file)?;
        Ok(Self { issuer: Issuer::new(authority, key), file, configurations: Mutex::default() })
    }

    /// The file with certificates that the program is given.
    pub(crate) fn file(&self) -> PathBuf {
        self.file.path().to_owned()
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

/// Lets the user that the program runs as read the file.
fn readable(file: &NamedTempFile) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[expect(clippy::disallowed_methods, reason = "a file of the system with public certificates")]
fn system_authorities() -> Vec<u8> {
    SYSTEM_AUTHORITIES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default()
}
