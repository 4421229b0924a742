//! The paths of the project.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

#[derive(Debug, Clone)]
pub struct Project {
    /// The directory of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's build directory: `target`, or what `CARGO_TARGET_DIR` names.
    pub target: PathBuf,
    /// What the host and the plugins are built with.
    pub profile: Profile,
}

/// The cargo profiles of a build, which `Cargo.toml` defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Full optimisation.
    Release,
    /// Little optimisation, for a build in minutes.
    Quick,
}

impl Profile {
    /// The profile of the host, which is also the name of cargo's directory for it.
    pub fn host(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Quick => "quick",
        }
    }

    /// The profile of plugins, which is also the name of cargo's directory for it.
    pub fn plugins(self) -> &'static str {
        match self {
            Self::Release => "plugin",
            Self::Quick => "quick-plugin",
        }
    }
}

impl Project {
    /// Finds the project that this program was built from.
    ///
    /// # Errors
    /// If the sources have been moved since.
    pub fn find() -> Result<Self> {
        let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = match manifest_dir.parent() {
            Some(root) if root.join("Cargo.toml").is_file() => root.to_owned(),
            _ => bail!(
                "{} is no longer part of the project; build xtask anew",
                manifest_dir.display()
            ),
        };
        // As in cargo, a relative directory is relative to the working directory.
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(directory) => env::current_dir()?.join(directory),
            None => root.join("target"),
        };
        Ok(Self { root, target, profile: Profile::Release })
    }

    /// This project, built with little optimisation.
    #[must_use]
    pub fn quick(&self) -> Self {
        Self { profile: Profile::Quick, ..self.clone() }
    }

    /// This project with the build that there is: that of the tests if there is no release build.
    #[must_use]
    pub fn with_build(&self) -> Self {
        if self.binary().is_file() { self.clone() } else { self.quick() }
    }

    /// The path of a file or directory in the build of the host.
    pub fn built(&self, name: &str) -> PathBuf {
        self.target.join(self.profile.host()).join(name)
    }

    /// The path of the built command `cofferdam`.
    pub fn binary(&self) -> PathBuf {
        self.built(&format!("cofferdam{}", env::consts::EXE_SUFFIX))
    }

    /// A file in which xtask stores state between runs. Deleting it only costs time.
    pub fn memory(&self, name: &str) -> PathBuf {
        let memory = self.target.join("xtask");
        match self.profile {
            Profile::Release => memory.join(name),
            Profile::Quick => memory.join("quick").join(name),
        }
    }

    /// `path` for messages: relative to the project if it is inside.
    pub fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}

/// Lists all files below `directory` (or `directory` itself if it is a file), sorted. Build
/// directories, hidden directories and symbolic links are left out. A path that does not exist has
/// no files.
///
/// # Errors
/// If a directory can't be read.
pub fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(directory, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if metadata.is_file() {
        files.push(path.to_owned());
    } else if metadata.is_dir() {
        let entries = fs::read_dir(path).with_context(|| format!("reading {}", path.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("reading {}", path.display()))?;
            let name = entry.file_name();
            let skipped = name == "target" || name.as_encoded_bytes().starts_with(b".");
            if !(skipped && entry.path().is_dir()) {
                collect(&entry.path(), files)?;
            }
        }
    }
    Ok(())
}

/// Writes a file, and creates the directories above it.
///
/// # Errors
/// I/O errors; the message names the file.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    fs::write(path, contents).with_context(|| format!("writing {}", path.display()))
}

/// Copies a file, with its permissions, and creates the directories above the copy.
///
/// # Errors
/// I/O errors; the message names the copy.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    fs::copy(from, to).map(drop).with_context(|| format!("copying to {}", to.display()))
}

/// Reads a file.
///
/// # Errors
/// I/O errors; the message names the file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}

/// Reads a text file.
///
/// # Errors
/// I/O errors, or if the file is not UTF-8; the message names the file.
pub fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn build_directories_and_hidden_ones_are_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for file in ["b.rs", "a/x.rs", "target/t.rs", "a/.git/config", ".gitignore"] {
            write(&root.join(file), file).unwrap();
        }
        let found = files_below(root).unwrap();
        assert_eq!(found, [".gitignore", "a/x.rs", "b.rs"].map(|file| root.join(file)));
        assert_eq!(files_below(&root.join("b.rs")).unwrap(), [root.join("b.rs")]);
        assert_eq!(files_below(&root.join("none")).unwrap(), [] as [PathBuf; 0]);
    }

    #[test]
    fn errors_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("none");
        assert!(format!("{:#}", read(&missing).unwrap_err()).contains("none"));
        assert!(write(&directory.path().join("f/x"), "").is_ok());
        assert!(write(&directory.path().join("f/x/y"), "").is_err());
    }
}
