//! What PyPI and npm have: Python's and JavaScript's tools, and Go.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::machine::Python;
use super::{Programs, directory, locks, once};
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
    let lock = locks(project).join("python.txt");
    let inputs = Inputs::new().files([lock.clone()])?.value("python", format!("{base:?}"));
    once(project, "python", inputs, &into, || {
        run(
            &format!("python -m venv {}", project.shown(&into)),
            native(&base.program).args(["-m", "venv"]).arg(&into),
        )?;
        run(
            "pip install: ruff, mypy, import-linter, pylint, pytest, pyflakes, pycodestyle",
            &mut pip_install(&into.join("bin/python"), &lock),
        )
    })?;
    programs.add_directory(into.join("bin"));
    programs.readable.extend([into, base.prefix.clone()]);
    Ok(())
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
    let files = ["package.json", "package-lock.json"].map(|name| locks(project).join(name));
    once(project, "npm", Inputs::new().files(files.clone())?, &into, || {
        for file in &files {
            write(&into.join(file.file_name().unwrap_or_default()), read(file)?)?;
        }
        let mut npm = native("npm");
        npm.current_dir(&into).args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]);
        run("npm ci: eslint, jest", &mut npm)
    })?;
    programs.add_directory(into.join("node_modules/.bin"));
    programs.readable.insert(into);
    Ok(())
}
