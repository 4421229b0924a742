//! Licences, bans, sources and known vulnerabilities of all dependencies: `deny.toml` holds
//! the rules.

use std::process::Command;

use anyhow::Result;

use crate::ci::APART;
use crate::process::{announce, native, run};
use crate::project::Project;
use crate::tools;

/// Checks all dependencies. If the database of advisories can't be downloaded, they are skipped
/// with a message.
///
/// # Errors
/// If a rule is broken, or cargo-deny can't be built.
pub fn check(project: &Project) -> Result<()> {
    let program = tools::CARGO_DENY.provide(project)?;
    let rules = project.root.join("deny.toml");
    let deny = |directory: &str| -> Command {
        let mut command = native(&program);
        command
            .current_dir(&project.root)
            .args(["--workspace", "--locked", "--manifest-path"])
            .arg(project.root.join(directory).join("Cargo.toml"))
            .arg("--config")
            .arg(&rules);
        command
    };
    let workspaces = [".", "fuzz"].into_iter().chain(APART);
    let check = |what: &[&str], offline: bool| {
        workspaces.clone().try_for_each(|directory| {
            let mut command = deny(directory);
            command.args(offline.then_some("--offline"));
            command.args(["check", "--hide-inclusion-graph"]).args(what);
            run(&format!("cargo deny check {} of {directory}", what.join(" ")), &mut command)
        })
    };
    check(&["licenses", "bans", "sources"], false)?;
    announce("cargo deny fetch db");
    if deny(".").args(["fetch", "db"]).status()?.success() {
        check(&["advisories"], true)
    } else {
        announce("skipped: cargo deny check advisories (advisory database not reachable)");
        Ok(())
    }
}
