//! Which linters run.
//!
//! The operator's word beats the agent's: a framework that an agent names stands for its
//! languages, and the operator's linters for these run. So swapping linters changes nothing for
//! agents. The framework itself runs where the operator chose it, or chose nothing.

use std::collections::BTreeSet;

use cofferdam_sdk::ToolError;
use cofferdam_sdk::backend::available::linters::Backend;

use crate::language::Language;

/// The frameworks that agents may name whether or not there are backends of these names.
const FRAMEWORKS: [(&str, &[Language]); 3] = [
    ("golangci-lint", &[Language::Go]),
    ("eslint", &[Language::JavaScript, Language::TypeScript]),
    ("pylint", &[Language::Python]),
];

/// A linter that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The backend's name.
    pub linter: String,
    /// The languages that it runs for.
    pub languages: BTreeSet<Language>,
    /// All languages that it would look at.
    pub own: BTreeSet<Language>,
}

/// What runs, and what nothing runs for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// In the operator's order.
    pub jobs: Vec<Job>,
    /// Languages that no linter was chosen for.
    pub unchecked: Vec<Language>,
}

/// Chooses the linters for the languages that there are.
///
/// # Errors
/// `UnknownFramework`; `NothingToLint` where there is nothing that the framework could check.
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
        let linters = linters(framework, language, available);
        if linters.is_empty() {
            choice.unchecked.push(language);
        }
        for linter in linters {
            choice.add(linter, language);
        }
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

/// The languages that a framework stands for.
fn meant(framework: &str, available: &[Backend]) -> Result<BTreeSet<Language>, ToolError> {
    if let Some(backend) = available.iter().find(|backend| backend.name == framework) {
        return Ok(known(&backend.languages));
    }
    if let Some((_, languages)) = FRAMEWORKS.iter().find(|(name, _)| *name == framework) {
        return Ok(languages.iter().copied().collect());
    }
    let mut names: Vec<&str> = available.iter().map(|backend| backend.name.as_str()).collect();
    names.extend(FRAMEWORKS.iter().map(|(name, _)| *name));
    names.sort_unstable();
    names.dedup();
    Err(ToolError::invalid_args(
        "UnknownFramework",
        format!("unknown framework '{framework}'; there are {}", names.join(", ")),
    ))
}

/// The linters for one language, in the operator's order.
fn linters<'a>(
    framework: Option<&str>,
    language: Language,
    available: &'a [Backend],
) -> Vec<&'a Backend> {
    let is_framework = |backend: &&Backend| Some(backend.name.as_str()) == framework;
    let holds = |names: &[String]| names.iter().any(|name| name == language.name());
    let chosen: Vec<&Backend> =
        available.iter().filter(|backend| holds(&backend.chosen_for)).collect();
    if let Some(framework) = chosen.iter().copied().find(|backend| is_framework(backend)) {
        return vec![framework];
    }
    if !chosen.is_empty() {
        return chosen;
    }
    available.iter().filter(|backend| is_framework(backend) && holds(&backend.languages)).collect()
}

fn known(names: &[String]) -> BTreeSet<Language> {
    names.iter().filter_map(|name| Language::named(name)).collect()
}

/// Languages in words.
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
    fn the_operators_word_beats_the_agents() {
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
    fn what_can_not_be_chosen_is_refused() {
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
