//! The cancellation of a run: a channel whose value turns true.

use tokio::sync::watch;

/// Whether the run is cancelled.
pub(super) fn is_cancelled(cancel: Option<&watch::Receiver<bool>>) -> bool {
    cancel.is_some_and(|cancel| *cancel.borrow())
}

/// Returns when the run is cancelled; never, if it can't be.
pub(super) async fn cancelled(cancel: Option<watch::Receiver<bool>>) {
    if let Some(mut cancel) = cancel
        && cancel.wait_for(|cancelled| *cancelled).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
