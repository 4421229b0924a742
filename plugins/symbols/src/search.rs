//! Searches a symbol in all files: only files that contain its name are parsed.

use std::collections::HashSet;

use cofferdam_sdk::ToolError;
use memchr::memmem::Finder;
use serde::Serialize;

use crate::index::{Entry, Index};
use crate::language::Language;
use crate::name::Name;
use crate::nearest::Nearest;
use crate::outline::{Kind, Outline, Symbol};
use crate::project::{Deadline, Files, globs};
use crate::text::{decode, may_hold};

/// The code for a symbol that was not found.
pub const NOT_FOUND: &str = "SymbolNotFound";

/// The maximum number of listed files with syntax errors.
pub const MAX_PROBLEMS: usize = 50;

/// The maximum number of other symbols with the name that a message lists.
const MAX_OTHERS: usize = 10;

/// The symbol to search, and the files to search.
#[derive(Debug)]
pub struct Search {
    /// The parsed name of the symbol.
    pub name: Name,
    /// The name as the caller wrote it.
    pub written: String,
    /// The file or directory to search, relative to the workspace.
    pub root: String,
    /// Only files in this language.
    pub language: Option<Language>,
    /// Only symbols of these kinds; empty: all.
    pub kinds: Vec<Kind>,
}

/// A file that could be parsed only in part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unparsed {
    /// The path of the file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The message of the parser.
    pub message: String,
}

/// A symbol that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The path of its file.
    pub file: String,
    /// The language of the file.
    pub language: Language,
    /// The name with its module.
    pub qualified: String,
    /// The definition of the symbol.
    pub symbol: Symbol,
    /// Its source text, with decorators and comments.
    pub source: String,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// The first symbols, by file and line, up to the limit.
    pub hits: Vec<Hit>,
    /// The number of symbols, with those not returned.
    pub total: usize,
    /// The number of files searched.
    pub searched: usize,
    /// The number of files that could not be read.
    pub unreadable: usize,
    /// Files that contain the name and could be parsed only in part.
    pub unparsed: Vec<Unparsed>,
    /// The number of such files.
    pub unparsed_total: usize,
    /// Symbols with the same name that do not match the qualifiers or kinds.
    others: Vec<String>,
    /// The maximum number of `hits`.
    most: usize,
}

/// A file that may contain the name.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    path: &'a str,
    language: Language,
    contents: &'a [u8],
}

impl Search {
    /// Searches, and returns up to `most` symbols; at least one.
    ///
    /// # Errors
    /// `SymbolNotFound`, `PathNotFound`, `TimeoutError`.
    pub fn run(
        &self,
        files: &dyn Files,
        deadline: &mut Deadline,
        most: usize,
    ) -> Result<Found, ToolError> {
        let found = self.find(files, deadline, most)?;
        if found.total == 0 {
            let message = self.not_found(files, deadline, &found);
            return Err(ToolError::not_found(NOT_FOUND, message));
        }
        Ok(found)
    }

    /// Searches, and returns up to `most` symbols; there may be none.
    ///
    /// # Errors
    /// `PathNotFound`, `TimeoutError`.
    pub fn find(
        &self,
        files: &dyn Files,
        deadline: &mut Deadline,
        most: usize,
    ) -> Result<Found, ToolError> {
        let globs = globs(self.language);
        let mut found = Found { most, ..Found::default() };
        let mut late = Ok(());
        let finder = Finder::new(self.name.last());
        let mut index = Index::new(files);
        found.unreadable = files.each(&self.root, &globs, &mut |path, contents| {
            late = deadline.check(contents.len());
            if late.is_err() {
                return false;
            }
            found.searched += 1;
            // The language matters only for unusual spellings of names; most files are skipped
            // here.
            if finder.find(contents).is_some() || !contents.is_ascii() || has_escapes(contents) {
                let path = path();
                if let Some(language) = Language::of(&path) {
                    let file = Candidate { path: &path, language, contents };
                    self.look(file, &finder, &mut index, &mut found);
                }
            }
            true
        })?;
        index.keep();
        late?;
        Ok(found)
    }

    fn look(
        &self,
        file: Candidate<'_>,
        finder: &Finder<'_>,
        index: &mut Index<'_>,
        found: &mut Found,
    ) {
        let Candidate { path, language, contents } = file;
        if !may_hold(language, self.name.last(), finder, contents) {
            return;
        }
        let key = Index::key(path, contents);
        let known = index.find(&key);
        let has_any = match known {
            Some(entry) => self.count(path, language, &entry, found),
            None => {
                let outline = outlined(language, path, contents);
                let entry = Entry::new(&outline);
                let has_any = self.count(path, language, &entry, found);
                index.add(key, &entry);
                has_any
            }
        };
        if has_any && found.hits.len() < found.most {
            self.show(file, found);
        }
    }

    /// Counts the matching symbols of a file, and remembers other symbols with the name. Returns
    /// whether any match.
    fn count(&self, path: &str, language: Language, entry: &Entry<'_>, found: &mut Found) -> bool {
        if let Some((line, message)) = entry.problem {
            found.add_problem(path, line, message.to_owned());
        }
        let before = found.total;
        let modules = language.modules(path, entry.package);
        for (kind, names) in &entry.symbols {
            if names.last() != Some(&self.name.last()) {
                continue;
            }
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            if self.means(&modules, &names, *kind) {
                found.total += 1;
            } else if found.others.len() < MAX_OTHERS {
                let qualified = qualified(language, &modules, &names);
                if !found.others.contains(&qualified) {
                    found.others.push(qualified);
                }
            }
        }
        found.total > before
    }

    /// Adds the matching symbols of a file, up to the limit.
    fn show(&self, file: Candidate<'_>, found: &mut Found) {
        let Candidate { path, language, contents } = file;
        let Ok((text, _)) = decode(language, contents) else { return };
        let outline = language.outline(path, &text);
        let modules = language.modules(path, outline.package.as_deref());
        for symbol in outline.symbols {
            if found.hits.len() >= found.most {
                return;
            }
            if self.means(&modules, &symbol.path, symbol.kind) {
                let qualified = qualified(language, &modules, &symbol.path);
                let source = text.get(symbol.span.clone()).unwrap_or_default().to_owned();
                found.hits.push(Hit { file: path.to_owned(), language, qualified, symbol, source });
            }
        }
    }

    /// Whether a symbol matches the search.
    fn means(&self, modules: &[Vec<String>], path: &[String], kind: Kind) -> bool {
        path.last().is_some_and(|name| name == self.name.last())
            && self.name.means(modules, path)
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }

    /// The text about a symbol that was not found, with the nearest names.
    pub fn not_found(&self, files: &dyn Files, deadline: &mut Deadline, found: &Found) -> String {
        let place =
            if self.root.is_empty() { String::new() } else { format!(" below {}", self.root) };
        let kinds = if self.kinds.is_empty() { "" } else { " of these kinds" };
        let mut message =
            format!("no symbol '{}'{kinds} in {} files{place}", self.written, found.searched);
        let nearest = if found.others.is_empty() {
            Nearest::new(&self.name).search(files, &self.root, &globs(self.language), deadline)
        } else {
            found.others.clone()
        };
        if !nearest.is_empty() {
            message += &format!(". Did you mean {}?", nearest.join(", "));
        }
        if let Some(first) = found.unparsed.first() {
            message += &format!(
                ". {} of the files that hold the name could not be parsed in full: {} line {}: {}",
                found.unparsed_total, first.file, first.line, first.message
            );
        }
        if found.unreadable > 0 {
            message += &format!(". {} files could not be read", found.unreadable);
        }
        message
    }
}

impl Found {
    fn add_problem(&mut self, file: &str, line: usize, message: String) {
        self.unparsed_total += 1;
        if self.unparsed.len() < MAX_PROBLEMS {
            self.unparsed.push(Unparsed { file: file.to_owned(), line, message });
        }
    }
}

fn has_escapes(contents: &[u8]) -> bool {
    memchr::memmem::find(contents, b"\\u").is_some()
}

/// The name of a symbol with its module, in the syntax of its language.
pub fn qualified(language: Language, modules: &[Vec<String>], path: &[String]) -> String {
    let module = modules.iter().find(|names| !names.is_empty()).map_or(&[][..], Vec::as_slice);
    let (between, after) = match language {
        Language::Python => (".", "."),
        Language::Rust => ("::", "::"),
        Language::Go | Language::JavaScript | Language::TypeScript => ("/", "."),
    };
    let own = path.join(after);
    if module.is_empty() { own } else { format!("{}{after}{own}", module.join(between)) }
}

/// The outline of a file with its syntax error; `None` if the language is not supported.
pub fn outline_of(path: &str, contents: &[u8]) -> Option<(Language, Outline)> {
    let language = Language::of(path)?;
    Some((language, outlined(language, path, contents)))
}

fn outlined(language: Language, path: &str, contents: &[u8]) -> Outline {
    match decode(language, contents) {
        Ok((text, bytes)) => {
            let mut outline = language.outline(path, &text);
            outline.problem = outline.problem.or(bytes);
            outline
        }
        Err(problem) => Outline { problem: Some(problem), ..Outline::default() },
    }
}

/// Removes duplicates, keeping the order of the first occurrences.
pub fn distinct(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}
