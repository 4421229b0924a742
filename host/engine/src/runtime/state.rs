//! What belongs to one call: the data of its store.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use wasmtime::ResourceLimiter;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::engine::Memory;
use super::instance::{Rights, Stop, Surroundings};
use crate::capability::{self, FileState, HttpState, Messages, Usage};
use cofferdam_core::outcome::LimitCode;
use cofferdam_core::policy::Limits;

/// When a call ends at the latest, and whether somebody wants it to end now.
#[derive(Debug)]
pub struct Control {
    begun: Instant,
    deadline: Instant,
    cancelled: AtomicBool,
    stage: AtomicU8,
    noted: OnceLock<Stop>,
}

/// The stages of a call, as far as its thread is concerned.
mod stage {
    /// No thread has taken it yet.
    pub(super) const WAITS: u8 = 0;
    pub(super) const RUNS: u8 = 1;
    /// No thread will take it.
    pub(super) const WITHDRAWN: u8 = 2;
    /// It did not come back in time: its thread is not waited for any more.
    pub(super) const GIVEN_UP: u8 = 3;
    pub(super) const ENDED: u8 = 4;
}

impl Control {
    /// A call that may take `time` from now on.
    pub fn new(time: Duration) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            deadline: begun + time,
            cancelled: AtomicBool::new(false),
            stage: AtomicU8::new(stage::WAITS),
            noted: OnceLock::new(),
        }
    }

    /// How long the call has been under way.
    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// When the call ends at the latest.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Makes the call fail with this, also if its tool or a backend reports a success.
    pub(crate) fn note(&self, stop: Stop) {
        self.noted.get_or_init(|| stop);
    }

    pub(super) fn noted(&self) -> Option<&Stop> {
        self.noted.get()
    }

    /// Ends the call as soon as it looks at the clock.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Takes the call, unless it was withdrawn.
    pub(super) fn begin(&self) -> bool {
        self.pass(stage::WAITS, stage::RUNS)
    }

    /// Takes back a call that no thread has taken yet. Says whether that was so: then it does
    /// nothing any more, and nothing is to be waited for.
    pub fn withdraw(&self) -> bool {
        self.pass(stage::WAITS, stage::WITHDRAWN)
    }

    /// Whether no thread has taken the call yet.
    pub(super) fn waits(&self) -> bool {
        self.stage.load(Ordering::Acquire) == stage::WAITS
    }

    /// Gives up a call that did not come back in time: its thread is not waited for any more. Says
    /// whether that was so.
    pub(super) fn give_up(&self) -> bool {
        self.pass(stage::RUNS, stage::GIVEN_UP)
    }

    /// Ends the call, unless it was given up.
    pub(super) fn end(&self) -> bool {
        self.pass(stage::RUNS, stage::ENDED)
    }

    fn pass(&self, from: u8, to: u8) -> bool {
        self.stage.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether somebody wants the call to end now.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Why the call has to stop now, if it has to.
    pub(crate) fn stop(&self) -> Option<Stop> {
        if self.cancelled.load(Ordering::Relaxed) {
            Some(Stop::Cancelled)
        } else if Instant::now() >= self.deadline {
            Some(Stop::Limit(LimitCode::WallClockLimit))
        } else {
            None
        }
    }
}

/// Whoever wants to hear from a running call.
pub trait Observer: Send + Sync {
    /// A message of the plugin, already neutralised and within its budget.
    fn message(&self, call: &str, level: tracing::Level, message: &str);
    /// How far the call is.
    fn progress(&self, call: &str, done: u64, total: Option<u64>, message: &str);
}

impl std::fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// An observer that listens to nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Observer for Quiet {
    fn message(&self, _: &str, _: tracing::Level, _: &str) {}
    fn progress(&self, _: &str, _: u64, _: Option<u64>, _: &str) {}
}

/// The data of an instance's store.
pub struct CallState {
    pub(crate) table: ResourceTable,
    pub(crate) wasi: WasiCtx,
    pub(crate) files: FileState,
    pub(crate) http: HttpState,
    pub(crate) messages: Messages,
    /// How many scanners there are at the moment.
    pub(crate) scanners: usize,
    pub(crate) rights: Arc<Rights>,
    pub(crate) surroundings: Arc<Surroundings>,
    pub(super) meter: Meter,
}

impl CallState {
    pub(super) fn new(rights: &Arc<Rights>, surroundings: &Arc<Surroundings>) -> Self {
        let limits = &surroundings.limits;
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        let messages = Messages::new(
            surroundings.id.clone(),
            limits.messages,
            Arc::clone(&surroundings.observer),
        );
        Self {
            table,
            wasi: capability::wasi(&messages),
            files: FileState::new(
                Arc::clone(&surroundings.workspace),
                Arc::clone(&surroundings.tree),
                rights,
                limits,
            ),
            http: HttpState::new(rights, surroundings, &messages),
            messages,
            scanners: 0,
            meter: Meter::new(limits),
            rights: Arc::clone(rights),
            surroundings: Arc::clone(surroundings),
        }
    }

    /// What the instance has used so far.
    pub(super) fn usage(&self) -> Usage {
        let limits = &self.surroundings.limits;
        Usage {
            memory: (limits.memory - self.meter.memory_left) as u64,
            host_calls: limits.host_calls - self.meter.host_calls_left,
            written: self.files.written(),
        }
    }

    /// When the call ends at the latest, and whether it has to end now.
    pub(crate) fn control(&self) -> &Arc<Control> {
        &self.surroundings.control
    }
}

impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// Counts what a call uses, and remembers which limit it ran into first.
pub(super) struct Meter {
    memory_left: usize,
    /// What other calls have a share of, and what this one has of it.
    shared: Option<Arc<Memory>>,
    memory: usize,
    table_elements: usize,
    instances: usize,
    tables: usize,
    host_calls_left: u64,
    reached: Option<LimitCode>,
}

impl Meter {
    fn new(limits: &Limits) -> Self {
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

    /// Counts the memory together with that of other calls.
    pub(super) fn share(&mut self, memory: &Arc<Memory>) {
        self.shared = Some(Arc::clone(memory));
    }

    /// The first limit that was reached.
    pub(super) fn reached(&self) -> Option<LimitCode> {
        self.reached
    }

    pub(super) fn count_host_call(&mut self) -> wasmtime::Result<()> {
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
    fn the_memory_of_all_calls_is_bounded() {
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
