//! Finds the projects in a workspace. Several linters have to run in a project's own directory and
//! check one project at a time.

use std::collections::{BTreeMap, BTreeSet};

use cofferdam_sdk::Context;

use crate::choice::Job;
use crate::language::{Language, exists};
use crate::target::Target;

/// The files that make a directory a project.
struct Marks {
    names: &'static [&'static str],
    /// Whether a nested project is separate: a Go module is not part of the module around it, but
    /// Cargo workspaces and ESLint configurations include subdirectories.
    nests: bool,
}

fn marks(language: Language) -> Marks {
    match language {
        Language::Go => Marks { names: &["go.mod"], nests: true },
        Language::Rust => Marks { names: &["Cargo.toml"], nests: false },
        Language::JavaScript | Language::TypeScript => Marks {
            names: &[
                "eslint.config.js",
                "eslint.config.mjs",
                "eslint.config.cjs",
                "eslint.config.ts",
                "eslint.config.mts",
                "eslint.config.cts",
                ".eslintrc.js",
                ".eslintrc.json",
            ],
            nests: false,
        },
        // Its linters find their configuration from the files or in the workspace.
        Language::Python => Marks { names: &[], nests: false },
    }
}

/// Files that configure a linter, each with the text that makes it one; empty: any.
const PYLINT_FILES: [(&str, &str); 4] = [
    (".pylintrc", ""),
    ("pylintrc", ""),
    ("pyproject.toml", "[tool.pylint"),
    ("setup.cfg", "[pylint"),
];

const ESLINTRC_FILES: [&str; 4] = [".eslintrc.cjs", ".eslintrc.yaml", ".eslintrc.yml", ".eslintrc"];

/// The maximum number of directories in which configurations are looked for.
const MAX_DIRECTORIES: usize = 500;

/// The linter that the project configures for a language, and its configuration file: in the
/// workspace, or above any of the files to lint.
pub fn configured(
    language: Language,
    targets: &[Target],
    context: &Context,
) -> Option<(&'static str, String)> {
    let (linter, files): (_, Vec<(&str, &str)>) = match language {
        Language::JavaScript | Language::TypeScript => {
            let files = marks(language).names.iter().chain(&ESLINTRC_FILES);
            ("eslint", files.map(|name| (*name, "")).collect())
        }
        Language::Python => ("pylint", PYLINT_FILES.to_vec()),
        Language::Go | Language::Rust => return None,
    };
    let mut directories = BTreeSet::from([""]);
    for file in targets.iter().flat_map(Target::files) {
        if directories.len() >= MAX_DIRECTORIES {
            break;
        }
        if Language::of(file) == Some(language) {
            directories.extend(file.match_indices('/').map(|(end, _)| &file[..end]));
        }
    }
    let found = directories.iter().find_map(|directory| {
        let path = |name: &str| {
            if directory.is_empty() { String::from(name) } else { format!("{directory}/{name}") }
        };
        let mut paths = files.iter().map(|(name, text)| (path(name), *text));
        paths.find(|(path, text)| exists(path, context) && contains(path, text, context))
    });
    found.map(|(path, _)| (linter, path))
}

fn contains(path: &str, text: &str, context: &Context) -> bool {
    text.is_empty()
        || context
            .resolve(path)
            .and_then(|path| context.read(&path))
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(text))
}

/// The paths of a job grouped by project directory; the workspace itself is an empty string.
pub fn projects(
    job: &Job,
    targets: &[Target],
    context: &Context,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut finder = Finder { context, known: BTreeMap::new() };
    let mut projects: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for target in targets {
        for path in target.paths(job) {
            if let Target::Directory { path: directory, files, .. } = target
                && path == *directory
            {
                for root in finder.roots(files, job) {
                    let path = if is_at_or_below(&path, &root) { &path } else { &root };
                    projects.entry(root.clone()).or_default().insert(path.clone());
                }
            } else {
                let root = Language::of(&path).map(|language| finder.root(&path, language));
                projects.entry(root.unwrap_or_default()).or_default().insert(path);
            }
        }
    }
    projects
}

fn is_at_or_below(path: &str, directory: &str) -> bool {
    directory.is_empty()
        || path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

struct Finder<'a> {
    context: &'a Context,
    /// The project of each directory and language found so far.
    known: BTreeMap<(String, Language), String>,
}

impl Finder<'_> {
    /// The projects of a job's files; without files, the workspace.
    fn roots(&mut self, files: &[String], job: &Job) -> BTreeSet<String> {
        let mut roots = BTreeSet::new();
        for path in files {
            match Language::of(path) {
                Some(language) if job.languages.contains(&language) => {
                    roots.insert(self.root(path, language));
                }
                _ => {}
            }
        }
        if roots.is_empty() { [String::new()].into() } else { roots }
    }

    /// The project that a file belongs to.
    fn root(&mut self, path: &str, language: Language) -> String {
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let key = (directory.to_owned(), language);
        if let Some(root) = self.known.get(&key) {
            return root.clone();
        }
        let Marks { names, nests } = marks(language);
        let ends = directory.match_indices('/').map(|(end, _)| end).chain([directory.len()]);
        let mut found =
            [0].into_iter().chain(ends).map(|end| &directory[..end]).filter(|&directory| {
                let above =
                    if directory.is_empty() { String::new() } else { format!("{directory}/") };
                names.iter().any(|name| exists(&format!("{above}{name}"), self.context))
            });
        let root = if nests { found.next_back() } else { found.next() };
        let root = root.unwrap_or_default().to_owned();
        self.known.insert(key, root.clone());
        root
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::target;
    use crate::testing::Fake;
    use Language::{Go, JavaScript, Python, Rust};

    #[test]
    fn linters_start_in_their_projects() {
        let config = "eslint.config.js";
        for (files, language, wanted) in [
            (vec!["go.mod", "a.go", "cmd/b.go"], Go, vec![("", vec!["."])]),
            (vec!["a.go"], Go, vec![("", vec!["."])]),
            (vec!["go.mod"], Go, vec![("", vec!["."])]),
            (vec!["api/go.mod", "api/cmd/a.go", "web/b.py"], Go, vec![("api", vec!["api"])]),
            (
                vec!["go.mod", "a.go", "tools/go.mod", "tools/b.go"],
                Go,
                vec![("", vec!["."]), ("tools", vec!["tools"])],
            ),
            (vec!["Cargo.toml", "one/Cargo.toml", "one/src/lib.rs"], Rust, vec![("", vec!["."])]),
            (vec!["core/Cargo.toml", "core/src/lib.rs"], Rust, vec![("core", vec!["core"])]),
            (vec!["web/eslint.config.js", "web/src/a.js"], JavaScript, vec![("web", vec!["web"])]),
            (vec![config, "web/eslint.config.js", "web/a.js"], JavaScript, vec![("", vec!["."])]),
            (vec!["one/pyproject.toml", "one/a.py", "b.py"], Python, vec![("", vec!["."])]),
        ] {
            let files: Vec<(&str, &str)> = files.into_iter().map(|path| (path, "")).collect();
            let fake = Fake::new(&files);
            let targets = target::everything(&fake.context, &fake).unwrap();
            let job = Job {
                linter: "any".to_owned(),
                languages: [language].into(),
                own: [language].into(),
            };
            let wanted: BTreeMap<String, BTreeSet<String>> = wanted
                .into_iter()
                .map(|(root, paths)| {
                    (root.to_owned(), paths.into_iter().map(str::to_owned).collect())
                })
                .collect();
            assert_eq!(projects(&job, &targets, &fake.context), wanted, "{files:?}");
        }
    }

    #[test]
    fn named_files_are_in_their_projects_too() {
        let fake = Fake::new(&[("api/go.mod", ""), ("api/cmd/a.go", ""), ("b.go", "")]);
        let names = ["api/cmd/a.go", "api/cmd", "b.go"].map(str::to_owned);
        let targets = target::named(&names, &fake.context, &fake).unwrap();
        let job = Job { linter: "any".to_owned(), languages: [Go].into(), own: [Go].into() };
        let projects = projects(&job, &targets, &fake.context);
        assert_eq!(projects["api"], ["api/cmd", "api/cmd/a.go"].map(str::to_owned).into());
        assert_eq!(projects[""], ["b.go".to_owned()].into());
    }

    #[test]
    fn configurations_of_linters_are_found() {
        for (files, language, wanted) in [
            (vec![("eslint.config.mjs", ""), ("a.js", "")], JavaScript, Some("eslint.config.mjs")),
            (
                vec![("web/.eslintrc.json", ""), ("web/src/a.js", "")],
                JavaScript,
                Some("web/.eslintrc.json"),
            ),
            (vec![("web/.eslintrc.json", ""), ("src/a.js", "")], JavaScript, None),
            (vec![(".pylintrc", ""), ("a.py", "")], Python, Some(".pylintrc")),
            (
                vec![("pyproject.toml", "[tool.pylint.main]\n"), ("a.py", "")],
                Python,
                Some("pyproject.toml"),
            ),
            (vec![("pyproject.toml", "[tool.ruff]\n"), ("a.py", "")], Python, None),
            (vec![(".pylintrc", ""), ("a.go", "")], Go, None),
        ] {
            let fake = Fake::new(&files);
            let targets = target::everything(&fake.context, &fake).unwrap();
            let found = configured(language, &targets, &fake.context).map(|(_, file)| file);
            assert_eq!(found.as_deref(), wanted, "{files:?}");
        }
    }
}
