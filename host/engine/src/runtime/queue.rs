//! The queue of calls for the threads that run them.
//!
//! Waking a sleeping thread takes longer than many calls. So one idle thread polls for a moment
//! before it sleeps, and items that are added meanwhile wake no other thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_workspace::fair_queue::{Client, ClientCounts, FairQueue};

/// How long an idle thread polls. A client that makes one call after another needs less time
/// between two calls, including the waking of client and server.
const POLL_TIME: Duration = Duration::from_micros(250);

/// Items that wait for a thread, and the number of items that threads work on.
pub struct Queue<T> {
    state: Mutex<State<T>>,
    added: Condvar,
    /// The number of waiting items, readable without the lock.
    length: AtomicUsize,
    most: MaxRunning,
}

/// How many items are worked on at a time.
#[derive(Clone, Copy)]
pub struct MaxRunning {
    pub of_client: usize,
    pub of_address: usize,
}

impl MaxRunning {
    /// Whether one more item of a client may be worked on.
    fn allows(self, running: &ClientCounts, client: Client) -> bool {
        running.of_client(client) < self.of_client
            && running.of_address(client.address) < self.of_address
    }
}

struct State<T> {
    line: FairQueue<T>,
    /// An item for the thread that polls.
    handed: Option<(Client, T)>,
    /// The items that are worked on.
    running: ClientCounts,
    /// Whether an idle thread polls.
    is_watched: bool,
    is_closed: bool,
}

impl<T> State<T> {
    fn take(&mut self, most: MaxRunning) -> Option<(Client, T)> {
        let allowed = |client: &Client| most.allows(&self.running, *client);
        let taken = self.handed.take().or_else(|| self.line.pop(allowed))?;
        self.running.add(taken.0);
        Some(taken)
    }

    /// The number of waiting items.
    fn length(&self) -> usize {
        self.line.len() + usize::from(self.handed.is_some())
    }
}

impl<T> Queue<T> {
    /// Creates an empty queue, of which threads take at most `most` items at a time.
    pub fn new(most: MaxRunning) -> Self {
        let (line, running) = (FairQueue::default(), ClientCounts::default());
        let state = State { line, handed: None, running, is_watched: false, is_closed: false };
        Self { state: Mutex::new(state), added: Condvar::new(), length: AtomicUsize::new(0), most }
    }

    /// Adds an item, and wakes a thread if none polls.
    pub fn add(&self, client: Client, item: T) {
        let mut state = self.state();
        state.line.push(client, item);
        self.length.store(state.length(), Ordering::Release);
        if !state.is_watched {
            drop(state);
            self.added.notify_one();
        }
    }

    /// Adds an item regardless of how many of its client are worked on, if a thread polls for it at
    /// this moment; returns the item otherwise.
    pub fn hand(&self, client: Client, item: T) -> Result<(), T> {
        let mut state = self.state();
        if !state.is_watched || state.handed.is_some() || state.is_closed {
            return Err(item);
        }
        state.handed = Some((client, item));
        self.length.store(state.length(), Ordering::Release);
        Ok(())
    }

    /// Waits for the next item. Returns `None` when the queue is closed. The caller has to call
    /// [`Queue::done`] after the work on the item.
    pub fn next(&self) -> Option<(Client, T)> {
        let mut state = self.state();
        loop {
            if let Some(taken) = state.take(self.most) {
                self.length.store(state.length(), Ordering::Release);
                // Since this thread last polled, the item may have been added without waking a
                // thread.
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
            // Items that still wait are of clients or addresses at their maximum.
            if state.is_watched || !state.line.is_empty() {
                state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_watched = true;
            drop(state);
            self.watch();
            state = self.state();
            state.is_watched = false;
            if state.length() == 0 && !state.is_closed {
                state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Marks the work on an item of a client as ended.
    pub fn done(&self, client: Client) {
        let mut state = self.state();
        state.running.remove(client);
        if !state.line.is_empty() {
            drop(state);
            self.added.notify_one();
        }
    }

    /// Whether the maximum allows one more item of a client.
    pub fn has_turn(&self, client: Client) -> bool {
        self.most.allows(&self.state().running, client)
    }

    /// Whether no item waits for a thread.
    pub fn is_empty(&self) -> bool {
        self.length.load(Ordering::Acquire) == 0
    }

    /// Closes the queue: [`Queue::next`] returns `None` from now on.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.added.notify_all();
    }

    /// Polls until an item is added, for [`POLL_TIME`] at most.
    fn watch(&self) {
        let started = Instant::now();
        while self.length.load(Ordering::Acquire) == 0 && started.elapsed() < POLL_TIME {
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

    fn most(of_client: usize) -> MaxRunning {
        MaxRunning { of_client, of_address: 2 * of_client }
    }

    #[test]
    fn each_item_is_taken_exactly_once() {
        let queue = Arc::new(Queue::new(most(4)));
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
            // Lets all threads fall asleep from time to time.
            if number % 1_000 == 0 {
                thread::sleep(POLL_TIME * 20);
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

    /// Several items that are added while one thread polls are distributed to several threads: here
    /// each item has to wait for the others.
    #[test]
    fn concurrent_items_are_distributed_to_several_threads() {
        for _ in 0..200 {
            let queue = Arc::new(Queue::new(most(3)));
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
    fn a_client_at_its_limit_does_not_delay_others() {
        let queue = Queue::new(most(1));
        (0..3).for_each(|number| queue.add(ONE, number));
        queue.add(OTHER, 3);
        assert_eq!(queue.next(), Some((ONE, 0)));
        assert!(!queue.has_turn(ONE) && queue.has_turn(OTHER));
        assert_eq!(queue.next(), Some((OTHER, 3)));
        queue.done(ONE);
        assert_eq!(queue.next(), Some((ONE, 1)));
    }

    #[test]
    fn an_address_at_its_limit_does_not_delay_others() {
        let elsewhere = Client { address: Some([192, 0, 2, 1].into()), id: 1 };
        let queue = Queue::new(most(1));
        (0..3).for_each(|id| queue.add(Client { address: None, id }, id));
        let of_address = [queue.next().unwrap(), queue.next().unwrap()];
        let third = (0..3).find(|id| of_address.iter().all(|(_, taken)| taken != id)).unwrap();
        assert!(!queue.has_turn(Client { address: None, id: third }));
        queue.add(elsewhere, 3);
        assert_eq!(queue.next(), Some((elsewhere, 3)));
        queue.done(of_address[0].0);
        assert_eq!(queue.next().map(|(_, item)| item), Some(third));
    }

    #[test]
    fn closing_the_queue_wakes_waiting_threads() {
        let queue = Arc::new(Queue::<()>::new(most(1)));
        let waiting = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.next())
        };
        thread::sleep(POLL_TIME * 20);
        queue.close();
        assert_eq!(waiting.join().unwrap(), None);
    }
}
