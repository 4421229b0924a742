//! A connection for TLS: its server name is compared with the granted origin; then it passes, or ends
//! here.

use std::convert::Infallible;
use std::io::{self, Cursor};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, join, split};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::Shared;
use super::account::Used;
use super::forward::Route;
use super::hello::{self, Hello};
use super::proxy::{HEAD_TIMEOUT, protocol};
use cofferdam_core::policy::{Origin, OriginHost, OriginSettings, Tunnel};
use cofferdam_plugin::http::{CONNECT_TIMEOUT, Reach};

/// How long a handshake with a program may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The size of the buffer of each direction, in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// Serves a tunnel until either end closes it.
///
/// # Errors
/// Returns why it ended early. What was not allowed is also remembered for the result.
pub(super) async fn run<S>(shared: &Arc<Shared>, origin: &Origin, mut stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let refuse = |why: String| {
        shared.refuse(Some(origin), why.clone());
        io::Error::other(why)
    };
    let hello = timeout(HEAD_TIMEOUT, hello::read(&mut stream)).await?.map_err(|error| {
        refuse(format!("a connection to {origin} does not begin with TLS: {error}"))
    })?;
    if !fits(origin, &hello) {
        let named = hello.server_name.as_deref().unwrap_or("none");
        return Err(refuse(format!(
            "a connection to {origin} has another server name: {}",
            cofferdam_text::shorten(named, 80)
        )));
    }
    match shared.rules.tunnel(origin).map_err(|why| refuse(why.to_string()))? {
        Tunnel::Ended => end(shared, origin, hello, stream).await,
        // Values that must not be sent could not be found.
        Tunnel::Passed(..) if !shared.guard.is_empty() => end(shared, origin, hello, stream).await,
        Tunnel::Passed(..) if hello.may_hide => Err(refuse(format!(
            "a connection to {origin} has an encrypted server name, which can't be compared"
        ))),
        Tunnel::Passed(rule, settings) => {
            let used = shared.account.of(rule).filter(|used| used.add_request());
            let used =
                used.ok_or_else(|| refuse(format!("the limits for {origin} are used up")))?;
            shared.usage.add_origin(origin);
            pass(shared, settings, &used, hello, stream).await
        }
    }
}

/// Whether the server name is the host of the origin. An address is no server name.
fn fits(origin: &Origin, hello: &Hello) -> bool {
    match (origin.host(), &hello.server_name) {
        (OriginHost::Name(host), Some(name)) => host == name,
        (OriginHost::Address(_), None) => true,
        _ => false,
    }
}

/// Passes bytes in both directions, within the limits.
async fn pass<S>(
    shared: &Shared,
    settings: &OriginSettings,
    used: &Used,
    hello: Hello,
    stream: S,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let connecting = shared.connector.connect_plain(settings, Reach::Named);
    let connected = timeout(CONNECT_TIMEOUT, connecting).await?;
    let mut origin = connected.map_err(|error| {
        shared.refuse(Some(&settings.origin), error.to_string());
        io::Error::other(error)
    })?;
    count(used, hello.bytes.len())?;
    origin.write_all(&hello.bytes).await?;
    let (mut from_program, mut to_program) = split(stream);
    let (mut from_origin, mut to_origin) = origin.split();
    let sent = copy(&mut from_program, &mut to_origin, used);
    let received = copy(&mut from_origin, &mut to_program, used);
    tokio::try_join!(sent, received).map(drop)
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    used: &Used,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        count(used, length)?;
        to.write_all(&buffer[..length]).await?;
        to.flush().await?;
    }
}

fn count(used: &Used, bytes: usize) -> io::Result<()> {
    match used.add_bytes(bytes) {
        true => Ok(()),
        false => Err(io::Error::other("the bytes of the grant are used up")),
    }
}

/// Ends TLS with a certificate of the run's authority, and forwards each request.
async fn end<S>(shared: &Arc<Shared>, origin: &Origin, hello: Hello, stream: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let configuration = shared.authority.configuration(origin).map_err(io::Error::other)?;
    let (reader, writer) = split(stream);
    // The handshake begins with what was read already.
    let stream = join(Cursor::new(hello.bytes).chain(reader), writer);
    let accepting = TlsAcceptor::from(configuration).accept(stream);
    let stream = timeout(HANDSHAKE_TIMEOUT, accepting).await??;
    let route = Arc::new(Route::new(Arc::clone(shared), origin.clone()));
    let service = service_fn(|request| {
        let route = Arc::clone(&route);
        async move { Ok::<_, Infallible>(route.forward(request).await) }
    });
    protocol().serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}
