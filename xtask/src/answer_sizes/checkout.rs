//! A large checkout, always the same: sources in several languages with findings for linters, a
//! minified bundle, installed packages, tests that fail, and changes that are not committed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::process::{native, output};
use crate::project::write;

/// Files of each kind; together more than 5,000.
const PYTHON: usize = 2800;
const JAVASCRIPT: usize = 1000;
const RUST: usize = 400;
const GO: usize = 300;
const JSON: usize = 400;
const INSTALLED: usize = 300;
/// Test files, and failing tests in each: 900.
const TEST_FILES: usize = 30;
const TESTS: usize = 30;
/// Files with changes that are not committed.
const CHANGED: usize = 900;
const BUNDLE_BYTES: usize = 1 << 20;

/// What the calls need of a checkout; paths are relative to it.
pub struct Material {
    /// A text file with many lines.
    pub large: String,
    /// A text file with one very long line.
    pub long_line: String,
    /// A directory with many files.
    pub directory: String,
    /// A name that is defined in many files.
    pub symbol: String,
}

/// Writes the checkout into an empty directory.
///
/// # Errors
/// I/O errors; if git is missing.
pub fn create(into: &Path) -> Result<Material> {
    let file = |path: String, text: &str| write(&into.join(path), text);
    file("pyproject.toml".into(), "[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n")?;
    file(".gitignore".into(), ".venv/\n__pycache__/\n")?;
    file("Makefile".into(), MAKEFILE)?;
    for n in 0..PYTHON {
        file(format!("shop/part{:02}/module{n:04}.py", n / 100), &python(n))?;
    }
    for n in 0..INSTALLED {
        let path = format!(".venv/lib/python3.11/site-packages/installed/module{n:03}.py");
        file(path, &python(n))?;
    }
    for n in 0..JAVASCRIPT {
        let text = format!(
            "import {{ total }} from './total.js';\nvar unused{n} = {n};\n\
             export function price(item) {{\n  if (item == null) debugger;\n  return item.price;\n}}\n"
        );
        file(format!("web/src/part{:02}/module{n:04}.js", n / 100), &text)?;
    }
    let statement = "function price(a,b){var c=a==b?a:b;if(c==null)return 0;return c.price}";
    file("web/dist/bundle.min.js".into(), &statement.repeat(BUNDLE_BYTES / statement.len()))?;
    for n in 0..RUST {
        let text = format!("pub fn price() -> u64 {{\n    let unused = {n};\n    {n}\n}}\n");
        file(format!("engine/src/module{n:03}.rs"), &text)?;
    }
    for n in 0..GO {
        let text = format!("package service\n\nfunc Price{n}() int {{\n\treturn {n}\n}}\n");
        file(format!("service/module{n:03}.go"), &text)?;
    }
    for n in 0..JSON {
        file(format!("data/order{n:03}.json"), &format!("{{\"order\": {n}, \"price\": {n}}}\n"))?;
    }
    let lines = (0..40_000).map(|n| format!("{n}: an order with a price of {}\n", n % 997));
    file("data/large.txt".into(), &lines.collect::<String>())?;
    for n in 0..TEST_FILES {
        file(format!("tests/test_part{n:02}.py"), &tests(n))?;
    }
    commit_and_change(into)?;
    Ok(Material {
        large: "data/large.txt".into(),
        long_line: "web/dist/bundle.min.js".into(),
        directory: "shop".into(),
        symbol: "price".into(),
    })
}

/// A build that prints much and fails.
const MAKEFILE: &str = "\
all:
\t@i=0; while [ $$i -lt 20000 ]; do i=$$((i + 1)); echo \"src/part.c:$$i:9: warning: unused variable\"; done
\t@echo 'src/part.c:7:1: error: expected expression'; exit 1
";

fn python(n: usize) -> String {
    format!(
        "\"\"\"Module {n} of the shop.\"\"\"\n\
         import os\n\
         import sys, json\n\n\
         from web import app\n\n\n\
         def price(item):\n    l = item[\"price\"]\n    return l + {n}\n\n\n\
         class Order{n}:\n    def total(self, items):\n        \
         return sum(price(item) for item in items)  # TODO: discounts\n\n\n\
         @app.get(\"/orders/{n}\")\n\
         def show_order(request):\n    return Order{n}().total(request.items)\n"
    )
}

fn tests(file: usize) -> String {
    let mut text = "import json\n\n".to_owned();
    for test in 0..TESTS {
        let _ = write!(
            text,
            "\ndef test_total_{file}_{test}():\n    \
             found = {{str(n): n * {test} for n in range(40)}}\n    \
             wanted = {{str(n): n * {test} + 1 for n in range(40)}}\n    \
             assert found == wanted, json.dumps(found)\n\n"
        );
    }
    text
}

fn commit_and_change(root: &Path) -> Result<()> {
    let git = |arguments: &[&str]| {
        let mut git = native("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let user = ["-c", "user.name=Tests", "-c", "user.email=tests@example.com"];
        output(git.current_dir(root).args(user).args(arguments)).map(drop)
    };
    git(&["init", "--quiet"])?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message", "The shop"])?;
    for n in 0..CHANGED {
        let path = root.join(format!("shop/part{:02}/module{n:04}.py", n / 100));
        write(&path, python(n + 1))?;
        write(&root.join(format!("notes/note{n:03}.md")), "An order.\n")?;
    }
    Ok(())
}

/// Finds the material in another checkout.
///
/// # Errors
/// I/O errors; if the checkout has no text files.
pub fn explore(root: &Path) -> Result<Material> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    let mut large = (0, String::new());
    let mut long_line = (0, String::new());
    let mut directories = std::collections::BTreeMap::<String, usize>::new();
    let mut symbols = std::collections::BTreeMap::<String, usize>::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let shown = path.strip_prefix(root)?.to_string_lossy().into_owned();
        let longest = text.lines().map(str::len).max().unwrap_or_default();
        large = large.max((text.lines().count(), shown.clone()));
        long_line = long_line.max((longest, shown.clone()));
        if let Some((directory, _)) = shown.split_once('/') {
            *directories.entry(directory.to_owned()).or_default() += 1;
        }
        for name in text.lines().filter_map(defined) {
            *symbols.entry(name.to_owned()).or_default() += 1;
        }
    }
    let most = |counted: std::collections::BTreeMap<String, usize>| {
        counted.into_iter().max_by_key(|(_, count)| *count).map(|(name, _)| name)
    };
    Ok(Material {
        large: large.1,
        long_line: long_line.1,
        directory: most(directories).context("the checkout has no directory with text files")?,
        symbol: most(symbols).unwrap_or_else(|| "main".to_owned()),
    })
}

/// The name that a line of Python, JavaScript, Go or Rust defines.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = ["pub ", "export ", "async "]
        .iter()
        .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
    let rest =
        ["def ", "fn ", "function ", "func "].iter().find_map(|word| line.strip_prefix(word))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    (end > 0).then_some(&rest[..end])
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() {
            files.push(entry.path());
        } else if kind.is_dir() && entry.file_name() != ".git" {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_of_four_languages_are_found() {
        for (line, name) in [
            ("    def total(self):", Some("total")),
            ("pub fn price() -> u64 {", Some("price")),
            ("export async function show(a) {", Some("show")),
            ("func Price() int {", Some("Price")),
            ("func (o *Order) Total() {", None),
            ("x = 1", None),
        ] {
            assert_eq!(defined(line), name, "{line}");
        }
    }
}
