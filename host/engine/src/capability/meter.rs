//! Counts what an instance uses of its limits, and the memory of all instances.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::ResourceLimiter;

use cofferdam_core::outcome::LimitCode;
use cofferdam_core::policy::Limits;

/// The linear memory that all instances may use together.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The number of remaining bytes.
    left: AtomicUsize,
}

/// The minimum number of calls that can use their whole memory at the same time.
const MIN_FULL_CALLS: usize = 8;

impl Memory {
    /// Memory for `calls` calls at a time. More calls may run when some take long, but few of those
    /// need the maximum.
    pub fn for_calls(calls: usize) -> Arc<Self> {
        let left = calls.max(MIN_FULL_CALLS).saturating_mul(Limits::DEFAULT.memory);
        Arc::new(Self { left: AtomicUsize::new(left) })
    }

    /// Takes `bytes` if available. Returns whether they were.
    pub fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Returns `bytes` that were taken.
    pub fn give(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Counts what an instance uses, and remembers the first limit that it exceeded.
pub(crate) struct Meter {
    memory_left: usize,
    /// The memory of all instances, and the bytes that this instance has taken from it.
    shared: Option<Arc<Memory>>,
    memory: usize,
    table_elements: usize,
    instances: usize,
    tables: usize,
    host_calls_left: u64,
    reached: Option<LimitCode>,
}

impl Meter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            memory_left: limits.memory,
            shared: None,
            memory: 0,
            table_elements: limits.table_elements,
            instances: limits.instances,
            tables: limits.tables,
            host_calls_left: limits.host_calls,
            reached: None,
        }
    }

    /// Counts the memory together with that of other instances.
    pub(crate) fn share(&mut self, memory: &Arc<Memory>) {
        self.shared = Some(Arc::clone(memory));
    }

    /// The used memory in bytes, and the number of calls into the host.
    pub(super) fn used(&self, limits: &Limits) -> (u64, u64) {
        let memory = (limits.memory - self.memory_left) as u64;
        (memory, limits.host_calls - self.host_calls_left)
    }

    /// The first limit that was exceeded.
    pub(crate) fn reached(&self) -> Option<LimitCode> {
        self.reached
    }

    /// Counts a call into the host.
    ///
    /// # Errors
    /// The limit of calls into the host is exceeded.
    pub(crate) fn count_host_call(&mut self) -> wasmtime::Result<()> {
        match self.host_calls_left.checked_sub(1) {
            Some(left) => self.host_calls_left = left,
            None => {
                self.reached.get_or_insert(LimitCode::HostCallLimit);
                return Err(wasmtime::Error::msg("too many calls into the host"));
            }
        }
        Ok(())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.give(self.memory);
        }
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        match self.memory_left.checked_sub(more) {
            Some(_) if self.shared.as_ref().is_some_and(|shared| !shared.take(more)) => {
                self.reached.get_or_insert(LimitCode::HostMemoryLimit);
                Ok(false)
            }
            Some(left) => {
                self.memory_left = left;
                self.memory += more;
                Ok(true)
            }
            None => {
                self.reached.get_or_insert(LimitCode::MemoryLimit);
                Ok(false)
            }
        }
    }

    fn table_growing(
        &mut self,
        _: usize,
        desired: usize,
        _: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let allowed = desired <= self.table_elements;
        if !allowed {
            self.reached.get_or_insert(LimitCode::TableLimit);
        }
        Ok(allowed)
    }

    fn instances(&self) -> usize {
        self.instances
    }
    fn tables(&self) -> usize {
        self.tables
    }
    fn memories(&self) -> usize {
        self.tables
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_memory_of_all_calls_is_limited() {
        let memory = Memory::for_calls(1);
        let limits = Limits::DEFAULT;
        let all = |number: usize| {
            let meters = (0..number).map(|_| {
                let mut meter = Meter::new(&limits);
                meter.share(&memory);
                let grows = meter.memory_growing(0, limits.memory, None).unwrap();
                (meter, grows)
            });
            meters.collect::<Vec<_>>()
        };
        for _ in 0..3 {
            let meters = all(9);
            assert!(meters[..8].iter().all(|(_, grows)| *grows));
            let (last, grows) = &meters[8];
            assert_eq!((*grows, last.reached()), (false, Some(LimitCode::HostMemoryLimit)));
        }
        assert!(all(8).iter().all(|(_, grows)| *grows));
    }
}
