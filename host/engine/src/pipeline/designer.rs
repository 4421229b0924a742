//! The Designer's output. Source: the pipeline commands, "Designer Output Schema".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::{Checker, Edits, Verifying};
use super::{Blocked, Command, Decoded, ERROR_TOOL, Verification, find, problem, shaped};
use cofferdam_core::policy::Place;
use cofferdam_core::schema::Problem;

/// The document that a Designer writes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Designer output")]
pub struct DesignerOutput {
    /// All files that will be modified, relative to the workspace.
    pub touched_files: Vec<String>,
    /// The edits, in order of execution.
    #[schemars(length(min = 1))]
    pub commands: Vec<Command>,
    /// Changes of the public API, in words; empty if there are none.
    pub changed_signatures: Vec<String>,
    /// The lint that verifies the result.
    pub verification: Verification,
}

/// A valid output of a Designer.
pub struct Design {
    /// The document as it was written.
    pub output: DesignerOutput,
    /// The verification as a call.
    pub verifying: Verifying,
}

/// The result of reading a Designer's output.
pub enum Designed {
    /// The output has valid commands.
    Commands(Box<Design>),
    /// The Designer could not produce commands, for these reasons.
    Error(Vec<String>),
}

/// The name of the document in the log.
const DOCUMENT_NAME: &str = "designer output";

impl DesignerOutput {
    /// Parses and checks a Designer's output.
    ///
    /// # Errors
    /// [`Blocked`] with all problems.
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
        let edits = checker.edits(&self.commands, DOCUMENT_NAME, &mut blocked);
        let verifying = checker.verification(&self.verification, &mut blocked);
        for problem in edits.iter().flat_map(|edits| touched_files(&self.touched_files, edits)) {
            blocked.broken_rule(DOCUMENT_NAME, problem);
        }
        checker.signatures(&self.changed_signatures, DOCUMENT_NAME, &mut blocked);
        match verifying {
            Some(verifying) => {
                blocked.or(Designed::Commands(Box::new(Design { output: self, verifying })))
            }
            None => Err(blocked),
        }
    }

    /// Checks an output in which the Designer reports an error instead of commands.
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
            DOCUMENT_NAME,
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

/// Compares the list of touched files with the files in the commands.
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
