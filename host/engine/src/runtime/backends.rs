//! The backends that answer when a tool asks for a linter, a test runner or a builder. Each
//! answers in an instance of its own, with its own plugin's rights and never more than the call's.

use std::sync::Arc;
use std::thread;

use tokio::runtime::Handle;
use wasmtime::Store;

use super::engine::THREAD_STACK;
use super::instance::{Rights, Stop, Surroundings, in_instance};
use super::state::{CallState, Control};
use super::wit::backend::types::Error;
use super::wit::backend::{building, linting, testing};
use super::{LaneOfPlugin, Prepared, Runtime};
use cofferdam_core::policy::{BackendKind, Capabilities, OriginSettings, Policy, Scope};
use cofferdam_plugin::manifest::Backend;
use cofferdam_plugin::registry::{Plugin, Registry};

/// Why a backend has no report.
pub use super::wit::backend::types::Error as BackendError;

/// All backends, with what the operator grants and prefers.
pub struct Backends {
    runtime: Arc<Runtime>,
    entries: Vec<Entry>,
    unfit: Vec<Unfit>,
}

/// What the operator chose to lint a language, but is not a linter for it.
pub struct Unfit {
    /// The chosen name, which may belong to no linter at all.
    pub linter: String,
    /// What it was chosen for.
    pub language: String,
}

/// One backend.
pub struct Entry {
    plugin: Arc<Plugin>,
    backend: Backend,
    /// The languages for which the operator chose this linter.
    chosen_for: Vec<String>,
    /// What its plugin is granted.
    granted: Capabilities,
    environment: Vec<String>,
    origins: Vec<OriginSettings>,
}

impl Entry {
    /// What the manifest says of it.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The plugin's name.
    pub fn plugin(&self) -> &str {
        &self.plugin.manifest.name
    }

    /// The languages for which the operator chose this linter.
    pub fn chosen_for(&self) -> &[String] {
        &self.chosen_for
    }

    /// What the backend may do for a call that may do `caller`.
    fn rights(&self, caller: &Rights) -> Rights {
        let mut capabilities = self.granted.clone();
        capabilities.files = capabilities.files.min(caller.capabilities.files);
        capabilities.process = &capabilities.process & &self.backend.programs;
        Rights {
            plugin: self.plugin.manifest.name.clone(),
            capabilities,
            // It has to see what a file imports, or where a project keeps its configuration.
            sight: Scope::default(),
            scope: caller.scope.clone(),
            environment: self.environment.clone(),
            origins: self.origins.clone(),
        }
    }
}

impl Backends {
    /// No backends.
    pub fn none(runtime: Arc<Runtime>) -> Self {
        Self { runtime, entries: Vec::new(), unfit: Vec::new() }
    }

    /// Those of all plugins, in the operator's order: first the chosen ones.
    pub fn new(runtime: Arc<Runtime>, registry: &Registry, policy: &Policy) -> Self {
        let choices = policy.choices();
        let mut entries = Vec::new();
        for plugin in registry.plugins() {
            let manifest = &plugin.manifest;
            let granted = policy.capabilities(&manifest.name, plugin.built_in, &manifest.requests);
            let environment: Vec<String> =
                policy.environment(&manifest.name).map(str::to_owned).collect();
            for backend in &manifest.backends {
                let chosen_for = match backend.kind {
                    BackendKind::Linter => backend
                        .languages
                        .iter()
                        .filter(|language| {
                            let chosen = choices.linters().get(*language);
                            chosen.is_some_and(|chosen| chosen.contains(&backend.name))
                        })
                        .cloned()
                        .collect(),
                    BackendKind::TestRunner | BackendKind::Builder => Vec::new(),
                };
                entries.push(Entry {
                    plugin: Arc::clone(plugin),
                    backend: backend.clone(),
                    chosen_for,
                    granted: granted.clone(),
                    environment: environment.clone(),
                    origins: policy.origins(&manifest.name).to_vec(),
                });
            }
        }
        let listed = |kind| match kind {
            BackendKind::Linter => None,
            BackendKind::TestRunner => choices.test_runners(),
            BackendKind::Builder => choices.builders(),
        };
        entries.retain(|entry| {
            listed(entry.backend.kind).is_none_or(|names| names.contains(&entry.backend.name))
        });
        entries.sort_by_key(|entry| match listed(entry.backend.kind) {
            Some(names) => names.iter().position(|name| *name == entry.backend.name).unwrap_or(0),
            None => choices
                .linters()
                .values()
                .filter_map(|chosen| chosen.iter().position(|name| *name == entry.backend.name))
                .min()
                .unwrap_or(usize::MAX),
        });
        let chosen = choices.linters().iter().flat_map(|(language, names)| {
            names.iter().map(|name| (language.as_str(), name.as_str()))
        });
        let unfit = chosen
            .filter(|(language, name)| !registry.linters(language).any(|own| own == *name))
            .map(|(language, name)| Unfit {
                linter: name.to_owned(),
                language: language.to_owned(),
            })
            .collect();
        Self { runtime, entries, unfit }
    }

    /// The operator's choices that are not linters for their languages.
    pub fn unfit(&self) -> &[Unfit] {
        &self.unfit
    }

    /// Those of one kind.
    pub fn of(&self, kind: BackendKind) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.backend.kind == kind)
    }

    fn find(&self, kind: BackendKind, name: &str) -> Result<&Entry, Error> {
        self.of(kind).find(|entry| entry.backend.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.of(kind).map(|entry| entry.backend.name.as_str()).collect();
            let there_are = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::Unavailable(format!("there is no {kind} '{name}'; there are: {there_are}"))
        })
    }

    fn prepare(&self, entry: &Entry, control: &Control) -> Result<Arc<Prepared>, Error> {
        self.runtime
            .prepare(&entry.plugin, &entry.granted, &|| control.is_cancelled())
            .map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Has one backend do something.
    fn ask<T: Send>(
        &self,
        kind: BackendKind,
        name: &str,
        caller: &Rights,
        surroundings: &Arc<Surroundings>,
        work: impl FnOnce(&mut Store<CallState>, &LaneOfPlugin) -> wasmtime::Result<T> + Send,
    ) -> Result<T, Error> {
        let entry = self.find(kind, name)?;
        let prepared = self.prepare(entry, &surroundings.control)?;
        let rights = Arc::new(entry.rights(caller));
        // A thread of its own, since the caller's stack is in use.
        let timers = Handle::try_current();
        let run = move || {
            let _timers = timers.as_ref().ok().map(Handle::enter);
            in_instance(&prepared, &rights, surroundings, work).map(|(done, _)| done)
        };
        let ended = thread::scope(|scope| {
            let thread = thread::Builder::new()
                .stack_size(THREAD_STACK)
                .name("cofferdam-backend".to_owned());
            match thread.spawn_scoped(scope, run) {
                Ok(running) => running.join().unwrap_or_else(|_| {
                    Err(Stop::Trap("the host failed in one of its own functions".to_owned()))
                }),
                Err(error) => Err(Stop::Trap(format!("no thread: {error}"))),
            }
        });
        ended.map_err(|stop| match stop {
            Stop::Limit(_) | Stop::Room(..) | Stop::Cancelled => {
                Error::Limit(format!("{name}: {stop}"))
            }
            Stop::Trap(_) | Stop::Descriptors => Error::Failed(format!("{name}: {stop}")),
        })
    }

    /// The version of what a backend runs.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn version(
        &self,
        kind: BackendKind,
        name: &str,
        caller: &Rights,
        surroundings: &Arc<Surroundings>,
    ) -> Result<String, Error> {
        self.ask(kind, name, caller, surroundings, |store, lane| match kind {
            BackendKind::Linter => {
                let linter = lane.linter()?.instantiate(&mut *store)?;
                linter.cofferdam_backend_linter().call_version(store, name)
            }
            BackendKind::TestRunner => {
                let runner = lane.test_runner()?.instantiate(&mut *store)?;
                runner.cofferdam_backend_test_runner().call_version(store, name)
            }
            BackendKind::Builder => {
                let builder = lane.builder()?.instantiate(&mut *store)?;
                builder.cofferdam_backend_builder().call_version(store, name)
            }
        })?
    }

    /// How sure a test runner or builder is that it fits a directory; 0 where it can't be asked.
    pub fn detect(
        &self,
        kind: BackendKind,
        name: &str,
        root: &str,
        caller: &Rights,
        surroundings: &Arc<Surroundings>,
    ) -> u8 {
        let asked = self.ask(kind, name, caller, surroundings, |store, lane| match kind {
            BackendKind::Linter => Ok(0),
            BackendKind::TestRunner => {
                let runner = lane.test_runner()?.instantiate(&mut *store)?;
                runner.cofferdam_backend_test_runner().call_detect(store, name, root)
            }
            BackendKind::Builder => {
                let builder = lane.builder()?.instantiate(&mut *store)?;
                builder.cofferdam_backend_builder().call_detect(store, name, root)
            }
        });
        asked.unwrap_or_else(|error| {
            tracing::warn!("the {kind} '{name}' can't be asked: {error:?}");
            0
        })
    }

    /// Lints with several linters side by side.
    pub fn lint(
        &self,
        requests: &[(String, linting::Request)],
        caller: &Rights,
        surroundings: &Arc<Surroundings>,
    ) -> Vec<Result<linting::Report, Error>> {
        // A linter's output is its findings, of which nothing is left out.
        let mut surroundings = Surroundings::clone(surroundings);
        surroundings.limits.spill = 0;
        let surroundings = Arc::new(surroundings);
        let lint = |(name, request): &(String, linting::Request)| {
            self.ask(BackendKind::Linter, name, caller, &surroundings, |store, lane| {
                let linter = lane.linter()?.instantiate(&mut *store)?;
                linter.cofferdam_backend_linter().call_lint(store, name, request)
            })?
        };
        thread::scope(|scope| {
            let running: Vec<_> =
                requests.iter().map(|request| scope.spawn(move || lint(request))).collect();
            let ended = running.into_iter().map(|running| {
                running.join().unwrap_or_else(|_| {
                    Err(Error::Failed("the host failed in one of its own functions".to_owned()))
                })
            });
            ended.collect()
        })
    }

    /// Runs tests.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run_tests(
        &self,
        name: &str,
        request: &testing::Request,
        caller: &Rights,
        surroundings: &Arc<Surroundings>,
    ) -> Result<testing::Report, Error> {
        self.ask(BackendKind::TestRunner, name, caller, surroundings, |store, lane| {
            let runner = lane.test_runner()?.instantiate(&mut *store)?;
            runner.cofferdam_backend_test_runner().call_run(store, name, request)
        })?
    }

    /// Builds.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn build(
        &self,
        name: &str,
        request: &building::Request,
        caller: &Rights,
        surroundings: &Arc<Surroundings>,
    ) -> Result<building::Report, Error> {
        self.ask(BackendKind::Builder, name, caller, surroundings, |store, lane| {
            let builder = lane.builder()?.instantiate(&mut *store)?;
            builder.cofferdam_backend_builder().call_build(store, name, request)
        })?
    }
}
