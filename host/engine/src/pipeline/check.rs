//! Checks the documents of Designer and QA against the allow-list, the tools' schemas, and the work
//! order. Source: the pipeline commands, "Rules" and "Validation Failure Modes".

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::extent::Extent;
use super::invariant::Invariant;
use super::work_order::{Lint, NAME, Step};
use super::{Blocked, Command, EDIT_TOOLS, VERIFICATION_TOOL, Verification, problem};
use crate::dispatch::{self, RefusalCode, ValidCall};
use cofferdam_core::envelope::{Call, Mode};
use cofferdam_core::policy::{Place, Role};
use cofferdam_core::schema::nearest;
use cofferdam_plugin::registry::Registry;

/// The arguments of edit tools that contain file names.
pub(super) const FILE_ARGUMENTS: [&str; 3] = ["path", "file_path", "target_file"];

/// Checks documents of one round.
pub struct Checker<'a> {
    /// How strictly documents are decoded.
    pub mode: Mode,
    /// The registry of all tools.
    pub registry: &'a Registry,
    /// The role of edit commands.
    pub designer: Option<&'a Role>,
    /// The role of the verification.
    pub main: Option<&'a Role>,
    /// The step of the work order.
    pub step: &'a Step,
}

/// Edit commands that passed all checks.
pub struct Edits {
    /// The calls of the commands, in their order.
    pub calls: Vec<ValidCall>,
    /// The normalized paths of the files that they touch.
    pub touched: BTreeSet<Place>,
}

/// A verification that passed all checks.
pub struct Verifying {
    /// The call of the lint.
    pub call: ValidCall,
    /// The files that it covers.
    pub extent: Extent,
}

impl Checker<'_> {
    /// Converts commands to calls. Returns `None` if one of them is invalid.
    pub(super) fn edits(
        &self,
        commands: &[Command],
        whose: &str,
        blocked: &mut Blocked,
    ) -> Option<Edits> {
        let scope = self.step.scope();
        let mut calls = Vec::with_capacity(commands.len());
        let mut touched = BTreeSet::new();
        for (index, command) in commands.iter().enumerate() {
            let at = format!("/commands/{index}");
            let qualified = EDIT_TOOLS.iter().find(|(name, _)| *name == command.tool);
            let Some((_, qualified)) = qualified else {
                unknown_tool(&at, &command.tool, &EDIT_TOOLS.map(|(name, _)| name), blocked);
                continue;
            };
            let call = call(qualified, &command.args, &at);
            let Some(call) = self.valid(call, &command.tool, self.designer, blocked) else {
                continue;
            };
            calls.push(call);
            if let Some(found) = second_sentence(&command.reason) {
                let expected = "one sentence at most";
                blocked.broken_rule(whose, problem(format!("{at}/reason"), expected, found));
            }
            for argument in FILE_ARGUMENTS {
                let Some(path) = command.args.get(argument).and_then(Value::as_str) else {
                    continue;
                };
                let at = format!("{at}/args/{argument}");
                match Place::new(path) {
                    Err(_) => {
                        let expected = "a path in the workspace, relative to it";
                        blocked.broken_rule(whose, problem(at, expected, format!("'{path}'")));
                    }
                    Ok(place) => {
                        if !scope.allows(&place) {
                            let allowed = self.step.order().scope_allowlist.join(", ");
                            let expected = format!("a path in the step's scope: {allowed}");
                            blocked.broken_rule(whose, problem(at, expected, format!("'{path}'")));
                        }
                        touched.insert(place);
                    }
                }
            }
        }
        (calls.len() == commands.len()).then_some(Edits { calls, touched })
    }

    /// Converts a verification to a call. Returns `None` if it is invalid.
    pub(super) fn verification(
        &self,
        verification: &Verification,
        blocked: &mut Blocked,
    ) -> Option<Verifying> {
        let (name, _) = VERIFICATION_TOOL;
        let at = "/verification";
        if verification.tool != name {
            unknown_tool(at, &verification.tool, &[name], blocked);
            return None;
        }
        self.lint(&verification.args, at, blocked)
    }

    /// Converts a lint to a call. Returns `None` if its arguments do not fit the tool's schema.
    pub(super) fn lint(
        &self,
        args: &Map<String, Value>,
        at: &str,
        blocked: &mut Blocked,
    ) -> Option<Verifying> {
        let (name, qualified) = VERIFICATION_TOOL;
        let call = self.valid(call(qualified, args, at), name, self.main, blocked)?;
        match serde_json::from_value::<Lint>(Value::Object(args.clone())) {
            Ok(lint) => Some(Verifying { call, extent: Extent::of(&lint) }),
            // The tool takes more than the pipeline commands allow.
            Err(error) => {
                let expected = "the arguments path and check_all only";
                blocked
                    .broken_rule(NAME, problem(format!("{at}/args"), expected, error.to_string()));
                None
            }
        }
    }

    /// The lints that the work order requires: after each step, and at the end of a phase the wider
    /// one as well.
    ///
    /// # Errors
    /// [`Blocked`] if a lint is invalid, or if the phase ends and the work order has no lint for
    /// it.
    pub fn acceptance(&self, is_phase_boundary: bool) -> Result<Vec<Verifying>, Blocked> {
        let mut blocked = Blocked::default();
        let acceptance = &self.step.order().acceptance;
        let at = "/acceptance/phase_boundary_lint";
        let wider = acceptance.phase_boundary_lint.as_ref().filter(|_| is_phase_boundary);
        if is_phase_boundary && wider.is_none() {
            let expected = "a lint, since the step is the last one of its phase";
            blocked.broken_rule(NAME, problem(at, expected, "nothing"));
        }
        let lints = [("/acceptance/lint", Some(&acceptance.lint)), (at, wider)];
        let lints = lints
            .into_iter()
            .filter_map(|(at, lint)| self.lint(&lint?.args(), at, &mut blocked))
            .collect();
        blocked.or(lints)
    }

    /// Reports invariants that are broken by the signatures that the Designer lists as changed.
    pub(super) fn signatures(&self, changed: &[String], whose: &str, blocked: &mut Blocked) {
        for text in &self.step.order().invariants {
            if Invariant::of(text) == Invariant::Signatures
                && let Some(signature) = changed.first()
            {
                let expected = format!("nothing, since an invariant is '{text}'");
                blocked.broken_rule(
                    whose,
                    problem("/changed_signatures", expected, signature.clone()),
                );
            }
        }
    }

    /// Checks the arguments of a call. `name` is the tool's name in the document.
    fn valid(
        &self,
        call: Call,
        name: &str,
        role: Option<&Role>,
        blocked: &mut Blocked,
    ) -> Option<ValidCall> {
        match dispatch::resolve(self.registry, vec![call], role) {
            Ok(mut calls) => calls.pop(),
            Err(refusal) => {
                for wrong in refusal.problems {
                    let line = match wrong.code {
                        RefusalCode::InvalidArguments => format!("invalid args for tool {name}"),
                        _ => format!("unknown tool: {name}"),
                    };
                    blocked.add(line, wrong.problem);
                }
                None
            }
        }
    }
}

/// The call of a tool with the arguments in the object at `at`.
fn call(qualified: &str, args: &Map<String, Value>, at: &str) -> Call {
    Call {
        pointer: format!("{at}/args"),
        tool: qualified.to_owned(),
        args: Value::Object(args.clone()),
    }
}

fn unknown_tool(at: &str, name: &str, allowed: &[&str], blocked: &mut Blocked) {
    let expected = format!("one of the tools {}", allowed.join(", "));
    let mut problem = problem(format!("{at}/tool"), expected, format!("'{name}'"));
    problem.did_you_mean = nearest(name, allowed.iter().copied());
    blocked.add(format!("unknown tool: {name}"), problem);
}

/// Returns the second sentence of a text, if there is one. A sentence ends with a line, or with a
/// punctuation mark that is followed by a space and no small letter, unless it belongs to an
/// abbreviation.
fn second_sentence(text: &str) -> Option<String> {
    const ABBREVIATIONS: [&str; 8] = ["e.g", "i.e", "etc", "cf", "vs", "approx", "no", "incl"];
    let text = text.trim();
    let found = |rest: &str| Some(format!("another one: '{}'", cofferdam_text::shorten(rest, 80)));
    if let Some((_, rest)) = text.split_once(['\n', '\r']) {
        return found(rest.trim());
    }
    for (at, mark) in text.match_indices(['.', '!', '?']) {
        let rest = text[at + mark.len()..].trim_start_matches(['"', '\'', ')', ']', '`']);
        let next = rest.trim_start();
        let begins = next.chars().next().is_some_and(|first| !first.is_lowercase());
        let word = text[..at].rsplit(|c: char| c.is_whitespace() || c == '(').next();
        let is_short = word.is_some_and(|word| {
            mark == "." && ABBREVIATIONS.contains(&word.to_lowercase().as_str())
        });
        if next.len() < rest.len() && begins && !is_short {
            return found(next);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_sentence_at_most() {
        for one in [
            "",
            "Split the module",
            "Split the module.",
            "Move x.y() to a.py, e.g. Foo, i.e. 3 lines etc.",
            "Use v1.2.3 (see docs/a.md).",
            "Is it?",
            "Rename `a.b`. ",
            "Replace '...' by what it means",
            "Remove foo... because nobody calls it",
        ] {
            assert_eq!(second_sentence(one), None, "{one}");
        }
        for (two, second) in [
            ("Split it. Then move it.", "Then move it."),
            ("Split it\nThen move it", "Then move it"),
            ("Really! 2 files", "2 files"),
            ("He said \"no.\" Then yes", "Then yes"),
            ("Why? `x` is gone", "`x` is gone"),
        ] {
            assert_eq!(second_sentence(two), Some(format!("another one: '{second}'")), "{two}");
        }
    }
}
