//! The queue of the threads that run calls.
//!
//! Waking a thread that sleeps takes longer than many a call. So one thread without work stays
//! awake for a moment, and what comes meanwhile wakes no other.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread without work stays awake. A client that asks for one thing after the other
/// takes less from an answer to the next question, its own waking and the server's included.
const AWAKE: Duration = Duration::from_micros(250);

/// What waits to be done, oldest first.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    added: Condvar,
    /// The length, to be seen without the lock.
    length: AtomicUsize,
}

struct State<T> {
    items: VecDeque<T>,
    /// Whether a thread is awake that has nothing to do.
    is_watched: bool,
    is_closed: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State { items: VecDeque::new(), is_watched: false, is_closed: false };
        Self { state: Mutex::new(state), added: Condvar::new(), length: AtomicUsize::new(0) }
    }
}

impl<T> Queue<T> {
    /// Adds something. A thread that waits takes it.
    pub fn add(&self, item: T) {
        let mut state = self.state();
        state.items.push_back(item);
        self.length.store(state.items.len(), Ordering::Release);
        if !state.is_watched {
            drop(state);
            self.added.notify_one();
        }
    }

    /// The next thing to do, as soon as there is one; none when the queue is closed.
    pub fn next(&self) -> Option<T> {
        let mut state = self.state();
        loop {
            if let Some(item) = state.items.pop_front() {
                self.length.store(state.items.len(), Ordering::Release);
                // Whoever added it may have relied on the thread that was awake, which is this one.
                let wake = !state.items.is_empty() && !state.is_watched;
                drop(state);
                if wake {
                    self.added.notify_one();
                }
                return Some(item);
            }
            if state.is_closed {
                return None;
            }
            if state.is_watched {
                state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_watched = true;
            drop(state);
            self.watch();
            state = self.state();
            state.is_watched = false;
            if state.items.is_empty() && !state.is_closed {
                state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Nothing comes any more: whoever waits ends.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.added.notify_all();
    }

    /// Stays awake until there is something, for [`AWAKE`] at most.
    fn watch(&self) {
        let started = Instant::now();
        while self.length.load(Ordering::Acquire) == 0 && started.elapsed() < AWAKE {
            thread::yield_now();
        }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    #[test]
    fn everything_is_taken_once_by_somebody() {
        let queue = Arc::new(Queue::default());
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let mut taken = Vec::new();
                    while let Some(number) = queue.next() {
                        taken.push(number);
                    }
                    taken
                })
            })
            .collect();
        for number in 0..20_000 {
            queue.add(number);
            // Now and then everybody falls asleep.
            if number % 1_000 == 0 {
                thread::sleep(AWAKE * 20);
            }
        }
        while queue.length.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
        queue.close();
        let taken: Vec<i32> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
        assert_eq!(taken.len(), 20_000);
        assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 20_000);
    }

    /// Several that were added while one thread was awake are not left to it alone: here each has
    /// to wait for the others.
    #[test]
    fn what_comes_together_is_done_side_by_side() {
        for _ in 0..200 {
            let queue = Arc::new(Queue::default());
            let together = Arc::new(std::sync::Barrier::new(3));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (queue, together) = (Arc::clone(&queue), Arc::clone(&together));
                    thread::spawn(move || {
                        queue.next().unwrap();
                        together.wait();
                    })
                })
                .collect();
            (0..3).for_each(|number| queue.add(number));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }

    #[test]
    fn a_closed_queue_ends_who_waits() {
        let queue = Arc::new(Queue::<()>::default());
        let waiting = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.next())
        };
        thread::sleep(AWAKE * 20);
        queue.close();
        assert_eq!(waiting.join().unwrap(), None);
    }
}
