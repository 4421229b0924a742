//! The machine's own programs, and Debian packages for those that are missing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::{Programs, SYSTEM, directory, look_up};
use crate::apt::Apt;
use crate::process::{ask, native};
use crate::project::Project;
use crate::stamp::Inputs;

/// How to install a program that is missing.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// By the Debian package of this name.
    Package(&'static str),
    /// By copying one file of the Debian package of this name. The package is not installed, since
    /// it would start a service.
    Unpacked { package: &'static str, file: &'static str },
    /// Not at all: no registry has it. The program is one file without dependencies.
    Nowhere,
}

const PROGRAMS: &[(&str, Source)] = &[
    ("cc", Source::Package("gcc")),
    ("chromium", Source::Package("chromium")),
    ("git", Source::Package("git")),
    ("java", Source::Package("default-jdk-headless")),
    ("javac", Source::Package("default-jdk-headless")),
    (
        "docker-registry",
        Source::Unpacked { package: "docker-registry", file: "usr/bin/docker-registry" },
    ),
    // Makes a program see another time.
    (
        "libfaketimeMT.so.1",
        Source::Unpacked {
            package: "libfaketime",
            file: "usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        },
    ),
    ("make", Source::Package("make")),
    ("minisign", Source::Package("minisign")),
    ("node", Source::Package("nodejs")),
    ("npm", Source::Package("npm")),
    // After Java. Debian's Gradle has its parts at absolute paths, so it can't be unpacked
    // elsewhere.
    ("gradle", Source::Package("gradle")),
    ("cargo-nextest", Source::Nowhere),
    ("golangci-lint", Source::Nowhere),
];

/// Directories that every sandboxed program can read.
const SYSTEM_ROOTS: [&str; 4] = ["/usr", "/bin", "/lib", "/sbin"];

/// A Python that can create virtual environments.
#[derive(Debug)]
pub struct Python {
    pub program: PathBuf,
    /// The directory of its installation, `sys.prefix`.
    pub prefix: PathBuf,
    /// The version that it prints.
    #[expect(dead_code, reason = "part of what an installation depends on, through Debug")]
    version: String,
}

impl Python {
    /// Finds the system's Python, which every user can read, or else the first one on `PATH`.
    fn find() -> Option<Self> {
        [PathBuf::from("/usr/bin/python3")]
            .into_iter()
            .chain(installed("python3"))
            .find_map(Self::at)
    }

    fn at(program: PathBuf) -> Option<Self> {
        const QUERY: &str = "import sys, ensurepip, venv; assert sys.version_info >= (3, 11); \
                             print(sys.base_prefix, sys.version.split()[0], sep='\\n')";
        let answer = ask(native(&program).args(["-c", QUERY]))?;
        let (prefix, version) = answer.split_once('\n')?;
        Some(Self { program, prefix: prefix.into(), version: version.into() })
    }
}

/// Finds a program on the `PATH` of this process.
fn installed(name: &str) -> Option<PathBuf> {
    look_up(name, env::split_paths(&env::var_os("PATH").unwrap_or_default()))
}

/// The directory of the toolchain itself, since rustup's proxies need rustup's settings.
fn rust() -> Option<PathBuf> {
    ask(native("rustc").args(["--print", "sysroot"])).map(PathBuf::from)
}

/// Adds the machine's programs to the inputs of a step.
///
/// # Errors
/// If a program disappears meanwhile.
pub fn describe(mut inputs: Inputs) -> Result<Inputs> {
    inputs = inputs.value("Python", format!("{:?}", Python::find()));
    inputs = inputs.value("Rust", format!("{:?}", rust()));
    for (name, _) in PROGRAMS {
        inputs = match installed(name) {
            Some(program) => inputs.value(name, "here").large_file(&program)?,
            None => inputs.value(name, "missing"),
        };
    }
    Ok(inputs)
}

/// Installs Debian packages for missing programs. What can't be installed is listed.
///
/// # Errors
/// If Python is still missing, since most other programs depend on it.
pub fn install_missing(project: &Project, programs: &mut Programs) -> Result<Python> {
    let mut apt = LazyApt::default();
    for (name, source) in PROGRAMS {
        if installed(name).is_some() {
            continue;
        }
        let outcome = match source {
            Source::Package(package) => apt.install(&[package]),
            Source::Unpacked { package, file } => apt.unpack(project, package, file),
            Source::Nowhere => Err("it is not installed, and no registry has it".into()),
        };
        if let Err(why) = outcome {
            programs.missing.insert((*name).into(), why);
        }
    }
    let python = Python::find().map_or_else(
        || apt.install(&["python3", "python3-venv"]).map(|()| Python::find()),
        |found| Ok(Some(found)),
    );
    python
        .unwrap_or_else(|why| {
            programs.missing.insert("python3".into(), why);
            None
        })
        .context("the tests need Python 3.11 or newer with its modules `venv` and `ensurepip`")
}

/// The package manager, which is looked up when the first package is needed.
#[derive(Default)]
struct LazyApt(Option<Result<Apt, String>>);

impl LazyApt {
    fn found(&mut self) -> Result<&Apt, &String> {
        let found = self.0.get_or_insert_with(|| {
            let apt = Apt::find().and_then(|apt| apt.update().map(|()| apt));
            apt.map_err(|error| format!("{error:#}"))
        });
        found.as_ref()
    }

    fn install(&mut self, packages: &[&str]) -> Result<(), String> {
        let apt = self.found().map_err(|why| format!("{why} (package {})", packages.join(" ")))?;
        apt.install(packages).map_err(|error| format!("{error:#}"))
    }

    /// Copies one file of a package to the tests' own programs.
    fn unpack(&mut self, project: &Project, package: &str, file: &str) -> Result<(), String> {
        let apt = self.found().map_err(|why| format!("{why} (package {package})"))?;
        let into = directory(project).join("debian").join(package);
        let unpack = || -> Result<()> {
            apt.unpack(package, &into)?;
            own(project, &into.join(file))
        };
        unpack().map_err(|error| format!("{error:#}"))
    }
}

/// Copies a program into a directory that contains nothing else.
fn own(project: &Project, program: &Path) -> Result<()> {
    let bin = own_programs(project);
    fs::create_dir_all(&bin).with_context(|| format!("creating {}", bin.display()))?;
    let name = program.file_name().context("a program has a name")?;
    fs::copy(program, bin.join(name)).with_context(|| format!("copying {}", program.display()))?;
    Ok(())
}

fn own_programs(project: &Project) -> PathBuf {
    directory(project).join("bin")
}

/// Adds the machine's programs to those that the tests use.
///
/// # Errors
/// If a program can't be copied.
pub fn add(project: &Project, programs: &mut Programs) -> Result<()> {
    if let Some(sysroot) = rust() {
        programs.add_directory(sysroot.join("bin"));
        programs.readable.insert(sysroot);
    }
    for (name, source) in PROGRAMS {
        let Some(program) = installed(name) else { continue };
        match (source, program.parent()) {
            (Source::Nowhere, Some(parent)) if !SYSTEM.map(Path::new).contains(&parent) => {
                // Tests should not see other programs of that directory.
                own(project, &program)?;
            }
            (_, Some(parent)) => {
                programs.add_directory(parent.to_owned());
                programs.readable.insert(prefix(&program.canonicalize()?));
            }
            (_, None) => {}
        }
    }
    let own = own_programs(project);
    if own.is_dir() {
        programs.add_directory(own.clone());
        programs.readable.insert(own);
    }
    programs.readable.extend(java_settings());
    programs.readable.retain(|path| !SYSTEM_ROOTS.iter().any(|root| path.starts_with(root)));
    Ok(())
}

/// The directory that a program is installed in: the parent of its `bin`.
fn prefix(program: &Path) -> PathBuf {
    let directory = program.parent().unwrap_or(program);
    match (directory.file_name(), directory.parent()) {
        (Some(name), Some(above)) if name == "bin" && above != Path::new("/") => above.to_owned(),
        _ => directory.to_owned(),
    }
}

/// Debian's settings of Java, in `/etc/java-17-openjdk` or similar.
fn java_settings() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/etc").into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"java-"))
        .map(|entry| entry.path())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_program_is_installed_below_the_directory_above_its_bin() {
        for (program, wanted) in [
            ("/opt/node/bin/node", "/opt/node"),
            ("/opt/tools/node", "/opt/tools"),
            ("/bin/make", "/bin"),
        ] {
            assert_eq!(prefix(Path::new(program)), Path::new(wanted), "{program}");
        }
    }

    #[test]
    fn a_program_that_is_not_python_is_refused() {
        assert!(Python::at("/bin/true".into()).is_none());
        assert!(Python::at("/bin/false".into()).is_none());
        assert!(Python::at("/nonexistent".into()).is_none());
    }

    #[test]
    fn the_description_is_stable() {
        let digest = || describe(Inputs::new()).unwrap().digest();
        assert_eq!(digest(), digest());
    }
}
