//! Components that begin with a prepared memory. Packing such a component calls its export `initialize`
//! once, and the memory that it leaves becomes the memory that each instance begins with. Instances map
//! it copy-on-write, so they pay only for the pages that they write.
//!
//! The code runs without any access: every import traps, except for the environment, which is empty, and
//! for random numbers and a clock, which are fixed so that packing is reproducible.

use std::borrow::Cow;

use futures_util::FutureExt as _;
use wasmtime::component::{Component, Instance, Lift, Linker, WasmList};
use wasmtime::{Config, Engine, OptLevel, Result, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wizer::{ComponentInstanceState, Wizer};

use super::LoadError;
use cofferdam_plugin::pack;

/// The export that prepares the memory.
const INITIALIZE: &str = "initialize";

/// The largest memory that it may use, in bytes.
const MAX_MEMORY: usize = 1 << 30;

/// How many instructions it may execute: some minutes of work.
const FUEL: u64 = 300_000_000_000;

/// Stands for all random numbers.
const FIXED: u64 = 0x0063_6f66_6665_7264;

/// Returns the component with the memory that its export `initialize` leaves. A component that has no
/// such export is returned as it is.
///
/// # Errors
/// [`LoadError::Compile`] if the component is not valid, has what a memory can't be kept of, or
/// `initialize` traps.
pub fn initialized(component: &[u8]) -> std::result::Result<Cow<'_, [u8]>, LoadError> {
    let is_exported = pack::exports(component)
        .is_ok_and(|exports| exports.iter().any(|export| export == INITIALIZE));
    if !is_exported {
        return Ok(Cow::Borrowed(component));
    }
    let failed = |error| LoadError::Compile(format!("{INITIALIZE}: {error:#}"));
    run(component).map(Cow::Owned).map_err(failed)
}

fn run(component: &[u8]) -> Result<Vec<u8>> {
    // The code runs once, so it is compiled fast.
    let mut config = Config::new();
    config.cranelift_opt_level(OptLevel::None).consume_fuel(true).concurrency_support(false);
    let engine = Engine::new(&config)?;
    let mut wizer = Wizer::new();
    // Without the export, the component would refer to a function that its module no longer has.
    wizer.init_func(INITIALIZE).keep_init_func(true);
    let (parsed, instrumented) = wizer.instrument_component(component)?;
    let instrumented = Component::new(&engine, &instrumented)?;
    let mut linker = Linker::<StoreLimits>::new(&engine);
    linker.allow_shadowing(true);
    linker.define_unknown_imports_as_traps(&instrumented)?;
    for (name, _) in instrumented.component_type().imports(&engine) {
        add_fixed(&mut linker, name)?;
    }
    let limits = StoreLimitsBuilder::new().memory_size(MAX_MEMORY).trap_on_grow_failure(true);
    let mut store = Store::new(&engine, limits.build());
    store.limiter(|limits| limits);
    store.set_fuel(FUEL)?;
    let instance = linker.instantiate(&mut store, &instrumented)?;
    instance.get_typed_func::<(), ()>(&mut store, INITIALIZE)?.call(&mut store, ())?;
    let mut state = State { store, instance, error: None };
    // Nothing in it waits.
    let snapshot = wizer.snapshot_component(&parsed, &mut state).now_or_never();
    match state.error {
        Some(error) => Err(error),
        None => snapshot.unwrap_or_else(|| Err(wasmtime::Error::msg("it waits"))),
    }
}

/// Links an empty environment, an interface of fixed random numbers, or a clock that stands still.
fn add_fixed(linker: &mut Linker<StoreLimits>, interface: &str) -> Result<()> {
    let name = interface.split('@').next().unwrap_or_default();
    if name == "wasi:cli/environment" {
        let mut functions = linker.instance(interface)?;
        functions
            .func_wrap("get-environment", |_, (): ()| Ok((Vec::<(String, String)>::new(),)))?;
        functions.func_wrap("get-arguments", |_, (): ()| Ok((Vec::<String>::new(),)))?;
        return functions.func_wrap("initial-cwd", |_, (): ()| Ok((None::<String>,)));
    }
    if !matches!(
        name,
        "wasi:random/random"
            | "wasi:random/insecure"
            | "wasi:random/insecure-seed"
            | "wasi:clocks/monotonic-clock"
    ) {
        return Ok(());
    }
    let mut functions = linker.instance(interface)?;
    for name in ["get-random-u64", "get-insecure-random-u64", "now", "resolution"] {
        functions.func_wrap(name, |_, (): ()| Ok((FIXED,)))?;
    }
    for name in ["get-random-bytes", "get-insecure-random-bytes"] {
        functions.func_wrap(name, |_, (count,): (u64,)| {
            Ok((vec![0x63_u8; usize::try_from(count).unwrap_or_default().min(1 << 16)],))
        })?;
    }
    functions.func_wrap("insecure-seed", |_, (): ()| Ok(((FIXED, FIXED),)))
}

/// An instance whose memory is read.
struct State {
    store: Store<StoreLimits>,
    instance: Instance,
    /// Why something could not be read.
    error: Option<wasmtime::Error>,
}

impl State {
    fn try_call<R: Lift + Send + Sync + 'static, T>(
        &mut self,
        interface: &str,
        function: &str,
        take: impl FnOnce(&Store<StoreLimits>, R) -> T,
    ) -> Result<T> {
        let missing = || wasmtime::Error::msg(format!("{interface} has no {function}"));
        let (store, instance) = (&mut self.store, &self.instance);
        let (_, parent) = instance.get_export(&mut *store, None, interface).ok_or_else(missing)?;
        let found = instance.get_export(&mut *store, Some(&parent), function);
        let (_, index) = found.ok_or_else(missing)?;
        let function = instance.get_typed_func::<(), (R,)>(&mut *store, index)?;
        let (value,) = function.call(&mut *store, ())?;
        Ok(take(store, value))
    }

    /// Calls an accessor. Its errors are kept.
    fn call<R: Lift + Send + Sync + 'static, T: Default>(
        &mut self,
        interface: &str,
        function: &str,
        take: impl FnOnce(&Store<StoreLimits>, R) -> T,
    ) -> T {
        self.try_call(interface, function, take).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            T::default()
        })
    }
}

impl ComponentInstanceState for State {
    async fn call_func_ret_list_u8(
        &mut self,
        interface: &str,
        function: &str,
        contents: impl FnOnce(&[u8]) + Send,
    ) {
        self.call(interface, function, |store, list: WasmList<u8>| {
            contents(list.as_le_slice(store))
        });
    }

    async fn call_func_ret_s32(&mut self, interface: &str, function: &str) -> i32 {
        self.call(interface, function, |_, value: i32| value)
    }

    async fn call_func_ret_s64(&mut self, interface: &str, function: &str) -> i64 {
        self.call(interface, function, |_, value: i64| value)
    }

    async fn call_func_ret_f32(&mut self, interface: &str, function: &str) -> u32 {
        self.call(interface, function, |_, value: f32| value.to_bits())
    }

    async fn call_func_ret_f64(&mut self, interface: &str, function: &str) -> u64 {
        self.call(interface, function, |_, value: f64| value.to_bits())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A component that adds one to a number in its memory when it is initialized.
    fn counter(body: &str) -> Vec<u8> {
        wat::parse_str(format!(
            r#"(component
                (core module $m
                    (memory (export "memory") 1)
                    (func (export "initialize") {body})
                    (func (export "get") (result i32) (i32.load (i32.const 8))))
                (core instance $i (instantiate $m))
                (func (export "initialize") (canon lift (core func $i "initialize")))
                (func (export "get") (result s32) (canon lift (core func $i "get"))))"#
        ))
        .unwrap()
    }

    #[test]
    fn instances_begin_with_the_memory_that_initialize_leaves() {
        let bytes =
            counter("(i32.store (i32.const 8) (i32.add (i32.load (i32.const 8)) (i32.const 42)))");
        let bytes = initialized(&bytes).unwrap();
        let engine = Engine::default();
        let component = Component::new(&engine, &bytes).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate(&mut store, &component).unwrap();
        let get = instance.get_typed_func::<(), (i32,)>(&mut store, "get").unwrap();
        assert_eq!(get.call(&mut store, ()).unwrap(), (42,));
    }

    #[test]
    fn a_trap_of_initialize_is_an_error() {
        // It ends, however long it would run, and has bounded memory.
        let grow = "(loop (br_if 0 (i32.ne (memory.grow (i32.const 1000)) (i32.const -1))))";
        for body in ["unreachable", grow] {
            let error = initialized(&counter(body)).unwrap_err();
            assert!(error.to_string().contains("initialize"), "{error}");
        }
        assert!(initialized(b"no component").is_ok_and(|same| *same == *b"no component"));
    }
}
