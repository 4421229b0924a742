//! Work besides calls of tools: listing and reading resources. It takes the permit of a call, runs for few
//! clients at a time, and ends when it is cancelled.

use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::Server;
use super::call::BUSY;
use super::connection::{self, Connection, Request};
use cofferdam_workspace::fair_queue::Client;

/// The number of bytes waiting to be read by a client from which on nothing more is done for it.
const MAX_UNREAD_BYTES: usize = 8 << 20;

impl Server {
    /// Runs `work` for the client of a request.
    ///
    /// # Errors
    /// Those of the work; `Busy` if the server has too many calls; `Cancelled`.
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
                // If the channel is closed, the client does not read.
                let _ = unread.wait_for(|unread| *unread < MAX_UNREAD_BYTES).await;
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

/// The error if no further request is admitted.
pub(super) fn busy() -> ErrorData {
    ErrorData::internal_error(format!("Busy: {BUSY}"), None)
}

fn gone() -> ErrorData {
    ErrorData::internal_error("Cancelled: the request was cancelled, or the server stops", None)
}
