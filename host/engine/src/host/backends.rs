//! Backends without a tool in between: for the operator, who lists, compares and tests them.

use std::sync::Arc;

use super::Host;
use crate::runtime::wit::backend::linting;
use crate::runtime::{BackendEntry, BackendError, Control, Rights, Surroundings};
use cofferdam_core::policy::{BackendKind, Capabilities, Files, Limits, Scope};

impl Host {
    /// The backends of one kind, in the operator's order.
    pub fn backends(&self, kind: BackendKind) -> impl Iterator<Item = &BackendEntry> {
        self.backends.of(kind)
    }

    /// The version of what a backend runs. Blocks until it has answered.
    ///
    /// # Errors
    /// The backend can't work here.
    pub fn backend_version(&self, kind: BackendKind, name: &str) -> Result<String, BackendError> {
        self.backends.version(kind, name, &operator(), &self.surroundings())
    }

    /// Has one linter look at files. Blocks until it has.
    ///
    /// # Errors
    /// See [`BackendError`].
    pub fn lint(
        &self,
        name: &str,
        request: linting::Request,
    ) -> Result<linting::Report, BackendError> {
        let requests = [(name.to_owned(), request)];
        let mut reports = self.backends.lint(&requests, &operator(), &self.surroundings());
        reports.pop().unwrap_or_else(|| Err(BackendError::Failed("no report".to_owned())))
    }

    fn surroundings(&self) -> Arc<Surroundings> {
        let limits =
            Limits { call: self.policy.limits().program_call, ..self.policy.limits().clone() };
        Arc::new(Surroundings {
            id: uuid::Uuid::now_v7().to_string(),
            workspace: Arc::clone(&self.standing.workspace),
            tree: Arc::clone(self.standing.workspace.plain()),
            control: Arc::new(Control::new(limits.call)),
            limits,
            observer: Arc::clone(&self.standing.observer),
            backends: Arc::clone(&self.backends),
            programs: Arc::clone(&self.programs),
            http: Arc::clone(&self.http),
            team: Arc::clone(&self.team),
            contacts: Arc::default(),
        })
    }
}

/// Whoever operates the host reads everything; what a backend itself may do is its grant's.
fn operator() -> Rights {
    Rights {
        plugin: String::new(),
        capabilities: Capabilities { files: Files::Read, ..Capabilities::NONE },
        sight: Scope::default(),
        scope: Scope::default(),
        environment: Vec::new(),
        origins: Vec::new(),
    }
}
