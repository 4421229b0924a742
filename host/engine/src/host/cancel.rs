//! The cancellation of a run: a channel whose value becomes true.

use tokio::sync::watch;

/// Whether the run was cancelled.
pub(super) fn is_cancelled(cancel: Option<&watch::Receiver<bool>>) -> bool {
    cancel.is_some_and(|cancel| *cancel.borrow())
}

/// Completes when the run is cancelled; never if it can't be.
pub(super) async fn cancelled(cancel: Option<watch::Receiver<bool>>) {
    if let Some(mut cancel) = cancel
        && cancel.wait_for(|cancelled| *cancelled).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
