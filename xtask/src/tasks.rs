//! The commands that only put steps together.

use std::panic::resume_unwind;
use std::thread;

use anyhow::Result;

use crate::authors;
use crate::plugins::{self, Group};
use crate::process::{self, cargo};
use crate::programs;
use crate::project::Project;
use crate::smith;

/// The plugins that come with the host.
const BUILT_IN: Group = Group { sources: "plugins", packed: "plugins" };

/// What only the tests load: hostile guests, and the examples of the documentation.
const FOR_TESTS: [Group; 2] = [
    Group { sources: "tests/guests", packed: "guests" },
    Group { sources: "examples", packed: "examples" },
];

/// Plugins that are workspaces of their own and have tests that run without WebAssembly. The
/// others are tested through the command alone.
pub const TESTED_APART: [&str; 1] = ["plugins/symbols"];

/// Builds the host's command.
///
/// Of all packages, not of the host's alone: cargo then chooses the dependencies' features as it
/// does for the tests and the benchmarks, and builds the engine once for all of them.
///
/// # Errors
/// It does not compile.
pub fn build_host(project: &Project) -> Result<()> {
    process::run(
        "building the host",
        cargo().current_dir(&project.root).args([
            "build",
            "--release",
            "--workspace",
            "--bin",
            "cofferdam",
        ]),
    )
}

/// Builds the host and the plugins that come with it.
///
/// # Errors
/// Something does not compile, or there is no toolchain for components.
pub fn build(project: &Project) -> Result<()> {
    build_with(project, &[BUILT_IN])
}

/// Builds the host and groups of plugins, side by side: each has minutes in which one thread
/// works. Only to be packed, plugins need the host.
fn build_with(project: &Project, groups: &[Group]) -> Result<()> {
    let compiled = thread::scope(|scope| {
        let host = scope.spawn(|| build_host(project));
        let compiled = plugins::compile(project, groups);
        host.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        compiled
    })?;
    plugins::pack(project, &compiled)
}

/// Runs all tests, or those with `filter` in their name, with everything that they load
/// prepared. `arguments` go to the test programs.
///
/// # Errors
/// Something does not compile, or a test fails.
pub fn test(project: &Project, filter: Option<&str>, arguments: &[String]) -> Result<()> {
    let [guests, examples] = FOR_TESTS;
    build_with(project, &[BUILT_IN, guests, examples])?;
    programs::provide(project)?;
    authors::provide(project)?;
    smith::provide(project)?;
    let mut tests = cargo();
    tests
        .current_dir(&project.root)
        .args(["test", "--release", "--workspace", "--no-fail-fast"])
        .args(filter)
        .arg("--")
        .args(arguments);
    process::run("testing", &mut tests)?;
    for directory in TESTED_APART {
        let mut tests = cargo();
        tests
            .current_dir(project.root.join(directory))
            .args(["test", "--release", "--no-fail-fast", "--target-dir"])
            .arg(project.target.join("apart"))
            .args(filter)
            .arg("--")
            .args(arguments);
        process::run(&format!("testing {directory}"), &mut tests)?;
    }
    Ok(())
}

/// Kills the host `count` times; `tests/crash/kills.rs` says how, and what is looked at.
///
/// # Errors
/// Something does not compile, or is torn or lost.
pub fn kills(project: &Project, count: u32) -> Result<()> {
    build(project)?;
    let mut tests = cargo();
    tests
        .current_dir(&project.root)
        .env("COFFERDAM_KILLS", count.to_string())
        .args(["test", "--release", "--workspace", "--test", "all", "--", "--ignored", "--exact"])
        .args(["crash::kills::as_many_as_asked", "--nocapture"]);
    process::run("killing", &mut tests)
}

/// Measures; `parts` name the parts of the table, none stands for all.
///
/// # Errors
/// Something does not compile, or a benchmark fails.
pub fn bench(project: &Project, parts: &[String]) -> Result<()> {
    let [_, examples] = FOR_TESTS;
    build_with(project, &[BUILT_IN, examples])?;
    programs::provide(project)?;
    let mut benchmarks = cargo();
    benchmarks
        .current_dir(&project.root)
        .args(["bench", "--workspace", "--bench", "measure", "--"])
        .args(parts);
    process::run("measuring", &mut benchmarks)
}
