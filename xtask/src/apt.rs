//! Installs Debian packages system-wide, if this user may do so.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::process::{ask, native, run};

/// The command `apt-get`, run as a user who may install packages.
pub struct Apt {
    through_sudo: bool,
}

impl Apt {
    /// Finds `apt-get`, if this user may run it without being asked for a password.
    ///
    /// # Errors
    /// If there is no `apt-get`, or this user may not install packages.
    pub fn find() -> Result<Self> {
        if !Path::new("/usr/bin/apt-get").exists() {
            bail!("there is no apt-get here");
        }
        if ask(Command::new("id").arg("-u")).as_deref() == Some("0") {
            return Ok(Self { through_sudo: false });
        }
        match ask(Command::new("sudo").args(["-n", "true"])) {
            Some(_) => Ok(Self { through_sudo: true }),
            None => bail!("only root may install packages"),
        }
    }

    fn command(&self) -> Command {
        let mut command = if self.through_sudo { native("sudo") } else { native("env") };
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=2"]);
        command.args(["-o", "Dpkg::Use-Pty=0"]);
        command
    }

    /// Updates the package lists.
    ///
    /// # Errors
    /// If the lists can't be downloaded.
    pub fn update(&self) -> Result<()> {
        run("apt-get update", self.command().arg("update"))
    }

    /// Installs packages with their dependencies, without those that are only recommended.
    ///
    /// # Errors
    /// If a package does not exist or can't be installed.
    pub fn install(&self, packages: &[&str]) -> Result<()> {
        run(
            &format!("apt-get install {}", packages.join(" ")),
            self.command().args(["install", "--yes", "--no-install-recommends"]).args(packages),
        )
    }

    /// Unpacks a package into a directory, without installing it or its dependencies.
    ///
    /// # Errors
    /// If the package does not exist or can't be unpacked.
    pub fn unpack(&self, package: &str, into: &Path) -> Result<()> {
        fs::create_dir_all(into).with_context(|| format!("creating {}", into.display()))?;
        // Runs as the current user, because the file is written to a directory of that user.
        run(
            &format!("apt-get download {package}"),
            native("apt-get").args(["--quiet=2", "download", package]).current_dir(into),
        )?;
        let files = fs::read_dir(into).with_context(|| format!("reading {}", into.display()))?;
        let paths = files.filter_map(|entry| Some(entry.ok()?.path()));
        let found =
            paths.filter(|path| path.extension().is_some_and(|suffix| suffix == "deb")).max();
        let file = found.with_context(|| format!("no package came for {package}"))?;
        run(
            &format!("dpkg-deb --extract {}", file.display()),
            native("dpkg-deb").arg("--extract").arg(&file).arg(into),
        )
    }
}
