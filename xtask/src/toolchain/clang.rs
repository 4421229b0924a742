//! The C compiler for components: Debian's clang, with a C library for WASI.

use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::apt::Apt;
use crate::process::{ask, native};
use crate::project::Project;

/// Debian's packages for C, as the README of the template names them.
pub const PACKAGES: [&str; 4] = ["clang", "lld", "wasi-libc", "libclang-rt-dev-wasm32"];

/// Finds the compiler, after installing it if this user may do so.
///
/// # Errors
/// If it is missing and can't be installed.
pub fn provide(project: &Project) -> Result<()> {
    if links(project)? {
        return Ok(());
    }
    let apt = Apt::find().with_context(|| format!("packages {}", PACKAGES.join(", ")))?;
    apt.update()?;
    apt.install(&PACKAGES)?;
    if !links(project)? {
        bail!("clang can't link for wasm32-wasi, although {} are installed", PACKAGES.join(", "));
    }
    Ok(())
}

/// Whether clang can link a module for WASI.
fn links(project: &Project) -> Result<bool> {
    let directory = project.memory("authors-c");
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let mut clang = native("clang");
    clang.current_dir(&directory).args(["--target=wasm32-wasi", "-mexec-model=reactor"]);
    clang.args(["-x", "c", "/dev/null", "-o", "empty.wasm"]);
    Ok(ask(&mut clang).is_some())
}
