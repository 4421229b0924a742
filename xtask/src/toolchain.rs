//! Finds the toolchain that builds components: one whose standard library for `wasm32-wasip2` is
//! installed, or Debian's, which builds that library from its sources.
//!
//! Searched in this order: the active toolchain, rustup's other toolchains, the active one after
//! `rustup target add`, Debian's packages (installed if this user may do so). Every toolchain is
//! used through its own directory, never through rustup's proxies, so that no setting of the
//! toolchain that built xtask has an effect.

pub mod clang;
mod debian;
mod rustup;

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{ask, cargo_home, foreign, native, remap};
use crate::project::Project;

/// The compilation target of components.
pub const TARGET: &str = "wasm32-wasip2";

/// The initial memory of a component, in bytes: 4 MiB. From 2 MiB on a fresh instance seldom has to
/// grow its memory, which was most of the time of a short call. 1 MiB of it is the stack; static
/// data has to fit as well.
const INITIAL_MEMORY: usize = 4 << 20;

/// A Rust toolchain on this machine.
#[derive(Debug, Clone)]
struct Sysroot {
    directory: PathBuf,
    /// The output of `rustc -vV`.
    version: String,
}

impl Sysroot {
    /// Reads the toolchain in a directory; `None` if there is none, or if it is too old for this
    /// project.
    fn at(directory: &Path) -> Option<Self> {
        let rustc = directory.join("bin/rustc");
        let version = ask(foreign(rustc).arg("-vV"))?;
        let found = Self { directory: directory.to_owned(), version };
        (found.release() >= release(env!("CARGO_PKG_RUST_VERSION"))).then_some(found)
    }

    /// The toolchain of the plain name `rustc`.
    fn active() -> Option<Self> {
        let directory = ask(native("rustc").args(["--print", "sysroot"]))?;
        Self::at(Path::new(&directory))
    }

    /// The value of one line of `rustc -vV`.
    fn fact(&self, name: &str) -> &str {
        self.version
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .unwrap_or_default()
    }

    fn release(&self) -> (u32, u32) {
        release(self.fact("release"))
    }

    /// Whether the standard library for components is installed.
    fn has_target(&self) -> bool {
        self.rustlib(TARGET).join("lib").is_dir()
    }

    fn rustlib(&self, name: &str) -> PathBuf {
        self.directory.join("lib/rustlib").join(name)
    }

    /// A program that comes with the compiler but is not on `PATH`, such as a linker.
    fn internal_program(&self, name: &str) -> Option<PathBuf> {
        let program = self.rustlib(self.fact("host")).join("bin").join(name);
        program.is_file().then_some(program)
    }
}

/// Major and minor number of a version such as `1.95.0-nightly`; (0, 0) if it is not one.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split(['.', '-', '+']).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// A toolchain with everything that is needed to build components.
#[derive(Debug, Clone)]
pub struct Toolchain {
    sysroot: Sysroot,
    /// Set if the standard library has to be built from its sources.
    built_std: Option<debian::BuiltStd>,
}

impl Toolchain {
    /// Finds a toolchain, or installs one.
    ///
    /// # Errors
    /// If there is none and none can be installed; the message says what was tried and what to do.
    pub fn find(project: &Project) -> Result<Self> {
        if let Some(sysroot) = rustup::installed() {
            return Ok(Self { sysroot, built_std: None });
        }
        let no_target = match rustup::add_target(project) {
            Ok(sysroot) => return Ok(Self { sysroot, built_std: None }),
            Err(why) => why,
        };
        match debian::provide(project) {
            Ok((sysroot, built_std)) => Ok(Self { sysroot, built_std: Some(built_std) }),
            Err(no_debian) => bail!(
                "nothing on this machine can build components (target {TARGET}).\n\
                 - rustup: {no_target:#}\n\
                 - Debian's packages: {no_debian:#}\n\
                 Do one of these, then run the command again:\n\
                 \x20   rustup target add {TARGET}\n\
                 \x20   sudo apt-get install {}   # Debian 12 with its security archive, or newer",
                debian::PACKAGES.join(" ")
            ),
        }
    }

    /// Everything about the toolchain and its settings that a component depends on.
    pub fn identity(&self) -> String {
        format!("{}\n{:?}", self.sysroot.version, self.built_std)
    }

    /// The toolchain's name for progress lines.
    pub fn name(&self) -> String {
        let std = if self.built_std.is_some() { ", with its standard library" } else { "" };
        format!("Rust {}{std}", self.sysroot.fact("release"))
    }

    /// A `cargo build` for components. The directories `sources` are renamed to `/build` in the
    /// output, so that components contain no paths of this machine.
    pub fn cargo_build(&self, project: &Project, sources: &[&Path]) -> Command {
        let bin = self.sysroot.directory.join("bin");
        // Some distributions install cargo in another directory than the compiler.
        let cargo = Some(bin.join("cargo")).filter(|cargo| cargo.is_file());
        let mut command = foreign(cargo.unwrap_or_else(|| "cargo".into()));
        command
            .args(["build", "--target", TARGET, "--profile", project.profile.plugins()])
            .arg("--target-dir")
            .arg(project.target.join("plugins"))
            .env("RUSTC", bin.join("rustc"));
        let mut flags = self.flags(sources);
        if let Some(built_std) = &self.built_std {
            built_std.configure(&mut command, &mut flags);
        }
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
        command
    }

    /// The environment variables with which a plugin author's project builds by this toolchain,
    /// with `CARGO` for its Makefile. They are for components only: with `-Zbuild-std` cargo would
    /// also build the standard library for this machine.
    pub fn for_authors(&self) -> BTreeMap<String, String> {
        let bin = self.sysroot.directory.join("bin");
        let cargo = Some(bin.join("cargo")).filter(|cargo| cargo.is_file());
        let cargo = cargo.unwrap_or_else(|| "cargo".into()).display().to_string();
        let mut variables = BTreeMap::from([
            ("RUSTC".to_owned(), bin.join("rustc").display().to_string()),
            ("CARGO".to_owned(), cargo.clone()),
        ]);
        if let Some(built_std) = &self.built_std {
            let mut command = Command::new(&cargo);
            let mut flags = Vec::new();
            built_std.configure(&mut command, &mut flags);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            let words: Vec<String> = std::iter::once(cargo).chain(words).collect();
            variables.insert("CARGO".to_owned(), words.join(" "));
            let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
            variables.extend(set.map(|(name, value)| {
                (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
            }));
            let name =
                format!("CARGO_TARGET_{}_RUSTFLAGS", TARGET.to_uppercase().replace('-', "_"));
            variables.insert(name, flags.join(" "));
        }
        variables
    }

    /// Finds or builds the program that turns a linked module into a component.
    ///
    /// # Errors
    /// If it is not installed and can't be built.
    pub fn component_linker(&self, project: &Project) -> Result<PathBuf> {
        debian::component_linker(project, &self.sysroot)
    }

    fn flags(&self, sources: &[&Path]) -> Vec<String> {
        let cargo_home = cargo_home();
        let std_sources = self.sysroot.rustlib("src/rust");
        let remapped = [(cargo_home.as_path(), "/cargo"), (&std_sources, "/rust")]
            .into_iter()
            .chain(sources.iter().map(|directory| (*directory, "/build")));
        let mut flags = vec![
            "-Ctarget-feature=+simd128".to_owned(),
            format!("-Clink-arg=--initial-memory={INITIAL_MEMORY}"),
        ];
        flags.extend(remapped.map(|(from, to)| remap(from, to)));
        flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysroot(release: &str) -> Sysroot {
        Sysroot {
            directory: PathBuf::from("/opt/rust"),
            version: format!(
                "rustc {release} (0123456 2026-01-01)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: {release}\nLLVM version: 22.1.8"
            ),
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        for (version, wanted) in [
            ("1.95.0", (1, 95)),
            ("1.100.0-nightly", (1, 100)),
            ("1.96", (1, 96)),
            ("1.96.0+dfsg1-1~deb12u2", (1, 96)),
            ("unknown", (0, 0)),
            ("", (0, 0)),
        ] {
            assert_eq!(release(version), wanted, "{version}");
        }
    }

    #[test]
    fn facts_come_from_the_verbose_version() {
        let sysroot = sysroot("1.96.0");
        assert_eq!(sysroot.fact("host"), "x86_64-unknown-linux-gnu");
        assert_eq!(sysroot.fact("LLVM version"), "22.1.8");
        assert_eq!(sysroot.fact("commit-date"), "");
        assert_eq!(sysroot.release(), (1, 96));
    }

    #[test]
    fn a_directory_without_a_compiler_is_no_toolchain() {
        assert!(Sysroot::at(Path::new("/nonexistent")).is_none());
        assert!(!sysroot("1.96.0").has_target());
        assert_eq!(sysroot("1.96.0").internal_program("wasm-component-ld"), None);
    }

    #[test]
    fn components_name_no_directory_of_this_machine() {
        let toolchain = Toolchain { sysroot: sysroot("1.96.0"), built_std: None };
        let flags = toolchain.flags(&[Path::new("/home/me/project")]);
        for wanted in [
            "-Ctarget-feature=+simd128",
            "-Clink-arg=--initial-memory=4194304",
            "--remap-path-prefix=/home/me/project=/build",
            "--remap-path-prefix=/opt/rust/lib/rustlib/src/rust=/rust",
        ] {
            assert!(flags.iter().any(|flag| flag == wanted), "{wanted}: {flags:?}");
        }
    }

    #[test]
    fn the_initial_memory_is_whole_pages() {
        assert_eq!(INITIAL_MEMORY % (64 << 10), 0);
    }
}
