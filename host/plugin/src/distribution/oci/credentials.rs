//! The user's credentials for registries: the `config.json` of `docker login` and similar programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use cofferdam_workspace::bounded_text;

/// A user name and a password, which are never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name of the user.
    pub user: String,
    /// The password, or a token in place of one.
    pub password: String,
}

/// Stored credentials can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file can't be read, or is malformed.
    #[error("{}: {message}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of reading it.
        message: String,
    },
    /// The credentials are kept by a program, which this host does not run.
    #[error("{}: what proves who you are to {registry} is kept by the program docker-credential-{helper}, and this host starts no programs for that; keep it in the file itself (`auths`)", path.display())]
    Helper {
        /// The path of the file.
        path: PathBuf,
        /// The name of the registry.
        registry: String,
        /// The name of the program after `docker-credential-`.
        helper: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl Credentials {
    /// Finds the user's credentials for a registry in docker's file; `None` if it has none.
    ///
    /// # Errors
    /// Those of [`CredentialsError`].
    pub fn find(file: &Path, registry: &str) -> Result<Option<Self>, CredentialsError> {
        let error = |message: String| CredentialsError::File { path: file.to_owned(), message };
        let text = match bounded_text::read(file) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(error(source.to_string())),
        };
        let config = serde_json::from_str(&text).map_err(|source| error(source.to_string()))?;
        Self::of(config, registry).map_err(|why| match why {
            Wrong::Malformed => error(format!("the entry of {registry} is malformed")),
            Wrong::Helper(helper) => CredentialsError::Helper {
                path: file.to_owned(),
                registry: registry.to_owned(),
                helper,
            },
        })
    }

    fn of(config: Config, registry: &str) -> Result<Option<Self>, Wrong> {
        let of_registry = |name: &String| {
            let name = name.split_once("://").map_or(name.as_str(), |(_, rest)| rest);
            name.split('/').next() == Some(registry)
        };
        if let Some((_, helper)) =
            config.cred_helpers.into_iter().find(|(name, _)| of_registry(name))
        {
            return Err(Wrong::Helper(helper));
        }
        let Some((_, auth)) = config.auths.into_iter().find(|(name, _)| of_registry(name)) else {
            return Ok(None);
        };
        if let (Some(user), Some(password)) = (auth.username, auth.password) {
            return Ok(Some(Self { user, password }));
        }
        match (auth.auth, config.creds_store) {
            (Some(auth), _) => {
                let decoded = STANDARD.decode(auth.trim()).map_err(|_| Wrong::Malformed)?;
                let decoded = String::from_utf8(decoded).map_err(|_| Wrong::Malformed)?;
                let (user, password) = decoded.split_once(':').ok_or(Wrong::Malformed)?;
                Ok(Some(Self { user: user.to_owned(), password: password.to_owned() }))
            }
            (None, Some(store)) => Err(Wrong::Helper(store)),
            (None, None) => Ok(None),
        }
    }
}

enum Wrong {
    Malformed,
    Helper(String),
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn docker_credentials_are_read() {
        // ada:secret:word
        let auth = "YWRhOnNlY3JldDp3b3Jk";
        for (config, wanted) in [
            ("{}".to_owned(), Ok(None)),
            (format!(r#"{{"auths": {{"a.example": {{"auth": "{auth}"}}}}}}"#), Ok(Some("secret:word"))),
            (
                format!(r#"{{"auths": {{"https://a.example/v1/": {{"auth": "{auth}"}}}}}}"#),
                Ok(Some("secret:word")),
            ),
            (
                r#"{"auths": {"a.example": {"username": "ada", "password": "p"}}, "credsStore": "x"}"#
                    .to_owned(),
                Ok(Some("p")),
            ),
            (format!(r#"{{"auths": {{"b.example": {{"auth": "{auth}"}}}}}}"#), Ok(None)),
            (format!(r#"{{"auths": {{"a.example.b": {{"auth": "{auth}"}}}}}}"#), Ok(None)),
            (r#"{"auths": {"a.example": {"auth": "!"}}}"#.to_owned(), Err("malformed")),
            (r#"{"auths": {"a.example": {}}, "credsStore": "desktop"}"#.to_owned(), Err("docker-credential-desktop")),
            (r#"{"credHelpers": {"a.example": "pass"}}"#.to_owned(), Err("docker-credential-pass")),
            ("{".to_owned(), Err("EOF")),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("config.json");
            #[expect(clippy::disallowed_methods, reason = "a file of the test")]
            std::fs::write(&file, &config).unwrap();
            let found = Credentials::find(&file, "a.example");
            match wanted {
                Ok(wanted) => {
                    let found = found.unwrap().map(|found| found.password);
                    assert_eq!(found.as_deref(), wanted, "{config}");
                }
                Err(wanted) => {
                    let error = found.err().unwrap().to_string();
                    assert!(error.contains(wanted), "{error}");
                }
            }
        }
    }
}
