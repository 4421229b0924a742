//! Chooses the linters to run.
//!
//! The operator's choice has precedence over the agent's: a framework that an agent names means its
//! languages, and the operator's linters for these run. So the operator can replace linters without
//! changing agents. The framework itself runs if the operator chose it, or chose nothing. This
//! holds only for the [`FRAMEWORKS`]: another name means that linter itself, and if the operator
//! chose others, the error says how to choose it.

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
    /// Languages for which no linter was chosen.
    pub unchecked: Vec<Language>,
    /// Linters that the operator chose for languages that they do not support, with the reason why
    /// they can't run.
    pub unfit: Vec<(String, Error)>,
}

/// Chooses the linters for languages.
///
/// # Errors
/// `UnknownFramework`; `NothingToLint` if the framework supports none of the languages;
/// `LinterNotChosen` if the operator chose other linters than the framework and it is not one of
/// [`FRAMEWORKS`].
pub fn choose(
    framework: Option<&str>,
    present: &BTreeSet<Language>,
    available: &[Backend],
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
        let (linters, unfit) = linters(framework, language, available);
        if linters.is_empty() && unfit.is_empty() {
            choice.unchecked.push(language);
        }
        linters.into_iter().for_each(|linter| choice.add(linter, language));
        choice.unfit.extend(unfit);
    }
    if let Some(framework) = framework.filter(|name| !stands_for_others(name))
        && !choice.jobs.is_empty()
        && !choice.jobs.iter().any(|job| job.linter == framework)
    {
        return Err(not_chosen(framework, &choice));
    }
    let rank = |job: &Job| available.iter().position(|backend| backend.name == job.linter);
    choice.jobs.sort_by_key(rank);
    Ok(choice)
}

impl Choice {
    fn add(&mut self, linter: &Backend, language: Language) {
        match self.jobs.iter_mut().find(|job| job.linter == linter.name) {
            Some(job) => {
                job.languages.insert(language);
            }
            None => self.jobs.push(Job {
                linter: linter.name.clone(),
                languages: [language].into(),
                own: known(&linter.languages),
            }),
        }
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

fn not_chosen(framework: &str, choice: &Choice) -> ToolError {
    let jobs = choice.jobs.iter();
    let others: Vec<String> = jobs.map(|job| format!("'{}'", job.linter)).collect();
    let languages = choice.jobs.iter().flat_map(|job| &job.languages);
    let language = languages.map(|language| language.name()).next().unwrap_or("LANGUAGE");
    ToolError::unavailable(
        "LinterNotChosen",
        format!(
            "the operator chose other linters than '{framework}' for what is to be linted: {}; \
             without 'framework' those run, and '{framework}' as well once the settings say \
             [linters] {language} = [{}, '{framework}']",
            others.join(", "),
            others.join(", "),
        ),
    )
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

/// The linters for one language, in the operator's order, and those that do not support it, with
/// the reason.
fn linters<'a>(
    framework: Option<&str>,
    language: Language,
    available: &'a [Backend],
) -> (Vec<&'a Backend>, Vec<(String, Error)>) {
    let is_framework = |backend: &&Backend| Some(backend.name.as_str()) == framework;
    let (chosen, unfit) = chosen(language, available);
    if let Some(framework) = chosen.iter().copied().find(is_framework) {
        return (vec![framework], Vec::new());
    }
    if !chosen.is_empty() || !unfit.is_empty() {
        return (chosen, unfit);
    }
    let own = available.iter().filter(|backend| is_framework(backend) && is_for(backend, language));
    (own.collect(), Vec::new())
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

    /// The chosen linters with their languages, and the languages without one.
    fn shown(choice: &Choice) -> (Vec<(&str, Vec<Language>)>, Vec<Language>) {
        let jobs = choice
            .jobs
            .iter()
            .map(|job| (job.linter.as_str(), job.languages.iter().copied().collect()));
        (jobs.collect(), choice.unchecked.clone())
    }

    #[test]
    fn the_operators_choice_has_precedence() {
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
            (Some("pylint"), &default, vec![("ruff", vec![Python])], vec![]),
            (Some("eslint"), &default, vec![("deno_lint", both.clone())], vec![]),
            (Some("golangci-lint"), &default, vec![("golangci-lint", vec![Go])], vec![]),
            (Some("ruff"), &default, vec![("ruff", vec![Python])], vec![]),
            (Some("pylint"), &swapped, vec![("pylint", vec![Python])], vec![]),
            (Some("mypy"), &swapped, vec![("mypy", vec![Python])], vec![]),
            (
                Some("eslint"),
                &swapped,
                vec![("eslint", vec![TypeScript]), ("deno_lint", vec![JavaScript])],
                vec![],
            ),
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
        for framework in [None, Some("pylint")] {
            let choice = choose(framework, &[Python].into(), &available).unwrap();
            assert!(choice.jobs.is_empty() && choice.unfit.len() == 2, "{choice:?}");
        }
        let error = choose(Some("mipy"), &all(), &available).unwrap_err().to_string();
        assert!(error.starts_with("UnknownFramework") && !error.contains("mipy,"), "{error}");
    }

    #[test]
    fn a_named_linter_is_not_replaced() {
        let mut available =
            vec![backend("ruff", &["python"], &["python"]), backend("mypy", &["python"], &[])];
        let error = choose(Some("mypy"), &all(), &available).unwrap_err();
        assert_eq!(
            error.to_string(),
            "LinterNotChosen: the operator chose other linters than 'mypy' for what is to be \
             linted: 'ruff'; without 'framework' those run, and 'mypy' as well once the settings \
             say [linters] python = ['ruff', 'mypy']"
        );
        available[0].chosen_for.clear();
        let choice = choose(Some("mypy"), &all(), &available).unwrap();
        assert_eq!(shown(&choice).0, [("mypy", vec![Python])]);
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
