//! The real programs that tests and benchmarks run in the sandbox: linters, test runners, build
//! tools.
//!
//! What the registries have is installed once into `target/programs`, as the lock files in
//! `tests/programs` pin it. Compilers and the like are the machine's own. What can't be had on
//! this machine is listed with the reason, so that a test which needs it can say so. The outcome
//! is `target/programs/programs.toml`, from which the tests make the host's settings.
//!
//! MCP's clients, which talk to the host and are not run by it, are installed into
//! `target/clients`, as the lock files in `tests/clients` pin them.

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

/// Where every sandboxed program is looked up last. The same as in the host.
const SYSTEM: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// What the programs are checked with: it has to work with nothing but the directories that the
/// tests know.
const VERSION_QUERIES: &[(&str, &[&str])] = &[
    ("cargo", &["--version"]),
    ("cargo-clippy", &["--version"]),
    ("cargo-nextest", &["nextest", "--version"]),
    ("cc", &["--version"]),
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

/// The lock files of MCP's clients. Scripts of the tests lie beside them.
const CLIENT_LOCKS: [&str; 3] = ["python.txt", "package.json", "package-lock.json"];

/// What was found, for the tests.
#[derive(Debug, Default)]
struct Programs {
    /// Directories in which programs are looked up, in this order, before those of the system.
    path: Vec<PathBuf>,
    /// What programs have to be able to read besides the system's own directories.
    readable: BTreeSet<PathBuf>,
    /// Programs that are not there, and why.
    missing: BTreeMap<String, String>,
}

/// Makes the programs ready, and says what is missing.
///
/// # Errors
/// Something can't be installed that PyPI or npm have, or does not work here.
pub fn provide(project: &Project) -> Result<()> {
    let result = directory(project).join("programs.toml");
    let [python, npm] = &clients_directories(project);
    let missing = if stamp(project)?.is_fresh([&result, python, npm]) {
        missing(&read_text(&result)?)?
    } else {
        let programs = install(project)?;
        let versions = programs.versions()?;
        write(&result, programs.to_toml(&versions)?)?;
        // Anew, because the machine may have got a program.
        stamp(project)?.set()?;
        versions.into_iter().filter_map(|(name, version)| Some((name, version.err()?))).collect()
    };
    for (name, why) in missing {
        announce(&format!("tests have to do without {name}: {why}"));
    }
    Ok(())
}

/// What the outcome depends on. Deleting it makes everything be looked for again.
fn stamp(project: &Project) -> Result<Stamp> {
    let inputs = Inputs::new()
        .files(files_below(&locks(project))?)?
        .files(CLIENT_LOCKS.map(|name| client_locks(project).join(name)))?
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
    registries::clients(project, &base)?;
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

/// Where MCP's clients are: Python's and Node.js, JavaScript's.
fn clients_directories(project: &Project) -> [PathBuf; 2] {
    ["python", "npm"].map(|name| project.target.join("clients").join(name))
}

/// Runs `install`, which fills the directory `into`, unless it did so with the same inputs.
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

/// The first file of this name in the directories.
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

    /// Where programs are looked up.
    fn directories(&self) -> impl Iterator<Item = PathBuf> {
        self.path.iter().cloned().chain(SYSTEM.map(PathBuf::from))
    }

    /// What each program says that it is, or why there is no such program.
    ///
    /// # Errors
    /// One that was installed for the tests does not work.
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
        // A reason that is known already says more than what follows from it.
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
                // Maven resets the terminal's colours first, whatever it is told.
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
    fn what_is_missing_is_read_as_it_was_written() {
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
        let project = Project { target: root.path().join("target"), root: root.path().to_owned() };
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
