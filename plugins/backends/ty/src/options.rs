//! The configuration of a project, as its author wrote it: `ty.toml`, or the table `tool.ty` of
//! `pyproject.toml`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use ruff_db::system::{System as _, SystemPath, SystemPathBuf};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::system::Workspace;

const TY_TOML: &str = "ty.toml";
const PYPROJECT: &str = "pyproject.toml";

/// A project: the directory that paths in its configuration are relative to, and the configuration.
#[derive(Debug)]
pub struct Project {
    /// The directory of the project.
    pub root: SystemPathBuf,
    /// Its name, if `pyproject.toml` has one.
    pub name: Option<String>,
    /// What the configuration file sets; the defaults without one.
    pub options: Options,
    /// The value of `project.requires-python`.
    pub requires_python: Option<String>,
}

impl Project {
    /// Reads `config`, or else finds the configuration of `directory` as ty does: the nearest
    /// directory above with `ty.toml` or a table `tool.ty`, or else the nearest with
    /// `pyproject.toml`. Without either, `directory` is the project.
    ///
    /// # Errors
    /// A configuration can't be read, or is invalid.
    pub fn find(
        workspace: &Workspace,
        directory: &SystemPath,
        config: Option<&SystemPath>,
    ) -> Result<Self> {
        if let Some(config) = config {
            let text = read(workspace, config)?;
            return Self::configured(directory, config, &text);
        }
        let mut nearest = None;
        for root in directory.ancestors().take_while(|path| path.starts_with(workspace.root())) {
            let [pyproject, ty_toml] = [PYPROJECT, TY_TOML].map(|name| root.join(name));
            let mut found = None;
            let mut is_configured = false;
            if workspace.is_file(&pyproject) {
                let file = PyProject::parse(&read(workspace, &pyproject)?)
                    .with_context(|| pyproject.to_string())?;
                is_configured = file.tool.ty.is_some();
                found = Some(file.into_project(root));
            }
            if workspace.is_file(&ty_toml) {
                let options = Options::parse(&read(workspace, &ty_toml)?)
                    .with_context(|| ty_toml.to_string())?;
                is_configured = true;
                found = Some(Self { options, ..found.unwrap_or_else(|| Self::without(root)) });
            }
            nearest = nearest.filter(|_| !is_configured).or(found);
            if is_configured {
                break;
            }
        }
        Ok(nearest.unwrap_or_else(|| Self::without(directory)))
    }

    /// A project with the configuration in `text`, the contents of the file `config`.
    fn configured(root: &SystemPath, config: &SystemPath, text: &str) -> Result<Self> {
        let parsed = match config.file_name() {
            Some(PYPROJECT) => PyProject::parse(text).map(|file| file.into_project(root)),
            _ => Options::parse(text).map(|options| Self { options, ..Self::without(root) }),
        };
        parsed.with_context(|| config.to_string())
    }

    fn without(root: &SystemPath) -> Self {
        let options = Options::default();
        Self { root: root.to_path_buf(), name: None, options, requires_python: None }
    }
}

fn read(workspace: &Workspace, file: &SystemPath) -> Result<String> {
    workspace.read_to_string(file).with_context(|| file.to_string())
}

/// What is read of `pyproject.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct PyProject {
    project: Metadata,
    tool: Tool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Metadata {
    name: Option<String>,
    requires_python: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tool {
    ty: Option<Options>,
}

impl PyProject {
    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    fn into_project(self, root: &SystemPath) -> Project {
        Project {
            root: root.to_path_buf(),
            name: self.project.name,
            options: self.tool.ty.unwrap_or_default(),
            requires_python: self.project.requires_python,
        }
    }
}

/// Options that this plugin does not know.
type Unknown = BTreeMap<String, IgnoredAny>;

/// The options of ty that have an effect here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Options {
    /// Where modules are searched for, and the version of Python.
    pub environment: Environment,
    /// The files that are checked in a directory.
    pub src: Src,
    /// Levels by the name of a rule; `all` stands for every rule.
    pub rules: BTreeMap<String, Level>,
    /// How types are inferred.
    pub analysis: Analysis,
    /// Other rules and another analysis for some files.
    pub overrides: Vec<Override>,
    /// How ty prints. It has no effect here.
    terminal: IgnoredAny,
    #[serde(flatten)]
    unknown: Unknown,
}

/// The level of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// The rule is off.
    Ignore,
    /// Findings of the rule are warnings.
    Warn,
    /// Findings of the rule are errors.
    Error,
}

/// The table `environment`: the version of Python, and where modules are.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Environment {
    /// The directories of the project's own modules.
    pub root: Option<Vec<String>>,
    /// A version such as `3.12`.
    pub python_version: Option<String>,
    /// A value of `sys.platform`, or `all`.
    pub python_platform: Option<String>,
    /// Directories of modules, searched first.
    pub extra_paths: Vec<String>,
    /// Other stubs of the standard library.
    pub typeshed: Option<String>,
    /// A virtual environment, or its interpreter.
    pub python: Option<String>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// The table `src`: the files that are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Src {
    /// The former name of a single `environment.root`.
    pub root: Option<String>,
    /// Patterns of files and directories that are checked.
    pub include: Option<Vec<String>>,
    /// Patterns of files and directories that are not checked.
    pub exclude: Vec<String>,
    /// Whether files that .gitignore and the like list are left out; the default is true.
    pub respect_ignore_files: Option<bool>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// The table `analysis`: how types are inferred.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Analysis {
    /// Whether `isinstance` with a generic class narrows to all of its specializations.
    pub strict_generic_narrowing: Option<bool>,
    /// Whether comparisons may be overridden by subclasses.
    pub strict_equality_semantics: Option<bool>,
    /// Whether comments `type: ignore` are respected.
    pub respect_type_ignore_comments: Option<bool>,
    /// Patterns of modules that may be missing.
    pub allowed_unresolved_imports: Option<Vec<String>>,
    /// Patterns of modules that have the type `Any`.
    pub replace_imports_with_any: Option<Vec<String>>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// A table of `overrides`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct Override {
    /// Patterns of the files that it holds for; the default is all.
    pub include: Option<Vec<String>>,
    /// Patterns of files that it does not hold for.
    pub exclude: Vec<String>,
    /// As [`Options::rules`].
    pub rules: BTreeMap<String, Level>,
    /// As [`Options::analysis`].
    pub analysis: Analysis,
    #[serde(flatten)]
    unknown: Unknown,
}

impl Options {
    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// The names of the options that have no effect.
    pub fn unknown(&self) -> Vec<String> {
        let overrides = self.overrides.iter().flat_map(|one| {
            let analysis = one.analysis.unknown.keys().map(|name| format!("analysis.{name}"));
            one.unknown.keys().cloned().chain(analysis).map(|name| format!("overrides.{name}"))
        });
        let tables = [
            ("environment.", &self.environment.unknown),
            ("src.", &self.src.unknown),
            ("analysis.", &self.analysis.unknown),
            ("", &self.unknown),
        ];
        let named = tables
            .into_iter()
            .flat_map(|(table, names)| names.keys().map(move |name| format!("{table}{name}")));
        named.chain(overrides).collect()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::Files;

    fn find(files: &Files, directory: &str) -> Result<Project> {
        let directory = files.path(directory);
        Project::find(&files.workspace(), &directory, None)
    }

    #[test]
    fn the_nearest_configuration_of_ty_is_found() {
        let rules = "[tool.ty.rules]\nall = 'warn'\n";
        let plain = "[project]\nname = 'shop'\nrequires-python = '>=3.11'\n";
        for (files, directory, root, configured) in [
            (vec![], "a/b", "a/b", false),
            (vec![("pyproject.toml", plain)], "a/b", "", false),
            (vec![("pyproject.toml", plain), ("a/pyproject.toml", plain)], "a/b", "a", false),
            (vec![("pyproject.toml", rules), ("a/pyproject.toml", plain)], "a/b", "", true),
            (
                vec![("a/ty.toml", "rules.all = 'warn'"), ("pyproject.toml", rules)],
                "a/b",
                "a",
                true,
            ),
            (vec![("ty.toml", "rules.all = 'warn'"), ("pyproject.toml", plain)], "", "", true),
        ] {
            let files = Files::new(&[files, vec![("a/b/m.py", "")]].concat());
            let project = find(&files, directory).unwrap();
            assert_eq!(project.root, files.path(root), "{project:?}");
            assert_eq!(project.options.rules.contains_key("all"), configured, "{project:?}");
        }
        let files = Files::new(&[("ty.toml", ""), ("pyproject.toml", plain)]);
        let project = find(&files, "").unwrap();
        assert_eq!(project.requires_python.as_deref(), Some(">=3.11"));
        assert_eq!(project.name.as_deref(), Some("shop"));
    }

    #[test]
    fn invalid_configurations_are_refused() {
        for (name, text) in [
            ("ty.toml", "]]] = [[["),
            ("ty.toml", "rules.all = 'fatal'"),
            ("ty.toml", "rules = 1"),
            ("ty.toml", "src.include = 'src'"),
            ("pyproject.toml", "[tool.ty]\nenvironment = []"),
            ("pyproject.toml", "project = 1"),
        ] {
            let files = Files::new(&[(name, text)]);
            let error = format!("{:#}", find(&files, "").unwrap_err());
            assert!(error.contains(name), "{text}: {error}");
        }
        let files = Files::new(&[("other.toml", "[["), ("pyproject.toml", "")]);
        for (config, is_valid) in [("other.toml", false), ("pyproject.toml", true), ("no", false)] {
            let config = files.path(config);
            let found = Project::find(&files.workspace(), &files.path(""), Some(&config));
            assert_eq!(found.is_ok(), is_valid, "{config}: {found:?}");
        }
    }

    #[test]
    fn options_without_effect_are_named() {
        let text = "new = 1\nterminal.output-format = 'full'\nenvironment.home = 'x'\n\
                    src.exclude-scripts = true\n[[overrides]]\nnew = 1\nanalysis.other = 2\n";
        let unknown = Options::parse(text).unwrap().unknown();
        let wanted = [
            "environment.home",
            "src.exclude-scripts",
            "new",
            "overrides.new",
            "overrides.analysis.other",
        ];
        assert_eq!(unknown, wanted);
    }
}
