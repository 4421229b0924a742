//! `smith KIND COUNT FILE` generates COUNT valid components (`components`) or core modules without
//! imports (`modules`) and writes them to a file, each after its length (4 bytes, little-endian).
//! They are the same in every run.

use std::io::Write as _;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use arbitrary::Unstructured;
use wasm_smith::{Component, Config, Module};

/// The longest random input that one is generated from, in bytes.
const LONGEST: usize = 4096;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [kind, count, file] = &arguments[..] else { bail!("smith KIND COUNT FILE") };
    let count: usize = count.parse().context("COUNT")?;
    let make = match kind.as_str() {
        "components" => component,
        "modules" => module,
        _ => bail!("KIND is components or modules"),
    };
    // Some inputs give no component.
    let made = (1..).filter_map(make).take(count);
    let mut all = Vec::new();
    for bytes in made {
        all.write_all(&u32::try_from(bytes.len())?.to_le_bytes())?;
        all.write_all(&bytes)?;
    }
    fs::write(file, all).with_context(|| file.clone())
}

/// Xorshift (Marsaglia, 2003), with the same bytes in every run.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let length = 64 + usize::try_from(next() % LONGEST as u64).unwrap_or_default();
    (0..length).map(|_| (next() >> 32) as u8).collect()
}

/// The features that the engine supports; one in eight uses all features.
fn config(seed: u64) -> Config {
    let everything = seed.is_multiple_of(8);
    Config {
        exceptions_enabled: everything,
        gc_enabled: everything,
        memory64_enabled: everything,
        // References to the host need a garbage collector.
        reference_types_enabled: everything,
        relaxed_simd_enabled: everything,
        tail_call_enabled: everything,
        threads_enabled: everything,
        wide_arithmetic_enabled: everything,
        compact_imports_enabled: everything,
        max_memories: if everything { 4 } else { 1 },
        generate_custom_sections: seed.is_multiple_of(5),
        ..Config::default()
    }
}

fn component(seed: u64) -> Option<Vec<u8>> {
    let noise = noise(seed);
    let made = Component::new(config(seed), &mut Unstructured::new(&noise));
    made.ok().map(|component| component.to_bytes())
}

fn module(seed: u64) -> Option<Vec<u8>> {
    let noise = noise(seed);
    let config = Config {
        max_imports: 0,
        // Small enough for a slot of the engine's pool.
        max_memory32_bytes: if seed.is_multiple_of(4) { 1 << 32 } else { 1 << 21 },
        max_table_elements: if seed.is_multiple_of(4) { 1_000_000 } else { 1000 },
        ..config(seed)
    };
    let made = Module::new(config, &mut Unstructured::new(&noise));
    made.ok().map(|module| module.to_bytes())
}
