//! The languages that are told apart, and how they are recognised.

use std::collections::BTreeSet;

use cofferdam_sdk::{Context, WorkspacePath};
use serde_json::Value;

/// A language that linters are chosen for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Go.
    Go,
    /// JavaScript, with JSX.
    JavaScript,
    /// TypeScript, with TSX.
    TypeScript,
    /// Python, with stubs.
    Python,
    /// Rust.
    Rust,
}

use Language::{Go, JavaScript, Python, Rust, TypeScript};

/// The file types, as ripgrep names them, that hold all source files, and `Cargo.toml`.
pub const TYPES: [&str; 6] = ["go", "js", "ts", "py", "rust", "toml"];

/// What says that a directory is a Rust package: clippy looks at packages, not at files.
const CARGO: &str = "Cargo.toml";

/// Files that show a directory's language without any source file.
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
    (CARGO, Rust),
];

impl Language {
    /// As backends and the operator's settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Go => "go",
            JavaScript => "javascript",
            TypeScript => "typescript",
            Python => "python",
            Rust => "rust",
        }
    }

    /// The language of that name.
    pub fn named(name: &str) -> Option<Self> {
        [Go, JavaScript, TypeScript, Python, Rust]
            .into_iter()
            .find(|language| language.name() == name)
    }

    /// The language of a file, by the end of its name.
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

/// The languages of a directory: those of its source files, of which `files` lists all beneath
/// it, and those that a file of the directory itself stands for.
pub fn of_directory(
    directory: &WorkspacePath,
    files: &[String],
    context: &Context,
) -> BTreeSet<Language> {
    let mut languages: BTreeSet<Language> =
        files.iter().filter_map(|path| Language::of(path)).collect();
    let is_package = |path: &String| path.rsplit('/').next() == Some(CARGO);
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
    let above = directory.parents().map(|parent| join(&parent, CARGO));
    [CARGO.to_owned(), join(directory, CARGO)]
        .into_iter()
        .chain(above)
        .any(|path| exists(&path, context))
}

fn join(directory: &WorkspacePath, name: &str) -> String {
    if directory.as_str().is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Whether there is a file of this path.
pub fn exists(path: &str, context: &Context) -> bool {
    context.resolve(path).is_ok_and(|path| context.local(&path).is_file())
}

/// Whether `package.json` names ESLint. One that can't be read or is no JSON names nothing: it is
/// for the linter to complain about.
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
