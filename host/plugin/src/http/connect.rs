//! Connecting to an origin: DNS, address filter, TCP, TLS; or through a proxy of the user.
//!
//! A name is resolved once, and the connection goes to an address that was checked: a name server
//! can't return another address between check and connection.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::{fmt, io};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use super::proxy::Proxy;
use super::{ConnectError, ConnectErrorKind};
use cofferdam_core::policy::{Origin, OriginHost, OriginSettings};

/// The number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 4;

/// Which addresses an origin may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Only addresses on the public Internet.
    Public,
    /// Public addresses, and an address in the origin itself.
    Named,
    /// All addresses, private ones as well.
    Any,
}

/// A connection, encrypted or not.
pub type Stream = Box<dyn Connection>;

/// The traits of a connection.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Connects to origins. Certificate files are read at the first use.
#[derive(Default)]
pub struct Connector {
    configurations: Mutex<HashMap<Option<PathBuf>, Arc<ClientConfig>>>,
}

impl Connector {
    /// Connects to an origin if its addresses are allowed.
    pub async fn connect(
        &self,
        settings: &OriginSettings,
        reach: Reach,
    ) -> Result<Stream, ConnectError> {
        let origin = &settings.origin;
        let stream = self.connect_plain(settings, reach).await?;
        if !origin.is_secure() {
            return Ok(Box::new(stream));
        }
        let name = server_name(origin)?;
        self.secure(stream, name, origin, settings.ca_file.as_deref()).await
    }

    /// Connects to an encrypted origin through a proxy, which resolves its name: whether its address
    /// is public is checked only if the origin is an address.
    pub(super) async fn connect_through(
        &self,
        proxy: &Proxy,
        settings: &OriginSettings,
        reach: Reach,
    ) -> Result<Stream, ConnectError> {
        let (origin, ca_file) = (&settings.origin, settings.ca_file.as_deref());
        if let (OriginHost::Address(address), Reach::Public) = (origin.host(), reach) {
            public(origin, &[(*address, origin.port()).into()])?;
        }
        let (host, port) = proxy.address();
        let shown = format!("the proxy {host}:{port}");
        let name = host.trim_matches(['[', ']']).to_owned();
        let found = look_up(name.clone(), port).await.map_err(|error| {
            let kind = ConnectErrorKind::Dns(error.to_string());
            ConnectError::new(kind, format!("{shown} has no address"))
        })?;
        let stream = first(&shown, &found).await?;
        let stream: Stream = if proxy.is_secure() {
            let name = ServerName::try_from(name)
                .map_err(|error| ConnectError::new(ConnectErrorKind::Tls, error))?;
            self.secure(stream, name, &shown, ca_file).await?
        } else {
            Box::new(stream)
        };
        let tunnel = proxy.tunnel(stream, origin).await?;
        self.secure(tunnel, server_name(origin)?, origin, ca_file).await
    }

    /// Starts TLS on a connection to the server `name`, which messages call `shown`.
    async fn secure(
        &self,
        stream: impl Connection + 'static,
        name: ServerName<'static>,
        shown: &impl fmt::Display,
        ca_file: Option<&Path>,
    ) -> Result<Stream, ConnectError> {
        let configuration = self.configuration(ca_file)?;
        let stream = TlsConnector::from(configuration).connect(name, stream).await;
        let stream = stream.map_err(|error| {
            let is_certificate = error
                .get_ref()
                .and_then(|inner| inner.downcast_ref::<rustls::Error>())
                .is_some_and(|inner| matches!(inner, rustls::Error::InvalidCertificate(_)));
            let kind =
                if is_certificate { ConnectErrorKind::Certificate } else { ConnectErrorKind::Tls };
            ConnectError::new(kind, format!("{shown}: {error}"))
        })?;
        Ok(Box::new(stream))
    }

    /// Connects to an origin if its addresses are allowed, without TLS: for a client that brings its
    /// own.
    pub async fn connect_plain(
        &self,
        settings: &OriginSettings,
        reach: Reach,
    ) -> Result<TcpStream, ConnectError> {
        let origin = &settings.origin;
        let addresses = match settings.address {
            Some(address) => vec![address],
            None => addresses(origin, reach).await?,
        };
        first(origin, &addresses).await
    }

    /// The TLS configuration that trusts the certificate authorities of browsers, and those in
    /// `ca_file`.
    fn configuration(&self, ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, ConnectError> {
        let key = ca_file.map(Path::to_owned);
        let mut known = self.configurations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(configuration) = known.get(&key) {
            return Ok(Arc::clone(configuration));
        }
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = ca_file {
            add_authorities(&mut roots, path).map_err(|why| {
                let why = format!("the ca-file {}: {why}", path.display());
                ConnectError::new(ConnectErrorKind::Configuration, why)
            })?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let configuration = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| ConnectError::new(ConnectErrorKind::Tls, error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let configuration = Arc::new(configuration);
        known.insert(key, Arc::clone(&configuration));
        Ok(configuration)
    }
}

/// The name in the certificate of an origin.
fn server_name(origin: &Origin) -> Result<ServerName<'static>, ConnectError> {
    match origin.host() {
        OriginHost::Address(address) => Ok(ServerName::from(*address)),
        OriginHost::Name(name) => ServerName::try_from(name.clone())
            .map_err(|error| ConnectError::new(ConnectErrorKind::Tls, error)),
    }
}

#[expect(clippy::disallowed_methods, reason = "the operator's certificates are named by a path")]
fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut found = 0;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
        found += 1;
    }
    if found == 0 { Err("there is no certificate in it".to_owned()) } else { Ok(()) }
}

/// Connects to the first address that accepts.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that connects sockets; the address was checked"
)]
async fn first(
    shown: &impl fmt::Display,
    addresses: &[SocketAddr],
) -> Result<TcpStream, ConnectError> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses.iter().take(MAX_ADDRESSES) {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Requests are small: waiting for more data only costs time.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(ConnectError::new(ConnectErrorKind::Refused, format!("{shown} can't be reached: {last}")))
}

/// The allowed addresses of an origin.
async fn addresses(origin: &Origin, reach: Reach) -> Result<Vec<SocketAddr>, ConnectError> {
    let port = origin.port();
    match origin.host() {
        OriginHost::Address(address) if reach == Reach::Public => {
            public(origin, &[(*address, port).into()])
        }
        OriginHost::Name(_) if origin.is_local() && reach == Reach::Public => {
            public(origin, &[(Ipv4Addr::LOCALHOST, port).into()])
        }
        OriginHost::Address(address) => Ok(vec![(*address, port).into()]),
        // Resolved without DNS, which could return another address.
        OriginHost::Name(_) if origin.is_local() => {
            Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()])
        }
        OriginHost::Name(name) => {
            let found = look_up(name.clone(), port).await.map_err(|error| {
                let error = ConnectErrorKind::Dns(error.to_string());
                ConnectError::new(error, format!("{origin} has no address"))
            })?;
            if reach == Reach::Any { Ok(found) } else { public(origin, &found) }
        }
    }
}

fn public(origin: &Origin, found: &[SocketAddr]) -> Result<Vec<SocketAddr>, ConnectError> {
    let public: Vec<SocketAddr> =
        found.iter().copied().filter(|address| is_public(address.ip())).collect();
    if !public.is_empty() {
        return Ok(public);
    }
    let found: Vec<String> = found.iter().map(|address| address.ip().to_string()).collect();
    let why = format!(
        "{origin} resolves to {}, which is no public address; if that is intended, the user can \
         set `address` in the grant",
        if found.is_empty() { "nothing".to_owned() } else { found.join(", ") }
    );
    Err(ConnectError::new(ConnectErrorKind::NotPublic, why))
}

/// Resolves a name on a thread of its own: the system's resolver can't be interrupted otherwise,
/// and a process can exit without waiting for the thread.
#[expect(clippy::disallowed_methods, reason = "the only place that resolves names")]
async fn look_up(name: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    let (answer, answered) = oneshot::channel();
    thread::Builder::new().name("cofferdam-resolve".to_owned()).spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // The caller may have timed out.
        let _ = answer.send(found);
    })?;
    answered.await.map_err(io::Error::other)?
}

/// Whether an address is on the public Internet: no address of this machine, a private network, a
/// link or a multicast group, and none that is translated to such an address (the registries of RFC
/// 6890 and its updates).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || a == 10
        || a == 127
        || a >= 224
        || (a == 100 && (64..128).contains(&b))
        || (a == 169 && b == 254)
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && b == 0 && (c == 0 || c == 2))
        || (a == 192 && b == 88 && c == 99)
        || (a == 192 && b == 168)
        || (a == 198 && (b == 18 || b == 19))
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Only global unicast, without addresses for protocols (Teredo), documentation and translation
    // (6to4).
    (a & 0xe000) == 0x2000
        && !(a == 0x2001 && b < 0x200)
        && !(a == 0x2001 && b == 0xdb8)
        && a != 0x2002
        && !(a == 0x3fff && b < 0x1000)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Addresses of this machine, private networks, links, multicast groups, and reserved ones.
    const NOT_PUBLIC: &[&str] = &[
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.255",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:1ff::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "4000::1",
        "fc00::1",
        "fd00::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];

    /// Addresses on the public Internet, some right beside those above.
    const PUBLIC: &[&str] = &[
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "192.167.0.1",
        "198.17.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "2001:200::1",
        "2001:4860:4860::8888",
        "2606:4700::1111",
        "2a00::1",
    ];

    #[test]
    fn only_public_addresses_are_public() {
        for address in NOT_PUBLIC {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in PUBLIC {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn names_resolve_to_public_addresses_only() {
        let origin: Origin = "https://rebound.example".parse().unwrap();
        let found = |addresses: &[&str]| -> Vec<SocketAddr> {
            addresses
                .iter()
                .map(|address| (address.parse::<IpAddr>().unwrap(), 443).into())
                .collect()
        };
        let mixed = found(&["127.0.0.1", "1.1.1.1", "10.0.0.1"]);
        assert_eq!(public(&origin, &mixed).ok(), Some(found(&["1.1.1.1"])));
        for private in [found(&["127.0.0.1", "::1"]), found(&["169.254.169.254"]), Vec::new()] {
            let refused = public(&origin, &private).err().unwrap();
            assert!(matches!(refused.kind, ConnectErrorKind::NotPublic));
            assert!(refused.message.contains("no public address"), "{}", refused.message);
        }
    }
}
