//! Connecting to the servers of a queue: addresses, credentials, TLS.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr};
use cofferdam_text::shorten;
use tokio_rustls::rustls::ClientConfig;
use url::{Host, Url};

use super::error::QueueError;

/// The longest address, in bytes, and how many servers it names.
const MAX_ADDRESS_BYTES: usize = 4 << 10;
const MAX_SERVERS: usize = 16;

/// How long connecting, and one request, may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// After how much time without a message the client checks that the server is still there.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The longest pause before the next attempt to connect again.
const MAX_RECONNECT_DELAY: Duration = Duration::from_millis(500);

/// How many messages of one subscription wait to be read; later ones are lost.
const MAX_WAITING_MESSAGES: usize = 64;

/// How a client proves who it is.
#[derive(Clone, Default)]
pub enum QueueCredentials {
    /// The server asks for no credentials.
    #[default]
    None,
    /// A token that all clients share.
    Token(String),
    /// A user and a password.
    Password {
        /// The name of the user.
        user: String,
        /// The password of the user.
        password: String,
    },
    /// The content of a `.creds` file: a JWT and an NKey seed.
    File(String),
}

/// How to connect to the servers of a queue.
#[derive(Clone, Default)]
pub struct QueueOptions {
    /// What the server asks for.
    pub credentials: QueueCredentials,
    /// The authorities to trust, and a client's certificate. The default are the authorities of the
    /// system.
    pub tls: Option<Arc<ClientConfig>>,
    /// Whether a connection to another machine may be unencrypted, as in a private network of a cluster.
    /// Credentials and requests can be read there; they can't be changed.
    pub allow_unencrypted: bool,
}

/// Parses addresses: `nats://HOST:PORT` or `tls://HOST:PORT`, several with commas between them.
fn parse(address: &str) -> Result<Vec<Url>, QueueError> {
    let error = |why| QueueError::Address { text: shorten(address, 120), why };
    if address.len() > MAX_ADDRESS_BYTES {
        return Err(error("it is too long"));
    }
    let servers: Vec<&str> = address.split(',').map(str::trim).collect();
    if servers.len() > MAX_SERVERS {
        return Err(error("it names more than 16 servers"));
    }
    let parsed = servers.into_iter().map(|server| {
        let form = "it has the form nats://HOST:PORT or tls://HOST:PORT";
        let url = Url::parse(server).map_err(|_| error(form))?;
        let is_plain = url.query().is_none() && url.fragment().is_none() && url.path().len() <= 1;
        if !matches!(url.scheme(), "nats" | "tls") || url.host().is_none() || !is_plain {
            return Err(error(form));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(QueueError::Address {
                text: format!("{}://...", url.scheme()),
                why: "credentials are not a part of the address",
            });
        }
        Ok(url)
    });
    parsed.collect()
}

/// Whether an address is one of this machine.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // The host of a scheme that `url` does not know is never parsed as an address.
        Some(Host::Domain(name)) => {
            name == "localhost"
                || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

fn needs_tls(urls: &[Url], allow_unencrypted: bool) -> bool {
    !allow_unencrypted && !urls.iter().all(is_this_machine)
}

/// Connects to one of the servers. The client connects again by itself, as often as needed.
pub(super) async fn connect(address: &str, options: QueueOptions) -> Result<Client, QueueError> {
    let urls = parse(address)?;
    let needs_tls = needs_tls(&urls, options.allow_unencrypted);
    let refused = |_| QueueError::Address { text: shorten(address, 120), why: "no server" };
    let servers: Result<Vec<ServerAddr>, _> = urls.into_iter().map(ServerAddr::from_url).collect();
    let mut connecting = with(options.credentials)?
        .name("cofferdam")
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .ping_interval(PING_INTERVAL)
        .subscription_capacity(MAX_WAITING_MESSAGES)
        // The user names the servers; a server does not name more of them.
        .ignore_discovered_servers()
        .reconnect_delay_callback(|attempts| {
            let attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
            MAX_RECONNECT_DELAY.min(Duration::from_millis(20).saturating_mul(attempts))
        })
        .event_callback(|event| async move {
            tracing::info!("the queue: {}", cofferdam_text::escape_control(&event.to_string()));
        });
    if let Some(tls) = options.tls {
        connecting = connecting.tls_client_config(Arc::unwrap_or_clone(tls));
    }
    // Only a requirement is set: the scheme `tls` and the server can require it, too.
    if needs_tls {
        connecting = connecting.require_tls(true);
    }
    connecting.connect(servers.map_err(refused)?).await.map_err(|error| {
        use async_nats::ConnectErrorKind::{Authentication, AuthorizationViolation};
        match error.kind() {
            Authentication | AuthorizationViolation => QueueError::refused(error),
            _ => QueueError::unreachable(error),
        }
    })
}

fn with(credentials: QueueCredentials) -> Result<ConnectOptions, QueueError> {
    Ok(match credentials {
        QueueCredentials::None => ConnectOptions::new(),
        QueueCredentials::Token(token) => ConnectOptions::with_token(token),
        QueueCredentials::Password { user, password } => {
            ConnectOptions::with_user_and_password(user, password)
        }
        QueueCredentials::File(content) => ConnectOptions::with_credentials(&content)
            .map_err(|error| QueueError::Credentials(error.to_string()))?,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_connections_to_this_machine_are_unencrypted_by_default() {
        for (address, needed) in [
            ("nats://127.0.0.1:4222", false),
            ("nats://127.1.2.3:4222,nats://localhost", false),
            ("nats://[::1]:4222", false),
            ("nats://10.0.0.1:4222", true),
            ("nats://[fe80::1]:4222", true),
            ("nats://2130706433:4222", true),
            ("nats://localhost.example:4222", true),
            ("nats://127.0.0.1.example:4222", true),
            ("nats://127.0.0.1:4222,nats://queue.example:4222", true),
        ] {
            let urls = parse(address).unwrap();
            assert_eq!(needs_tls(&urls, false), needed, "{address}");
            assert!(!needs_tls(&urls, true), "{address}");
        }
    }
}
