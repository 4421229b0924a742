//! `cofferdam health`: tries whether tools can be called on this machine.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;

use super::args::{Format, Global};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_core::outcome::{Failure, Outcome};
use cofferdam_core::policy::{BackendKind, LimitSettings, Settings};
use cofferdam_engine::health::{Health, Probe, TOO_SLOW};
use cofferdam_engine::host::{Config, Helper, Host, RunOptions};
use cofferdam_engine::journal::{Entry, Journal, Verdict};
use cofferdam_engine::runtime::{BackendError, LoadError};

/// The probe's tool and its arguments: a call that only reads, works in every workspace, and takes
/// the same time for a tree of any size.
const PROBE_CALL: (&str, &str) =
    ("files.read_tree", r#"{"path": ".", "max_depth": 1, "limit": 1}"#);

/// How long the command waits for a probe: a little longer than the time after which it has failed.
const PROBE_TIMEOUT: Duration = TOO_SLOW.saturating_add(Duration::from_millis(500));

pub fn execute(global: &Global, output: &Output) -> Result<u8, CliError> {
    let mut probes = Probes(Vec::new());
    let config = open_config(global).map_err(|error| error.to_string());
    let settings = config.as_ref().map(|config| config.settings.clone()).unwrap_or_default();
    if let Some(host) = probes.run("engine", true, move || open(config?)) {
        probe_host(&mut probes, &host, &settings);
    }
    probes.run("sandbox", false, || Ok((sandbox_tier(&Helper::current())?, ())));
    let workspace = setup::workspace(global).map_err(|error| error.to_string());
    let journal = workspace.map(|workspace| Arc::new(Journal::new(Arc::new(workspace))));
    let tried = journal.clone();
    probes.run("journal", false, move || {
        tried?.check().map_err(|error| error.to_string())?;
        Ok(("can be written".to_owned(), ()))
    });
    let health = Health::of(probes.0);
    if let Ok(journal) = journal {
        journal.append(&Entry::Health(health.record()));
    }
    if !global.quiet {
        match output.format() {
            Format::Json => output.document(&health)?,
            Format::Text => output.text(&text(&health))?,
        }
    }
    Ok(match health.verdict {
        Verdict::Healthy => exit::HEALTHY,
        Verdict::Degraded => exit::DEGRADED,
        Verdict::Failed => exit::FAILED,
    })
}

/// Probes and their results.
struct Probes(Vec<Probe>);

impl Probes {
    /// Runs a probe in a thread of its own; the result of a thread that takes too long is not
    /// waited for.
    fn run<T: Send + 'static>(
        &mut self,
        name: impl Into<String>,
        essential: bool,
        probe: impl FnOnce() -> Result<(String, T), String> + Send + 'static,
    ) -> Option<T> {
        let (sender, answer) = mpsc::channel();
        let started = Instant::now();
        thread::spawn(move || {
            // The receiver may have timed out.
            let _ = sender.send(probe());
        });
        let answer = answer
            .recv_timeout(PROBE_TIMEOUT)
            .unwrap_or_else(|_| Err(format!("no answer after {} s", TOO_SLOW.as_secs())));
        let latency = started.elapsed();
        let (detail, value) = match answer {
            Ok((detail, value)) => (Ok(detail), Some(value)),
            Err(error) => (Err(error), None),
        };
        self.0.push(Probe::new(name, essential, latency, detail));
        value
    }
}

fn open_config(global: &Global) -> Result<Config, CliError> {
    let layers = setup::layers(global, &setup::workspace(global)?)?;
    setup::config(global, global.workspace(), layers.settings)
}

/// A host and its Tokio runtime.
type Opened = Arc<(Host, tokio::runtime::Runtime)>;

fn open(config: Config) -> Result<(String, Opened), String> {
    let runtime =
        Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let host = {
        let _runtime = runtime.enter();
        Host::open(config).map_err(|error| error.to_string())?
    };
    let detail = format!("{} plugins", host.registry().plugins().len());
    Ok((detail, Arc::new((host, runtime))))
}

fn probe_host(probes: &mut Probes, opened: &Opened, settings: &[Settings]) {
    let host = Arc::clone(opened);
    probes.run("call", true, move || {
        let limits = LimitSettings {
            call_ms: u32::try_from(PROBE_TIMEOUT.as_millis()).ok(),
            ..LimitSettings::default()
        };
        let options = RunOptions { limits, ..RunOptions::default() };
        let single = host.1.block_on(host.0.call(PROBE_CALL.0, PROBE_CALL.1, &options));
        match single.map_err(|refusal| refusal.to_string())?.0.outcome {
            Outcome::Executed(_) => Ok((PROBE_CALL.0.to_owned(), ())),
            Outcome::Failed(Failure { code, message, .. }) => Err(format!("{code}: {message}")),
        }
    });
    let host = Arc::clone(opened);
    probes.run("plugins", false, move || Ok((load_plugins(&host.0)?, ())));
    for (kind, name) in configured(settings) {
        let host = Arc::clone(opened);
        let backend = name.clone();
        probes.run(format!("{kind} {name}"), false, move || {
            let _runtime = host.1.enter();
            match host.0.backend_version(kind, &backend) {
                Ok(version) => Ok((version, ())),
                Err(
                    BackendError::Unavailable(why)
                    | BackendError::Invalid(why)
                    | BackendError::Limit(why)
                    | BackendError::Failed(why),
                ) => Err(why),
            }
        });
    }
    for service in opened.0.services() {
        let host = Arc::clone(opened);
        probes.run(service.to_string(), false, move || {
            Ok((host.1.block_on(host.0.reach(&service))?, ()))
        });
    }
}

/// Loads all plugins. One that only lacks a grant is not a failure.
fn load_plugins(host: &Host) -> Result<String, String> {
    let failures = host.load_plugins();
    let (waiting, broken): (Vec<_>, Vec<_>) =
        failures.iter().partition(|(_, error)| matches!(error, LoadError::NotGranted { .. }));
    let all = host.registry().plugins().len();
    if !broken.is_empty() {
        let broken: Vec<String> = broken.iter().map(|(_, error)| error.to_string()).collect();
        return Err(format!("{} of {all} don't load: {}", broken.len(), broken.join("; ")));
    }
    let loaded = format!("{} loaded", all - waiting.len());
    let waiting: Vec<&str> = waiting.iter().map(|(name, _)| *name).collect();
    if waiting.is_empty() {
        return Ok(loaded);
    }
    Ok(format!("{loaded}; off until they are granted what they ask for: {}", waiting.join(", ")))
}

/// The backends that the settings name. A default backend is not probed: its programs may not be
/// installed on every machine.
fn configured(settings: &[Settings]) -> Vec<(BackendKind, String)> {
    let mut names = Vec::new();
    for settings in settings {
        let linters = settings.linters.values().flat_map(|chosen| chosen.names());
        names.extend(linters.map(|name| (BackendKind::Linter, name.clone())));
        for (kind, chosen) in [
            (BackendKind::TestRunner, &settings.test_runners),
            (BackendKind::Builder, &settings.builders),
        ] {
            names.extend(chosen.iter().flatten().map(|name| (kind, name.clone())));
        }
    }
    names.sort();
    names.dedup();
    names
}

fn sandbox_tier(helper: &Helper) -> Result<String, String> {
    let probe = helper.probe().map_err(|error| error.to_string())?;
    match (probe.best(), probe.tier_a, probe.tier_b) {
        (Some(tier), ..) => Ok(format!("tier {tier:?}")),
        (None, Err(a), Err(b)) => Err(format!("tier A: {a}; tier B: {b}")),
        (None, ..) => Err("no tier works".to_owned()),
    }
}

fn text(health: &Health) -> String {
    let probes = health.probes.iter().map(|probe| {
        let verdict = probe.verdict.as_str();
        let Probe { probe, latency_ms, detail, .. } = probe;
        format!("{verdict:<8}  {latency_ms:>10.3} ms  {probe}: {detail}\n")
    });
    let probes: String = probes.collect();
    format!("{} ({:.3} ms)\n\n{probes}", health.verdict.as_str(), health.latency_ms)
}
