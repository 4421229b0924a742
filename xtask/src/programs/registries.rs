//! What PyPI and npm have: Python's and JavaScript's tools, Go, and MCP's clients.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::machine::Python;
use super::{Programs, client_locks, clients_directories, directory, locks, once};
use crate::process::{native, run};
use crate::project::{Project, read, write};
use crate::stamp::Inputs;

/// The programs that have to be there afterwards.
pub const INSTALLED: &[&str] = &[
    "eslint",
    "go",
    "jest",
    "lint-imports",
    "mypy",
    "pycodestyle",
    "pyflakes",
    "pylint",
    "pytest",
    "python",
    "ruff",
];

/// A virtual environment with Python's tools.
///
/// # Errors
/// PyPI is not to be reached, or its files are not what the lock file says.
pub fn python(project: &Project, base: &Python, programs: &mut Programs) -> Result<()> {
    let into = directory(project).join("python");
    let what = "ruff, mypy, import-linter, pylint, pytest, pyflakes, pycodestyle";
    environment(project, "python", base, &locks(project).join("python.txt"), &into, what)?;
    programs.add_directory(into.join("bin"));
    programs.readable.extend([into, base.prefix.clone()]);
    Ok(())
}

/// MCP's official clients, its conformance suite, and the Node.js that this one wants. No
/// sandboxed program sees them.
///
/// # Errors
/// As [`python`] and [`npm`].
pub fn clients(project: &Project, base: &Python) -> Result<()> {
    let [python, npm] = clients_directories(project);
    let locks = client_locks(project);
    let what = "MCP's client, Node.js";
    environment(project, "clients-python", base, &locks.join("python.txt"), &python, what)?;
    modules(project, "clients-npm", &locks, &npm, "MCP's client and conformance suite")
}

/// A virtual environment with what a lock file pins.
fn environment(
    project: &Project,
    name: &str,
    base: &Python,
    lock: &Path,
    into: &Path,
    what: &str,
) -> Result<()> {
    let inputs = Inputs::new().files([lock.to_owned()])?.value("python", format!("{base:?}"));
    once(project, name, inputs, into, || {
        run(
            &format!("python -m venv {}", project.shown(into)),
            native(&base.program).args(["-m", "venv"]).arg(into),
        )?;
        run(&format!("pip install: {what}"), &mut pip_install(&into.join("bin/python"), lock))
    })
}

/// Go, which PyPI has as a package: compiler, standard library and all.
///
/// # Errors
/// As [`python`], whose virtual environment has to be there.
pub fn go(project: &Project, programs: &mut Programs) -> Result<()> {
    let into = directory(project).join("go");
    let lock = locks(project).join("go.txt");
    let python = directory(project).join("python/bin/python");
    once(project, "go", Inputs::new().files([lock.clone()])?, &into, || {
        run("pip install: go", pip_install(&python, &lock).arg("--target").arg(&into))
    })?;
    programs.add_directory(into.join("go/bin"));
    programs.readable.insert(into);
    Ok(())
}

/// Wheels only, and only those of the lock file: nothing of a package runs while it is installed.
fn pip_install(python: &Path, lock: &Path) -> Command {
    let mut pip = native(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement"])
        .arg(lock);
    pip
}

/// JavaScript's tools.
///
/// # Errors
/// npm is not there or too old, or its registry is not to be reached.
pub fn npm(project: &Project, programs: &mut Programs) -> Result<()> {
    let into = directory(project).join("npm");
    modules(project, "npm", &locks(project), &into, "eslint, jest")?;
    programs.add_directory(into.join("node_modules/.bin"));
    programs.readable.insert(into);
    Ok(())
}

/// The packages that the lock file in a directory pins. None of their scripts runs.
fn modules(project: &Project, name: &str, locks: &Path, into: &Path, what: &str) -> Result<()> {
    let files = ["package.json", "package-lock.json"].map(|name| locks.join(name));
    once(project, name, Inputs::new().files(files.clone())?, into, || {
        for file in &files {
            write(&into.join(file.file_name().unwrap_or_default()), read(file)?)?;
        }
        let mut npm = native("npm");
        npm.current_dir(into).args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]);
        run(&format!("npm ci: {what}"), &mut npm)
    })
}
