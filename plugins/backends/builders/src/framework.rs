//! The frameworks: detecting them, their commands and their environment.
//!
//! Source: the actions reference, "build_project", "Framework Auto-Detection".

use std::fs;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::process::{self, Changes, Command, Output};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde_json::Value;

use crate::text::Columns;

/// A framework for which there is a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// Go, by the command `go`.
    Go,
    /// Scripts of a `package.json`.
    Npm,
    /// Make, GNU's or another.
    Make,
    /// Rust, by the command `cargo`.
    Cargo,
    /// Apache Maven, by the command `mvn`.
    Maven,
    /// Gradle, by the command `gradle`.
    Gradle,
}

/// Sureness if the framework's own file exists.
const SURE: u8 = 90;
/// Sureness if only source files exist.
const LIKELY: u8 = 40;
/// Sureness if the file exists but has no build step.
const UNLIKELY: u8 = 20;

/// The directory to build in.
pub struct Project<'a> {
    /// The directory, relative to the workspace.
    pub root: WorkspacePath,
    /// The context of the backend.
    pub context: &'a Context,
}

impl<'a> Project<'a> {
    /// Opens the project in `root`, which is relative to the workspace.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `root` is not a directory in the workspace.
    pub fn at(root: &str, context: &'a Context) -> Result<Self, Error> {
        let invalid = |error: ToolError| Error::Invalid(error.message);
        let root = context.resolve(if root.is_empty() { "." } else { root }).map_err(invalid)?;
        if context.local(&root).is_dir() {
            Ok(Self { root, context })
        } else {
            Err(Error::Invalid(format!("there is no directory {root} in the workspace")))
        }
    }

    fn has(&self, name: &str) -> bool {
        self.context.local(&self.root).join(name).is_file()
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.context.local(&self.root).join(name)).ok()
    }

    /// The names of the Go files in the directory itself, without tests.
    fn go_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.context.local(&self.root)).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut files: Vec<String> = names
            .filter(|name| name.ends_with(".go") && !name.ends_with("_test.go"))
            .filter(|name| !name.starts_with(['.', '_', '-']))
            .collect();
        files.sort();
        files
    }
}

impl Framework {
    /// The framework of the backend with this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such backend.
    pub fn named(name: &str) -> Result<Self, Error> {
        match name {
            "go" => Ok(Self::Go),
            "npm" => Ok(Self::Npm),
            "make" => Ok(Self::Make),
            "cargo" => Ok(Self::Cargo),
            "maven" => Ok(Self::Maven),
            "gradle" => Ok(Self::Gradle),
            _ => Err(Error::Unavailable(format!("there is no builder '{name}' here"))),
        }
    }

    /// How sure the framework is that it fits the project: 0 to 100.
    pub fn fits(self, project: &Project) -> u8 {
        let any = |names: &[&str]| if names.iter().any(|n| project.has(n)) { SURE } else { 0 };
        match self {
            Self::Go if project.has("go.mod") => SURE,
            Self::Go if project.go_files().is_empty() => 0,
            Self::Go => LIKELY,
            Self::Npm => match project.read("package.json") {
                None => 0,
                Some(package) if has_build_script(&package) => SURE,
                // Many projects in other languages have a `package.json` for tools.
                Some(_) => UNLIKELY,
            },
            Self::Make => any(&["GNUmakefile", "makefile", "Makefile"]),
            Self::Cargo => any(&["Cargo.toml"]),
            Self::Maven => any(&["pom.xml"]),
            Self::Gradle => any(&["build.gradle", "build.gradle.kts"]),
        }
    }

    /// The program and arguments that build the project, or `target` if given.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a target that the framework can't build, if that is known in advance.
    pub fn command(
        self,
        project: &Project,
        target: Option<&str>,
        timeout_ms: u32,
    ) -> Result<Vec<String>, Error> {
        if let Some(target) = target.filter(|target| target.starts_with('-') || target.is_empty()) {
            return Err(Error::Invalid(format!("'{target}' is no target: it is an option")));
        }
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        Ok(match (self, target) {
            (Self::Go, None) if project.has("go.mod") => words(&["go", "build", "./..."]),
            (Self::Go, None) => {
                words(&["go", "build"]).into_iter().chain(project.go_files()).collect()
            }
            (Self::Go, Some(target)) => go_target(project, target, timeout_ms)?,
            (Self::Npm, script) => words(&["npm", "run", script.unwrap_or("build")]),
            (Self::Make, None) => words(&["make"]),
            (Self::Make, Some(target)) => words(&["make", target]),
            (Self::Cargo, None) => words(&["cargo", "build", "--message-format=json"]),
            (Self::Cargo, Some(target)) => {
                words(&["cargo", "build", "--message-format=json", "--bin", target])
            }
            (Self::Maven, phase) => words(&[
                "mvn",
                "--offline",
                "--batch-mode",
                "--no-transfer-progress",
                "-Dstyle.color=never",
                phase.unwrap_or("compile"),
            ]),
            (Self::Gradle, task) => {
                // The default is `.gradle` in the workspace.
                let cache = process::cache_directory(project.context);
                words(&[
                    "gradle",
                    "--offline",
                    "--no-daemon",
                    "--console=plain",
                    &format!("--project-cache-dir={cache}/gradle-project"),
                    task.unwrap_or("assemble"),
                ])
            }
        })
    }

    pub(crate) fn asking_for_version(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Go => ("go", &["version"]),
            Self::Npm => ("npm", &["--version"]),
            Self::Make => ("make", &["--version"]),
            Self::Cargo => ("cargo", &["--version"]),
            Self::Maven => ("mvn", &["--version"]),
            Self::Gradle => ("gradle", &["--version"]),
        }
    }

    /// How compilers that print `FILE:LINE:COLUMN:` count columns in this framework.
    pub(crate) fn columns(self) -> Columns {
        match self {
            Self::Go => Columns::Bytes,
            // gcc counts terminal columns, clang bytes, others characters.
            _ => Columns::Characters,
        }
    }

    /// Environment variables in addition to the host's: caches in the plugin's own directory, no
    /// network access, no colours.
    pub fn environment(self, cache: &str) -> Vec<(String, String)> {
        let at = |name: &str| format!("{cache}/{name}");
        let fixed = |value: &str| value.to_owned();
        let own = match self {
            Self::Go => vec![
                ("GOCACHE", at("go-build")),
                ("GOENV", fixed("off")),
                // Without the first, Go runs git in a repository that is not trusted; without the
                // second, users can't remove the directories of modules in a cache.
                ("GOFLAGS", fixed("-buildvcs=false -modcacherw")),
                ("GOTELEMETRY", fixed("off")),
            ],
            Self::Npm => vec![
                ("npm_config_audit", fixed("false")),
                ("npm_config_cache", at("npm")),
                ("npm_config_fund", fixed("false")),
                ("npm_config_offline", fixed("true")),
                ("npm_config_update_notifier", fixed("false")),
            ],
            Self::Cargo => vec![
                ("CARGO_TARGET_DIR", at("cargo-target")),
                ("CARGO_TERM_COLOR", fixed("never")),
                ("CARGO_TERM_PROGRESS_WHEN", fixed("never")),
            ],
            Self::Gradle => vec![("GRADLE_USER_HOME", at("gradle"))],
            Self::Make | Self::Maven => vec![],
        };
        let common =
            [("NO_COLOR", fixed("1")), ("TERM", fixed("dumb")), ("LC_ALL", fixed("C.UTF-8"))];
        own.into_iter().chain(common).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Runs a program of the framework in the project's directory.
///
/// # Errors
/// See [`Error`]: the program was not run.
pub fn run(
    framework: Framework,
    words: &[String],
    project: &Project,
    changes: Changes,
    timeout_ms: u32,
) -> Result<Output, Error> {
    let [program, arguments @ ..] = words else {
        return Err(Error::Invalid("the command is empty".to_owned()));
    };
    let command = Command {
        arguments: arguments.to_vec(),
        directory: project.root.as_str().to_owned(),
        environment: framework.environment(&process::cache_directory(project.context)),
        timeout_ms,
        changes,
        ..process::command(program, &[])
    };
    Ok(process::run(&command, project.context)?)
}

fn has_build_script(package: &[u8]) -> bool {
    let package: Value = serde_json::from_slice(package).unwrap_or_default();
    package["scripts"]["build"].is_string()
}

/// The arguments of `go build -o TARGET PACKAGE`. Only a single package can be built to a file, so
/// the package with the program has to be found.
fn go_target(project: &Project, target: &str, timeout_ms: u32) -> Result<Vec<String>, Error> {
    let words = |package: &[String]| {
        let build = ["go", "build", "-o", target].map(str::to_owned);
        build.into_iter().chain(package.iter().cloned()).collect()
    };
    if !project.has("go.mod") {
        return Ok(words(&project.go_files()));
    }
    let programs = r#"{{if eq .Name "main"}}{{.ImportPath}}{{end}}"#;
    let list = ["go", "list", "-e", "-f", programs, "./..."].map(str::to_owned);
    let output = run(Framework::Go, &list, project, Changes::None, timeout_ms)?;
    let listed = output.stdout_text();
    let programs: Vec<String> =
        listed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    program_for(target, programs).map(|program| words(&[program]))
}

/// The only program, or the one named like the target.
fn program_for(target: &str, mut programs: Vec<String>) -> Result<String, Error> {
    let file = target.trim_end_matches('/').rsplit('/').next().unwrap_or(target);
    let is_called_so = |program: &String| program.rsplit('/').next() == Some(file);
    let found = match programs.as_slice() {
        [_] => Some(0),
        programs => programs.iter().position(is_called_so),
    };
    match found {
        Some(found) => Ok(programs.swap_remove(found)),
        None if programs.is_empty() => {
            Err(Error::Invalid(format!("there is no package main to build '{target}' from")))
        }
        None => Err(Error::Invalid(format!(
            "which package is '{target}' built from? There are {}; give a build command such as \
             `go build -o {target} {}`",
            programs.join(", "),
            programs[0]
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn frameworks_are_found_by_their_files() {
        use Framework::*;
        for (files, wanted) in [
            (&[][..], &[][..]),
            (&[("go.mod", "")], &[(Go, SURE)]),
            (&[("a.go", "")], &[(Go, LIKELY)]),
            (&[("a_test.go", "")], &[]),
            (&[("package.json", r#"{"scripts": {"build": "tsc"}}"#)], &[(Npm, SURE)]),
            (&[("package.json", "{}")], &[(Npm, UNLIKELY)]),
            (&[("package.json", "broken")], &[(Npm, UNLIKELY)]),
            (&[("Makefile", "")], &[(Make, SURE)]),
            (&[("makefile", "")], &[(Make, SURE)]),
            (&[("GNUmakefile", "")], &[(Make, SURE)]),
            (&[("Cargo.toml", "")], &[(Cargo, SURE)]),
            (&[("pom.xml", "")], &[(Maven, SURE)]),
            (&[("build.gradle", "")], &[(Gradle, SURE)]),
            (&[("build.gradle.kts", "")], &[(Gradle, SURE)]),
            (&[("go.mod", ""), ("Makefile", "")], &[(Go, SURE), (Make, SURE)]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            for (name, contents) in files {
                fs::write(directory.path().join(name), contents).unwrap();
            }
            let context = Context::for_directory(directory.path());
            let project = Project::at("", &context).unwrap();
            let found: Vec<(Framework, u8)> = [Go, Npm, Make, Cargo, Maven, Gradle]
                .map(|framework| (framework, framework.fits(&project)))
                .into_iter()
                .filter(|(_, sure)| *sure > 0)
                .collect();
            assert_eq!(found, wanted, "{files:?}");
        }
    }

    #[test]
    fn commands_are_those_of_the_frameworks() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["b.go", "a.go", "a_test.go"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let context = Context::for_directory(directory.path());
        let project = Project::at(".", &context).unwrap();
        let command = |framework: Framework, target| {
            framework.command(&project, target, 0).map(|words| words.join(" "))
        };
        for (framework, target, wanted) in [
            (Framework::Go, None, "go build a.go b.go"),
            (Framework::Go, Some("app"), "go build -o app a.go b.go"),
            (Framework::Npm, None, "npm run build"),
            (Framework::Npm, Some("bundle"), "npm run bundle"),
            (Framework::Make, None, "make"),
            (Framework::Make, Some("app"), "make app"),
            (Framework::Cargo, None, "cargo build --message-format=json"),
            (Framework::Cargo, Some("app"), "cargo build --message-format=json --bin app"),
        ] {
            assert_eq!(command(framework, target).unwrap(), wanted);
        }
        assert!(command(Framework::Maven, None).unwrap().ends_with(" compile"));
        assert!(command(Framework::Gradle, Some("jar")).unwrap().ends_with(" jar"));
        for target in ["--eval=$(shell touch x)", "-C", ""] {
            assert!(matches!(command(Framework::Make, Some(target)), Err(Error::Invalid(_))));
        }
        fs::write(directory.path().join("go.mod"), "module example.com/a\n").unwrap();
        assert_eq!(command(Framework::Go, None).unwrap(), "go build ./...");
    }

    #[test]
    fn a_go_program_is_found_for_a_target() {
        let program = |target, programs: &[&str]| {
            program_for(target, programs.iter().map(|&program| program.to_owned()).collect())
        };
        assert_eq!(program("app", &["example.com/x"]).unwrap(), "example.com/x");
        let two = ["example.com/cmd/a", "example.com/cmd/b"];
        assert_eq!(program("bin/b", &two).unwrap(), two[1]);
        for (target, programs, wanted) in [
            ("c", &two[..], "There are example.com/cmd/a, example.com/cmd/b; give a build command"),
            ("c", &[], "no package main"),
        ] {
            let message = match program(target, programs) {
                Err(Error::Invalid(message)) => message,
                other => format!("{other:?}"),
            };
            assert!(message.contains(wanted), "{message}");
        }
    }

    #[test]
    fn only_directories_of_the_workspace_are_projects() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "").unwrap();
        let context = Context::for_directory(directory.path());
        for root in ["none", "file", "..", "/etc"] {
            assert!(matches!(Project::at(root, &context), Err(Error::Invalid(_))), "{root}");
        }
        assert!(matches!(Framework::named("bazel"), Err(Error::Unavailable(_))));
    }
}
