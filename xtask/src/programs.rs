//! Installs the real programs that tests and benchmarks run in the sandbox: linters, test runners,
//! build tools.
//!
//! Packages of PyPI and npm are installed once into `target/programs`, as pinned by the lock files
//! in `tests/programs`. Compilers and similar programs are those of the machine. Programs that are
//! not available on this machine are listed with the reason, so that a test can report why it was
//! skipped. The result is `target/programs/programs.toml`, from which the tests generate the host's
//! settings.
//!
//! MCP clients, which connect to the host and are not run by it, are installed into
//! `target/clients`, as pinned by the lock files in `tests/clients`. What drives the console in a browser is
//! installed into `target/browser`, as pinned in `tests/browser`.

mod machine;
mod maven;
mod registries;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use toml::{Table, Value};

use crate::process::announce;
use crate::project::{Project, files_below, read_text, write};
use crate::stamp::{Inputs, Stamp};

/// The directories in which every sandboxed program is looked up last; equal to those in the host.
const SYSTEM: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// A command that each program must support, which runs with only the directories that the tests
/// know.
const VERSION_QUERIES: &[(&str, &[&str])] = &[
    ("cargo", &["--version"]),
    ("cargo-clippy", &["--version"]),
    ("cargo-nextest", &["nextest", "--version"]),
    ("cc", &["--version"]),
    ("chromium", &["--version"]),
    ("docker-registry", &["--version"]),
    ("eslint", &["--version"]),
    ("git", &["--version"]),
    ("go", &["version"]),
    ("golangci-lint", &["--version"]),
    ("gradle", &["--version"]),
    ("java", &["--version"]),
    ("javac", &["--version"]),
    ("jest", &["--version"]),
    ("lint-imports", &["--version"]),
    ("make", &["--version"]),
    ("minisign", &["-v"]),
    ("mvn", &["--version", "-Dstyle.color=never"]),
    ("mypy", &["--version"]),
    ("node", &["--version"]),
    ("npm", &["--version"]),
    ("pycodestyle", &["--version"]),
    ("pyflakes", &["--version"]),
    ("pylint", &["--version"]),
    ("pytest", &["--version"]),
    ("python", &["--version"]),
    ("ruff", &["--version"]),
    ("rustc", &["--version"]),
];

/// The lock files of the clients, which are next to scripts of the tests.
const CLIENT_LOCKS: [&str; 6] = [
    "python.txt",
    "langchain.txt",
    "packages.txt",
    "store.txt",
    "package.json",
    "package-lock.json",
];

/// The lock files of npm.
const NPM_LOCKS: [&str; 2] = ["package.json", "package-lock.json"];

/// The contents of `programs.toml`.
#[derive(Debug, Default)]
struct Programs {
    /// Directories in which programs are looked up, in this order, before those of the system.
    path: Vec<PathBuf>,
    /// Paths that programs must be able to read besides the system's own directories.
    readable: BTreeSet<PathBuf>,
    /// Programs that are not available, and why.
    missing: BTreeMap<String, String>,
}

/// Installs the programs and prints which ones are missing.
///
/// # Errors
/// If a package of PyPI or npm can't be installed or does not work.
pub fn provide(project: &Project) -> Result<()> {
    let result = directory(project).join("programs.toml");
    let (clients, browser) = (clients_directories(project), browser_directory(project));
    let installed = [&result, &browser].into_iter().chain(&clients);
    let missing = if stamp(project)?.is_fresh(installed) {
        missing(&read_text(&result)?)?
    } else {
        let programs = install(project)?;
        let versions = programs.versions()?;
        write(&result, programs.to_toml(&versions)?)?;
        // Computed again, because programs may have been installed on the machine.
        stamp(project)?.set()?;
        versions.into_iter().filter_map(|(name, version)| Some((name, version.err()?))).collect()
    };
    for (name, why) in missing {
        announce(&format!("tests have to do without {name}: {why}"));
    }
    Ok(())
}

/// The inputs of the installation. Deleting the file makes it run again.
fn stamp(project: &Project) -> Result<Stamp> {
    let inputs = Inputs::new()
        .files(files_below(&locks(project))?)?
        .files(CLIENT_LOCKS.map(|name| client_locks(project).join(name)))?
        .files(NPM_LOCKS.map(|name| browser_locks(project).join(name)))?
        .value("into", directory(project).as_os_str().as_encoded_bytes())
        .value("queries", format!("{VERSION_QUERIES:?}"));
    Ok(Stamp::new(project, "programs", machine::describe(inputs)?))
}

fn install(project: &Project) -> Result<Programs> {
    let mut programs = Programs::default();
    let base = machine::install_missing(project, &mut programs)?;
    registries::python(project, &base, &mut programs)?;
    registries::npm(project, &mut programs)?;
    registries::go(project, &mut programs)?;
    registries::package(project)?;
    registries::clients(project, &base)?;
    registries::browser(project)?;
    if let Err(why) = maven::install(project, &mut programs) {
        programs.missing.insert("mvn".into(), format!("{why:#}"));
    }
    machine::add(project, &mut programs)?;
    Ok(programs)
}

fn directory(project: &Project) -> PathBuf {
    project.target.join("programs")
}

/// The directory of the lock files.
fn locks(project: &Project) -> PathBuf {
    project.root.join("tests/programs")
}

/// The directory of the lock files of MCP's clients.
fn client_locks(project: &Project) -> PathBuf {
    project.root.join("tests/clients")
}

/// The directory of the lock files of what drives a browser.
fn browser_locks(project: &Project) -> PathBuf {
    project.root.join("tests/browser")
}

fn browser_directory(project: &Project) -> PathBuf {
    project.target.join("browser")
}

/// The directories of the clients: MCP's for Python with Node.js, LangChain's (which needs another
/// version of MCP's client), validators of packages, a server of S3's protocol, JavaScript's.
fn clients_directories(project: &Project) -> [PathBuf; 5] {
    ["python", "langchain", "packages", "store", "npm"]
        .map(|name| project.target.join("clients").join(name))
}

/// Runs `install`, which fills the directory `into`, unless it ran before with the same inputs.
fn once(
    project: &Project,
    name: &str,
    inputs: Inputs,
    into: &Path,
    install: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let inputs = inputs.value("into", into.as_os_str().as_encoded_bytes());
    let stamp = Stamp::new(project, &format!("programs-{name}"), inputs);
    if stamp.is_fresh([&into.to_owned()]) {
        return Ok(());
    }
    stamp.clear()?;
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("removing {}", into.display()))?;
    }
    fs::create_dir_all(into).with_context(|| format!("creating {}", into.display()))?;
    install()?;
    stamp.set()
}

/// Returns the first file of this name in the directories.
fn look_up(program: &str, directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let mut files = directories.into_iter().map(|directory| directory.join(program));
    files.find(|file| file.is_file())
}

impl Programs {
    fn add_directory(&mut self, directory: PathBuf) {
        if !self.directories().any(|known| known == directory) {
            self.path.push(directory);
        }
    }

    /// All directories in which programs are looked up.
    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.path.iter().cloned().chain(SYSTEM.map(PathBuf::from))
    }

    /// The version that each program prints, or why the program is missing.
    ///
    /// # Errors
    /// If a program that was installed for the tests does not work.
    fn versions(&self) -> Result<BTreeMap<String, Result<String, String>>> {
        let mut versions = BTreeMap::new();
        for (name, arguments) in VERSION_QUERIES {
            let version = self.version(name, arguments);
            if let Err(why) = &version
                && registries::INSTALLED.contains(name)
            {
                bail!("{why}");
            }
            versions.insert((*name).to_owned(), version);
        }
        Ok(versions)
    }

    fn version(&self, name: &str, arguments: &[&str]) -> Result<String, String> {
        // A known reason is more helpful than the error that results from it.
        if let Some(why) = self.missing.get(name) {
            return Err(why.clone());
        }
        let program = look_up(name, self.directories())
            .ok_or_else(|| format!("there is no program '{name}'"))?;
        let failed = |why: String| format!("{} {}: {why}", program.display(), arguments.join(" "));
        let path =
            env::join_paths(self.directories()).map_err(|error| failed(error.to_string()))?;
        let output = Command::new(&program)
            .args(arguments)
            .env_clear()
            .env("PATH", path)
            .env("HOME", env::temp_dir())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        match said.lines().find(|line| line.contains(|c: char| c.is_ascii_digit())) {
            Some(line) if output.status.success() => {
                // Maven always starts by resetting the terminal's colours.
                Ok(line.trim_start_matches("\u{1b}[0m").trim().to_owned())
            }
            _ => {
                let error = String::from_utf8_lossy(&output.stderr);
                Err(failed(format!("{}, {said}{error}", output.status)))
            }
        }
    }

    fn to_toml(&self, versions: &BTreeMap<String, Result<String, String>>) -> Result<String> {
        let paths = |paths: &mut dyn Iterator<Item = &PathBuf>| -> Result<Value> {
            let texts = paths.map(|path| {
                let text = path.to_str().with_context(|| format!("{} is no UTF-8", path.display()));
                Ok(Value::from(text?))
            });
            Ok(Value::Array(texts.collect::<Result<_>>()?))
        };
        let (mut found, mut missing) = (Table::new(), Table::new());
        for (name, version) in versions {
            match version {
                Ok(version) => found.insert(name.clone(), version.clone().into()),
                Err(why) => missing.insert(name.clone(), why.clone().into()),
            };
        }
        let mut document = Table::new();
        document.insert("path".into(), paths(&mut self.path.iter())?);
        document.insert("readable".into(), paths(&mut self.readable.iter())?);
        document.insert("versions".into(), found.into());
        document.insert("missing".into(), missing.into());
        Ok(toml::to_string(&document)?)
    }
}

/// The table `missing` of `programs.toml`.
fn missing(document: &str) -> Result<BTreeMap<String, String>> {
    let document: Table = document.parse().context("target/programs/programs.toml")?;
    let table = document.get("missing").and_then(Value::as_table);
    let text = |why: &Value| why.as_str().unwrap_or_default().to_owned();
    Ok(table.into_iter().flatten().map(|(name, why)| (name.clone(), text(why))).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::project::Profile;

    #[test]
    fn own_directories_come_before_those_of_the_system() {
        let mut programs = Programs::default();
        for directory in ["/a", "/usr/bin", "/b", "/a"] {
            programs.add_directory(directory.into());
        }
        let directories: Vec<PathBuf> = programs.directories().collect();
        assert_eq!(
            directories,
            ["/a", "/b", "/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from)
        );
    }

    #[test]
    fn programs_are_asked_for_their_version_without_this_environment() {
        let mut programs = Programs::default();
        let sh = |script: &str| programs.version("sh", &["-c", script]);
        assert_eq!(sh("echo title; echo 'Shell 1.2 '").unwrap(), "Shell 1.2");
        assert_eq!(
            sh("echo 1 $CARGO_MANIFEST_DIR $PATH").unwrap(),
            "1 /usr/local/bin:/usr/bin:/bin"
        );
        assert!(
            sh("echo 1; echo too old >&2; exit 3")
                .unwrap_err()
                .contains("exit status: 3, 1\ntoo old")
        );
        assert!(
            programs.version("no-such-program", &[]).unwrap_err().contains("'no-such-program'")
        );
        programs.missing.insert("sh".into(), "only root may install packages".into());
        assert_eq!(programs.version("sh", &[]).unwrap_err(), "only root may install packages");
    }

    #[test]
    fn missing_programs_are_read_as_written() {
        let mut programs = Programs::default();
        programs.add_directory("/a \"b\"".into());
        programs.readable.insert("/r".into());
        let versions = BTreeMap::from([
            ("git".to_owned(), Ok("git version 2.39".to_owned())),
            ("gradle".to_owned(), Err("why\nnot".to_owned())),
        ]);
        let document = programs.to_toml(&versions).unwrap();
        assert_eq!(
            missing(&document).unwrap(),
            BTreeMap::from([("gradle".into(), "why\nnot".into())])
        );
        let table: Table = document.parse().unwrap();
        assert_eq!(table["path"], Value::from(vec!["/a \"b\""]));
        assert_eq!(table["readable"], Value::from(vec!["/r"]));
        assert_eq!(table["versions"]["git"], Value::from("git version 2.39"));
    }

    #[test]
    fn a_directory_is_filled_once_and_anew_when_its_lock_changes() {
        let root = tempfile::tempdir().unwrap();
        let project = Project {
            target: root.path().join("target"),
            root: root.path().to_owned(),
            profile: Profile::Release,
        };
        let into = directory(&project).join("x");
        let mut runs = 0;
        for lock in ["1", "1", "2"] {
            let inputs = Inputs::new().value("lock", lock);
            let install = || {
                runs += 1;
                assert_eq!(fs::read_dir(&into).unwrap().count(), 0);
                write(&into.join("file"), "")
            };
            once(&project, "x", inputs, &into, install).unwrap();
        }
        assert_eq!(runs, 2);
        let failing = once(&project, "x", Inputs::new(), &into, || bail!("no network"));
        assert_eq!(failing.unwrap_err().to_string(), "no network");
        once(&project, "x", Inputs::new().value("lock", "2"), &into, || bail!("tried"))
            .unwrap_err();
    }
}
