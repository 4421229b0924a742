//! What most commands start with: logging, directories, settings, and opening the host.

use std::collections::BTreeMap;
use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::BaseStrategy as _;
use indicatif::ProgressBar;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::CliError;
use super::args::Global;
use super::output::stderr_is_terminal;
use crate::config;
use crate::install;
use cofferdam_core::contract::Contract;
use cofferdam_core::definition::{CheckedDefinition, DefinitionError};
use cofferdam_core::policy::{AGENT_VARIABLE, Role, Settings, is_agent_name};
use cofferdam_engine::call::Observer;
use cofferdam_engine::host::{Config, Helper, Host, RunOptions};
use cofferdam_engine::telemetry;
use cofferdam_plugin::distribution::Distribution;
use cofferdam_plugin::http::{Client, Proxies};
use cofferdam_plugin::lock;
use cofferdam_plugin::store::{Pinned, Store};
use cofferdam_workspace::bounded_text;
use cofferdam_workspace::{Secret, Workspace};

/// Sends the host's log messages to standard error.
pub fn logging(global: &Global) {
    let level = match (global.quiet, global.verbose) {
        (true, _) => Level::ERROR,
        (_, 0) => Level::WARN,
        (_, 1) => Level::INFO,
        _ => Level::DEBUG,
    };
    let colours =
        stderr_is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // Protocol errors are returned to the client, so they are logged only with `--verbose`.
    let protocol = if global.verbose == 0 { Level::ERROR } else { level };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false)
        .without_time()
        .finish()
        .with(Targets::new().with_default(level).with_target("rmcp", protocol))
        .init();
}

/// The environment variable with the role that an agent was given.
const ROLE: &str = cofferdam_core::policy::ROLE_VARIABLE;

/// Paths of the user's files, by the XDG base directories.
pub struct Directories {
    pub settings: PathBuf,
    pub accepted: PathBuf,
    /// The file of the key that authenticates the host's files in workspaces.
    pub secret: PathBuf,
    pub cache: PathBuf,
    /// The copies of the workspaces of fleets.
    pub copies: PathBuf,
    pub plugins: PathBuf,
    /// The built-in plugins that `cofferdam plugin fetch` has fetched for this version of the command.
    pub built_in: PathBuf,
}

/// The version of the command.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Directories {
    /// Returns `None` for a user without a home directory.
    pub fn find() -> Option<Self> {
        let base = etcetera::choose_base_strategy().ok()?;
        let state = base.state_dir().unwrap_or_else(|| base.data_dir());
        Some(Self {
            settings: base.config_dir().join("cofferdam").join(config::FILE),
            accepted: state.join("cofferdam/accepted"),
            secret: state.join("cofferdam/secret"),
            cache: base.cache_dir().join("cofferdam/code"),
            copies: state.join("cofferdam/copies"),
            plugins: base.data_dir().join("cofferdam/plugins"),
            built_in: base.data_dir().join("cofferdam/built-in").join(VERSION),
        })
    }
}

/// Finds the folder of the built-in plugins: beside the binary, where packages install it, or where they
/// were fetched to.
pub fn built_in_plugins() -> Result<PathBuf, CliError> {
    let binary = env::current_exe().and_then(|path| path.canonicalize())?;
    let folder = binary.parent().unwrap_or(Path::new("/"));
    let mut candidates = vec![folder.join("plugins"), folder.join("../lib/cofferdam/plugins")];
    candidates.extend(Directories::find().map(|directories| directories.built_in));
    if let Some(found) = candidates.iter().find(|candidate| candidate.is_dir()) {
        return Ok(found.clone());
    }
    let looked: Vec<String> =
        candidates.iter().map(|candidate| candidate.display().to_string()).collect();
    let looked = looked.join(", ");
    Err(CliError::host(format!("the built-in plugins are missing: looked in {looked}")).with_hint(
        "`cofferdam plugin fetch` gets those of a release; in the project, `cargo xtask build` makes them",
    ))
}

/// Loads the settings that apply to the workspace.
pub fn layers(global: &Global, workspace: &Workspace) -> Result<config::Layers, CliError> {
    let directories = Directories::find();
    let user = directories.as_ref().map(|directories| directories.settings.as_path());
    let accepted = directories.as_ref().map(|directories| directories.accepted.as_path());
    let layers = config::load(workspace, user, accepted, global.trust_workspace)?;
    if layers.unaccepted {
        tracing::warn!(
            "{} of the workspace does not count: nobody has accepted it; look at it and run `cofferdam policy accept`",
            config::FILE
        );
    }
    Ok(layers)
}

/// Opens the workspace that the options name.
pub fn workspace(global: &Global) -> Result<Workspace, CliError> {
    open_workspace(global.workspace())
}

fn open_workspace(path: &Path) -> Result<Workspace, CliError> {
    Workspace::open(path, secret()).map_err(|error| CliError::usage(error.to_string()))
}

/// Where to read the key that authenticates the host's files in workspaces.
pub fn secret() -> Secret {
    Directories::find().map_or(Secret::Nowhere, |directories| Secret::In(directories.secret))
}

/// Opens a host that runs up to `workers` calls at a time (`None`: one per core), and its runtime.
pub fn host(global: &Global, workers: Option<usize>) -> Result<(Host, Runtime), CliError> {
    open(config_with(global, workers, None)?, current_thread_runtime()?)
}

/// A Tokio runtime on the current thread. Calls run on threads of their own.
pub fn current_thread_runtime() -> Result<Runtime, CliError> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// A Tokio runtime with worker threads, for many clients.
pub fn multi_thread_runtime() -> Result<Runtime, CliError> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

fn config_with(
    global: &Global,
    workers: Option<usize>,
    role: Option<Role>,
) -> Result<Config, CliError> {
    let layers = layers(global, &workspace(global)?)?;
    Ok(Config {
        observer: Arc::new(TerminalObserver::new(global)),
        workers,
        role,
        ..config(global, global.workspace(), layers.settings)?
    })
}

/// Opens a host, with telemetry if the environment configures it, and returns it with its runtime.
pub fn open(mut config: Config, runtime: Runtime) -> Result<(Host, Runtime), CliError> {
    config.telemetry =
        telemetry::Settings::from_variables(&config.environment).unwrap_or_else(|error| {
            tracing::warn!("telemetry is off: {error}");
            None
        });
    let host = {
        let _runtime = runtime.enter();
        Host::open(config)?
    };
    Ok((host, runtime))
}

/// Shuts a host down: sends the remaining telemetry, within a time limit.
pub fn shut_down(host: &Host, runtime: &Runtime) {
    if let Some(telemetry) = host.telemetry() {
        runtime.block_on(telemetry.stop());
    }
}

/// What a command does under a role.
pub enum RoleUse<'a> {
    /// Only shows it; no tool is called.
    Show,
    /// Makes calls; an agent definition is bound to the file `target`.
    Calling { target: Option<&'a str> },
    /// Calls the context providers of an agent definition that is bound to the file `target`.
    Providers { target: &'a str },
}

/// Reads an agent definition if `role` is a file; returns `None` if it is the name of a role.
pub fn agent(role: &str) -> Result<Option<CheckedDefinition>, CliError> {
    if !role.ends_with(".yaml") && !role.ends_with(".yml") {
        return Ok(None);
    }
    let text =
        bounded_text::read(Path::new(role)).map_err(|error| CliError::usage(error).at(role))?;
    CheckedDefinition::parse(&text).map(Some).map_err(|error| in_file(role, &error))
}

/// An error for an invalid agent definition, with its file.
pub fn in_file(file: &str, error: &DefinitionError) -> CliError {
    CliError::usage(format!("{file}: {error}"))
}

/// Like [`host`], for a command that acts under a role. Also returns the role's name.
pub fn host_under(
    global: &Global,
    workers: Option<usize>,
    role: Option<&str>,
    usage: RoleUse<'_>,
) -> Result<(Host, Runtime, Option<String>), CliError> {
    let (config, name) = config_under(global, workers, role, usage)?;
    let (host, runtime) = open(config, current_thread_runtime()?)?;
    Ok((host, runtime, name))
}

/// The host's configuration under a role of the settings or an agent definition. An agent that was
/// started by another host has the role from [`ROLE`]. Also returns the role's name.
pub fn config_under(
    global: &Global,
    workers: Option<usize>,
    role: Option<&str>,
    usage: RoleUse<'_>,
) -> Result<(Config, Option<String>), CliError> {
    let given = env::var(ROLE).ok().filter(|given| !given.is_empty());
    let role = match (role, &given) {
        (Some(role), Some(given)) if role != given => {
            return Err(CliError::usage(format!(
                "the role here is '{given}', given to this agent by {ROLE}, and no other"
            )));
        }
        (role, given) => role.or(given.as_deref()),
    };
    let agent = role.map(agent).transpose()?.flatten();
    let (Some(file), Some(agent)) = (role, agent) else {
        if let RoleUse::Calling { target: Some(_) } = usage {
            return Err(CliError::usage(
                "--target binds an agent definition; --role names none (a .yaml file)".to_owned(),
            ));
        }
        return Ok((config_with(global, workers, None)?, role.map(str::to_owned)));
    };
    let role = match usage {
        RoleUse::Show => agent.role(None),
        RoleUse::Calling { target: None } if agent.needs_target() => {
            return Err(CliError::usage(format!("{file} is for one file: name it with --target")));
        }
        RoleUse::Calling { target } => agent.role(target),
        RoleUse::Providers { target } => agent.provider_role(Some(target)),
    };
    let role = role.map_err(|error| in_file(file, &error))?;
    let is_trusted = matches!(usage, RoleUse::Show) || global.trust_workspace;
    if !is_trusted && workspace(global)?.holds(Path::new(file)) {
        return Err(CliError::usage(format!(
            "{file} is in the workspace, where an agent may have changed it; keep it elsewhere, \
             or use --trust-workspace for this run"
        )));
    }
    let name = role.name().to_string();
    Ok((config_with(global, workers, Some(role))?, Some(name)))
}

/// The options of calls by this command, for the record: the client, and the agent that runs it.
pub fn run_options() -> RunOptions {
    RunOptions { client_name: Some("cli".to_owned()), agent: agent_name(), ..RunOptions::default() }
}

/// The agent that runs this command, by its name in the settings.
pub fn agent_name() -> Option<String> {
    env::var(AGENT_VARIABLE).ok().filter(|name| is_agent_name(name))
}

/// The installed plugins that the workspace's lock file names.
fn pinned(workspace: &Path) -> Result<Vec<Pinned>, CliError> {
    let workspace = open_workspace(workspace)?;
    let Some(directories) = Directories::find() else { return Ok(Vec::new()) };
    let resolved = install::pinned(&workspace, &directories.plugins)?;
    if !resolved.missing.is_empty() {
        tracing::warn!(
            "{} names plugins that you have not installed, so they are left out: {}; look at it and run `cofferdam plugin install`",
            lock::FILE,
            resolved.missing.join(", ")
        );
    }
    warn_of_revoked(&resolved.revoked);
    Ok(resolved.pinned)
}

/// Warns of plugins that are left out since their publishers have revoked them, each with the reason.
pub fn warn_of_revoked(revoked: &[(String, String)]) {
    for (name, reason) in revoked {
        tracing::warn!(
            "{name} is left out: its publisher has revoked this version ({reason}); \
             `cofferdam plugin update {name}` looks for another one"
        );
    }
}

/// The names of the plugins that the user has installed, in any workspace. A store that can't be read
/// is reported where its plugins are needed.
fn installed() -> Vec<String> {
    let accepted = Directories::find().and_then(|directories| {
        let store = directories.plugins.is_dir().then(|| Store::open(&directories.plugins))?;
        store.and_then(|store| store.acceptances()).ok()
    });
    accepted.map(|accepted| accepted.plugins.into_keys().collect()).unwrap_or_default()
}

/// The variable that names a file with authorities that are trusted besides those of browsers.
const CA_FILE: &str = "SSL_CERT_FILE";

/// The client that downloads and publishes plugins.
pub fn distribution() -> Result<Distribution, CliError> {
    let docker =
        named_path("DOCKER_CONFIG").or_else(|| named_path("HOME").map(|home| home.join(".docker")));
    let docker = docker.map(|docker| docker.join("config.json"));
    let registries = match Directories::find() {
        Some(directories) => config::registries(&directories.settings)?,
        None => BTreeMap::new(),
    };
    let distribution = Distribution::new(named_path(CA_FILE), docker).through(proxies()?);
    Ok(distribution.with_registries(registries))
}

/// The client that sends other requests of the user.
pub fn client() -> Result<Client, CliError> {
    Ok(Client::new(named_path(CA_FILE)).through(proxies()?))
}

/// The path in a variable of the environment, if it is set and not empty.
fn named_path(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The variables of the environment that are text.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn proxies() -> Result<Proxies, CliError> {
    Proxies::from_variables(|name| env::var(name).ok())
        .map_err(|error| CliError::usage(error.to_string()))
}

/// The host's configuration for a workspace, with the plugins that the options name.
pub fn config(
    global: &Global,
    workspace: &Path,
    settings: Vec<Settings>,
) -> Result<Config, CliError> {
    let directories = settings.iter().flat_map(|layer| &layer.contracts);
    let contracts = directories.map(|directory| config::contracts(directory));
    let contracts: Vec<Vec<Contract>> = contracts.collect::<Result<_, _>>()?;
    Ok(Config {
        contracts: contracts.into_iter().flatten().collect(),
        built_in: Some(built_in_plugins()?),
        plugins: global.plugin.clone(),
        pinned: pinned(workspace)?,
        installed: installed(),
        settings,
        cache: Directories::find().map(|directories| directories.cache),
        secret: secret(),
        sandbox: Some(Helper::current()),
        environment: environment().collect(),
        ..Config::new(workspace)
    })
}

/// The configuration for a server, whose calls start programs again and again.
pub fn for_server(config: Config) -> Config {
    Config { sandbox: config.sandbox.map(Helper::kept_ready), ..config }
}

/// A receiver that becomes true when the process gets SIGINT or SIGTERM.
pub fn interruption(runtime: &Runtime) -> Result<watch::Receiver<bool>, CliError> {
    let (interrupt, interrupted) = watch::channel(false);
    let _runtime = runtime.enter();
    let signal = signal()?;
    runtime.spawn(async move {
        signal.await;
        tracing::warn!("stopping; what is being written is finished first");
        // The run may have ended already.
        let _ = interrupt.send(true);
    });
    Ok(interrupted)
}

/// Returns a future that waits for SIGINT or SIGTERM. Both are handled from this call on, which
/// must be made in a runtime.
///
/// # Errors
/// An I/O error if the handlers can't be installed.
pub fn signal() -> std::io::Result<impl Future<Output = ()>> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    Ok(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        #[cfg(not(unix))]
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// How much of a file or of standard input is read, in bytes: the size of the largest envelope that
/// any setting allows.
const MAX_INPUT_BYTES: u64 = 256 << 20;

/// Reads a file, or standard input for `-`.
pub fn read_input(file: &Path) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let name = if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes)?;
        "standard input".to_owned()
    } else {
        let name = file.display().to_string();
        std::fs::File::open(file)
            .and_then(|file| file.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| CliError::usage(error).at(&name))?;
        name
    };
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(CliError::usage(format!("{name}: it has more than {MAX_INPUT_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        CliError::usage(format!(
            "{name}: not UTF-8 (first bad byte at offset {})",
            error.utf8_error().valid_up_to()
        ))
    })
}

/// Shows a call's messages (by level) and its progress (as a bar) on the terminal.
struct TerminalObserver {
    progress: Option<ProgressBar>,
}

impl TerminalObserver {
    fn new(global: &Global) -> Self {
        let progress = (stderr_is_terminal() && !global.quiet).then(ProgressBar::no_length);
        Self { progress }
    }
}

impl Observer for TerminalObserver {
    fn message(&self, call: &str, level: Level, message: &str) {
        let say = || match level {
            Level::ERROR => tracing::error!(call, "{message}"),
            Level::WARN => tracing::warn!(call, "{message}"),
            Level::INFO => tracing::info!(call, "{message}"),
            _ => tracing::debug!(call, "{message}"),
        };
        match &self.progress {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    fn progress(&self, _: &str, done: u64, total: Option<u64>, message: &str) {
        if let Some(bar) = &self.progress {
            if let Some(total) = total {
                bar.set_length(total);
            }
            bar.set_position(done);
            bar.set_message(message.to_owned());
        }
    }
}

impl Drop for TerminalObserver {
    fn drop(&mut self) {
        if let Some(bar) = &self.progress {
            bar.finish_and_clear();
        }
    }
}
