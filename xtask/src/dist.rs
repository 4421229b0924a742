//! Packages of one build, each with the command and the built-in plugins: an archive, a Python wheel,
//! an npm package, a Debian package and an MCP bundle. With them, a list of what they are made of, and
//! the entry for the MCP registry.
//!
//! The command is linked statically (musl), so a package runs on every Linux of its architecture.
//! Two builds of one commit give the same bytes: times come from the commit, paths of this machine
//! are not in the binary, and every package lists its files in the same order.

mod architecture;
mod formats;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod recipes;
mod sbom;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

pub use self::architecture::{Architecture, Name};
use self::tree::Tree;
use crate::ci::WRAPPER;
use crate::process::{announce, ask, cargo, cargo_home, native, output, remap, run};
use crate::project::{Project, copy, read, write};
use crate::stamp::hexadecimal;
use crate::tasks;

/// A release: what all packages have in common.
pub struct Release {
    version: String,
    /// Seconds since 1970, of the commit that is packaged.
    time: String,
    /// The directory of the packages.
    directory: PathBuf,
}

/// Builds the command, for each of the architectures, and the plugins, which are the same for all; and packages
/// them in `target/dist`.
///
/// # Errors
/// If something does not compile, or a program that makes packages is missing or fails.
pub fn run_all(project: &Project, architectures: &[Name]) -> Result<()> {
    let release = Release {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        time: ask(native("git").current_dir(&project.root).args(["log", "-1", "--format=%ct"]))
            .context("the packages' times come from git's last commit")?,
        directory: project.target.join("dist"),
    };
    tasks::build(project)?;
    let mut packages = Vec::new();
    for architecture in architectures.iter().map(|name| name.architecture()) {
        let binary = build(project, architecture)?;
        let tree = Tree::make(project, &release, architecture, &binary)?;
        for format in architecture.formats {
            announce(&format!("making the {} for {}", format.name, architecture.name));
            packages.push((format.make)(project, &release, &tree)?);
        }
    }
    packages.extend(plugins(project, &release)?);
    packages.push(sbom::make(project, &release, architectures)?);
    packages.push(formats::server_json(project, &release)?);
    write(&release.directory.join("SHA256SUMS"), sums(&release.directory, &packages)?)?;
    for package in &packages {
        println!("{:>6.1} MB  {}", size_of(package)?, project.shown(package));
    }
    Ok(())
}

/// Builds the command, without paths of this machine in it.
///
/// # Errors
/// If it does not compile, or a compiler is missing.
pub fn build(project: &Project, architecture: &Architecture) -> Result<PathBuf> {
    let target = architecture.target;
    let mut flags = vec![remap(&cargo_home(), "/cargo"), remap(&project.root, "/build")];
    // Present already, or the build says what is missing.
    let _ = ask(native("rustup").args(["target", "add", target]));
    let mut build = cargo();
    architecture.prepare(&mut build, &mut flags);
    build
        .current_dir(&project.root)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        // A package is not compiled by clippy.
        .env_remove(WRAPPER)
        .args(["build", "--locked", "--profile", "dist", "--target", target])
        .args(["--package", "cofferdam", "--bin", "cofferdam", "--target-dir"])
        .arg(&project.target);
    run(&format!("building the command for {target}"), &mut build)
        .with_context(|| architecture.needs())?;
    Ok(project.target.join(target).join("dist/cofferdam"))
}

/// The built-in plugins for a command that was installed without them, and those that packages leave out with
/// the example: each with a catalogue, which is to be signed.
fn plugins(project: &Project, release: &Release) -> Result<Vec<PathBuf>> {
    let built = tree::built_in(project)?;
    let apart = tree::APART.map(|name| project.built("plugins").join(format!("{name}.wasm")));
    // Those of languages that this machine lacks are not built.
    let mut others: Vec<PathBuf> = apart.into_iter().filter(|plugin| plugin.is_file()).collect();
    others.push(project.built("examples/hello.wasm"));
    let mut packages = Vec::new();
    for (directory, plugins) in [("built-in", built), ("plugins", others)] {
        let directory = release.directory.join(directory);
        let mut files = Vec::new();
        for plugin in plugins {
            let file = directory.join(plugin.file_name().context("a plugin has no name")?);
            copy(&plugin, &file)?;
            files.push(file);
        }
        let catalogue = directory.join("catalogue.toml");
        let mut command = native(project.binary());
        output(command.args(["plugin", "catalogue", "--output"]).arg(&catalogue).args(&files))?;
        packages.extend(files);
        packages.push(catalogue);
    }
    Ok(packages)
}

/// The checksums of packages, as `sha256sum --check` reads them.
fn sums(directory: &Path, packages: &[PathBuf]) -> Result<String> {
    packages
        .iter()
        .map(|package| {
            let digest = hexadecimal(&Sha256::digest(read(package)?));
            let name = package.strip_prefix(directory)?.display();
            Ok(format!("{digest}  {name}\n"))
        })
        .collect()
}

/// The size of a file in MB (10⁶ bytes).
#[expect(clippy::cast_precision_loss, reason = "for people")]
fn size_of(file: &Path) -> Result<f64> {
    Ok(file.metadata()?.len() as f64 / 1e6)
}
