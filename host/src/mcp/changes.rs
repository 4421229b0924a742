//! Telling clients that a list has changed: in the sessions of older revisions all of them, since
//! 2026-07-28 those that listen (`subscriptions/listen`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::RoleServer;
use rmcp::service::{Peer, SubscriptionContext};

use super::Server;
use super::offer::Offer;

/// How long a client may take to hear of a change.
const PATIENCE: Duration = Duration::from_secs(5);

/// Which lists of a role are others than they were.
struct Changes {
    tools: bool,
    prompts: bool,
}

impl Changes {
    fn between(old: &Offer, new: &Offer, role: Option<&str>) -> Self {
        // A role that is gone has no tools.
        let tools = |offer: &Offer| offer.tools(role).ok();
        Self { tools: tools(old) != tools(new), prompts: old.prompts != new.prompts }
    }
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

    /// Tells each session what has changed for its role.
    pub(super) async fn tell(&self, old: &Offer, new: &Offer) {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = sessions.iter().map(|(peer, role)| async move {
            let changes = Changes::between(old, new, role.as_deref());
            let tell = async {
                if changes.tools {
                    peer.notify_tool_list_changed().await?;
                }
                if changes.prompts {
                    peer.notify_prompt_list_changed().await?;
                }
                Ok::<_, rmcp::ServiceError>(())
            };
            if !matches!(tokio::time::timeout(PATIENCE, tell).await, Ok(Ok(()))) {
                tracing::debug!("a client does not hear that its lists have changed");
            }
        });
        join_all(told).await;
    }
}

/// Tells a client of each change that it listens for, until it stops or the server does.
pub(super) async fn listen(server: &Server, context: &SubscriptionContext) {
    let mut offers = server.shared.offer.subscribe();
    let mut known = Arc::clone(&offers.borrow_and_update());
    let (sink, accepted) = (context.sink(), context.accepted());
    loop {
        tokio::select! {
            () = context.cancelled() => return,
            () = server.shared.stopping.cancelled() => return,
            changed = offers.changed() => if changed.is_err() { return },
        }
        let new = Arc::clone(&offers.borrow_and_update());
        let changes = Changes::between(&known, &new, server.role.as_deref());
        known = new;
        let tell = async {
            if changes.tools && accepted.tools_list_changed == Some(true) {
                sink.notify_tool_list_changed().await?;
            }
            if changes.prompts && accepted.prompts_list_changed == Some(true) {
                sink.notify_prompt_list_changed().await?;
            }
            Ok::<_, rmcp::service::SubscriptionSendError>(())
        };
        if tell.await.is_err() {
            return;
        }
    }
}
