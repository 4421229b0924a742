//! Toolchains whose standard library for components is installed, and rustup, which can
//! install it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{Sysroot, TARGET};
use crate::process::{announce, ask, native, run_within};
use crate::project::{Project, write};

/// How long installing the target may take.
const TARGET_DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Finds a toolchain with the target: the active one, or another one of rustup's.
pub fn installed() -> Option<Sysroot> {
    Sysroot::active().into_iter().chain(sysroots()).find(Sysroot::has_target)
}

/// Finds a program that one of rustup's toolchains has for its compiler.
pub fn internal_program(name: &str) -> Option<PathBuf> {
    sysroots().find_map(|sysroot| sysroot.internal_program(name))
}

/// Rustup's toolchains that are recent enough; none if rustup is not installed.
fn sysroots() -> impl Iterator<Item = Sysroot> {
    let home = ask(native("rustup").args(["show", "home"]));
    let entries = home.and_then(|home| fs::read_dir(Path::new(&home).join("toolchains")).ok());
    let mut directories: Vec<PathBuf> =
        entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    directories.sort();
    directories.into_iter().filter_map(|directory| Sysroot::at(&directory))
}

/// Installs the target for the active toolchain with rustup. This is tried once: a failure is
/// stored in a file, which the error names.
///
/// # Errors
/// If there is no rustup, or it can't install the target, now or when it was tried before.
pub fn add_target(project: &Project) -> Result<Sysroot> {
    if ask(native("rustup").arg("--version")).is_none() {
        bail!("not installed");
    }
    let failure = project.memory("no-rustup-target");
    if let Ok(why) = fs::read_to_string(&failure) {
        bail!("{why} (not tried again while {} exists)", project.shown(&failure));
    }
    announce(&format!(
        "rustup target add {TARGET} (at most {} s)",
        TARGET_DOWNLOAD_TIMEOUT.as_secs()
    ));
    let mut rustup = native("rustup");
    rustup.args(["target", "add", TARGET]).env_remove("RUST_BACKTRACE");
    let why = match run_within(TARGET_DOWNLOAD_TIMEOUT, &mut rustup)? {
        Some(status) if status.success() => {
            return installed().context("the target was installed, but no toolchain has it");
        }
        Some(status) => format!("`rustup target add {TARGET}` ended with {status}"),
        None => format!(
            "`rustup target add {TARGET}` took more than {} s",
            TARGET_DOWNLOAD_TIMEOUT.as_secs()
        ),
    };
    write(&failure, &why)?;
    bail!(why)
}
