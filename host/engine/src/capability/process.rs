//! Native programs: which file a granted name stands for, and its run in the sandbox on the
//! call's own tree. How the sandbox works is the crate `cofferdam-sandbox`'s business; what
//! becomes of what a program changed, [`cofferdam_workspace`]'s.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_sandbox as sandbox;
use cofferdam_sandbox::{Helper, Limit, Sandbox, SandboxError, Spill, Tier};
use wasmtime::Result;

use super::CANCEL_POLL;
use super::room::Room;
use super::spill::{ABOVE, Streams};
use crate::runtime::{CallState, Control, Stop, Surroundings, wit};
use cofferdam_core::outcome::{FailedCode, HostCode, LimitCode, ProgramLimitCode};
use cofferdam_core::policy::{Files, ProgramSettings, SandboxTier};
use cofferdam_workspace::path::by_names;
use cofferdam_workspace::{
    Cache, NativeView, Overlay, Protected, ViewKind, ViewOptions, Workspace, is_full,
};

use wit::host::process::{Captured, Changes, Command, End, Error, Host, Output};

/// Where the system's programs are.
const SYSTEM: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Where the workspace is copied to, if it can't be shown otherwise. Not `/tmp`, which many
/// systems keep in memory.
const SCRATCH: &str = "/var/tmp";

/// How much of each of a program's streams its plugin gets, in bytes.
const KEPT: usize = 8 << 20;

/// How often the caller hears that a program is still running.
const STILL_RUNS: Duration = Duration::from_secs(2);

/// What a plugin's programs get besides what the operator grants.
const FIXED: [(&str, &str); 2] = [("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8")];

/// Variables that a plugin can't set: they decide what runs, or where private files are.
const RESERVED: [&str; 4] = ["PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME"];

/// What the names of variables begin with that the dynamic loader goes by: a plugin can't set those
/// either.
const LOADER: &str = "LD_";

/// The shortest value of a granted variable that is blotted out of what programs print, in bytes:
/// anything shorter is in every text.
const SECRET: usize = 6;

/// Native programs on this machine. The sandbox is tried when the first program is run.
pub struct Programs {
    helper: Option<Helper>,
    settings: ProgramSettings,
    environment: HashMap<String, String>,
    sandbox: OnceLock<Sandbox>,
}

impl Programs {
    /// Programs that run with the help of `helper`; without one, none runs. `environment` is
    /// what the operator can grant variables of.
    pub fn new(
        helper: Option<Helper>,
        settings: ProgramSettings,
        environment: HashMap<String, String>,
    ) -> Self {
        Self { helper, settings, environment, sandbox: OnceLock::new() }
    }

    /// No programs.
    pub fn none() -> Self {
        Self::new(None, ProgramSettings::default(), HashMap::new())
    }

    /// The sandbox. Where there is none now, the next run tries again: what is missing may come.
    fn sandbox(&self) -> std::result::Result<&Sandbox, Error> {
        if let Some(sandbox) = self.sandbox.get() {
            return Ok(sandbox);
        }
        let Some(helper) = self.helper.clone() else {
            let why = "this host was opened without a way to start one";
            return Err(Error::Unavailable(why.to_owned()));
        };
        let tier = self.settings.tier.map(|tier| match tier {
            SandboxTier::A => Tier::A,
            SandboxTier::B => Tier::B,
        });
        let sandbox =
            Sandbox::open(helper, tier).map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(self.sandbox.get_or_init(|| sandbox))
    }

    /// Where programs are looked up, the operator's own directories first.
    fn path(&self) -> Vec<PathBuf> {
        self.settings.path.iter().cloned().chain(SYSTEM.map(PathBuf::from)).collect()
    }

    /// The file that a name stands for. One in the workspace is nobody's program: whoever can
    /// write there could plant it.
    #[expect(
        clippy::disallowed_methods,
        reason = "programs are looked up in the operator's directories"
    )]
    fn find(&self, name: &str, workspace: &Workspace) -> std::result::Result<PathBuf, Error> {
        let path = self.path();
        let Some(found) = sandbox::find_program(name, &path) else {
            let path: Vec<String> = path.iter().map(|dir| dir.display().to_string()).collect();
            return Err(Error::NotFound(format!(
                "there is no program '{name}' in {}; install it, or name its directory in \
                 [programs] path of cofferdam.toml",
                path.join(", ")
            )));
        };
        if workspace.holds(&found) {
            return Err(Error::Denied(format!(
                "the program '{name}' is {}, in the workspace itself, where anybody could have \
                 planted it",
                found.display()
            )));
        }
        // Not the file that a link leads to: some programs go by the name that they are called by.
        let directory = found.parent().unwrap_or(Path::new("/"));
        let directory =
            fs::canonicalize(directory).map_err(|error| failed(&directory.display(), &error))?;
        Ok(directory.join(name))
    }
}

impl Host for CallState {
    fn run(&mut self, command: Command) -> Result<std::result::Result<Output, Error>> {
        Ok(self.run_program(&command))
    }

    fn cache_directory(&mut self) -> Result<String> {
        let workspace = &self.surroundings.workspace;
        Ok(workspace.path_of_cache(&self.rights.plugin).display().to_string())
    }
}

impl CallState {
    fn run_program(&mut self, command: &Command) -> std::result::Result<Output, Error> {
        let granted = &self.rights.capabilities;
        if !granted.process.contains(&command.program) {
            let plugin = &self.rights.plugin;
            return Err(Error::Denied(format!(
                "'{}' is not among the programs that the plugin '{plugin}' may run here; a person \
                 can grant it by process = [...] under [grants.{plugin}] in cofferdam.toml",
                cofferdam_text::shorten(&command.program, 80)
            )));
        }
        if granted.files == Files::None {
            return Err(Error::Denied("the call has nothing to do with files".to_owned()));
        }
        if command.changes == Changes::Keep && granted.files != Files::Write {
            let why = "the call may only read, so nothing that a program changes can be kept";
            return Err(Error::Denied(why.to_owned()));
        }
        let workspace = Arc::clone(&self.surroundings.workspace);
        let programs = Arc::clone(&self.surroundings.programs);
        let sandbox = programs.sandbox()?;
        let program = programs.find(&command.program, &workspace)?;
        let tree = Arc::clone(self.files.tree());
        let control = Arc::clone(self.control());
        let options = ViewOptions {
            mounts: sandbox.tier() == Tier::A,
            scratch: Path::new(SCRATCH),
            may_change: command.changes != Changes::None,
        };
        let view = NativeView::create(&workspace, &tree, options, &|| control.stop().is_some())
            .map_err(|error| self.failed(&"the workspace can't be shown to the program", &error))?;
        let cache = self.cache(command)?;
        let (limits, plugin) = (&self.surroundings.limits, &self.rights.plugin);
        let room = Room::new(&view, cache.as_ref(), limits, plugin);
        let top = match view.kind() {
            ViewKind::Workspace | ViewKind::Mount { .. } => workspace.path().to_owned(),
            ViewKind::Copy(copy) => copy.clone(),
        };
        let granted = self.granted_variables(&programs);
        let cached = cache.as_ref().map(Cache::path);
        let mut described =
            self.describe(command, &programs, program, &granted, view.kind(), (&top, cached))?;
        described.bounded.clone_from(&room.bounded);
        let Surroundings { contacts, id, .. } = &*self.surroundings;
        let mut streams = Streams::new(&workspace, contacts, id, &command.program);
        let still_runs = || self.messages.still_runs(&command.program, control.elapsed().as_secs());
        let report = run_to_end(sandbox, described, &control, &mut streams, still_runs)?;
        // Of a call that nobody waits for any more, nothing stays.
        if !control.is_cancelled() {
            streams.keep();
        }
        if let sandbox::End::Limit(limit) = report.end
            && let Some(stop) = room.stop(&command.program, limit)
        {
            control.note(stop);
            if let Some(cache) = cache.filter(|_| room.is_cache(limit)) {
                cache.count_again();
            }
        }
        if command.changes == Changes::Keep && matches!(report.end, sandbox::End::Exited(_)) {
            self.keep(view, &tree)?;
        }
        let captured = |captured: sandbox::Captured| Captured {
            bytes: captured.bytes,
            total: captured.written,
        };
        Ok(Output {
            end: end(report.end),
            stdout: captured(report.stdout),
            stderr: captured(report.stderr),
            duration_ms: u32::try_from(report.wall.as_millis()).unwrap_or(u32::MAX),
            workspace: top.display().to_string(),
        })
    }

    /// Takes what a program changed into the call's transaction.
    fn keep(&self, view: NativeView, tree: &Overlay) -> std::result::Result<(), Error> {
        let files = &self.files;
        let kept = view.keep(tree, files.quota(), &|place| files.allow_change(place));
        kept.map_err(|error| {
            self.note_full(&error);
            Error::Changes(error.to_string())
        })
    }

    /// The plugin's cache; none where a call that only reads can't have one.
    fn cache(&self, command: &Command) -> std::result::Result<Option<Cache<'_>>, Error> {
        let Surroundings { workspace, limits, .. } = &*self.surroundings;
        match workspace.cache(&self.rights.plugin, limits.cache as u64) {
            // What only reads goes without.
            Err(error) if command.changes != Changes::Keep && is_read_only(&error) => Ok(None),
            Err(error) => Err(self.failed(&"the directory for caches", &error)),
            cache => Ok(cache.ok()),
        }
    }

    /// An error of the host's own work for a program.
    fn failed(&self, what: &dyn std::fmt::Display, error: &io::Error) -> Error {
        self.note_full(error);
        failed(what, error)
    }

    /// Makes the call fail where a disk is full, also if its tool ignores the error.
    fn note_full(&self, error: &io::Error) {
        // The call's own limits are errors of the same kind.
        if is_full(error) && self.files.exceeded().is_none() {
            let message = self.surroundings.workspace.is_full(error);
            self.control().note(Stop::Room(FailedCode::DiskFull.into(), message));
        }
    }

    /// The run as the sandbox wants it.
    fn describe(
        &self,
        command: &Command,
        programs: &Programs,
        program: PathBuf,
        granted: &[(String, String)],
        shown: &ViewKind,
        (top, cache): (&Path, Option<&Path>),
    ) -> std::result::Result<sandbox::Command, Error> {
        let invalid = |message: String| Error::Invalid(message);
        let directory = match by_names("", &command.directory) {
            _ if command.directory.is_empty() => String::new(),
            Ok(Some(place)) => place.into(),
            _ => return Err(invalid(format!("{} leaves the workspace", command.directory))),
        };
        let directory = if directory.is_empty() { top.to_owned() } else { top.join(directory) };
        if let Some(argument) = command.arguments.iter().find(|text| text.contains('\0')) {
            return Err(invalid(format!("the argument {argument:?} holds a NUL character")));
        }
        for (name, value) in &command.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(invalid(format!("{name:?} can't be a variable with that value")));
            }
            if RESERVED.contains(&name.as_str()) || name.starts_with(LOADER) {
                return Err(invalid(format!("the variable {name} is the host's to set")));
            }
        }
        let path: Vec<String> =
            programs.path().iter().map(|directory| directory.display().to_string()).collect();
        let mut environment: Vec<(String, String)> = FIXED
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .chain(granted.iter().cloned())
            .chain(command.environment.iter().cloned())
            .collect();
        environment.push(("PATH".to_owned(), path.join(":")));
        if let Some(cache) = &cache {
            environment.push(("XDG_CACHE_HOME".to_owned(), cache.display().to_string()));
        }

        let mut described = sandbox::Command::new(program, directory);
        described.arguments = command.arguments.clone();
        described.environment = environment;
        described.hidden = secrets(granted);
        described.stdin = command.stdin.clone();
        described.readable = sandbox::system_paths();
        described.readable.extend(programs.settings.path.iter().cloned());
        described.readable.extend(programs.settings.readable.iter().cloned());
        described.writable.extend(cache.map(Path::to_owned));
        match shown {
            ViewKind::Workspace => {
                described.readable.push(top.to_owned());
                if let Some(own) = self.surroundings.workspace.path_of_own() {
                    // What keeps caches out of git's and linters' sight.
                    described.readable.push(own.join(".gitignore"));
                    described.masked.push(own);
                }
            }
            ViewKind::Mount { upper, work } => {
                described.overlay = Some(sandbox::Overlay {
                    lower: top.to_owned(),
                    upper: upper.clone(),
                    work: work.clone(),
                });
            }
            ViewKind::Copy(copy) => {
                described.writable.push(copy.clone());
                // Where `.git` of the copy leads.
                described.readable.push(self.surroundings.workspace.path().join(".git"));
            }
        }
        // In a copy, nothing is git's own; and what is new there would not be kept.
        if command.changes == Changes::Keep && !matches!(shown, ViewKind::Copy(_)) {
            let protected = self.surroundings.workspace.protected();
            let Protected { git, own } =
                protected.map_err(|error| failed(&"looking for what is protected", &error))?;
            described.protected = git.iter().map(|place| top.join(place)).collect();
            described.masked.extend(own.iter().map(|place| top.join(place)));
        }
        described.limits = self.program_limits(command);
        let most = self.surroundings.limits.spill as u64;
        described.spill = (most > 0).then_some(Spill { above: ABOVE, most });
        Ok(described)
    }

    fn program_limits(&self, command: &Command) -> sandbox::Limits {
        let limits = &self.surroundings.limits;
        let left = self.control().deadline().saturating_duration_since(Instant::now());
        let wall = match command.timeout_ms {
            0 => left,
            timeout => left.min(Duration::from_millis(timeout.into())),
        };
        sandbox::Limits {
            wall,
            cpu_seconds: limits.call.as_secs().max(1),
            memory: limits.program_memory as u64,
            file_size: limits.write as u64,
            processes: limits.processes as u64,
            output: KEPT,
            ..sandbox::Limits::DEFAULT
        }
    }

    /// The variables that the operator passes on, with their values.
    fn granted_variables(&self, programs: &Programs) -> Vec<(String, String)> {
        let value = |name: &String| Some((name.clone(), programs.environment.get(name)?.clone()));
        self.rights.environment.iter().filter_map(value).collect()
    }
}

/// What of the granted variables no plugin may see.
fn secrets(granted: &[(String, String)]) -> Vec<(String, String)> {
    granted.iter().filter(|(_, value)| value.len() >= SECRET).cloned().collect()
}

/// Runs a program until it ends, its time is over, or its call is cancelled. As long as it does,
/// `still_runs` is called now and then.
fn run_to_end(
    sandbox: &Sandbox,
    command: sandbox::Command,
    control: &Control,
    streams: &mut Streams<'_>,
    still_runs: impl Fn() + Send,
) -> std::result::Result<sandbox::Report, Error> {
    let running = sandbox.start(command).map_err(not_run)?;
    let canceller = running.canceller();
    thread::scope(|scope| {
        let (ended, end) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut said = Instant::now();
            while let Err(mpsc::RecvTimeoutError::Timeout) = end.recv_timeout(CANCEL_POLL) {
                if control.is_cancelled() {
                    canceller.cancel();
                    return;
                }
                if said.elapsed() >= STILL_RUNS {
                    said = Instant::now();
                    still_runs();
                }
            }
        });
        let report = running.wait_with(|stream, bytes| streams.take(stream, bytes));
        let report = report.map_err(not_run);
        drop(ended);
        report
    })
}

fn end(end: sandbox::End) -> End {
    let limit: HostCode = match end {
        sandbox::End::Exited(code) => return End::Exited(code),
        sandbox::End::Signalled(signal) => return End::Signalled(signal),
        // Only a call that is over cancels its program.
        sandbox::End::Limit(Limit::WallClock) | sandbox::End::Cancelled => return End::TimedOut,
        sandbox::End::Limit(Limit::CpuTime) => ProgramLimitCode::CpuTimeLimit.into(),
        sandbox::End::Limit(Limit::Memory) => ProgramLimitCode::ProgramMemoryLimit.into(),
        sandbox::End::Limit(Limit::FileSize) => ProgramLimitCode::FileSizeLimit.into(),
        sandbox::End::Limit(Limit::Output) => ProgramLimitCode::ProgramOutputLimit.into(),
        sandbox::End::Limit(Limit::Processes) => ProgramLimitCode::ProcessLimit.into(),
        // The call fails with what `Room` says.
        sandbox::End::Limit(Limit::Directory { .. }) => LimitCode::WriteLimit.into(),
        sandbox::End::Limit(Limit::Disk { .. }) => FailedCode::DiskFull.into(),
    };
    End::Limit(limit.as_str().to_owned())
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn not_run(error: SandboxError) -> Error {
    match error {
        SandboxError::Unavailable(why) => Error::Unavailable(why),
        SandboxError::Command(why) => Error::Invalid(why),
        error @ (SandboxError::Program { .. }
        | SandboxError::Setup(_)
        | SandboxError::Helper(_)) => Error::Failed(error.to_string()),
    }
}

fn failed(what: &dyn std::fmt::Display, error: &io::Error) -> Error {
    Error::Failed(format!("{what}: {error}"))
}
