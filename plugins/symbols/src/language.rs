//! The supported languages, and the names of their modules.

use serde::{Deserialize, Serialize};

use crate::outline::Outline;
use crate::{go, nesting, python, rust, typescript};

/// A language with a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Language {
    Go,
    JavaScript,
    Python,
    Rust,
    TypeScript,
}

impl Language {
    /// All languages with a parser.
    pub const ALL: [Self; 5] =
        [Self::Go, Self::JavaScript, Self::Python, Self::Rust, Self::TypeScript];

    /// The language of a file, by its extension.
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (_, extension) = name.rsplit_once('.')?;
        Self::ALL.into_iter().find(|language| language.extensions().contains(&extension))
    }

    /// The extensions of files in the language.
    pub fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Go => &["go"],
            Self::JavaScript => &["js", "jsx", "mjs", "cjs"],
            Self::Python => &["py", "pyi", "pyw"],
            Self::Rust => &["rs"],
            Self::TypeScript => &["ts", "tsx", "mts", "cts"],
        }
    }

    /// The definitions in a file of this language.
    pub fn outline(self, path: &str, text: &str) -> Outline {
        if let Err(problem) = nesting::check(self, text) {
            return Outline { problem: Some(problem), ..Outline::default() };
        }
        match self {
            Self::Go => go::outline(text),
            Self::JavaScript | Self::TypeScript => typescript::outline(path, text),
            Self::Python => python::outline(text),
            Self::Rust => rust::outline(text),
        }
    }

    /// The names of a file's module: one list for each way in which the language can refer to it.
    pub fn modules(self, path: &str, package: Option<&str>) -> Vec<Vec<String>> {
        let mut names: Vec<String> = path.split('/').map(str::to_owned).collect();
        let file = names.pop().unwrap_or_default();
        let stem = file.split_once('.').map_or(file.as_str(), |(stem, _)| stem);
        match self {
            Self::Go => {
                let mut named = names.clone();
                named.pop();
                named.extend(package.map(str::to_owned));
                return vec![names, named];
            }
            Self::Python if stem == "__init__" => {}
            Self::JavaScript | Self::TypeScript if stem == "index" => {}
            Self::Rust => {
                names.retain(|name| name != "src");
                for name in &mut names {
                    *name = name.replace('-', "_");
                }
                if !matches!(stem, "mod" | "lib" | "main") {
                    names.push(stem.to_owned());
                }
            }
            Self::Python | Self::JavaScript | Self::TypeScript => names.push(stem.to_owned()),
        }
        vec![names]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_languages_and_modules() {
        for (path, language, wanted) in [
            ("a/b.py", Some(Language::Python), &["a.b"][..]),
            ("a/__init__.py", Some(Language::Python), &["a"]),
            ("a/b.d.ts", Some(Language::TypeScript), &["a.b"]),
            ("a/index.js", Some(Language::JavaScript), &["a"]),
            ("my-crate/src/a/mod.rs", Some(Language::Rust), &["my_crate.a"]),
            ("src/lib.rs", Some(Language::Rust), &[""]),
            ("src/a.rs", Some(Language::Rust), &["a"]),
            ("cmd/tool/main.go", Some(Language::Go), &["cmd.tool", "cmd.p"]),
            ("py", None, &[]),
            ("a.py/b", None, &[]),
        ] {
            assert_eq!(Language::of(path), language, "{path}");
            let modules = language.map(|language| language.modules(path, Some("p")));
            let found: Vec<String> =
                modules.iter().flatten().map(|names| names.join(".")).collect();
            assert_eq!(found, wanted, "{path}");
        }
    }
}
