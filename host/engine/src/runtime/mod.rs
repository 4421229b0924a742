//! The engine and everything that runs in it. Besides [`crate::capability`], the only place that
//! names wasmtime.
//!
//! A plugin is prepared once: loaded (compiled code from disk, compiled only where there is
//! none), its imports checked against what it was granted, and linked. Each call then gets an
//! instance of its own, which is thrown away afterwards.

mod backends;
mod bindings;
mod check;
mod clock;
mod compile;
mod engine;
mod instance;
mod queue;
mod sockets;
mod state;
mod typed;
mod value;
mod workers;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wasmtime::component::{Component, InstancePre, Linker};

use crate::capability;
use cofferdam_core::outcome::{LimitCode, NO_DESCRIPTOR, lacks_descriptors};
use cofferdam_core::policy::{BackendKind, Capabilities};
use cofferdam_plugin::cache::CodeCache;
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::registry::Plugin;

pub use backends::{BackendError, Backends, Entry as BackendEntry, Unfit};
pub(crate) use bindings::cofferdam as wit;
pub use bindings::cofferdam::backend::linting;
pub use bindings::cofferdam::tool::types::{ErrorKind, ToolError};
pub use compile::Compiler;
pub(crate) use compile::compile_if_asked;
pub use instance::{Answer, CallRequest, Remains, Rights, Stop, Surroundings, call};
pub use state::{CallState, Control, Observer, Quiet};
pub use workers::Workers;
pub use workers::blocking;

use bindings::builder::BuildBackendPre;
use bindings::linter::LinterBackendPre;
use bindings::test_runner::TestBackendPre;
pub use clock::Clock;
pub use engine::Engine;
use engine::Memory;
use typed::Tools;

/// The packages that the host serves to plugins, and what they are granted by. A plugin that
/// imports anything else does not load.
const SERVED: &[(&str, Needs)] = &[
    ("wasi:cli/", Needs::Nothing),
    ("wasi:clocks/", Needs::Nothing),
    ("wasi:filesystem/", Needs::Nothing),
    ("wasi:http/", Needs::Http),
    ("wasi:io/", Needs::Nothing),
    ("wasi:random/", Needs::Nothing),
    ("cofferdam:tool/types@0.1.0", Needs::Nothing),
    ("cofferdam:host/log@0.1.0", Needs::Nothing),
    ("cofferdam:host/progress@0.1.0", Needs::Nothing),
    ("cofferdam:host/scan@0.1.0", Needs::Scan),
    ("cofferdam:host/files@0.1.0", Needs::Nothing),
    ("cofferdam:host/process@0.1.0", Needs::Programs),
    ("cofferdam:host/agents@0.1.0", Needs::Nothing),
    ("cofferdam:host/cache@0.1.0", Needs::Nothing),
    ("cofferdam:backend/types@0.1.0", Needs::Nothing),
    ("cofferdam:backend/linting@0.1.0", Needs::Nothing),
    ("cofferdam:backend/testing@0.1.0", Needs::Nothing),
    ("cofferdam:backend/building@0.1.0", Needs::Nothing),
    ("cofferdam:backend/linters@0.1.0", Needs::Backends(BackendKind::Linter)),
    ("cofferdam:backend/test-runners@0.1.0", Needs::Backends(BackendKind::TestRunner)),
    ("cofferdam:backend/builders@0.1.0", Needs::Backends(BackendKind::Builder)),
];

/// What an import needs to be granted. Files need nothing: where none are granted, there is
/// no directory to begin with, and each path is decided on by itself. So is each agent, and only
/// calls of tools that say so get any. A cache that is not granted is always empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Scan,
    Programs,
    Backends(BackendKind),
    Http,
}

impl Needs {
    /// Whether it is granted, and how it would be.
    fn met_by(self, granted: &Capabilities) -> Result<(), String> {
        let (met, grant) = match self {
            Self::Nothing => return Ok(()),
            Self::Scan => (granted.scan, "scan = true".to_owned()),
            Self::Programs => {
                (!granted.process.is_empty(), "process = [\"PROGRAM\", ...]".to_owned())
            }
            Self::Backends(kind) => {
                (granted.backends.contains(&kind), format!("backends = [\"{kind}\"]"))
            }
            Self::Http => (!granted.http.is_empty(), "http = [\"https://HOST\", ...]".to_owned()),
        };
        if met { Ok(()) } else { Err(grant) }
    }
}

/// The packages that the host serves.
pub fn served() -> impl Iterator<Item = &'static str> {
    SERVED.iter().map(|(name, _)| *name)
}

/// A plugin that can't be loaded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// The component can't be read.
    #[error("{path}: {message}")]
    Io {
        /// Which file.
        path: String,
        /// Why.
        message: String,
    },
    /// The file of a plugin is not what the host has taken in any more.
    #[error(
        "the file of the plugin '{0}' was changed since this host took it in; if it is an installed one, `cofferdam plugin install {0}` gets what was accepted again"
    )]
    Changed(String),
    /// The component is not valid, or needs what the engine does not offer.
    #[error("the component can't be compiled: {0}")]
    Compile(String),
    /// Compiling the component reached a limit.
    #[error("the component is not compiled: that takes {bound}")]
    CompileLimit {
        /// The limit.
        code: LimitCode,
        /// What would have been too much.
        bound: String,
    },
    /// The compiler crashed.
    #[error("the component crashes the compiler: {0}")]
    CompilerCrashed(String),
    /// The compiler can't be used.
    #[error("the compiler of plugins: {0}")]
    Compiler(String),
    /// Whoever wanted the plugin does not any more.
    #[error("loading the plugin was cancelled")]
    Cancelled,
    /// The host has no file descriptor to load it with.
    #[error("{NO_DESCRIPTOR}")]
    Descriptors,
    /// The component imports what was not granted.
    #[error(
        "the plugin '{plugin}' imports {import}, which needs the grant {grant}; a person can grant it under [grants.{plugin}] in cofferdam.toml"
    )]
    NotGranted {
        /// The plugin.
        plugin: String,
        /// The import.
        import: String,
        /// What would have to be granted.
        grant: String,
    },
    /// The component imports what the host does not have.
    #[error("the plugin '{plugin}' imports {import}, which this host does not offer")]
    NotServed {
        /// The plugin.
        plugin: String,
        /// The import.
        import: String,
    },
    /// The component imports an interface of the host's, but not as the host has it.
    #[error("the plugin '{plugin}' imports what this host does not offer: {message}")]
    Mismatch {
        /// The plugin.
        plugin: String,
        /// Which import, and what is different.
        message: String,
    },
    /// The component does not fit its world.
    #[error(
        "the plugin '{plugin}' does not export what its manifest speaks of as it should: {message}"
    )]
    World {
        /// The plugin.
        plugin: String,
        /// What does not fit.
        message: String,
    },
}

/// Loads plugins and runs their calls.
pub struct Runtime {
    lanes: Arc<[Lane]>,
    cache: Option<Arc<CodeCache>>,
    compiler: Option<Compiler>,
    prepared: Mutex<HashMap<PathBuf, Arc<Slot>>>,
}

/// One plugin's place: filled by the first call, which the others wait for.
#[derive(Default)]
struct Slot {
    loaded: OnceLock<Result<Arc<Prepared>, LoadError>>,
    /// Held by whoever loads it.
    loading: Mutex<()>,
}

/// An engine and what its plugins are linked with. Each thread has its own lane, as far as there
/// are enough: the bookkeeping of one engine's pool is shared memory that every call writes, and
/// two threads on one engine were often hardly faster than one.
struct Lane {
    engine: Engine,
    linker: Linker<CallState>,
}

/// How many lanes there are at most; more threads share them.
const MAX_LANES: usize = 8;

/// A plugin, loaded, checked and linked, once in each lane.
pub struct Prepared {
    lanes: Vec<LaneOfPlugin>,
}

/// A plugin in one lane: what it exports, as far as its manifest speaks of it.
struct LaneOfPlugin {
    engine: Engine,
    tools: Option<Tools>,
    linter: Option<LinterBackendPre<CallState>>,
    test_runner: Option<TestBackendPre<CallState>>,
    builder: Option<BuildBackendPre<CallState>>,
}

impl LaneOfPlugin {
    /// # Errors
    /// An export that is missing or of another type.
    fn new(
        engine: &Engine,
        pre: &InstancePre<CallState>,
        manifest: &Manifest,
    ) -> wasmtime::Result<Self> {
        let has = |kind| manifest.backends.iter().any(|backend| backend.kind == kind);
        let tools = !manifest.tools.is_empty();
        Ok(Self {
            engine: engine.clone(),
            tools: tools.then(|| Tools::new(pre, manifest)).transpose()?,
            linter: has(BackendKind::Linter)
                .then(|| LinterBackendPre::new(pre.clone()))
                .transpose()?,
            test_runner: has(BackendKind::TestRunner)
                .then(|| TestBackendPre::new(pre.clone()))
                .transpose()?,
            builder: has(BackendKind::Builder)
                .then(|| BuildBackendPre::new(pre.clone()))
                .transpose()?,
        })
    }

    fn tools(&self) -> wasmtime::Result<&Tools> {
        self.tools.as_ref().ok_or_else(|| wasmtime::Error::msg("the plugin has no tools"))
    }

    fn linter(&self) -> wasmtime::Result<&LinterBackendPre<CallState>> {
        self.linter.as_ref().ok_or_else(|| wasmtime::Error::msg("the plugin has no linters"))
    }

    fn test_runner(&self) -> wasmtime::Result<&TestBackendPre<CallState>> {
        let missing = || wasmtime::Error::msg("the plugin has no test runners");
        self.test_runner.as_ref().ok_or_else(missing)
    }

    fn builder(&self) -> wasmtime::Result<&BuildBackendPre<CallState>> {
        self.builder.as_ref().ok_or_else(|| wasmtime::Error::msg("the plugin has no builders"))
    }
}

impl Prepared {
    /// The plugin in this thread's lane.
    fn lane(&self) -> &LaneOfPlugin {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        &self.lanes[THREAD.with(|thread| thread % self.lanes.len())]
    }
}

/// The runtime can't be set up on this machine.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine can't be set up: {0}")]
pub struct RuntimeError(String);

impl From<wasmtime::Error> for RuntimeError {
    fn from(error: wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl Runtime {
    /// A runtime that runs up to `workers` calls at a time and keeps the compiled code of
    /// plugins that did not come with the host in `cache`.
    ///
    /// # Errors
    /// A machine that the engine does not support, or without the address space for its pool.
    pub fn new(workers: usize, cache: Option<CodeCache>) -> Result<Self, RuntimeError> {
        let count = workers.clamp(1, MAX_LANES);
        let clock = Clock::start().map_err(|error| RuntimeError(error.to_string()))?;
        let memory = Memory::for_calls(workers);
        let lane = |_| {
            let engine = Engine::new(workers.div_ceil(count), &clock)?.sharing(&memory);
            let mut linker = Linker::new(&engine);
            capability::add_to_linker(&mut linker)?;
            Ok(Lane { engine, linker })
        };
        let lanes = (0..count).map(lane).collect::<wasmtime::Result<_>>()?;
        let cache = cache.map(Arc::new);
        Ok(Self { lanes, cache, compiler: None, prepared: Mutex::default() })
    }

    /// A runtime with the same engines in which no plugin is loaded yet. What only this one has
    /// loaded is released with it.
    pub fn renewed(&self) -> Self {
        let (lanes, cache) = (Arc::clone(&self.lanes), self.cache.clone());
        Self { lanes, cache, compiler: self.compiler.clone(), prepared: Mutex::default() }
    }

    /// The same, which has plugins that did not come with the host compiled by `compiler`; with
    /// none, in this process, where nothing bounds what that takes.
    #[must_use]
    pub fn compiling_with(self, compiler: Option<Compiler>) -> Self {
        Self { compiler, ..self }
    }

    /// The plugin, ready to be called. Loaded at the first time, unless `is_cancelled`, which is
    /// asked while it is compiled.
    ///
    /// # Errors
    /// See [`LoadError`]; the same each time, but for what may pass.
    pub fn prepare(
        &self,
        plugin: &Plugin,
        granted: &Capabilities,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Arc<Prepared>, LoadError> {
        let slot = self.slot(plugin);
        let _loading = slot.loading.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = slot.loaded.get() {
            return loaded.clone();
        }
        match self.load(plugin, granted, is_cancelled) {
            Err(error) if lacks_descriptors(&error.to_string()) => Err(LoadError::Descriptors),
            // One call was cancelled, or the system was short of something.
            Err(error @ (LoadError::Cancelled | LoadError::Compiler(_) | LoadError::Io { .. })) => {
                Err(error)
            }
            loaded => slot.loaded.get_or_init(|| loaded.map(Arc::new)).clone(),
        }
    }

    /// The same if it has been loaded: this takes no time.
    pub fn prepared(&self, plugin: &Plugin) -> Option<Result<Arc<Prepared>, LoadError>> {
        self.slot(plugin).loaded.get().cloned()
    }

    fn slot(&self, plugin: &Plugin) -> Arc<Slot> {
        let mut prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(prepared.entry(plugin.component.clone()).or_default())
    }

    fn load(
        &self,
        plugin: &Plugin,
        granted: &Capabilities,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Prepared, LoadError> {
        if is_cancelled() {
            return Err(LoadError::Cancelled);
        }
        let components = self.components(plugin, is_cancelled)?;
        let name = &plugin.manifest.name;
        for (import, _) in components[0].component_type().imports(self.engine()) {
            check_import(name, import, granted, plugin.manifest.as_granted)?;
        }
        let world = |error: wasmtime::Error| LoadError::World {
            plugin: name.clone(),
            message: format!("{error:#}"),
        };
        let mismatch = |error: wasmtime::Error| LoadError::Mismatch {
            plugin: name.clone(),
            message: format!("{error:#}"),
        };
        let link = |(lane, component): (&Lane, &Component)| {
            let pre = sockets::link(&lane.linker, component, plugin.manifest.as_granted);
            let pre = pre.map_err(mismatch)?;
            LaneOfPlugin::new(&lane.engine, &pre, &plugin.manifest).map_err(world)
        };
        let lanes = self.lanes.iter().zip(&components).map(link).collect::<Result<_, _>>()?;
        Ok(Prepared { lanes })
    }

    /// The plugin's code, in each lane.
    #[expect(clippy::disallowed_methods, reason = "plugins are named by paths")]
    fn components(
        &self,
        plugin: &Plugin,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Component>, LoadError> {
        if let Some(compiled) = plugin.compiled.as_deref()
            && let Ok(components) = self.deserialize(compiled)
        {
            return Ok(components);
        }
        let bytes = fs::read(&plugin.component).map_err(|error| LoadError::Io {
            path: plugin.component.display().to_string(),
            message: error.to_string(),
        })?;
        if plugin.digest.is_some_and(|digest| digest != Digest::of(&bytes)) {
            return Err(LoadError::Changed(plugin.manifest.name.clone()));
        }
        let compiler = self.compiler.as_ref().filter(|_| !plugin.built_in);
        self.compiled(&bytes, compiler, is_cancelled)
    }

    /// The code of a component, in each lane: from the cache, or compiled now.
    fn compiled(
        &self,
        bytes: &[u8],
        compiler: Option<&Compiler>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Component>, LoadError> {
        let compile = || match compiler {
            Some(compiler) => compiler.compile(bytes, is_cancelled),
            None => self.compile(bytes),
        };
        let Some(cache) = &self.cache else {
            let code = compile()?;
            let load = |lane: &Lane| {
                // SAFETY: the code was compiled here and now, by this host or its compiler.
                unsafe { Component::deserialize(&lane.engine, &code) }
            };
            return self.lanes.iter().map(load).collect::<Result<_, _>>().map_err(compile_error);
        };
        let file = cache
            .get(bytes, &self.engine().settings(), || compile().map_err(NotCached::Load))
            .map_err(|error| match error {
                NotCached::Load(error) => error,
                NotCached::Io(error) => LoadError::Io {
                    path: "the cache of compiled code".to_owned(),
                    message: error.to_string(),
                },
            })?;
        self.deserialize(&file).map_err(compile_error)
    }

    fn deserialize(&self, file: &Path) -> wasmtime::Result<Vec<Component>> {
        let load = |lane: &Lane| {
            // SAFETY: the file is either one that came with the host, in the directory of its
            // binary and as trusted as that, or one that the cache has authenticated as written
            // by this user's host.
            unsafe { Component::deserialize_file(&lane.engine, file) }
        };
        self.lanes.iter().map(load).collect()
    }

    /// Where code is compiled: the lanes' engines have the same settings.
    fn engine(&self) -> &Engine {
        &self.lanes[0].engine
    }

    /// Whether a plugin that came with the host has compiled code that fits this machine.
    pub fn has_compiled_code(&self, plugin: &Plugin) -> bool {
        plugin.compiled.as_deref().is_some_and(|compiled| self.deserialize(compiled).is_ok())
    }

    /// Compiles a component for this machine.
    ///
    /// # Errors
    /// [`LoadError::Compile`].
    pub fn compile(&self, component: &[u8]) -> Result<Vec<u8>, LoadError> {
        self.engine().precompile_component(component).map_err(compile_error)
    }
}

/// What an import needs; `None`: the host does not serve it.
fn needs_of(import: &str) -> Option<Needs> {
    let served = SERVED.iter().find(|(name, _)| match name.strip_suffix('/') {
        Some(_) => import.starts_with(name),
        None => import == *name,
    });
    served.map(|(_, needs)| *needs)
}

/// Whether a plugin may import this. One that makes do with less than it requests (`as_granted`)
/// may import `wasi:http` whatever it is granted, since each request is decided on by itself, and
/// sockets, which it does not get.
fn check_import(
    plugin: &str,
    import: &str,
    granted: &Capabilities,
    as_granted: bool,
) -> Result<(), LoadError> {
    let (plugin, name) = (plugin.to_owned(), import.to_owned());
    match needs_of(import) {
        Some(Needs::Http) if as_granted => Ok(()),
        None if as_granted && sockets::is_import(import) => Ok(()),
        Some(needs) => needs.met_by(granted).map_err(|grant| LoadError::NotGranted {
            plugin,
            import: name,
            grant,
        }),
        None => Err(LoadError::NotServed { plugin, import: name }),
    }
}

enum NotCached {
    Load(LoadError),
    Io(io::Error),
}

impl From<io::Error> for NotCached {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn compile_error(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use cofferdam_core::policy::Files;

    #[test]
    #[expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "looks at the WIT files")]
    fn every_interface_of_the_wit_files_is_served_and_no_other() {
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/deps");
        let mut written = Vec::new();
        for package in ["backend", "host", "tool"] {
            let text =
                fs::read_to_string(wit.join(package).join(format!("{package}.wit"))).unwrap();
            let id = text.lines().find_map(|line| line.strip_prefix("package ")).unwrap();
            let (name, version) = id.trim_end_matches(';').split_once('@').unwrap();
            let interfaces = text.lines().filter_map(|line| line.strip_prefix("interface "));
            written.extend(interfaces.map(|interface| {
                let interface = interface.split([' ', '{']).next().unwrap_or_default();
                format!("{name}/{interface}@{version}")
            }));
        }
        // What plugins export is not served to them.
        written.retain(|interface| {
            !["/tools@", "/linter@", "/test-runner@", "/builder@"]
                .iter()
                .any(|exported| interface.contains(exported))
        });
        written.sort_unstable();
        let mut served: Vec<&str> =
            served().filter(|name| name.starts_with("cofferdam:")).collect();
        served.sort_unstable();
        assert_eq!(served, written);
        assert_eq!(fs::read_dir(wit).unwrap().count(), 3);
    }

    #[test]
    fn imports_need_their_grant() {
        let granted = |files, scan| Capabilities { files, scan, ..Capabilities::NONE };
        let programs = Capabilities {
            process: BTreeSet::from(["git".to_owned()]),
            backends: BTreeSet::from([BackendKind::Linter]),
            ..Capabilities::NONE
        };
        let origins = Capabilities {
            http: "https://a.example".parse().into_iter().collect(),
            ..Capabilities::NONE
        };
        for (import, granted, wanted) in [
            ("wasi:io/streams@0.2.6", Capabilities::NONE, None),
            ("wasi:filesystem/types@0.2.6", Capabilities::NONE, None),
            ("cofferdam:host/log@0.1.0", Capabilities::NONE, None),
            ("cofferdam:host/scan@0.1.0", granted(Files::Read, true), None),
            ("cofferdam:host/scan@0.1.0", granted(Files::Write, false), Some("scan = true")),
            ("cofferdam:host/files@0.1.0", granted(Files::Write, false), None),
            ("cofferdam:host/process@0.1.0", programs.clone(), None),
            ("cofferdam:host/process@0.1.0", granted(Files::Write, true), Some("process = [")),
            ("cofferdam:host/agents@0.1.0", Capabilities::NONE, None),
            ("cofferdam:host/cache@0.1.0", Capabilities::NONE, None),
            ("cofferdam:backend/linters@0.1.0", programs.clone(), None),
            ("cofferdam:backend/builders@0.1.0", programs, Some("backends = [\"builder\"]")),
            ("cofferdam:host/files@0.1.0", Capabilities::NONE, None),
            ("cofferdam:host/changes@0.1.0", granted(Files::Write, true), Some("does not offer")),
            ("cofferdam:host/scan@0.2.0", granted(Files::Write, true), Some("does not offer")),
            ("wasi:sockets/tcp@0.2.6", granted(Files::Write, true), Some("does not offer")),
            ("wasi:http/outgoing-handler@0.2.6", granted(Files::Write, true), Some("http = [")),
            ("wasi:http/types@0.2.6", origins.clone(), None),
            ("wasi:http/outgoing-handler@0.2.6", origins, None),
            ("env", granted(Files::Write, true), Some("does not offer")),
        ] {
            let error =
                check_import("p", import, &granted, false).err().map(|error| error.to_string());
            match wanted {
                None => assert_eq!(error, None, "{import}"),
                Some(wanted) => {
                    let error = error.unwrap_or_default();
                    assert!(error.contains(wanted) && error.contains(import), "{import}: {error}");
                }
            }
        }
    }
}
