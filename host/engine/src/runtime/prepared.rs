//! A plugin that is ready to be called.

use std::sync::atomic::{AtomicUsize, Ordering};

use wasmtime::Error;
use wasmtime::component::InstancePre;

use super::engine::Engine;
use super::typed::Tools;
use crate::capability::CallState;
use crate::capability::builder::BuildBackendPre;
use crate::capability::checker::CheckerBackendPre;
use crate::capability::linter::LinterBackendPre;
use crate::capability::test_runner::TestBackendPre;
use cofferdam_core::policy::BackendKind;
use cofferdam_plugin::manifest::Manifest;

/// A plugin that was loaded, checked and linked in each lane.
pub struct Prepared {
    pub(super) lanes: Vec<LaneOfPlugin>,
    /// Whether its linters can serve parts of requests.
    pub(super) is_divisible: bool,
}

/// A plugin in one lane, with the exports that its manifest declares.
pub(super) struct LaneOfPlugin {
    pub(super) engine: Engine,
    tools: Option<Tools>,
    linter: Option<LinterBackendPre<CallState>>,
    test_runner: Option<TestBackendPre<CallState>>,
    builder: Option<BuildBackendPre<CallState>>,
    checker: Option<CheckerBackendPre<CallState>>,
}

impl LaneOfPlugin {
    /// Links a plugin in a lane.
    ///
    /// # Errors
    /// An export is missing or of another type.
    pub(super) fn new(
        engine: &Engine,
        pre: &InstancePre<CallState>,
        manifest: &Manifest,
    ) -> wasmtime::Result<Self> {
        if engine.is_concurrent() && !manifest.backends.is_empty() {
            return Err(Error::msg("a component that uses WASI 0.3 can't have backends"));
        }
        let has = |kind| manifest.backends.iter().any(|backend| backend.kind == kind);
        let tools = !manifest.tools.is_empty() || manifest.is_unlisted();
        Ok(Self {
            engine: engine.clone(),
            tools: tools.then(|| Tools::new(engine, pre, manifest)).transpose()?,
            linter: has(BackendKind::Linter)
                .then(|| LinterBackendPre::new(pre.clone()))
                .transpose()?,
            test_runner: has(BackendKind::TestRunner)
                .then(|| TestBackendPre::new(pre.clone()))
                .transpose()?,
            builder: has(BackendKind::Builder)
                .then(|| BuildBackendPre::new(pre.clone()))
                .transpose()?,
            checker: has(BackendKind::Checker)
                .then(|| CheckerBackendPre::new(pre.clone()))
                .transpose()?,
        })
    }

    pub(super) fn tools(&self) -> wasmtime::Result<&Tools> {
        self.tools.as_ref().ok_or_else(|| Error::msg("the plugin has no tools"))
    }

    pub(super) fn linter(&self) -> wasmtime::Result<&LinterBackendPre<CallState>> {
        self.linter.as_ref().ok_or_else(|| Error::msg("the plugin has no linters"))
    }

    pub(super) fn test_runner(&self) -> wasmtime::Result<&TestBackendPre<CallState>> {
        let missing = || Error::msg("the plugin has no test runners");
        self.test_runner.as_ref().ok_or_else(missing)
    }

    pub(super) fn builder(&self) -> wasmtime::Result<&BuildBackendPre<CallState>> {
        self.builder.as_ref().ok_or_else(|| Error::msg("the plugin has no builders"))
    }

    pub(super) fn checker(&self) -> wasmtime::Result<&CheckerBackendPre<CallState>> {
        self.checker.as_ref().ok_or_else(|| Error::msg("the plugin has no checkers"))
    }
}

impl Prepared {
    /// Whether it uses WASI 0.3.
    pub(super) fn is_concurrent(&self) -> bool {
        self.lanes[0].engine.is_concurrent()
    }

    /// The plugin in the lane of this thread.
    pub(super) fn lane(&self) -> &LaneOfPlugin {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        &self.lanes[THREAD.with(|thread| thread % self.lanes.len())]
    }
}
