//! The Designer's output. Source: S0, "Designer Output Schema".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Checker, Edits, Verifying};
use super::{Blocked, Command, Decoded, ERROR_TOOL, Verification, find, problem, shaped};
use cofferdam_core::policy::Place;
use cofferdam_core::schema::Problem;

/// What a Designer answers.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Designer output")]
pub struct DesignerOutput {
    /// All files that will be modified, relative to the workspace.
    pub touched_files: Vec<String>,
    /// The edits, in their order.
    #[schemars(length(min = 1))]
    pub commands: Vec<Command>,
    /// Changes of the public API, in words; empty if there are none.
    pub changed_signatures: Vec<String>,
    /// How the result is to be verified.
    pub verification: Verification,
}

/// A Designer's output that keeps to the rules.
pub struct Design {
    /// As it was written.
    pub output: DesignerOutput,
    /// What its verification covers.
    pub verifying: Verifying,
}

/// What a Designer's output comes to.
pub enum Designed {
    /// Commands.
    Commands(Box<Design>),
    /// It could not produce any: its reasons.
    Error(Vec<String>),
}

/// What the log calls the document.
const NAME: &str = "designer output";

impl DesignerOutput {
    /// Reads and checks a Designer's output.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(text: &str, checker: &Checker<'_>) -> Result<Decoded<Designed>, Blocked> {
        let found = find(text, checker.mode, &["touched_files", "commands"])?;
        let output: Self = shaped(found.value)?;
        let document = output.checked(checker)?;
        Ok(Decoded { document, repairs: found.repairs })
    }

    fn checked(self, checker: &Checker<'_>) -> Result<Designed, Blocked> {
        if self.commands.iter().any(|command| command.tool == ERROR_TOOL) {
            return self.error();
        }
        let mut blocked = Blocked::default();
        let edits = checker.edits(&self.commands, NAME, &mut blocked);
        let verifying = checker.verification(&self.verification, &mut blocked);
        for problem in edits.iter().flat_map(|edits| touched_files(&self.touched_files, edits)) {
            blocked.broken_rule(NAME, problem);
        }
        checker.signatures(&self.changed_signatures, NAME, &mut blocked);
        match verifying {
            Some(verifying) => {
                blocked.or(Designed::Commands(Box::new(Design { output: self, verifying })))
            }
            None => Err(blocked),
        }
    }

    /// A Designer that says why it has no commands.
    fn error(self) -> Result<Designed, Blocked> {
        let is_alone = self.commands.len() == 1
            && self.commands[0].args.is_empty()
            && self.touched_files.is_empty()
            && self.changed_signatures.is_empty();
        if is_alone {
            return Ok(Designed::Error(self.commands.into_iter().map(|c| c.reason).collect()));
        }
        let mut blocked = Blocked::default();
        let errors = self.commands.iter().filter(|command| command.tool == ERROR_TOOL);
        blocked.log.extend(errors.map(|command| command.reason.clone()));
        blocked.broken_rule(
            NAME,
            problem(
                "/commands",
                format!(
                    "one command {ERROR_TOOL} without arguments, and neither files nor signatures"
                ),
                "more beside it",
            ),
        );
        Err(blocked)
    }
}

/// What differs between the files that are said to be touched and those that are.
fn touched_files(said: &[String], edits: &Edits) -> Vec<Problem> {
    let mut problems = Vec::new();
    let named: Vec<Option<Place>> = said.iter().map(|path| Place::new(path).ok()).collect();
    for (index, (path, place)) in said.iter().zip(&named).enumerate() {
        if !place.as_ref().is_some_and(|place| edits.touched.contains(place)) {
            problems.push(problem(
                format!("/touched_files/{index}"),
                "a file that a command touches",
                format!("'{path}', which none does"),
            ));
        }
    }
    for touched in &edits.touched {
        if !named.iter().flatten().any(|place| place == touched) {
            problems.push(problem(
                "/touched_files",
                "every file that a command touches",
                format!("no '{touched}'"),
            ));
        }
    }
    problems
}
