//! The context of one call, and the services that all calls of a host share.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::bindings::cofferdam::backend::types::Error;
use super::bindings::cofferdam::backend::{building, linters, linting, testing};
use super::bindings::cofferdam::host::tools;
use super::http::Http;
use super::programs::Programs;
use crate::agent::Team;
use crate::background::Pool;
use crate::call::{
    CallUsage, ConsentGuard, Control, Observer, Permissions, QuestionGuard, SecretGuard, Session,
    Stop,
};
use crate::egress::forms;
use crate::journal::Journal;
use cofferdam_core::policy::{BackendKind, HeaderPart, Limits, header_parts};
use cofferdam_sandbox::Redactor;
use cofferdam_workspace::{Overlay, Workspace};

/// The services that all calls of a host share, created when the host opens.
pub struct Services {
    /// The directory that calls work on.
    pub workspace: Arc<Workspace>,
    /// Runs linters, test runners and builders.
    pub backends: Arc<dyn Backends>,
    /// Finds and runs native programs.
    pub programs: Arc<Programs>,
    /// Sends HTTP requests of plugins.
    pub http: Arc<Http>,
    /// The agents that tasks can be given to.
    pub team: Team,
    /// Counts the programs that are left running.
    pub background: Arc<Pool>,
    /// Records the start and the end of programs that are left running.
    pub journal: Arc<Journal>,
}

/// The context of one instance of a call. The contexts of the call's backends differ from the
/// call's own in the permissions.
#[derive(Clone)]
pub struct CallContext {
    /// Identifies the call in the journal.
    pub id: String,
    /// What the instance may do.
    pub permissions: Permissions,
    /// The limits of the call; each instance has its own memory.
    pub limits: Limits,
    /// The tree that the call works on: earlier changes are visible, and its own changes are
    /// staged.
    pub tree: Arc<Overlay>,
    /// The call's deadline and cancellation.
    pub control: Arc<Control>,
    /// Collects what the call has used.
    pub usage: Arc<CallUsage>,
    /// Receives messages and progress.
    pub observer: Arc<dyn Observer>,
    /// The session that the call belongs to.
    pub session: Session,
    /// What the call has read of secrets, and what it may send therefore.
    pub secrets: Arc<SecretGuard>,
    /// What its plugins have asked consent for.
    pub consents: Arc<ConsentGuard>,
    /// What its plugins have asked the user.
    pub questions: Arc<QuestionGuard>,
    /// Calls other tools; `None` if the call may not do that.
    pub nested: Option<Arc<dyn NestedCalls>>,
    /// The services that all calls share.
    pub services: Arc<Services>,
}

impl CallContext {
    /// The variables of the host that the operator grants to programs, with their values.
    pub(super) fn granted_values(&self) -> impl Iterator<Item = (String, String)> {
        let environment = &self.services.programs.environment;
        let value = |name: &String| Some((name.clone(), environment.get(name)?.clone()));
        self.permissions.grant.environment.iter().filter_map(value)
    }

    /// The configuration of the plugin, by key. The value is an error if a variable is not set.
    pub(crate) fn config(&self) -> impl Iterator<Item = (&str, Result<String, String>)> {
        let environment = &self.services.http.environment;
        let config = self.permissions.grant.config.iter();
        config.map(|(key, value)| (key.as_str(), with_variables(value, environment)))
    }

    /// The values of the variables in the plugin's configuration, and the keys that are shown in their
    /// places.
    pub(crate) fn hidden(&self) -> Vec<(String, String)> {
        let mut hidden = Vec::new();
        let environment = &self.services.http.environment;
        for (key, text) in &self.permissions.grant.config {
            let variables =
                header_parts(text).into_iter().flatten().filter_map(|part| match part {
                    HeaderPart::Variable(name) => environment.get(name).map(|value| value.trim()),
                    HeaderPart::Text(_) => None,
                });
            for value in variables.filter(|value| is_hidden(value)) {
                hidden.extend(forms(value).map(|form| (key.clone(), form)));
            }
        }
        hidden
    }

    /// A text without the values of the variables in the plugin's configuration.
    pub(crate) fn redacted(&self, text: &str) -> String {
        redact(&self.hidden(), text)
    }
}

/// Puts `[NAME]` in place of values in the strings and keys of a JSON text, however they are escaped
/// there. A number that is one of the values becomes a string, since the text stays JSON. What is no
/// JSON is redacted as text.
pub(crate) fn redact_json(hidden: &[(String, String)], text: &str) -> String {
    fn cleaned(hidden: &[(String, String)], value: Value) -> Value {
        match value {
            Value::String(text) => redact(hidden, &text).into(),
            Value::Array(items) => items.into_iter().map(|item| cleaned(hidden, item)).collect(),
            Value::Object(fields) => fields
                .into_iter()
                .map(|(key, value)| (redact(hidden, &key), cleaned(hidden, value)))
                .collect(),
            Value::Number(number) => {
                let text = number.to_string();
                match hidden.iter().any(|(_, value)| *value == text) {
                    true => redact(hidden, &text).into(),
                    false => number.into(),
                }
            }
            other => other,
        }
    }
    match serde_json::from_str(text) {
        Ok(value) => cleaned(hidden, value).to_string(),
        Err(_) => redact(hidden, text),
    }
}

/// Puts `[NAME]` in place of values.
pub(crate) fn redact(hidden: &[(String, String)], text: &str) -> String {
    if hidden.is_empty() {
        return text.to_owned();
    }
    let mut redactor = Redactor::new(hidden);
    let mut clean = redactor.push(text.as_bytes());
    clean.extend(redactor.finish());
    String::from_utf8_lossy(&clean).into_owned()
}

/// The minimum length of granted variables that are redacted, in bytes: shorter values occur in any
/// text.
const MIN_SECRET_BYTES: usize = 6;

/// Whether the value of a granted variable is redacted.
pub(super) fn is_hidden(value: &str) -> bool {
    value.len() >= MIN_SECRET_BYTES
}

/// A text of the settings with the values of its variables.
///
/// # Errors
/// The end of a sentence about the text, if a variable is not set.
pub(super) fn with_variables(
    text: &str,
    environment: &HashMap<String, String>,
) -> Result<String, String> {
    let mut whole = String::new();
    for part in header_parts(text)? {
        match part {
            HeaderPart::Text(part) => whole.push_str(part),
            HeaderPart::Variable(variable) => match environment.get(variable) {
                Some(value) => whole.push_str(value.trim()),
                None => return Err(format!("needs the variable {variable}, which is not set")),
            },
        }
    }
    Ok(whole)
}

/// Calls other tools for one call.
pub trait NestedCalls: Send + Sync {
    /// Makes calls, and returns their results in the same order.
    ///
    /// # Errors
    /// Why `caller` has to end.
    fn call(
        &self,
        requests: Vec<tools::Request>,
        caller: &CallContext,
    ) -> Result<Vec<Result<String, tools::Failure>>, Stop>;

    /// The qualified names of the tools of the role, sorted.
    fn names(&self) -> Vec<String>;

    /// The tools that can be called and match any word of the query, the best first. An empty query
    /// matches all.
    fn search(&self, query: &str, max: usize) -> Vec<tools::Tool>;

    /// One tool by its qualified name, if it can be called.
    fn get(&self, name: &str) -> Option<tools::Tool>;
}

/// Runs linters, test runners, builders and checkers, each in an instance of its own with no more
/// permissions than its caller.
pub trait Backends: Send + Sync {
    /// The linters, in the operator's order. A chosen name that is not a linter for its language is
    /// listed as well, so that tools don't consider the language checked. A name of no linter has
    /// no languages.
    fn linters(&self) -> Vec<linters::Backend>;

    /// The names of the backends of one kind, in the operator's order.
    fn names(&self, kind: BackendKind) -> Vec<String>;

    /// The version of the program that a backend runs.
    ///
    /// # Errors
    /// See [`Error`].
    fn version(&self, kind: BackendKind, name: &str, caller: &CallContext)
    -> Result<String, Error>;

    /// How well a test runner or builder fits the directory `root`, in percent; 0 if it fails.
    fn detect(&self, kind: BackendKind, name: &str, root: &str, caller: &CallContext) -> u8;

    /// Lints with several linters side by side.
    fn lint(
        &self,
        requests: &[(String, linting::Request)],
        caller: &CallContext,
    ) -> Vec<Result<linting::Report, Error>>;

    /// Checks the first of some texts, each with its path, which may import the others. `None` if there
    /// is no checker for the language.
    fn check(
        &self,
        language: &str,
        sources: &[(String, String)],
        caller: &CallContext,
    ) -> Option<Result<Vec<linting::Finding>, Error>>;

    /// Runs tests with one test runner.
    ///
    /// # Errors
    /// See [`Error`].
    fn run_tests(
        &self,
        name: &str,
        request: &testing::Request,
        caller: &CallContext,
    ) -> Result<testing::Report, Error>;

    /// Builds with one builder.
    ///
    /// # Errors
    /// See [`Error`].
    fn build(
        &self,
        name: &str,
        request: &building::Request,
        caller: &CallContext,
    ) -> Result<building::Report, Error>;
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_redacted_in_the_strings_of_an_answer() {
        let values = [("token", "a&b/\"c\""), ("code", "12345678")];
        let hidden: Vec<(String, String)> = values
            .into_iter()
            .flat_map(|(key, value)| forms(value).map(move |form| (key.to_owned(), form)))
            .collect();
        for (text, wanted) in [
            (r#"{"x": "is a\u0026b\/\"c\"."}"#, json!({"x": "is [token]."})),
            (
                r#"{"x": "a%26b%2F%22c%22", "y": "YSZiLyJjIg=="}"#,
                json!({"x": "[token]", "y": "[token]"}),
            ),
            (r#"{"12345678": [{"x": "12345678"}]}"#, json!({"[code]": [{"x": "[code]"}]})),
            (r#"{"x": 12345678, "y": 123456789}"#, json!({"x": "[code]", "y": 123_456_789})),
            (r#"{"x": 1.5, "y": null, "z": true}"#, json!({"x": 1.5, "y": null, "z": true})),
        ] {
            let clean: Value = serde_json::from_str(&redact_json(&hidden, text)).unwrap();
            assert_eq!(clean, wanted, "{text}");
        }
        assert_eq!(redact_json(&hidden, "no JSON: 12345678"), "no JSON: [code]");
    }
}
