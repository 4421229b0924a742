//! What a change has to pass beside the tests.

use anyhow::Result;

use crate::process::{cargo, run};
use crate::project::Project;
use crate::{deny, fuzz, generated, tasks};

/// Runs every check, and stops at the first that fails.
///
/// # Errors
/// The check that failed.
pub fn run_all(project: &Project) -> Result<()> {
    let step = |words: &[&str]| {
        let what = format!("cargo {}", words.join(" "));
        run(&what, cargo().current_dir(&project.root).args(words))
    };
    step(&["fmt", "--all", "--check"])?;
    step(&["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    tasks::build_host(project)?;
    generated::check(project)?;
    fuzz::run_all(project)?;
    deny::check(project)
}
