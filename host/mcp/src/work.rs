//! What is answered with work besides calls of tools: lists of resources, and what is in them. It
//! takes the place of a call, is done for few clients at a time, and ends when it is cancelled.

use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::Server;
use super::call::BUSY;
use super::connection::{self, Connection, Request};
use cofferdam_workspace::fair_queue::Client;

/// How much may wait to be read by a client before more is made for it, in bytes.
const UNREAD: usize = 8 << 20;

impl Server {
    /// Has something done for a client, which it knows by its name.
    ///
    /// # Errors
    /// Those of the work; a server that has too much to do; a client that is gone.
    pub(super) async fn at_work<T>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl AsyncFnOnce(Client) -> Result<T, ErrorData>,
    ) -> Result<T, ErrorData> {
        let (connection, asked) =
            (Connection::of(&context.extensions), Request::of(&context.extensions));
        let client = connection::client(&context.extensions);
        let slot = self.shared.slots.take(client).ok_or_else(busy)?;
        let work = async {
            let _turn = match self.shared.works.acquire(client) {
                Ok(turn) => turn,
                Err(waits) => waits.await.map_err(|_| busy())?,
            };
            slot.runs();
            if let Some(mut unread) = connection.unread.clone() {
                // Where it is closed, the client does not read.
                let _ = unread.wait_for(|unread| *unread < UNREAD).await;
            }
            work(client).await
        };
        tokio::select! {
            done = work => done,
            () = context.ct.cancelled() => Err(gone()),
            () = asked.cancelled.cancelled() => Err(gone()),
            () = connection.gone.cancelled() => Err(gone()),
            () = slot.revoked() => Err(busy()),
            () = self.shared.stopping.cancelled() => Err(gone()),
        }
    }
}

/// What a client hears that asks for too much.
pub(super) fn busy() -> ErrorData {
    ErrorData::internal_error(format!("Busy: {BUSY}"), None)
}

fn gone() -> ErrorData {
    ErrorData::internal_error("Cancelled: the request was cancelled, or the server stops", None)
}
