//! The settings of a request: what the configuration of the project and the request amount to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use ruff_db::diagnostic::Severity;
use ruff_db::system::{SystemPath, SystemPathBuf};
use ty_module_resolver::ModuleGlobSet;
use ty_python_core::program::ProgramSettings;
use ty_python_semantic::lint::{LintId, LintSource, RuleSelection};
use ty_python_semantic::{AnalysisSettings, default_lint_registry};

use crate::environment::{self, Importable};
use crate::options::{Analysis, Level, Project};
use crate::patterns::Filter;
use crate::system::Workspace;

/// The name that stands for every rule.
const ALL: &str = "all";

/// The rule about imports that can't be resolved.
pub const UNRESOLVED_IMPORT: &str = "unresolved-import";

/// The code of findings that a file can't be parsed.
pub const SYNTAX_ERROR: &str = "syntax-error";

/// The settings of a request.
#[derive(Debug)]
pub struct Settings {
    /// The version of Python, and where modules are searched for.
    pub program: ProgramSettings,
    /// The settings of files for which no override holds.
    pub base: Arc<FileSettings>,
    /// Which files are checked in a directory.
    pub sources: Filter,
    /// Whether files that .gitignore and the like list are left out.
    pub ignore_files: bool,
    /// The directory of the workspace.
    pub workspace: SystemPathBuf,
    /// The directory that patterns are relative to.
    root: SystemPathBuf,
    /// Which modules may be installed elsewhere. `None` if all missing modules are findings, since the
    /// configuration or the request names the rule for them.
    pub importable: Option<Importable>,
    /// What the user should know.
    pub notes: Vec<String>,
    rules: BTreeMap<String, Level>,
    analysis: Analysis,
    overrides: Vec<Override>,
    /// The settings of files for which several overrides hold, by their indices.
    merged: Mutex<BTreeMap<Vec<usize>, Arc<FileSettings>>>,
    selected: Selected,
}

/// The rules and the analysis of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSettings {
    /// The rules with their levels.
    pub rules: RuleSelection,
    /// How types are inferred.
    pub analysis: AnalysisSettings,
}

/// Settings for some files.
#[derive(Debug)]
struct Override {
    files: Filter,
    rules: BTreeMap<String, Level>,
    analysis: Analysis,
}

impl Settings {
    /// The settings of a project for a request that selects these codes.
    ///
    /// # Errors
    /// The configuration is invalid, or a code is unknown.
    pub fn new(project: Project, workspace: &Workspace, select: &[String]) -> Result<Self> {
        let selected = Selected::new(select)?;
        let environment::Found { program, importable, mut notes } =
            environment::find(&project, workspace)?;
        let Project { root, options, .. } = project;
        notes.extend(
            options
                .unknown()
                .iter()
                .map(|name| format!("the option '{name}' of ty has no effect here")),
        );
        let mut overrides = Vec::new();
        for one in options.overrides {
            let files = Filter::new(one.include.as_deref(), &one.exclude).context("overrides")?;
            // Invalid patterns are reported now, not when an override is needed.
            analysis([&one.analysis])?;
            overrides.push(Override { files, rules: one.rules, analysis: one.analysis });
        }
        let names = names(&options.rules, &overrides);
        let unknown = names.iter().filter_map(|name| default_lint_registry().get(name).err());
        notes.extend(unknown.map(|error| format!("rules: {error}")));
        let is_named = selected.names(UNRESOLVED_IMPORT) || names.contains(UNRESOLVED_IMPORT);
        let base = FileSettings {
            rules: selected.rules([&options.rules]),
            analysis: analysis([&options.analysis])?,
        };
        Ok(Self {
            program,
            base: Arc::new(base),
            sources: Filter::of_sources(options.src.include.as_deref(), &options.src.exclude)
                .context("src")?,
            ignore_files: options.src.respect_ignore_files.unwrap_or(true),
            workspace: workspace.root().to_path_buf(),
            root,
            importable: (!is_named).then_some(importable),
            notes,
            rules: options.rules,
            analysis: options.analysis,
            overrides,
            merged: Mutex::default(),
            selected,
        })
    }

    /// The settings of a file.
    pub fn of(&self, path: &SystemPath) -> Arc<FileSettings> {
        let Some(path) = self.relative(path) else { return Arc::clone(&self.base) };
        let holds = |(index, one): (usize, &Override)| one.files.selects(path).then_some(index);
        let indices: Vec<usize> = self.overrides.iter().enumerate().filter_map(holds).collect();
        if indices.is_empty() {
            return Arc::clone(&self.base);
        }
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        let found = merged.entry(indices).or_insert_with_key(|indices| self.merge(indices));
        Arc::clone(found)
    }

    fn merge(&self, indices: &[usize]) -> Arc<FileSettings> {
        let matched = || indices.iter().filter_map(|&index| self.overrides.get(index));
        let rules = [&self.rules].into_iter().chain(matched().map(|one| &one.rules));
        let analyses = [&self.analysis].into_iter().chain(matched().map(|one| &one.analysis));
        Arc::new(FileSettings {
            rules: self.selected.rules(rules),
            // Each of them has been read once without an error.
            analysis: analysis(analyses).unwrap_or_else(|_| self.base.analysis.clone()),
        })
    }

    /// Whether a file that was found in a directory is checked.
    pub fn includes(&self, path: &SystemPath) -> bool {
        self.relative(path).is_none_or(|path| self.sources.selects(path))
    }

    /// Whether the request asks for findings with this code.
    pub fn selects(&self, code: &str) -> bool {
        self.selected.selects(code)
    }

    /// A path relative to the project; `None` for one outside of it.
    fn relative<'a>(&self, path: &'a SystemPath) -> Option<&'a str> {
        Some(path.strip_prefix(&self.root).ok()?.as_str())
    }
}

/// The names of all rules in a configuration.
fn names(rules: &BTreeMap<String, Level>, overrides: &[Override]) -> BTreeSet<String> {
    let tables = [rules].into_iter().chain(overrides.iter().map(|one| &one.rules));
    tables.flat_map(BTreeMap::keys).filter(|name| *name != ALL).cloned().collect()
}

/// The codes that a request selects, or prefixes of codes; none: those of the configuration.
#[derive(Debug)]
struct Selected(Vec<String>);

impl Selected {
    fn new(codes: &[String]) -> Result<Self> {
        let names = || default_lint_registry().lints().iter().map(|lint| lint.name().as_str());
        let is_known =
            |code: &str| names().chain([SYNTAX_ERROR]).any(|name| name.starts_with(code));
        if let Some(code) = codes.iter().find(|code| !is_known(code)) {
            bail!("select: ty has no rule '{code}', and none that begins so");
        }
        Ok(Self(codes.to_vec()))
    }

    fn selects(&self, code: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|prefix| code.starts_with(prefix.as_str()))
    }

    /// Whether a selected code begins with this name.
    fn names(&self, name: &str) -> bool {
        self.0.iter().any(|code| code == name)
    }

    /// The rules by tables of a configuration, of which later ones override earlier ones. A rule that
    /// the request selects is on even if it is off in the configuration.
    fn rules<'a>(
        &self,
        tables: impl IntoIterator<Item = &'a BTreeMap<String, Level>>,
    ) -> RuleSelection {
        let registry = default_lint_registry();
        let mut rules = RuleSelection::from_registry(registry);
        for table in tables {
            if let Some(level) = table.get(ALL) {
                registry.lints().iter().for_each(|&lint| set(&mut rules, lint, *level));
            }
            for (name, level) in table.iter().filter(|(name, _)| *name != ALL) {
                if let Ok(lint) = registry.get(name) {
                    set(&mut rules, lint, *level);
                }
            }
        }
        if self.0.is_empty() {
            return rules;
        }
        let enabled: Vec<LintId> = rules.enabled().collect();
        for &lint in registry.lints() {
            let is_selected = self.selects(&lint.name());
            if !is_selected {
                rules.disable(lint);
            } else if !enabled.contains(&lint) {
                let severity = Severity::try_from(lint.default_level());
                rules.enable(lint, severity.unwrap_or(Severity::Warning), LintSource::Cli);
            }
        }
        rules
    }
}

fn set(rules: &mut RuleSelection, lint: LintId, level: Level) {
    let severity = match level {
        Level::Ignore => return rules.disable(lint),
        Level::Warn => Severity::Warning,
        Level::Error => Severity::Error,
    };
    rules.enable(lint, severity, LintSource::File);
}

/// The analysis by tables of a configuration. Lists are joined; of other values, later ones override
/// earlier ones.
fn analysis<'a>(tables: impl IntoIterator<Item = &'a Analysis>) -> Result<AnalysisSettings> {
    let mut settings = AnalysisSettings::default();
    let (mut unresolved, mut any) = (Vec::new(), Vec::new());
    for table in tables {
        let flags = [
            (&mut settings.strict_generic_narrowing, table.strict_generic_narrowing),
            (&mut settings.strict_equality_semantics, table.strict_equality_semantics),
            (&mut settings.respect_type_ignore_comments, table.respect_type_ignore_comments),
        ];
        for (flag, value) in flags {
            *flag = value.unwrap_or(*flag);
        }
        unresolved.extend(table.allowed_unresolved_imports.iter().flatten());
        any.extend(table.replace_imports_with_any.iter().flatten());
    }
    settings.allowed_unresolved_imports =
        ModuleGlobSet::from_patterns(unresolved).context("analysis.allowed-unresolved-imports")?;
    settings.replace_imports_with_any =
        ModuleGlobSet::from_patterns(any).context("analysis.replace-imports-with-any")?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::Files;

    fn settings(text: &str, select: &[&str]) -> Result<(Files, Settings)> {
        let files = Files::new(&[("ty.toml", text)]);
        let workspace = files.workspace();
        let project = Project::find(&workspace, &files.path(""), None)?;
        let select: Vec<String> = select.iter().map(|&code| code.to_owned()).collect();
        let settings = Settings::new(project, &workspace, &select)?;
        Ok((files, settings))
    }

    fn level(settings: &FileSettings, rule: &str) -> Option<Severity> {
        settings.rules.iter().find(|(lint, _)| lint.name() == rule).map(|(_, severity)| severity)
    }

    #[test]
    fn rules_have_the_configured_levels() {
        let rule = "invalid-argument-type";
        for (text, select, wanted) in [
            ("", vec![], Some(Severity::Error)),
            ("rules.invalid-argument-type = 'warn'", vec![], Some(Severity::Warning)),
            ("rules.invalid-argument-type = 'ignore'", vec![], None),
            ("rules.all = 'ignore'", vec![], None),
            (
                "[rules]\nall = 'ignore'\ninvalid-argument-type = 'warn'",
                vec![],
                Some(Severity::Warning),
            ),
            ("rules.all = 'ignore'", vec!["invalid-argument"], Some(Severity::Error)),
            ("rules.invalid-argument-type = 'warn'", vec!["invalid"], Some(Severity::Warning)),
            ("", vec!["unresolved"], None),
        ] {
            let (_files, settings) = settings(text, &select).unwrap();
            assert_eq!(level(&settings.base, rule), wanted, "{text} {select:?}");
        }
    }

    #[test]
    fn overrides_hold_for_their_files() {
        let text = "rules.all = 'warn'\n\
                    [[overrides]]\ninclude = ['tests']\nrules.unresolved-reference = 'ignore'\n\
                    analysis.allowed-unresolved-imports = ['a.**']\n\
                    [[overrides]]\ninclude = ['tests/x.py']\nrules.unresolved-reference = 'error'\n";
        let (files, settings) = settings(text, &[]).unwrap();
        for (path, wanted) in [
            ("a.py", Some(Severity::Warning)),
            ("tests/a.py", None),
            ("tests/x.py", Some(Severity::Error)),
        ] {
            let of_file = settings.of(&files.path(path));
            assert_eq!(level(&of_file, "unresolved-reference"), wanted, "{path}");
            assert_eq!(level(&of_file, "invalid-argument-type"), Some(Severity::Warning));
            let base = settings.base.analysis == of_file.analysis;
            assert_eq!(base, path == "a.py");
        }
        assert_eq!(*settings.of(SystemPath::new("/elsewhere/a.py")), *settings.base);
    }

    #[test]
    fn unusable_settings_are_refused_and_useless_ones_noted() {
        for (text, select) in [
            ("src.include = ['/abs']", vec![]),
            ("[[overrides]]\ninclude = ['..']", vec![]),
            ("[[overrides]]\nanalysis.allowed-unresolved-imports = ['']", vec![]),
            ("analysis.replace-imports-with-any = ['a..b']", vec![]),
            ("", vec!["E501"]),
        ] {
            assert!(settings(text, &select).is_err(), "{text} {select:?}");
        }
        let (_files, settings) =
            settings("rules.no-such-rule = 'warn'\nenvironment.home = '/'", &[]).unwrap();
        assert_eq!(settings.notes.len(), 2, "{:?}", settings.notes);
        assert!(settings.notes.iter().any(|note| note.contains("no-such-rule")));
    }

    #[test]
    fn missing_packages_are_findings_if_their_rule_is_named() {
        for (text, select, is_lenient) in [
            ("", vec![], true),
            ("rules.all = 'error'", vec![], true),
            ("rules.unresolved-import = 'warn'", vec![], false),
            ("", vec!["unresolved-import"], false),
            ("", vec!["unresolved"], true),
        ] {
            let (_files, settings) = settings(text, &select).unwrap();
            assert_eq!(settings.importable.is_some(), is_lenient, "{text} {select:?}");
        }
    }
}
