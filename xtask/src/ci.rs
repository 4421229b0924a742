//! The checks that a change has to pass besides the tests.

use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::process::{cargo, run};
use crate::project::Project;
use crate::{deny, fuzz, generated, macos, programs, tasks};

/// Crates in other Cargo workspaces, which `cargo --all` does not include.
pub const APART: [&str; 7] = [
    "plugins/backends/deno_lint",
    "plugins/backends/ruff",
    "plugins/backends/ty",
    "plugins/python",
    "plugins/sqlite",
    "plugins/symbols",
    "tests/smith",
];

/// The variable that names the compiler of the project's own crates.
pub const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// What makes cargo compile the project's own crates by clippy. `.ci/run` sets the same for the tests.
const LINTING: [(&str, &str); 2] = [(WRAPPER, "clippy-driver"), ("CLIPPY_ARGS", "-Dwarnings")];

/// Runs every check and stops at the first one that fails.
///
/// # Errors
/// If a check fails.
pub fn run_all(project: &Project) -> Result<()> {
    // What the tests need is mostly downloads: they take place while the compiler works.
    thread::scope(|scope| {
        let programs = scope.spawn(|| programs::provide(project));
        check(project)?;
        programs.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn check(project: &Project) -> Result<()> {
    let step = |words: &[&str]| {
        let what = format!("cargo {}", words.join(" "));
        run(&what, cargo().current_dir(&project.root).args(words))
    };
    step(&["fmt", "--all", "--check"])?;
    for directory in APART {
        step(&["fmt", "--check", "--manifest-path", &format!("{directory}/Cargo.toml")])?;
    }
    let mut build = linting();
    build.current_dir(&project.root).args(["--profile", project.profile.host(), "--workspace"]);
    run("building and linting everything", &mut build)?;
    for directory in tasks::TESTED_APART {
        let mut build = linting();
        build
            .current_dir(project.root.join(directory))
            .args(tasks::APART_PROFILE)
            .arg("--target-dir")
            .arg(project.target.join("apart"));
        run(&format!("building and linting {directory}"), &mut build)?;
    }
    tasks::build(project)?;
    generated::check(project)?;
    // Those in which systems differ most; `cargo xtask check-macos` checks the whole command.
    macos::check(project, &["cofferdam-sandbox", "cofferdam-workspace"])?;
    fuzz::run_all(project)?;
    deny::check(project)
}

/// Builds all targets with clippy as the compiler, whose warnings are errors: to check them and to build
/// them would compile all dependencies twice. With the same variables, `cargo test` builds nothing again.
fn linting() -> Command {
    let mut build = cargo();
    build.args(["test", "--no-run", "--all-targets"]).envs(LINTING);
    build
}
