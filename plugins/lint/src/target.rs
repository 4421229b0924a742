//! Finds the files and directories to lint.

use std::collections::BTreeSet;

use cofferdam_sdk::scan::{Query, query};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};

use crate::choice::Job;
use crate::host::HostApi;
use crate::language::{Language, TYPES, of_directory};

/// Directories of third-party code, which are not linted unless they are named.
const VENDORED: [&str; 7] =
    ["node_modules", "bower_components", "site-packages", ".venv", "venv", ".tox", ".nox"];

/// Linters that take any file in a directory, also those that ignore rules exclude.
const TAKE_ALL: [&str; 2] = ["pylint", "pyflakes"];

/// A file or a directory to lint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A single source file.
    File {
        /// Relative to the workspace.
        path: String,
        /// The language of the file.
        language: Language,
    },
    /// A directory with everything below it.
    Directory {
        /// Relative to the workspace; the workspace itself is `.`.
        path: String,
        /// The languages of the files in it.
        languages: BTreeSet<Language>,
        /// The source files in it.
        files: Vec<String>,
        /// Whether it has others, which are ignored or third-party code.
        has_others: bool,
    },
}

impl Target {
    /// The languages in the target.
    pub fn languages(&self) -> BTreeSet<Language> {
        match self {
            Self::File { language, .. } => [*language].into(),
            Self::Directory { languages, .. } => languages.clone(),
        }
    }

    /// The source files in the target.
    pub fn files(&self) -> &[String] {
        match self {
            Self::File { path, .. } => std::slice::from_ref(path),
            Self::Directory { files, .. } => files,
        }
    }

    /// The paths to give a job's linter so that it checks exactly the files in the job's languages.
    /// In a directory it would check all of its own languages.
    pub fn paths(&self, job: &Job) -> Vec<String> {
        let Job { linter, languages: wanted, own } = job;
        match self {
            Self::File { path, language } if wanted.contains(language) => vec![path.clone()],
            Self::File { .. } => Vec::new(),
            Self::Directory { languages, .. } if languages.is_disjoint(wanted) => Vec::new(),
            Self::Directory { path, languages, files, has_others } => {
                let unwanted = own.difference(wanted).any(|language| languages.contains(language))
                    || *has_others && TAKE_ALL.contains(&linter.as_str());
                if !unwanted {
                    return vec![path.clone()];
                }
                let is_wanted =
                    |path: &&String| Language::of(path).is_some_and(|own| wanted.contains(&own));
                files.iter().filter(is_wanted).cloned().collect()
            }
        }
    }
}

/// The targets of a call that names none: everything in its scope.
///
/// # Errors
/// As [`HostApi::find`].
pub fn everything(context: &Context, host: &impl HostApi) -> Result<Vec<Target>, ToolError> {
    if context.scope.is_empty() {
        return Ok(vec![directory(&context.resolve(".")?, context, host)?]);
    }
    let mut targets = Vec::new();
    for path in &context.scope {
        let path = context.resolve(path)?;
        if context.local(&path).is_dir() {
            targets.push(directory(&path, context, host)?);
        } else if context.local(&path).is_file() {
            targets.extend(file(path.as_str()));
        }
    }
    Ok(targets)
}

/// The targets that a caller named: files, directories (also in Go's form, `cmd/...`) and globs. A
/// glob without `/` matches names at any depth.
///
/// # Errors
/// Those of [`Context::resolve`] and [`HostApi::find`]; `FileNotFoundError` for a path or a glob
/// without files; `UnsupportedFile` for a file in none of the languages.
pub fn named(
    names: &[String],
    context: &Context,
    host: &impl HostApi,
) -> Result<Vec<Target>, ToolError> {
    let mut targets = Vec::new();
    for name in names {
        let path = context.resolve(name.strip_suffix("/...").unwrap_or(name))?;
        let local = context.local(&path);
        if local.is_file() {
            targets.push(file(path.as_str()).ok_or_else(|| unsupported(&path))?);
        } else if local.is_dir() {
            targets.push(directory(&path, context, host)?);
        } else {
            targets.extend(matching(&path, host)?);
        }
    }
    Ok(targets)
}

fn file(path: &str) -> Option<Target> {
    Some(Target::File { path: path.to_owned(), language: Language::of(path)? })
}

fn directory(
    path: &WorkspacePath,
    context: &Context,
    host: &impl HostApi,
) -> Result<Target, ToolError> {
    let files = sources(path, host)?;
    let languages = of_directory(path, &files, context);
    let python = |files: &[String]| {
        files.iter().filter(|path| Language::of(path) == Some(Language::Python)).count()
    };
    let all =
        Query { types: vec!["py".to_owned()], hidden: true, ignore_files: false, ..query(path) };
    let has_others =
        languages.contains(&Language::Python) && python(&host.find(&all)?) > python(&files);
    Ok(Target::Directory { path: path.to_string(), languages, files, has_others })
}

/// The third-party code to leave out below a directory: none if the directory itself is such code.
fn vendored(directory: &str) -> Vec<String> {
    if directory.split('/').any(|name| VENDORED.contains(&name)) {
        return Vec::new();
    }
    VENDORED.map(str::to_owned).into()
}

/// The source files and every `Cargo.toml` below a directory.
///
/// # Errors
/// As [`HostApi::find`].
pub fn sources(directory: &WorkspacePath, host: &impl HostApi) -> Result<Vec<String>, ToolError> {
    let types = TYPES.iter().map(|&name| name.to_owned()).collect();
    let exclude_globs = vendored(directory.as_str());
    host.find(&Query { types, exclude_globs, ..query(directory) })
}

/// The source files that match a glob.
fn matching(glob: &WorkspacePath, host: &impl HostApi) -> Result<Vec<Target>, ToolError> {
    let is_glob = glob.as_str().contains(['*', '?', '[', '{']);
    let found = if is_glob { host.find(&whole_workspace(glob.as_str()))? } else { Vec::new() };
    let targets: Vec<Target> = found.iter().filter_map(|path| file(path)).collect();
    match (targets.is_empty(), found.first()) {
        (false, _) => Ok(targets),
        (true, None) if is_glob => Err(ToolError::not_found(
            "FileNotFoundError",
            format!("file not found: no file matches '{glob}'"),
        )),
        (true, None) => {
            Err(ToolError::not_found("FileNotFoundError", format!("file not found: {glob}")))
        }
        (true, Some(_)) => Err(unsupported(glob)),
    }
}

fn whole_workspace(glob: &str) -> Query {
    Query {
        root: String::new(),
        globs: vec![glob.to_owned()],
        exclude_globs: vendored(glob),
        types: Vec::new(),
        ignore_files: true,
        hidden: false,
        follow_links: false,
        max_file_size: None,
    }
}

fn unsupported(path: &WorkspacePath) -> ToolError {
    ToolError::invalid_args(
        "UnsupportedFile",
        format!("'{path}' is no go, javascript, typescript, python or rust source file"),
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::Fake;
    use Language::{Go, JavaScript, Python, TypeScript};

    const FILES: [(&str, &str); 7] = [
        ("internal/a.go", ""),
        ("internal/deep/b.go", ""),
        ("pkg/c.go", ""),
        ("web/[id].js", ""),
        ("web/d.ts", ""),
        ("README.md", ""),
        ("node_modules/e.js", ""),
    ];

    fn shown(targets: &[Target]) -> Vec<&str> {
        targets
            .iter()
            .map(|target| match target {
                Target::File { path, .. } | Target::Directory { path, .. } => path.as_str(),
            })
            .collect()
    }

    #[test]
    fn names_are_files_directories_and_globs() {
        let fake = Fake::new(&FILES);
        let absolute = format!("{}/pkg/c.go", fake.context.workspace());
        for (names, wanted) in [
            (vec!["internal/*.go", "pkg/*.go"], vec!["internal/a.go", "pkg/c.go"]),
            (vec!["*.go"], vec!["internal/a.go", "internal/deep/b.go", "pkg/c.go"]),
            (vec!["internal/**/*.go"], vec!["internal/a.go", "internal/deep/b.go"]),
            (vec!["web/[id].js"], vec!["web/[id].js"]),
            (vec!["web/*.{js,ts}"], vec!["web/[id].js", "web/d.ts"]),
            (vec!["./internal/a.go", "pkg"], vec!["internal/a.go", "pkg"]),
            (vec!["./...", "internal/..."], vec![".", "internal"]),
            (
                vec!["*"],
                vec!["internal/a.go", "internal/deep/b.go", "pkg/c.go", "web/[id].js", "web/d.ts"],
            ),
            (vec![absolute.as_str()], vec!["pkg/c.go"]),
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(shown(&named(&names, &fake.context, &fake).unwrap()), wanted, "{names:?}");
        }
    }

    #[test]
    fn targets_without_files_are_refused() {
        let fake = Fake::new(&FILES);
        for (name, code) in [
            ("none.go", "FileNotFoundError"),
            ("cmd/*.go", "FileNotFoundError"),
            ("README.md", "UnsupportedFile"),
            ("*.md", "UnsupportedFile"),
            ("../x.go", "PathNotAllowed"),
            ("../*.go", "PathNotAllowed"),
            ("/etc/*.py", "PathNotAllowed"),
            ("", "InvalidPath"),
        ] {
            let names = ["pkg/c.go".to_owned(), name.to_owned()];
            let error = named(&names, &fake.context, &fake).unwrap_err();
            assert_eq!(error.code, code, "{name}: {error}");
        }
    }

    #[test]
    fn a_call_without_targets_lints_its_whole_scope() {
        let mut fake = Fake::new(&FILES);
        let targets = everything(&fake.context, &fake).unwrap();
        assert_eq!(shown(&targets), ["."]);
        assert_eq!(targets[0].languages(), [Go, JavaScript, TypeScript].into());
        fake.context.scope = ["web", "pkg/c.go", "README.md", "none"].map(str::to_owned).into();
        assert_eq!(shown(&everything(&fake.context, &fake).unwrap()), ["web", "pkg/c.go"]);
    }

    #[test]
    fn a_linter_gets_only_files_it_was_chosen_for() {
        let fake = Fake::new(&FILES);
        let targets = everything(&fake.context, &fake).unwrap();
        for (wanted, own, paths) in [
            (vec![Go], vec![Go], vec!["."]),
            (vec![JavaScript, TypeScript], vec![JavaScript, TypeScript], vec!["."]),
            (vec![JavaScript], vec![JavaScript, TypeScript], vec!["web/[id].js"]),
            (vec![Go], vec![Go, Python], vec!["."]),
            (vec![Python], vec![Python], vec![]),
        ] {
            let set = |languages: Vec<Language>| languages.into_iter().collect::<BTreeSet<_>>();
            let job =
                Job { linter: "any".to_owned(), languages: set(wanted.clone()), own: set(own) };
            assert_eq!(targets[0].paths(&job), paths, "{wanted:?}");
        }
    }

    #[test]
    fn third_party_and_ignored_code_is_left_out_unless_it_is_named() {
        let fake = Fake::new(&[
            ("a.py", ""),
            (".ignore", "build\n"),
            ("build/b.py", ""),
            (".venv/lib/c.py", ""),
            ("venv/lib/d.py", ""),
            ("node_modules/e/e.js", ""),
        ]);
        let targets = everything(&fake.context, &fake).unwrap();
        assert_eq!(targets[0].files(), ["a.py"]);
        let job = |linter: &str| Job {
            linter: linter.to_owned(),
            languages: [Python].into(),
            own: [Python].into(),
        };
        // ruff has its own rules for directories; pylint would take all files.
        assert_eq!(targets[0].paths(&job("ruff")), ["."]);
        assert_eq!(targets[0].paths(&job("pylint")), ["a.py"]);
        for (name, wanted) in [
            ("venv", &["venv/lib/d.py"][..]),
            ("venv/lib/*.py", &["venv/lib/d.py"]),
            (".venv/lib/c.py", &[".venv/lib/c.py"]),
            ("build/b.py", &["build/b.py"]),
            ("*.py", &["a.py"]),
        ] {
            let targets = named(&[name.to_owned()], &fake.context, &fake).unwrap();
            let files: Vec<&String> = targets.iter().flat_map(Target::files).collect();
            assert_eq!(files, wanted, "{name}");
        }
    }
}
