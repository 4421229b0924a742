//! The registry of plugins, which resolves the names of tools.
#![expect(clippy::disallowed_methods, reason = "plugins are named by paths")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::digest::Digest;
use super::lock::packages;
use super::manifest::{Backend, Manifest, Tool};
use super::pack::{self, PackError};
use super::store::Pinned;
use cofferdam_core::name::ToolName;
use cofferdam_core::policy::{BackendKind, Role, Subject};
use cofferdam_core::schema::{Schema, nearest};

/// The largest size of a component in bytes. Compiling needs a multiple of it as memory.
pub const MAX_COMPONENT_BYTES: u64 = 64 << 20;

/// Replaces the dot of a qualified name for clients that allow letters, digits, `_` and `-`.
const EXPORTED_DOT: &str = "__";

/// A packed component with its manifest.
#[derive(Debug)]
pub struct Plugin {
    /// The manifest in the component.
    pub manifest: Manifest,
    /// The path of the packed component.
    pub component: PathBuf,
    /// Its compiled code, for built-in plugins.
    pub compiled: Option<PathBuf>,
    /// Whether it came with the host.
    pub built_in: bool,
    /// The digest that its file must have whenever it is read; `None` for built-in plugins.
    pub digest: Option<Digest>,
}

/// A tool of a plugin, with its schemas.
pub struct ToolEntry {
    /// The plugin of the tool.
    pub plugin: Arc<Plugin>,
    index: usize,
    input: OnceLock<Schema>,
    output: OnceLock<Schema>,
}

impl ToolEntry {
    /// The tool's entry in the manifest.
    pub fn tool(&self) -> &Tool {
        &self.plugin.manifest.tools[self.index]
    }

    /// The qualified name of the tool.
    pub fn qualified_name(&self) -> ToolName {
        ToolName::new(&self.plugin.manifest.name, &self.tool().name)
    }

    /// The qualified name with characters that every client accepts.
    pub fn exported_name(&self) -> String {
        format!("{}{EXPORTED_DOT}{}", self.plugin.manifest.name, self.tool().name)
    }

    /// The input of a policy decision.
    pub fn subject(&self) -> Subject<'_> {
        let manifest = &self.plugin.manifest;
        Subject {
            plugin: &manifest.name,
            built_in: self.plugin.built_in,
            requests: &manifest.requests,
            as_granted: manifest.as_granted,
            limits: manifest.limits,
            tool: &self.tool().name,
            effects: self.tool().effects,
            asks_agents: self.tool().agents,
        }
    }

    /// The schema of the arguments, compiled at the first use.
    ///
    /// # Errors
    /// [`RegistryError::Schema`] if the schema is invalid.
    pub fn input(&self) -> Result<&Schema, RegistryError> {
        self.compiled(&self.input, &self.tool().input)
    }

    /// The schema of the answer, compiled at the first use.
    ///
    /// # Errors
    /// [`RegistryError::Schema`] if the schema is invalid.
    pub fn output(&self) -> Result<&Schema, RegistryError> {
        self.compiled(&self.output, &self.tool().output)
    }

    fn compiled<'a>(
        &self,
        cell: &'a OnceLock<Schema>,
        document: &serde_json::Value,
    ) -> Result<&'a Schema, RegistryError> {
        if let Some(schema) = cell.get() {
            return Ok(schema);
        }
        let schema = Schema::compile(document.clone())
            .map_err(|error| RegistryError::Schema(self.qualified_name(), error.to_string()))?;
        Ok(cell.get_or_init(|| schema))
    }
}

/// A plugin could not be added.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The folder or file can't be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the folder or file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// It is not a packed component.
    #[error("{}: {source}", path.display())]
    Pack {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the component.
        source: PackError,
    },
    /// It is larger than 64 MiB.
    #[error("{}: {size} bytes; a component may have at most {MAX_COMPONENT_BYTES}", path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
        /// The size of the file in bytes.
        size: u64,
    },
    /// Two plugins have the same name.
    #[error("{}: there is a plugin '{name}' already", path.display())]
    Duplicate {
        /// The name of both plugins.
        name: String,
        /// The path of the second one.
        path: PathBuf,
    },
    /// The file of an installed plugin was changed after it was accepted.
    #[error("{}: the file of the plugin '{name}' was changed: it is {found}, and {accepted} was accepted; `cofferdam plugin install {name}` gets that again", path.display())]
    Changed {
        /// The name of the plugin.
        name: String,
        /// The path of the file.
        path: PathBuf,
        /// The digest of the file.
        found: Digest,
        /// The digest that was accepted.
        accepted: Digest,
    },
    /// The lock's entry does not match the plugin.
    #[error(
        "cofferdam.lock is wrong about the plugin '{name}': {mismatch}; `cofferdam plugin install {name}` writes it anew"
    )]
    LockMismatch {
        /// The name of the plugin.
        name: String,
        /// The difference in words.
        mismatch: String,
    },
    /// A tool's schema is not a JSON Schema.
    #[error("the tool '{0}': {1}")]
    Schema(ToolName, String),
}

/// A name could not be resolved to a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// No tool has the name; the nearest name of the role, if any is similar.
    Unknown(Option<String>),
    /// Several plugins have such a tool: its qualified names.
    Ambiguous(Vec<ToolName>),
}

/// All plugins and their tools.
#[derive(Default)]
pub struct Registry {
    plugins: Vec<Arc<Plugin>>,
    tools: BTreeMap<ToolName, Arc<ToolEntry>>,
}

impl Registry {
    /// Adds every packed component of a folder as a built-in plugin, in the order of file names.
    ///
    /// # Errors
    /// Returns an error if the folder or a plugin can't be read.
    pub fn add_built_in(&mut self, folder: &Path) -> Result<(), RegistryError> {
        let io = |source| RegistryError::Io { path: folder.to_owned(), source };
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.extension().is_some_and(|extension| extension == "wasm") {
                files.push(path);
            }
        }
        files.sort();
        files.iter().try_for_each(|file| self.add(file, true))
    }

    /// Adds one packed component that is not built in.
    ///
    /// # Errors
    /// Returns an error if the file is not a packed component, is too large, or has the name of
    /// another plugin.
    pub fn add_file(&mut self, file: &Path) -> Result<(), RegistryError> {
        self.add(file, false)
    }

    /// Adds an installed plugin if its file is the accepted one and the lock's entry matches it.
    /// Its code is not compiled here. One with the name of a built-in plugin is left out, with a warning.
    ///
    /// # Errors
    /// Those of [`add_file`](Self::add_file); [`RegistryError::Changed`];
    /// [`RegistryError::LockMismatch`].
    pub fn add_pinned(&mut self, pinned: &Pinned) -> Result<(), RegistryError> {
        let Pinned { name, path, locked } = pinned;
        if self.plugins.iter().any(|plugin| plugin.built_in && plugin.manifest.name == *name) {
            // It was installed before there was a built-in plugin of this name.
            tracing::warn!(
                "the installed plugin '{name}' is left out, and so is its grant: Cofferdam has a plugin \
                 of this name by now, to which [grants.{name}] of your settings applies; `cofferdam plugin \
                 remove {name}` and `{} --as NAME` install it under another name",
                locked.source.install_command()
            );
            return Ok(());
        }
        let io = |source| RegistryError::Io { path: path.clone(), source };
        let pack = |source| RegistryError::Pack { path: path.clone(), source };
        let mismatch = |mismatch| RegistryError::LockMismatch { name: name.clone(), mismatch };
        let size = fs::metadata(path).map_err(io)?.len();
        if size > MAX_COMPONENT_BYTES {
            return Err(RegistryError::TooLarge { path: path.clone(), size });
        }
        let bytes = fs::read(path).map_err(io)?;
        let (found, accepted) = (Digest::of(&bytes), locked.digest);
        if found != accepted {
            let (name, path) = (name.clone(), path.clone());
            return Err(RegistryError::Changed { name, path, found, accepted });
        }
        let own = locked.own_name(name);
        let mut manifest = pack::manifest(&bytes, own, Some(path)).map_err(pack)?;
        if manifest.name != own {
            return Err(mismatch(format!("its name is '{}'", manifest.name)));
        }
        name.clone_into(&mut manifest.name);
        let wit = packages(&pack::imports(&bytes).map_err(pack)?);
        if let Some(wrong) = locked.mismatch(&manifest, &wit) {
            return Err(mismatch(wrong));
        }
        self.take_in(manifest, path, false, Some(found))
    }

    fn add(&mut self, file: &Path, built_in: bool) -> Result<(), RegistryError> {
        let io = |source| RegistryError::Io { path: file.to_owned(), source };
        let size = fs::metadata(file).map_err(io)?.len();
        if size > MAX_COMPONENT_BYTES {
            return Err(RegistryError::TooLarge { path: file.to_owned(), size });
        }
        let leading = if built_in { pack::leading_manifest(file) } else { Ok(None) };
        let mut digest = None;
        let manifest = match leading {
            Ok(Some(manifest)) => Ok(manifest),
            Ok(None) => {
                let bytes = fs::read(file).map_err(io)?;
                digest = (!built_in).then(|| Digest::of(&bytes));
                pack::manifest(&bytes, &pack::called(file), Some(file))
            }
            Err(error) => Err(error),
        };
        let manifest =
            manifest.map_err(|source| RegistryError::Pack { path: file.to_owned(), source })?;
        self.take_in(manifest, file, built_in, digest)
    }

    fn take_in(
        &mut self,
        manifest: Manifest,
        file: &Path,
        built_in: bool,
        digest: Option<Digest>,
    ) -> Result<(), RegistryError> {
        if self.plugins.iter().any(|plugin| plugin.manifest.name == manifest.name) {
            return Err(RegistryError::Duplicate { name: manifest.name, path: file.to_owned() });
        }
        let compiled = built_in.then(|| file.with_extension("cwasm"));
        let component = file.to_owned();
        let plugin = Arc::new(Plugin { manifest, component, compiled, built_in, digest });
        for index in 0..plugin.manifest.tools.len() {
            let entry = ToolEntry {
                plugin: Arc::clone(&plugin),
                index,
                input: OnceLock::new(),
                output: OnceLock::new(),
            };
            self.tools.insert(entry.qualified_name(), Arc::new(entry));
        }
        self.plugins.push(plugin);
        Ok(())
    }

    /// All plugins, built-in ones first.
    pub fn plugins(&self) -> &[Arc<Plugin>] {
        &self.plugins
    }

    /// All tools of a role, by qualified name.
    pub fn tools(&self, role: Option<&Role>) -> impl Iterator<Item = &Arc<ToolEntry>> {
        self.tools.values().filter(move |entry| {
            let (plugin, tool) = (&entry.plugin, entry.tool());
            role.is_none_or(|role| role.allows(&plugin.manifest.name, &tool.name, plugin.built_in))
        })
    }

    /// The backends of one kind, by plugin.
    pub fn backends(&self, kind: BackendKind) -> impl Iterator<Item = &Backend> {
        let all = self.plugins.iter().flat_map(|plugin| &plugin.manifest.backends);
        all.filter(move |backend| backend.kind == kind)
    }

    /// The names of the linters for a language.
    pub fn linters(&self, language: &str) -> impl Iterator<Item = &str> {
        let speaks = move |backend: &&Backend| backend.languages.iter().any(|own| own == language);
        self.backends(BackendKind::Linter).filter(speaks).map(|backend| backend.name.as_str())
    }

    /// All tools as pairs of plugin and short name.
    pub fn names(&self) -> Vec<(&str, &str)> {
        self.tools
            .values()
            .map(|entry| (entry.plugin.manifest.name.as_str(), entry.tool().name.as_str()))
            .collect()
    }

    /// Resolves the name of a tool: a qualified name, the role's own name, a short name that only
    /// one tool of the role has, or one that only one tool of all plugins has, without plugins
    /// whose tools need qualified names.
    ///
    /// # Errors
    /// Those of [`Unresolved`].
    pub fn resolve(&self, name: &str, role: Option<&Role>) -> Result<&Arc<ToolEntry>, Unresolved> {
        let qualified = role.and_then(|role| role.qualified(name)).map_or(name, |name| name);
        let exported = qualified.replacen(EXPORTED_DOT, ".", 1);
        if let Some(entry) = self.tools.get(qualified).or_else(|| self.tools.get(exported.as_str()))
        {
            return Ok(entry);
        }
        let of_that_name = |role| -> Vec<&Arc<ToolEntry>> {
            self.tools(role).filter(|entry| entry.tool().name == name).collect()
        };
        if role.is_some()
            && let [entry] = of_that_name(role).as_slice()
        {
            return Ok(entry);
        }
        let mut found = of_that_name(None);
        found.retain(|entry| !entry.plugin.manifest.qualified);
        match found.as_slice() {
            [entry] => Ok(entry),
            [] => {
                let open = self.tools(role);
                let open = open.filter(|entry| role.is_some() || !entry.plugin.manifest.qualified);
                let short = open.map(|entry| entry.tool().name.as_str());
                let names: Vec<ToolName> =
                    self.tools(role).map(|entry| entry.qualified_name()).collect();
                let names = names.iter().map(|name| &**name).chain(short);
                Err(Unresolved::Unknown(nearest(name, names)))
            }
            several => Err(Unresolved::Ambiguous(
                several.iter().map(|entry| entry.qualified_name()).collect(),
            )),
        }
    }
}
