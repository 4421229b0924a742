//! Ten thousand generated components through loading and calling: none of them may make the host
//! panic, hang or grow. They are the same ones in every run; a failure names its case.
//!
//! Valid components and modules are made by wasm-smith (`tests/smith`); the rest are small plugins
//! with flipped bytes, sections out of place, cut ends and strange manifests.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_core::outcome::Outcome;
use cofferdam_core::policy::{LimitSettings, Settings};
use cofferdam_engine::call::Observer;
use cofferdam_engine::host::{Config, Host, RunOptions};
use cofferdam_engine::runtime;
use cofferdam_plugin::manifest::{Manifest, SECTION};
use cofferdam_plugin::registry::Registry;
use cofferdam_plugin::{check, pack};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tracing::Level;
use wasm_encoder::{
    ComponentSection, ComponentSectionId, CustomSection, InstanceSection, ModuleArg, RawSection,
};

use crate::hostile::component::{Component, manifest};
use crate::hostile::engine::ANSWER;
use crate::support::{Place, built, project};

/// How many components there are: a quarter is wasm-smith's, a quarter has a module of its, the
/// rest are spoilt.
const CASES: usize = 10_000;

/// How many of them share a host.
const BATCH: usize = 100;

/// How many batches run side by side.
const THREADS: usize = 2;

/// When nothing has moved for this long, something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// By how much the process may be larger in the last quarter than in the one before, in KiB.
const GROWTH: u64 = 16 << 10;

/// Has glibc give back what is free: what it keeps for each thread would hide what grows.
const FRUGAL: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ("MALLOC_TRIM_THRESHOLD_", "65536"),
];

/// A case that takes longer is named in the figures.
const SLOW: Duration = Duration::from_secs(1);

/// In a process of its own: its memory is measured.
#[test]
#[expect(clippy::disallowed_methods, reason = "this test once more")]
fn ten_thousand_generated_components_do_no_harm() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "campaign::in_a_process_of_its_own", "--ignored", "--nocapture"])
        .envs(FRUGAL)
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success(), "{}: {stdout}{stderr}", output.status);
    assert!(stdout.contains("1 passed"), "{stdout}");
}

#[test]
#[ignore = "ten_thousand_generated_components_do_no_harm runs it"]
#[expect(clippy::print_stdout, reason = "figures for whoever looks")]
fn in_a_process_of_its_own() {
    let campaign = Campaign::new();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let sizes = Mutex::new(Vec::new());
    let tally = Mutex::new(BTreeMap::<String, usize>::new());
    let run = || {
        let runtime = runtime::Runtime::new(1, None).unwrap();
        loop {
            let first = next.fetch_add(1, Ordering::Relaxed) * BATCH;
            if first >= CASES {
                break;
            }
            let ended = campaign.batch(first, &runtime, &done);
            let mut tally = tally.lock().unwrap();
            for (what, count) in ended {
                *tally.entry(what).or_default() += count;
            }
            sizes.lock().unwrap().push(resident_kib());
        }
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        let (mut seen, mut since) = (0, Instant::now());
        while running.iter().any(|running| !running.is_finished()) {
            thread::sleep(Duration::from_millis(50));
            let now = done.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
            assert!(since.elapsed() < PATIENCE, "it hangs after {seen} cases");
        }
    });
    let sizes = sizes.into_inner().unwrap();
    let tally = tally.into_inner().unwrap();
    for (what, count) in &tally {
        println!("{count:6} {what}");
    }
    // Now and then the other thread is at a large case just then: that is no growth.
    let median = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part[part.len() / 2]
    };
    let (third, last) = (
        median(&sizes[sizes.len() / 2..sizes.len() * 3 / 4]),
        median(&sizes[sizes.len() * 3 / 4..]),
    );
    println!("resident: {third} KiB in the third quarter, {last} KiB in the last");
    assert!(last <= third + GROWTH, "it grows: {sizes:?}");
    // Each kind of case has come as far as it can.
    let count = |what: &str| {
        tally.iter().filter(|(key, _)| key.starts_with(what)).map(|(_, count)| count).sum::<usize>()
    };
    assert_eq!(count("honest: executed"), CASES / BATCH);
    for (kind, least) in [
        ("smith component: trap WrongWorld", 1500),
        ("smith module: executed", 1500),
        ("spoilt: not taken", 1000),
        ("spoilt: executed", 250),
        ("spoilt: trap InvalidComponent", 1000),
    ] {
        assert!(count(kind) >= least, "{kind}: {}", count(kind));
    }
}

/// What cases are made of.
struct Campaign {
    components: Vec<Vec<u8>>,
    modules: Vec<Vec<u8>>,
    frame: Vec<u8>,
    real: Vec<u8>,
}

struct Silent;

impl Observer for Silent {
    fn message(&self, _: &str, _: Level, _: &str) {}
    fn progress(&self, _: &str, _: u64, _: Option<u64>, _: &str) {}
}

/// A case that says its number when it makes the host panic, or takes long.
struct Case {
    number: usize,
    begun: Instant,
}

impl Case {
    fn begin(number: usize) -> Self {
        Self { number, begun: Instant::now() }
    }
}

impl Drop for Case {
    #[expect(clippy::print_stderr, reason = "which case it was")]
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        if thread::panicking() || took > SLOW {
            eprintln!("case {}: {took:?}", self.number);
        }
    }
}

impl Campaign {
    fn new() -> Self {
        let generated = |kind: &str| {
            let file = built().parent().unwrap().join("programs/smith").join(kind);
            let bytes = fs::read(&file).unwrap_or_else(|error| {
                panic!("{}: {error}; run `cargo xtask test`", file.display())
            });
            let mut all = Vec::new();
            let mut rest = &bytes[..];
            while let Some((length, following)) = rest.split_first_chunk() {
                let (one, following) = following.split_at(u32::from_le_bytes(*length) as usize);
                all.push(one.to_vec());
                rest = following;
            }
            assert_eq!(all.len(), CASES / 4, "{}", file.display());
            all
        };
        Self {
            components: generated("components"),
            modules: generated("modules"),
            frame: Component::new(ANSWER).build(),
            real: fs::read(project().join("tests/frozen/0.1.0/frozen.wasm")).unwrap(),
        }
    }

    /// The bytes of a case, and its kind.
    fn case(&self, number: usize) -> (&'static str, Vec<u8>) {
        let name = format!("p{number}");
        match number % 4 {
            0 => ("smith component", packed(&self.components[number / 4], &name)),
            1 => ("smith module", packed(&self.with_module(&self.modules[number / 4]), &name)),
            _ => {
                let mut random = Random::new(number);
                let whole = if random.below(50) == 0 {
                    self.real.clone()
                } else if random.below(2) == 0 {
                    packed(&self.frame, &name)
                } else {
                    packed(
                        &self.with_module(&self.modules[random.below(self.modules.len())]),
                        &name,
                    )
                };
                ("spoilt", self.spoilt(whole, &mut random))
            }
        }
    }

    /// An honest plugin in which a module is begun as well.
    fn with_module(&self, module: &[u8]) -> Vec<u8> {
        let mut bytes = self.frame.clone();
        RawSection { id: ComponentSectionId::CoreModule.into(), data: module }
            .append_to_component(&mut bytes);
        let mut instances = InstanceSection::new();
        // The frame has two modules of its own.
        instances.instantiate(2, std::iter::empty::<(&str, ModuleArg)>());
        instances.append_to_component(&mut bytes);
        bytes
    }

    fn spoilt(&self, mut bytes: Vec<u8>, random: &mut Random) -> Vec<u8> {
        match random.below(6) {
            0 | 1 => {
                // Mostly behind the manifest, where it is more than text.
                let manifest = 8 + sections(&bytes)[0].len();
                let first = if random.below(8) == 0 { 0 } else { manifest };
                for _ in 0..=random.below(3) {
                    let at = first + random.below(bytes.len() - first);
                    bytes[at] = random.byte();
                }
            }
            2 => {
                bytes.truncate(random.below(bytes.len()));
                bytes.extend((0..random.below(20)).map(|_| random.byte()));
            }
            3 => {
                let other = random.one_of(&self.components).clone();
                let mut parts = sections(&bytes);
                let strange = sections(&other);
                for _ in 0..=random.below(2) {
                    let (a, b) = (random.below(parts.len()), random.below(parts.len()));
                    match random.below(4) {
                        0 => parts.swap(a, b),
                        1 => parts.insert(a, parts[b]),
                        2 if !strange.is_empty() => {
                            parts.insert(a, strange[random.below(strange.len())])
                        }
                        _ if parts.len() > 1 => drop(parts.remove(a)),
                        _ => {}
                    }
                }
                bytes = [&bytes[..8], &parts.concat()].concat();
            }
            4 => {
                let other = random.one_of(&self.modules);
                let at = random.below(bytes.len());
                bytes.splice(at..at, other.iter().copied());
            }
            _ => {
                let mut manifest =
                    serde_json::to_value(pack::manifest(&bytes, "it").unwrap()).unwrap();
                for _ in 0..=random.below(2) {
                    change(&mut manifest, random);
                }
                let sections = sections(&bytes).split_off(1).concat();
                let mut changed = bytes[..8].to_vec();
                let data = manifest.to_string().into_bytes();
                CustomSection { name: SECTION.into(), data: data.into() }
                    .append_to_component(&mut changed);
                bytes = [changed, sections].concat();
            }
        }
        bytes
    }

    /// Takes in as many cases as there are in a batch, and calls everything that can be called;
    /// then an honest plugin, which has to answer. How often what came of it.
    fn batch(
        &self,
        first: usize,
        runtime: &runtime::Runtime,
        done: &AtomicUsize,
    ) -> BTreeMap<String, usize> {
        let place = Place::new();
        let mut tally = BTreeMap::new();
        let mut count = |what: String| *tally.entry(what).or_default() += 1;
        let (mut plugins, mut kinds) = (Vec::new(), BTreeMap::new());
        let mut names = HashSet::from(["honest".to_owned()]);
        for number in first..first + BATCH {
            let _case = Case::begin(number);
            let (kind, bytes) = self.case(number);
            let file = place.home_file(&format!("{number}.wasm"));
            fs::write(&file, &bytes).unwrap();
            let checked = check::packed("it", &bytes);
            let mut registry = Registry::default();
            match registry.add_file(&file) {
                Err(error) => {
                    // Both find it, or neither.
                    assert!(!checked.findings.is_empty(), "{error}");
                    count(format!("{kind}: not taken"));
                }
                Ok(()) => {
                    let name = registry.plugins()[0].manifest.name.clone();
                    if names.insert(name.clone()) {
                        kinds.insert(name, (number, kind));
                        plugins.push(file);
                    }
                }
            }
            if number.is_multiple_of(10) {
                runtime.check("it", &bytes, checked.manifest.as_ref());
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        let honest = place.home_file("honest.wasm");
        fs::write(&honest, packed(&self.frame, "honest")).unwrap();
        plugins.push(honest);
        let timers = Builder::new_current_thread().enable_all().build().unwrap();
        let host = {
            let _timers = timers.enter();
            open(&place, plugins)
        };
        let options = RunOptions {
            limits: LimitSettings {
                call_ms: Some(500),
                memory_mb: Some(16),
                ..LimitSettings::default()
            },
            ..RunOptions::default()
        };
        for plugin in host.registry().plugins() {
            let name = &plugin.manifest.name;
            let (number, kind) = kinds.get(name).copied().unwrap_or((first, "honest"));
            let _case = Case::begin(number);
            for tool in &plugin.manifest.tools {
                let tool = format!("{name}.{}", tool.name);
                let options = if kind == "honest" { &RunOptions::default() } else { &options };
                match timers.block_on(host.call(&tool, "{}", options)) {
                    Err(_) => count(format!("{kind}: call not taken")),
                    Ok((answer, _)) => match answer.outcome {
                        Outcome::Executed(_) => count(format!("{kind}: executed")),
                        Outcome::Failed(failure) => {
                            assert!(!failure.message.contains("host failed"), "{failure:?}");
                            count(format!("{kind}: {} {}", failure.status.as_str(), failure.code));
                        }
                    },
                }
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        tally
    }
}

fn open(place: &Place, plugins: Vec<PathBuf>) -> Host {
    Host::open(Config {
        plugins,
        settings: vec![Settings::parse("").unwrap()],
        observer: std::sync::Arc::new(Silent),
        workers: Some(1),
        ..Config::new(place.workspace())
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn packed(component: &[u8], name: &str) -> Vec<u8> {
    let mut manifest = manifest();
    manifest["name"] = json!(name);
    // What asks for nothing needs no grant.
    manifest["requests"] = json!({});
    let manifest = Manifest::parse(manifest.to_string().as_bytes()).unwrap();
    pack::pack(component, &manifest).unwrap()
}

/// The sections of a component, each with its header.
fn sections(bytes: &[u8]) -> Vec<&[u8]> {
    let mut sections = Vec::new();
    let mut at = 8;
    while at < bytes.len() {
        let (mut length, mut end) = (0, at + 1);
        for shift in (0..).step_by(7) {
            let byte = bytes[end];
            length |= usize::from(byte & 0x7f) << shift;
            end += 1;
            if byte < 0x80 {
                break;
            }
        }
        sections.push(&bytes[at..end + length]);
        at = end + length;
    }
    sections
}

/// Puts something strange somewhere into a document.
fn change(document: &mut Value, random: &mut Random) {
    match document {
        Value::Object(fields) if !fields.is_empty() && random.below(5) > 0 => {
            let keys: Vec<String> = fields.keys().cloned().collect();
            let key = random.one_of(&keys).clone();
            match random.below(8) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert(format!("{key}\u{202e}"), strange(random))),
                _ => change(&mut fields[&key], random),
            }
        }
        Value::Array(items) if !items.is_empty() && random.below(5) > 0 => {
            let at = random.below(items.len());
            match random.below(4) {
                0 => items.push(items[at].clone()),
                _ => change(&mut items[at], random),
            }
        }
        other => *other = strange(random),
    }
}

fn strange(random: &mut Random) -> Value {
    match random.below(12) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(u64::MAX),
        3 => json!(1e308),
        4 => json!(""),
        5 => json!("../\u{1b}[2J\0"),
        6 => json!("x".repeat(70_000)),
        7 => json!({"$ref": "#"}),
        8 => json!({"pattern": "(a+)+$"}),
        9 => (0..random.below(200)).fold(json!([]), |inner, _| json!([inner])),
        10 => json!({}),
        _ => json!([true]),
    }
}

/// Xorshift (Marsaglia, 2003): the same numbers in every run.
struct Random(u64);

impl Random {
    fn new(seed: usize) -> Self {
        Self((seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 8).unwrap() % end.max(1)
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 32) as u8
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// What this process has in memory.
fn resident_kib() -> u64 {
    let status = fs::read_to_string(Path::new("/proc/self/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
