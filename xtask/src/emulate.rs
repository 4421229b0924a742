//! Tests the command of another architecture on this machine: the tests are this machine's, and the command that
//! they start runs under qemu.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::dist::{self, Name};
use crate::plugins;
use crate::process::{self, ask, cargo, native, output};
use crate::project::{Project, copy};
use crate::tasks::{BUILT_IN, FOR_TESTS, build_host};

/// What the tests load. The other plugins are the largest, and no test below needs them.
const PLUGINS: [&str; 16] = [
    "act",
    "caller",
    "concurrent",
    "conformance",
    "courier",
    "edit",
    "files",
    "filesystem",
    "git",
    "grep",
    "hello",
    "history",
    "hostile",
    "runner",
    "shell",
    "typed",
];

/// The tests that are run, by the beginnings of their names: calls, transactions, hostile guests.
const TESTS: [&str; 9] = [
    "act::",
    "crash::",
    "executed::",
    "filesystem::",
    "frozen::",
    "history::",
    "hostile::",
    "paths::",
    "planted::",
];

/// Left out of them, since programs run in the sandbox there: qemu has no namespaces, no filters of system calls
/// and no Landlock.
const NEED_SANDBOX: [&str; 2] =
    ["egress::", "crash::kills::twelve_thousand_files_of_zeros_are_recovered_shown_and_undone"];

/// Builds the command for aarch64, packs the plugins by it, and runs the tests, or those with `filter` in their
/// name.
///
/// # Errors
/// If something does not compile, qemu is missing, or a test fails.
pub fn run(project: &Project, filter: Option<&str>) -> Result<()> {
    let architecture = Name::Aarch64.architecture();
    build_host(project)?;
    let [guests, examples] = FOR_TESTS;
    let only = BTreeSet::from(PLUGINS.map(str::to_owned));
    let compiled = plugins::compile(project, &[BUILT_IN, guests, examples], Some(&only))?;
    let emulated = Project { target: project.target.join(architecture.target), ..project.clone() };
    copy(&dist::build(project, architecture)?, &emulated.binary())?;
    if ask(native(emulated.binary()).arg("--version")).is_none() {
        bail!(
            "{} does not run here: on Debian, `apt-get install qemu-user-binfmt`, and in a container also \
             `mount -t binfmt_misc none /proc/sys/fs/binfmt_misc`",
            emulated.binary().display()
        );
    }
    plugins::pack_for(&emulated, project, &compiled)?;
    let tests = emulated.built("deps/all");
    copy(&test_program(project)?, &tests)?;
    let mut tests = native(&tests);
    tests.current_dir(project.root.join("tests"));
    match filter {
        Some(filter) => tests.arg(filter),
        None => tests.args(TESTS).args(NEED_SANDBOX.iter().flat_map(|name| ["--skip", *name])),
    };
    process::run("testing under qemu", &mut tests)
}

/// Builds the integration tests for this machine, and returns their program.
fn test_program(project: &Project) -> Result<PathBuf> {
    let mut build = cargo();
    build
        .current_dir(&project.root)
        .args(["test", "--profile", project.profile.host(), "--workspace", "--test", "all"])
        .args(["--no-run", "--message-format", "json"]);
    let messages = output(&mut build)?;
    let program = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_tests = message["target"]["name"] == "all" && message["profile"]["test"] == true;
        is_tests.then(|| Some(PathBuf::from(message["executable"].as_str()?))).flatten()
    });
    program.context("cargo built no tests")
}
