//! The calls of this process that change a workspace take turns: one waits for its own without asking
//! again and again, and none overtakes all others. Other processes know nothing of it: the file lock
//! keeps them apart.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::line::{Client, Turn, Turns};

/// How long a turn may take besides the time that a call has: for its commit.
const MARGIN: Duration = Duration::from_secs(5);

/// The next turn of a client. None where one turn lasts longer than this client's may.
pub(super) async fn turn(turns: &Arc<Turns>, client: Client, patience: Duration) -> Option<Turn> {
    let mut passed = turns.passed();
    let mut waits = match turns.next(client) {
        Ok(turn) => return Some(turn),
        Err(waits) => waits,
    };
    let mut latest = Instant::now() + patience + MARGIN;
    loop {
        tokio::select! {
            biased;
            turn = &mut waits => return turn.ok(),
            Ok(()) = passed.changed() => latest = Instant::now() + patience + MARGIN,
            () = tokio::time::sleep_until(latest) => return None,
        }
    }
}
