//! `cofferdam:host/process`: runs a native program on the call's tree. The crate
//! `cofferdam-sandbox` implements the sandbox; [`cofferdam_workspace`] stages what the program
//! changed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_sandbox as sandbox;
use cofferdam_sandbox::{Limit, Sandbox, SandboxError, Tier};
use wasmtime::Result;

use super::CANCEL_POLL;
use super::bindings::cofferdam::host::process::{
    Captured, Changes, Command, End, Error, Host, Output, Repository,
};
use super::command::ProgramRun;
use super::context::CallContext;
use super::hints;
use super::network::{self, Network};
use super::programs::failure;
use super::spill::Streams;
use super::starts;
use super::state::CallState;
use super::write_limits::WriteLimits;
use crate::call::{Control, Permissions, Stop};
use crate::toolchains::Toolchains;
use cofferdam_core::outcome::{FailedCode, HostCode, LimitCode, ProgramLimitCode};
use cofferdam_core::policy::Files;
use cofferdam_workspace::{
    self as workspace, Cache, NativeView, Overlay, RepositoryError, ViewKind, ViewOptions, is_full,
};

/// The program that can read the workspace's repository outside of the workspace.
pub(super) const GIT: &str = "git";

/// The directory for copies of the workspace, if a program can't see it otherwise. Not `/tmp`,
/// which is in memory on many systems.
const SCRATCH_DIRECTORY: &str = "/var/tmp";

/// How many files a call can name that programs leave in any case.
const MAX_KEEP_FILES: usize = 100;

/// How often the observer is told that a program is still running.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// A run of a program that is ready to start. What is here has to live as long as the run.
pub(super) struct Prepared<'a> {
    pub(super) sandbox: &'a Sandbox,
    pub(super) described: sandbox::Command,
    pub(super) view: NativeView,
    pub(super) network: Option<Network>,
    pub(super) cache: Option<Cache<'a>>,
    write_limits: WriteLimits<'a>,
}

impl Host for CallState {
    fn run(&mut self, command: Command) -> Result<std::result::Result<Output, Error>> {
        Ok(self.run_program(&command))
    }

    fn find_repository(&mut self) -> Result<std::result::Result<Repository, Error>> {
        Ok(self.repository())
    }

    fn keep_files(&mut self, files: Vec<String>) -> Result<std::result::Result<(), Error>> {
        Ok(self.set_keep_files(&files))
    }

    fn cache_directory(&mut self) -> Result<String> {
        let workspace = &self.context.services.workspace;
        Ok(workspace.path_of_cache(self.context.permissions.plugin()).display().to_string())
    }
}

impl CallState {
    fn run_program(&self, command: &Command) -> std::result::Result<Output, Error> {
        self.allow_program(command)?;
        let tree = Arc::clone(self.files.tree());
        let Prepared { sandbox, described, view, network, cache, write_limits } =
            self.prepare(command, &tree)?;
        let top = self.top(&view);
        let workspace_shown = top.display().to_string();
        let copy = matches!(view.kind(), ViewKind::Copy(_)).then(|| top.to_owned());
        let report = self.run_to_end(sandbox, described, &command.program, network)?;
        if let sandbox::End::Limit(limit) = report.end
            && let Some(stop) = write_limits.stop(&command.program, limit)
        {
            self.control().note(stop);
            if let Some(cache) = cache.filter(|_| write_limits.is_cache(limit)) {
                cache.count_again();
            }
        }
        if let sandbox::End::Exited(code) = report.end {
            self.keep_after(code, command, view, &tree)?;
        }
        let mut output = output(report, workspace_shown);
        self.add_hints(&mut output, command, copy.as_deref());
        Ok(output)
    }

    /// Prepares a run of a program on `tree`: its view of the tree, its cache, its network, and the
    /// description of the run.
    pub(super) fn prepare(
        &self,
        command: &Command,
        tree: &Arc<Overlay>,
    ) -> std::result::Result<Prepared<'_>, Error> {
        let services = &self.context.services;
        let sandbox = services.programs.sandbox()?;
        let toolchains = self.toolchains(command);
        let program = services.programs.find(&command.program, &services.workspace, &toolchains)?;
        // It sees the whole workspace, and what is committed there.
        let sees = format!("the program `{}` could read it", command.program);
        self.context.secrets.read_all(&sees);
        let view = self.view(command, sandbox, tree)?;
        let network = match sandbox.tier() {
            Tier::A => Network::new(&self.context, &command.program, Path::new(SCRATCH_DIRECTORY))?,
            Tier::B => None,
        };
        let cache = self.cache(command)?;
        if let Some(cache) = &cache {
            let prepared = toolchains.prepare(cache, network.is_some());
            prepared.map_err(|error| self.failed(&"the directory for caches", &error))?;
        }
        let run = ProgramRun {
            context: &self.context,
            command,
            shown: view.kind(),
            top: self.top(&view),
            cache: cache.as_ref().map(Cache::path),
            toolchains: &toolchains,
            has_network: network.is_some(),
        };
        let mut described = run.describe(program)?;
        if command.program == GIT {
            described.readable.extend(self.outside(view.kind())?);
        }
        let (limits, plugin) = (&self.context.limits, self.context.permissions.plugin());
        let write_limits = WriteLimits::new(&view, cache.as_ref(), limits, plugin);
        described.bounded.clone_from(&write_limits.bounded);
        self.narrow(&mut described, command, &toolchains)?;
        if let Some(network) = &network {
            network.describe(&mut described);
        }
        described.loopback = self.reaches_programs(command);
        Ok(Prepared { sandbox, described, view, network, cache, write_limits })
    }

    /// The directory that a program sees as the workspace.
    fn top<'a>(&'a self, view: &'a NativeView) -> &'a Path {
        match view.kind() {
            ViewKind::Workspace | ViewKind::Mount { .. } => self.context.services.workspace.path(),
            ViewKind::Copy(copy) => copy,
        }
    }

    /// Stages the changes of a program that has exited, as far as the call asks for it.
    fn keep_after(
        &self,
        code: i32,
        command: &Command,
        view: NativeView,
        tree: &Overlay,
    ) -> std::result::Result<(), Error> {
        let named = self.keep_files.as_deref();
        match command.changes {
            Changes::Keep if code == 0 || named.is_none() => self.keep(view, tree, None),
            Changes::Keep | Changes::Discard if named.is_some() => self.keep(view, tree, named),
            Changes::Keep | Changes::Discard | Changes::None => Ok(()),
        }
    }

    /// Adds what the sandbox may have to do with a program's failure. `copy` is the copy of the
    /// workspace on which it worked, if it did.
    fn add_hints(&self, output: &mut Output, command: &Command, copy: Option<&Path>) {
        let CallContext { permissions, services, .. } = &*self.context;
        if let Some(named) = self.starts(command) {
            let program = &command.program;
            let rule = format!("starts.{program} under [grants.{}]", permissions.plugin());
            hints::not_started(output, program, &rule, named);
        }
        if let Some(copy) = copy {
            hints::copied(output, services.workspace.path(), copy);
        }
    }

    /// The only programs that a program may start.
    fn starts(&self, command: &Command) -> Option<&BTreeSet<String>> {
        self.context.permissions.grant.rules.starts(&command.program)
    }

    /// Narrows a run to the programs that the settings name, if they do.
    fn narrow(
        &self,
        described: &mut sandbox::Command,
        command: &Command,
        toolchains: &Toolchains,
    ) -> std::result::Result<(), Error> {
        let Some(named) = self.starts(command) else { return Ok(()) };
        let services = &self.context.services;
        starts::narrow(described, named, &services.programs, &services.workspace, toolchains)
    }

    /// The toolchains that a program can use. Git needs none.
    fn toolchains(&self, command: &Command) -> Toolchains {
        let services = &self.context.services;
        match command.program.as_str() {
            GIT => Toolchains::default(),
            _ => services.programs.toolchains(&services.workspace, &command.directory),
        }
    }

    fn set_keep_files(&mut self, files: &[String]) -> std::result::Result<(), Error> {
        if self.context.permissions.capabilities.files != Files::Write {
            let why = "the call may only read, so nothing that a program changes can be kept";
            return Err(Error::Denied(why.to_owned()));
        }
        if files.len() > MAX_KEEP_FILES {
            return Err(Error::Invalid(format!("at most {MAX_KEEP_FILES} files can be named")));
        }
        let place = |file: &String| match workspace::path::by_names("", file) {
            Ok(Some(place)) if !place.is_empty() => Ok(place.to_string()),
            _ => Err(Error::Invalid(format!(
                "'{}' is no file or directory below the workspace; name it relative to that",
                cofferdam_text::shorten(file, 400)
            ))),
        };
        let places = files.iter().map(place).collect::<std::result::Result<Vec<_>, _>>()?;
        self.keep_files = (!places.is_empty()).then_some(places);
        Ok(())
    }

    fn repository(&self) -> std::result::Result<Repository, Error> {
        self.allow_name(GIT)?;
        let found = self.locate().map_err(|error| match error {
            RepositoryError::NotFound(message) => Error::NotFound(message),
            RepositoryError::NotConfirmed(message) => Error::Invalid(message),
        })?;
        let text = |path: &Path| path.display().to_string();
        Ok(Repository {
            git_dir: text(&found.git_dir),
            work_tree: text(&found.work_tree),
            prefix: text(&found.prefix),
            outside: found.outside.iter().map(|path| text(path)).collect(),
        })
    }

    pub(super) fn locate(&self) -> std::result::Result<workspace::Repository, RepositoryError> {
        let services = &self.context.services;
        let home = services.programs.environment.get("HOME").map(Path::new);
        workspace::Repository::find(services.workspace.path(), home)
    }

    /// Returns what git can read outside of the workspace: nothing, unless a repository is confirmed.
    fn outside(&self, shown: &ViewKind) -> std::result::Result<Vec<PathBuf>, Error> {
        let Ok(found) = self.locate() else { return Ok(Vec::new()) };
        if matches!(shown, ViewKind::Copy(_)) && !found.prefix.as_os_str().is_empty() {
            let why = "the workspace is below the root of its git repository; this system can't \
                       show its staged changes to git there. Commit them first, or use the root of \
                       the working tree as the workspace";
            return Err(Error::Unavailable(why.to_owned()));
        }
        Ok(found.readable)
    }

    /// Checks whether the call may run the program with the file access that it requests.
    pub(super) fn allow_program(&self, command: &Command) -> std::result::Result<(), Error> {
        self.allow_name(&command.program)?;
        let granted = &self.context.permissions.capabilities;
        if command.changes == Changes::Keep && granted.files != Files::Write {
            let why = "the call may only read, so nothing that a program changes can be kept";
            return Err(Error::Denied(why.to_owned()));
        }
        let Permissions { grant, .. } = &self.context.permissions;
        let allowed = grant.rules.check(&grant.plugin, &command.program, &command.arguments);
        allowed.map_err(|denial| Error::Denied(denial.to_string()))
    }

    /// Checks whether the call may run the program at all.
    pub(super) fn allow_name(&self, program: &str) -> std::result::Result<(), Error> {
        let permissions = &self.context.permissions;
        if !permissions.capabilities.process.contains(program) {
            let plugin = permissions.plugin();
            return Err(Error::Denied(format!(
                "'{}' is not among the programs that the plugin '{plugin}' may run here; a person \
                 can grant it by process = [...] under [grants.{plugin}] in cofferdam.toml",
                cofferdam_text::shorten(program, 80)
            )));
        }
        if permissions.capabilities.files == Files::None {
            return Err(Error::Denied("the call has nothing to do with files".to_owned()));
        }
        Ok(())
    }

    /// Prepares a view of the call's tree for a program.
    fn view(
        &self,
        command: &Command,
        sandbox: &Sandbox,
        tree: &Arc<Overlay>,
    ) -> std::result::Result<NativeView, Error> {
        let options = ViewOptions {
            mounts: sandbox.tier() == Tier::A,
            scratch: Path::new(SCRATCH_DIRECTORY),
            may_change: command.changes != Changes::None,
        };
        let workspace = &self.context.services.workspace;
        let stop = || self.control().stop().is_some();
        NativeView::create(workspace, tree, options, &stop)
            .map_err(|error| self.failed(&"the workspace can't be shown to the program", &error))
    }

    /// Runs a program until it exits, exceeds its time limit, or the call is cancelled. Keeps its
    /// output if there is much.
    fn run_to_end(
        &self,
        sandbox: &Sandbox,
        command: sandbox::Command,
        name: &str,
        network: Option<Network>,
    ) -> std::result::Result<sandbox::Report, Error> {
        let control = self.control();
        let mut streams = Streams::new(&self.context, name);
        let messages = &self.messages;
        let still_runs = || messages.still_runs(name, control.elapsed().as_secs());
        let mut running = sandbox.start(command).map_err(not_run)?;
        let _reach = self.reach(&mut running)?;
        let egress = match network {
            Some(network) => network.start(&mut running, &self.context)?,
            None => None,
        };
        let mut report = run_to_end(running, control, &mut streams, still_runs)?;
        let refusals = egress.map(|egress| egress.refusals()).unwrap_or_default();
        network::explain(&self.context.permissions, name, &mut report, &refusals);
        // The output of a cancelled call is not kept.
        if !control.is_cancelled() {
            streams.keep();
        }
        Ok(report)
    }

    /// Stages the changes of a program in the call's transaction.
    fn keep(
        &self,
        view: NativeView,
        tree: &Overlay,
        only: Option<&[String]>,
    ) -> std::result::Result<(), Error> {
        let files = &self.files;
        let kept = view.keep(tree, files.quota(), &|place| files.allow_change(place), only);
        kept.map_err(|error| {
            self.note_full(&error);
            Error::Changes(error.to_string())
        })
    }

    /// The plugin's cache; `None` if a call that only reads can't have one.
    fn cache(&self, command: &Command) -> std::result::Result<Option<Cache<'_>>, Error> {
        let workspace = &self.context.services.workspace;
        let bytes = self.context.limits.cache as u64;
        match workspace.cache(self.context.permissions.plugin(), bytes) {
            // A program that only reads runs without a cache.
            Err(error) if command.changes != Changes::Keep && is_read_only(&error) => Ok(None),
            Err(error) => Err(self.failed(&"the directory for caches", &error)),
            cache => Ok(cache.ok()),
        }
    }

    /// Converts an I/O error of the host into an error of the run.
    fn failed(&self, what: &dyn std::fmt::Display, error: &io::Error) -> Error {
        self.note_full(error);
        failure(what, error)
    }

    /// Makes the call fail if a disk is full, even if its tool ignores the error.
    fn note_full(&self, error: &io::Error) {
        // Exceeded limits of the call are I/O errors of the same kind.
        if is_full(error) && self.files.exceeded().is_none() {
            let message = self.context.services.workspace.is_full(error);
            self.control().note(Stop::Ended(FailedCode::DiskFull.into(), message));
        }
    }
}

/// Runs a program until it exits, exceeds its time limit, or the call is cancelled. Calls
/// `still_runs` every [`PROGRESS_INTERVAL`] meanwhile.
fn run_to_end(
    running: sandbox::Running,
    control: &Control,
    streams: &mut Streams<'_>,
    still_runs: impl Fn() + Send,
) -> std::result::Result<sandbox::Report, Error> {
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
                if said.elapsed() >= PROGRESS_INTERVAL {
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

fn output(report: sandbox::Report, workspace: String) -> Output {
    let captured =
        |captured: sandbox::Captured| Captured { bytes: captured.bytes, total: captured.written };
    Output {
        end: end(report.end),
        stdout: captured(report.stdout),
        stderr: captured(report.stderr),
        duration_ms: u32::try_from(report.wall.as_millis()).unwrap_or(u32::MAX),
        workspace,
    }
}

pub(super) fn end(end: sandbox::End) -> End {
    let limit: HostCode = match end {
        sandbox::End::Exited(code) => return End::Exited(code),
        sandbox::End::Signalled(signal) => return End::Signalled(signal),
        // A program is cancelled only with its call.
        sandbox::End::Limit(Limit::WallClock) | sandbox::End::Cancelled => return End::TimedOut,
        sandbox::End::Limit(Limit::CpuTime) => ProgramLimitCode::CpuTimeLimit.into(),
        sandbox::End::Limit(Limit::Memory) => ProgramLimitCode::ProgramMemoryLimit.into(),
        sandbox::End::Limit(Limit::FileSize) => ProgramLimitCode::FileSizeLimit.into(),
        sandbox::End::Limit(Limit::Output) => ProgramLimitCode::ProgramOutputLimit.into(),
        sandbox::End::Limit(Limit::Processes) => ProgramLimitCode::ProcessLimit.into(),
        // The call fails with the message of `WriteLimits`.
        sandbox::End::Limit(Limit::Directory { .. }) => LimitCode::WriteLimit.into(),
        sandbox::End::Limit(Limit::Disk { .. }) => FailedCode::DiskFull.into(),
    };
    End::Limit(limit.as_str().to_owned())
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

pub(super) fn not_run(error: SandboxError) -> Error {
    match error {
        SandboxError::Unavailable(why) => Error::Unavailable(why),
        SandboxError::Command(why) => Error::Invalid(why),
        error @ (SandboxError::Program { .. }
        | SandboxError::Setup(_)
        | SandboxError::Helper(_)) => Error::Failed(error.to_string()),
    }
}
