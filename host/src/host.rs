//! The facade: open a host on a workspace, give it an envelope, get the results.

mod approval;
mod backends;
mod pipeline;
mod repeats;
mod unknown;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value};
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::repeats::Repeats;
use crate::agent::{Agents, Team};
use crate::capability::{Contacts, Http, Programs, Usage};
use crate::contract::{Contract, ContractError, Contracts};
use crate::dispatch::{self, CallProblem, Executor, GrantedCall, Refusal, RefusalCode, ValidCall};
use crate::envelope::{self, Answer, Call, Envelope, Mode};
use crate::journal::{self, CommitRecord, Entry, Event, Journal, Record};
use crate::outcome::{Failure, Outcome, Status};
use crate::plugin::cache::CodeCache;
use crate::plugin::digest::Digest;
use crate::plugin::manifest::Manifest;
use crate::plugin::registry::{Plugin, Registry, RegistryError};
use crate::plugin::store::Pinned;
use crate::policy::{Files, LimitSettings, Policy, PolicyError, Role, Scope, Settings};
use crate::runtime::{
    Backends, Compiler, LoadError, Observer, Quiet, Runtime, RuntimeError, Workers, blocking,
};
use crate::stats::{Stats, Summary};
use crate::telemetry::{self, Origin, Telemetry};
use crate::workspace::{
    BeginError, History, KeptOutput, Purpose, Transaction, Workspace, WorkspaceError,
};

pub use approval::{Approver, Proposal, outdated};
pub use pipeline::{Inputs, PipelineOptions, Source};

/// Starts the host's other processes: an executable that calls [`run_if_helper`].
pub use cofferdam_sandbox::Helper;

/// Does the work of one of the host's other processes, if this process was started as one. An
/// executable that is named as [`Helper`] calls this first of all in `main`, before it starts a
/// thread or opens a file, and returns the status that it gets.
pub fn run_if_helper() -> Option<ExitCode> {
    cofferdam_sandbox::run_if_helper().or_else(crate::runtime::compile_if_asked)
}

/// What a host is opened with.
pub struct Config {
    /// The directory that calls work on.
    pub workspace: PathBuf,
    /// The folder of the plugins that came with the host.
    pub built_in: Option<PathBuf>,
    /// Packed components from elsewhere.
    pub plugins: Vec<PathBuf>,
    /// Plugins of the workspace's lock, which a person has accepted.
    pub pinned: Vec<Pinned>,
    /// The layers of settings, the later ones over the earlier ones.
    pub settings: Vec<Settings>,
    /// A role besides those of the settings, such as an agent definition's; it replaces one of its
    /// name.
    pub role: Option<Role>,
    /// Where compiled code is kept; `None`: compiled anew in each process.
    pub cache: Option<PathBuf>,
    /// How many calls run at a time; `None`: one for each core.
    pub workers: Option<usize>,
    /// Whoever listens to running calls.
    pub observer: Arc<dyn Observer>,
    /// How other processes are started: the sandbox of native programs, and the compiler of
    /// plugins that did not come with the host. `None`: no native program runs, and all plugins
    /// are compiled in this process, where nothing bounds what that takes.
    pub sandbox: Option<Helper>,
    /// Where telemetry of the calls goes; `None`: nowhere.
    pub telemetry: Option<telemetry::Settings>,
    /// Contracts that agents' answers keep to, besides those that are built in. A later one
    /// replaces an earlier one for the same agent.
    pub contracts: Vec<Contract>,
    /// The variables of which the settings can pass some on to native programs, or to hosts that
    /// are asked, and all of which a person's own agents get.
    pub environment: HashMap<String, String>,
}

impl Config {
    /// A host on `workspace` without any plugin, setting or cache.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            built_in: None,
            plugins: Vec::new(),
            pinned: Vec::new(),
            settings: Vec::new(),
            role: None,
            cache: None,
            workers: None,
            observer: Arc::new(Quiet),
            sandbox: None,
            telemetry: None,
            contracts: Vec::new(),
            environment: HashMap::new(),
        }
    }
}

/// A host that can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The workspace can't be opened.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A plugin can't be taken in.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The settings make no sense.
    #[error("the settings: {0}")]
    Policy(#[from] PolicyError),
    /// A contract that came with the host is broken, which its tests rule out.
    #[error("a built-in contract: {0}")]
    Contract(#[from] ContractError),
    /// The engine can't be set up.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The system gives no threads.
    #[error("no thread for calls: {0}")]
    Threads(std::io::Error),
    /// A plugin's file in the workspace is not what it was when the host was opened.
    #[error(
        "{} is in the workspace, and was changed since this host was opened; open it again to use it, \
         or keep it elsewhere", .0.display()
    )]
    InWorkspace(PathBuf),
    /// Opened outside of a tokio runtime.
    #[error("a host needs a tokio runtime, where it waits for deadlines: {0}")]
    NoRuntime(#[from] tokio::runtime::TryCurrentError),
}

/// How an envelope is run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// The role that the calls are made under.
    pub role: Option<String>,
    /// Skip what comes after the first call that fails.
    pub fail_fast: bool,
    /// Commit what all calls change as one, or nothing if a call fails. Later calls see what
    /// earlier ones changed; what comes after the first that fails is skipped.
    pub atomic: bool,
    /// Commit nothing, and answer what would be committed.
    pub dry_run: bool,
    /// Limits of every call, below those that hold anyway.
    pub limits: LimitSettings,
    /// The files and directories that calls may touch, of those that the role's scope holds;
    /// empty: all of them.
    pub scope: Vec<String>,
    /// Turns true when the run should end early.
    pub cancel: Option<watch::Receiver<bool>>,
    /// Whoever listens to these calls; `None`: the host's own observer.
    pub observer: Option<Arc<dyn Observer>>,
    /// Whoever can ask a person; `None`: calls that need a person's yes are denied.
    pub approver: Option<Arc<dyn Approver>>,
    /// Where the calls come from, for telemetry.
    pub origin: Origin,
}

/// An envelope and how its calls ended, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What was run; its calls are in `answers`.
    pub envelope: Envelope,
    /// One for each call.
    pub answers: Vec<Answer>,
    /// What a dry run would have changed, as a unified diff.
    pub diff: Option<Vec<u8>>,
    /// What the calls' programs printed and is kept as a whole.
    pub outputs: Vec<KeptOutput>,
}

/// How one call ended that came without an envelope.
#[derive(Debug, Clone, PartialEq)]
pub struct Single {
    /// Its answer.
    pub answer: Answer,
    /// What a dry run would have changed, as a unified diff.
    pub diff: Option<Vec<u8>>,
    /// What its programs printed and is kept as a whole.
    pub outputs: Vec<KeptOutput>,
}

/// A call that has ended, and what is to be recorded of it.
struct Ended {
    answer: Answer,
    outputs: Vec<KeptOutput>,
    /// None where that was done already.
    record: Option<Record>,
    /// Whether what it changed is staged and not committed yet.
    is_staged: bool,
}

/// How often the history is looked through for what is kept too long, in commits.
const PRUNING: u64 = 64;

impl Run {
    /// The result document, in the envelope's dialect.
    pub fn document(&self) -> Value {
        let mut document = envelope::results(&self.envelope, &self.answers);
        if let (Some(diff), Some(fields)) = (&self.diff, document.as_object_mut()) {
            fields.insert("diff".to_owned(), String::from_utf8_lossy(diff).into());
        }
        document
    }
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
    journal: Journal,
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
        let workspace = Arc::new(Workspace::open(&config.workspace)?);
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
            journal: Journal::new(Arc::clone(&workspace)),
            workspace,
            stats: Mutex::default(),
            observer: Arc::clone(&config.observer),
            commits: AtomicU64::default(),
            telemetry: config.telemetry.take().map(|it| Telemetry::start(it, workers)),
        };
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
        let agents = Agents::new(standing.workspace.path(), config.environment.clone());
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
            let known: Vec<&str> = self.policy.roles().map(Role::name).collect();
            Refusal::whole(
                RefusalCode::UnknownRole,
                format!("one of the roles {}", known.join(", ")),
                format!("the role '{name}'"),
            )
        })
    }

    /// Decodes an envelope and checks everything that can be checked without running it.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(
        &self,
        text: &str,
        mode: Mode,
        role: Option<&str>,
    ) -> Result<(Envelope, Vec<ValidCall>), Refusal> {
        let role = self.role(role)?;
        self.check_size(text.len(), "an envelope")?;
        let mut envelope = envelope::decode(text, mode)?;
        let most = self.policy.limits().calls;
        if envelope.calls.len() > most {
            return Err(Refusal::whole(
                RefusalCode::TooLarge,
                format!("at most {most} calls (limits.calls)"),
                format!("an envelope of {} calls", envelope.calls.len()),
            ));
        }
        let calls = std::mem::take(&mut envelope.calls);
        let valid = dispatch::resolve(&self.registry, calls, role)?;
        Ok((envelope, valid))
    }

    /// Runs an envelope. Calls that only read and stand next to each other run side by side;
    /// a call that changes something runs alone, in its place.
    ///
    /// # Errors
    /// An envelope that is not taken: nothing was run.
    pub async fn run(&self, text: &str, mode: Mode, options: &RunOptions) -> Result<Run, Refusal> {
        let checked = self.check(text, mode, options.role.as_deref());
        let (envelope, calls) =
            checked.inspect_err(|refusal| self.record_refusal(refusal, options))?;
        let role = self.role(options.role.as_deref())?;
        let (answers, diff, outputs) = self.run_calls(calls, role, options).await?;
        Ok(Run { envelope, answers, diff, outputs })
    }

    /// Runs one call that comes without an envelope; `args` is the text of a JSON object.
    ///
    /// # Errors
    /// A call that is not taken: nothing was run.
    pub async fn call(
        &self,
        tool: &str,
        args: &str,
        options: &RunOptions,
    ) -> Result<Single, Refusal> {
        let sized = self.check_size(args.len(), "arguments");
        let args = sized.and_then(|()| Ok(envelope::arguments(args)?));
        self.call_checked(tool, args, options).await
    }

    /// The same with arguments that have been parsed: what reads them sees to it that no key stood
    /// twice.
    ///
    /// # Errors
    /// A call that is not taken: nothing was run.
    pub async fn call_parsed(
        &self,
        tool: &str,
        args: Map<String, Value>,
        options: &RunOptions,
    ) -> Result<Single, Refusal> {
        let args = envelope::parsed_arguments(args);
        let sized = self.check_size(envelope::size(&args), "arguments");
        self.call_checked(tool, sized.map(|()| args), options).await
    }

    async fn call_checked(
        &self,
        tool: &str,
        args: Result<Value, Refusal>,
        options: &RunOptions,
    ) -> Result<Single, Refusal> {
        let role = options.role.as_deref();
        let checked = args.and_then(|args| self.check_call(tool, args, role));
        let call = checked.inspect_err(|refusal| self.record_refusal(refusal, options))?;
        let role = self.role(role)?;
        let (mut answers, diff, outputs) = self.run_calls(vec![call], role, options).await?;
        let answer = answers
            .pop()
            .ok_or_else(|| Refusal::whole(RefusalCode::InvalidEnvelope, "one call", "none"))?;
        Ok(Single { answer, diff, outputs })
    }

    /// Runs calls, each in a transaction of its own or all in one.
    async fn run_calls(
        &self,
        calls: Vec<ValidCall>,
        role: Option<&Role>,
        options: &RunOptions,
    ) -> Result<(Vec<Answer>, Option<Vec<u8>>, Vec<KeptOutput>), Refusal> {
        let scope = Scope::new(&options.scope).map_err(|error| {
            Refusal::whole(
                RefusalCode::InvalidScope,
                "paths relative to the workspace",
                error.to_string(),
            )
        });
        let scope = scope.inspect_err(|refusal| self.record_refusal(refusal, options))?;
        let shared = if options.atomic || options.dry_run {
            let begun = self.begin(self.policy.limits().call).await.map_err(|error| {
                Refusal::whole(
                    (&error).into(),
                    "a workspace that can be changed",
                    error.to_string(),
                )
            });
            Some(begun.inspect_err(|refusal| self.record_refusal(refusal, options))?)
        } else {
            None
        };
        let fail_fast = options.fail_fast || options.atomic;
        let mut ended: Vec<Ended> = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        let mut failed = false;
        while let Some(first) = calls.next() {
            let mut group = vec![first];
            if !fail_fast && only_reads(&group[0]) {
                while let Some(next) = calls.next_if(only_reads) {
                    group.push(next);
                }
            }
            let done: Vec<Ended> = stream::iter(group)
                .map(|call| {
                    let skip = failed && fail_fast;
                    self.answer(call, role, options, &scope, skip, shared.as_ref())
                })
                .buffered(self.standing.workers.count())
                .collect()
                .await;
            failed |= done.iter().any(|ended| matches!(ended.answer.outcome, Outcome::Failed(_)));
            ended.extend(done);
        }
        let mut diff = None;
        match shared {
            Some(_) if failed && options.atomic => {
                let why = "discarded: a call of the same transaction failed";
                discard(&mut ended, &Failure::new(Status::Error, "RolledBack", why));
                diff = options.dry_run.then(Vec::new);
            }
            Some(transaction) if options.dry_run => {
                match blocking(move || transaction.diff()).await {
                    Ok(text) => diff = Some(text),
                    Err(error) => discard(&mut ended, &dispatch::not_committed(&error)),
                }
            }
            Some(transaction) => {
                let calls = staged(&mut ended).map(|(_, record)| record.call.clone()).collect();
                match self.commit(transaction, calls).await {
                    Ok(commit) => {
                        staged(&mut ended)
                            .for_each(|(_, record)| record.commit.clone_from(&commit));
                    }
                    Err(failure) => discard(&mut ended, &failure),
                }
            }
            None => {}
        }
        let outputs = ended.iter_mut().flat_map(|ended| std::mem::take(&mut ended.outputs));
        let outputs = outputs.collect();
        let record = |ended: Ended| {
            if let Some(record) = ended.record {
                self.record(record, &options.origin);
            }
            ended.answer
        };
        Ok((ended.into_iter().map(record).collect(), diff, outputs))
    }

    fn check_call(
        &self,
        tool: &str,
        args: Value,
        role: Option<&str>,
    ) -> Result<ValidCall, Refusal> {
        let role = self.role(role)?;
        let call = Call { pointer: String::new(), tool: tool.to_owned(), args };
        let mut valid = dispatch::resolve(&self.registry, vec![call], role)?;
        valid.pop().ok_or_else(|| Refusal::whole(RefusalCode::InvalidEnvelope, "one call", "none"))
    }

    fn check_size(&self, bytes: usize, what: &str) -> Result<(), Refusal> {
        let most = self.policy.limits().envelope;
        if bytes <= most {
            return Ok(());
        }
        Err(Refusal::whole(
            RefusalCode::TooLarge,
            format!("at most {most} bytes (limits.envelope-mb)"),
            format!("{what} of {bytes} bytes"),
        ))
    }

    async fn answer(
        &self,
        call: ValidCall,
        role: Option<&Role>,
        options: &RunOptions,
        scope: &Scope,
        skip: bool,
        shared: Option<&Transaction>,
    ) -> Ended {
        let id = uuid::Uuid::now_v7().to_string();
        let mut started = Instant::now();
        let name = call.name().to_owned();
        let (library, library_id) = journal::library(call.args());
        let tool = Arc::clone(call.tool());
        let contacts: Arc<Contacts> = Arc::default();
        let mut cancel = options.cancel.clone();
        let is_cancelled = cancel.as_ref().is_some_and(|cancel| *cancel.borrow());
        let (outcome, commit) = if skip || is_cancelled {
            let why = if skip { "an earlier call failed" } else { "the run was cancelled" };
            (Outcome::Failed(Failure::new(Status::Skipped, "Skipped", why)), None)
        } else {
            match self.allow(call, role, options, scope, shared.is_some()) {
                Err(failure) => (Outcome::Failed(failure), None),
                Ok(granted) => {
                    let cancelled = cancelled(&mut cancel);
                    let executor = self.executor(options);
                    let approved = self.approved(&executor, &id, &granted, options).await;
                    // A person's time is not the tool's.
                    started = Instant::now();
                    let performed = match (approved, shared) {
                        (Err(failure), _) => Err(failure),
                        (Ok(_), Some(transaction)) => {
                            let staged =
                                stage(&executor, &id, granted, transaction, &contacts, cancelled);
                            Ok((staged.await, None))
                        }
                        (Ok(shown), None) => {
                            self.perform(&executor, &id, granted, shown, &contacts, cancelled).await
                        }
                    };
                    performed.unwrap_or_else(|failure| (Outcome::Failed(failure), None))
                }
            }
        };
        let latency = started.elapsed().as_secs_f64() * 1000.0;
        let role = options.role.as_deref();
        let mut record = Record::new(&id, &tool.qualified_name(), role, &outcome, latency);
        (record.library, record.library_id) = (library, library_id);
        record.commit = commit;
        record.dry_run = options.dry_run;
        (record.hosts, record.agents) = (contacts.hosts(), contacts.agents());
        let Usage { memory, host_calls, written } = contacts.usage();
        (record.memory_bytes, record.host_calls) = (memory, host_calls);
        record.written_bytes = written;
        let outputs = contacts.outputs();
        record.outputs.clone_from(&outputs);
        let executed = record.outcome() == Status::Executed;
        let is_staged = shared.is_some() && executed && tool.tool().effects == Files::Write;
        let answer = Answer { tool: name, done: tool.tool().done.clone(), outcome };
        if shared.is_some() {
            return Ended { answer, outputs, record: Some(record), is_staged };
        }
        self.record(record, &options.origin);
        Ended { answer, outputs, record: None, is_staged }
    }

    /// Decides what a call may do, and whether it may be made once more. Only one that is granted
    /// counts.
    fn allow(
        &self,
        call: ValidCall,
        role: Option<&Role>,
        options: &RunOptions,
        scope: &Scope,
        is_shared: bool,
    ) -> Result<GrantedCall, Failure> {
        let granted = dispatch::grant(&self.policy, call, role, &options.limits, scope)
            .map_err(|denial| dispatch::denied(&denial))?;
        if is_shared && granted.asks_agents() {
            return Err(dispatch::not_in_transaction());
        }
        self.standing.repeats.count(granted.call())?;
        Ok(granted)
    }

    /// Runs a call in a transaction of its own, if it may change anything. What it changes is
    /// `shown`, if that is known, or it fails. Answers the commit as well.
    async fn perform(
        &self,
        executor: &Executor<'_>,
        id: &str,
        call: GrantedCall,
        shown: Option<Vec<u8>>,
        contacts: &Arc<Contacts>,
        cancelled: impl Future<Output = ()>,
    ) -> Result<(Outcome, Option<String>), Failure> {
        if !call.may_write() {
            let tree = self.standing.workspace.plain();
            return Ok((executor.execute(id, call, tree, contacts, cancelled).await, None));
        }
        let mut cancelled = std::pin::pin!(cancelled);
        let transaction = tokio::select! {
            begun = self.begin(call.time()) => {
                begun.map_err(|error| dispatch::not_begun(&error))?
            }
            () = &mut cancelled => {
                return Err(dispatch::cancelled());
            }
        };
        let tree = Arc::clone(transaction.overlay());
        match executor.execute(id, call, &tree, contacts, cancelled).await {
            Outcome::Executed(output) => {
                let transaction = match shown {
                    Some(shown) => Self::as_shown(transaction, shown).await?,
                    None => transaction,
                };
                let commit = self.commit(transaction, vec![id.to_owned()]).await?;
                Ok((Outcome::Executed(output), commit))
            }
            failed => Ok((failed, None)),
        }
    }

    fn executor<'a>(&'a self, options: &'a RunOptions) -> Executor<'a> {
        Executor {
            runtime: &self.runtime,
            workers: &self.standing.workers,
            policy: &self.policy,
            workspace: &self.standing.workspace,
            observer: options.observer.as_ref().unwrap_or(&self.standing.observer),
            backends: &self.backends,
            programs: &self.programs,
            http: &self.http,
            team: &self.team,
        }
    }

    /// Begins a transaction, and records what had to be recovered before.
    async fn begin(&self, patience: Duration) -> Result<Transaction, BeginError> {
        let (transaction, recovered) =
            Transaction::begin(&self.standing.workspace, patience).await?;
        if let Some(commit) = recovered {
            tracing::warn!("finished the commit {}, which was interrupted", commit.id);
            self.standing.journal.append(&Entry::Commit(CommitRecord::new(&commit, true)));
        }
        Ok(transaction)
    }

    /// Commits and records it. The commit's id; none where nothing was changed.
    async fn commit(
        &self,
        transaction: Transaction,
        calls: Vec<String>,
    ) -> Result<Option<String>, Failure> {
        let standing = Arc::clone(&self.standing);
        let retention = *self.policy.retention();
        let committed = blocking(move || {
            let commit = transaction.commit(Purpose::of(calls))?;
            if commit.is_some()
                && standing.commits.fetch_add(1, Ordering::Relaxed).is_multiple_of(PRUNING)
                && let Err(error) = History::new(Arc::clone(&standing.workspace)).prune(&retention)
            {
                tracing::warn!("old commits could not be removed: {error}");
            }
            Ok(commit)
        });
        let commit = committed.await.map_err(|error| dispatch::not_committed(&error))?;
        let Some(commit) = commit else { return Ok(None) };
        self.standing.journal.append(&Entry::Commit(CommitRecord::new(&commit, false)));
        Ok(Some(commit.id))
    }

    /// The journal, the figures and telemetry see every exit.
    fn record(&self, record: Record, origin: &Origin) {
        if let Some(telemetry) = &self.standing.telemetry {
            let role = record.role.as_deref().and_then(|role| self.policy.role(role));
            let tool = self.registry.resolve(&record.tool, role).ok();
            telemetry.ended(&record, tool.map(|tool| tool.qualified_name()).as_deref(), origin);
        }
        let fallback = self.fallback(&record);
        self.append(Entry::Call(record));
        if let Some(event) = fallback {
            self.append(Entry::Event(event));
        }
    }

    fn append(&self, entry: Entry) {
        self.standing.stats.lock().unwrap_or_else(PoisonError::into_inner).add(&entry);
        self.standing.journal.append(&entry);
    }

    /// That whoever made the call has to do without the tool now, where its manifest says so.
    fn fallback(&self, record: &Record) -> Option<Event> {
        let code = record.code.as_ref()?;
        let tool = self.registry.resolve(&record.tool, None).ok()?;
        let reason = tool.tool().fallbacks.get(code)?;
        Some(Event::fallback(reason, record))
    }

    fn record_refusal(&self, refusal: &Refusal, options: &RunOptions) {
        if let Some(CallProblem { code, tool, problem, .. }) = refusal.problems.first() {
            let outcome =
                Outcome::Failed(Failure::new(Status::Error, code.as_str(), problem.to_string()));
            let tool = tool.as_deref().unwrap_or("-");
            let id = uuid::Uuid::now_v7().to_string();
            let record = Record::new(&id, tool, options.role.as_deref(), &outcome, 0.0);
            self.record(record, &options.origin);
        }
    }
}

/// Runs a call in a transaction that it shares; what it staged is dropped if it fails.
async fn stage(
    executor: &Executor<'_>,
    id: &str,
    call: GrantedCall,
    transaction: &Transaction,
    contacts: &Arc<Contacts>,
    cancelled: impl Future<Output = ()>,
) -> Outcome {
    let savepoint = call.may_write().then(|| transaction.savepoint());
    let outcome = executor.execute(id, call, transaction.overlay(), contacts, cancelled).await;
    if let (Some(savepoint), Outcome::Failed(_)) = (savepoint, &outcome) {
        transaction.roll_back(savepoint);
    }
    outcome
}

/// The calls whose changes wait for the commit.
fn staged(ended: &mut [Ended]) -> impl Iterator<Item = (&mut Answer, &mut Record)> {
    ended.iter_mut().filter(|ended| ended.is_staged).filter_map(|ended| {
        let record = ended.record.as_mut()?;
        Some((&mut ended.answer, record))
    })
}

/// Calls whose changes were not committed have failed, whatever they answered.
fn discard(ended: &mut [Ended], failure: &Failure) {
    for (answer, record) in staged(ended) {
        answer.outcome = Outcome::Failed(failure.clone());
        record.end(&answer.outcome);
    }
}

fn only_reads(call: &ValidCall) -> bool {
    call.tool().tool().only_reads()
}

/// Ends when the run is cancelled; never, where nobody can.
async fn cancelled(cancel: &mut Option<watch::Receiver<bool>>) {
    if let Some(cancel) = cancel
        && cancel.wait_for(|cancelled| *cancelled).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
