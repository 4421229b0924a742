//! Installs Maven with the plugins that compile Java.
//!
//! Maven's own repository is not among the registries that builds may reach, but Debian packages
//! Maven's plugins. They are unpacked instead of installed: that needs no root, and this Maven can
//! have settings of its own, which name the unpacked repository and forbid others.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Programs, directory, once};
use crate::process::{native, output, run};
use crate::project::{Project, write};
use crate::stamp::Inputs;

/// The packages that `mvn compile` needs. `junit5` is needed only for its POM, which others refer
/// to.
const PACKAGES: [&str; 4] =
    ["maven", "libmaven-compiler-plugin-java", "libmaven-resources-plugin-java", "junit5"];

/// Unpacks Maven with all dependencies except Java.
///
/// # Errors
/// If Debian packages are not available.
pub fn install(project: &Project, programs: &mut Programs) -> Result<()> {
    let into = directory(project).join("maven");
    let inputs = Inputs::new().value("packages", PACKAGES.join(" "));
    once(project, "maven", inputs, &into, || unpack_all(&into))?;
    programs.add_directory(into.join("usr/share/maven/bin"));
    programs.readable.insert(into);
    Ok(())
}

fn unpack_all(into: &Path) -> Result<()> {
    ensure!(Path::new("/usr/bin/apt-get").exists(), "there is no apt-get here");
    let apt = PrivateApt { directory: into.join("apt") };
    for directory in ["lists/partial", "archives/partial"] {
        let directory = apt.directory.join(directory);
        fs::create_dir_all(&directory)
            .with_context(|| format!("creating {}", directory.display()))?;
    }
    // An empty status file: no package counts as installed, so all dependencies are listed.
    write(&apt.directory.join("status"), "")?;
    run("apt-get update, for Maven alone", apt.command().args(["--quiet=2", "update"]))?;
    let mut list = apt.command();
    list.args(["install", "--yes", "--no-install-recommends", "--print-uris"]).args(PACKAGES);
    let list = output(&mut list)?;
    let packages = independent_packages(&list);
    run(
        &format!("apt-get download: {} packages of Maven", packages.len()),
        apt.command().args(["--quiet=2", "download"]).args(packages),
    )?;
    for entry in fs::read_dir(&apt.directory)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            output(native("dpkg-deb").arg("--extract").arg(&file).arg(into))?;
        }
    }
    fs::remove_dir_all(&apt.directory)?;
    configure(into)
}

/// The packages for all architectures in a list of downloads: Java libraries. The others belong to
/// Java itself and to the system.
fn independent_packages(list: &str) -> Vec<&str> {
    list.lines()
        .filter_map(|line| line.split(' ').nth(1)?.strip_suffix("_all.deb"))
        .filter_map(|file| Some(file.split_once('_')?.0))
        .collect()
}

/// Writes the settings with which Maven finds its parts below `into`.
fn configure(into: &Path) -> Result<()> {
    let settings = format!(
        "<settings>\n  <localRepository>{}</localRepository>\n  <offline>true</offline>\n</settings>\n",
        into.join("usr/share/maven-repo").display()
    );
    write(&into.join("etc/maven/settings.xml"), settings)?;
    for (link, target) in [("conf", "../../../etc/maven"), ("bin/m2.conf", "../conf/m2.conf")] {
        let link = into.join("usr/share/maven").join(link);
        fs::remove_file(&link).with_context(|| format!("removing {}", link.display()))?;
        symlink(target, &link).with_context(|| format!("linking {}", link.display()))?;
    }
    Ok(())
}

/// Debian's package manager with its state in a private directory, which only downloads.
struct PrivateApt {
    directory: PathBuf,
}

impl PrivateApt {
    fn command(&self) -> Command {
        let mut apt = native("apt-get");
        apt.current_dir(&self.directory);
        for (option, file) in [
            ("Dir::State", ""),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", ""),
            ("Dir::Cache::archives", "archives"),
        ] {
            apt.arg("-o").arg(format!("{option}={}", self.directory.join(file).display()));
        }
        // As root, apt would switch to a user who may not write here.
        apt.args(["-o", "APT::Sandbox::User=root"]);
        apt
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_packages_for_all_processors_are_unpacked() {
        let list = "Reading package lists...\nBuilding dependency tree...\n\
            The following NEW packages will be installed:\n  maven libc6 velocity\n\
            'http://example.com/pool/libc6_2.36-9_amd64.deb' libc6_2.36-9_amd64.deb 2757000 SHA256:00\n\
            'http://example.com/pool/maven_3.8.7-1_all.deb' maven_3.8.7-1_all.deb 18600 SHA256:00\n\
            'http://example.com/pool/velocity_1%3a1.7-6_all.deb' velocity_1%3a1.7-6_all.deb 434384 \n";
        assert_eq!(independent_packages(list), ["maven", "velocity"]);
        assert_eq!(independent_packages(""), [] as [&str; 0]);
    }

    #[test]
    fn maven_is_told_where_its_repository_is() {
        let root = tempfile::tempdir().unwrap();
        let maven = root.path().join("usr/share/maven");
        fs::create_dir_all(maven.join("bin")).unwrap();
        symlink("/etc/maven", maven.join("conf")).unwrap();
        symlink("/etc/maven/m2.conf", maven.join("bin/m2.conf")).unwrap();
        write(&root.path().join("etc/maven/m2.conf"), "main is x").unwrap();
        configure(root.path()).unwrap();
        assert_eq!(fs::read_to_string(maven.join("bin/m2.conf")).unwrap(), "main is x");
        let settings = fs::read_to_string(maven.join("conf/settings.xml")).unwrap();
        let repository = root.path().join("usr/share/maven-repo");
        assert!(settings.contains(&format!("<localRepository>{}<", repository.display())));
    }
}
