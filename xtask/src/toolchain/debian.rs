//! Debian's Rust, which has no standard library for `wasm32-wasip2`, but has its sources and a C
//! library for WASI, from which cargo can build it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Sysroot, TARGET, release, rustup};
use crate::apt::Apt;
use crate::process::{ask, native};
use crate::project::Project;
use crate::tools;

/// The required packages. The `-web` packages are the recent Rust that Debian provides for building
/// browsers.
pub const PACKAGES: [&str; 5] =
    ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "wasi-libc"];

/// The required packages if the distribution's ordinary Rust is recent enough.
const ORDINARY_PACKAGES: [&str; 5] = ["rustc", "cargo", "rust-src", "rust-llvm", "wasi-libc"];

/// The C library that the standard library is built on.
const LIBC: &str = "/usr/lib/wasm32-wasi";

/// What cargo needs to build the standard library and to link with it.
#[derive(Debug, Clone)]
pub struct BuiltStd {
    component_linker: PathBuf,
    module_linker: PathBuf,
}

impl BuiltStd {
    /// Configures a `cargo build` to build the standard library, too.
    pub fn configure(&self, cargo: &mut Command, flags: &mut Vec<String>) {
        cargo
            .arg("-Zbuild-std=std,panic_abort")
            // A stable compiler accepts `-Z` only with this variable; there is no other way to
            // build a standard library.
            .env("RUSTC_BOOTSTRAP", "1")
            .env(
                format!("CARGO_TARGET_{}_LINKER", TARGET.to_uppercase().replace('-', "_")),
                &self.component_linker,
            );
        flags.push(format!("-L{LIBC}"));
        flags.push(format!("-Clink-arg=--wasm-ld-path={}", self.module_linker.display()));
    }
}

/// Returns Debian's toolchain, after installing missing packages if this user may do so.
///
/// # Errors
/// If a package is missing and can't be installed.
pub fn provide(project: &Project) -> Result<(Sysroot, BuiltStd)> {
    let sysroot = match find() {
        Ok(sysroot) => sysroot,
        Err(missing) => {
            let apt = Apt::find().with_context(|| missing.to_string())?;
            apt.update()?;
            apt.install(&recent_enough()?)?;
            find()?
        }
    };
    let built_std = BuiltStd {
        component_linker: component_linker(project, &sysroot)?,
        module_linker: module_linker(&sysroot)?,
    };
    Ok((sysroot, built_std))
}

/// Finds Debian's toolchain with the sources of its standard library.
fn find() -> Result<Sysroot> {
    let wanted = env!("CARGO_PKG_RUST_VERSION");
    let sysroot = Sysroot::at(Path::new("/usr"))
        .with_context(|| format!("there is no /usr/bin/rustc of version {wanted} or newer"))?;
    let needed = [
        PathBuf::from("/usr/bin/cargo"),
        sysroot.rustlib("src/rust/library"),
        Path::new(LIBC).join("libc.a"),
    ];
    match needed.iter().find(|path| !path.exists()) {
        None => Ok(sysroot),
        Some(missing) => bail!("there is no {}", missing.display()),
    }
}

/// Finds the program that turns a linked module into a component: Debian's, rustup's, or one that
/// is built from its crate.
pub fn component_linker(project: &Project, sysroot: &Sysroot) -> Result<PathBuf> {
    const NAME: &str = "wasm-component-ld";
    match sysroot.internal_program(NAME).or_else(|| rustup::internal_program(NAME)) {
        Some(program) => Ok(program),
        None => tools::WASM_COMPONENT_LD.provide(project),
    }
}

/// Finds the linker for modules: the LLD of the compiler's LLVM, or rustup's.
fn module_linker(sysroot: &Sysroot) -> Result<PathBuf> {
    let (llvm, _) = release(sysroot.fact("LLVM version"));
    let program = PathBuf::from(format!("/usr/bin/wasm-ld-{llvm}"));
    if program.is_file() {
        return Ok(program);
    }
    if let Some(program) = rustup::internal_program("gcc-ld/wasm-ld") {
        return Ok(program);
    }
    let package = format!("lld-{llvm}");
    let missing = || format!("there is no {} (package {package})", program.display());
    Apt::find().with_context(missing)?.install(&[&package])?;
    Ok(program)
}

/// The packages whose Rust can build this project.
fn recent_enough() -> Result<[&'static str; 5]> {
    let wanted = env!("CARGO_PKG_RUST_VERSION");
    [PACKAGES, ORDINARY_PACKAGES]
        .into_iter()
        .find(|[rustc, ..]| {
            ask(native("apt-cache").env("LC_ALL", "C").args(["policy", rustc]))
                .is_some_and(|policy| candidate(&policy) >= release(wanted))
        })
        .with_context(|| format!("no package offers Rust {wanted} or newer"))
}

/// The version that would be installed, from the output of `apt-cache policy` for one package; (0,
/// 0) if there is none.
fn candidate(policy: &str) -> (u32, u32) {
    policy.lines().find_map(|line| line.trim().strip_prefix("Candidate: ")).map_or((0, 0), release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_candidate_decides_which_packages_are_recent_enough() {
        let policy = "rustc-web:\n  Installed: (none)\n  Candidate: 1.96.0+dfsg1-1~deb12u2\n  Version table:\n     1.85.0+dfsg3-1 500\n";
        assert_eq!(candidate(policy), (1, 96));
        assert_eq!(candidate("rustc:\n  Installed: (none)\n  Candidate: (none)\n"), (0, 0));
        assert_eq!(candidate(""), (0, 0));
    }

    #[test]
    fn building_the_standard_library_takes_a_linker_and_a_libc() {
        let built_std = BuiltStd {
            component_linker: "/usr/lib/rustlib/bin/wasm-component-ld".into(),
            module_linker: "/usr/bin/wasm-ld-22".into(),
        };
        let (mut cargo, mut flags) = (Command::new("cargo"), Vec::new());
        built_std.configure(&mut cargo, &mut flags);
        assert_eq!(
            flags,
            ["-L/usr/lib/wasm32-wasi", "-Clink-arg=--wasm-ld-path=/usr/bin/wasm-ld-22"]
        );
        let linker = cargo
            .get_envs()
            .find(|(name, _)| *name == "CARGO_TARGET_WASM32_WASIP2_LINKER")
            .and_then(|(_, value)| value);
        assert_eq!(linker, Some(built_std.component_linker.as_os_str()));
    }
}
