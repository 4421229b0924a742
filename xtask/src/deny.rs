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
    let deny = || -> Command {
        let mut command = native(&program);
        command.current_dir(&project.root).args(["--workspace", "--locked"]);
        command
    };
    run(
        "cargo deny check licenses bans sources",
        deny().args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]),
    )?;
    let rules = project.root.join("deny.toml");
    for directory in APART {
        let mut apart = deny();
        apart
            .arg("--manifest-path")
            .arg(project.root.join(directory).join("Cargo.toml"))
            .arg("--config")
            .arg(&rules)
            .args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]);
        run(&format!("cargo deny check licenses bans sources of {directory}"), &mut apart)?;
    }
    announce("cargo deny fetch db");
    if deny().args(["fetch", "db"]).status()?.success() {
        run(
            "cargo deny check advisories",
            deny().args(["--offline", "check", "--hide-inclusion-graph", "advisories"]),
        )
    } else {
        announce("skipped: cargo deny check advisories (advisory database not reachable)");
        Ok(())
    }
}
