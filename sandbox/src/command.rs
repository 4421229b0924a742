//! What is to be run, and within which bounds. A description only: nothing here looks at the
//! system, but for the names in [`system_paths`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One run of a program. All paths are absolute and without symbolic links, except that the
/// last name of a readable path may be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The file to execute. The caller has decided which one; nothing is looked up. It can be
    /// read without being named once more.
    pub program: PathBuf,
    /// The arguments after the program's own name. Never seen by a shell.
    pub arguments: Vec<String>,
    /// The whole environment. The sandbox adds `TMPDIR`, the private directory for temporary
    /// files, and replaces one that is given; the same directory is `HOME` if none is given.
    pub environment: Vec<(String, String)>,
    /// The working directory. It must be readable or writable.
    pub directory: PathBuf,
    /// What the program reads on standard input.
    #[serde(skip)]
    pub stdin: Vec<u8>,
    /// Files and directories, with all beneath, that can be read and executed. What does not
    /// exist is left out. The root can't be named, neither here nor as writable.
    pub readable: Vec<PathBuf>,
    /// Files and directories, with all beneath, that can also be written. They must exist.
    pub writable: Vec<PathBuf>,
    /// Files and directories beneath writable ones that stay as they are, with all beneath:
    /// neither they nor a directory on the way to them can be changed, moved or removed. They
    /// must exist.
    ///
    /// In tier A, a directory on the way becomes a mount, so that moving a file into or out of it
    /// is a copy. In tier B, such a directory itself takes no new names and loses none; what is
    /// in it beside the protected path is writable as before.
    pub protected: Vec<PathBuf>,
    /// Directories beneath readable paths of which nothing can be read, but for what is granted
    /// beneath them: empty in tier A; in tier B, their names can be listed.
    pub masked: Vec<PathBuf>,
    /// Shows a directory with staged changes on it. Tier A only.
    pub overlay: Option<Overlay>,
    /// Directories that the run writes to, and how much they may hold. They must exist.
    pub bounded: Vec<Bounded>,
    /// Names and values: where the program prints one of the values, `[NAME]` comes in its place,
    /// in all that the host gets. An empty value is ignored.
    pub hidden: Vec<(String, String)>,
    /// Hands long streams over while the program runs, to [`Running::wait_with`].
    ///
    /// [`Running::wait_with`]: crate::Running::wait_with
    pub spill: Option<Spill>,
    /// Where the run is stopped.
    pub limits: Limits,
}

impl Command {
    /// A run of `program` in `directory` that can read the system's directories
    /// ([`system_paths`]) and the directory, and write nothing but temporary files.
    pub fn new(program: impl Into<PathBuf>, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        let mut readable = system_paths();
        readable.push(directory.clone());
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory,
            stdin: Vec::new(),
            readable,
            writable: Vec::new(),
            protected: Vec::new(),
            masked: Vec::new(),
            overlay: None,
            bounded: Vec::new(),
            hidden: Vec::new(),
            spill: None,
            limits: Limits::DEFAULT,
        }
    }

    /// What can only be read, as far as it is not beneath something else that is granted.
    #[cfg(target_os = "linux")]
    pub(crate) fn read_only(&self) -> impl Iterator<Item = &Path> {
        let shown =
            || self.writable.iter().chain(self.overlay.iter().map(|overlay| &overlay.lower));
        let written = move |path: &&PathBuf| shown().any(|above| path.starts_with(above));
        let granted = |path: &&PathBuf| self.readable.iter().any(|above| path.starts_with(above));
        let program = Some(&self.program).into_iter().filter(move |path| !granted(path));
        let paths = self.readable.iter().chain(program).filter(move |path| !written(path));
        paths.map(PathBuf::as_path)
    }
}

/// An overlayfs (`userxattr`) in place of a directory: what the program writes goes into `upper`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// The directory that is shown, and where: programs see the result under this path.
    pub lower: PathBuf,
    /// The staged changes, in overlayfs's format.
    pub upper: PathBuf,
    /// An empty directory on the same mount as `upper`, for overlayfs itself, which leaves a
    /// directory `work` without any permission in it.
    pub work: PathBuf,
}

/// How much a directory may hold while a program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounded {
    /// A writable directory, or the `upper` of an overlay.
    pub directory: PathBuf,
    /// At most this many bytes on the disk. It is watched: see the crate's documentation.
    pub bytes: u64,
    /// At most this many files, directories and links.
    pub entries: u64,
    /// The bytes and entries that it has before the run, as far as that is known.
    pub held: (u64, u64),
}

/// Which streams are handed over while the program runs, and how much of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spill {
    /// Those of more bytes than this, from their beginning; at most half of [`Limits::output`].
    pub above: usize,
    /// At most this many bytes, and then a line that says how many were left out.
    pub most: u64,
}

/// The bounds of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Time from start to end.
    pub wall: Duration,
    /// Processor time of each process, in whole seconds.
    pub cpu_seconds: u64,
    /// Memory of all processes together, in bytes, with what they hold in files in memory, in
    /// shared memory, pipes and sockets. It is watched: a run can be above it for some
    /// milliseconds before it ends.
    pub memory: u64,
    /// Address space of each process, in bytes: an allocation beyond it fails. None by default,
    /// since many runtimes reserve far more than they use.
    pub address_space: Option<u64>,
    /// The largest file that can be written, in bytes.
    pub file_size: u64,
    /// Processes and threads at a time. They are watched: a run can be above it for some
    /// milliseconds before it ends.
    pub processes: u64,
    /// Open files of each process. The kernel counts descriptors that are on their way through
    /// sockets for all processes of a user, and takes more only from a process with a higher limit
    /// than that number. It is well below 1,024, the usual one, so that a run that sends many leaves
    /// the user's other programs some.
    pub open_files: u64,
    /// Bytes that are kept of standard output, and of standard error: its beginning and its end.
    pub output: usize,
    /// Bytes that the program may write to standard output, or to standard error, before the
    /// run is ended.
    pub stream: u64,
    /// Temporary files in bytes, which tier A keeps in memory: there they count as `memory` as
    /// well. Tier B has them on disk, where they are watched.
    pub temporary: u64,
    /// Room that is left on the disk of each directory that is bounded, in bytes; half of what is
    /// free in the beginning, where that is less. It is watched.
    pub reserve: u64,
}

impl Limits {
    /// The limits where nothing else is known.
    pub const DEFAULT: Self = Self {
        wall: Duration::from_secs(30),
        cpu_seconds: 300,
        memory: 2 << 30,
        address_space: None,
        file_size: 256 << 20,
        processes: 1024,
        open_files: 768,
        output: 1 << 20,
        stream: 256 << 20,
        temporary: 512 << 20,
        reserve: 256 << 20,
    };
}

/// What programs need to start and that holds nothing of a person's: the directories of programs
/// and libraries, and the part of `/etc` that loaders and the C library read. Left out are home
/// directories, `/run`, `/var`, `/opt`, and everything in `/etc` that may hold a secret.
pub fn system_paths() -> Vec<PathBuf> {
    SYSTEM_PATHS.iter().map(PathBuf::from).chain(java_configurations(Path::new("/etc"))).collect()
}

/// Where Debian keeps what a Java runtime reads when it starts, with the version in the name:
/// `/etc/java-17-openjdk`, but for its directory for passwords of remote management.
fn java_configurations(etc: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    entries(etc)
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"java-"))
        .flat_map(move |entry| entries(&entry.path()))
        .filter(|entry| entry.file_name() != "management")
        .map(|entry| entry.path())
}

const SYSTEM_PATHS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/java/security",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/lsb-release",
    "/etc/magic",
    "/etc/maven/logging",
    "/etc/maven/m2.conf",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn javas_configuration_is_readable_without_its_passwords() {
        let etc = tempfile::tempdir().unwrap();
        for directory in ["java-17-openjdk/security", "java-17-openjdk/management", "javac/x"] {
            fs::create_dir_all(etc.path().join(directory)).unwrap();
        }
        fs::write(etc.path().join("java-17-openjdk/jvm-amd64.cfg"), "").unwrap();
        let mut found: Vec<PathBuf> = java_configurations(etc.path()).collect();
        found.sort();
        let wanted = ["jvm-amd64.cfg", "security"];
        assert_eq!(found, wanted.map(|name| etc.path().join("java-17-openjdk").join(name)));
        assert_eq!(java_configurations(Path::new("/none")).count(), 0);
    }
}
