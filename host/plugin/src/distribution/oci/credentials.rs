//! The user's credentials for registries: the `config.json` of `docker login` and similar programs, and
//! the credential helpers that it names.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use docker_credential::{CredentialRetrievalError, DockerCredential, get_credential_from_reader};
use tokio::sync::oneshot;
use tokio::time::timeout;

use cofferdam_text::{escape_control, shorten};
use cofferdam_workspace::bounded_text;

/// The timeout of a credential helper, which may ask the user to unlock a keyring.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of a helper's message is shown, in bytes.
const MAX_MESSAGE_BYTES: usize = 300;

/// What helpers say if they have no credentials for a registry (docker's `credentials-helpers`).
const NOT_FOUND: &str = "credentials not found";

/// What proves to a registry who the user is. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A user name and a password, or a token in place of one.
    Password {
        /// The name of the user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that is exchanged for others (an OAuth 2 refresh token).
    Identity(String),
}

/// Stored credentials can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct CredentialsError {
    /// The path of the file.
    path: PathBuf,
    /// What is wrong, without a secret.
    message: String,
}

impl Credentials {
    /// Finds the user's credentials for a registry in docker's file; `None` if it has none. Starts the
    /// credential helper that the file names, if there is one, with the environment of this process.
    ///
    /// # Errors
    /// If the file can't be read or is malformed, or the helper fails or takes too long.
    pub async fn find(file: &Path, registry: &str) -> Result<Option<Self>, CredentialsError> {
        let error = |message: String| CredentialsError { path: file.to_owned(), message };
        let text = match bounded_text::read(file) {
            Ok(text) => text,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(error(source.to_string())),
        };
        let (answer, answered) = oneshot::channel();
        let name = registry.to_owned();
        // Not on a thread of the runtime, which would wait for the helper when it stops.
        let reading = thread::Builder::new().name("cofferdam-credentials".to_owned());
        let started = reading.spawn(move || {
            // The caller may have timed out.
            let _ = answer.send(retrieve(&text, &name));
        });
        started.map_err(|source| error(source.to_string()))?;
        match timeout(HELPER_TIMEOUT, answered).await {
            Ok(Ok(found)) => found.map_err(|why| error(format!("the entry of {registry}: {why}"))),
            Ok(Err(_)) | Err(_) => Err(error(format!(
                "the credential helper of {registry} took longer than {} s",
                HELPER_TIMEOUT.as_secs()
            ))),
        }
    }
}

fn retrieve(config: &str, registry: &str) -> Result<Option<Credentials>, String> {
    match get_credential_from_reader(config.as_bytes(), registry) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(Some(Credentials::Password { user, password }))
        }
        Ok(DockerCredential::IdentityToken(token)) => Ok(Some(Credentials::Identity(token))),
        Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
        Err(CredentialRetrievalError::HelperFailure { stdout, .. })
            if stdout.contains(NOT_FOUND) =>
        {
            Ok(None)
        }
        Err(CredentialRetrievalError::ConfigReadError) => Err("the file is malformed".to_owned()),
        Err(why) => Err(shorten(&escape_control(&why.to_string()), MAX_MESSAGE_BYTES)),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn find(file: &Path) -> Result<Option<Credentials>, CredentialsError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(Credentials::find(file, "a.example"))
    }

    /// What a helper prints is tested in `tests/install/registry.rs`.
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
            (r#"{"auths": {"a.example": {"auth": "!"}}}"#.to_owned(), Err("decode")),
            (
                r#"{"auths": {"a.example": {"identitytoken": "a.b.c"}}}"#.to_owned(),
                Ok(Some("a.b.c")),
            ),
            (
                r#"{"credHelpers": {"a.example": "missing-helper-of-a-test"}}"#.to_owned(),
                Err("credential helper"),
            ),
            ("{".to_owned(), Err("malformed")),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("config.json");
            #[expect(clippy::disallowed_methods, reason = "a file of the test")]
            std::fs::write(&file, &config).unwrap();
            let found = find(&file);
            match wanted {
                Ok(wanted) => {
                    let found = found.unwrap().map(|found| match found {
                        Credentials::Password { password: secret, .. }
                        | Credentials::Identity(secret) => secret,
                    });
                    assert_eq!(found.as_deref(), wanted, "{config}");
                }
                Err(wanted) => {
                    let error = found.err().unwrap().to_string();
                    assert!(error.contains(wanted), "{error}");
                    assert!(!error.contains("secret"), "{error}");
                }
            }
        }
    }
}
