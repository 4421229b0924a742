//! A number of bytes that may be held for clients, of which each address has a share. What a holder
//! has grows as it receives more. The first holder that still grows has a reserve, so that holders
//! never wait for each other.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A budget of bytes.
pub(super) struct ByteBudget {
    total: usize,
    /// What one address may hold.
    share: usize,
    /// What the first holder that still grows may hold beyond both.
    reserve: usize,
    state: Mutex<State>,
    released: Notify,
}

#[derive(Default)]
struct State {
    held: usize,
    /// The holders that still grow; the first one is the oldest.
    growing: BTreeSet<u64>,
    next: u64,
    accounts: HashMap<Option<IpAddr>, Account>,
}

/// What an address holds.
#[derive(Default)]
struct Account {
    held: usize,
    holders: usize,
    growing: BTreeSet<u64>,
}

/// Bytes of a budget, which are released when this is dropped.
pub(super) struct Held {
    budget: Arc<ByteBudget>,
    address: Option<IpAddr>,
    size: usize,
    /// Its number while it may still grow.
    number: Option<u64>,
}

impl ByteBudget {
    /// A budget of `total` bytes.
    pub fn new(total: usize, share: usize, reserve: usize) -> Arc<Self> {
        let (state, released) = Default::default();
        Arc::new(Self { total, share, reserve, state, released })
    }

    /// Returns a holder without any bytes.
    pub fn holder(self: &Arc<Self>, address: Option<IpAddr>) -> Held {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.growing.insert(number);
        let account = state.accounts.entry(address).or_default();
        account.holders += 1;
        account.growing.insert(number);
        Held { budget: Arc::clone(self), address, size: 0, number: Some(number) }
    }

    /// Holds `size` bytes, which do not grow. Returns `None` if there are not as many, unless it
    /// `is_forced`.
    pub fn hold(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        size: usize,
        is_forced: bool,
    ) -> Option<Held> {
        let mut state = self.state();
        let held_by_address = state.accounts.get(&address).map_or(0, |account| account.held);
        let fits = state.held + size <= self.total && held_by_address + size <= self.share;
        if !fits && !is_forced {
            return None;
        }
        let account = state.accounts.entry(address).or_default();
        account.holders += 1;
        account.held += size;
        state.held += size;
        Some(Held { budget: Arc::clone(self), address, size, number: None })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    pub fn size(&self) -> usize {
        self.size
    }

    /// Waits until it may hold `size` bytes in all.
    pub async fn grow(&mut self, size: usize) {
        let budget = Arc::clone(&self.budget);
        loop {
            let mut released = std::pin::pin!(budget.released.notified());
            released.as_mut().enable();
            if self.try_grow(size) {
                return;
            }
            released.await;
        }
    }

    /// Holds `size` bytes in all, and returns true, if there are as many.
    pub fn try_grow(&mut self, size: usize) -> bool {
        let mut state = self.budget.state();
        let more = size.saturating_sub(self.size);
        let reserve = |growing: &BTreeSet<u64>| match growing.first() {
            Some(first) if Some(*first) == self.number => self.budget.reserve,
            _ => 0,
        };
        let total = self.budget.total + reserve(&state.growing);
        if state.held + more > total {
            return false;
        }
        let account = state.accounts.entry(self.address).or_default();
        if account.held + more > self.budget.share + reserve(&account.growing) {
            return false;
        }
        account.held += more;
        state.held += more;
        self.size += more;
        true
    }

    /// Ends the growth, and releases what is beyond `size`.
    pub fn complete(&mut self, size: usize) {
        let budget = Arc::clone(&self.budget);
        self.shrink(&mut budget.state(), size);
        budget.released.notify_waiters();
    }

    /// Releases what is beyond `size`. It does not grow any more.
    fn shrink(&mut self, state: &mut State, size: usize) {
        let surplus = self.size.saturating_sub(size);
        self.size -= surplus;
        state.held -= surplus;
        let number = self.number.take();
        if let Some(number) = number {
            state.growing.remove(&number);
        }
        if let Some(account) = state.accounts.get_mut(&self.address) {
            account.held -= surplus;
            if let Some(number) = number {
                account.growing.remove(&number);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let budget = Arc::clone(&self.budget);
        let mut state = budget.state();
        self.shrink(&mut state, 0);
        if let Some(account) = state.accounts.get_mut(&self.address) {
            account.holders -= 1;
            if account.holders == 0 {
                state.accounts.remove(&self.address);
            }
        }
        drop(state);
        budget.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn from(last: u8) -> Option<IpAddr> {
        Some([127, 0, 0, last].into())
    }

    #[test]
    fn an_address_holds_its_share_at_most() {
        let budget = ByteBudget::new(100, 50, 0);
        let mut first = budget.holder(from(1));
        assert!(first.try_grow(40));
        let mut second = budget.holder(from(1));
        assert!(!second.try_grow(20));
        let mut other = budget.holder(from(2));
        assert!(other.try_grow(50) && !other.try_grow(51));
        let mut grown = Box::pin(second.grow(20));
        assert!(grown.as_mut().now_or_never().is_none());
        first.complete(10);
        assert!(grown.as_mut().now_or_never().is_some());
        drop(grown);
        assert_eq!(second.size(), 20);
        let more = budget.hold(from(1), 40, true);
        assert!(!budget.holder(from(3)).try_grow(1) && budget.hold(from(3), 1, false).is_none());
        let forced = budget.hold(from(3), 1, true);
        assert_eq!(forced.as_ref().map(Held::size), Some(1));
        drop((first, second, other, more));
        assert_eq!(budget.state().held, 1);
        assert!(budget.hold(from(3), 50, false).is_none());
        drop((forced, budget.hold(from(3), 50, false)));
        let state = budget.state();
        assert!(state.held == 0 && state.accounts.is_empty() && state.growing.is_empty());
    }

    #[test]
    fn holders_that_grow_do_not_wait_for_each_other() {
        let budget = ByteBudget::new(100, 50, 20);
        let mut all: Vec<Held> = (0..10).map(|_| budget.holder(from(1))).collect();
        assert!(all.iter_mut().all(|held| held.try_grow(5)));
        // One after the other, each gets what it needs, and no more than the reserve is in use.
        let waits = |last: &mut Held| !last.try_grow(20);
        assert!(all.last_mut().is_some_and(waits));
        while !all.is_empty() {
            let mut first = all.remove(0);
            assert!(first.grow(20).now_or_never().is_some());
            assert!(budget.state().held <= 70);
            first.complete(20);
        }
    }
}
