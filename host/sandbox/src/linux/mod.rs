//! The helper process on Linux, which has one thread.

mod attempts;
mod cgroup;
mod confine;
mod disk;
mod executable;
pub(crate) mod fork_server;
mod gate;
mod groups;
mod lock_down;
mod memory;
mod mounts;
mod namespaces;
mod network;
mod procfs;
mod requests;
mod rules;
mod sockets;
mod supervise;
mod syscalls;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{DumpableBehavior, getpid, set_child_subreaper, set_dumpable_behavior};
use tempfile::TempDir;

use crate::capture::Capture;
use crate::redact::Redactor;
use crate::wire::{Answer, Preparation, Request};
use crate::{Command, Report, SandboxError, Stream, Tier};
use confine::Confinement;
use disk::Watch;
use namespaces::{OwnedNamespaces, Role};
use supervise::Run;
use syscalls::Filters;
use tree::Tree;

pub(crate) use lock_down::lock_down;
pub(crate) use network::{receive, receive_reply};
pub(crate) use syscalls::reference;

/// Returns the executable for [`Helper::current`](crate::Helper::current).
pub(crate) fn own_executable() -> PathBuf {
    "/proc/self/exe".into()
}

/// Where a helper reads its request.
pub(crate) enum Place {
    /// In the namespaces of the host. Root may have made those of a run.
    Host(Option<OwnedNamespaces>),
    /// In the namespaces of a run in tier A, but with the file tree of the host.
    Prepared,
}

/// Begins a helper: it detaches itself from its caller, and prepares its run. Returns `None` when that run
/// has ended.
///
/// # Errors
/// The system refuses a step. A helper then answers its request with the error.
pub(crate) fn begin(preparation: Preparation) -> Result<Option<Place>, SandboxError> {
    confine::forget_the_caller();
    Ok(match preparation {
        Preparation::Nothing => Some(Place::Host(None)),
        // If that fails, it is tried again when the request is known.
        Preparation::MakeFor(owner) => Some(Place::Host(OwnedNamespaces::make(owner).ok())),
        Preparation::Enter => match namespaces::prepare()? {
            Role::Init => Some(Place::Prepared),
            Role::Outside => None,
        },
    })
}

/// Handles a request: in tier A, the first process of the namespaces sends the answer. `piece`
/// receives the program's output before the answer.
///
/// # Errors
/// Returns an error if the answer can't be written.
pub(crate) fn serve(
    place: Place,
    request: Request,
    input: Vec<u8>,
    piece: impl FnMut(Stream, &[u8]) -> io::Result<()> + 'static,
    answer: impl FnOnce(Result<Answer, SandboxError>) -> io::Result<()>,
) -> io::Result<()> {
    match request {
        Request::Run { mut command, tier: Tier::A, .. } => {
            executable::complete(&mut command);
            let entered = prepare(&command, Tier::A, input, piece).and_then(|run| {
                let role = match place {
                    Place::Host(ready) => namespaces::enter(&command, ready)?,
                    Place::Prepared => namespaces::enter_tree(&command).map(|()| Role::Init)?,
                };
                Ok((run, role))
            });
            match entered {
                Ok((_, Role::Outside)) => Ok(()),
                Ok((run, Role::Init)) => answer(run_in_tier_a(run, &command).map(Answer::Ran)),
                Err(error) => answer(Err(error)),
            }
        }
        _ if matches!(place, Place::Prepared) => {
            answer(Err(SandboxError::Setup("it has left the host's namespaces".to_owned())))
        }
        Request::Facts => {
            answer(Ok(Answer::Facts { landlock: rules::version(), cgroup: cgroup::find() }))
        }
        Request::Try { tier: Tier::A } => {
            let command = Command::new("/", "/usr");
            match namespaces::enter(&command, None) {
                Ok(Role::Outside) => Ok(()),
                Ok(Role::Init) => answer(try_tier_a(&command)),
                Err(error) => answer(Err(error)),
            }
        }
        Request::Try { tier: Tier::B } => answer(try_tier_b(&Command::new("/", "/usr"))),
        Request::Run { mut command, tier: Tier::B, scratch, .. } => {
            // A process of prepared namespaces would be one of the run.
            drop(place);
            executable::complete(&mut command);
            // Removed after the answer, since removing what a program leaves there may take a
            // while.
            let directory = temporary_directory(&scratch);
            answer(directory.as_ref().map_err(Clone::clone).and_then(|directory| {
                let run = prepare(&command, Tier::B, input, piece)?;
                run_in_tier_b(run, &command, directory.path()).map(Answer::Ran)
            }))
        }
    }
}

/// The confinement of a program in tier A. It must be created in the first process of the
/// namespaces.
fn confinement_a(command: &Command) -> Result<Confinement, SandboxError> {
    let shown: Vec<PathBuf> = mounts::PRIVATE_DIRS
        .iter()
        .map(PathBuf::from)
        .chain(command.overlay.iter().map(|overlay| overlay.lower.clone()))
        .collect();
    let ruleset = rules::inside(command, &shown)?;
    Ok(Confinement::new(&command.limits, Tier::A, ruleset, Filters::of(Tier::A)?))
}

/// The confinement of a program in tier B.
fn confinement_b(command: &Command, temporary: &Path) -> Result<Confinement, SandboxError> {
    let ruleset = rules::outside(command, temporary)?;
    Ok(Confinement::new(&command.limits, Tier::B, ruleset, Filters::of(Tier::B)?))
}

fn try_tier_a(command: &Command) -> Result<Answer, SandboxError> {
    try_out(confinement_a(command)?, Tree::Namespace)?;
    Ok(Answer::Tried)
}

fn try_tier_b(command: &Command) -> Result<Answer, SandboxError> {
    try_out(confinement_b(command, Path::new("/usr"))?, Tree::Descendants)?;
    Ok(Answer::Tried)
}

/// Confines this process like a program, to find out whether that works.
fn try_out(mut confinement: Confinement, tree: Tree) -> Result<(), SandboxError> {
    tree.members(usize::MAX).map_err(|error| {
        SandboxError::Unavailable(format!("/proc has no list of processes: {error}"))
    })?;
    confinement.apply(|_| Ok(())).map_err(|error| SandboxError::Unavailable(error.to_string()))
}

fn run_in_tier_a(mut run: Run, command: &Command) -> Result<Report, SandboxError> {
    let confinement = confinement_a(command)?;
    run.watch.enter();
    supervise::run(run, command, Path::new(mounts::PRIVATE_DIRS[0]), confinement)
}

fn run_in_tier_b(
    mut run: Run,
    command: &Command,
    temporary: &Path,
) -> Result<Report, SandboxError> {
    if command.overlay.is_some() {
        return Err(SandboxError::Command("an overlay needs tier A".to_owned()));
    }
    let confinement = confinement_b(command, temporary)?;
    run.watch = run.watch.with_temporary(temporary, command)?;
    set_child_subreaper(Some(getpid()))
        .and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(|error| SandboxError::Setup(error.to_string()))?;
    supervise::run(run, command, temporary, confinement)
}

fn temporary_directory(scratch: &Path) -> Result<TempDir, SandboxError> {
    tempfile::Builder::new().prefix("cofferdam-").tempdir_in(scratch).map_err(|error| {
        SandboxError::Setup(format!("a directory in {}: {error}", scratch.display()))
    })
}

/// Checks a command, and prepares its captures and its disk limits.
fn prepare(
    command: &Command,
    tier: Tier,
    input: Vec<u8>,
    piece: impl FnMut(Stream, &[u8]) -> io::Result<()> + 'static,
) -> Result<Run, SandboxError> {
    check_words(command)?;
    check_paths(command)?;
    let (limits, spill) = (&command.limits, command.spill);
    let capture =
        || Capture::new(limits.output, limits.stream, spill, Redactor::new(&command.hidden));
    let (watch, stdout, stderr) = (Watch::new(command)?, capture(), capture());
    Ok(Run { tier, input, watch, stdout, stderr, piece: Box::new(piece) })
}

fn check_words(command: &Command) -> Result<(), SandboxError> {
    let Command { arguments, environment, .. } = command;
    let variables = environment.iter().flat_map(|(name, value)| [name, value]);
    if let Some(word) = arguments.iter().chain(variables).find(|word| word.contains('\0')) {
        return refuse(format!("{word:?} contains a NUL, which no program can receive"));
    }
    let is_name = |name: &str| !name.is_empty() && !name.contains('=');
    match environment.iter().find(|(name, _)| !is_name(name)) {
        Some((name, _)) => refuse(format!("{name:?} is not the name of an environment variable")),
        None => Ok(()),
    }
}

fn check_paths(command: &Command) -> Result<(), SandboxError> {
    let Command { program, directory, readable, writable, protected, overlay, .. } = command;
    let executable = command.executable.iter().flatten();
    let layers = overlay.iter().flat_map(|overlay| [&overlay.lower, &overlay.upper, &overlay.work]);
    let paths = [program, directory].into_iter().chain(readable).chain(writable).chain(protected);
    for path in paths.chain(layers).chain(executable) {
        let plain = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
        if !path.is_absolute() || !plain || path.components().any(|part| part.as_os_str() == "..") {
            let path = path.display();
            return refuse(format!("{path} is not an absolute path without `.`, `..` and `//`"));
        }
    }
    if readable.iter().chain(writable).any(|path| path.parent().is_none()) {
        return refuse(
            "/ as a whole can't be granted; name the directories that are needed".to_owned(),
        );
    }
    for path in writable {
        rules::open(path)?;
    }
    for path in protected {
        rules::open_itself(path)?;
    }
    Ok(())
}

fn refuse(reason: String) -> Result<(), SandboxError> {
    Err(SandboxError::Command(reason))
}
