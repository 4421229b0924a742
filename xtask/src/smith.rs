//! Generates the components of `tests/campaign.rs` with wasm-smith, by the small program in
//! `tests/smith`. They are the same in every run, and are stored in `target/programs/smith`.

use std::fs;

use anyhow::Result;

use crate::process::{cargo, native, run};
use crate::project::{Project, files_below};
use crate::stamp::{Inputs, Stamp};

/// The directory of that program, which has a Cargo workspace of its own.
const SOURCE: &str = "tests/smith";

/// The number of components of each kind; `tests/campaign.rs` checks it.
const COUNT: &str = "2500";

/// Generates the components, unless this was done before.
///
/// # Errors
/// If the program does not compile or can't write its files.
pub fn provide(project: &Project) -> Result<()> {
    let directory = project.target.join("programs/smith");
    let source = project.root.join(SOURCE);
    let inputs = Inputs::new().value("count", COUNT).files(files_below(&source)?)?;
    let stamp = Stamp::new(project, "smith", inputs);
    let files = ["components", "modules"].map(|kind| directory.join(kind));
    if stamp.is_fresh(&files) {
        return Ok(());
    }
    let target = project.memory("smith");
    let mut build = cargo();
    build
        .current_dir(&source)
        .args(["build", "--release", "--locked", "--config", "profile.release.opt-level=0"])
        .arg("--target-dir")
        .arg(&target);
    run("building what generates components", &mut build)?;
    fs::create_dir_all(&directory)?;
    let program = target.join("release/cofferdam-smith");
    for (kind, file) in ["components", "modules"].iter().zip(&files) {
        let mut generate = native(&program);
        generate.args([kind, COUNT]).arg(file);
        run(&format!("generating {COUNT} {kind}"), &mut generate)?;
    }
    stamp.set()
}
