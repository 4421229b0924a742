//! The facade: opens a host on a workspace and runs envelopes.
//!
//! | module | is for |
//! |---|---|
//! | [`config`] | the options that a host is opened with |
//! | [`context`] | values looked up once for a run or a call |
//! | [`run`] | running an envelope, or one call |
//! | [`call`] | one call of a run, in its transaction |
//! | [`execute`] | executing a granted call |
//! | [`nested`] | calls of tools by a tool |
//! | [`ended`] | how a call ended |
//! | [`cancel`] | the cancellation of a run |
//! | [`under_way`] | what users of other processes see of a call, and its cancellation by them |
//! | [`approver`], [`approval`] | calls that the user has to approve |
//! | [`executed`] | calls that write files which other programs execute |
//! | [`paused`] | calls that wait for the user between two calls of other tools |
//! | [`consents`] | actions that plugins ask consent for |
//! | [`questions`] | questions of plugins to the user |
//! | [`flows`] | calls that would send what may hold a secret |
//! | [`repeats`] | how often a tool is called with the same argument |
//! | [`commit`] | beginning and committing transactions |
//! | [`record`] | journal, statistics and telemetry of calls |
//! | [`pipeline`] | a round of Designer, QA and Main |
//! | [`backends`] | calling backends directly, without a tool |
//! | [`listing`] | asking components of ACT for their tools |
//! | [`unknown`] | names in the settings that do not exist |

mod approval;
mod approver;
mod backends;
mod call;
mod cancel;
mod commit;
mod config;
mod consents;
mod context;
mod ended;
mod execute;
mod executed;
mod flows;
mod listing;
mod nested;
mod paused;
mod pipeline;
mod questions;
mod record;
mod repeats;
mod run;
mod services;
mod under_way;
mod unknown;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use self::repeats::Repeats;
use crate::agent::{Agents, Team};
use crate::background::Pool;
use crate::call::{Grants, Observer};
use crate::capability::{Backends, Http, Programs, Services};
use crate::dispatch::{self, Bounds, Refusal, RefusalCode, ValidCall};
use crate::journal::{Entry, Event, Journal};
use crate::runtime::{BackendRunner, Compiler, LoadError, Runtime, Workers};
use crate::stats::{Stats, Summary};
use crate::telemetry::Telemetry;
use cofferdam_core::contract::Contracts;
use cofferdam_core::policy::{Denial, Policy, Role};
use cofferdam_plugin::cache::CodeCache;
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::registry::{Plugin, Registry};
use cofferdam_workspace::{Reviews, Workspace};

pub use crate::call::SecretFlow;
pub use approval::outdated;
pub use approver::{Approval, Approver, AskedForms, FormAnswers, NOT_OPEN, Proposal};
pub use config::{Config, OpenError};
pub use context::RunOptions;
pub use listing::ToolListError;
pub use pipeline::{Inputs, PipelineOptions, Source};
pub use run::{Effects, Run};
pub use services::Service;

/// Starts auxiliary processes of the host: an executable that calls [`run_if_helper`].
pub use cofferdam_sandbox::Helper;

/// Does the work of an auxiliary process, if this process was started as one, and returns its exit
/// status. An executable that is named as [`Helper`] has to call this at the start of `main`,
/// before it starts threads or opens files.
pub fn run_if_helper() -> Option<ExitCode> {
    cofferdam_sandbox::run_if_helper().or_else(crate::runtime::compile_if_asked)
}

/// The plugins, the policy and the workspace, ready for calls. Clones are the same host.
#[derive(Clone)]
pub struct Host {
    registry: Arc<Registry>,
    policy: Arc<Policy>,
    grants: Arc<Grants>,
    unknown: Arc<[String]>,
    runtime: Arc<Runtime>,
    backends: Arc<BackendRunner>,
    services: Arc<Services>,
    agents: Agents,
    contracts: Arc<Contracts>,
    shared: Arc<Shared>,
}

/// State that a host shares with the hosts that replace it.
struct Shared {
    repeats: Repeats,
    workers: Arc<Workers>,
    journal: Arc<Journal>,
    stats: Mutex<Stats>,
    observer: Arc<dyn Observer>,
    commits: AtomicU64,
    telemetry: Option<Arc<Telemetry>>,
    background: Arc<Pool>,
}

impl Host {
    /// Opens a host, within a tokio runtime with time enabled: it runs the timers of deadlines and
    /// of plugins' sleeps.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(mut config: Config) -> Result<Self, OpenError> {
        let timers = Handle::try_current()?;
        let workspace = Arc::new(Workspace::open(&config.workspace, config.secret.clone())?);
        // The cache is optional: the host also works, more slowly, if the home directory can't be
        // written.
        let cache = config.cache.as_deref().and_then(|directory| {
            CodeCache::open(directory)
                .map_err(|error| tracing::warn!("compiled code is not kept: {error}"))
                .ok()
        });
        let workers = config.workers.unwrap_or_else(Workers::default_count).max(1);
        let runtime = Runtime::new(workers, cache)?;
        let shared = Shared {
            repeats: Repeats::default(),
            workers: Arc::new(Workers::new(workers, timers).map_err(OpenError::Threads)?),
            journal: Arc::new(Journal::new(Arc::clone(&workspace))),
            stats: Mutex::default(),
            observer: Arc::clone(&config.observer),
            commits: AtomicU64::default(),
            telemetry: config.telemetry.take().map(|it| Telemetry::start(it, workers)),
            background: Arc::default(),
        };
        shared.journal.record_commits();
        Self::with(Arc::new(shared), workspace, runtime, config)
    }

    /// Opens a host that replaces this one with other settings and plugins. It shares the
    /// workspace, threads, observer, journal, telemetry, statistics and counts. Calls of both can
    /// run at the same time. Plugins that only this host has loaded are released with it.
    ///
    /// A plugin file in the workspace must be unchanged, since an agent may have modified it.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn renewed(&self, config: Config) -> Result<Self, OpenError> {
        let named = config.plugins.clone();
        let workspace = Arc::clone(&self.services.workspace);
        let host = Self::with(Arc::clone(&self.shared), workspace, self.runtime.renewed(), config)?;
        let was = |path: &Path| self.registry.plugins().iter().find(|was| was.component == path);
        for plugin in host.registry.plugins() {
            let path = &plugin.component;
            if named.contains(path)
                && self.services.workspace.holds(path)
                && was(path).is_none_or(|was| was.digest != plugin.digest)
            {
                return Err(OpenError::InWorkspace(path.clone()));
            }
        }
        host.append(Entry::Event(Event::new(Event::RENEWED, host.since(self))));
        Ok(host)
    }

    /// Returns a host with the same settings, plugins and threads on another workspace, with a journal,
    /// statistics and counts of its own.
    ///
    /// # Errors
    /// [`OpenError`] for agents of the settings that can't be used.
    pub fn on(&self, workspace: Arc<Workspace>) -> Result<Self, OpenError> {
        let journal = Arc::new(Journal::new(Arc::clone(&workspace)));
        journal.record_commits();
        let background: Arc<Pool> = Arc::default();
        let agents = self.agents.on(Arc::clone(&workspace));
        let most = self.policy.limits().output;
        let services = Services {
            workspace,
            backends: Arc::clone(&self.services.backends),
            http: Arc::clone(&self.services.http),
            programs: Arc::clone(&self.services.programs),
            team: Team::new(agents.clone(), &self.policy, &self.contracts, most)?,
            background: Arc::clone(&background),
            journal: Arc::clone(&journal),
        };
        let shared = Shared {
            repeats: Repeats::default(),
            workers: Arc::clone(&self.shared.workers),
            journal,
            stats: Mutex::default(),
            observer: Arc::clone(&self.shared.observer),
            commits: AtomicU64::default(),
            telemetry: self.shared.telemetry.clone(),
            background,
        };
        let (services, shared) = (Arc::new(services), Arc::new(shared));
        Ok(Self { services, agents, shared, ..self.clone() })
    }

    /// Describes the plugins that differ from those of another host.
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

    fn with(
        shared: Arc<Shared>,
        workspace: Arc<Workspace>,
        runtime: Runtime,
        config: Config,
    ) -> Result<Self, OpenError> {
        let mut policy = Policy::new(&config.settings)?;
        if let Some(role) = config.role {
            policy = policy.with_role(role);
        }
        if let Some(also) = &config.scripts {
            policy = policy.in_script_mode(also)?;
        }
        let mut registry = Registry::default();
        if let Some(folder) = &config.built_in {
            registry.add_built_in(folder)?;
        }
        config.pinned.iter().try_for_each(|pinned| registry.add_pinned(pinned))?;
        for file in &config.plugins {
            registry.add_file(file)?;
        }
        let unknown = unknown::names(&config.settings, &policy, &registry, &config.installed);
        unknown.iter().for_each(|unknown| tracing::warn!("{unknown}"));
        let helper = config.sandbox.clone();
        let compiler = helper.map(|helper| Compiler::new(helper, policy.limits()));
        let runtime = Arc::new(runtime.compiling_with(compiler));
        let grants = Grants::new(&registry, &policy);
        let backends =
            Arc::new(BackendRunner::new(Arc::clone(&runtime), &registry, &policy, &grants));
        let agents = Agents::new(Arc::clone(&workspace), config.environment.clone());
        let most = policy.limits().output;
        let mut contracts = Contracts::built_in()?;
        config.contracts.into_iter().for_each(|contract| contracts.add(contract));
        let services = Services {
            workspace,
            backends: Arc::clone(&backends) as Arc<dyn Backends>,
            http: Arc::new(Http::new(config.environment.clone())),
            programs: Arc::new(Programs::new(
                config.sandbox,
                policy.programs().clone(),
                config.environment,
            )),
            team: Team::new(agents.clone(), &policy, &contracts, most)?,
            background: Arc::clone(&shared.background),
            journal: Arc::clone(&shared.journal),
        };
        Ok(Self {
            registry: Arc::new(registry),
            policy: Arc::new(policy),
            grants: Arc::new(grants),
            unknown: unknown.into(),
            runtime,
            backends,
            services: Arc::new(services),
            agents,
            contracts: Arc::new(contracts),
            shared,
        })
    }

    /// All plugins and tools.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The permissions of plugins and roles.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The names in the settings that do not exist, one sentence for each.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// The exporter of telemetry, if it is on.
    pub fn telemetry(&self) -> Option<&Arc<Telemetry>> {
        self.shared.telemetry.as_ref()
    }

    /// The output contracts: the built-in ones and those from [`Config`].
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// The statistics of calls in this process.
    pub fn stats(&self) -> Summary {
        self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner).summary()
    }

    /// The journal of the workspace.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Receives the messages and the progress of calls.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.shared.observer
    }

    /// The number of calls that can run at the same time.
    pub fn workers(&self) -> usize {
        self.shared.workers.count()
    }

    /// Kills the programs that calls have left running, of all sessions, and waits until they have ended,
    /// for at most `timeout`.
    pub fn end_programs(&self, timeout: Duration) {
        self.shared.background.end(timeout);
    }

    /// The proposals that wait for a user.
    pub fn reviews(&self) -> Reviews {
        Reviews::new(Arc::clone(&self.services.workspace))
    }

    /// The directory that calls work on.
    pub fn workspace(&self) -> &Workspace {
        &self.services.workspace
    }

    /// Loads all plugins that have not been loaded yet, each with its grants. Returns the names of
    /// plugins that can't be loaded, with the errors.
    pub fn load_plugins(&self) -> Vec<(&str, LoadError)> {
        let load = |plugin: &Arc<Plugin>| {
            self.runtime.prepare(plugin, &self.grants.of(plugin).capabilities, &|| false).err()
        };
        let plugins = self.registry.plugins().iter();
        plugins.filter_map(|plugin| Some((plugin.manifest.name.as_str(), load(plugin)?))).collect()
    }

    /// Checks whether a call would be denied, without running it.
    ///
    /// # Errors
    /// [`Denial`] if the call would be denied.
    pub fn allows(&self, call: ValidCall, bounds: &Bounds<'_>) -> Result<(), Denial> {
        dispatch::grant(&self.policy, &self.grants, call, bounds).map(drop)
    }

    /// Returns the role with this name.
    ///
    /// # Errors
    /// [`RefusalCode::UnknownRole`] with the names of all roles.
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
