//! The facade: open a host on a workspace, give it an envelope, get the results.
//!
//! | module | what |
//! |---|---|
//! | [`config`] | what a host is opened with |
//! | [`run`] | checking and running calls |
//! | [`approval`] | calls that a person has to say yes to |
//! | [`repeats`] | how often a tool is called for the same thing |
//! | [`commit`] | beginning and committing transactions |
//! | [`record`] | what the journal, the figures and telemetry get |
//! | [`pipeline`] | a round of Designer, QA and Main |
//! | [`backends`] | backends without a tool in between |
//! | [`unknown`] | settings that name what is not there |

mod approval;
mod backends;
mod commit;
mod config;
mod executed;
mod pipeline;
mod record;
mod repeats;
mod run;
mod unknown;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;

use self::repeats::Repeats;
use crate::agent::{Agents, Team};
use crate::capability::{Http, Programs};
use crate::dispatch::{Refusal, RefusalCode};
use crate::journal::{Entry, Event, Journal};
use crate::runtime::{Backends, Compiler, LoadError, Observer, Runtime, Workers};
use crate::stats::{Stats, Summary};
use crate::telemetry::Telemetry;
use cofferdam_core::contract::Contracts;
use cofferdam_core::policy::{Policy, Role};
use cofferdam_plugin::cache::CodeCache;
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::registry::{Plugin, Registry};
use cofferdam_workspace::Workspace;

pub use approval::{Approver, Proposal, outdated};
pub use config::{Config, OpenError};
pub use pipeline::{Inputs, PipelineOptions, Source};
pub use run::{Run, RunOptions, Single};

/// Starts the host's other processes: an executable that calls [`run_if_helper`].
pub use cofferdam_sandbox::Helper;

/// Does the work of one of the host's other processes, if this process was started as one. An
/// executable that is named as [`Helper`] calls this first of all in `main`, before it starts a
/// thread or opens a file, and returns the status that it gets.
pub fn run_if_helper() -> Option<ExitCode> {
    cofferdam_sandbox::run_if_helper().or_else(crate::runtime::compile_if_asked)
}

/// Plugins, policy and a workspace, ready for calls.
pub struct Host {
    registry: Registry,
    policy: Policy,
    unknown: Vec<String>,
    runtime: Arc<Runtime>,
    backends: Arc<Backends>,
    programs: Arc<Programs>,
    agents: Agents,
    team: Arc<Team>,
    contracts: Contracts,
    http: Arc<Http>,
    standing: Arc<Standing>,
}

/// What hosts that follow each other on a workspace have in common.
struct Standing {
    repeats: Repeats,
    workers: Workers,
    workspace: Arc<Workspace>,
    journal: Arc<Journal>,
    stats: Mutex<Stats>,
    observer: Arc<dyn Observer>,
    commits: AtomicU64,
    telemetry: Option<Arc<Telemetry>>,
}

impl Host {
    /// Opens a host, within a tokio runtime with time enabled: that is where deadlines and
    /// plugins' sleeps are waited for.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(mut config: Config) -> Result<Self, OpenError> {
        let timers = Handle::try_current()?;
        let workspace = Arc::new(Workspace::open(&config.workspace, config.secret.clone())?);
        // Without a cache everything works, only slower: a home that can't be written is no
        // reason to refuse.
        let cache = config.cache.as_deref().and_then(|directory| {
            CodeCache::open(directory)
                .map_err(|error| tracing::warn!("compiled code is not kept: {error}"))
                .ok()
        });
        let workers = config.workers.unwrap_or_else(Workers::default_count).max(1);
        let runtime = Runtime::new(workers, cache)?;
        let standing = Standing {
            repeats: Repeats::default(),
            workers: Workers::new(workers, timers).map_err(OpenError::Threads)?,
            journal: Arc::new(Journal::new(Arc::clone(&workspace))),
            workspace,
            stats: Mutex::default(),
            observer: Arc::clone(&config.observer),
            commits: AtomicU64::default(),
            telemetry: config.telemetry.take().map(|it| Telemetry::start(it, workers)),
        };
        standing.journal.record_commits();
        Self::with(Arc::new(standing), runtime, config)
    }

    /// A host that takes this one's place, with other settings and plugins: it goes on with the
    /// same workspace, threads, observer, journal, telemetry, figures and counts. Calls of both
    /// run beside each other; what only this one has loaded is released with it.
    ///
    /// A file of a plugin that is in the workspace, where an agent may have changed it, has to be
    /// what it was.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn renewed(&self, config: Config) -> Result<Self, OpenError> {
        let named = config.plugins.clone();
        let host = Self::with(Arc::clone(&self.standing), self.runtime.renewed(), config)?;
        let was = |path: &Path| self.registry.plugins().iter().find(|was| was.component == path);
        for plugin in host.registry.plugins() {
            let path = &plugin.component;
            if named.contains(path)
                && self.standing.workspace.holds(path)
                && was(path).is_none_or(|was| was.digest != plugin.digest)
            {
                return Err(OpenError::InWorkspace(path.clone()));
            }
        }
        host.append(Entry::Event(Event::new(Event::RENEWED, host.since(self))));
        Ok(host)
    }

    /// Which plugins are other ones than another host has, in words.
    fn since(&self, before: &Self) -> String {
        let of = |host: &Self| -> BTreeMap<String, (String, Option<Digest>)> {
            let plugin = |plugin: &Arc<Plugin>| {
                let Manifest { name, version, .. } = &plugin.manifest;
                (name.clone(), (version.clone(), plugin.digest))
            };
            host.registry.plugins().iter().map(plugin).collect()
        };
        let (old, new) = (of(before), of(self));
        let added = new.keys().filter(|name| !old.contains_key(*name));
        let changed = new.iter().filter(|(name, is)| old.get(*name).is_some_and(|was| was != *is));
        let removed = old.keys().filter(|name| !new.contains_key(*name));
        let words: Vec<String> = added
            .map(|name| format!("{name} added"))
            .chain(changed.map(|(name, _)| format!("{name} changed")))
            .chain(removed.map(|name| format!("{name} removed")))
            .collect();
        words.join(", ")
    }

    fn with(standing: Arc<Standing>, runtime: Runtime, config: Config) -> Result<Self, OpenError> {
        let mut policy = Policy::new(&config.settings)?;
        if let Some(role) = config.role {
            policy = policy.with_role(role);
        }
        let mut registry = Registry::default();
        if let Some(folder) = &config.built_in {
            registry.add_built_in(folder)?;
        }
        config.pinned.iter().try_for_each(|pinned| registry.add_pinned(pinned))?;
        for file in &config.plugins {
            registry.add_file(file)?;
        }
        let unknown = unknown::names(&config.settings, &policy, &registry);
        unknown.iter().for_each(|unknown| tracing::warn!("{unknown}"));
        let helper = config.sandbox.clone();
        let compiler = helper.map(|helper| Compiler::new(helper, policy.limits()));
        let runtime = Arc::new(runtime.compiling_with(compiler));
        let backends = Backends::new(Arc::clone(&runtime), &registry, &policy);
        let agents = Agents::new(Arc::clone(&standing.workspace), config.environment.clone());
        let most = policy.limits().output;
        let mut contracts = Contracts::built_in()?;
        config.contracts.into_iter().for_each(|contract| contracts.add(contract));
        let team = Team::new(agents.clone(), &policy, &contracts, most)?;
        let http = Http::new(config.environment.clone());
        let programs = Programs::new(config.sandbox, policy.programs().clone(), config.environment);
        Ok(Self {
            registry,
            policy,
            unknown,
            runtime,
            backends: Arc::new(backends),
            programs: Arc::new(programs),
            agents,
            team: Arc::new(team),
            contracts,
            http: Arc::new(http),
            standing,
        })
    }

    /// All plugins and tools.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Who may do what.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the settings name and nobody here answers to, one sentence for each.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// What takes telemetry, where it is on.
    pub fn telemetry(&self) -> Option<&Arc<Telemetry>> {
        self.standing.telemetry.as_ref()
    }

    /// What agents' answers keep to: the built-in contracts, and those that the host was opened
    /// with.
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// The figures of this process' calls.
    pub fn stats(&self) -> Summary {
        self.standing.stats.lock().unwrap_or_else(PoisonError::into_inner).summary()
    }

    /// The record of what happened on the workspace.
    pub fn journal(&self) -> &Journal {
        &self.standing.journal
    }

    /// Whoever listens to calls.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.standing.observer
    }

    /// How many calls run at a time.
    pub fn workers(&self) -> usize {
        self.standing.workers.count()
    }

    /// The directory that calls work on.
    pub fn workspace(&self) -> &Workspace {
        &self.standing.workspace
    }

    /// Loads every plugin that has not been loaded yet, each with what it is granted. Those that
    /// can't be, and why.
    pub fn load_plugins(&self) -> Vec<(&str, LoadError)> {
        let load = |plugin: &Arc<Plugin>| {
            let Manifest { name, requests, .. } = &plugin.manifest;
            let granted = self.policy.capabilities(name, plugin.built_in, requests);
            self.runtime.prepare(plugin, &granted, &|| false).err()
        };
        let plugins = self.registry.plugins().iter();
        plugins.filter_map(|plugin| Some((plugin.manifest.name.as_str(), load(plugin)?))).collect()
    }

    /// A role by its name.
    ///
    /// # Errors
    /// A refusal that names the roles there are.
    pub fn role(&self, name: Option<&str>) -> Result<Option<&Role>, Refusal> {
        let Some(name) = name else { return Ok(None) };
        self.policy.role(name).map(Some).ok_or_else(|| {
            let known: Vec<&str> = self.policy.roles().map(|role| &**role.name()).collect();
            Refusal::whole(
                RefusalCode::UnknownRole,
                format!("one of the roles {}", known.join(", ")),
                format!("the role '{name}'"),
            )
        })
    }
}
