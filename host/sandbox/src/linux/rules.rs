//! The files that a program can access (Landlock).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use crate::{Command, SandboxError, Tier};

/// The Landlock rights that are used, as far as the kernel supports them.
const LANDLOCK_ABI: ABI = ABI::V9;

/// Tier A needs the right to move files between directories. Its mounts enforce the rest.
const MIN_VERSION_TIER_A: u32 = 2;

/// Tier B needs all rights on files, and those on TCP, abstract sockets and signals.
const MIN_VERSION_TIER_B: u32 = 6;

/// Devices that every program may read and, except for `/dev/zero`, write.
pub(super) const DEVICES: [&str; 5] =
    ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

/// The files in `/proc` that tier B shows: about the machine, not about processes.
const MACHINE_FILES: [&str; 8] = [
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
    "/proc/version",
];

/// Returns the version of Landlock's interface; 0 without Landlock.
pub(super) fn version() -> u32 {
    const VERSION: libc::c_uint = 1; // LANDLOCK_CREATE_RULESET_VERSION
    // SAFETY: with this flag, the call takes no pointer and returns a number.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(answer).unwrap_or(0)
}

/// Checks that this kernel's Landlock is sufficient for a tier.
///
/// # Errors
/// [`SandboxError::Unavailable`] if it is not.
pub(super) fn require(tier: Tier) -> Result<(), SandboxError> {
    let (found, needed) = (
        version(),
        match tier {
            Tier::A => MIN_VERSION_TIER_A,
            Tier::B => MIN_VERSION_TIER_B,
        },
    );
    if found >= needed {
        return Ok(());
    }
    Err(SandboxError::Unavailable(match found {
        0 => "the kernel has no Landlock, or it is not enabled".to_owned(),
        _ => format!("Landlock has version {found}; version {needed} is needed"),
    }))
}

/// The rules of tier A, where only granted paths are visible: all of them can be read, and written
/// if that was granted. They must be created inside of the namespaces.
///
/// # Errors
/// Returns an error if a path can't be opened.
pub(super) fn inside(
    command: &Command,
    writable: &[PathBuf],
) -> Result<RulesetCreated, SandboxError> {
    let mut rules = Rules::new(Tier::A, command)?;
    rules.add(open(Path::new("/"))?, rules.read)?;
    rules.add_devices()?;
    rules.add_executable(command)?;
    for path in command.writable.iter().chain(writable) {
        rules.add(open(path)?, rules.all)?;
    }
    Ok(rules.ruleset)
}

/// The rules of tier B, where the whole file tree is visible and only Landlock restricts access.
/// `temporary` is the directory for temporary files.
///
/// # Errors
/// Returns an error if a path can't be opened.
pub(super) fn outside(command: &Command, temporary: &Path) -> Result<RulesetCreated, SandboxError> {
    let mut rules = Rules::new(Tier::B, command)?;
    for path in command.read_only() {
        // A link grants its target: directories of a system link to each other. Missing paths are
        // left out, as documented.
        let Ok(path) = std::fs::canonicalize(path) else { continue };
        if command.masked.iter().any(|masked| masked.starts_with(&path)) {
            rules.add_unmasked(&path, &command.masked)?;
        } else {
            rules.add(open(&path)?, rules.read)?;
        }
    }
    rules.add_executable(command)?;
    for path in MACHINE_FILES.iter().map(Path::new) {
        if let Ok(file) = open(path) {
            rules.add(file, AccessFs::ReadFile.into())?;
        }
    }
    rules.add_devices()?;
    for path in &command.writable {
        rules.add_unprotected(path, &command.protected)?;
    }
    rules.add(open(temporary)?, rules.all)?;
    Ok(rules.ruleset)
}

/// Opens a path without symbolic links, only to refer to it (`O_PATH`).
///
/// # Errors
/// Returns an error if it does not exist, or has a link in it.
pub(super) fn open(path: &Path) -> Result<OwnedFd, SandboxError> {
    open_beneath_links(path, OFlags::empty())
}

/// Opens a path whose last component may be a symbolic link; then the link itself is opened.
///
/// # Errors
/// Returns an error if it does not exist, or if another component is a link.
pub(super) fn open_itself(path: &Path) -> Result<OwnedFd, SandboxError> {
    open_beneath_links(path, OFlags::NOFOLLOW)
}

fn open_beneath_links(path: &Path, flags: OFlags) -> Result<OwnedFd, SandboxError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(|error| {
        let path = path.display();
        SandboxError::Command(match error {
            rustix::io::Errno::LOOP => {
                format!("{path} is or goes through a symbolic link; name what it leads to")
            }
            error => format!("{path}: {error}"),
        })
    })
}

struct Rules {
    ruleset: RulesetCreated,
    /// The rights on what can be read, and on what can also be written.
    read: BitFlags<AccessFs>,
    all: BitFlags<AccessFs>,
}

impl Rules {
    fn new(tier: Tier, command: &Command) -> Result<Self, SandboxError> {
        require(tier)?;
        let create = || {
            let ruleset = Ruleset::default()
                .handle_access(AccessFs::from_all(LANDLOCK_ABI))?
                .scope(Scope::from_all(LANDLOCK_ABI))?;
            match tier {
                Tier::A => ruleset,
                Tier::B => ruleset.handle_access(AccessNet::from_all(LANDLOCK_ABI))?,
            }
            .create()
        };
        let (read, all) = (AccessFs::from_read(LANDLOCK_ABI), AccessFs::from_all(LANDLOCK_ABI));
        let not_executed = match command.executable {
            Some(_) => AccessFs::Execute.into(),
            None => BitFlags::empty(),
        };
        let ruleset = create().map_err(setup)?;
        Ok(Self { ruleset, read: read & !not_executed, all: all & !not_executed })
    }

    /// Grants executing the files that a command names, and the program itself.
    fn add_executable(&mut self, command: &Command) -> Result<(), SandboxError> {
        for path in command.executable.iter().flatten() {
            // A missing program is not executed.
            if let Ok(file) = open_itself(path) {
                self.add(file, AccessFs::from_read(LANDLOCK_ABI))?;
            }
        }
        Ok(())
    }

    /// `/dev/zero` is not writable: mapped for writing, it would be shared memory that the
    /// supervisor does not count.
    fn add_devices(&mut self) -> Result<(), SandboxError> {
        DEVICES.iter().try_for_each(|path| {
            let rights = match *path {
                "/dev/zero" => AccessFs::ReadFile.into(),
                _ => AccessFs::ReadFile | AccessFs::WriteFile,
            };
            self.add(open(Path::new(path))?, rights)
        })
    }

    fn add(&mut self, file: OwnedFd, rights: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let kind = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode)).map_err(io);
        let rights = match kind? {
            FileType::Directory => rights,
            FileType::Symlink => return Ok(()), // Links have no rights of their own.
            _ => rights & AccessFs::from_file(LANDLOCK_ABI),
        };
        (&mut self.ruleset).add_rule(PathBeneath::new(file, rights)).map_err(setup)?;
        Ok(())
    }

    /// Grants all rights on a path, except for protected paths. Rights apply to the whole tree, so
    /// a directory that contains a protected path is only readable.
    fn add_unprotected(&mut self, path: &Path, protected: &[PathBuf]) -> Result<(), SandboxError> {
        let file = open(path)?;
        if protected.iter().any(|protected| protected == path) {
            return self.add(file, self.read);
        }
        if !protected.iter().any(|protected| protected.starts_with(path)) {
            return self.add(file, self.all);
        }
        self.add(file, self.read)?;
        entries(path)?.iter().try_for_each(|entry| self.add_unprotected(entry, protected))
    }

    /// Grants reading a path, except for masked paths, of which only names can be listed.
    fn add_unmasked(&mut self, path: &Path, masked: &[PathBuf]) -> Result<(), SandboxError> {
        if masked.iter().any(|masked| masked == path) {
            return Ok(());
        }
        let file = open(path)?;
        if !masked.iter().any(|masked| masked.starts_with(path)) {
            return self.add(file, self.read);
        }
        self.add(file, AccessFs::ReadDir.into())?;
        entries(path)?.iter().try_for_each(|entry| self.add_unmasked(entry, masked))
    }
}

/// The entries of a directory except symbolic links, which have no rights of their own.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, SandboxError> {
    let listed: io::Result<Vec<_>> = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect());
    let mut listed = listed
        .map_err(|error| SandboxError::Command(format!("{}: {error}", directory.display())))?;
    listed.retain(|entry| !entry.is_symlink());
    Ok(listed)
}

fn setup(error: RulesetError) -> SandboxError {
    SandboxError::Setup(format!("Landlock: {error}"))
}

fn io(error: rustix::io::Errno) -> SandboxError {
    SandboxError::Setup(format!("Landlock: {error}"))
}
