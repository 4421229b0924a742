//! `discover_api`: lists the symbols that a module offers.

use std::collections::{BTreeSet, HashMap};

use cofferdam_sdk::ToolError;
use serde::Serialize;

use crate::args::DiscoverApiArgs;
use crate::language::Language;
use crate::locate::is_zero;
use crate::name::Name;
use crate::outline::{Kind, Outline, Symbol};
use crate::project::{Deadline, Files, globs};
use crate::python::resolve::{Modules, Value};
use crate::search::{Unparsed, outline_of};

/// The default maximum number of symbols.
const DEFAULT_LIMIT: usize = 300;

/// The maximum number of modules named in a message.
const MAX_NAMED: usize = 10;

/// The result of `discover_api`.
#[derive(Debug, Serialize)]
pub struct Api {
    /// The files that make up the module.
    pub files: Vec<Module>,
    /// The number of symbols, with those not shown.
    pub total: usize,
    /// Whether the limit was exceeded, so that some are left out.
    pub truncated: bool,
    /// The number of private symbols left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub private_left_out: usize,
    /// The modules directly below the module.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub submodules: Vec<String>,
    /// Files that could be parsed only in part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unparsed: Vec<Unparsed>,
}

/// The API of one file.
#[derive(Debug, Serialize)]
pub struct Module {
    /// The path of the file.
    pub file: String,
    /// The language of the file.
    pub language: Language,
    /// The first paragraph of its documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    /// The names that it declares to export, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exports: Option<Vec<String>>,
    /// The symbols that it defines, by line. Members follow the symbol that contains them.
    pub symbols: Vec<Member>,
    /// The names that it re-exports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reexports: Vec<Reexported>,
}

/// A symbol in a module's API.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the names of Symbol's fields")]
pub struct Member {
    /// The name within the file, such as `Class.method`.
    pub name: String,
    pub kind: Kind,
    pub line: usize,
    pub end_line: usize,
    pub signature: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decorators: Vec<String>,
}

/// A name that is re-exported from another module.
#[derive(Debug, Serialize)]
pub struct Reexported {
    /// The name in this module.
    pub name: String,
    /// Its origin, as written in the file.
    pub from: String,
    /// The line of the re-export.
    pub line: usize,
    /// The place of its definition, if it is in the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defined: Option<Defined>,
}

/// The place where a re-exported name is defined.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the names of Symbol's fields")]
pub struct Defined {
    pub file: String,
    pub line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
}

/// Lists the API of a module; `as_path` is the module's name as a path.
///
/// # Errors
/// `InvalidSymbol`, `ModuleNotFound`, `AmbiguousModule`, `TimeoutError`.
pub fn discover(
    args: &DiscoverApiArgs,
    as_path: Option<&str>,
    files: &dyn Files,
    deadline: &mut Deadline,
) -> Result<Api, ToolError> {
    let place = find(&args.module, as_path, files)?;
    let mut left = args.limit.unwrap_or(DEFAULT_LIMIT);
    let mut modules = Modules::new(files);
    let mut api = Api {
        files: Vec::new(),
        total: 0,
        truncated: false,
        private_left_out: 0,
        submodules: place.submodules,
        unparsed: Vec::new(),
    };
    for path in place.files {
        let Some(contents) = files.read(&path) else {
            api.unparsed.push(Unparsed {
                file: path,
                line: 1,
                message: "can't be read".to_owned(),
            });
            continue;
        };
        deadline.check(contents.len())?;
        let Some((language, outline)) = outline_of(&path, &contents) else {
            continue;
        };
        if let Some(problem) = &outline.problem {
            let (line, message) = (problem.line, problem.message.clone());
            api.unparsed.push(Unparsed { file: path.clone(), line, message });
        }
        let around = SymbolsByPath::new(&outline);
        let (shown, hidden): (Vec<&Symbol>, Vec<&Symbol>) = outline
            .symbols
            .iter()
            .filter(|symbol| !symbol.local && symbol.name() != "__all__")
            .partition(|symbol| args.private || around.offers(symbol));
        let reexports = reexports(&path, language, &outline, &mut modules);
        api.private_left_out += hidden.len();
        api.total += shown.len() + reexports.len();
        let symbols: Vec<Member> = shown.into_iter().take(left).map(Member::from).collect();
        left -= symbols.len();
        let reexports: Vec<Reexported> = reexports.into_iter().take(left).collect();
        left -= reexports.len();
        api.files.push(Module {
            file: path,
            language,
            doc: outline.doc.as_deref().and_then(crate::outline::summary),
            exports: outline.exports,
            symbols,
            reexports,
        });
    }
    let shown: usize = api.files.iter().map(|file| file.symbols.len() + file.reexports.len()).sum();
    api.truncated = shown < api.total;
    Ok(api)
}

impl From<&Symbol> for Member {
    fn from(symbol: &Symbol) -> Self {
        Self {
            name: symbol.qualified(),
            kind: symbol.kind,
            line: symbol.line,
            end_line: symbol.end_line,
            signature: symbol.signature.clone(),
            doc: symbol.summary(),
            decorators: symbol.decorators.clone(),
        }
    }
}

/// The symbols of a file by path, to find the symbols that contain another.
struct SymbolsByPath<'a> {
    exports: Option<&'a Vec<String>>,
    by_path: HashMap<&'a [String], &'a Symbol>,
}

impl<'a> SymbolsByPath<'a> {
    fn new(outline: &'a Outline) -> Self {
        let by_path = outline.symbols.iter().map(|symbol| (&symbol.path[..], symbol)).collect();
        Self { exports: outline.exports.as_ref(), by_path }
    }

    /// Whether a symbol is part of the API: if the module lists its exports, these and their public
    /// members; otherwise public symbols in public symbols.
    fn offers(&self, symbol: &Symbol) -> bool {
        let path = &symbol.path;
        let is_listed =
            |exports: &&Vec<String>| path.first().is_some_and(|first| exports.contains(first));
        match self.exports.map(|exports| is_listed(&exports)) {
            Some(false) => false,
            Some(true) => path.len() == 1 || (symbol.public && self.is_public(path, 2)),
            None => symbol.public && self.is_public(path, 1),
        }
    }

    /// Whether all enclosing symbols are public, from the one whose path has `from` names on.
    fn is_public(&self, path: &[String], from: usize) -> bool {
        (from..path.len())
            .all(|length| self.by_path.get(&path[..length]).is_none_or(|around| around.public))
    }
}

/// The re-exports of a Python module: names in `__all__` that it does not define; for a package
/// without `__all__`, also what it imports from within the package, except private names.
fn reexports(
    path: &str,
    language: Language,
    outline: &Outline,
    modules: &mut Modules<'_>,
) -> Vec<Reexported> {
    let is_package = path.ends_with("__init__.py") || path.ends_with("__init__.pyi");
    let is_handed_on = |reexport: &crate::outline::Reexport| match (language, &outline.exports) {
        (Language::Python, Some(exports)) => exports.contains(&reexport.name),
        (Language::Python, None) => {
            is_package && reexport.from.starts_with('.') && !reexport.name.starts_with('_')
        }
        _ => true,
    };
    let mut found: Vec<Reexported> = Vec::new();
    for reexport in outline.reexports.iter().filter(|reexport| is_handed_on(reexport)) {
        let defined = match language {
            Language::Python => defined(path, &reexport.name, modules),
            _ => None,
        };
        let (name, from, line) = (reexport.name.clone(), reexport.from.clone(), reexport.line);
        found.push(Reexported { name, from, line, defined });
    }
    if language != Language::Python {
        return found;
    }
    let known: BTreeSet<&str> = outline
        .symbols
        .iter()
        .filter(|symbol| symbol.path.len() == 1)
        .map(Symbol::name)
        .chain(outline.reexports.iter().map(|reexport| reexport.name.as_str()))
        .collect();
    // Names in `__all__` that are neither defined nor imported by name are from `import *`, or are
    // modules.
    let starred = outline.exports.iter().flatten().filter(|name| !known.contains(name.as_str()));
    found.extend(starred.map(|name| Reexported {
        name: name.clone(),
        from: "*".to_owned(),
        line: 1,
        defined: defined(path, name, modules),
    }));
    found
}

fn defined(path: &str, name: &str, modules: &mut Modules<'_>) -> Option<Defined> {
    match modules.exported(path, name) {
        Value::Class(place) | Value::Function(place) => {
            let symbol = modules.symbol(&place)?;
            Some(Defined {
                line: symbol.line,
                kind: Some(symbol.kind),
                signature: Some(symbol.signature.clone()),
                doc: symbol.summary(),
                file: place.file,
            })
        }
        Value::Module(file) => {
            Some(Defined { file, line: 1, kind: Some(Kind::Module), signature: None, doc: None })
        }
        _ => None,
    }
}

/// The files of a module, and its submodules.
struct Place {
    files: Vec<String>,
    submodules: Vec<String>,
}

fn find(module: &str, as_path: Option<&str>, files: &dyn Files) -> Result<Place, ToolError> {
    let all = globs(None);
    if let Some(path) = as_path
        && let Ok(below) = files.list(path, &all)
    {
        if below == [path] {
            return Ok(Place { files: below, submodules: Vec::new() });
        }
        if !below.is_empty() {
            return Ok(directory(path, &below));
        }
    }
    let name = Name::parse(module)?;
    let list = files.list("", &all)?;
    let mut exact: BTreeSet<String> = BTreeSet::new();
    let mut ending: BTreeSet<String> = BTreeSet::new();
    for file in &list {
        let Some(language) = Language::of(file) else {
            continue;
        };
        for names in language.modules(file, None) {
            if names.is_empty() || !name.means(std::slice::from_ref(&names), &[]) {
                continue;
            }
            let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
            let place = if names_directory(language, file) { directory } else { file };
            let is_exact = names.len() == name.parts().len();
            if is_exact { &mut exact } else { &mut ending }.insert(place.to_owned());
        }
    }
    let candidates = if exact.is_empty() { ending } else { exact };
    match candidates.len() {
        0 => Err(unknown(module, &name, &list)),
        1 => {
            let place = candidates.into_iter().next().unwrap_or_default();
            if list.contains(&place) {
                return Ok(Place { files: vec![place], submodules: Vec::new() });
            }
            let prefix = format!("{place}/");
            let below: Vec<String> =
                list.into_iter().filter(|file| file.starts_with(&prefix)).collect();
            Ok(directory(&place, &below))
        }
        total => {
            let named: Vec<String> = candidates.into_iter().take(MAX_NAMED).collect();
            let more = if total > MAX_NAMED { ", ..." } else { "" };
            Err(ToolError::conflict(
                "AmbiguousModule",
                format!(
                    "'{module}' can mean {total} modules: {}{more}. Name one of them by its path",
                    named.join(", ")
                ),
            ))
        }
    }
}

/// Whether a file represents the directory that it is in.
fn names_directory(language: Language, file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    language == Language::Go
        || ["__init__.py", "__init__.pyi", "mod.rs", "lib.rs", "main.rs"].contains(&name)
        || name.starts_with("index.")
}

/// A directory as a module: the file that represents it, or else all files directly in it.
fn directory(path: &str, below: &[String]) -> Place {
    let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
    let mut own: Vec<String> = Vec::new();
    let mut submodules = BTreeSet::new();
    for file in below {
        let Some(rest) = file.strip_prefix(&prefix) else {
            continue;
        };
        match rest.split_once('/') {
            Some((directory, _)) => {
                submodules.insert(format!("{prefix}{directory}/"));
            }
            None => own.push(file.clone()),
        }
    }
    let stands_for = |file: &&String| {
        Language::of(file).is_some_and(|language| {
            language != Language::Go
                && names_directory(language, file)
                && !file.ends_with("main.rs")
        })
    };
    if let Some(head) = own.iter().find(stands_for).cloned() {
        submodules.extend(own.into_iter().filter(|file| *file != head));
        own = vec![head];
    }
    Place { files: own, submodules: submodules.into_iter().collect() }
}

fn unknown(module: &str, name: &Name, list: &[String]) -> ToolError {
    let mut near: Vec<(f64, String)> = list
        .iter()
        .filter_map(|file| {
            let names = Language::of(file)?.modules(file, None).into_iter().next()?;
            let likeness = strsim::normalized_damerau_levenshtein(names.last()?, name.last());
            (likeness >= 0.7).then(|| (likeness, file.clone()))
        })
        .collect();
    near.sort_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    let mut message = format!("no module '{module}' in {} files", list.len());
    if !near.is_empty() {
        let named: Vec<String> = near.into_iter().take(5).map(|(_, file)| file).collect();
        message += &format!(". Did you mean {}?", named.join(", "));
    }
    ToolError::not_found("ModuleNotFound", message)
}
