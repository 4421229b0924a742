//! Chooses what checks types in `lint_backend`: mypy, or ty, which starts no program.
//!
//! If the operator chose one of them or both for Python, these run, and nothing else. By default mypy
//! runs, and ty stands in for it where it can't run at all.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::linters::Backend;
use cofferdam_sdk::backend::linting::Report;
use cofferdam_sdk::shorten;

use crate::failure;

/// The type checker that is a program of its own.
pub const MYPY: &str = "mypy";
/// The type checker that runs inside an instance.
pub const TY: &str = "ty";

/// How a line of a linter's output begins that says what it did not check.
const NOT_CHECKED: &str = "not checked: ";

/// The maximum size of a reason in a note, in bytes.
const MAX_REASON_BYTES: usize = 300;

/// The type checkers of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeCheckers {
    /// Those that have to run.
    pub wanted: Vec<&'static str>,
    /// Whether ty runs if mypy can't.
    pub has_stand_in: bool,
    /// Which one does not run, and why.
    pub note: Option<String>,
}

/// Chooses among the linters that there are; `chosen` are those of the operator.
pub fn choose(chosen: &[&Backend], available: &[Backend]) -> TypeCheckers {
    let is_chosen = |name: &&str| chosen.iter().any(|backend| backend.name == *name);
    let wanted: Vec<&str> = [MYPY, TY].into_iter().filter(is_chosen).collect();
    if wanted.is_empty() {
        let has_stand_in = available.iter().any(|backend| is_usable(backend, TY));
        return TypeCheckers { wanted: vec![MYPY], has_stand_in, note: None };
    }
    let only_ty = wanted == [TY];
    let note =
        only_ty.then(|| "ty checked the types: the operator chose it, and not mypy".to_owned());
    TypeCheckers { wanted, has_stand_in: false, note }
}

/// Whether a linter has this name, and can be used for any language here.
pub fn is_usable(backend: &Backend, name: &str) -> bool {
    backend.name == name && !backend.languages.is_empty()
}

/// Why ty has to stand in for mypy: mypy can't run at all. A configuration that mypy refuses is no
/// reason.
pub fn missing(failures: &[(String, Error)]) -> Option<&Error> {
    let of_mypy = failures.iter().find(|(name, _)| name == MYPY);
    of_mypy.map(|(_, error)| error).filter(|error| matches!(error, Error::Unavailable(_)))
}

/// The note that ty stood in for mypy.
pub fn stood_in(why: &Error) -> String {
    let reason = failure::reason(why).lines().next().unwrap_or_default();
    format!("ty stood in for mypy: {}", shorten(reason, MAX_REASON_BYTES))
}

/// What a report says was not checked.
pub fn unchecked(report: &Report) -> impl Iterator<Item = String> {
    let lines = report.raw.lines().filter(|line| line.starts_with(NOT_CHECKED));
    lines.map(|line| shorten(line, MAX_REASON_BYTES).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{backend, report};

    #[test]
    fn the_operators_choice_is_final_and_ty_stands_in_otherwise() {
        let all = |chosen_mypy: bool, chosen_ty: bool| {
            let chosen_for = |is_chosen| if is_chosen { &["python"][..] } else { &[] };
            vec![
                backend("ruff", &["python"], &["python"]),
                backend(MYPY, &["python"], chosen_for(chosen_mypy)),
                backend(TY, &["python"], chosen_for(chosen_ty)),
            ]
        };
        for (available, wanted, has_stand_in, has_note) in [
            (all(false, false), vec![MYPY], true, false),
            (all(true, false), vec![MYPY], false, false),
            (all(false, true), vec![TY], false, true),
            (all(true, true), vec![MYPY, TY], false, false),
            (all(false, false)[..2].to_vec(), vec![MYPY], false, false),
            (vec![backend(TY, &[], &["python"])], vec![TY], false, true),
        ] {
            let chosen: Vec<&Backend> =
                available.iter().filter(|backend| !backend.chosen_for.is_empty()).collect();
            let checkers = choose(&chosen, &available);
            assert_eq!((&checkers.wanted, checkers.has_stand_in), (&wanted, has_stand_in));
            assert_eq!(checkers.note.is_some(), has_note, "{checkers:?}");
        }
    }

    #[test]
    fn only_a_mypy_that_is_not_there_is_replaced() {
        let failure = |name: &str, error| (name.to_owned(), error);
        let unavailable = || Error::Unavailable("there is no program 'mypy'\nmore".to_owned());
        for (failures, is_missing) in [
            (vec![], false),
            (vec![failure("ruff", unavailable())], false),
            (vec![failure("ruff", unavailable()), failure(MYPY, unavailable())], true),
            (vec![failure(MYPY, Error::Invalid("mypy.ini".to_owned()))], false),
            (vec![failure(MYPY, Error::Limit("slow".to_owned()))], false),
        ] {
            assert_eq!(missing(&failures).is_some(), is_missing, "{failures:?}");
        }
        assert_eq!(stood_in(&unavailable()), "ty stood in for mypy: there is no program 'mypy'");
    }

    #[test]
    fn what_a_report_leaves_out_is_read_from_its_output() {
        let mut found = report(vec![], None);
        found.raw = "not checked: a\na.py:1:1: not checked: b\nnote: c\n".to_owned();
        assert_eq!(unchecked(&found).collect::<Vec<_>>(), ["not checked: a"]);
    }
}
