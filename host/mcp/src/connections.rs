//! The connections of clients over HTTP/1.1, each of which gets as long as it needs, and no longer.
//!
//! There are fewer than the process may have descriptors, so that calls have some. Where there are as
//! many as there may be, one that does nothing makes room for a new one.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use axum::serve::Listener;
use axum::{Extension, Router};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::next_id;
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
}

impl Peer {
    fn new(address: IpAddr) -> Self {
        let client = Client { address: Some(address), id: next_id() };
        let stage = Mutex::new((Stage::New, Instant::now()));
        Self { client, stage, closing: CancellationToken::new() }
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
            let _ = &answered;
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
}

#[derive(Default)]
struct Peers {
    /// By number, so the oldest first.
    all: BTreeMap<u64, Arc<Peer>>,
    /// How many each address has.
    of: HashMap<IpAddr, usize>,
}

impl Open {
    /// A place for one more connection; none, where all others are at work.
    fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut peers = self.peers();
        if peers.all.len() >= self.most {
            peers.free(|_| true)?;
        } else if peers.of.get(&address).is_some_and(|own| *own >= self.share()) {
            peers.free(|peer| peer.client.address == Some(address))?;
        }
        let peer = Arc::new(Peer::new(address));
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
        let open = Arc::new(Open { peers: Mutex::default(), most });
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn open(most: usize) -> Arc<Open> {
        Arc::new(Open { peers: Mutex::default(), most })
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
}
