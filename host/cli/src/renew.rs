//! Reloads settings and plugins while `cofferdam serve` runs, by the same rules as at its start.
//!
//! Only files that belong to the user outside of the workspace are reloaded. Files in the
//! workspace, which an agent may have changed, and which are used only because the user said so at
//! the start (`--plugin`, `--trust-workspace`, an agent definition), stay as they were then.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::CliError;
use super::args::Global;
use super::setup::{self, Directories};
use crate::config;
use cofferdam_core::policy::{Role, Settings};
use cofferdam_engine::host::Config;
use cofferdam_engine::runtime::blocking;
use cofferdam_mcp::Server;
use cofferdam_plugin::lock;
use cofferdam_plugin::store::{Resolved, Store};
use cofferdam_workspace::Workspace;
use tokio_util::sync::CancellationToken;

/// How often the files are checked. Files that changed between two checks are considered as still
/// being written.
const INTERVAL: Duration = Duration::from_millis(500);

/// The inputs of a server's configuration: the command's options and the files that they name.
pub struct Source {
    global: Global,
    workspace: Workspace,
    /// The agent definition's role, as read at the start.
    role: Option<Role>,
    /// The tools that are listed beside scripts.
    scripts: Option<Vec<String>>,
    /// The workspace's own settings, as read at the start.
    own: Option<String>,
    /// The directories that the settings name.
    directories: Vec<PathBuf>,
    seen: FileStates,
}

/// Identifies a state of the watched files: their paths, inodes, sizes and times of change.
type FileStates = Vec<(PathBuf, u64, u64, (i64, i64))>;

impl Source {
    /// Takes the state of the files before any of them is read.
    pub fn look(global: &Global) -> Result<Self, CliError> {
        let workspace = setup::workspace(global)?;
        let own = workspace.read_text(config::FILE).ok().flatten();
        let global = global.clone();
        let (role, scripts) = (None, None);
        let (directories, seen) = (Vec::new(), FileStates::new());
        let mut source = Self { global, workspace, role, scripts, own, directories, seen };
        source.seen = source.file_states();
        Ok(source)
    }

    /// Returns the source for a server that was opened with `config`.
    pub fn of(mut self, config: &Config) -> Self {
        self.role.clone_from(&config.role);
        self.scripts.clone_from(&config.scripts);
        self.follow_settings(&config.settings);
        self
    }

    fn follow_settings(&mut self, settings: &[Settings]) {
        let directories: Vec<PathBuf> =
            settings.iter().flat_map(|layer| layer.contracts.clone()).collect();
        for directory in &directories {
            if !self.directories.contains(directory) {
                add_state(directory, &mut self.seen);
            }
        }
        self.seen.sort_unstable();
        self.seen.dedup();
        self.directories = directories;
    }

    fn file_states(&self) -> FileStates {
        let mut paths =
            vec![self.workspace.path().join(config::FILE), self.workspace.path().join(lock::FILE)];
        if let Some(directories) = Directories::find() {
            paths.extend(Store::watched_paths(&directories.plugins));
            paths.extend([directories.settings, directories.accepted]);
        }
        paths.extend(setup::built_in_plugins().ok());
        paths.extend(self.global.plugin.iter().chain(&self.directories).cloned());
        let mut file_states = FileStates::new();
        paths.iter().for_each(|path| add_state(path, &mut file_states));
        file_states.sort_unstable();
        file_states.dedup();
        file_states
    }

    /// The configuration from the current files.
    fn config(&self) -> Result<Config, CliError> {
        let layers = setup::layers(&self.global, &self.workspace)?;
        let path = self.workspace.path().join(config::FILE);
        let own = layers.files.iter().find(|file| file.path == path).map(|file| &file.text);
        if self.global.trust_workspace && own != self.own.as_ref() {
            return Err(CliError::usage(format!(
                "{} was changed since the server was started with --trust-workspace; start it again \
                 to use it",
                path.display()
            )));
        }
        let config = setup::config(&self.global, self.global.workspace(), layers.settings)?;
        let (role, scripts) = (self.role.clone(), self.scripts.clone());
        Ok(setup::for_server(Config { role, scripts, ..config }))
    }
}

/// Adds the state of a path, and of its entries if it is a directory.
fn add_state(path: &Path, file_states: &mut FileStates) {
    let entries = path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    for path in entries.chain([path.to_owned()]) {
        if let Ok(metadata) = path.metadata() {
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            file_states.push((path, metadata.ino(), metadata.len(), changed));
        }
    }
}

/// Applies the current configuration to the server each time it changes. While it can't be applied, the
/// server has the last one that could, without the plugins that their publishers have revoked since. If
/// it can't go on without them either, it is stopped. Returns only then.
pub async fn follow(
    server: Server,
    mut source: Source,
    mut applied: Config,
    stopping: CancellationToken,
) {
    let mut changing: Option<FileStates> = None;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let file_states = source.file_states();
        if file_states == source.seen {
            changing = None;
            continue;
        }
        if changing.as_ref() != Some(&file_states) {
            changing = Some(file_states);
            continue;
        }
        source.seen = file_states;
        let (config, back) = read(source).await;
        source = back;
        let renewed = match config {
            Ok(config) => {
                source.follow_settings(&config.settings);
                server.renew(config.clone()).await.map(|()| config).map_err(CliError::host)
            }
            Err(error) => Err(error),
        };
        match renewed {
            Ok(config) => {
                applied = config;
                tracing::info!("settings and plugins were read again");
            }
            Err(error) => {
                tracing::error!("the server goes on as it was: {error}");
                if let Err(error) = drop_revoked(&server, &mut applied).await {
                    tracing::error!(
                        "the server stops, since a revoked plugin can't be left out: {error}"
                    );
                    return stopping.cancel();
                }
            }
        }
    }
}

/// Takes the plugins that their publishers have revoked out of the configuration that the server has.
async fn drop_revoked(server: &Server, applied: &mut Config) -> Result<(), CliError> {
    let Some(directories) = Directories::find() else { return Ok(()) };
    if applied.pinned.is_empty() {
        return Ok(());
    }
    let pinned = std::mem::take(&mut applied.pinned);
    let Resolved { pinned, revoked, .. } = Store::open(&directories.plugins)?.recheck(pinned)?;
    applied.pinned = pinned;
    if !revoked.is_empty() {
        server.renew(applied.clone()).await.map_err(CliError::host)?;
        setup::warn_of_revoked(&revoked);
    }
    Ok(())
}

async fn read(source: Source) -> (Result<Config, CliError>, Source) {
    let read = blocking(move || Ok::<_, std::convert::Infallible>((source.config(), source)));
    match read.await {
        Ok(read) => read,
    }
}
