//! The commands that combine other steps.

use std::collections::BTreeSet;
use std::env;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::process::Command;
use std::thread;

use anyhow::Result;

use crate::authors;
use crate::ci::WRAPPER;
use crate::plugins::{self, Group};
use crate::process::{self, cargo};
use crate::programs;
use crate::project::Project;
use crate::smith;
use crate::{answer_sizes, bug_hunt, demo, script_tasks};

/// The built-in plugins.
pub const BUILT_IN: Group = Group { sources: "plugins", packed: "plugins" };

/// Plugins that only the tests load: hostile guests, and the examples of the documentation.
pub const FOR_TESTS: [Group; 2] = [
    Group { sources: "tests/guests", packed: "guests" },
    Group { sources: "examples", packed: "examples" },
];

/// Plugins with a Cargo workspace of their own whose tests run without WebAssembly. Other such
/// plugins are only tested through the command.
pub const TESTED_APART: [&str; 2] = ["plugins/python", "plugins/symbols"];

/// Their tests take seconds even without optimisation, which would take minutes.
pub const APART_PROFILE: [&str; 2] = ["--config", "profile.dev.debug=false"];

/// Builds the command `cofferdam`.
///
/// `--workspace` makes cargo choose the dependencies' features as for the tests and the benchmarks,
/// so that the engine is built once for all of them.
///
/// # Errors
/// If it does not compile.
pub fn build_host(project: &Project) -> Result<()> {
    process::run(
        "building the host",
        cargo().current_dir(&project.root).args([
            "build",
            "--profile",
            project.profile.host(),
            "--workspace",
            "--bin",
            "cofferdam",
        ]),
    )
}

/// Builds the host and the built-in plugins.
///
/// # Errors
/// If something does not compile, or there is no toolchain for components.
pub fn build(project: &Project) -> Result<()> {
    build_with(project, &[BUILT_IN], None)
}

/// Runs the demo with the release build if there is one. Otherwise builds only what the demo
/// calls, with little optimisation.
///
/// # Errors
/// If something does not compile, or the calls did not do what they should.
pub fn demo(project: &Project) -> Result<()> {
    if project.binary().is_file() {
        build(project)?;
        return demo::run(project);
    }
    let quick = project.quick();
    let called = demo::plugins(project)?;
    build_with(&quick, &[BUILT_IN], Some(&called))?;
    demo::run(&quick)?;
    process::announce(&format!(
        "built with little optimisation, and only the plugins {}; `cargo xtask build` builds all, optimised",
        called.into_iter().collect::<Vec<_>>().join(", ")
    ));
    Ok(())
}

/// Builds the host and groups of plugins, or of the plugins `only`, in parallel, since each build
/// has minutes in which it uses one thread. The host is needed only for packing.
fn build_with(project: &Project, groups: &[Group], only: Option<&BTreeSet<String>>) -> Result<()> {
    let compiled = thread::scope(|scope| {
        let host = scope.spawn(|| build_host(project));
        let compiled = plugins::compile(project, groups, only);
        host.join().unwrap_or_else(|panic| resume_unwind(panic))?;
        compiled
    })?;
    plugins::pack(project, &compiled)
}

/// Builds everything that the tests load, then runs all tests, or those with `filter` in their
/// name; without a filter, also checks what answers cost. `arguments` are passed to the test
/// programs.
///
/// # Errors
/// If something does not compile, an answer is too large, or a test fails.
pub fn test(project: &Project, filter: Option<&str>, arguments: &[String]) -> Result<()> {
    let [guests, examples] = FOR_TESTS;
    build_with(project, &[BUILT_IN, guests, examples], None)?;
    programs::provide(project)?;
    // Side by side, since the answers are mostly waited for.
    thread::scope(|scope| {
        let provided = scope.spawn(|| {
            authors::provide(project)?;
            smith::provide(project)
        });
        if filter.is_none() {
            answer_sizes::run(project, None, true)?;
            bug_hunt::run(project, None, true)?;
            script_tasks::run(project, true)?;
        }
        provided.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    let mut tests = cargo_test();
    tests
        .current_dir(&project.root)
        .args(["--profile", project.profile.host(), "--workspace", "--no-fail-fast"])
        .args(filter)
        .arg("--");
    if !arguments.iter().any(|argument| argument.starts_with("--test-threads")) {
        tests.arg(format!("--test-threads={}", threads()));
    }
    tests.args(arguments);
    process::run("testing", &mut tests)?;
    for directory in TESTED_APART {
        let mut tests = cargo_test();
        tests
            .current_dir(project.root.join(directory))
            .arg("--no-fail-fast")
            .args(APART_PROFILE)
            .arg("--target-dir")
            .arg(project.target.join("apart"))
            .args(filter)
            .arg("--")
            .args(arguments);
        process::run(&format!("testing {directory}"), &mut tests)?;
    }
    Ok(())
}

/// `cargo test`, whose tests do not inherit the compiler's wrapper ([`crate::ci`]): some of them run cargo.
fn cargo_test() -> Command {
    let mut tests = cargo();
    tests.arg("test");
    if let Ok(wrapper) = env::var(WRAPPER) {
        let setting = format!("build.rustc-workspace-wrapper={wrapper:?}");
        tests.env_remove(WRAPPER).args(["--config", &setting]);
    }
    tests
}

/// How many tests run at a time: one and a half for each core, since tests wait for programs.
fn threads() -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    cores + cores.div_ceil(2)
}

/// Kills the host `count` times; see `tests/crash/kills.rs`.
///
/// # Errors
/// If something does not compile, or a file is torn or lost.
pub fn kills(project: &Project, count: u32) -> Result<()> {
    build(project)?;
    let mut tests = cargo();
    tests
        .current_dir(&project.root)
        .env("COFFERDAM_KILLS", count.to_string())
        .args(["test", "--release", "--workspace", "--test", "all", "--", "--ignored", "--exact"])
        .args(["crash::kills::the_requested_number_of_kills", "--nocapture"]);
    process::run("killing", &mut tests)
}

/// Runs the benchmarks; `parts` name parts of the table, none means all.
///
/// # Errors
/// If something does not compile, or a benchmark fails.
pub fn bench(project: &Project, parts: &[String]) -> Result<()> {
    let [_, examples] = FOR_TESTS;
    build_with(project, &[BUILT_IN, examples], None)?;
    programs::provide(project)?;
    let mut benchmarks = cargo();
    benchmarks
        .current_dir(&project.root)
        .args(["bench", "--workspace", "--bench", "measure", "--"])
        .args(parts);
    process::run("measuring", &mut benchmarks)
}
