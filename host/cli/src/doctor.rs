//! `cofferdam doctor`: tries what the host needs on this machine and reports what works.

mod runners;

use std::path::PathBuf;
use std::sync::Arc;

use cofferdam_sandbox::{Helper, Tier};
use serde::Serialize;
use serde_json::{Value, json};

use super::args::Global;
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_engine::host::Host;
use cofferdam_engine::runtime::{Engine, Runtime, Workers};
use cofferdam_plugin::cache::CodeCache;
use cofferdam_plugin::registry::Registry;
use cofferdam_workspace::{History, InterruptedCommit, NOT_MADE_HERE, OWN, OwnState, SET_ASIDE};

/// Findings about the host's own directory in the workspace.
const KEPT: &str = "kept in the workspace";
const INTERRUPTED: &str = "interrupted commit";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Broken,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    verdict: Verdict,
    detail: String,
}

pub fn execute(global: &Global, output: &Output) -> Result<u8, CliError> {
    let loaded = load_plugins();
    let resident = resident_kib();
    let findings = [
        engine(),
        plugins(loaded),
        cache(),
        workspace(global),
        kept(global),
        interrupted(global),
        settings(global),
        sandbox(),
    ];
    // A host that opens finishes what was interrupted, and sets aside what is not its own; this
    // command only looks.
    let is_unchanged = |finding: &Finding| {
        finding.verdict == Verdict::Ok || ![KEPT, INTERRUPTED].contains(&finding.what)
    };
    let host =
        findings.iter().all(is_unchanged).then(|| setup::host(global, Some(1)).ok()).flatten();
    let (runners, networks) = host.as_ref().map(|(host, runtime)| runners(host, runtime)).unzip();
    let broken = findings.iter().any(|finding| finding.verdict == Verdict::Broken);
    output.document(&json!({
        "version": setup::VERSION,
        "platform": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        "workers": Workers::default_count(),
        "resident_kib_with_plugins_loaded": resident,
        "findings": findings,
        "programs": runners,
        "networks": networks,
    }))?;
    Ok(if broken { exit::HOST } else { exit::OK })
}

/// The toolchains of the account and the runners for the workspace, and the bundles of origins that
/// programs are granted. If the host can't be opened, that is a finding of its own.
fn runners(host: &Host, runtime: &tokio::runtime::Runtime) -> (Value, Vec<Value>) {
    let _runtime = runtime.enter();
    let mut networks = Vec::new();
    for plugin in host.registry().plugins() {
        let name = &plugin.manifest.name;
        networks.extend(host.policy().network(name).iter().filter_map(|entry| {
            let bundle = entry.bundle?;
            Some(json!({
                "plugin": name,
                "programs": entry.programs,
                "bundle": bundle.as_str(),
                "description": bundle.bundle().description,
            }))
        }));
    }
    (runners::describe(host), networks)
}

fn finding(what: &'static str, result: Result<String, String>, verdict: Verdict) -> Finding {
    match result {
        Ok(detail) => Finding { what, verdict: Verdict::Ok, detail },
        Err(detail) => Finding { what, verdict, detail },
    }
}

fn engine() -> Finding {
    let result = Runtime::new(Workers::default_count(), None)
        .map(|_| {
            let pages = if Engine::keeps_memory() { "kept between calls (fast)" } else { "not kept between calls: the kernel has no PAGEMAP_SCAN (Linux 6.7); calls are slower" };
            format!("WebAssembly engine ready; instance memory is {pages}")
        })
        .map_err(|error| error.to_string());
    finding("engine", result, Verdict::Broken)
}

/// All built-in plugins, loaded.
struct Loaded {
    folder: PathBuf,
    count: usize,
    compiled_here: usize,
    /// Kept alive so that the loaded code counts in the process' memory.
    _runtime: Runtime,
}

fn load_plugins() -> Result<Loaded, String> {
    let folder = setup::built_in_plugins().map_err(|error| error.to_string())?;
    let mut registry = Registry::default();
    registry.add_built_in(&folder).map_err(|error| error.to_string())?;
    let runtime =
        Runtime::new(Workers::default_count(), None).map_err(|error| error.to_string())?;
    let mut compiled_here = 0;
    for plugin in registry.plugins() {
        runtime
            .prepare(plugin, &plugin.manifest.requests, &|| false)
            .map_err(|error| error.to_string())?;
        compiled_here += usize::from(!runtime.has_compiled_code(plugin));
    }
    Ok(Loaded { folder, count: registry.plugins().len(), compiled_here, _runtime: runtime })
}

fn plugins(loaded: Result<Loaded, String>) -> Finding {
    let result = loaded.and_then(|Loaded { folder, count, compiled_here, .. }| match compiled_here {
        0 => Ok(format!("{count} in {}, compiled", folder.display())),
        some => Err(format!(
            "{some} of {count} in {} have no compiled code for this machine; they are compiled at first use",
            folder.display()
        )),
    });
    finding("built-in plugins", result, Verdict::Warning)
}

/// The resident memory of this process in KiB, if the system reports it.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn cache() -> Finding {
    let result = match setup::Directories::find() {
        None => {
            Err("there is no home directory; other plugins are compiled in each process".to_owned())
        }
        Some(directories) => CodeCache::open(&directories.cache)
            .map(|_| directories.cache.display().to_string())
            .map_err(|error| {
                format!(
                    "{}: {error}; other plugins are compiled in each process",
                    directories.cache.display()
                )
            }),
    };
    finding("cache of compiled code", result, Verdict::Warning)
}

fn workspace(global: &Global) -> Finding {
    let result = setup::workspace(global)
        .map_err(|error| error.to_string())
        .and_then(|workspace| match tempfile::tempfile_in(workspace.path()) {
            Ok(_) => Ok(format!("{} can be read and written", workspace.name())),
            Err(error) => Err(format!("{} can't be written: {error}; tools that change files will fail, and there is no journal", workspace.name())),
        });
    finding("workspace", result, Verdict::Warning)
}

/// Whether the files in `.cofferdam` are authentic, and which ones were set aside.
fn kept(global: &Global) -> Finding {
    let look = || -> Result<String, String> {
        let workspace = setup::workspace(global).map_err(|error| error.to_string())?;
        match workspace.find_own().map_err(|error| error.to_string())? {
            OwnState::Nothing => Ok(format!("there is no {OWN} yet")),
            OwnState::Foreign(_) => Err(format!(
                "{OWN} does not count: {NOT_MADE_HERE}; what writes there next sets it aside"
            )),
            OwnState::Own(own) => match own.set_aside() {
                Ok(names) if names.is_empty() => Ok(format!("{OWN} was made here")),
                Ok(names) => Err(format!(
                    "these did not count and were set aside in {OWN}/{SET_ASIDE}; look at them, \
                     and remove them: {}",
                    names.join(", ")
                )),
                Err(error) => Err(format!("{OWN}/{SET_ASIDE}: {error}")),
            },
        }
    };
    finding(KEPT, look(), Verdict::Warning)
}

/// Whether a commit was interrupted that the next call has to recover.
fn interrupted(global: &Global) -> Finding {
    let workspace = setup::workspace(global).map_err(|error| error.to_string());
    let found = workspace.and_then(|workspace| {
        History::new(Arc::new(workspace)).interrupted().map_err(|error| error.to_string())
    });
    let verdict = match &found {
        Ok(Some(InterruptedCommit { blocks: true, .. })) => Verdict::Broken,
        _ => Verdict::Warning,
    };
    let result = found.and_then(|found| match found {
        None => Ok("none".to_owned()),
        Some(commit) => Err(commit.message),
    });
    finding(INTERRUPTED, result, verdict)
}

fn settings(global: &Global) -> Finding {
    let result = setup::workspace(global)
        .and_then(|workspace| setup::layers(global, &workspace))
        .map_err(|error| error.to_string())
        .and_then(|layers| {
            if layers.unaccepted {
                return Err("the workspace's cofferdam.toml does not count: nobody has accepted it".to_owned());
            }
            let (host, _runtime) =
                setup::host(global, Some(1)).map_err(|error| error.to_string())?;
            if !host.unknown().is_empty() {
                return Err(host.unknown().join("; "));
            }
            Ok(match layers.settings.len() {
                0 => "none: built-in plugins read and change files of the workspace, others get nothing".to_owned(),
                count => format!("{count} file(s) count"),
            })
        });
    finding("settings", result, Verdict::Warning)
}

/// Which kinds of sandbox for native programs work on this machine.
fn sandbox() -> Finding {
    let result = Helper::current().probe().map_err(|error| error.to_string()).and_then(|probe| {
        let tier = |name: &str, tier: &Result<(), String>| match tier {
            Ok(()) => format!("tier {name} works"),
            Err(why) => format!("tier {name} does not work: {why}"),
        };
        let tiers = [tier("A", &probe.tier_a), tier("B", &probe.tier_b)].join("; ");
        let limits = match probe.best() {
            Some(Tier::B) => {
                "; programs that may change files work on a copy of the workspace at another path, \
                 so editable installs don't lead to it, and have no sockets but pairs and no \
                 notifications of changed files (docs/backends.md)"
            }
            _ => "",
        };
        let detail = format!("{tiers}; Landlock {}{limits}", probe.landlock);
        if probe.best().is_some() { Ok(detail) } else { Err(detail) }
    });
    finding("sandbox for native programs", result, Verdict::Warning)
}
