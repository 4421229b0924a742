//! Chooses the linters to run: the one that the agent names; or else the one that the project
//! configures; or else those that the operator chose.
//!
//! One that is named or configured may be missing here. The operator's linters stand in for it then,
//! and a note says so. This holds for the [`FRAMEWORKS`] only: another name means that linter itself.

use std::collections::BTreeSet;

use cofferdam_sdk::ToolError;
use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::linters::Backend;

use crate::language::Language;

/// The frameworks that agents may name even if no backend has the name.
const FRAMEWORKS: [(&str, &[Language]); 3] = [
    ("golangci-lint", &[Language::Go]),
    ("eslint", &[Language::JavaScript, Language::TypeScript]),
    ("pylint", &[Language::Python]),
];

/// A linter to run, with its languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The name of the backend.
    pub linter: String,
    /// The languages that it runs for.
    pub languages: BTreeSet<Language>,
    /// All languages that it checks in a directory.
    pub own: BTreeSet<Language>,
}

/// The result of choosing: linters, and languages without one.
#[derive(Debug, Default)]
pub struct Choice {
    /// The linters to run, in the operator's order.
    pub jobs: Vec<Job>,
    /// The operator's linters that run where another one can't.
    pub stand_ins: Vec<StandIn>,
    /// Which linters stood in for others, and why.
    pub notes: Vec<String>,
    /// Languages for which no linter was chosen.
    pub unchecked: Vec<Language>,
    /// Linters that the operator chose for languages that they do not support, with the reason why
    /// they can't run.
    pub unfit: Vec<(String, Error)>,
}

/// The operator's linters for one that the agent named or the project configures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    /// The linter that may be unable to run.
    pub linter: String,
    /// The configuration file of the project; empty: the agent named the linter.
    pub configured: String,
    /// Those that run in its place.
    pub jobs: Vec<Job>,
}

/// A linter that a project configures for a language, and its configuration file.
pub type Configured<'a> = &'a dyn Fn(Language) -> Option<(&'static str, String)>;

/// Chooses the linters for languages.
///
/// # Errors
/// `UnknownFramework`; `NothingToLint` if the framework supports none of the languages.
pub fn choose(
    framework: Option<&str>,
    present: &BTreeSet<Language>,
    available: &[Backend],
    configured: Configured,
) -> Result<Choice, ToolError> {
    let languages = match framework {
        Some(framework) => present.intersection(&meant(framework, available)?).copied().collect(),
        None => present.clone(),
    };
    if languages.is_empty() {
        let what = framework.map_or(String::new(), |framework| format!(" for {framework}"));
        return Err(ToolError::not_found(
            "NothingToLint",
            format!("there is nothing to lint{what}: found {}", listed(present)),
        ));
    }
    let mut choice = Choice::default();
    for language in languages {
        let wanted = match framework {
            Some(framework) => Some((framework, String::new())),
            None => configured(language),
        };
        choice.add_language(language, wanted, available);
    }
    let rank = |job: &Job| available.iter().position(|backend| backend.name == job.linter);
    choice.jobs.sort_by_key(rank);
    Ok(choice)
}

impl Choice {
    /// Adds the linters for a language: the `wanted` one, with its configuration file, or those that
    /// the operator chose.
    fn add_language(
        &mut self,
        language: Language,
        wanted: Option<(&str, String)>,
        available: &[Backend],
    ) {
        let (chosen, unfit) = chosen(language, available);
        let is_chosen = |name: &str| chosen.iter().any(|backend| backend.name == name);
        let found = wanted.as_ref().and_then(|(name, _)| provider(name, language, available));
        match (&wanted, found) {
            // The operator's choice includes what the project configures.
            (Some((_, file)), Some(found)) if !file.is_empty() && is_chosen(&found.name) => {}
            (Some((name, file)), Some(found)) => {
                if !chosen.is_empty()
                    && !is_chosen(&found.name)
                    && (stands_for_others(name) || !file.is_empty())
                {
                    self.add_stand_in(found, file, language, &chosen);
                }
                add(&mut self.jobs, found, language);
                return;
            }
            (Some((name, file)), None) if !chosen.is_empty() => {
                let names: Vec<&str> = chosen.iter().map(|backend| backend.name.as_str()).collect();
                let why = why_wanted(name, file);
                self.notes.push(format!(
                    "{why}, but there is no such linter for {} here: {} stood in for it",
                    language.name(),
                    names.join(", ")
                ));
            }
            _ => {}
        }
        if chosen.is_empty() && unfit.is_empty() {
            self.unchecked.push(language);
        }
        chosen.into_iter().for_each(|linter| add(&mut self.jobs, linter, language));
        self.unfit.extend(unfit);
    }

    fn add_stand_in(
        &mut self,
        found: &Backend,
        file: &str,
        language: Language,
        chosen: &[&Backend],
    ) {
        let of = |known: &StandIn| known.linter == found.name;
        let at = self.stand_ins.iter().position(of).unwrap_or_else(|| {
            let linter = found.name.clone();
            self.stand_ins.push(StandIn { linter, configured: file.to_owned(), jobs: Vec::new() });
            self.stand_ins.len() - 1
        });
        chosen.iter().for_each(|linter| add(&mut self.stand_ins[at].jobs, linter, language));
    }
}

fn add(jobs: &mut Vec<Job>, linter: &Backend, language: Language) {
    match jobs.iter_mut().find(|job| job.linter == linter.name) {
        Some(job) => {
            job.languages.insert(language);
        }
        None => jobs.push(Job {
            linter: linter.name.clone(),
            languages: [language].into(),
            own: known(&linter.languages),
        }),
    }
}

/// The backend for a linter's name; one that runs the native program has a name of its own. One that
/// the operator chose has precedence.
fn provider<'a>(name: &str, language: Language, available: &'a [Backend]) -> Option<&'a Backend> {
    let native = format!("native-{name}");
    let named = |name: &str| {
        available.iter().find(|backend| backend.name == name && is_for(backend, language))
    };
    let is_chosen = |backend: &&Backend| backend.chosen_for.iter().any(|it| it == language.name());
    let both = [named(name), named(&native)];
    both.into_iter().flatten().find(is_chosen).or(both.into_iter().flatten().next())
}

/// Why a linter was to run.
pub fn why_wanted(name: &str, file: &str) -> String {
    if file.is_empty() {
        format!("'{name}' was named")
    } else {
        format!("{file} configures '{name}'")
    }
}

/// Whether a framework's name means any linter for its languages.
fn stands_for_others(framework: &str) -> bool {
    FRAMEWORKS.iter().any(|(name, _)| *name == framework)
}

/// Whether a linter supports a language.
fn is_for(linter: &Backend, language: Language) -> bool {
    linter.languages.iter().any(|name| name == language.name())
}

/// The operator's linters for a language, in the operator's order, and the chosen ones that do not
/// support it, with the reason.
pub fn chosen(language: Language, available: &[Backend]) -> (Vec<&Backend>, Vec<(String, Error)>) {
    let is_chosen =
        |backend: &&Backend| backend.chosen_for.iter().any(|name| name == language.name());
    let (fit, unfit): (Vec<&Backend>, Vec<&Backend>) =
        available.iter().filter(is_chosen).partition(|backend| is_for(backend, language));
    let why = |backend: &Backend| (backend.name.clone(), unfit_for(language, backend, available));
    (fit, unfit.into_iter().map(why).collect())
}

fn unfit_for(language: Language, chosen: &Backend, available: &[Backend]) -> Error {
    let there = available.iter().filter(|backend| is_for(backend, language));
    let mut there: Vec<&str> = there.map(|backend| backend.name.as_str()).collect();
    there.sort_unstable();
    let (language, name) = (language.name(), &chosen.name);
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Error::Unavailable(format!(
        "the setting linters.{language} names '{name}', which is no linter for {language} here; \
         there are: {there}"
    ))
}

/// The languages that a framework means.
fn meant(framework: &str, available: &[Backend]) -> Result<BTreeSet<Language>, ToolError> {
    let there = || available.iter().filter(|backend| !backend.languages.is_empty());
    if let Some(backend) = there().find(|backend| backend.name == framework) {
        return Ok(known(&backend.languages));
    }
    if let Some((_, languages)) = FRAMEWORKS.iter().find(|(name, _)| *name == framework) {
        return Ok(languages.iter().copied().collect());
    }
    let mut names: Vec<&str> = there().map(|backend| backend.name.as_str()).collect();
    names.extend(FRAMEWORKS.iter().map(|(name, _)| *name));
    names.sort_unstable();
    names.dedup();
    Err(ToolError::invalid_args(
        "UnknownFramework",
        format!("unknown framework '{framework}'; there are {}", names.join(", ")),
    ))
}

fn known(names: &[String]) -> BTreeSet<Language> {
    names.iter().filter_map(|name| Language::named(name)).collect()
}

/// Joins the names of languages for a message.
pub fn listed<'a>(languages: impl IntoIterator<Item = &'a Language>) -> String {
    let names: Vec<&str> = languages.into_iter().map(|language| language.name()).collect();
    if names.is_empty() { "no source files".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::backend;
    use Language::{Go, JavaScript, Python, Rust, TypeScript};

    fn all() -> BTreeSet<Language> {
        [Go, JavaScript, TypeScript, Python, Rust].into()
    }

    /// Chooses for a project without a configuration.
    fn choose(
        framework: Option<&str>,
        present: &BTreeSet<Language>,
        available: &[Backend],
    ) -> Result<Choice, ToolError> {
        super::choose(framework, present, available, &|_| None)
    }

    /// The chosen linters with their languages, and the languages without one.
    fn shown(choice: &Choice) -> (Vec<(&str, Vec<Language>)>, Vec<Language>) {
        let jobs = choice
            .jobs
            .iter()
            .map(|job| (job.linter.as_str(), job.languages.iter().copied().collect()));
        (jobs.collect(), choice.unchecked.clone())
    }

    #[test]
    fn a_named_linter_runs_and_otherwise_those_that_the_operator_chose() {
        let script = ["javascript", "typescript"];
        let default = [
            backend("ruff", &["python"], &["python"]),
            backend("deno_lint", &script, &script),
            backend("pylint", &["python"], &[]),
            backend("golangci-lint", &["go"], &[]),
        ];
        let swapped = [
            backend("mypy", &["python"], &["python"]),
            backend("pylint", &["python"], &["python"]),
            backend("eslint", &script, &["typescript"]),
            backend("deno_lint", &script, &["javascript"]),
        ];
        let both = vec![JavaScript, TypeScript];
        for (framework, available, jobs, unchecked) in [
            (
                None,
                default.as_slice(),
                vec![("ruff", vec![Python]), ("deno_lint", both.clone())],
                vec![Go, Rust],
            ),
            (Some("pylint"), &default, vec![("pylint", vec![Python])], vec![]),
            (Some("eslint"), &default, vec![("deno_lint", both.clone())], vec![]),
            (Some("golangci-lint"), &default, vec![("golangci-lint", vec![Go])], vec![]),
            (Some("ruff"), &default, vec![("ruff", vec![Python])], vec![]),
            (Some("pylint"), &swapped, vec![("pylint", vec![Python])], vec![]),
            (Some("mypy"), &swapped, vec![("mypy", vec![Python])], vec![]),
            (Some("eslint"), &swapped, vec![("eslint", vec![JavaScript, TypeScript])], vec![]),
            (Some("golangci-lint"), &swapped, vec![], vec![Go]),
            (
                None,
                &swapped,
                vec![
                    ("mypy", vec![Python]),
                    ("pylint", vec![Python]),
                    ("eslint", vec![TypeScript]),
                    ("deno_lint", vec![JavaScript]),
                ],
                vec![Go, Rust],
            ),
        ] {
            let choice = choose(framework, &all(), available).unwrap();
            assert_eq!(shown(&choice), (jobs, unchecked), "{framework:?}");
        }
    }

    #[test]
    fn linters_that_do_not_support_the_language_are_reported() {
        let mut available = vec![
            backend("mipy", &[], &["python"]),
            backend("ruff", &["python"], &["python"]),
            backend("deno_lint", &["javascript"], &["javascript", "python"]),
            backend("pylint", &["python"], &[]),
        ];
        let choice = choose(None, &[Python, JavaScript].into(), &available).unwrap();
        let (jobs, unchecked) = shown(&choice);
        assert_eq!(jobs, [("ruff", vec![Python]), ("deno_lint", vec![JavaScript])]);
        assert!(unchecked.is_empty());
        let said = |choice: &Choice| -> Vec<String> {
            let why = |(name, error): &(String, Error)| {
                format!("{name}: {}", crate::failure::reason(error))
            };
            choice.unfit.iter().map(why).collect()
        };
        let wanted = |name: &str| {
            format!(
                "{name}: the setting linters.python names '{name}', which is no linter for python \
                 here; there are: pylint, ruff"
            )
        };
        assert_eq!(said(&choice), [wanted("mipy"), wanted("deno_lint")]);
        available.remove(1);
        let choice = choose(None, &[Python].into(), &available).unwrap();
        assert!(choice.jobs.is_empty() && choice.unfit.len() == 2, "{choice:?}");
        let choice = choose(Some("pylint"), &[Python].into(), &available).unwrap();
        assert_eq!(shown(&choice).0, [("pylint", vec![Python])]);
        let error = choose(Some("mipy"), &all(), &available).unwrap_err().to_string();
        assert!(error.starts_with("UnknownFramework") && !error.contains("mipy,"), "{error}");
    }

    #[test]
    fn the_operators_linters_stand_in_for_frameworks_only() {
        let available = vec![
            backend("ruff", &["python"], &["python"]),
            backend("deno_lint", &["javascript", "typescript"], &["javascript", "typescript"]),
            backend("mypy", &["python"], &[]),
            backend("pylint", &["python"], &[]),
        ];
        let choice = choose(Some("mypy"), &all(), &available).unwrap();
        assert_eq!(shown(&choice).0, [("mypy", vec![Python])]);
        assert!(choice.stand_ins.is_empty());
        let choice = choose(Some("pylint"), &all(), &available).unwrap();
        assert_eq!(shown(&choice).0, [("pylint", vec![Python])]);
        let [stand_in] = choice.stand_ins.as_slice() else { unreachable!("{choice:?}") };
        assert_eq!(
            (stand_in.linter.as_str(), stand_in.jobs[0].linter.as_str()),
            ("pylint", "ruff")
        );
        let choice = choose(Some("eslint"), &[JavaScript].into(), &available).unwrap();
        assert_eq!(shown(&choice).0, [("deno_lint", vec![JavaScript])]);
        assert_eq!(
            choice.notes,
            [
                "'eslint' was named, but there is no such linter for javascript here: deno_lint stood \
              in for it"
            ]
        );
    }

    #[test]
    fn the_projects_configuration_picks_the_linter() {
        let script = ["javascript", "typescript"];
        let mut available = vec![
            backend("ruff", &["python"], &["python"]),
            backend("deno_lint", &script, &script),
            backend("native-eslint", &script, &[]),
        ];
        let configured = |language: Language| match language {
            JavaScript | TypeScript => Some(("eslint", "eslint.config.js".to_owned())),
            Python => Some(("pylint", ".pylintrc".to_owned())),
            _ => None,
        };
        let present = [JavaScript, TypeScript, Python].into();
        let choose =
            |available: &[Backend]| super::choose(None, &present, available, &configured).unwrap();
        let choice = choose(&available);
        let both = vec![JavaScript, TypeScript];
        assert_eq!(shown(&choice).0, [("ruff", vec![Python]), ("native-eslint", both.clone())]);
        assert_eq!(
            choice.notes,
            [".pylintrc configures 'pylint', but there is no such linter for python here: ruff \
              stood in for it"]
        );
        assert_eq!(choice.stand_ins[0].configured, "eslint.config.js");
        assert_eq!(choice.stand_ins[0].jobs[0].languages, both.iter().copied().collect());
        // If the operator chose it, all chosen ones run.
        available[2].chosen_for = script.map(str::to_owned).into();
        let choice = choose(&available);
        assert_eq!(
            shown(&choice).0,
            [("ruff", vec![Python]), ("deno_lint", both.clone()), ("native-eslint", both)]
        );
        assert!(choice.stand_ins.is_empty());
    }

    #[test]
    fn invalid_choices_are_refused() {
        let available =
            [backend("ruff", &["python"], &["python"]), backend("clippy", &["rust"], &[])];
        for (framework, present, wanted) in [
            (
                Some("oxlint"),
                all(),
                "UnknownFramework: unknown framework 'oxlint'; there are clippy, eslint, \
                 golangci-lint, pylint, ruff",
            ),
            (
                Some("eslint"),
                [Go, Python].into(),
                "NothingToLint: there is nothing to lint for eslint: found go, python",
            ),
            (
                None,
                BTreeSet::new(),
                "NothingToLint: there is nothing to lint: found no source files",
            ),
        ] {
            let error = choose(framework, &present, &available).unwrap_err();
            assert_eq!(error.to_string(), wanted);
        }
    }
}
