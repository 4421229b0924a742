//! The languages, and detecting them.

use std::collections::BTreeSet;

use cofferdam_sdk::{Context, WorkspacePath};
use serde_json::Value;

/// A language that linters are chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// The Go programming language.
    Go,
    /// JavaScript, including JSX files.
    JavaScript,
    /// TypeScript, including TSX files.
    TypeScript,
    /// Python, including stub files.
    Python,
    /// The Rust programming language.
    Rust,
}

use Language::{Go, JavaScript, Python, Rust, TypeScript};

/// The file types, in ripgrep's names, of all source files and `Cargo.toml`.
pub const TYPES: [&str; 6] = ["go", "js", "ts", "py", "rust", "toml"];

/// The file that makes a directory a Rust package: clippy checks packages, not files.
const CARGO_MANIFEST: &str = "Cargo.toml";

/// Files that determine a directory's language even without source files.
const MARKERS: [(&str, Language); 11] = [
    ("go.mod", Go),
    (".eslintrc.js", JavaScript),
    (".eslintrc.json", JavaScript),
    ("eslint.config.js", JavaScript),
    ("eslint.config.mjs", JavaScript),
    ("eslint.config.cjs", JavaScript),
    ("eslint.config.ts", TypeScript),
    ("eslint.config.mts", TypeScript),
    ("eslint.config.cts", TypeScript),
    (".pylintrc", Python),
    (CARGO_MANIFEST, Rust),
];

impl Language {
    /// The name in backends and in the operator's settings.
    pub fn name(self) -> &'static str {
        match self {
            Go => "go",
            JavaScript => "javascript",
            TypeScript => "typescript",
            Python => "python",
            Rust => "rust",
        }
    }

    /// The language with that name.
    pub fn named(name: &str) -> Option<Self> {
        [Go, JavaScript, TypeScript, Python, Rust]
            .into_iter()
            .find(|language| language.name() == name)
    }

    /// The language of a file, by its extension.
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?;
        let (stem, extension) = name.rsplit_once('.')?;
        match extension {
            _ if stem.is_empty() => None,
            "go" => Some(Go),
            "js" | "jsx" | "mjs" | "cjs" => Some(JavaScript),
            "ts" | "tsx" | "mts" | "cts" => Some(TypeScript),
            "py" | "pyi" => Some(Python),
            "rs" => Some(Rust),
            _ => None,
        }
    }
}

/// The languages of a directory: those of the source files in `files`, which lists all below it,
/// and those of marker files in the directory itself.
pub fn of_directory(
    directory: &WorkspacePath,
    files: &[String],
    context: &Context,
) -> BTreeSet<Language> {
    let mut languages: BTreeSet<Language> =
        files.iter().filter_map(|path| Language::of(path)).collect();
    let is_package = |path: &String| path.rsplit('/').next() == Some(CARGO_MANIFEST);
    if !files.iter().any(is_package) && !is_in_package(directory, context) {
        languages.remove(&Rust);
    }
    let markers = MARKERS.iter().filter(|(name, _)| exists(&join(directory, name), context));
    languages.extend(markers.map(|(_, language)| *language));
    if depends_on_eslint(directory, context) {
        languages.insert(JavaScript);
    }
    languages
}

fn is_in_package(directory: &WorkspacePath, context: &Context) -> bool {
    let above = directory.parents().map(|parent| join(&parent, CARGO_MANIFEST));
    [CARGO_MANIFEST.to_owned(), join(directory, CARGO_MANIFEST)]
        .into_iter()
        .chain(above)
        .any(|path| exists(&path, context))
}

fn join(directory: &WorkspacePath, name: &str) -> String {
    if directory.as_str().is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Whether a file exists at this path.
pub fn exists(path: &str, context: &Context) -> bool {
    context.resolve(path).is_ok_and(|path| context.local(&path).is_file())
}

/// Whether `package.json` mentions ESLint. `false` if it can't be read or parsed: the linter
/// reports that.
fn depends_on_eslint(directory: &WorkspacePath, context: &Context) -> bool {
    let package = context
        .resolve(&join(directory, "package.json"))
        .and_then(|path| context.read(&path))
        .ok()
        .and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let Some(package) = package else { return false };
    package.get("eslintConfig").is_some()
        || ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"]
            .iter()
            .any(|section| package.get(section).and_then(|names| names.get("eslint")).is_some())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::Fake;

    #[test]
    fn files_have_languages() {
        for (path, wanted) in [
            ("a.go", Some(Go)),
            ("src/a.test.tsx", Some(TypeScript)),
            ("a.mjs", Some(JavaScript)),
            ("deep/er/__init__.pyi", Some(Python)),
            ("src/lib.rs", Some(Rust)),
            (".py", None),
            ("src/.rs", None),
            ("a.py/README", None),
            ("Makefile", None),
            ("a.PY", None),
        ] {
            assert_eq!(Language::of(path), wanted, "{path}");
        }
        for name in ["go", "javascript", "typescript", "python", "rust"] {
            assert_eq!(Language::named(name).unwrap().name(), name);
        }
        assert_eq!(Language::named("cobol"), None);
    }

    #[test]
    fn directories_have_languages() {
        let eslint = r#"{"devDependencies": {"eslint": "^9"}}"#;
        for (files, directory, wanted) in [
            (vec![("go.mod", "")], ".", vec![Go]),
            (vec![("internal/a.go", "")], ".", vec![Go]),
            (vec![(".eslintrc.js", "")], ".", vec![JavaScript]),
            (vec![(".eslintrc.json", "")], ".", vec![JavaScript]),
            (vec![("eslint.config.mjs", "")], ".", vec![JavaScript]),
            (vec![("package.json", eslint)], ".", vec![JavaScript]),
            (vec![("package.json", r#"{"dependencies": {"jest": "1"}}"#)], ".", vec![]),
            (vec![("package.json", "eslint")], ".", vec![]),
            (vec![("web/a.ts", ""), ("web/b.jsx", "")], ".", vec![JavaScript, TypeScript]),
            (vec![(".pylintrc", "")], ".", vec![Python]),
            (vec![("a.py", ""), ("b.go", "")], ".", vec![Go, Python]),
            (vec![("Cargo.toml", ""), ("a.py", "")], ".", vec![Python, Rust]),
            (vec![("docs/example.rs", "")], ".", vec![]),
            (vec![("core/Cargo.toml", ""), ("core/src/lib.rs", "")], ".", vec![Rust]),
            (vec![("core/Cargo.toml", ""), ("core/src/lib.rs", "")], "core/src", vec![Rust]),
            (vec![("Cargo.toml", ""), ("docs/a.py", "")], "docs", vec![Python]),
            (vec![("node_modules/x/a.js", ""), ("a.py", "")], ".", vec![Python]),
            (vec![("README.md", "")], ".", vec![]),
        ] {
            let fake = Fake::new(&files);
            let directory = fake.context.resolve(directory).unwrap();
            let sources = crate::target::sources(&directory, &fake).unwrap();
            let languages = of_directory(&directory, &sources, &fake.context);
            assert_eq!(languages, wanted.into_iter().collect(), "{files:?}");
        }
    }
}
