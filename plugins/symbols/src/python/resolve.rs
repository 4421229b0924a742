//! Resolves chains of names across the files of the workspace.
//!
//! Uses static information: imports, definitions, annotations, single assignments. Everything that
//! depends on running the program is unknown.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::facts::{Binding, Definition, Import, Model, Scope, Step};
use crate::language::Language;
use crate::outline::{Kind, Symbol};
use crate::project::Files;
use crate::text::decode;

/// The maximum number of steps from a name to its value.
const MAX_STEPS: usize = 40;

/// Directories that may contain a project's packages.
const ROOTS: [&str; 4] = ["src", "lib", "python", "app"];

/// The place of a class or a function.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The path of the file.
    pub file: String,
    /// The index in [`Model::definitions`].
    pub definition: usize,
}

impl Place {
    /// The site of the names in this definition.
    pub fn inside(&self) -> Site<'_> {
        Site { file: &self.file, around: Some(self.definition) }
    }
}

/// The site of a name: where it occurs, which determines the scopes that it is resolved in.
#[derive(Debug, Clone, Copy)]
pub struct Site<'f> {
    /// The path of the file.
    pub file: &'f str,
    /// The enclosing definition, as an index in [`Model::definitions`]; `None` for the module's
    /// top level.
    pub around: Option<usize>,
}

impl<'f> Site<'f> {
    /// The top level of a module.
    pub fn module(file: &'f str) -> Self {
        Self { file, around: None }
    }
}

/// The value of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A module: the path of its file.
    Module(String),
    /// A package without a file of its own: the path of its directory.
    Directory(String),
    /// A class in the workspace.
    Class(Place),
    /// An instance of a class in the workspace.
    Instance(Place),
    /// A function or method in the workspace.
    Function(Place),
    /// A name outside of the workspace.
    External(String),
    /// The value is not known.
    Unknown,
}

/// The search for a member in a class and its bases.
struct MemberSearch<'n> {
    /// The name of the member.
    name: &'n str,
    /// The classes searched so far.
    seen: HashSet<Place>,
    /// The first base class found that is outside of the workspace.
    external: Option<String>,
}

/// The modules of the workspace, read on demand.
pub struct Modules<'a> {
    files: &'a dyn Files,
    models: ModelCache,
    /// All Python files and the directories that contain some; listed on first use.
    paths: Option<Rc<Paths>>,
    exported: HashMap<(String, String), Value>,
}

/// The maximum size of the files whose models are cached, in bytes. A model takes about ten times
/// as much memory as its file; dropped ones are read again.
const MAX_CACHED_BYTES: usize = 8 << 20;

/// A cache of models in two generations: when the younger one is full, it replaces the older one.
#[derive(Default)]
struct ModelCache {
    young: HashMap<String, CachedModel>,
    old: HashMap<String, CachedModel>,
    /// The size of the younger generation's files, in bytes.
    bytes: usize,
}

/// The model of a file, `None` if it can't be read; and the file's size.
type CachedModel = (Option<Rc<Model>>, usize);

impl ModelCache {
    fn get(&mut self, file: &str) -> Option<Option<Rc<Model>>> {
        if let Some((model, _)) = self.young.get(file) {
            return Some(model.clone());
        }
        let (file, known) = self.old.remove_entry(file)?;
        let model = known.0.clone();
        self.add(file, known);
        Some(model)
    }

    fn add(&mut self, file: String, known: CachedModel) {
        if self.bytes + known.1 > MAX_CACHED_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += known.1;
        self.young.insert(file, known);
    }
}

#[derive(Default)]
struct Paths {
    files: HashSet<String>,
    directories: HashSet<String>,
}

impl<'a> Modules<'a> {
    /// Starts with an empty cache.
    pub fn new(files: &'a dyn Files) -> Self {
        Self { files, models: ModelCache::default(), paths: None, exported: HashMap::new() }
    }

    /// The model of a file; `None` if it can't be read.
    pub fn model(&mut self, file: &str) -> Option<Rc<Model>> {
        if let Some(known) = self.models.get(file) {
            return known;
        }
        let Some(contents) = self.files.read(file) else {
            self.models.add(file.to_owned(), (None, file.len()));
            return None;
        };
        Some(self.insert(file, &contents))
    }

    /// Adds a file that was already read; returns its model.
    pub fn insert(&mut self, file: &str, contents: &[u8]) -> Rc<Model> {
        let model = Rc::new(model(contents));
        self.models.add(file.to_owned(), (Some(Rc::clone(&model)), contents.len()));
        model
    }

    /// The symbol of a class or function.
    pub fn symbol(&mut self, place: &Place) -> Option<Symbol> {
        let model = self.model(&place.file)?;
        let definition = model.definitions.get(place.definition)?;
        model.outline.symbols.get(definition.symbol).cloned()
    }

    /// Calls a function with a definition and its model.
    pub fn definition<T>(
        &mut self,
        place: &Place,
        read: impl FnOnce(&Definition) -> T,
    ) -> Option<T> {
        self.model(&place.file)?.definitions.get(place.definition).map(read)
    }

    /// The value of a chain that occurs at a site.
    pub fn value(&mut self, site: Site<'_>, steps: &[Step]) -> Value {
        self.fold(site, steps, 0)
    }

    /// The value of a name in a module.
    pub fn exported(&mut self, file: &str, name: &str) -> Value {
        self.in_module(file, name, 0)
    }

    /// The function or class that a call of a value runs.
    pub fn called(&mut self, value: &Value) -> Value {
        match value {
            Value::Instance(class) => self.member(class, "__call__", false, 0),
            _ => value.clone(),
        }
    }

    /// The constructor of a class, if it is in the workspace.
    pub fn constructor(&mut self, class: &Place) -> Option<Place> {
        match self.member(class, "__init__", false, 0) {
            Value::Function(place) => Some(place),
            _ => None,
        }
    }

    /// A method of a class or of its bases.
    pub fn method(&mut self, class: &Place, name: &str) -> Option<Place> {
        match self.member(class, name, false, 0) {
            Value::Function(place) => Some(place),
            _ => None,
        }
    }

    fn fold(&mut self, site: Site<'_>, steps: &[Step], depth: usize) -> Value {
        if depth > MAX_STEPS {
            return Value::Unknown;
        }
        let Some((first, rest)) = steps.split_first() else {
            return Value::Unknown;
        };
        let (mut value, mut rest) = match first {
            Step::Name(name) if name == "super" && rest.first() == Some(&Step::Call) => {
                let Some(Step::Attribute(name)) = rest.get(1) else {
                    return Value::Unknown;
                };
                let Some(class) = self.class_around(site) else {
                    return Value::Unknown;
                };
                (self.member(&class, name, true, depth + 1), &rest[2..])
            }
            Step::Name(name) => (self.name(site, name, depth + 1), rest),
            Step::Literal(name) => (Value::External(format!("builtins.{name}")), rest),
            _ => return Value::Unknown,
        };
        while let Some((step, after)) = rest.split_first() {
            rest = after;
            value = match step {
                Step::Attribute(name) => self.attribute(&value, name, depth + 1),
                Step::Call => self.result(&value, depth + 1),
                Step::Index => match value {
                    Value::Class(_) | Value::External(_) => value,
                    _ => Value::Unknown,
                },
                Step::Name(_) | Step::Literal(_) => Value::Unknown,
            };
            if value == Value::Unknown {
                return value;
            }
        }
        value
    }

    fn class_around(&mut self, Site { file, around }: Site<'_>) -> Option<Place> {
        let model = self.model(file)?;
        let definition = model.outwards(around).find(|&at| model.definitions[at].is_class)?;
        Some(Place { file: file.to_owned(), definition })
    }

    fn name(&mut self, site: Site<'_>, name: &str, depth: usize) -> Value {
        let Site { file, around } = site;
        let Some(model) = self.model(file) else {
            return Value::Unknown;
        };
        if name == "Self"
            && let Some(class) = self.class_around(site)
        {
            return Value::Class(class);
        }
        for index in model.outwards(around) {
            let definition = &model.definitions[index];
            if let (Some(receiver), Some(class)) = (&definition.receiver, definition.parent)
                && receiver.name == name
            {
                let place = Place { file: file.to_owned(), definition: class };
                return if receiver.is_class {
                    Value::Class(place)
                } else {
                    Value::Instance(place)
                };
            }
            // The names of a class are not visible in its methods.
            if (!definition.is_class || around == Some(index))
                && let Some(value) = self.in_scope(
                    Site { file, around: Some(index) },
                    &definition.scope,
                    name,
                    depth,
                )
            {
                return value;
            }
        }
        match self.in_module(file, name, depth) {
            Value::Unknown if is_builtin(name) => Value::External(format!("builtins.{name}")),
            value => value,
        }
    }

    fn in_module(&mut self, file: &str, name: &str, depth: usize) -> Value {
        let key = (file.to_owned(), name.to_owned());
        if let Some(known) = self.exported.get(&key) {
            return known.clone();
        }
        if depth > MAX_STEPS {
            return Value::Unknown;
        }
        // A cyclic import is unknown.
        self.exported.insert(key.clone(), Value::Unknown);
        let value = self.look_in_module(file, name, depth);
        self.exported.insert(key, value.clone());
        value
    }

    fn look_in_module(&mut self, file: &str, name: &str, depth: usize) -> Value {
        let Some(model) = self.model(file) else {
            return Value::Unknown;
        };
        if let Some(value) = self.in_scope(Site::module(file), &model.scope, name, depth) {
            return value;
        }
        for star in &model.scope.stars {
            if let Some(Value::Module(other)) = self.find(file, star.level, &star.module)
                && let value @ (Value::Class(_)
                | Value::Function(_)
                | Value::Module(_)
                | Value::Instance(_)) = self.in_module(&other, name, depth + 1)
            {
                return value;
            }
        }
        let directory =
            file.strip_suffix("/__init__.py").or_else(|| file.strip_suffix("/__init__.pyi"));
        let below = directory.and_then(|directory| {
            self.module_at(directory, std::slice::from_ref(&name.to_owned()))
        });
        below.unwrap_or(Value::Unknown)
    }

    /// The value of a name in `scope`, the innermost one around the site. Outer scopes are not
    /// searched.
    fn in_scope(
        &mut self,
        site: Site<'_>,
        scope: &Scope,
        name: &str,
        depth: usize,
    ) -> Option<Value> {
        if let Some(&definition) = scope.definitions.get(name) {
            let place = Place { file: site.file.to_owned(), definition };
            let is_class = self.definition(&place, |definition| definition.is_class)?;
            return Some(if is_class { Value::Class(place) } else { Value::Function(place) });
        }
        if let Some(import) = scope.imports.get(name) {
            return Some(self.imported(site.file, import, depth + 1));
        }
        let binding = scope.bindings.get(name)?;
        // `client = client or Client()` and similar bindings give no information.
        let refers_to_itself = match binding {
            Binding::Value(steps) | Binding::Instance(steps) => {
                steps.first() == Some(&Step::Name(name.to_owned()))
            }
        };
        if refers_to_itself {
            return Some(Value::Unknown);
        }
        Some(self.bound(site, binding, depth + 1))
    }

    fn bound(&mut self, site: Site<'_>, binding: &Binding, depth: usize) -> Value {
        match binding {
            Binding::Value(steps) => self.fold(site, steps, depth),
            Binding::Instance(steps) => match self.fold(site, steps, depth) {
                Value::Class(place) => Value::Instance(place),
                Value::External(name) => Value::External(name),
                _ => Value::Unknown,
            },
        }
    }

    /// The value of an import.
    pub fn imported(&mut self, file: &str, import: &Import, depth: usize) -> Value {
        let dots = ".".repeat(import.level as usize);
        let module = self.find(file, import.level, &import.module);
        let Some(name) = &import.name else {
            return module.unwrap_or_else(|| Value::External(import.module.join(".")));
        };
        let written = || {
            let module = import.module.join(".");
            let dot = if module.is_empty() { "" } else { "." };
            Value::External(format!("{dots}{module}{dot}{name}"))
        };
        match module {
            Some(module) => match self.attribute(&module, name, depth + 1) {
                Value::Unknown if import.level == 0 && matches!(module, Value::Directory(_)) => {
                    written()
                }
                value => value,
            },
            None => written(),
        }
    }

    fn attribute(&mut self, value: &Value, name: &str, depth: usize) -> Value {
        if depth > MAX_STEPS {
            return Value::Unknown;
        }
        match value {
            Value::Module(file) => {
                let found = self.in_module(file, name, depth + 1);
                match (found, file.strip_suffix("/__init__.py")) {
                    (Value::Unknown, Some(directory)) => {
                        let module =
                            self.module_at(directory, std::slice::from_ref(&name.to_owned()));
                        module.unwrap_or(Value::Unknown)
                    }
                    (found, _) => found,
                }
            }
            Value::Directory(directory) => self
                .module_at(directory, std::slice::from_ref(&name.to_owned()))
                .unwrap_or(Value::Unknown),
            Value::Class(class) | Value::Instance(class) => {
                self.member(class, name, false, depth + 1)
            }
            Value::External(outer) => Value::External(format!("{outer}.{name}")),
            Value::Function(_) | Value::Unknown => Value::Unknown,
        }
    }

    /// The value that a call returns.
    fn result(&mut self, value: &Value, depth: usize) -> Value {
        if depth > MAX_STEPS {
            return Value::Unknown;
        }
        match value {
            Value::Class(place) => Value::Instance(place.clone()),
            Value::Function(place) => {
                let read = |definition: &Definition| {
                    Some((definition.returns.clone()?, definition.parent))
                };
                let Some((returns, parent)) = self.definition(place, read).flatten() else {
                    return Value::Unknown;
                };
                let site = Site { file: &place.file, around: parent };
                self.bound(site, &Binding::Instance(returns), depth + 1)
            }
            Value::External(name) => Value::External(format!("{name}()")),
            Value::Instance(class) => {
                let method = self.member(class, "__call__", false, depth + 1);
                if matches!(method, Value::Function(_)) {
                    self.result(&method, depth + 1)
                } else {
                    Value::Unknown
                }
            }
            _ => Value::Unknown,
        }
    }

    /// A member of a class or, in the order of the text, of its bases.
    fn member(&mut self, class: &Place, name: &str, only_bases: bool, depth: usize) -> Value {
        let seen = HashSet::from([class.clone()]);
        let mut search = MemberSearch { name, seen, external: None };
        let value = self.member_of(class, only_bases, depth, &mut search);
        match (value, search.external) {
            (Value::Unknown, Some(base)) => Value::External(format!("{base}.{name}")),
            (value, _) => value,
        }
    }

    fn member_of(
        &mut self,
        class: &Place,
        only_bases: bool,
        depth: usize,
        search: &mut MemberSearch<'_>,
    ) -> Value {
        let Some(model) = self.model(&class.file).filter(|_| depth <= MAX_STEPS) else {
            return Value::Unknown;
        };
        let Some(definition) = model.definitions.get(class.definition) else {
            return Value::Unknown;
        };
        if !only_bases {
            let own = self.own_member(class, &model, search.name, depth);
            if own != Value::Unknown {
                return own;
            }
        }
        let site = Site { file: &class.file, around: definition.parent };
        for base in &definition.bases {
            match self.fold(site, base, depth + 1) {
                Value::Class(base) if search.seen.insert(base.clone()) => {
                    let found = self.member_of(&base, false, depth + 1, search);
                    if found != Value::Unknown {
                        return found;
                    }
                }
                Value::External(base) => {
                    search.external.get_or_insert(base);
                }
                _ => {}
            }
        }
        Value::Unknown
    }

    fn own_member(&mut self, class: &Place, model: &Model, name: &str, depth: usize) -> Value {
        let file = &class.file;
        let scope = &model.definitions[class.definition].scope;
        if let Some(&index) = scope.definitions.get(name) {
            let member = &model.definitions[index];
            let place = Place { file: file.clone(), definition: index };
            let kind = model.outline.symbols.get(member.symbol).map(|symbol| symbol.kind);
            return match (member.is_class, kind) {
                (true, _) => Value::Class(place),
                (false, Some(Kind::Property)) => self.result(&Value::Function(place), depth + 1),
                (false, _) => Value::Function(place),
            };
        }
        if scope.bindings.contains_key(name) || scope.imports.contains_key(name) {
            let found = self.in_scope(class.inside(), scope, name, depth + 1);
            if let Some(value) = found
                && value != Value::Unknown
            {
                return value;
            }
        }
        let methods = model.definitions.iter().enumerate();
        for (index, method) in methods.filter(|(_, method)| method.parent == Some(class.definition))
        {
            if let Some(binding) = method.attributes.get(name) {
                return self.bound(Site { file, around: Some(index) }, binding, depth + 1);
            }
        }
        Value::Unknown
    }

    /// The module that an import statement in a file names.
    pub fn find(&mut self, file: &str, level: u32, module: &[String]) -> Option<Value> {
        let mut directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
        if level > 0 {
            for _ in 1..level {
                if directory.is_empty() {
                    return None;
                }
                directory = directory.rsplit_once('/').map_or("", |(outer, _)| outer);
            }
            return self.module_at(directory, module);
        }
        let paths = self.paths();
        // Packages are imported by way of the directory that contains them, never from inside.
        let mut only_directory = None;
        loop {
            let is_package = paths.files.contains(&joined(directory, "__init__.py"));
            if !is_package || directory.is_empty() {
                let roots = std::iter::once(directory.to_owned())
                    .chain(ROOTS.iter().map(|root| joined(directory, root)));
                for root in roots {
                    match self.module_at(&root, module) {
                        Some(Value::Directory(found)) => {
                            only_directory.get_or_insert(found);
                        }
                        Some(found) => return Some(found),
                        None => {}
                    }
                }
            }
            if directory.is_empty() {
                return only_directory.map(Value::Directory);
            }
            directory = directory.rsplit_once('/').map_or("", |(outer, _)| outer);
        }
    }

    /// The module with these names below a directory.
    fn module_at(&mut self, directory: &str, module: &[String]) -> Option<Value> {
        let paths = self.paths();
        let path = module.iter().fold(directory.to_owned(), |path, name| joined(&path, name));
        let candidates = [
            joined(&path, "__init__.py"),
            format!("{path}.py"),
            joined(&path, "__init__.pyi"),
            format!("{path}.pyi"),
        ];
        if let Some(file) = candidates.into_iter().find(|file| paths.files.contains(file)) {
            return Some(Value::Module(file));
        }
        (path.is_empty() || paths.directories.contains(&path)).then_some(Value::Directory(path))
    }

    fn paths(&mut self) -> Rc<Paths> {
        if let Some(paths) = &self.paths {
            return Rc::clone(paths);
        }
        let globs = ["*.py".to_owned(), "*.pyi".to_owned()];
        let mut paths = Paths::default();
        for file in self.files.list("", &globs).unwrap_or_default() {
            for (end, _) in file.match_indices('/') {
                if !paths.directories.contains(&file[..end]) {
                    paths.directories.insert(file[..end].to_owned());
                }
            }
            paths.files.insert(file);
        }
        let paths = Rc::new(paths);
        self.paths = Some(Rc::clone(&paths));
        paths
    }
}

/// The model of a file's contents; empty if they are not text.
fn model(contents: &[u8]) -> Model {
    match decode(Language::Python, contents) {
        Ok((text, _)) => match crate::nesting::check(Language::Python, &text) {
            Ok(()) => super::model(&text),
            Err(problem) => broken(problem),
        },
        Err(problem) => broken(problem),
    }
}

fn broken(problem: crate::outline::Problem) -> Model {
    let mut model = Model::default();
    model.outline.problem = Some(problem);
    model
}

fn joined(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn is_builtin(name: &str) -> bool {
    BUILTINS.binary_search(&name).is_ok()
}

/// The functions and classes in Python's `builtins`, sorted.
const BUILTINS: [&str; 139] = [
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "BaseException",
    "BaseExceptionGroup",
    "BlockingIOError",
    "BrokenPipeError",
    "BufferError",
    "BytesWarning",
    "ChildProcessError",
    "ConnectionAbortedError",
    "ConnectionError",
    "ConnectionRefusedError",
    "ConnectionResetError",
    "DeprecationWarning",
    "EOFError",
    "EncodingWarning",
    "EnvironmentError",
    "Exception",
    "ExceptionGroup",
    "FileExistsError",
    "FileNotFoundError",
    "FloatingPointError",
    "FutureWarning",
    "GeneratorExit",
    "IOError",
    "ImportError",
    "ImportWarning",
    "IndentationError",
    "IndexError",
    "InterruptedError",
    "IsADirectoryError",
    "KeyError",
    "KeyboardInterrupt",
    "LookupError",
    "MemoryError",
    "ModuleNotFoundError",
    "NameError",
    "NotADirectoryError",
    "NotImplementedError",
    "OSError",
    "OverflowError",
    "PendingDeprecationWarning",
    "PermissionError",
    "ProcessLookupError",
    "PythonFinalizationError",
    "RecursionError",
    "ReferenceError",
    "ResourceWarning",
    "RuntimeError",
    "RuntimeWarning",
    "StopAsyncIteration",
    "StopIteration",
    "SyntaxError",
    "SyntaxWarning",
    "SystemError",
    "SystemExit",
    "TabError",
    "TimeoutError",
    "TypeError",
    "UnboundLocalError",
    "UnicodeDecodeError",
    "UnicodeEncodeError",
    "UnicodeError",
    "UnicodeTranslateError",
    "UnicodeWarning",
    "UserWarning",
    "ValueError",
    "Warning",
    "ZeroDivisionError",
    "abs",
    "aiter",
    "all",
    "anext",
    "any",
    "ascii",
    "bin",
    "bool",
    "breakpoint",
    "bytearray",
    "bytes",
    "callable",
    "chr",
    "classmethod",
    "compile",
    "complex",
    "delattr",
    "dict",
    "dir",
    "divmod",
    "enumerate",
    "eval",
    "exec",
    "filter",
    "float",
    "format",
    "frozenset",
    "getattr",
    "globals",
    "hasattr",
    "hash",
    "hex",
    "id",
    "input",
    "int",
    "isinstance",
    "issubclass",
    "iter",
    "len",
    "list",
    "locals",
    "map",
    "max",
    "memoryview",
    "min",
    "next",
    "object",
    "oct",
    "open",
    "ord",
    "pow",
    "print",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "staticmethod",
    "str",
    "sum",
    "super",
    "tuple",
    "type",
    "vars",
    "zip",
];
