//! Which backends are used, and where native programs are.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{PolicyError, ProgramSettings, Settings};

/// The default linters by language.
const LINTERS: &[(&str, &str)] = &[
    ("go", "golangci-lint"),
    ("javascript", "deno_lint"),
    ("python", "ruff"),
    ("rust", "clippy"),
    ("typescript", "deno_lint"),
];

/// Which backends the operator prefers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choices {
    linters: BTreeMap<String, Vec<String>>,
    test_runners: Option<Vec<String>>,
    builders: Option<Vec<String>>,
}

impl Default for Choices {
    fn default() -> Self {
        let linters = LINTERS
            .iter()
            .map(|&(language, linter)| (language.to_owned(), vec![linter.to_owned()]));
        Self { linters: linters.collect(), test_runners: None, builders: None }
    }
}

impl Choices {
    /// Overrides these choices with the operator's settings.
    #[must_use]
    pub(super) fn with(mut self, settings: &Settings) -> Self {
        let linters = settings.linters.clone().into_iter();
        self.linters.extend(linters.map(|(language, chosen)| (language, chosen.into_names())));
        self.test_runners = settings.test_runners.clone().or(self.test_runners);
        self.builders = settings.builders.clone().or(self.builders);
        self
    }

    /// The chosen linters by language, each in the operator's order.
    pub fn linters(&self) -> &BTreeMap<String, Vec<String>> {
        &self.linters
    }

    /// The test runners to use, in order; `None` for all.
    pub fn test_runners(&self) -> Option<&[String]> {
        self.test_runners.as_deref()
    }

    /// The builders to use, in order; `None` for all.
    pub fn builders(&self) -> Option<&[String]> {
        self.builders.as_deref()
    }
}

/// Puts the settings of a later layer before those of an earlier one.
///
/// # Errors
/// Returns an error if a path is not absolute.
pub(super) fn with_programs(
    earlier: ProgramSettings,
    later: &ProgramSettings,
) -> Result<ProgramSettings, PolicyError> {
    let joined = |key, later: &[PathBuf], earlier: Vec<PathBuf>| {
        if let Some(relative) = later.iter().find(|path| !path.is_absolute()) {
            return Err(PolicyError {
                place: format!("programs.{key}"),
                message: format!("'{}' is not absolute", relative.display()),
            });
        }
        Ok(later.iter().cloned().chain(earlier).collect())
    };
    Ok(ProgramSettings {
        path: joined("path", &later.path, earlier.path)?,
        readable: joined("readable", &later.readable, earlier.readable)?,
        tier: later.tier.or(earlier.tier),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use crate::policy::{Policy, Settings};

    fn policy(layers: &[&str]) -> Result<Policy, String> {
        let layers: Vec<_> = layers.iter().map(|layer| Settings::parse(layer).unwrap()).collect();
        Policy::new(&layers).map_err(|error| error.to_string())
    }

    #[test]
    fn one_line_swaps_a_linter() {
        let linters = |layers: &[&str], language| {
            policy(layers).unwrap().choices().linters().get(language).cloned().unwrap_or_default()
        };
        assert_eq!(linters(&[], "python"), ["ruff"]);
        assert_eq!(linters(&["[linters]\npython = 'pyflakes'"], "python"), ["pyflakes"]);
        let two = "[linters]\npython = ['native-ruff', 'mypy']";
        assert_eq!(
            linters(&["[linters]\npython = 'pyflakes'", two], "python"),
            ["native-ruff", "mypy"]
        );
        assert_eq!(linters(&[two], "typescript"), ["deno_lint"]);
        assert!(linters(&["[linters]\ngo = []"], "go").is_empty());
    }

    #[test]
    fn program_directories_are_merged_and_absolute() {
        let policy_of = policy(&[
            "[programs]\npath = ['/opt/a/bin']\ntier = 'B'",
            "test-runners = ['pytest']\n[programs]\npath = ['/opt/b/bin']\nreadable = ['/opt/b']",
        ])
        .unwrap();
        let programs = policy_of.programs();
        assert_eq!(programs.path, ["/opt/b/bin", "/opt/a/bin"].map(std::path::PathBuf::from));
        assert!(programs.tier.is_some());
        assert_eq!(policy_of.choices().test_runners(), Some(&["pytest".to_owned()][..]));
        let error = policy(&["[programs]\npath = ['bin']"]).unwrap_err();
        assert_eq!(error, "programs.path: 'bin' is not absolute");
    }
}
