//! What each linter, test runner and builder that runs native programs finds for this workspace, what
//! it lacks, and how to mend it.

use std::path::Path;

use cofferdam_core::policy::BackendKind;
use cofferdam_engine::host::Host;
use cofferdam_engine::runtime::{BackendEntry, BackendError};
use cofferdam_engine::toolchains::{Toolchains, remedy};
use serde::Serialize;
use serde_json::{Value, json};

const KINDS: [BackendKind; 3] =
    [BackendKind::TestRunner, BackendKind::Builder, BackendKind::Linter];

/// A runner in this workspace.
#[derive(Debug, Serialize)]
struct Runner {
    kind: BackendKind,
    name: String,
    /// Whether the workspace has a project for it, or null if the runner does not tell.
    fits: Option<bool>,
    programs: Vec<Program>,
    version: Option<String>,
    /// What keeps it from working, if anything does.
    missing: Option<String>,
    /// One line that mends it.
    remedy: Option<String>,
}

/// A program of a runner.
#[derive(Debug, Serialize)]
struct Program {
    name: String,
    /// The file, or null if there is none.
    file: Option<String>,
    /// The toolchain that it belongs to; null for the system's and for `[programs] path`.
    from: Option<&'static str>,
}

/// Describes the toolchains of the account, and all runners.
pub fn describe(host: &Host) -> Value {
    let toolchains = host.toolchains();
    let runners: Vec<Runner> = KINDS
        .into_iter()
        .flat_map(|kind| host.backends(kind))
        .filter(|entry| !entry.backend().programs.is_empty())
        .map(|entry| runner(host, &toolchains, entry))
        .collect();
    let found: Vec<Value> = toolchains
        .found()
        .iter()
        .map(|found| {
            json!({
                "name": found.name,
                "programs": found.programs,
                "readable": found.readable,
                "notes": found.notes,
            })
        })
        .collect();
    json!({ "toolchains": found, "runners": runners })
}

fn runner(host: &Host, toolchains: &Toolchains, entry: &BackendEntry) -> Runner {
    let backend = entry.backend();
    let (kind, name) = (backend.kind, backend.name.clone());
    let fits = host.backend_fits(kind, &name).map(|sureness| sureness > 0);
    let programs: Vec<Program> =
        backend.programs.iter().map(|name| program(host, toolchains, name)).collect();
    let version = host.backend_version(kind, &name);
    let (missing, remedy) = match &version {
        Err(error) => (Some(reason(error).to_owned()), remedy_of(&name, &programs)),
        Ok(_) if fits != Some(false) => match dependencies(host, toolchains, &name) {
            Some((missing, line)) => (Some(missing.to_owned()), Some(line.to_owned())),
            None => (None, None),
        },
        Ok(_) => (None, None),
    };
    Runner { kind, name, fits, programs, version: version.ok(), missing, remedy }
}

fn program(host: &Host, toolchains: &Toolchains, name: &str) -> Program {
    let file = host.find_program(name, toolchains);
    let from = file.as_deref().and_then(|file| toolchains.of(file)).map(|found| found.name);
    let file = file.map(|file| file.display().to_string());
    Program { name: name.to_owned(), file, from }
}

/// How to install what a runner lacks: the runner's own line, or that of its first missing program.
fn remedy_of(name: &str, programs: &[Program]) -> Option<String> {
    let missing = programs.iter().find(|program| program.file.is_none());
    let line = remedy(name).or_else(|| remedy(&missing?.name));
    line.map(str::to_owned)
}

fn reason(error: &BackendError) -> &str {
    match error {
        BackendError::Unavailable(why)
        | BackendError::Invalid(why)
        | BackendError::Limit(why)
        | BackendError::Failed(why) => why,
    }
}

/// What a project declares and the account does not have, with the line that downloads it.
fn dependencies(
    host: &Host,
    toolchains: &Toolchains,
    name: &str,
) -> Option<(&'static str, &'static str)> {
    let text = |file: &str| host.workspace().read_text(file).ok().flatten();
    let declares = |file: &str, word: &str| text(file).is_some_and(|text| text.contains(word));
    let knows = |name: &str| toolchains.found().iter().any(|found| found.name == name);
    let holds = |toolchain: &str, end: &str| {
        let found = toolchains.found().iter().filter(|found| found.name == toolchain);
        found.flat_map(|found| &found.readable).any(|path| path.ends_with(end))
    };
    let exists = |directory: &str| is_directory(&host.workspace().path().join(directory));
    match name {
        "go" | "golangci-lint"
            if declares("go.mod", "require")
                && !knows("Go's module cache")
                && !exists("vendor") =>
        {
            Some((
                "modules that go.mod requires: the account has no module cache",
                "go mod download",
            ))
        }
        "cargo" | "clippy"
            if declares("Cargo.toml", "dependencies]")
                && !holds("cargo", "registry/cache")
                && !exists("vendor") =>
        {
            Some(("crates: the account has none that were downloaded", "cargo fetch"))
        }
        "maven" if text("pom.xml").is_some() && !holds("Maven's repository", "repository") => {
            Some((
                "plugins and dependencies: the account has no local repository",
                "mvn dependency:go-offline",
            ))
        }
        "npm" | "jest" | "native-eslint"
            if declares("package.json", "ependencies\"") && !exists("node_modules") =>
        {
            Some(("the packages of package.json: there is no node_modules", "npm ci"))
        }
        _ => None,
    }
}

#[expect(clippy::disallowed_methods, reason = "asks whether a directory of the workspace exists")]
fn is_directory(path: &Path) -> bool {
    path.is_dir()
}
