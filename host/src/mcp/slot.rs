//! How many calls a server takes at a time.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::approval::ASKED;

/// A place for each call that runs or waits for a worker, and one for each that waits for a person.
pub(super) struct Slots {
    calls: Arc<Semaphore>,
    most: usize,
    questions: Arc<Semaphore>,
}

/// The place of one call.
pub(super) struct Slot {
    calls: Arc<Semaphore>,
    questions: Arc<Semaphore>,
    held: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Slots {
    /// Places for this many calls, and for [`ASKED`] questions.
    pub fn new(most: usize) -> Self {
        let [calls, questions] = [most, ASKED].map(|most| Arc::new(Semaphore::new(most)));
        Self { calls, most, questions }
    }

    /// A place for a call; none, where all are taken.
    pub fn take(&self) -> Option<Slot> {
        let [calls, questions] = [&self.calls, &self.questions].map(Arc::clone);
        let held = Mutex::new(Some(Arc::clone(&calls).try_acquire_owned().ok()?));
        Some(Slot { calls, questions, held })
    }

    /// Waits until all places are free.
    pub async fn all(&self) {
        let all = u32::try_from(self.most).unwrap_or(u32::MAX);
        // They are never closed.
        let _ = self.calls.acquire_many(all).await;
    }
}

impl Slot {
    /// Waits for a person's answer, with the place left to other calls meanwhile; none, where too
    /// many wait for a person already.
    pub async fn aside<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let question = self.questions.try_acquire().ok()?;
        self.hold(None);
        let answer = answer.await;
        drop(question);
        self.hold(Arc::clone(&self.calls).acquire_owned().await.ok());
        Some(answer)
    }

    fn hold(&self, permit: Option<OwnedSemaphorePermit>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use futures_util::FutureExt as _;
    use futures_util::future::pending;

    use super::*;

    #[tokio::test]
    async fn a_question_takes_no_place_of_a_call() {
        let slots = Slots::new(1);
        let asking = slots.take().unwrap();
        assert!(slots.take().is_none());
        let (answer, answered) = tokio::sync::oneshot::channel();
        let mut asked = Box::pin(asking.aside(answered));
        assert!(asked.as_mut().now_or_never().is_none());
        let other = slots.take().unwrap();
        answer.send("yes").unwrap();
        // The place is taken again before the call goes on.
        assert!(asked.as_mut().now_or_never().is_none());
        drop(other);
        assert_eq!(asked.as_mut().await, Some(Ok("yes")));
        assert!(slots.take().is_none());
        drop(asked);
        drop(asking);
        slots.all().await;
    }

    #[tokio::test]
    async fn questions_have_an_end() {
        let slots = Slots::new(1);
        let mut asking = Vec::new();
        for _ in 0..ASKED {
            let slot = slots.take().unwrap();
            let mut asked = Box::pin(async move { slot.aside(pending::<()>()).await });
            assert!(asked.as_mut().now_or_never().is_none());
            asking.push(asked);
        }
        let slot = slots.take().unwrap();
        assert_eq!(slot.aside(pending::<()>()).await, None);
        asking.pop();
        assert!(slot.aside(pending::<()>()).now_or_never().is_none());
    }
}
