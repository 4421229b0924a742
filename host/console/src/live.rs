//! Tells open pages that something has changed. One poller for all pages looks at times and sizes of the
//! host's files, and at the names of open questions; it runs as long as a page is connected.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;

use crate::state::{Changes, Console, Seen};
use cofferdam_engine::runtime::blocking;

/// How often to look.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How often a connection hears something, so that one that is gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers with a stream of events, one for each part that has changed.
pub async fn events(console: Arc<Console>) -> Response {
    let before = look(&console).await;
    let receiver = console.changes.seen.subscribe();
    if !console.changes.is_polling.swap(true, Ordering::AcqRel) {
        tokio::spawn(poll(Arc::clone(&console)));
    }
    let stream = stream::unfold((receiver, before), |(mut receiver, before)| async move {
        loop {
            receiver.changed().await.ok()?;
            let now = receiver.borrow_and_update().clone();
            let changed = changed(&before, &now);
            if !changed.is_empty() {
                let event = Event::default().event("changed").data(changed.join(" "));
                return Some((Ok::<Event, Infallible>(event), (receiver, now)));
            }
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// The parts that differ.
fn changed(before: &Seen, now: &Seen) -> Vec<&'static str> {
    let (old, new) = (&before.activity, &now.activity);
    let parts = [
        ("proposals", old.proposals != new.proposals),
        ("reviewed", old.reviewed != new.reviewed),
        ("questions", before.questions != now.questions || old.questions != new.questions),
        ("calls", old.calls != new.calls),
        ("journal", old.journal != new.journal),
        ("history", old.history != new.history),
    ];
    parts.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name).collect()
}

async fn poll(console: Arc<Console>) {
    let Changes { seen, is_polling } = &console.changes;
    loop {
        while seen.receiver_count() > 0 {
            let now = look(&console).await;
            seen.send_if_modified(|seen| {
                let is_changed = *seen != now;
                *seen = now;
                is_changed
            });
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        is_polling.store(false, Ordering::Release);
        // A page that has just connected relies on this poller.
        if seen.receiver_count() == 0 || is_polling.swap(true, Ordering::AcqRel) {
            return;
        }
    }
}

/// Looks at the host's files. What can't be read is as if it were not there: the page itself says why.
async fn look(console: &Arc<Console>) -> Seen {
    let console = Arc::clone(console);
    let seen = blocking(move || {
        let activity = console.workspace().activity()?;
        let questions = console.listener()?.map(|listener| listener.questions()).transpose()?;
        let names = questions.into_iter().flatten().map(|(name, _)| name);
        let mut questions: Vec<String> = names.collect();
        questions.sort_unstable();
        Ok::<Seen, std::io::Error>(Seen { activity, questions })
    });
    seen.await.unwrap_or_else(|error| {
        tracing::warn!("the state of the workspace can't be read: {error}");
        Seen::default()
    })
}
