//! The queue of the threads that run calls.
//!
//! Waking a thread that sleeps takes longer than many a call. So one thread without work stays
//! awake for a moment, and what comes meanwhile wakes no other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_workspace::fair_queue::{Client, FairQueue};

/// How long a thread without work stays awake. A client that asks for one thing after the other
/// takes less from an answer to the next question, its own waking and the server's included.
const AWAKE: Duration = Duration::from_micros(250);

/// What waits to be done, and what is being done.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    added: Condvar,
    /// How much waits, to be seen without the lock.
    length: AtomicUsize,
    /// How much is done for one client at a time.
    each: usize,
}

struct State<T> {
    line: FairQueue<T>,
    /// What is being done for each client.
    running: HashMap<Client, usize>,
    /// Whether a thread is awake that has nothing to do.
    is_watched: bool,
    is_closed: bool,
}

impl<T> State<T> {
    fn take(&mut self, each: usize) -> Option<(Client, T)> {
        let running = &self.running;
        let may = |client: &Client| running.get(client).is_none_or(|running| *running < each);
        let taken = self.line.pop(may)?;
        *self.running.entry(taken.0).or_default() += 1;
        Some(taken)
    }
}

impl<T> Queue<T> {
    /// An empty one. For one client, `each` things are done at a time.
    pub fn new(each: usize) -> Self {
        let (line, running) = (FairQueue::default(), HashMap::new());
        let state = State { line, running, is_watched: false, is_closed: false };
        Self { state: Mutex::new(state), added: Condvar::new(), length: AtomicUsize::new(0), each }
    }

    /// Adds something. A thread that waits takes it.
    pub fn add(&self, client: Client, item: T) {
        let mut state = self.state();
        state.line.push(client, item);
        self.length.store(state.line.len(), Ordering::Release);
        if !state.is_watched {
            drop(state);
            self.added.notify_one();
        }
    }

    /// The next thing to do, as soon as there is one; none when the queue is closed. It is over with
    /// [`Queue::done`].
    pub fn next(&self) -> Option<(Client, T)> {
        let mut state = self.state();
        loop {
            if let Some(taken) = state.take(self.each) {
                self.length.store(state.line.len(), Ordering::Release);
                // Whoever added it may have relied on the thread that was awake, which is this one.
                let wake = !state.line.is_empty() && !state.is_watched;
                drop(state);
                if wake {
                    self.added.notify_one();
                }
                return Some(taken);
            }
            if state.is_closed {
                return None;
            }
            // What waits now waits for another thing of its client to be over.
            if state.is_watched || !state.line.is_empty() {
                state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_watched = true;
            drop(state);
            self.watch();
            state = self.state();
            state.is_watched = false;
            if state.line.is_empty() && !state.is_closed {
                state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Something of a client is over.
    pub fn done(&self, client: Client) {
        let mut state = self.state();
        if let Some(running) = state.running.get_mut(&client) {
            *running -= 1;
            if *running == 0 {
                state.running.remove(&client);
            }
        }
        if !state.line.is_empty() {
            drop(state);
            self.added.notify_one();
        }
    }

    /// Whether a client has fewer things done for it than it may.
    pub fn has_turn(&self, client: Client) -> bool {
        self.state().running.get(&client).is_none_or(|running| *running < self.each)
    }

    /// Whether no item waits for a thread.
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
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

    const ONE: Client = Client { address: None, id: 1 };
    const OTHER: Client = Client { address: None, id: 2 };

    #[test]
    fn everything_is_taken_once_by_somebody() {
        let queue = Arc::new(Queue::new(4));
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let mut taken = Vec::new();
                    while let Some((client, number)) = queue.next() {
                        taken.push(number);
                        queue.done(client);
                    }
                    taken
                })
            })
            .collect();
        for number in 0..20_000 {
            queue.add(if number % 3 == 0 { ONE } else { OTHER }, number);
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
            let queue = Arc::new(Queue::new(3));
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
            (0..3).for_each(|number| queue.add(ONE, number));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }

    #[test]
    fn a_client_at_its_limit_delays_no_other() {
        let queue = Queue::new(1);
        (0..3).for_each(|number| queue.add(ONE, number));
        queue.add(OTHER, 3);
        assert_eq!(queue.next(), Some((ONE, 0)));
        assert!(!queue.has_turn(ONE) && queue.has_turn(OTHER));
        assert_eq!(queue.next(), Some((OTHER, 3)));
        queue.done(ONE);
        assert_eq!(queue.next(), Some((ONE, 1)));
    }

    #[test]
    fn a_closed_queue_ends_who_waits() {
        let queue = Arc::new(Queue::<()>::new(1));
        let waiting = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.next())
        };
        thread::sleep(AWAKE * 20);
        queue.close();
        assert_eq!(waiting.join().unwrap(), None);
    }
}
