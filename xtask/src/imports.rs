//! Compares the imports between the modules of the host's crates with the tables in
//! ARCHITECTURE.md.
//!
//! Looks at the text of the sources: paths that begin with `crate::`, or with as many `super::` as
//! lead to the crate's root. Tests are left out.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::project::{files_below, read_text};

/// The section of ARCHITECTURE.md whose table lists each crate's modules in order.
const ORDERS: &str = "Imports in the other crates";

/// A crate's modules, each with the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Finds the imports in the sources of the crate in `host/NAME`.
fn found(name: &str) -> Imports {
    let sources = root().join("host").join(name).join("src");
    let mut texts: Vec<(String, usize, String)> = Vec::new();
    for file in files_below(&sources).unwrap() {
        let path = file.strip_prefix(&sources).unwrap().to_str().unwrap().to_owned();
        let stem = path.strip_suffix(".rs");
        let is_test = |part: &str| part.ends_with("tests");
        let Some(stem) = stem.filter(|stem| !stem.split('/').any(is_test)) else { continue };
        let parts: Vec<&str> = stem.split('/').filter(|part| *part != "mod").collect();
        if !["lib", "main"].contains(&parts[0]) {
            texts.push((parts[0].to_owned(), parts.len(), read_text(&file).unwrap()));
        }
    }
    let mut imports: Imports =
        texts.iter().map(|(module, ..)| (module.clone(), BTreeSet::new())).collect();
    for (module, depth, text) in texts {
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let code: String = text.lines().map(|line| line.split("//").next().unwrap()).collect();
        for name in used(&code, depth) {
            if name != module && imports.contains_key(&name) {
                imports.get_mut(&module).unwrap().insert(name);
            }
        }
    }
    imports
}

/// The names in the crate's root that `code` imports, for a module at `depth`.
fn used(code: &str, depth: usize) -> Vec<String> {
    let mut names = Vec::new();
    for (prefix, is_super) in [("crate::".to_owned(), false), ("super::".repeat(depth), true)] {
        for (at, _) in code.match_indices(&prefix) {
            let (before, after) = (&code[..at], &code[at + prefix.len()..]);
            let is_longer = before.ends_with(|c: char| c == ':' || c == '_' || c.is_alphanumeric())
                || is_super && after.starts_with("super");
            if !is_longer {
                names.extend(first_names(after));
            }
        }
    }
    names
}

/// The first name of a path, or of each path in braces.
fn first_names(path: &str) -> Vec<String> {
    let name = |path: &str| -> String {
        path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut names, mut depth) = (vec![name(group)], 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(name(&group[at + 1..])),
            _ => {}
        }
    }
    names
}

/// The words of a text that are in backticks.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// What each crate's modules may import, from the tables of ARCHITECTURE.md.
fn allowed() -> BTreeMap<String, Imports> {
    let page = read_text(&root().join("ARCHITECTURE.md")).unwrap();
    let mut allowed: BTreeMap<String, Imports> = BTreeMap::new();
    let (mut heading, mut has_imports) = (String::new(), false);
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            (heading, has_imports) = (title.to_owned(), false);
        }
        has_imports |= line.starts_with("| module | imports |");
        let cells: Vec<&str> = line.split('|').collect();
        let Some(first) = cells.get(1).map(|cell| quoted(cell)).filter(|cell| cell.len() == 1)
        else {
            continue;
        };
        if let Some(name) = heading.strip_prefix("host/").filter(|_| has_imports) {
            let modules = allowed.entry(name.to_owned()).or_default();
            modules.insert(first[0].clone(), quoted(cells[2]).into_iter().collect());
        } else if let Some(name) = first[0].strip_prefix("host/").filter(|_| heading == ORDERS) {
            let order = quoted(cells[2]);
            for (at, module) in order.iter().enumerate() {
                let below = order[at + 1..].iter().cloned().collect();
                allowed.entry(name.to_owned()).or_default().insert(module.clone(), below);
            }
        }
    }
    allowed
}

#[test]
fn imports_are_as_in_architecture_md() {
    let allowed = allowed();
    let crates: Vec<&str> = allowed.keys().map(String::as_str).collect();
    assert_eq!(crates, ["cli", "console", "core", "engine", "fleet", "mcp", "plugin", "workspace"]);
    let mut wrong = Vec::new();
    for (name, modules) in &allowed {
        for (module, imports) in found(name) {
            let known = modules.get(&module);
            assert!(known.is_some(), "ARCHITECTURE.md does not list {module} of host/{name}");
            let too_many = imports.difference(known.unwrap()).cloned();
            wrong.extend(too_many.map(|import| (name.clone(), module.clone(), import)));
        }
    }
    assert!(wrong.is_empty(), "imports that the tables do not allow: {wrong:?}");
}

#[test]
fn imports_are_found_in_every_form() {
    for (code, depth, wanted) in [
        ("use crate::a::B;", 1, vec!["a"]),
        ("use crate::{a, b::{c, d}, e::f};", 1, vec!["a", "b", "e"]),
        ("use super::a::B; use super::super::c;", 2, vec!["c"]),
        ("use super::{a, b};", 1, vec!["a", "b"]),
        ("let x = crate::a::f(other_crate::b);", 1, vec!["a"]),
    ] {
        assert_eq!(used(code, depth), wanted, "{code}");
    }
}
