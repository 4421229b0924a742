//! The connections of clients over HTTP/1.1, with their timeouts.
//!
//! Their number is below that of the file descriptors of the process, so that calls have some. When the
//! maximum is reached, an idle connection is closed for a new one. Clients have to read their answers:
//! what waits to be read is bounded, for each address and for all.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::Listener;
use axum::{Extension, Router};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::connection::next_id;
use super::pace::{MinRate, Pace};
use cofferdam_workspace::fair_queue::Client;

/// How long the head of a request may take, and how long a connection may have no request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection may be open without an authenticated request.
const AUTHENTICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a new connection waits at a time for the requests of other new ones.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// How often it waits at most.
const MAX_RETRIES: u32 = 50;

/// The maximum number of connections.
const MAX_CONNECTIONS: usize = 1024;

/// The number of files that this process may have open, if the system allows that many.
const MAX_FILES: u64 = 65_536;

/// How fast a client has to read its answers.
const READ_RATE: MinRate = MinRate { bytes_per_second: 16 << 10, grace: Duration::from_secs(30) };

/// The maximum size of the buffers of a connection, in bytes, and so of the head of a request. The last
/// part of an answer may exceed it.
const BUFFER_BYTES: usize = 64 << 10;

/// The maximum number of bytes that wait to be read by the clients of one address; by all clients, it
/// is twice as many.
const MAX_UNREAD_BYTES: usize = 32 << 20;

/// The number of bytes that may wait for a connection without it being closed.
const UNCOUNTED_BYTES: usize = 16 << 10;

/// The stage of a connection. Those of lower stages are closed first, and the last two never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It has had no authenticated request.
    Unauthenticated,
    /// It has no open request.
    Idle,
    /// A request is being received.
    Receiving,
    /// It has an open stream of notifications.
    Listening,
    /// A request is being answered.
    Working,
    /// Nothing has been read from it yet.
    New,
}

/// An open connection. Its requests have it as an extension.
pub(super) struct Peer {
    client: Client,
    /// Its stage, and since when.
    stage: Mutex<(Stage, Instant)>,
    /// Cancelled to close it.
    closing: CancellationToken,
    /// The number of bytes of answers that have not been written to the socket.
    unread: AtomicUsize,
    /// When the socket last took some of them.
    read: Mutex<Instant>,
    open: Weak<Open>,
}

impl Peer {
    fn new(address: IpAddr, open: Weak<Open>) -> Self {
        let client = Client { address: Some(address), id: next_id() };
        let now = Instant::now();
        let (stage, read) = (Mutex::new((Stage::New, now)), Mutex::new(now));
        let (closing, unread) = (CancellationToken::new(), AtomicUsize::new(0));
        Self { client, stage, closing, unread, read, open }
    }

    /// Counts a part of an answer that is about to be written.
    fn sends(&self, bytes: usize) {
        let before = self.unread.fetch_add(bytes, Ordering::Relaxed);
        if before == 0 {
            self.has_read();
        }
        if before + bytes > UNCOUNTED_BYTES
            && let Some(open) = self.open.upgrade()
        {
            open.bound_unread(self.client);
        }
    }

    /// Notes that the client has read something.
    fn has_read(&self) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last_read(&self) -> Instant {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// Notes an authenticated request.
    pub fn let_in(&self) {
        self.set(Stage::Receiving);
    }

    /// Notes that the first read has been tried.
    fn looked_at(&self) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if stage.0 == Stage::New {
            *stage = (Stage::Unauthenticated, Instant::now());
        }
    }

    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = (stage, Instant::now());
    }

    fn stage(&self) -> (Stage, Instant) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the stage of a connection while a complete request is answered.
pub(super) async fn answer(
    Extension(peer): Extension<Arc<Peer>>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.headers().get("mcp-method");
    let listens = request.method() == Method::GET
        || method.is_some_and(|method| method.as_bytes() == b"subscriptions/listen");
    peer.set(if listens { Stage::Listening } else { Stage::Working });
    let answered = Answered(peer);
    next.run(request).await.map(|body| {
        Body::new(body.map_frame(move |frame| {
            answered.0.sends(frame.data_ref().map_or(0, Bytes::len));
            frame
        }))
    })
}

/// Sets the stage back when the response is written or dropped.
struct Answered(Arc<Peer>);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.set(Stage::Idle);
    }
}

/// The connections that are open.
struct Open {
    peers: Mutex<Peers>,
    most: usize,
    read_rate: MinRate,
}

#[derive(Default)]
struct Peers {
    /// By number; the first one is the oldest.
    all: BTreeMap<u64, Arc<Peer>>,
    /// The number of each address.
    of: HashMap<IpAddr, usize>,
}

impl Open {
    fn new(most: usize) -> Self {
        Self { peers: Mutex::default(), most, read_rate: READ_RATE }
    }

    /// While too many bytes wait for clients of this client's address, or of all, closes the connection
    /// whose client has read nothing for the longest time, but not this client's.
    fn bound_unread(&self, client: Client) {
        let mut peers = self.peers();
        loop {
            let (mut own, mut all) = (0, 0);
            for peer in peers.all.values() {
                all += peer.unread();
                if peer.client.address == client.address {
                    own += peer.unread();
                }
            }
            if own <= MAX_UNREAD_BYTES && all <= 2 * MAX_UNREAD_BYTES {
                return;
            }
            let others = peers.all.values().filter(|peer| {
                peer.client != client
                    && peer.unread() > UNCOUNTED_BYTES
                    && (own <= MAX_UNREAD_BYTES || peer.client.address == client.address)
            });
            let slowest = others.min_by_key(|peer| peer.last_read()).map(|peer| peer.client.id);
            let Some(peer) = slowest.and_then(|id| peers.remove(id)) else { return };
            peer.closing.cancel();
        }
    }

    /// Adds a connection. Returns `None` if there are too many and all others are in use.
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut peers = self.peers();
        if peers.all.len() >= self.most {
            peers.free(|_| true)?;
        } else if peers.of.get(&address).is_some_and(|own| *own >= self.share()) {
            peers.free(|peer| peer.client.address == Some(address))?;
        }
        let peer = Arc::new(Peer::new(address, Arc::downgrade(self)));
        peers.all.insert(peer.client.id, Arc::clone(&peer));
        *peers.of.entry(address).or_default() += 1;
        drop(peers);
        Some(Place { open: Arc::clone(self), peer })
    }

    /// The maximum number of connections of one address: others are left to other addresses.
    fn share(&self) -> usize {
        (self.most - self.most / 4).max(1)
    }

    /// Whether there is a connection from which nothing has been read yet.
    fn has_new(&self) -> bool {
        self.peers().all.values().any(|peer| peer.stage().0 == Stage::New)
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peers {
    /// Closes one of these connections: of the lowest stage, the one that has been in it for longest.
    fn free(&mut self, of: impl Fn(&Peer) -> bool) -> Option<()> {
        let mut least: Option<((Stage, Instant), u64)> = None;
        for (id, peer) in self.all.iter().filter(|(_, peer)| of(peer)) {
            let stage = peer.stage();
            if least.is_none_or(|(known, _)| stage < known) {
                least = Some((stage, *id));
            }
            // The first of these is the oldest: no later one is before it.
            if stage.0 == Stage::Unauthenticated {
                break;
            }
        }
        let ((stage, _), id) = least?;
        if stage >= Stage::Working {
            return None;
        }
        self.remove(id)?.closing.cancel();
        Some(())
    }

    fn remove(&mut self, id: u64) -> Option<Arc<Peer>> {
        let peer = self.all.remove(&id)?;
        let address = peer.client.address?;
        if let Some(own) = self.of.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                self.of.remove(&address);
            }
        }
        Some(peer)
    }
}

/// An entry of [`Open`], which is removed when this is dropped.
struct Place {
    open: Arc<Open>,
    peer: Arc<Peer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.peers().remove(self.peer.client.id);
    }
}

/// The tasks of all connections.
pub(super) struct Connections(JoinSet<()>);

impl Connections {
    /// Accepts connections until the server is stopped.
    pub async fn accept(
        mut listener: TcpListener,
        router: Router,
        stopping: &CancellationToken,
    ) -> Self {
        let mut connections = JoinSet::new();
        let most = most(raise_files());
        let open = Arc::new(Open::new(most));
        loop {
            tokio::select! {
                () = stopping.cancelled() => return Self(connections),
                Some(_) = connections.join_next() => {}
                // It waits if the system has no file descriptor.
                (stream, from) = Listener::accept(&mut listener) => match place(&open, from).await {
                    Some(place) => {
                        let router = router.clone();
                        connections.spawn(serve(stream, from, router, place, stopping.clone()));
                    }
                    None => tracing::debug!("no connection is left for {from}"),
                }
            }
        }
    }

    /// Waits until the open requests are answered, at most this long.
    pub async fn ended(&mut self, patience: Duration) {
        let all = async { while self.0.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::debug!("{} connections are still open", self.0.len());
        }
    }
}

/// Adds a connection. Waits for a moment if there are too many; on a busy machine, until the other new
/// connections have been read from.
async fn place(open: &Arc<Open>, from: SocketAddr) -> Option<Place> {
    let mut retries = 0;
    loop {
        let place = open.take(from.ip());
        let may_wait = retries == 0 || retries < MAX_RETRIES && open.has_new();
        if place.is_some() || !may_wait {
            return place;
        }
        retries += 1;
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// The maximum number of connections, given that of open files: calls use the other half.
fn most(files: Option<u64>) -> usize {
    let half = files.and_then(|files| usize::try_from(files / 2).ok());
    half.map_or(MAX_CONNECTIONS, |half| half.clamp(1, MAX_CONNECTIONS))
}

/// Raises the limit of open files as far as possible, and returns it. `None`: no limit.
fn raise_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let known = getrlimit(Resource::Nofile);
    let soft = known.current?;
    let wanted = known.maximum.map_or(MAX_FILES, |hard| hard.min(MAX_FILES)).max(soft);
    let limit = Rlimit { current: Some(wanted), ..known };
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => Some(wanted),
        Err(error) => {
            tracing::debug!("the limit of open files stays {soft}: {error}");
            Some(soft)
        }
    }
}

/// Serves a connection until the client closes it, or, once the server is stopped, until the
/// request that has come is answered.
async fn serve(
    stream: TcpStream,
    from: SocketAddr,
    router: Router,
    place: Place,
    stopping: CancellationToken,
) {
    // Otherwise the later parts of an answer wait for the client to acknowledge the first. If that
    // fails, it only takes longer.
    let _ = stream.set_nodelay(true);
    let peer = Arc::clone(&place.peer);
    let stream = Paced::new(stream, Arc::clone(&peer), place.open.read_rate);
    let service = TowerToHyperService::new(router);
    let service = service_fn(|mut request: hyper::Request<Incoming>| {
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(from));
        extensions.insert(peer.client);
        extensions.insert(Arc::clone(&peer));
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // What has come by now is read before the connection may be closed for another one.
    let looked = poll_fn(|context| Poll::Ready(connection.as_mut().poll(context))).await;
    if looked.is_ready() {
        return;
    }
    peer.looked_at();
    let unauthenticated = async {
        tokio::time::sleep(AUTHENTICATION_TIMEOUT).await;
        if peer.stage().0 != Stage::Unauthenticated {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = unauthenticated => return tracing::debug!("{from} has not said who it is"),
        () = peer.closing.cancelled() => {
            return tracing::debug!("the connection of {from} makes room for another one");
        }
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("the connection of {from} is lost: {error}");
    }
}

/// The socket of a connection. Writing fails with `TimedOut` if the client reads too slowly.
struct Paced {
    stream: TcpStream,
    peer: Arc<Peer>,
    rate: MinRate,
    /// The client's progress while something waits to be written.
    pace: Option<Pace>,
    /// Wakes the task when the client is too slow.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn new(stream: TcpStream, peer: Arc<Peer>, rate: MinRate) -> Self {
        Self { stream, peer, rate, pace: None, timer: None }
    }

    /// Notes the progress of a write, or returns an error if the client is too slow.
    fn note(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let pace = self.pace.get_or_insert_with(|| Pace::new(self.rate));
        match &written {
            Poll::Ready(Ok(bytes)) => {
                pace.progress(*bytes);
                self.peer.has_read();
                self.timer = None;
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                let timer = || Box::pin(tokio::time::sleep_until(pace.deadline()));
                let timer = self.timer.get_or_insert_with(timer);
                if timer.as_mut().poll(context).is_ready() {
                    let error = "the client does not read its answer";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, error)));
                }
            }
        }
        written
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Paced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.note(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this when everything has been written that it has.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        (self.pace, self.timer) = (None, None);
        self.peer.unread.store(0, Ordering::Relaxed);
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn open(most: usize) -> Arc<Open> {
        Arc::new(Open::new(most))
    }

    #[test]
    fn connections_leave_descriptors_to_calls() {
        for (files, connections) in
            [(Some(256), 128), (Some(1024), 512), (Some(1 << 20), 1024), (None, 1024), (Some(0), 1)]
        {
            assert_eq!(most(files), connections, "{files:?}");
        }
    }

    #[test]
    fn what_is_least_far_for_longest_makes_room() {
        let open = open(5);
        let stages = [
            Stage::Working,
            Stage::Listening,
            Stage::Receiving,
            Stage::Idle,
            Stage::Unauthenticated,
        ];
        let places: Vec<Place> = stages
            .iter()
            .zip([HERE, HERE, HERE, THERE, THERE])
            .map(|(stage, address)| {
                let place = open.take(address).unwrap();
                place.peer.set(*stage);
                place
            })
            .collect();
        for place in places[1..].iter().rev() {
            assert!(!place.peer.closing.is_cancelled());
            let new = open.take(THERE).unwrap();
            assert!(place.peer.closing.is_cancelled());
            new.peer.set(Stage::Working);
            // It stays.
            std::mem::forget(new);
        }
        assert!(open.take(THERE).is_none());
        // Nor does a new one.
        places[0].peer.set(Stage::New);
        assert!(open.take(THERE).is_none());
        assert!(!places[0].peer.closing.is_cancelled());
    }

    #[test]
    fn an_address_leaves_connections_to_others() {
        let open = open(8);
        let take = |address| {
            let place = open.take(address).unwrap();
            place.peer.looked_at();
            place
        };
        let here: Vec<Place> = (0..8).map(|_| take(HERE)).collect();
        assert_eq!(open.peers().all.len(), 6);
        let there: Vec<Place> = (0..2).map(|_| take(THERE)).collect();
        assert!(here[2..].iter().all(|place| !place.peer.closing.is_cancelled()));
        assert_eq!(open.peers().all.len(), 8);
        drop((here, there));
        assert!(open.peers().all.is_empty() && open.peers().of.is_empty());
    }

    /// A server whose answer has 8 MiB, and the address at which it takes connections.
    #[expect(clippy::disallowed_methods, reason = "tests")]
    async fn large_answers(read_rate: MinRate) -> (Arc<Open>, SocketAddr, JoinSet<()>) {
        let answer = || async { Bytes::from(vec![b'x'; LARGE]) };
        let router = Router::new().route("/", axum::routing::get(answer));
        let router = router.layer(axum::middleware::from_fn(super::answer));
        let open = Arc::new(Open { read_rate, ..Open::new(1000) });
        let listener = TcpListener::bind((HERE, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mut tasks, taking) = (JoinSet::new(), Arc::clone(&open));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, from)) = listener.accept().await {
                let place = taking.take(from.ip()).unwrap();
                let stopping = CancellationToken::new();
                connections.spawn(serve(stream, from, router.clone(), place, stopping));
            }
        });
        (open, address, tasks)
    }

    const LARGE: usize = 8 << 20;

    #[expect(clippy::disallowed_methods, reason = "tests")]
    async fn ask(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        stream
    }

    async fn read(mut stream: TcpStream) -> usize {
        let mut answer = Vec::new();
        // One that is closed early has an error or an end.
        let _ = stream.read_to_end(&mut answer).await;
        answer.len()
    }

    #[tokio::test]
    async fn unread_answers_are_bounded_and_clients_that_read_get_theirs() {
        let (open, address, _tasks) = large_answers(READ_RATE).await;
        let mut unread = Vec::new();
        for _ in 0..20 {
            unread.push(ask(address).await);
            assert!(read(ask(address).await).await > LARGE);
        }
        let waits: usize = open.peers().all.values().map(|peer| peer.unread()).sum();
        assert!(waits > LARGE && waits <= MAX_UNREAD_BYTES + LARGE, "{waits}");
        let mut ended = 0;
        for stream in unread {
            ended += usize::from(read(stream).await < LARGE);
        }
        assert!((10..20).contains(&ended), "{ended}");
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_given_up() {
        let grace = Duration::from_millis(300);
        let rate = MinRate { bytes_per_second: 16 << 10, grace };
        let (open, address, _tasks) = large_answers(rate).await;
        let (silent, mut slow) = (ask(address).await, ask(address).await);
        let begun = Instant::now();
        while !open.peers().all.is_empty() {
            // Some bytes from time to time are not enough.
            let _ = slow.read(&mut [0; 10]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(begun.elapsed() < 20 * grace, "the connections stay open");
        }
        assert!(begun.elapsed() >= grace && read(silent).await < LARGE);
    }
}
