//! The WebAssembly engine and the instances that run in it. Only this module and
//! [`crate::capability`] use wasmtime.
//!
//! A plugin is prepared once: its compiled code is loaded from disk or compiled, its imports are
//! checked against its grants, and it is linked. Each call gets a fresh instance, which is dropped
//! afterwards.

mod act;
mod backends;
mod check;
mod clock;
mod compile;
mod concurrent;
mod engine;
mod image;
mod imports;
mod instance;
mod prepared;
mod queue;
mod refused;
mod typed;
mod value;
mod workers;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use wasmtime::component::{Component, Linker};

use crate::capability::{self, CallState};
use cofferdam_core::outcome::{LimitCode, NO_DESCRIPTOR, lacks_descriptors};
use cofferdam_core::policy::Capabilities;
use cofferdam_plugin::cache::CodeCache;
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::registry::Plugin;
use cofferdam_plugin::typed::Generation;

pub use crate::capability::wit::backend::linting;
pub use crate::capability::wit::tool::types::{ErrorKind, ToolError};
pub use backends::{BackendError, BackendRunner, Entry as BackendEntry};
pub use clock::Clock;
pub use compile::Compiler;
pub(crate) use compile::compile_if_asked;
pub use engine::Engine;
pub(crate) use engine::THREAD_STACK;
pub use image::initialized;
pub use imports::served;
pub use instance::{Answer, CallRequest, SpentInstance, call};
pub use prepared::Prepared;
pub use workers::{Workers, blocking};

use imports::check_import;
use prepared::LaneOfPlugin;

/// The reason why a plugin can't be loaded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    /// The component can't be read.
    #[error("{path}: {message}")]
    Io {
        /// The path of the component.
        path: String,
        /// The I/O error as text.
        message: String,
    },
    /// The file of a plugin has changed since the host loaded its manifest.
    #[error(
        "the file of the plugin '{0}' was changed since this host took it in; if it is an installed one, `cofferdam plugin install {0}` gets what was accepted again"
    )]
    Changed(String),
    /// The component is not valid, or needs features that the engine does not have.
    #[error("the component can't be compiled: {0}")]
    Compile(String),
    /// Compiling the component exceeded a limit.
    #[error("the component is not compiled: that takes {bound}")]
    CompileLimit {
        /// The code of the exceeded limit.
        code: LimitCode,
        /// The limit and its value, in words.
        bound: String,
    },
    /// The compiler crashed while compiling the component.
    #[error("the component crashes the compiler: {0}")]
    CompilerCrashed(String),
    /// The compiler can't be used.
    #[error("the compiler of plugins: {0}")]
    Compiler(String),
    /// The call was cancelled.
    #[error("loading the plugin was cancelled")]
    Cancelled,
    /// The host ran out of file descriptors.
    #[error("{NO_DESCRIPTOR}")]
    Descriptors,
    /// The component imports an interface that was not granted.
    #[error(
        "the plugin '{plugin}' imports {import}, which needs the grant {grant}; a person can grant it under [grants.{plugin}] in cofferdam.toml"
    )]
    NotGranted {
        /// The name of the plugin.
        plugin: String,
        /// The name of the imported interface.
        import: String,
        /// The missing grant, as a line for the settings.
        grant: String,
    },
    /// The component imports an interface that the host does not have.
    #[error("the plugin '{plugin}' imports {import}, which this host does not offer{}", skew(plugin, *offered))]
    NotServed {
        /// The name of the plugin.
        plugin: String,
        /// The name of the imported interface.
        import: String,
        /// The version of the interface that the host has.
        offered: Option<&'static str>,
    },
    /// The component imports an interface of the host with a different type.
    #[error(
        "the plugin '{plugin}' imports what this host does not offer: {message}; {}",
        rebuild(plugin)
    )]
    Mismatch {
        /// The name of the plugin.
        plugin: String,
        /// The interface, and the difference.
        message: String,
    },
    /// The component does not have the exports that its manifest declares.
    #[error(
        "the plugin '{plugin}' does not export what its manifest speaks of as it should: {message}"
    )]
    World {
        /// The name of the plugin.
        plugin: String,
        /// A description of the difference.
        message: String,
    },
}

/// The cure for an interface of another version.
fn skew(plugin: &str, offered: Option<&str>) -> String {
    offered.map_or_else(String::new, |name| format!("; it offers {name}: {}", rebuild(plugin)))
}

/// How a user and the author of a plugin make it fit the interfaces of this host.
fn rebuild(plugin: &str) -> String {
    format!(
        "look for another version of the plugin (`cofferdam plugin update {plugin}`) or of this \
         host; {REBUILD}"
    )
}

/// How the author of a plugin makes it fit the interfaces of this host.
const REBUILD: &str = "its author makes the bindings from the WIT files of this version \
                       (`cofferdam plugin new` writes them), and builds it anew";

/// Loads plugins, each at its first call.
pub struct Runtime {
    lanes: Arc<[Lane]>,
    /// The lane of components for WASI 0.3, made when the first of them is loaded.
    concurrent: Arc<OnceLock<Result<Lane, LoadError>>>,
    workers: usize,
    cache: Option<Arc<CodeCache>>,
    compiler: Option<Compiler>,
    prepared: Mutex<HashMap<PathBuf, Arc<Slot>>>,
}

/// A plugin that is loaded by its first call while other calls wait.
#[derive(Default)]
struct Slot {
    loaded: OnceLock<Result<Arc<Prepared>, LoadError>>,
    /// Locked while the plugin is loaded.
    loading: Mutex<()>,
}

/// An engine, and the linker of its plugins. Threads are distributed over several lanes, since
/// every call writes to the shared state of its engine's pool: two threads on one engine were often
/// hardly faster than one.
struct Lane {
    engine: Engine,
    linker: Linker<CallState>,
}

/// A plugin's code in each lane of its generation.
struct Loaded<'a> {
    lanes: &'a [Lane],
    components: Vec<Component>,
}

/// The maximum number of lanes of components for WASI 0.2.
const MAX_LANES: usize = 8;

/// The interface by which a linter says that it can serve parts of requests.
const PARTS: &str = "cofferdam:backend/parts@0.1.0";

/// The engine can't be created on this machine.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine can't be set up: {0}")]
pub struct RuntimeError(String);

impl From<wasmtime::Error> for RuntimeError {
    fn from(error: wasmtime::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

impl Runtime {
    /// A runtime for up to `workers` concurrent calls, which keeps compiled code of plugins that
    /// are not built in in `cache`.
    ///
    /// # Errors
    /// The machine is not supported, or lacks the address space for the pool.
    pub fn new(workers: usize, cache: Option<CodeCache>) -> Result<Self, RuntimeError> {
        let count = workers.clamp(1, MAX_LANES);
        let clock = Clock::start().map_err(|error| RuntimeError(error.to_string()))?;
        let memory = capability::Memory::for_calls(workers);
        let lane = |_| {
            let engine = Engine::new(workers.div_ceil(count), &clock)?.sharing(&memory);
            let mut linker = Linker::new(&engine);
            capability::add_to_linker(&mut linker)?;
            Ok(Lane { engine, linker })
        };
        let lanes = (0..count).map(lane).collect::<wasmtime::Result<_>>()?;
        let cache = cache.map(Arc::new);
        let (concurrent, compiler) = (Arc::default(), None);
        Ok(Self { lanes, concurrent, workers, cache, compiler, prepared: Mutex::default() })
    }

    /// A runtime with the same engines in which no plugin is loaded. Plugins that only this runtime
    /// has loaded are released with it.
    pub fn renewed(&self) -> Self {
        Self {
            lanes: Arc::clone(&self.lanes),
            concurrent: Arc::clone(&self.concurrent),
            workers: self.workers,
            cache: self.cache.clone(),
            compiler: self.compiler.clone(),
            prepared: Mutex::default(),
        }
    }

    /// Compiles plugins that are not built in with `compiler`. Without one, they are compiled in
    /// this process, without limits of time and memory.
    #[must_use]
    pub fn compiling_with(self, compiler: Option<Compiler>) -> Self {
        Self { compiler, ..self }
    }

    /// Returns a plugin that is ready to be called. The first call loads it. `is_cancelled` is
    /// polled while the plugin is compiled.
    ///
    /// # Errors
    /// See [`LoadError`]. Permanent errors are remembered.
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
            // These errors may be temporary: the next call tries again.
            Err(error @ (LoadError::Cancelled | LoadError::Compiler(_) | LoadError::Io { .. })) => {
                Err(error)
            }
            loaded => slot.loaded.get_or_init(|| loaded.map(Arc::new)).clone(),
        }
    }

    /// Returns the plugin if it has been loaded. Does not wait.
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
        link(&self.components(plugin, is_cancelled)?, &plugin.manifest, granted)
    }

    /// Prepares a component of ACT whose tools are not known yet, so that a call returns them. It is
    /// granted nothing.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn prepare_unlisted(
        &self,
        component: &[u8],
        manifest: &Manifest,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Arc<Prepared>, LoadError> {
        let loaded = self.compiled(component, self.compiler.as_ref(), is_cancelled)?;
        link(&loaded, manifest, &Capabilities::NONE).map(Arc::new)
    }

    /// Loads the plugin's code into each lane.
    #[expect(clippy::disallowed_methods, reason = "plugins are named by paths")]
    fn components(
        &self,
        plugin: &Plugin,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Loaded<'_>, LoadError> {
        if let Some(compiled) = plugin.compiled.as_deref()
            && let Ok(components) = deserialize(&self.lanes, compiled)
        {
            return Ok(Loaded { lanes: &self.lanes, components });
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

    /// Loads the code of a component into each lane, from the cache or by compiling it.
    fn compiled(
        &self,
        bytes: &[u8],
        compiler: Option<&Compiler>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Loaded<'_>, LoadError> {
        let lanes = self.lanes_of(Generation::of(bytes))?;
        let compile = || match compiler {
            Some(compiler) => compiler.compile(bytes, is_cancelled),
            None => self.compile(bytes),
        };
        let loaded = |components: wasmtime::Result<Vec<Component>>| {
            components.map(|components| Loaded { lanes, components }).map_err(compile_error)
        };
        let Some(cache) = &self.cache else {
            let code = compile()?;
            let load = |lane: &Lane| {
                // SAFETY: the code was just compiled by this host or its compiler.
                unsafe { Component::deserialize(&lane.engine, &code) }
            };
            return loaded(lanes.iter().map(load).collect());
        };
        let file = cache
            .get(bytes, &lanes[0].engine.settings(), || compile().map_err(NotCached::Load))
            .map_err(|error| match error {
                NotCached::Load(error) => error,
                NotCached::Io(error) => LoadError::Io {
                    path: "the cache of compiled code".to_owned(),
                    message: error.to_string(),
                },
            })?;
        loaded(deserialize(lanes, &file))
    }

    /// The lanes of the components of a generation; all of them have the same settings.
    ///
    /// # Errors
    /// The engine for WASI 0.3 can't be created.
    fn lanes_of(&self, generation: Generation) -> Result<&[Lane], LoadError> {
        if generation == Generation::Wasi02 {
            return Ok(&self.lanes);
        }
        let make = || {
            let engine = self.lanes[0].engine.concurrent(self.workers)?;
            let mut linker = Linker::new(&engine);
            capability::add_to_linker(&mut linker)?;
            capability::add_wasi03_to_linker(&mut linker)?;
            Ok(Lane { engine, linker })
        };
        let lane = self.concurrent.get_or_init(|| make().map_err(compile_error));
        lane.as_ref().map(slice::from_ref).map_err(Clone::clone)
    }

    /// How many instances run side by side without sharing an engine.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Whether a built-in plugin has compiled code that fits this machine.
    pub fn has_compiled_code(&self, plugin: &Plugin) -> bool {
        plugin
            .compiled
            .as_deref()
            .is_some_and(|compiled| deserialize(&self.lanes, compiled).is_ok())
    }

    /// Compiles a component for this machine.
    ///
    /// # Errors
    /// [`LoadError::Compile`].
    pub fn compile(&self, component: &[u8]) -> Result<Vec<u8>, LoadError> {
        let lanes = self.lanes_of(Generation::of(component))?;
        lanes[0].engine.precompile_component(component).map_err(compile_error)
    }
}

/// Checks the imports of a plugin against its grants, and links it in each lane.
fn link(
    loaded: &Loaded<'_>,
    manifest: &Manifest,
    granted: &Capabilities,
) -> Result<Prepared, LoadError> {
    let Loaded { lanes, components } = loaded;
    let name = &manifest.name;
    let (mut is_divisible, mut refused) = (false, Vec::new());
    for (import, _) in components[0].component_type().imports(&lanes[0].engine) {
        let refusal = check_import(manifest, import, granted)?;
        refused.extend(refusal.map(|refusal| (import.to_owned(), refusal)));
        is_divisible |= import == PARTS;
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
        let pre = refused::link(&lane.linker, component, &refused).map_err(mismatch)?;
        LaneOfPlugin::new(&lane.engine, &pre, manifest).map_err(world)
    };
    let lanes = lanes.iter().zip(components).map(link).collect::<Result<_, _>>()?;
    Ok(Prepared { lanes, is_divisible })
}

/// Loads compiled code into lanes.
fn deserialize(lanes: &[Lane], file: &Path) -> wasmtime::Result<Vec<Component>> {
    let load = |lane: &Lane| {
        // SAFETY: the file is either part of the host's installation, in the directory of its binary
        // and as trusted as that, or the cache has authenticated it as written by this user's host.
        unsafe { Component::deserialize_file(&lane.engine, file) }
    };
    lanes.iter().map(load).collect()
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
