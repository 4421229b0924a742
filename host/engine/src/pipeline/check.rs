//! What the documents of Designer and QA are checked against: the allow-list, the tools' own
//! schemas, the work order. Source: S0, "Rules" and "Validation Failure Modes".

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

/// The arguments of the edit tools that name files.
const FILE_ARGUMENTS: [&str; 2] = ["file_path", "target_file"];

/// What documents are checked against.
pub struct Checker<'a> {
    /// How much around a document is forgiven.
    pub mode: Mode,
    /// The tools there are.
    pub registry: &'a Registry,
    /// What commands are executed under.
    pub designer: Option<&'a Role>,
    /// What the result is verified under.
    pub main: Option<&'a Role>,
    /// What was asked for.
    pub step: &'a Step,
}

/// Commands that keep to the rules.
pub struct Edits {
    /// The calls that they are, in their order.
    pub calls: Vec<ValidCall>,
    /// The files that they touch, by their names.
    pub touched: BTreeSet<Place>,
}

/// A verification that keeps to the rules.
pub struct Verifying {
    /// The call that it is.
    pub call: ValidCall,
    /// What it covers.
    pub extent: Extent,
}

impl Checker<'_> {
    /// Commands as calls; `None` where one of them is not valid.
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
            let call =
                self.call(qualified, &command.tool, &command.args, &at, self.designer, blocked);
            let Some(call) = call else { continue };
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

    /// A verification as a call; `None` where it is not valid.
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

    /// A lint as a call; `None` where its arguments do not fit the tool.
    pub(super) fn lint(
        &self,
        args: &Map<String, Value>,
        at: &str,
        blocked: &mut Blocked,
    ) -> Option<Verifying> {
        let (name, qualified) = VERIFICATION_TOOL;
        let call = self.call(qualified, name, args, at, self.main, blocked)?;
        let lint: Lint = serde_json::from_value(Value::Object(args.clone())).ok()?;
        Some(Verifying { call, extent: Extent::of(&lint) })
    }

    /// What the work order itself has the result pass: its lint, and at the end of a phase the
    /// wider one.
    ///
    /// # Errors
    /// An invalid lint, or none for the end of the phase where one is needed.
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

    /// Says which invariants are broken by what the Designer itself says that it changes.
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

    /// A call whose arguments fit the tool's schema.
    fn call(
        &self,
        qualified: &str,
        name: &str,
        args: &Map<String, Value>,
        at: &str,
        role: Option<&Role>,
        blocked: &mut Blocked,
    ) -> Option<ValidCall> {
        let call = Call {
            pointer: format!("{at}/args"),
            tool: qualified.to_owned(),
            args: Value::Object(args.clone()),
        };
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

fn unknown_tool(at: &str, name: &str, allowed: &[&str], blocked: &mut Blocked) {
    let expected = format!("one of the tools {}", allowed.join(", "));
    let mut problem = problem(format!("{at}/tool"), expected, format!("'{name}'"));
    problem.did_you_mean = nearest(name, allowed.iter().copied());
    blocked.add(format!("unknown tool: {name}"), problem);
}

/// Where a text has more than one sentence: the second one. A sentence ends with a line, or with
/// a mark that a space and something other than a small letter follow, unless the word before is
/// an abbreviation.
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
