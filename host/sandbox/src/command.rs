//! Describes a program to run and its limits. This module does not access the system, except for
//! the names in [`system_paths`].

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// One run of a program. All paths are absolute and without symbolic links, except that the
/// last name of a readable path may be one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The file to execute, which the caller has chosen; `PATH` is not searched. It is readable
    /// without being listed in `readable`.
    pub program: PathBuf,
    /// The arguments after the program's own name. No shell interprets them.
    pub arguments: Vec<String>,
    /// The whole environment. The sandbox sets `TMPDIR` to the private directory for temporary
    /// files, replacing a given one, and `HOME` to the same directory if it is not given.
    pub environment: Vec<(String, String)>,
    /// The working directory. It must be readable or writable.
    pub directory: PathBuf,
    /// What the program reads on standard input.
    #[serde(skip)]
    pub stdin: Vec<u8>,
    /// Files and directory trees that can be read and executed. Missing ones are left out. `/` is
    /// not allowed, neither here nor as writable.
    pub readable: Vec<PathBuf>,
    /// Files and directory trees that can also be written. They must exist.
    pub writable: Vec<PathBuf>,
    /// Files and directory trees beneath writable ones that are read-only: neither they nor their
    /// parent directories can be changed, moved or removed. They must exist.
    ///
    /// In tier A, each parent directory becomes a mount, so that moving a file into or out of it is
    /// a copy. In tier B, no names can be added to or removed from such a parent directory itself;
    /// other entries in it are writable as before.
    pub protected: Vec<PathBuf>,
    /// Directories beneath readable paths that can't be read, except for what is granted beneath
    /// them: empty in tier A; in tier B, their names can be listed.
    pub masked: Vec<PathBuf>,
    /// The only files, and files of directories, that can be executed besides `program`, with what
    /// each of them needs to start: the file that a link leads to, the interpreter of a script and
    /// the dynamic loader. They are readable without being listed in `readable`, also beneath a
    /// masked directory. `None` for everything that can be read.
    pub executable: Option<Vec<PathBuf>>,
    /// Mounts staged changes over a directory. Tier A only.
    pub overlay: Option<Overlay>,
    /// Directories that the run writes to, with their limits. They must exist.
    pub bounded: Vec<Bounded>,
    /// Pairs of name and value: in all output that the host receives, `[NAME]` replaces the value.
    /// An empty value is ignored.
    pub hidden: Vec<(String, String)>,
    /// Whether the host serves a proxy for the run, on [`PROXY_PORT`](crate::PROXY_PORT) of the run's
    /// loopback interface: see [`Running::take_proxy`](crate::Running::take_proxy). Tier A only; in tier
    /// B, there is none.
    pub proxy: bool,
    /// Whether the host exchanges sockets with the run: see
    /// [`Running::take_loopback`](crate::Running::take_loopback). Then the program starts only when the
    /// host says so. Tier A only; in tier B, there are no sockets.
    pub loopback: bool,
    /// Passes long streams on while the program runs, to [`Running::wait_with`].
    ///
    /// [`Running::wait_with`]: crate::Running::wait_with
    pub spill: Option<Spill>,
    /// The resource limits of the run.
    pub limits: Limits,
}

impl Command {
    /// Describes a run of `program` in `directory` that can read the system's directories
    /// ([`system_paths`]) and `directory`, and write only temporary files.
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
            executable: None,
            overlay: None,
            bounded: Vec::new(),
            hidden: Vec::new(),
            proxy: false,
            loopback: false,
            spill: None,
            limits: Limits::DEFAULT,
        }
    }

    /// The paths that are only readable, without those beneath writable ones.
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

/// An overlayfs (`userxattr`) in place of a directory: the program's changes go into `upper`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// The directory that is overlaid; programs see the merged tree under this path.
    pub lower: PathBuf,
    /// The staged changes, in the format of overlayfs.
    pub upper: PathBuf,
    /// An empty directory on the same mount as `upper`, for overlayfs itself, which leaves a
    /// directory `work` without any permissions in it.
    pub work: PathBuf,
}

/// The limits of a directory while a program runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounded {
    /// A writable directory, or the `upper` of an overlay.
    pub directory: PathBuf,
    /// The limit in bytes on disk. It is polled: see the crate's documentation.
    pub bytes: u64,
    /// The limit in files, directories and links.
    pub entries: u64,
    /// The bytes and entries before the run, as far as they are known.
    pub held: (u64, u64),
}

/// Which streams are passed on while the program runs, and how much of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spill {
    /// Streams with more bytes than this are passed on from their beginning; at most half of
    /// [`Limits::output`].
    pub above: usize,
    /// At most this many bytes are passed on, then a line that says how many are missing.
    pub most: u64,
}

/// The resource limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Wall-clock time from start to end.
    pub wall: Duration,
    /// Processor time of each process, in whole seconds.
    pub cpu_seconds: u64,
    /// Memory of all processes together, in bytes, including files in memory, shared memory, pipes
    /// and sockets. It is polled: a run can exceed it for some milliseconds.
    pub memory: u64,
    /// Address space of each process, in bytes: an allocation beyond it fails. Unlimited by
    /// default, since many runtimes reserve far more than they use.
    pub address_space: Option<u64>,
    /// The largest size of a file that can be written, in bytes.
    pub file_size: u64,
    /// Processes and threads at a time. They are polled: a run can exceed the limit for some
    /// milliseconds.
    pub processes: u64,
    /// Open files of each process at a time.
    pub open_files: u64,
    /// Bytes that are kept of standard output and of standard error each: the beginning and the
    /// end.
    pub output: usize,
    /// Bytes that the program may write to standard output or to standard error before the run is
    /// stopped.
    pub stream: u64,
    /// Size of temporary files in bytes. Tier A keeps them in memory, where they also count as
    /// `memory`; tier B has them on disk and polls their size.
    pub temporary: u64,
    /// Free space that must remain on the disk of each bounded directory, in bytes, or half of the
    /// free space at the start if that is less. It is polled.
    pub reserve: u64,
    /// How often what is polled is polled. Each time takes some of a processor, so a program that runs
    /// for hours is polled less often.
    pub poll: Duration,
}

impl Limits {
    /// The default limits of a run.
    pub const DEFAULT: Self = Self {
        wall: Duration::from_secs(30),
        cpu_seconds: 300,
        memory: 2 << 30,
        address_space: None,
        file_size: 256 << 20,
        processes: 1024,
        open_files: 1024,
        output: 1 << 20,
        stream: 256 << 20,
        temporary: 512 << 20,
        reserve: 256 << 20,
        poll: Duration::from_millis(10),
    };
}

/// Returns the paths that programs need to start and that have no data of users: the directories of
/// programs and libraries, and the part of `/etc` that loaders and the C library read. Home
/// directories, `/run`, `/var`, `/opt` and everything in `/etc` that may hold a secret are left
/// out.
pub fn system_paths() -> Vec<PathBuf> {
    SYSTEM_PATHS.iter().map(PathBuf::from).chain(java_configurations(Path::new("/etc"))).collect()
}

/// The files in `/etc/java-17-openjdk` and the like, which a Java runtime of Debian reads when it
/// starts, without the directory for passwords of remote management.
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
