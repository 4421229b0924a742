//! The clock that makes running code check its deadline.
//!
//! It ticks while any engine of a runtime runs something, and for a short time afterwards. Then it
//! sleeps, so that an idle host uses no processor time.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use wasmtime::EngineWeak;

/// The time between two checks of the deadline by running code.
pub const TICK: Duration = Duration::from_millis(5);

/// The number of idle ticks after which the clock sleeps. Waking it takes as long as a short call.
const IDLE_TICKS: u32 = 200;

/// A thread that increments the epoch of engines.
pub struct Clock {
    shared: Arc<Shared>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    engines: Mutex<Vec<(EngineWeak, Arc<AtomicUsize>)>>,
    is_asleep: AtomicBool,
    has_ended: AtomicBool,
}

impl Clock {
    /// Starts a clock thread.
    ///
    /// # Errors
    /// I/O error if a thread can't be started.
    pub fn start() -> io::Result<Arc<Self>> {
        let shared = Arc::<Shared>::default();
        let ticking = Arc::clone(&shared);
        let name = "cofferdam-clock".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || ticking.tick())?;
        Ok(Arc::new(Self { shared, thread: thread.thread().clone() }))
    }

    /// Adds an engine to the clock. Returns the counter of running code in the engine.
    pub(super) fn add(&self, engine: &wasmtime::Engine) -> Arc<AtomicUsize> {
        let running = Arc::<AtomicUsize>::default();
        let mut engines = self.shared.engines.lock().unwrap_or_else(PoisonError::into_inner);
        engines.push((engine.weak(), Arc::clone(&running)));
        running
    }

    /// Keeps the clock ticking until the returned guard is dropped.
    pub(super) fn run<'a>(&self, running: &'a AtomicUsize) -> Running<'a> {
        // The clock reads the two values in the opposite order, so one of the threads sees the
        // other's write.
        running.fetch_add(1, Ordering::SeqCst);
        if self.shared.is_asleep.load(Ordering::SeqCst) {
            self.thread.unpark();
        }
        Running(running)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Shared {
    fn tick(&self) {
        let mut idle = 0;
        while !self.has_ended.load(Ordering::SeqCst) {
            thread::sleep(TICK);
            let mut is_running = false;
            for (engine, running) in
                self.engines.lock().unwrap_or_else(PoisonError::into_inner).iter()
            {
                is_running |= running.load(Ordering::SeqCst) > 0;
                if let Some(engine) = engine.upgrade() {
                    engine.increment_epoch();
                }
            }
            idle = if is_running { 0 } else { idle + 1 };
            if idle > IDLE_TICKS {
                self.sleep();
                idle = 0;
            }
        }
    }

    fn sleep(&self) {
        self.is_asleep.store(true, Ordering::SeqCst);
        while !self.is_wanted() {
            thread::park();
        }
        self.is_asleep.store(false, Ordering::SeqCst);
    }

    fn is_wanted(&self) -> bool {
        let engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_ended.load(Ordering::SeqCst)
            || engines.iter().any(|(_, running)| running.load(Ordering::SeqCst) > 0)
    }
}

/// Keeps the clock of an engine ticking.
pub struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::time::Instant;
    use wasmtime::{Engine, Instance, Module, Store};

    /// Waits until the clock is asleep. Returns whether it is.
    fn falls_asleep(clock: &Clock) -> bool {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(30) {
            if clock.shared.is_asleep.load(Ordering::SeqCst) {
                return true;
            }
            thread::sleep(TICK);
        }
        false
    }

    #[test]
    fn a_sleeping_clock_wakes_and_interrupts_running_code() {
        let mut config = wasmtime::Config::new();
        config.epoch_interruption(true);
        let engine = Engine::new(&config).unwrap();
        let clock = Clock::start().unwrap();
        let running = clock.add(&engine);
        // (module (func (export "f") (loop (br 0))))
        let endless = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x05\x01\x01f\0\0\
            \x0a\x09\x01\x07\0\x03\x40\x0c\0\x0b\x0b";
        let module = Module::new(&engine, endless).unwrap();
        for _ in 0..2 {
            let mut store = Store::new(&engine, ());
            store.set_epoch_deadline(2);
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            let function = instance.get_typed_func::<(), ()>(&mut store, "f").unwrap();
            let guard = clock.run(&running);
            function.call(&mut store, ()).unwrap_err();
            assert_eq!(running.load(Ordering::SeqCst), 1);
            drop(guard);
            assert!(falls_asleep(&clock));
        }
        let shared = Arc::downgrade(&clock.shared);
        drop(clock);
        let started = Instant::now();
        while shared.strong_count() > 0 {
            assert!(started.elapsed() < Duration::from_secs(30), "its thread goes on");
            thread::sleep(TICK);
        }
    }
}
