//! The options that a host is opened with, and the errors of opening it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::Helper;
use crate::call::{Observer, Quiet};
use crate::runtime::RuntimeError;
use crate::telemetry;
use cofferdam_core::contract::{Contract, ContractError};
use cofferdam_core::policy::{PolicyError, Role, Settings};
use cofferdam_plugin::registry::RegistryError;
use cofferdam_plugin::store::Pinned;
use cofferdam_workspace::{Secret, WorkspaceError};

/// The options that a host is opened with.
#[derive(Clone)]
pub struct Config {
    /// The directory that calls work on.
    pub workspace: PathBuf,
    /// The directory of the plugins that are part of the host's installation.
    pub built_in: Option<PathBuf>,
    /// Paths of other packed components.
    pub plugins: Vec<PathBuf>,
    /// Plugins in the workspace's lock file that the user has accepted.
    pub pinned: Vec<Pinned>,
    /// The names of plugins that the user has installed in any workspace. Settings about them are not
    /// reported as mistakes where they are not loaded.
    pub installed: Vec<String>,
    /// The layers of settings; later ones override earlier ones.
    pub settings: Vec<Settings>,
    /// An additional role, such as that of an agent definition. It replaces a role of the same
    /// name.
    pub role: Option<Role>,
    /// Turns script mode on in all roles; the tools that are listed besides those for scripts.
    pub scripts: Option<Vec<String>>,
    /// The cache of compiled code; `None`: each process compiles all plugins.
    pub cache: Option<PathBuf>,
    /// The source of the key that authenticates the host's files in the workspace.
    pub secret: Secret,
    /// The number of calls that run at the same time; `None`: one for each core.
    pub workers: Option<usize>,
    /// Receives the messages and the progress of calls.
    pub observer: Arc<dyn Observer>,
    /// Starts auxiliary processes: the sandbox of native programs, and the compiler of plugins that
    /// are not built in. `None`: no native program runs, and plugins are compiled in this process
    /// without limits of time and memory.
    pub sandbox: Option<Helper>,
    /// Where telemetry is sent; `None`: telemetry is off.
    pub telemetry: Option<telemetry::Settings>,
    /// Output contracts in addition to the built-in ones. A later one replaces an earlier one for
    /// the same agent.
    pub contracts: Vec<Contract>,
    /// The host's environment. The settings can pass some of its variables to native programs and
    /// HTTP origins; agents get all of them.
    pub environment: HashMap<String, String>,
}

impl Config {
    /// A host on `workspace` without plugins, settings or cache.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            built_in: None,
            plugins: Vec::new(),
            pinned: Vec::new(),
            installed: Vec::new(),
            settings: Vec::new(),
            role: None,
            scripts: None,
            cache: None,
            secret: Secret::OfProcess,
            workers: None,
            observer: Arc::new(Quiet),
            sandbox: None,
            telemetry: None,
            contracts: Vec::new(),
            environment: HashMap::new(),
        }
    }
}

/// The reason why a host can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The workspace can't be opened.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A plugin can't be registered.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The settings are invalid.
    #[error("the settings: {0}")]
    Policy(#[from] PolicyError),
    /// A built-in contract is invalid, which tests rule out.
    #[error("a built-in contract: {0}")]
    Contract(#[from] ContractError),
    /// The engine can't be created.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A thread can't be started.
    #[error("no thread for calls: {0}")]
    Threads(std::io::Error),
    /// A plugin file in the workspace has changed since the host was opened.
    #[error(
        "{} is in the workspace, and was changed since this host was opened; open it again to use it, \
         or keep it elsewhere", .0.display()
    )]
    InWorkspace(PathBuf),
    /// The host was not opened within a tokio runtime.
    #[error("a host needs a tokio runtime, where it waits for deadlines: {0}")]
    NoRuntime(#[from] tokio::runtime::TryCurrentError),
}
