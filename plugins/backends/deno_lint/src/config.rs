//! Reads the configuration: `deno.json` or `deno.jsonc` in the directories above a file.
//!
//! The nearest file with a `lint` section determines the rules; exclusions of all files apply.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::{Context, WorkspacePath};
use deno_lint::linter::{LintConfig, Linter, LinterOptions};
use deno_lint::rules::{LintRule, filtered_rules, get_all_rules};
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde::Deserialize;

use crate::invalid;
use crate::pattern::Patterns;

/// The file names of configurations, in order of precedence.
const NAMES: [&str; 2] = ["deno.json", "deno.jsonc"];

/// The tag of the rules that Deno checks by default.
const RECOMMENDED: &str = "recommended";

/// The fields of a configuration that affect linting.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Document {
    lint: Option<Lint>,
    exclude: Vec<String>,
    compiler_options: Option<CompilerOptions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Lint {
    rules: Rules,
    include: Option<Vec<String>>,
    exclude: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Rules {
    tags: Option<Vec<String>>,
    include: Option<Vec<String>>,
    exclude: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CompilerOptions {
    jsx: Option<String>,
    jsx_factory: Option<String>,
    jsx_fragment_factory: Option<String>,
}

/// The settings for linting a file.
pub struct Settings {
    /// The linter, shared by all files with the same rules.
    pub linter: Rc<Linter>,
    /// How JSX is compiled.
    pub jsx: LintConfig,
    include: Option<Rc<Patterns>>,
    exclude: Vec<Rc<Patterns>>,
}

impl Settings {
    /// Whether a file in a directory of the request is linted.
    pub fn includes(&self, file: &str) -> bool {
        self.include.as_ref().is_none_or(|patterns| patterns.matches(file))
    }

    /// Whether a file is never linted.
    pub fn excludes(&self, file: &str) -> bool {
        self.exclude.iter().any(|patterns| patterns.matches(file))
    }
}

/// The settings of all directories. Each configuration is read once.
pub struct Hierarchy<'a> {
    context: &'a Context,
    base: Rc<Settings>,
    /// `None` if the request names a configuration, which then applies to all files.
    by_directory: Option<HashMap<String, Rc<Settings>>>,
    /// Whether the request selects the rules.
    are_rules_chosen: bool,
}

impl<'a> Hierarchy<'a> {
    /// Uses `config` for all files if given, and only the rules `select` if not empty.
    ///
    /// # Errors
    /// `Invalid` if the configuration or a code is invalid.
    pub fn load(
        context: &'a Context,
        config: Option<&WorkspacePath>,
        select: &[String],
    ) -> Result<Self, Error> {
        let rules = if select.is_empty() {
            Rules::default().choose()
        } else {
            selected(select).map_err(Error::Invalid)?
        };
        let base = Rc::new(Settings {
            linter: Rc::new(linter(rules)),
            jsx: CompilerOptions::default().jsx(),
            include: None,
            exclude: Vec::new(),
        });
        let mut hierarchy = Self {
            context,
            base,
            by_directory: Some(HashMap::new()),
            are_rules_chosen: !select.is_empty(),
        };
        if let Some(config) = config {
            let text = context.read_text(config).map_err(invalid)?;
            let settings = hierarchy.settings(config, &text, &hierarchy.base)?;
            hierarchy.base = Rc::new(settings);
            hierarchy.by_directory = None;
        }
        Ok(hierarchy)
    }

    /// The settings of a file.
    ///
    /// # Errors
    /// `Invalid` if a configuration is invalid.
    pub fn of(&mut self, file: &WorkspacePath) -> Result<Rc<Settings>, Error> {
        let Some(known) = &self.by_directory else {
            return Ok(Rc::clone(&self.base));
        };
        let directory = directory_of(file.as_str());
        if let Some(settings) = known.get(directory) {
            return Ok(Rc::clone(settings));
        }
        let mut settings = Rc::clone(&self.base);
        let above = file.as_str().match_indices('/').map(|(end, _)| &file.as_str()[..end]);
        for directory in std::iter::once("").chain(above) {
            settings = self.of_directory(directory, settings)?;
        }
        Ok(settings)
    }

    /// The settings of a directory, given those of its parent.
    fn of_directory(
        &mut self,
        directory: &str,
        above: Rc<Settings>,
    ) -> Result<Rc<Settings>, Error> {
        if let Some(known) = self.by_directory.as_ref().and_then(|known| known.get(directory)) {
            return Ok(Rc::clone(known));
        }
        let settings = match self.read(directory)? {
            Some((path, text)) => Rc::new(self.settings(&path, &text, &above)?),
            None => above,
        };
        if let Some(known) = &mut self.by_directory {
            known.insert(directory.to_owned(), Rc::clone(&settings));
        }
        Ok(settings)
    }

    /// Reads the configuration in a directory, if there is one.
    fn read(&self, directory: &str) -> Result<Option<(WorkspacePath, String)>, Error> {
        for name in NAMES {
            let path = match directory {
                "" => name.to_owned(),
                directory => format!("{directory}/{name}"),
            };
            let path = self.context.resolve(&path).map_err(invalid)?;
            // Most directories have none; this check is faster than a failing read.
            if self.context.local(&path).is_file() {
                let text = self.context.read_text(&path).map_err(invalid)?;
                return Ok(Some((path, text)));
            }
        }
        Ok(None)
    }

    fn settings(
        &self,
        path: &WorkspacePath,
        text: &str,
        above: &Settings,
    ) -> Result<Settings, Error> {
        let document = parse(text).map_err(|error| Error::Invalid(format!("{path}: {error}")))?;
        let directory = directory_of(path.as_str());
        let patterns = |key: &str, patterns: &[String]| {
            Patterns::new(patterns, directory, self.context)
                .map(Rc::new)
                .map_err(|error| Error::Invalid(format!("{path}: {key}: {error}")))
        };
        let mut settings = Settings {
            linter: Rc::clone(&above.linter),
            jsx: document.compiler_options.map_or_else(|| above.jsx.clone(), CompilerOptions::jsx),
            include: above.include.clone(),
            exclude: above.exclude.clone(),
        };
        settings.exclude.push(patterns("exclude", &document.exclude)?);
        if let Some(lint) = document.lint {
            settings.exclude.push(patterns("lint.exclude", &lint.exclude)?);
            settings.include = match &lint.include {
                Some(include) => Some(patterns("lint.include", include)?),
                None => None,
            };
            if !self.are_rules_chosen {
                settings.linter = Rc::new(linter(lint.rules.choose()));
            }
        }
        Ok(settings)
    }
}

fn parse(text: &str) -> Result<Document, String> {
    // An empty file has no value, which is allowed.
    let strict = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        ..ParseOptions::default()
    };
    parse_to_serde_value::<Option<Document>>(text, &strict)
        .map(Option::unwrap_or_default)
        .map_err(|error| error.to_string())
}

fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

impl Rules {
    fn choose(self) -> Vec<Box<dyn LintRule>> {
        let tags = self.tags.unwrap_or_else(|| vec![RECOMMENDED.to_owned()]);
        filtered_rules(get_all_rules(), Some(tags), self.exclude, self.include)
    }
}

impl CompilerOptions {
    /// Deno's default: JSX calls React, which uses the import of that name.
    fn jsx(self) -> LintConfig {
        if matches!(self.jsx.as_deref(), Some("react-jsx" | "react-jsxdev" | "precompile")) {
            return LintConfig { default_jsx_factory: None, default_jsx_fragment_factory: None };
        }
        let or = |given: Option<String>, default: &str| given.or_else(|| Some(default.to_owned()));
        LintConfig {
            default_jsx_factory: or(self.jsx_factory, "React.createElement"),
            default_jsx_fragment_factory: or(self.jsx_fragment_factory, "React.Fragment"),
        }
    }
}

/// The rules whose names are in `select` or begin with a name in it.
fn selected(select: &[String]) -> Result<Vec<Box<dyn LintRule>>, String> {
    let all = get_all_rules();
    let codes: HashSet<&str> = all.iter().map(|rule| rule.code()).collect();
    for wanted in select {
        if wanted.is_empty() || !codes.iter().any(|code| code.starts_with(wanted.as_str())) {
            return Err(format!(
                "select: deno_lint has no rule '{wanted}', and none that begins so"
            ));
        }
    }
    let is_selected = |code: &str| {
        select.iter().any(|wanted| {
            code == wanted
                || (code.starts_with(wanted.as_str()) && !codes.contains(wanted.as_str()))
        })
    };
    let chosen: HashSet<&str> = codes.iter().copied().filter(|code| is_selected(code)).collect();
    Ok(all.into_iter().filter(|rule| chosen.contains(rule.code())).collect())
}

fn linter(rules: Vec<Box<dyn LintRule>>) -> Linter {
    Linter::new(LinterOptions {
        rules,
        all_rule_codes: get_all_rules().iter().map(|rule| rule.code().into()).collect(),
        custom_ignore_file_directive: None,
        custom_ignore_diagnostic_directive: None,
    })
}
