//! The checks that a change has to pass besides the tests.

use std::panic::resume_unwind;
use std::thread;

use anyhow::Result;

use crate::process::{cargo, run};
use crate::project::Project;
use crate::{deny, fuzz, generated, programs, tasks};

/// Crates in other Cargo workspaces, which `cargo --all` does not include.
pub const APART: [&str; 6] = [
    "plugins/backends/deno_lint",
    "plugins/backends/ruff",
    "plugins/backends/ty",
    "plugins/python",
    "plugins/symbols",
    "tests/smith",
];

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
    // With the profile of the tests, whose build scripts and macros are then compiled once.
    let clippy = ["clippy", "--profile", project.profile.host()];
    step(&[&clippy[..], &["--workspace", "--all-targets", "--", "-D", "warnings"]].concat())?;
    for directory in tasks::TESTED_APART {
        let mut clippy = cargo();
        clippy
            .current_dir(project.root.join(directory))
            .args(["clippy", "--all-targets"])
            .args(tasks::APART_PROFILE)
            .arg("--target-dir")
            .arg(project.target.join("apart"))
            .args(["--", "-D", "warnings"]);
        run(&format!("cargo clippy of {directory}"), &mut clippy)?;
    }
    tasks::build(project)?;
    generated::check(project)?;
    fuzz::run_all(project)?;
    deny::check(project)
}
