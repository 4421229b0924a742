//! Loads the settings: the user's `cofferdam.toml`, the workspace's own, and the contracts in the
//! directories that they name.
//!
//! An agent can edit the workspace, so the workspace's file is used only after the user has
//! accepted exactly this text. The digest of the accepted text is stored outside of the workspace.
//! Once a file was accepted, a changed or removed file is an error instead of being ignored: the
//! accepted one may have narrowed what is allowed.
#![expect(clippy::disallowed_methods, reason = "the user's settings are named by paths")]

mod contracts;
pub mod grants;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use contracts::{contract, contracts};
pub use grants::{catalogues, registries, trust};

use cofferdam_core::policy::{Policy, Settings};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::Workspace;
use cofferdam_workspace::bounded_text;

/// The file's name, in the workspace and in the user's configuration.
pub const FILE: &str = "cofferdam.toml";

/// Settings that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// A file is malformed.
    #[error("{}: {source}", path.display())]
    Malformed {
        path: PathBuf,
        /// The TOML error, with its line.
        source: toml::de::Error,
    },
    /// A setting is invalid; a file is not a contract, or names a directory that has no contracts.
    #[error("{}: {message}", path.display())]
    Invalid {
        path: PathBuf,
        /// The problem, with its line.
        message: String,
    },
    /// The workspace's file is no longer the accepted one.
    #[error("{} {change} since it was accepted; look at it and run `cofferdam policy accept`, or use --trust-workspace for this run", path.display())]
    Changed {
        path: PathBuf,
        /// `has changed` or `was removed`.
        change: &'static str,
    },
}

/// The settings that apply to a workspace, by layer.
#[derive(Debug)]
pub struct Layers {
    /// The user's settings, then the workspace's.
    pub settings: Vec<Settings>,
    /// The files that `settings` were read from, in the same order.
    pub files: Vec<SettingsFile>,
    /// Whether the workspace has a file that is ignored because the user has not accepted it.
    pub unaccepted: bool,
}

/// A settings file and the text that was read from it.
#[derive(Debug)]
pub struct SettingsFile {
    pub path: PathBuf,
    pub text: String,
}

/// Reads the settings that apply to a workspace.
///
/// `user` is the user's own file; `accepted` the directory in which acceptances are stored; `trust`
/// uses the workspace's file without comparing it.
///
/// # Errors
/// `Io` if a file can't be read; `Malformed` or `Invalid` if its contents are wrong; `Changed` if
/// the workspace's file is not the accepted one.
pub fn load(
    workspace: &Workspace,
    user: Option<&Path>,
    accepted: Option<&Path>,
    trust: bool,
) -> Result<Layers, ConfigError> {
    let (mut settings, mut files) = (Vec::new(), Vec::new());
    let mut add = |path: &Path, text: String| -> Result<(), ConfigError> {
        settings.push(parse(path, &text)?);
        files.push(SettingsFile { path: path.to_owned(), text });
        Ok(())
    };
    if let Some(path) = user {
        match bounded_text::read(path) {
            Ok(text) => add(path, text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(ConfigError::Io { path: path.to_owned(), source }),
        }
    }
    let path = workspace.path().join(FILE);
    let text = read(workspace)?;
    let accepted_digest = match accepted {
        Some(directory) => accepted_digest(directory, workspace)?,
        None => None,
    };
    let counts = match (&text, accepted_digest) {
        _ if trust => true,
        (Some(text), Some(digest)) if Digest::of(text.as_bytes()).hex() == digest => true,
        (Some(_), Some(_)) => return Err(ConfigError::Changed { path, change: "has changed" }),
        (None, Some(_)) => return Err(ConfigError::Changed { path, change: "was removed" }),
        (_, None) => false,
    };
    let unaccepted = text.is_some() && !counts;
    if let (Some(text), true) = (text, counts) {
        add(&path, text)?;
    }
    Ok(Layers { settings, files, unaccepted })
}

/// Stores the workspace's current file as accepted. If there is no file, the stored acceptance is
/// removed: the workspace then has no settings of its own.
///
/// # Errors
/// `Malformed` or `Invalid` if the file can't be used; `Io` if the acceptance can't be written.
pub fn accept(workspace: &Workspace, accepted: &Path) -> Result<Option<Settings>, ConfigError> {
    let acceptance = acceptance(accepted, workspace);
    let error = |source| ConfigError::Io { path: acceptance.clone(), source };
    let Some(text) = read(workspace)? else {
        return match fs::remove_file(&acceptance) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(error(source)),
            _ => Ok(None),
        };
    };
    let settings = parse(&workspace.path().join(FILE), &text)?;
    fs::create_dir_all(accepted).map_err(error)?;
    fs::write(&acceptance, Digest::of(text.as_bytes()).hex()).map_err(error)?;
    Ok(Some(settings))
}

/// Whether the user has ever accepted settings of this workspace, even if they were changed or removed
/// since.
pub fn is_accepted(accepted: &Path, workspace: &Workspace) -> bool {
    accepted_digest(accepted, workspace).is_ok_and(|digest| digest.is_some())
}

fn read(workspace: &Workspace) -> Result<Option<String>, ConfigError> {
    workspace
        .read_text(FILE)
        .map_err(|source| ConfigError::Io { path: workspace.path().join(FILE), source })
}

fn parse(path: &Path, text: &str) -> Result<Settings, ConfigError> {
    let settings = Settings::parse(text)
        .map_err(|source| ConfigError::Malformed { path: path.to_owned(), source })?;
    Policy::check(&settings).map_err(|error| ConfigError::Invalid {
        path: path.to_owned(),
        message: error.to_string(),
    })?;
    let contracts = settings.contracts.iter().map(|directory| ("contracts", directory));
    let root = settings.sigstore.trusted_root.iter().map(|root| ("sigstore.trusted-root", root));
    match contracts.chain(root).find(|(_, path)| !path.is_absolute()) {
        None => Ok(settings),
        Some((key, named)) => Err(ConfigError::Invalid {
            path: path.to_owned(),
            message: format!("{key}: '{}' is no absolute path", named.display()),
        }),
    }
}

fn acceptance(accepted: &Path, workspace: &Workspace) -> PathBuf {
    accepted.join(Digest::of(workspace.name().as_bytes()).hex())
}

fn accepted_digest(accepted: &Path, workspace: &Workspace) -> Result<Option<String>, ConfigError> {
    let path = acceptance(accepted, workspace);
    match bounded_text::read(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ConfigError::Io { path, source }),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use cofferdam_workspace::Secret;

    #[test]
    fn a_workspaces_file_is_used_after_it_was_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("workspace");
        let accepted = directory.path().join("state");
        fs::create_dir(&root).unwrap();
        let workspace = Workspace::open(&root, Secret::OfProcess).unwrap();
        let load = |trust| {
            load(&workspace, None, Some(&accepted), trust)
                .map(|layers| (layers.settings.len(), layers.unaccepted))
                .map_err(|error| error.to_string())
        };
        assert_eq!(load(false), Ok((0, false)));
        fs::write(root.join(FILE), "[grants.a]\nfiles = 'read'\n").unwrap();
        assert_eq!(load(false), Ok((0, true)));
        assert_eq!(load(true), Ok((1, false)));
        accept(&workspace, &accepted).unwrap();
        assert_eq!(load(false), Ok((1, false)));

        fs::write(root.join(FILE), "[grants.a]\nfiles = 'write'\n").unwrap();
        assert!(load(false).unwrap_err().contains("has changed since it was accepted"));
        fs::remove_file(root.join(FILE)).unwrap();
        assert!(load(false).unwrap_err().contains("was removed since it was accepted"));
        assert_eq!(accept(&workspace, &accepted).unwrap(), None);
        assert_eq!(load(false), Ok((0, false)));

        fs::write(root.join(FILE), "[grant]\n").unwrap();
        assert!(accept(&workspace, &accepted).unwrap_err().to_string().contains("line 1"));
        // A file that every later command would refuse is not accepted.
        fs::write(root.join(FILE), "[limits]\ncall-ms = 0\n").unwrap();
        let error = accept(&workspace, &accepted).unwrap_err().to_string();
        assert!(error.contains("cofferdam.toml: limits.call-ms: 0 is too little"), "{error}");
        // The role may be defined in another layer.
        fs::write(root.join(FILE), "[agents.a]\ncommand = ['x']\nrole = 'mine'\n").unwrap();
        accept(&workspace, &accepted).unwrap();
    }
}
