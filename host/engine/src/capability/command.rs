//! Describes one run of a native program for the sandbox: arguments, environment, and which files
//! it can read and write.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_sandbox as sandbox;

use super::bindings::cofferdam::host::process::{Changes, Command, Error};
use super::context::{CallContext, is_hidden};
use super::programs::failure;
use super::spill::MIN_KEPT_BYTES;
use crate::egress::OFFLINE_VARIABLES;
use crate::toolchains::{NETWORK_CACHE, Toolchains};
use cofferdam_workspace::path::by_names;
use cofferdam_workspace::{Protected, ViewKind};

/// How much of each output stream of a program its plugin gets, in bytes.
const MAX_STREAM_BYTES: usize = 8 << 20;

/// Variables that a plugin's programs get besides those that the operator grants.
const FIXED_VARIABLES: [(&str, &str); 2] = [("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8")];

/// Variables that a plugin can't set: they determine what runs, or where private files are.
const RESERVED_VARIABLES: [&str; 4] = ["PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME"];

/// The prefix of the dynamic loader's variables, which a plugin can't set either.
const LOADER_PREFIX: &str = "LD_";

/// One run of a program.
pub(super) struct ProgramRun<'a> {
    pub(super) context: &'a CallContext,
    pub(super) command: &'a Command,
    /// How the call's tree is shown to the program.
    pub(super) shown: &'a ViewKind,
    /// The directory that the program sees as the workspace.
    pub(super) top: &'a Path,
    /// The cache directory of the plugin.
    pub(super) cache: Option<&'a Path>,
    /// The toolchains of the operator's account.
    pub(super) toolchains: &'a Toolchains,
    /// Whether the program is granted origins.
    pub(super) has_network: bool,
}

impl ProgramRun<'_> {
    /// Returns the description of the run for the sandbox. `program` is the file to execute.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a directory, an argument or a variable is invalid; [`Error::Failed`]
    /// if the workspace can't be read.
    pub(super) fn describe(&self, program: PathBuf) -> Result<sandbox::Command, Error> {
        let Self { context, command, .. } = self;
        let directory = self.directory()?;
        check(command)?;
        let granted: Vec<(String, String)> = context.granted_values().collect();
        let mut described = sandbox::Command::new(program, directory);
        described.arguments = command.arguments.clone();
        described.environment = self.environment(&granted);
        // What is redacted in the output: granted variables, and those in the plugin's configuration,
        // which it may have given the program.
        described.hidden = granted.into_iter().filter(|(_, value)| is_hidden(value)).collect();
        described.hidden.extend(context.hidden());
        described.stdin = command.stdin.clone();
        self.show(&mut described)?;
        described.limits = self.limits();
        let most = context.limits.spill as u64;
        described.spill = (most > 0).then_some(sandbox::Spill { above: MIN_KEPT_BYTES, most });
        Ok(described)
    }

    /// The working directory of the program.
    fn directory(&self) -> Result<PathBuf, Error> {
        let directory = &self.command.directory;
        match by_names("", directory) {
            _ if directory.is_empty() => Ok(self.top.to_owned()),
            Ok(Some(place)) if place.is_empty() => Ok(self.top.to_owned()),
            Ok(Some(place)) => Ok(self.top.join(&*place)),
            _ => Err(Error::Invalid(format!("{directory} leaves the workspace"))),
        }
    }

    fn environment(&self, granted: &[(String, String)]) -> Vec<(String, String)> {
        let directories = self.context.services.programs.path(self.toolchains);
        let path: Vec<String> =
            directories.iter().map(|directory| directory.display().to_string()).collect();
        let caches = self.cache.map(|cache| match self.has_network {
            true => cache.join(NETWORK_CACHE),
            false => cache.to_owned(),
        });
        let mut environment: Vec<(String, String)> = FIXED_VARIABLES
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .chain(OFFLINE_VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())))
            .chain(self.toolchains.variables(caches.as_deref()))
            .chain(granted.iter().cloned())
            .chain(self.command.environment.iter().cloned())
            .collect();
        environment.push(("PATH".to_owned(), path.join(":")));
        if let Some(cache) = self.cache {
            environment.push(("XDG_CACHE_HOME".to_owned(), cache.display().to_string()));
        }
        environment
    }

    /// Adds the files that the program can read and write.
    fn show(&self, described: &mut sandbox::Command) -> Result<(), Error> {
        let Self { context, command, shown, top, cache, toolchains, .. } = self;
        let services = &context.services;
        described.readable = sandbox::system_paths();
        described.readable.extend(services.programs.settings.path.iter().cloned());
        described.readable.extend(services.programs.settings.readable.iter().cloned());
        described.readable.extend(toolchains.readable());
        described.writable.extend(cache.map(Path::to_owned));
        match shown {
            ViewKind::Workspace => {
                described.readable.push((*top).to_owned());
                if let Some(own) = services.workspace.path_of_own() {
                    // The file keeps git and linters from reading caches.
                    described.readable.push(own.join(".gitignore"));
                    described.masked.push(own);
                }
            }
            ViewKind::Mount { upper, work } => {
                described.overlay = Some(sandbox::Overlay {
                    lower: (*top).to_owned(),
                    upper: upper.clone(),
                    work: work.clone(),
                });
            }
            ViewKind::Copy(copy) => {
                described.writable.push(copy.clone());
                // The `.git` file of the copy refers to it.
                described.readable.push(services.workspace.path().join(".git"));
            }
        }
        // A copy has no protected files of git, and new ones would not be kept.
        if command.changes == Changes::Keep && !matches!(shown, ViewKind::Copy(_)) {
            let protected = services.workspace.protected();
            let Protected { git, own } =
                protected.map_err(|error| failure(&"looking for what is protected", &error))?;
            described.protected = git.iter().map(|place| top.join(place)).collect();
            described.masked.extend(own.iter().map(|place| top.join(place)));
        }
        Ok(())
    }

    fn limits(&self) -> sandbox::Limits {
        let limits = &self.context.limits;
        let left = self.context.control.deadline().saturating_duration_since(Instant::now());
        let wall = match self.command.timeout_ms {
            0 => left,
            timeout => left.min(Duration::from_millis(timeout.into())),
        };
        sandbox::Limits {
            wall,
            cpu_seconds: limits.call.as_secs().max(1),
            memory: limits.program_memory as u64,
            file_size: limits.write as u64,
            processes: limits.processes as u64,
            output: MAX_STREAM_BYTES,
            ..sandbox::Limits::DEFAULT
        }
    }
}

/// Checks arguments and variables.
fn check(command: &Command) -> Result<(), Error> {
    if let Some(argument) = command.arguments.iter().find(|text| text.contains('\0')) {
        return Err(Error::Invalid(format!("the argument {argument:?} holds a NUL character")));
    }
    for (name, value) in &command.environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Error::Invalid(format!("{name:?} can't be a variable with that value")));
        }
        if RESERVED_VARIABLES.contains(&name.as_str()) || name.starts_with(LOADER_PREFIX) {
            return Err(Error::Invalid(format!("the variable {name} is the host's to set")));
        }
    }
    Ok(())
}
