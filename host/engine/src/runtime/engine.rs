//! The engine's settings. Which of them made calls fast, and how much, is written in
//! docs/performance.md.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, Result};

use super::clock::{Clock, Running};
use crate::capability::Memory;
use cofferdam_core::policy::Limits;
use cofferdam_plugin::typed::Generation;

/// The native stack that a plugin may use, in bytes.
const MAX_STACK: usize = 1536 << 10;

/// The stack of a thread that runs plugins, in bytes: a plugin's and the host's own.
pub(crate) const THREAD_STACK: usize = MAX_STACK + (1 << 20);

/// The stack of a thread that runs calls: a tool, and a tool that it calls.
pub(super) const CALL_STACK: usize = 2 * THREAD_STACK;

/// How many threads there may be besides one for each call of a client that is alone: for calls
/// that take long.
pub(super) const MAX_EXTRA_THREADS: usize = 48;

/// How many of [`MAX_EXTRA_THREADS`] the clients of one address may occupy.
pub(super) const MAX_EXTRA_THREADS_OF_ADDRESS: usize = 32;

/// Memory that a slot of the pool keeps between calls, in bytes. Zeroing it costs less than
/// faulting it in again, if the kernel can tell which pages were written.
///
/// As much as the SDK's guests start with: a page beyond it is given back after each call, and
/// then every thread of the process waits until all cores have forgotten it.
const KEEP_RESIDENT: usize = 4 << 20;

/// A wasmtime engine with a clock that ticks while it runs something.
#[derive(Clone)]
pub struct Engine {
    engine: wasmtime::Engine,
    clock: Arc<Clock>,
    running: Arc<AtomicUsize>,
    memory: Arc<Memory>,
    is_concurrent: bool,
}

impl Engine {
    /// An engine with room for `workers` calls at a time.
    ///
    /// # Errors
    /// The machine is not supported, or lacks the address space for the pool.
    pub fn new(workers: usize, clock: &Arc<Clock>) -> Result<Self> {
        let engine = wasmtime::Engine::new(&config(Generation::Wasi02, workers))?;
        let running = clock.add(&engine);
        let memory = Memory::for_calls(workers);
        Ok(Self { engine, clock: Arc::clone(clock), running, memory, is_concurrent: false })
    }

    /// An engine for components of WASI 0.3 with room for `workers` calls at a time, and with the
    /// clock and the memory of this one.
    ///
    /// # Errors
    /// The machine lacks the address space for the pool.
    pub(super) fn concurrent(&self, workers: usize) -> Result<Self> {
        let engine = wasmtime::Engine::new(&config(Generation::Wasi03, workers))?;
        let running = self.clock.add(&engine);
        Ok(Self { engine, running, is_concurrent: true, ..self.clone() })
    }

    /// Whether it runs asynchronous functions. Then it runs all functions on stacks of their own.
    pub(super) fn is_concurrent(&self) -> bool {
        self.is_concurrent
    }

    /// Counts its memory together with that of other engines.
    #[must_use]
    pub(super) fn sharing(self, memory: &Arc<Memory>) -> Self {
        Self { memory: Arc::clone(memory), ..self }
    }

    /// The memory that its instances share.
    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Keeps the clock ticking until the returned guard is dropped.
    pub(super) fn run(&self) -> Running<'_> {
        self.clock.run(&self.running)
    }

    /// Whether this machine can tell which pages of a memory were written, so that memory is kept
    /// between calls.
    pub fn keeps_memory() -> bool {
        PoolingAllocationConfig::is_pagemap_scan_available()
    }

    /// A hash of everything that compiled code depends on besides its component, in hexadecimal.
    pub(super) fn settings(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.engine.precompile_compatibility_hash().hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

impl Deref for Engine {
    type Target = wasmtime::Engine;
    fn deref(&self) -> &wasmtime::Engine {
        &self.engine
    }
}

/// The settings of an engine that runs code.
fn config(generation: Generation, workers: usize) -> Config {
    let mut config = code(generation);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(generation, workers)));
    config
}

/// The settings that the code of components of a generation is compiled with.
pub(super) fn code(generation: Generation) -> Config {
    let mut config = Config::new();
    config
        .memory_init_cow(true)
        .epoch_interruption(true)
        .max_wasm_stack(MAX_STACK)
        // The engine does not need it, and LLVM's unwinder, in static builds, takes milliseconds to unload it.
        .native_unwind_info(false)
        // Otherwise calls are synchronous, on threads of their own.
        .concurrency_support(generation == Generation::Wasi03)
        // Proposals that no plugin needs and that most advisories of the last years are about.
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(false);
    if generation == Generation::Wasi03 {
        config.async_stack_size(CALL_STACK);
    }
    config
}

fn pool(generation: Generation, workers: usize) -> PoolingAllocationConfig {
    // An abandoned call may hold its slot for a while.
    let warm = u32::try_from(workers * 4).unwrap_or(u32::MAX).max(8);
    // Threads that come and go may all have the same lane.
    let slots = warm.saturating_add(MAX_EXTRA_THREADS as u32);
    let instances = Limits::DEFAULT.instances as u32;
    let tables = Limits::DEFAULT.tables as u32;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_stacks(match generation {
            // None is used, and each would cost a system call at every start.
            Generation::Wasi02 => 1,
            // At most one function of each core instance waits on a stack, besides the call itself.
            Generation::Wasi03 => slots * (instances + 1),
        })
        .total_core_instances(slots * instances)
        .total_memories(slots * 2)
        .total_tables(slots * tables)
        .max_core_instances_per_component(instances)
        .max_memories_per_component(4)
        .max_tables_per_component(tables)
        .max_memory_size(Limits::MAX_MEMORY)
        .table_elements(Limits::DEFAULT.table_elements)
        .max_unused_warm_slots(warm);
    if Engine::keeps_memory() {
        pool.pagemap_scan(Enabled::Yes)
            .linear_memory_keep_resident(KEEP_RESIDENT)
            .table_keep_resident(64 << 10);
    }
    pool
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn code_is_kept_apart_for_each_generation() {
        let engine = Engine::new(1, &Clock::start().unwrap()).unwrap();
        let concurrent = engine.concurrent(1).unwrap();
        assert_eq!((engine.is_concurrent(), concurrent.is_concurrent()), (false, true));
        assert_ne!(engine.settings(), concurrent.settings());
        for (generation, engine) in [(Generation::Wasi02, engine), (Generation::Wasi03, concurrent)]
        {
            let compiler = wasmtime::Engine::new(&code(generation)).unwrap();
            let hash = |engine: &wasmtime::Engine| {
                let mut hasher = DefaultHasher::new();
                engine.precompile_compatibility_hash().hash(&mut hasher);
                hasher.finish()
            };
            assert_eq!(hash(&compiler), hash(&engine));
        }
    }
}
