//! The calls of this process that change a workspace take turns: one waits for its own without asking
//! again and again, and none overtakes all others. Other processes know nothing of it: the file lock
//! keeps them apart.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::line::{Client, Line};

/// How long a turn may take besides the time that a call has: for its commit.
const MARGIN: Duration = Duration::from_secs(5);

/// Everyone in this process who changes a workspace.
#[derive(Default)]
pub(super) struct Writers {
    state: Mutex<State>,
    /// How many turns there were.
    turns: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    is_taken: bool,
    line: Line<oneshot::Sender<Turn>>,
}

/// A turn, until it is dropped.
pub(super) struct Turn(Option<Arc<Writers>>);

impl Writers {
    /// The next turn of a client. None where one turn lasts longer than this client's may.
    pub async fn turn(self: &Arc<Self>, client: Client, patience: Duration) -> Option<Turn> {
        let mut turns = self.turns.subscribe();
        let mut waits = {
            let mut state = self.state();
            if !state.is_taken {
                state.is_taken = true;
                return Some(Turn(Some(Arc::clone(self))));
            }
            let (turn, waits) = oneshot::channel();
            state.line.add(client, turn);
            waits
        };
        let mut latest = Instant::now() + patience + MARGIN;
        loop {
            tokio::select! {
                biased;
                turn = &mut waits => return turn.ok(),
                Ok(()) = turns.changed() => latest = Instant::now() + patience + MARGIN,
                () = tokio::time::sleep_until(latest) => return None,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(writers) = self.0.take() else { return };
        let mut turn = Self(Some(Arc::clone(&writers)));
        let mut state = writers.state();
        while let Some((_, next)) = state.line.take(|_| true) {
            match next.send(turn) {
                Ok(()) => {
                    drop(state);
                    writers.turns.send_modify(|turns| *turns += 1);
                    return;
                }
                // It does not wait any more.
                Err(back) => turn = back,
            }
        }
        state.is_taken = false;
        turn.0 = None;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use futures_util::FutureExt as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn client(id: u64) -> Client {
        Client { id, ..Client::default() }
    }

    #[tokio::test]
    async fn turns_pass_to_those_who_still_wait() {
        let writers = Arc::<Writers>::default();
        let first = writers.turn(client(1), PATIENCE).await.unwrap();
        let mut gone = Box::pin(writers.turn(client(2), PATIENCE));
        let mut waits = Box::pin(writers.turn(client(3), PATIENCE));
        assert!(gone.as_mut().now_or_never().is_none());
        assert!(waits.as_mut().now_or_never().is_none());
        drop(gone);
        drop(first);
        let second = waits.await.unwrap();
        let mut third = Box::pin(writers.turn(client(1), PATIENCE));
        assert!(third.as_mut().now_or_never().is_none());
        drop(second);
        // A turn that nobody has taken yet is not lost with who it was for.
        drop(third);
        assert!(writers.turn(client(1), PATIENCE).now_or_never().is_some());
    }
}
