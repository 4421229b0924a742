//! Calls of this process that change a workspace take turns: each waits without polling, and none
//! waits behind all others. Other processes are excluded by the file lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::fair_queue::{Client, FairSemaphore, Permit};

/// The time that another call may hold its permit besides its timeout: for its commit.
const MARGIN: Duration = Duration::from_secs(5);

/// Waits for a permit. Returns `None` if another call holds one for longer than `patience` and a
/// margin.
pub(crate) async fn acquire(
    semaphore: &Arc<FairSemaphore>,
    client: Client,
    patience: Duration,
) -> Option<Permit> {
    let mut handovers = semaphore.handovers();
    let mut waiting = match semaphore.acquire(client) {
        Ok(permit) => return Some(permit),
        Err(waiting) => waiting,
    };
    let mut latest = Instant::now() + patience + MARGIN;
    loop {
        tokio::select! {
            biased;
            permit = &mut waiting => return permit.ok(),
            Ok(()) = handovers.changed() => latest = Instant::now() + patience + MARGIN,
            () = tokio::time::sleep_until(latest) => return None,
        }
    }
}
