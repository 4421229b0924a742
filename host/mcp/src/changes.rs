//! Notifies clients of what has changed: of lists all clients in sessions of older revisions; since 2026-07-28
//! those that listen (`subscriptions/listen`), of lists and of tasks.
//!
//! The library handles such requests as well, but drops the ids of tasks (SEP-2663). So [`message::hide`]
//! keeps their parameters from it, and it hands them over as requests that it does not know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rmcp::model::{
    ConstString as _, CustomNotification, CustomRequest, CustomResult, DetailedTask,
    GetExtensions as _, NotificationMetaObject, PromptListChangedNotification, ProtocolVersion,
    ServerNotification, SubscriptionsAcknowledgedNotificationMethod,
    SubscriptionsListenRequestMethod, SubscriptionsListenResult, TaskStatus,
    TaskStatusNotificationMethod, ToolListChangedNotification,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer, ServiceError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Server;
use super::connection::Connection;
use super::message::{self, FILTER};
use super::offer::Offer;
use super::tasks;
use super::work::busy;

/// How long to wait for a client to take a notification.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of tasks that a request listens for. Further ones are not agreed to.
const MAX_TASKS_LISTENED: usize = 64;

/// The least time between two notifications of a task.
const REST: Duration = Duration::from_millis(200);

/// How many bytes may wait for a client on standard input, so that it is notified of tasks.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// What a client listens for, and what the server agrees to.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools_list_changed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts_list_changed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_ids: Option<Vec<String>>,
}

impl Filter {
    /// Reads the parameter of a request; `None` if it has none.
    fn of(request: &CustomRequest) -> Option<Result<Self, ErrorData>> {
        let filter = request.params.as_ref()?.get(message::HIDDEN)?;
        let invalid = |error| ErrorData::invalid_params(format!("/{FILTER}: {error}"), None);
        Some(Self::deserialize(filter).map_err(invalid))
    }

    fn wants(&self, notice: &ServerNotification) -> bool {
        let wanted = match notice {
            ServerNotification::ToolListChangedNotification(_) => self.tools_list_changed,
            ServerNotification::PromptListChangedNotification(_) => self.prompts_list_changed,
            _ => None,
        };
        wanted == Some(true)
    }
}

/// A task that a client listens for.
struct Followed {
    id: String,
    /// When it had changed when the client was notified last, and its status then.
    told: Option<(String, TaskStatus)>,
    /// Whether this server made its call then.
    was_here: bool,
}

impl Followed {
    fn new(id: String) -> Self {
        Self { id, told: None, was_here: false }
    }

    fn is_over(&self) -> bool {
        use TaskStatus::{Cancelled, Completed, Failed};
        matches!(self.told, Some((_, Completed | Failed | Cancelled)))
    }

    /// Returns the state of the task if the client was not notified of it yet.
    async fn news(&mut self, server: &Server) -> Option<DetailedTask> {
        let is_here = server.shared.tasks.is_here(&self.id);
        if self.is_over() || !(is_here || self.was_here || self.told.is_none()) {
            return None;
        }
        self.was_here = is_here;
        let state = server.task_state(&self.id).await.ok()?;
        let now = Some((state.task.last_updated_at.clone(), state.status()));
        (self.told != now).then(|| {
            self.told = now;
            state
        })
    }
}

/// Where the notifications of a request that listens are sent.
struct Subscriber<'a>(&'a RequestContext<RoleServer>);

impl Subscriber<'_> {
    async fn send(&self, mut notice: ServerNotification) -> Result<(), ServiceError> {
        let mut meta = NotificationMetaObject::new();
        meta.set_subscription_id(self.0.id.clone());
        notice.extensions_mut().insert(meta);
        self.0.peer.send_notification(notice).await
    }

    async fn send_custom(&self, method: &str, params: Value) -> Result<(), ServiceError> {
        self.send(CustomNotification::new(method, Some(params)).into()).await
    }
}

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

/// Answers a request that listens: notifies its client of each change, until it or the server stops. `None`
/// if it is another request, or does not say what it listens for.
///
/// # Errors
/// An older revision; parameters that do not fit; tasks, for a client that does not know them; `Busy` if the
/// client has too many requests that listen.
pub(super) async fn listen(
    server: &Server,
    request: &CustomRequest,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CustomResult, ErrorData>> {
    let filter = Filter::of(request)
        .filter(|_| request.method == SubscriptionsListenRequestMethod::VALUE)?;
    let since = ProtocolVersion::V_2026_07_28;
    if context.protocol_version().is_none_or(|version| version.as_str() < since.as_str()) {
        return Some(Err(ErrorData::method_not_found::<SubscriptionsListenRequestMethod>()));
    }
    let connection = Connection::of(&context.extensions);
    let begun = async {
        let (filter, followed) = agreed(server, filter?, context).await?;
        Ok((filter, followed, connection.listen().ok_or_else(busy)?))
    };
    let (filter, followed, _listening) = match begun.await {
        Ok(begun) => begun,
        Err(error) => return Some(Err(error)),
    };
    // It ends early if nothing can be sent any more.
    let _ = notify(server, &connection, (filter, followed), &Subscriber(context)).await;
    let mut ended = SubscriptionsListenResult::complete(context.id.clone());
    ended.meta.set_server_info(server.implementation());
    let ended = serde_json::to_value(ended).map(CustomResult::new);
    Some(ended.map_err(|error| ErrorData::internal_error(error.to_string(), None)))
}

/// Returns what the server agrees to, and the tasks: those that the client's role has.
async fn agreed(
    server: &Server,
    wanted: Filter,
    context: &RequestContext<RoleServer>,
) -> Result<(Filter, Vec<Followed>), ErrorData> {
    let only_true = |wanted: Option<bool>| wanted.filter(|wanted| *wanted);
    let mut filter = Filter {
        tools_list_changed: only_true(wanted.tools_list_changed),
        prompts_list_changed: only_true(wanted.prompts_list_changed),
        task_ids: None,
    };
    let Some(ids) = wanted.task_ids else { return Ok((filter, Vec::new())) };
    if !tasks::are_declared(context) {
        return Err(tasks::not_declared());
    }
    let mut known: Vec<String> = Vec::new();
    for id in ids.into_iter().take(MAX_TASKS_LISTENED) {
        if !known.contains(&id) && server.task(&id).await.is_ok() {
            known.push(id);
        }
    }
    filter.task_ids = Some(known.clone());
    Ok((filter, known.into_iter().map(Followed::new).collect()))
}

/// Confirms the subscription, and sends what changes.
async fn notify(
    server: &Server,
    connection: &Connection,
    (filter, mut followed): (Filter, Vec<Followed>),
    to: &Subscriber<'_>,
) -> Result<(), ServiceError> {
    let mut offers = server.shared.offer.subscribe();
    let mut changes = server.shared.tasks.changes();
    let mut known = Arc::clone(&offers.borrow_and_update());
    let acknowledged = SubscriptionsAcknowledgedNotificationMethod::VALUE;
    to.send_custom(acknowledged, json!({FILTER: filter})).await?;
    loop {
        changes.mark_unchanged();
        for task in &mut followed {
            if let Some(state) = task.news(server).await {
                let state = serde_json::to_value(state).unwrap_or_default();
                to.send_custom(TaskStatusNotificationMethod::VALUE, state).await?;
            }
        }
        followed.retain(|task| !task.is_over());
        tokio::select! {
            () = to.0.ct.cancelled() => return Ok(()),
            () = connection.silent.cancelled() => return Ok(()),
            () = server.shared.stopping.cancelled() => return Ok(()),
            changed = offers.changed() => if changed.is_err() { return Ok(()) },
            () = has_news(&mut changes, connection), if !followed.is_empty() => continue,
        }
        let new = Arc::clone(&offers.borrow_and_update());
        for notice in notices(&known, &new, server.role.as_deref()) {
            if filter.wants(&notice) {
                to.send(notice).await?;
            }
        }
        known = new;
    }
}

/// Waits until tasks may have changed, and their client has read what it was sent before.
async fn has_news(changes: &mut watch::Receiver<()>, connection: &Connection) {
    tokio::time::sleep(REST).await;
    // The channels are never closed.
    let _ = changes.changed().await;
    if let Some(mut unread) = connection.unread.clone() {
        let _ = unread.wait_for(|unread| *unread < MAX_UNREAD_BYTES).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_is_not_notified_of_tasks() {
        let (unread, changes) = (watch::Sender::new(MAX_UNREAD_BYTES), watch::Sender::new(()));
        let connection = Connection::new().of_reader(unread.subscribe());
        let mut changed = changes.subscribe();
        changes.send_replace(());
        assert!(timeout(3 * REST, has_news(&mut changed, &connection)).await.is_err());
        unread.send_replace(MAX_UNREAD_BYTES - 1);
        changes.send_replace(());
        assert!(timeout(30 * REST, has_news(&mut changed, &connection)).await.is_ok());
    }
}
