//! The connections of clients over HTTP/1.1, each of which gets as long as it needs, and no longer.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::serve::Listener;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long the head of a request may take, and how long a connection may be kept without one.
const HEAD: Duration = Duration::from_secs(30);

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
        loop {
            tokio::select! {
                () = stopping.cancelled() => return Self(connections),
                Some(_) = connections.join_next() => {}
                // It waits where the system has no more of them.
                (stream, from) = Listener::accept(&mut listener) => {
                    let router = router.clone();
                    connections.spawn(serve(stream, from, router, stopping.clone()));
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

/// Serves a connection until the client closes it, or, once the server is stopped, until the
/// request that has come is answered.
async fn serve(stream: TcpStream, from: SocketAddr, router: Router, stopping: CancellationToken) {
    // An answer is written in pieces, and the later ones would wait for the client to acknowledge
    // the first. A socket that can't be told so only takes longer.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.layer(Extension(ConnectInfo(from))));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("the connection of {from} is lost: {error}");
    }
}
