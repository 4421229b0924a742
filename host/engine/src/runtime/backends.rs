//! Runs linters, test runners, builders and checkers for tools. Each runs in a fresh instance, with the
//! grants of its own plugin but never more permissions than its caller.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Handle;
use wasmtime::Store;

use super::Runtime;
use super::engine::THREAD_STACK;
use super::instance::in_instance;
use super::prepared::{LaneOfPlugin, Prepared};
use crate::call::{Control, Grants, Permissions, PluginGrant, Stop};
use crate::capability::wit::backend::parts::Part;
use crate::capability::wit::backend::types::Error;
use crate::capability::wit::backend::{building, linters, linting, testing};
use crate::capability::{Backends, CallContext, CallState, redact};
use cofferdam_core::policy::{BackendKind, Choices, Files, Policy, Scope};
use cofferdam_plugin::manifest::Backend;
use cofferdam_plugin::registry::{Plugin, Registry};

/// The reason why a backend returned no report.
pub use crate::capability::wit::backend::types::Error as BackendError;

/// How long a checker may take.
const CHECK_TIME: Duration = Duration::from_secs(5);

/// Among how many instances a request to a linter is divided at most: each lists all files.
const MAX_PARTS: u32 = 4;

/// All backends, in the operator's order, with their grants.
pub struct BackendRunner {
    runtime: Arc<Runtime>,
    entries: Vec<Entry>,
    unsupported: Vec<UnsupportedChoice>,
}

/// A chosen linter that does not support the language it was chosen for.
struct UnsupportedChoice {
    /// The chosen name, which may not exist.
    linter: String,
    language: String,
}

/// A backend and its grant.
pub struct Entry {
    plugin: Arc<Plugin>,
    backend: Backend,
    /// The languages for which the operator chose this linter.
    chosen_for: Vec<String>,
    /// The grant of its plugin.
    grant: Arc<PluginGrant>,
}

impl Entry {
    /// The backend's declaration in the manifest.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The name of the backend's plugin.
    pub fn plugin(&self) -> &str {
        &self.plugin.manifest.name
    }

    /// The languages for which the operator chose this linter.
    pub fn chosen_for(&self) -> &[String] {
        &self.chosen_for
    }

    /// The permissions of the backend for a caller with the permissions `caller`.
    fn permissions(&self, caller: &Permissions) -> Permissions {
        let mut capabilities = self.grant.capabilities.clone();
        // A checker gets texts and no files.
        let own =
            if self.backend.kind == BackendKind::Checker { Files::None } else { Files::Write };
        capabilities.files = capabilities.files.min(caller.capabilities.files).min(own);
        capabilities.process = &capabilities.process & &self.backend.programs;
        Permissions {
            grant: Arc::clone(&self.grant),
            capabilities,
            // It reads imported files and configuration outside of the caller's scope.
            sight: Scope::default(),
            scope: caller.scope.clone(),
        }
    }
}

impl BackendRunner {
    /// A runner without backends.
    pub fn none(runtime: Arc<Runtime>) -> Self {
        Self { runtime, entries: Vec::new(), unsupported: Vec::new() }
    }

    /// The backends of all plugins, in the operator's order: the chosen ones first.
    pub fn new(
        runtime: Arc<Runtime>,
        registry: &Registry,
        policy: &Policy,
        grants: &Grants,
    ) -> Self {
        let choices = policy.choices();
        let mut entries = Vec::new();
        for plugin in registry.plugins() {
            let entry = |backend: &Backend| Entry {
                plugin: Arc::clone(plugin),
                backend: backend.clone(),
                chosen_for: chosen_for(backend, choices),
                grant: grants.of(plugin),
            };
            entries.extend(plugin.manifest.backends.iter().map(entry));
        }
        let listed = |kind| match kind {
            BackendKind::Linter | BackendKind::Checker => None,
            BackendKind::TestRunner => choices.test_runners(),
            BackendKind::Builder => choices.builders(),
        };
        entries.retain(|entry: &Entry| {
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
        let unsupported = chosen
            .filter(|(language, name)| !registry.linters(language).any(|own| own == *name))
            .map(|(language, name)| UnsupportedChoice {
                linter: name.to_owned(),
                language: language.to_owned(),
            })
            .collect();
        Self { runtime, entries, unsupported }
    }

    /// The backends of one kind, in the operator's order.
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
            .prepare(&entry.plugin, &entry.grant.capabilities, &|| control.is_cancelled())
            .map_err(|error| Error::Unavailable(error.to_string()))
    }

    /// Among how many instances a request to a linter is divided.
    fn parts(
        &self,
        name: &str,
        request: &linting::Request,
        caller: &CallContext,
    ) -> Result<u32, Error> {
        let entry = self.find(BackendKind::Linter, name)?;
        let is_file = match request.paths.as_slice() {
            [path] => Path::new(path).extension().is_some(),
            _ => false,
        };
        let is_divided = !is_file && self.prepare(entry, &caller.control)?.is_divisible;
        let most = u32::try_from(self.runtime.lanes()).map_or(MAX_PARTS, |n| n.min(MAX_PARTS));
        Ok(if is_divided { most } else { 1 })
    }

    fn lint_part(
        &self,
        name: &str,
        request: &linting::Request,
        part: Part,
        caller: &CallContext,
    ) -> Result<linting::Report, Error> {
        self.ask(BackendKind::Linter, name, caller, |store, lane| {
            store.data_mut().part = part;
            let linter = lane.linter()?.instantiate(&mut *store)?;
            linter.cofferdam_backend_linter().call_lint(store, name, request)
        })?
    }

    /// Runs `work` in a fresh instance of a backend.
    fn ask<T: Strings + Send>(
        &self,
        kind: BackendKind,
        name: &str,
        caller: &CallContext,
        work: impl FnOnce(&mut Store<CallState>, &LaneOfPlugin) -> wasmtime::Result<T> + Send,
    ) -> Result<T, Error> {
        let entry = self.find(kind, name)?;
        let prepared = self.prepare(entry, &caller.control)?;
        let mut context = caller.clone();
        context.permissions = entry.permissions(&caller.permissions);
        context.nested = None;
        let hidden = context.hidden();
        let context = Arc::new(context);
        // In a new thread, since the caller's stack is in use.
        let timers = Handle::try_current();
        let run = move || {
            let _timers = timers.as_ref().ok().map(Handle::enter);
            in_instance(&prepared, &context, work).map(|(done, _)| done)
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
        let mut ended = ended.map_err(|stop| match stop {
            Stop::Limit(_) | Stop::Ended(..) | Stop::Cancelled => {
                Error::Limit(format!("{name}: {stop}"))
            }
            Stop::Trap(_) | Stop::Descriptors => Error::Failed(format!("{name}: {stop}")),
        });
        // The values of the backend's own configuration: those of its caller's are another's.
        if !hidden.is_empty() {
            ended.each(&mut |text| *text = redact(&hidden, text));
        }
        ended
    }
}

impl Backends for BackendRunner {
    fn linters(&self) -> Vec<linters::Backend> {
        let backend = |entry: &Entry| linters::Backend {
            name: entry.backend.name.clone(),
            languages: entry.backend.languages.clone(),
            chosen_for: entry.chosen_for.clone(),
        };
        let mut linters: Vec<_> = self.of(BackendKind::Linter).map(backend).collect();
        for UnsupportedChoice { linter, language } in &self.unsupported {
            match linters.iter_mut().find(|backend| backend.name == *linter) {
                Some(backend) => backend.chosen_for.push(language.clone()),
                None => linters.insert(
                    0,
                    linters::Backend {
                        name: linter.clone(),
                        languages: Vec::new(),
                        chosen_for: vec![language.clone()],
                    },
                ),
            }
        }
        linters
    }

    fn names(&self, kind: BackendKind) -> Vec<String> {
        self.of(kind).map(|entry| entry.backend.name.clone()).collect()
    }

    fn version(
        &self,
        kind: BackendKind,
        name: &str,
        caller: &CallContext,
    ) -> Result<String, Error> {
        self.ask(kind, name, caller, |store, lane| match kind {
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
            BackendKind::Checker => {
                let checker = lane.checker()?.instantiate(&mut *store)?;
                checker.cofferdam_backend_checker().call_version(store, name)
            }
        })?
    }

    fn detect(&self, kind: BackendKind, name: &str, root: &str, caller: &CallContext) -> u8 {
        let asked = self.ask(kind, name, caller, |store, lane| match kind {
            BackendKind::Linter | BackendKind::Checker => Ok(0),
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

    fn lint(
        &self,
        requests: &[(String, linting::Request)],
        caller: &CallContext,
    ) -> Vec<Result<linting::Report, Error>> {
        // The output of linters is converted to findings, so nothing is kept.
        let mut caller = caller.clone();
        caller.limits.spill = 0;
        let lint = |(name, request): &(String, linting::Request)| {
            let count = self.parts(name, request, &caller)?;
            joined(side_by_side(0..count, |index| {
                self.lint_part(name, request, Part { index, count }, &caller)
            }))
        };
        side_by_side(requests, lint)
    }

    fn check(
        &self,
        language: &str,
        sources: &[(String, String)],
        caller: &CallContext,
    ) -> Option<Result<Vec<linting::Finding>, Error>> {
        let is_for = |entry: &&Entry| entry.backend.languages.iter().any(|own| own == language);
        let name = &self.of(BackendKind::Checker).find(is_for)?.backend.name;
        let mut caller = caller.clone();
        caller.control = Arc::new(Control::nested(CHECK_TIME, &caller.control));
        Some(
            self.ask(BackendKind::Checker, name, &caller, |store, lane| {
                let checker = lane.checker()?.instantiate(&mut *store)?;
                checker.cofferdam_backend_checker().call_check(store, name, sources)
            })
            .flatten(),
        )
    }

    fn run_tests(
        &self,
        name: &str,
        request: &testing::Request,
        caller: &CallContext,
    ) -> Result<testing::Report, Error> {
        self.ask(BackendKind::TestRunner, name, caller, |store, lane| {
            let runner = lane.test_runner()?.instantiate(&mut *store)?;
            runner.cofferdam_backend_test_runner().call_run(store, name, request)
        })?
    }

    fn build(
        &self,
        name: &str,
        request: &building::Request,
        caller: &CallContext,
    ) -> Result<building::Report, Error> {
        self.ask(BackendKind::Builder, name, caller, |store, lane| {
            let builder = lane.builder()?.instantiate(&mut *store)?;
            builder.cofferdam_backend_builder().call_build(store, name, request)
        })?
    }
}

/// Calls `work` with each item in a thread of its own. Returns the results in the order of the items.
fn side_by_side<I: Send, T: Send>(
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> Result<T, Error> + Sync,
) -> Vec<Result<T, Error>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |item| scope.spawn(move || work(item));
        let running: Vec<_> = items.into_iter().map(start).collect();
        let ended = running.into_iter().map(|running| {
            running.join().unwrap_or_else(|_| {
                Err(Error::Failed("the host failed in one of its own functions".to_owned()))
            })
        });
        ended.collect()
    })
}

/// Joins the reports of all parts of a request.
///
/// # Errors
/// The error of the first part that has no report.
fn joined(parts: Vec<Result<linting::Report, Error>>) -> Result<linting::Report, Error> {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_else(|| Err(Error::Failed("no parts".to_owned())))?;
    for part in parts {
        let part = part?;
        all.findings.extend(part.findings);
        all.files_checked = all.files_checked.saturating_add(part.files_checked);
        all.exit_code = all.exit_code.max(part.exit_code);
        all.raw.push_str(&part.raw);
    }
    // Findings without a path count those that were left out, and are the last.
    fn place(found: &linting::Finding) -> (bool, &str, u32, u32) {
        (found.path.is_empty(), &found.path, found.line, found.column)
    }
    all.findings.sort_by(|a, b| place(a).cmp(&place(b)));
    Ok(all)
}

/// The languages for which the operator chose this linter.
fn chosen_for(backend: &Backend, choices: &Choices) -> Vec<String> {
    let is_chosen = |language: &&String| {
        let chosen = choices.linters().get(*language);
        chosen.is_some_and(|chosen| chosen.contains(&backend.name))
    };
    match backend.kind {
        BackendKind::Linter => backend.languages.iter().filter(is_chosen).cloned().collect(),
        BackendKind::TestRunner | BackendKind::Builder | BackendKind::Checker => Vec::new(),
    }
}

/// The strings in what a backend returns.
trait Strings {
    /// Applies `change` to each of them.
    fn each(&mut self, change: &mut dyn FnMut(&mut String));
}

impl Strings for u8 {
    fn each(&mut self, _: &mut dyn FnMut(&mut String)) {}
}

impl Strings for String {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        change(self);
    }
}

impl Strings for Error {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        let (Self::Unavailable(text)
        | Self::Invalid(text)
        | Self::Limit(text)
        | Self::Failed(text)) = self;
        change(text);
    }
}

impl<T: Strings> Strings for Result<T, Error> {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        match self {
            Ok(done) => done.each(change),
            Err(error) => error.each(change),
        }
    }
}

impl<T: Strings> Strings for Vec<T> {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.iter_mut().for_each(|one| one.each(change));
    }
}

impl Strings for linting::Finding {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        [&mut self.path, &mut self.code, &mut self.message].into_iter().for_each(&mut *change);
        self.url.iter_mut().for_each(&mut *change);
        if let Some(fix) = &mut self.fix {
            change(&mut fix.description);
            for edit in &mut fix.edits {
                [&mut edit.path, &mut edit.text].into_iter().for_each(&mut *change);
            }
        }
    }
}

impl Strings for linting::Report {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        change(&mut self.raw);
        self.findings.each(change);
    }
}

impl Strings for testing::Report {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        change(&mut self.raw);
        for test in &mut self.tests {
            [&mut test.name, &mut test.suite].into_iter().for_each(&mut *change);
            [&mut test.message, &mut test.stack].into_iter().flatten().for_each(&mut *change);
        }
    }
}

impl Strings for building::Report {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        change(&mut self.raw);
        for found in &mut self.diagnostics {
            [&mut found.path, &mut found.message].into_iter().for_each(&mut *change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed<T: Strings + std::fmt::Debug>(report: T) -> String {
        let mut answer: Result<Result<T, Error>, Error> = Ok(Ok(report));
        answer.each(&mut |text| *text = "[KEY]".to_owned());
        format!("{answer:?}")
    }

    #[test]
    fn all_strings_of_a_report_are_changed() {
        let text = || "secret".to_owned();
        let edit = linting::Edit { path: text(), start: 0, end: 1, text: text() };
        let fix = linting::Fix { description: text(), safe: true, edits: vec![edit] };
        let finding = linting::Finding {
            path: text(),
            line: 1,
            column: 1,
            end_line: None,
            end_column: None,
            code: text(),
            severity: linting::Severity::Error,
            message: text(),
            url: Some(text()),
            fix: Some(fix),
        };
        let linted = linting::Report {
            findings: vec![finding],
            files_checked: 1,
            exit_code: None,
            raw: text(),
        };
        let test = testing::Test {
            name: text(),
            suite: text(),
            status: testing::Status::Fail,
            duration: None,
            message: Some(text()),
            stack: Some(text()),
        };
        let tested = testing::Report {
            tests: vec![test],
            exit_code: None,
            timed_out: false,
            duration_ms: 1,
            raw: text(),
        };
        let diagnostic = building::Diagnostic {
            path: text(),
            line: 1,
            column: 1,
            message: text(),
            severity: building::Severity::Error,
        };
        let built = building::Report {
            diagnostics: vec![diagnostic],
            exit_code: None,
            timed_out: false,
            duration_ms: 1,
            raw: text(),
        };
        for all in [changed(linted), changed(tested), changed(built), changed(text())] {
            assert!(all.contains("[KEY]") && !all.contains("secret"), "{all}");
        }
        let mut failed: Result<u8, Error> = Err(Error::Failed(text()));
        failed.each(&mut |text| text.clear());
        assert!(matches!(failed, Err(Error::Failed(text)) if text.is_empty()));
    }
}
