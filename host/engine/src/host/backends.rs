//! Calls backends directly, without a tool, to list, compare and test them.

use std::path::PathBuf;
use std::sync::Arc;

use super::Host;
use crate::call::{Control, Observer, Permissions, Session};
use crate::capability::{Backends, CallContext};
use crate::runtime::{BackendEntry, BackendError, linting};
use crate::toolchains::Toolchains;
use cofferdam_core::policy::{BackendKind, Capabilities, Files, Limits, Scope};

impl Host {
    /// The backends of one kind, in the operator's order.
    pub fn backends(&self, kind: BackendKind) -> impl Iterator<Item = &BackendEntry> {
        self.backends.of(kind)
    }

    /// Returns the version of the program that a backend runs. Blocks.
    ///
    /// # Errors
    /// See [`BackendError`].
    pub fn backend_version(&self, kind: BackendKind, name: &str) -> Result<String, BackendError> {
        self.backends.version(kind, name, &self.operator())
    }

    /// How sure a test runner or builder is that the workspace's root is a project for it, from 0 to
    /// 100; `None` for linters and checkers. Blocks.
    pub fn backend_fits(&self, kind: BackendKind, name: &str) -> Option<u8> {
        match kind {
            BackendKind::Linter | BackendKind::Checker => None,
            kind => Some(self.backends.detect(kind, name, "", &self.operator())),
        }
    }

    /// The toolchains of the operator's account for programs in the workspace's root.
    pub fn toolchains(&self) -> Toolchains {
        self.services.programs.toolchains(&self.services.workspace, "")
    }

    /// The file of a program, as plugins find it.
    pub fn find_program(&self, name: &str, toolchains: &Toolchains) -> Option<PathBuf> {
        self.services.programs.find(name, &self.services.workspace, toolchains).ok()
    }

    /// Lints files with one linter. Blocks.
    ///
    /// # Errors
    /// See [`BackendError`].
    pub fn lint(
        &self,
        name: &str,
        request: linting::Request,
    ) -> Result<linting::Report, BackendError> {
        let requests = [(name.to_owned(), request)];
        let mut reports = self.backends.lint(&requests, &self.operator());
        reports.pop().unwrap_or_else(|| Err(BackendError::Failed("no report".to_owned())))
    }

    /// The context of direct calls: the operator may read everything. The permissions of a backend
    /// come from its grant.
    fn operator(&self) -> CallContext {
        let mut limits = self.policy.limits().clone();
        limits.call = limits.program_call;
        let capabilities = Capabilities { files: Files::Read, ..Capabilities::NONE };
        self.without_a_call(limits, capabilities, Arc::clone(&self.shared.observer))
    }

    /// The context of an instance that no call of a client has asked for: in no session, with what is on the
    /// disk.
    pub(super) fn without_a_call(
        &self,
        limits: Limits,
        capabilities: Capabilities,
        observer: Arc<dyn Observer>,
    ) -> CallContext {
        CallContext {
            id: uuid::Uuid::now_v7().to_string(),
            permissions: Permissions {
                grant: Arc::default(),
                capabilities,
                sight: Scope::default(),
                scope: Scope::default(),
            },
            tree: Arc::clone(self.services.workspace.plain()),
            control: Arc::new(Control::new(limits.call)),
            limits,
            usage: Arc::default(),
            observer,
            session: Session::default(),
            secrets: Arc::default(),
            consents: Arc::default(),
            questions: Arc::default(),
            nested: None,
            services: Arc::clone(&self.services),
        }
    }
}
