//! Compiles the host for macOS without producing machine code, on any machine: nothing links, so that neither
//! Apple's headers nor its linker are needed. Code in C, which some crates compile in their build scripts, is left
//! out by a compiler that writes empty files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use anyhow::Result;

use crate::ci::WRAPPER;
use crate::process::{announce, ask, cargo, native, run};
use crate::project::{Project, write};

const TARGET: &str = "aarch64-apple-darwin";

/// Calls itself clang, and writes an empty file where its option `-o` says.
const COMPILER: &str = "#!/bin/sh
case $1 in
    -E) echo clang ;;
    -\\?) exit 1 ;; # not the one for Windows
esac
while [ $# -gt 0 ]; do
    [ \"$1\" = -o ] && : >\"$2\"
    shift
done
";

/// Checks the crates of the command, or only those `packages`.
///
/// # Errors
/// If something does not compile.
pub fn check(project: &Project, packages: &[&str]) -> Result<()> {
    let compiler = project.memory("macos").join("cc");
    write(&compiler, COMPILER)?;
    fs::set_permissions(&compiler, Permissions::from_mode(0o755))?;
    // As the advisories: the checks also pass on a machine that can't download it.
    if ask(native("rustup").args(["target", "add", TARGET])).is_none() {
        announce(&format!("skipped: a check for macOS (`rustup target add {TARGET}` failed)"));
        return Ok(());
    }
    let mut check = cargo();
    check
        .current_dir(&project.root)
        // Without lints: what only Linux uses is unused here.
        .env_remove(WRAPPER)
        .env("CC_aarch64_apple_darwin", &compiler)
        .env("AR_aarch64_apple_darwin", "ar")
        .args(["check", "--locked", "--profile", "quick", "--target", TARGET]);
    for package in packages {
        check.args(["--package", package]);
    }
    run(&format!("checking {} for macOS", packages.join(", ")), &mut check)
}
