//! Notifies clients of lists that have changed: all clients in sessions of older revisions; since
//! 2026-07-28 those that listen (`subscriptions/listen`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::model::{PromptListChangedNotification, ServerNotification, ToolListChangedNotification};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSendError};
use rmcp::{ErrorData, RoleServer, ServiceError};

use super::Server;
use super::connection::Connection;
use super::offer::Offer;
use super::work::busy;

/// How long to wait for a client to take a notification.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the notifications for the lists of a role that have changed.
fn notices(old: &Offer, new: &Offer, role: Option<&str>) -> Vec<ServerNotification> {
    // A role that does not exist any more has no tools.
    let tools = |offer: &Offer| offer.tools(role).ok();
    let lists = [
        (tools(old) != tools(new), ToolListChangedNotification::default().into()),
        (!old.prompts(role).eq(new.prompts(role)), PromptListChangedNotification::default().into()),
    ];
    lists.into_iter().filter_map(|(has_changed, notice)| has_changed.then_some(notice)).collect()
}

/// The clients that began with `initialize`, each with its role.
#[derive(Default)]
pub(super) struct Sessions(Mutex<Vec<(Peer<RoleServer>, Option<String>)>>);

impl Sessions {
    pub(super) fn add(&self, peer: Peer<RoleServer>, role: Option<String>) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|(peer, _)| !peer.is_transport_closed());
        sessions.push((peer, role));
    }

    /// Notifies each session of what has changed for its role.
    pub(super) async fn tell(&self, old: &Offer, new: &Offer) {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = sessions.iter().map(|(peer, role)| async move {
            let tell = async {
                for notice in notices(old, new, role.as_deref()) {
                    peer.send_notification(notice).await?;
                }
                Ok::<_, ServiceError>(())
            };
            if !matches!(tokio::time::timeout(NOTIFY_TIMEOUT, tell).await, Ok(Ok(()))) {
                tracing::debug!("a client does not hear that its lists have changed");
            }
        });
        join_all(told).await;
    }
}

/// Notifies a client of each change that it listens for, until it or the server stops.
///
/// # Errors
/// `Busy` if the client has too many requests that listen.
pub(super) async fn listen(
    server: &Server,
    context: &SubscriptionContext,
) -> Result<(), ErrorData> {
    let mut offers = server.shared.offer.subscribe();
    let mut known = Arc::clone(&offers.borrow_and_update());
    let connection = Connection::of(&context.request_context().extensions);
    let _listening = connection.listen().ok_or_else(busy)?;
    loop {
        tokio::select! {
            () = context.cancelled() => return Ok(()),
            () = connection.silent.cancelled() => return Ok(()),
            () = server.shared.stopping.cancelled() => return Ok(()),
            changed = offers.changed() => if changed.is_err() { return Ok(()) },
        }
        let new = Arc::clone(&offers.borrow_and_update());
        for notice in notices(&known, &new, server.role.as_deref()) {
            match context.sink().send(notice).await {
                Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_)) => {}
                Err(_) => return Ok(()),
            }
        }
        known = new;
    }
}
