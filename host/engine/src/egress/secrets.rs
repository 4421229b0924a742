//! Secrets that the proxy adds to requests: variables, files, and what a keyring's program prints. A
//! program in the sandbox never sees them.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use cofferdam_core::policy::{
    CredentialSettings, HeaderPart, NetworkSettings, OriginSettings, header_parts,
};

/// The largest secret in bytes.
const MAX_SECRET_BYTES: u64 = 16 << 10;

/// How long a program that prints a secret may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The shortest secret that is redacted, in bytes.
const MIN_REDACTED_BYTES: usize = 4;

/// Secrets by their names.
#[derive(Default)]
pub(crate) struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// Finds the secrets of a program's network.
    ///
    /// # Errors
    /// Returns which secret is missing, without any value.
    pub(crate) fn find(
        settings: &[NetworkSettings],
        program: &str,
        environment: &HashMap<String, String>,
    ) -> Result<Self, String> {
        let mut found = BTreeMap::new();
        for entry in settings.iter().filter(|entry| entry.programs.contains(program)) {
            for name in entry.origins.iter().flat_map(variables) {
                let secret = match entry.credentials.get(&name) {
                    Some(settings) => read(settings, environment),
                    None => variable(&name, environment),
                };
                let secret = secret.map_err(|why| format!("the credential {name} {why}"))?;
                if found.insert(name.clone(), secret.clone()).is_some_and(|other| other != secret) {
                    return Err(format!("the credential {name} has two values; use two names"));
                }
            }
        }
        Ok(Self(found))
    }

    /// The headers that the proxy adds to requests to an origin.
    pub(super) fn headers(
        &self,
        settings: &OriginSettings,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let header = |(name, value): (&String, &String)| {
            let mut text = String::new();
            for part in header_parts(value)? {
                match part {
                    HeaderPart::Text(part) => text.push_str(part),
                    HeaderPart::Variable(variable) => {
                        text.push_str(self.0.get(variable).ok_or("has no value")?);
                    }
                }
            }
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| "has no valid name")?;
            let mut value = HeaderValue::try_from(text).map_err(|_| "can't be sent")?;
            value.set_sensitive(true);
            Ok::<_, &str>((name, value))
        };
        let wrong = |name: &String, why: &str| format!("the header {name} of the settings {why}");
        let all = settings.headers.iter();
        all.map(|(name, value)| header((name, value)).map_err(|why| wrong(name, why))).collect()
    }

    /// Pairs of name and value to redact: each form of the secrets.
    pub(crate) fn hidden(&self) -> Vec<(String, String)> {
        let long = self.0.iter().filter(|(_, value)| value.len() >= MIN_REDACTED_BYTES);
        long.flat_map(|(name, value)| forms(value).map(|form| (name.clone(), form))).collect()
    }
}

/// The texts in which a secret may appear: as it is, within a JSON text, within the name of a host, in
/// Base64, and with percent signs.
pub(crate) fn forms(value: &str) -> impl Iterator<Item = String> {
    let quoted = serde_json::Value::from(value).to_string();
    let mut forms = vec![value.to_owned()];
    for form in [
        quoted[1..quoted.len() - 1].to_owned(),
        value.to_ascii_lowercase(),
        STANDARD.encode(value),
        utf8_percent_encode(value, NON_ALPHANUMERIC).to_string(),
    ] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms.into_iter()
}

/// The names in `${NAME}` of an origin's headers.
fn variables(settings: &OriginSettings) -> Vec<String> {
    let values = settings.headers.values();
    let parts = values.flat_map(|value| header_parts(value).unwrap_or_default());
    let names = parts.filter_map(|part| match part {
        HeaderPart::Variable(name) => Some(name.to_owned()),
        HeaderPart::Text(_) => None,
    });
    names.collect()
}

fn variable(name: &str, environment: &HashMap<String, String>) -> Result<String, String> {
    let value = environment.get(name).map(|value| value.trim().to_owned());
    value.ok_or_else(|| format!("needs the variable {name}, which is not set"))
}

fn read(
    settings: &CredentialSettings,
    environment: &HashMap<String, String>,
) -> Result<String, String> {
    let CredentialSettings { variable: name, file, command } = settings;
    let secret = match (name, file, command.as_slice()) {
        (Some(name), ..) => variable(name, environment)?,
        (None, Some(file), _) => read_file(file)?,
        (None, None, [program, arguments @ ..]) => run(program, arguments, environment)?,
        (None, None, []) => return Err("has no source".to_owned()),
    };
    if secret.is_empty() { Err("is empty".to_owned()) } else { Ok(secret) }
}

#[expect(clippy::disallowed_methods, reason = "the operator's settings name the file")]
fn read_file(file: &Path) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("can't be read from {}: {error}", file.display());
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(wrong)?;
    opened.take(MAX_SECRET_BYTES).read_to_string(&mut text).map_err(wrong)?;
    Ok(text.trim_end().to_owned())
}

/// Runs a program of the user, such as a keyring's, and returns what it prints.
#[expect(clippy::disallowed_methods, reason = "the operator's settings name the program")]
fn run(
    program: &str,
    arguments: &[String],
    environment: &HashMap<String, String>,
) -> Result<String, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("comes from {program}, which failed: {why}");
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| wrong(&error))?;
    let pipe = child.stdout.take();
    let reader = thread::spawn(move || {
        let mut text = String::new();
        let read = pipe.map(|pipe| pipe.take(MAX_SECRET_BYTES).read_to_string(&mut text));
        read.is_some_and(|read| read.is_ok()).then_some(text)
    });
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| wrong(&error))? {
            Some(status) => break status,
            None if start.elapsed() > COMMAND_TIMEOUT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(wrong(&"it took more than 10 s"));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    if !status.success() {
        return Err(wrong(&status));
    }
    let text = reader.join().ok().flatten();
    Ok(text.ok_or_else(|| wrong(&"it printed no text"))?.trim_end().to_owned())
}
