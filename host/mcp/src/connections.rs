//! The connections of clients over HTTP/1.1, each of which gets as long as it needs, and no longer.
//!
//! There are fewer than the process may have descriptors, so that calls have some. Where there are as
//! many as there may be, one that does nothing makes room for a new one. A client has to read its
//! answers: what waits to be read is bounded, for each address and for all.

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

/// How long the head of a request may take, and how long a connection may be kept without one.
const HEAD: Duration = Duration::from_secs(30);

/// How long a connection may be open before a request has come that is let in.
const STRANGER: Duration = Duration::from_secs(5);

/// How long a new connection waits for what others that are new have to say.
const MOMENT: Duration = Duration::from_millis(20);

/// How many such moments it waits at most.
const MOMENTS: u32 = 50;

/// How many connections there may be.
const CONNECTIONS: usize = 1024;

/// How many files this process may have open, where the system lets it choose.
const FILES: u64 = 65_536;

/// How fast a client has to read its answers.
const READ_RATE: MinRate = MinRate { bytes_per_second: 16 << 10, grace: Duration::from_secs(30) };

/// How much the server buffers of what a connection sends, and of what is sent to it besides the last
/// part of an answer, in bytes.
const BUFFER: usize = 64 << 10;

/// How much of their answers clients of one address may leave unread, in bytes; all: twice as much.
const UNREAD: usize = 32 << 20;

/// What of a connection is too little to be looked at, in bytes.
const LITTLE: usize = 16 << 10;

/// How far a connection is; those of lower stages make room first, and the last two never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// What has come of it is no request that was let in.
    Strange,
    /// Its requests are answered.
    Idle,
    /// A request is coming.
    Receiving,
    /// It has an open stream of notifications.
    Listening,
    /// A request is being answered.
    Working,
    /// Its first bytes have not been looked for yet.
    New,
}

/// A connection, as its requests know it.
pub(super) struct Peer {
    client: Client,
    /// Since when it has been how far.
    stage: Mutex<(Stage, Instant)>,
    /// Cancelled when it has to close.
    closing: CancellationToken,
    /// What of its answers has not been given to the system, in bytes.
    unread: AtomicUsize,
    /// When the client last read some of it.
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

    /// A part of an answer is about to be written.
    fn sends(&self, bytes: usize) {
        let before = self.unread.fetch_add(bytes, Ordering::Relaxed);
        if before == 0 {
            self.has_read();
        }
        if before + bytes > LITTLE
            && let Some(open) = self.open.upgrade()
        {
            open.bound_unread(self.client);
        }
    }

    /// The client has read something.
    fn has_read(&self) {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last_read(&self) -> Instant {
        *self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// A request has come that is let in.
    pub fn let_in(&self) {
        self.set(Stage::Receiving);
    }

    /// Nothing has come yet that is let in.
    fn looked_at(&self) {
        let mut stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if stage.0 == Stage::New {
            *stage = (Stage::Strange, Instant::now());
        }
    }

    fn set(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = (stage, Instant::now());
    }

    fn stage(&self) -> (Stage, Instant) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes how far a connection is while a request that has come as a whole is answered.
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

/// What a response holds until it is written or dropped.
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
    /// By number, so the oldest first.
    all: BTreeMap<u64, Arc<Peer>>,
    /// How many each address has.
    of: HashMap<IpAddr, usize>,
}

impl Open {
    fn new(most: usize) -> Self {
        Self { peers: Mutex::default(), most, read_rate: READ_RATE }
    }

    /// Closes connections whose clients have not read their answers for the longest time, but not this
    /// client's, while too much is unread of its address, or of all.
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
            if own <= UNREAD && all <= 2 * UNREAD {
                return;
            }
            let others = peers.all.values().filter(|peer| {
                peer.client != client
                    && peer.unread() > LITTLE
                    && (own <= UNREAD || peer.client.address == client.address)
            });
            let slowest = others.min_by_key(|peer| peer.last_read()).map(|peer| peer.client.id);
            let Some(peer) = slowest.and_then(|id| peers.remove(id)) else { return };
            peer.closing.cancel();
        }
    }

    /// A place for one more connection; none, where all others are at work.
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

    /// How many connections clients of one address may have: others come in at once.
    fn share(&self) -> usize {
        (self.most - self.most / 4).max(1)
    }

    /// Whether there is a connection whose first bytes have not been looked for yet.
    fn has_new(&self) -> bool {
        self.peers().all.values().any(|peer| peer.stage().0 == Stage::New)
    }

    fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Peers {
    /// Closes one of these connections: the one that is least far, for the longest time.
    fn free(&mut self, of: impl Fn(&Peer) -> bool) -> Option<()> {
        let mut least: Option<((Stage, Instant), u64)> = None;
        for (id, peer) in self.all.iter().filter(|(_, peer)| of(peer)) {
            let stage = peer.stage();
            if least.is_none_or(|(known, _)| stage < known) {
                least = Some((stage, *id));
            }
            // Strangers stay as they are: those that come later are later.
            if stage.0 == Stage::Strange {
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

/// The place of a connection, until it is dropped.
struct Place {
    open: Arc<Open>,
    peer: Arc<Peer>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.peers().remove(self.peer.client.id);
    }
}

/// All connections that there are.
pub(super) struct Connections(JoinSet<()>);

impl Connections {
    /// Takes connections until the server is stopped.
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
                // It waits where the system has no more of them.
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

    /// Waits until the requests that have come are answered, for this long at most.
    pub async fn ended(&mut self, patience: Duration) {
        let all = async { while self.0.join_next().await.is_some() {} };
        if tokio::time::timeout(patience, all).await.is_err() {
            tracing::debug!("{} connections are still open", self.0.len());
        }
    }
}

/// A place for a connection, which may take a moment to become free: on a busy machine, several
/// until the bytes of those that are new have been looked for.
async fn place(open: &Arc<Open>, from: SocketAddr) -> Option<Place> {
    let mut moments = 0;
    loop {
        let place = open.take(from.ip());
        let may_wait = moments == 0 || moments < MOMENTS && open.has_new();
        if place.is_some() || !may_wait {
            return place;
        }
        moments += 1;
        tokio::time::sleep(MOMENT).await;
    }
}

/// How many connections there may be where this many files may be open: calls have the other half.
fn most(files: Option<u64>) -> usize {
    let half = files.and_then(|files| usize::try_from(files / 2).ok());
    half.map_or(CONNECTIONS, |half| half.clamp(1, CONNECTIONS))
}

/// Lets this process have as many files open as it may, and says how many. None: any number.
fn raise_files() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let known = getrlimit(Resource::Nofile);
    let soft = known.current?;
    let wanted = known.maximum.map_or(FILES, |hard| hard.min(FILES)).max(soft);
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
    // An answer is written in pieces, and the later ones would wait for the client to acknowledge
    // the first. A socket that can't be told so only takes longer.
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
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // What has come by now is looked at before the connection makes room for another one.
    let looked = poll_fn(|context| Poll::Ready(connection.as_mut().poll(context))).await;
    if looked.is_ready() {
        return;
    }
    peer.looked_at();
    let stranger = async {
        tokio::time::sleep(STRANGER).await;
        if peer.stage().0 != Stage::Strange {
            std::future::pending::<()>().await;
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stranger => return tracing::debug!("{from} has not said who it is"),
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

/// The socket of a connection. Writing fails if the client reads too slowly.
struct Paced {
    stream: TcpStream,
    peer: Arc<Peer>,
    rate: MinRate,
    /// That of the client while something is to be written.
    pace: Option<Pace>,
    /// Wakes the task when the client was too slow.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    fn new(stream: TcpStream, peer: Arc<Peer>, rate: MinRate) -> Self {
        Self { stream, peer, rate, pace: None, timer: None }
    }

    /// Looks at the result of a write.
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

    /// Called once all of an answer has been written, as far as it has come.
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
        let stages =
            [Stage::Working, Stage::Listening, Stage::Receiving, Stage::Idle, Stage::Strange];
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
        assert!(waits > LARGE && waits <= UNREAD + LARGE, "{waits}");
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
