//! QA's output. Source: the pipeline commands, "QA Output Schema".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::{Checker, Edits, Verifying};
use super::designer::Design;
use super::{Blocked, Command, Decoded, Verification, find, problem, shaped};
use cofferdam_core::schema::nearest;

/// The document that QA writes.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "QA output")]
pub enum QaOutput {
    /// The commands may run.
    Approved(Approved),
    /// The commands must not run.
    Rejected(Rejected),
}

/// The decision of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ApprovedWord {
    /// The commands may run.
    #[serde(rename = "APPROVED")]
    Approved,
}

/// The decision of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RejectedWord {
    /// The commands must not run.
    #[serde(rename = "REJECTED")]
    Rejected,
}

/// An approval of commands, which will run.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// The decision, always `APPROVED`.
    pub decision: ApprovedWord,
    /// The commands of the Designer, possibly changed by QA.
    #[schemars(length(min = 1))]
    pub commands: Vec<Command>,
    /// The verification of the Designer, or a wider one.
    pub verification: Verification,
    /// Remarks on the decision.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Always empty: commands that require changes have to be rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 0))]
    pub required_changes: Vec<String>,
    /// What was checked, and what was not.
    #[serde(default)]
    pub spot_checks: Vec<String>,
}

/// A rejection of commands, which will not run.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rejected {
    /// The decision, always `REJECTED`.
    pub decision: RejectedWord,
    /// Always empty, since no commands are approved.
    #[schemars(length(max = 0))]
    pub commands: Vec<Command>,
    /// Always null, since nothing is verified.
    pub verification: (),
    /// The reasons for the rejection.
    #[schemars(length(min = 1))]
    pub reasons: Vec<String>,
    /// The changes that the Designer has to make.
    #[schemars(length(min = 1))]
    pub required_changes: Vec<String>,
    /// What was checked, and what was not.
    #[serde(default)]
    pub spot_checks: Vec<String>,
}

/// The result of reading QA's output.
pub enum Reviewed {
    /// The output approves commands.
    Approved(Box<Approval>),
    /// The output rejects the commands.
    Rejected(Rejected),
}

/// A valid approval, from which the calls are made.
pub struct Approval {
    /// The document as it was written.
    pub output: Approved,
    /// The commands as calls, and the files that they touch.
    pub edits: Edits,
    /// The verification as a call, and the files that it covers.
    pub verifying: Verifying,
}

/// The name of the document in the log.
const DOCUMENT_NAME: &str = "QA output";

impl QaOutput {
    /// Parses and checks QA's output for a design.
    ///
    /// # Errors
    /// [`Blocked`] with all problems.
    pub fn read(
        text: &str,
        design: &Design,
        checker: &Checker<'_>,
    ) -> Result<Decoded<Reviewed>, Blocked> {
        let found = find(text, checker.mode, &["decision"])?;
        let repairs = found.repairs;
        let document = match found.value.get("decision") {
            Some(Value::String(word)) if word == "REJECTED" => {
                Reviewed::Rejected(shaped(found.value)?)
            }
            Some(Value::String(word)) if word == "APPROVED" => {
                let output: Approved = shaped(found.value)?;
                Reviewed::Approved(Box::new(output.checked(design, checker)?))
            }
            Some(other) => return Err(invalid_decision(other)),
            // The schema reports that the decision is missing.
            None => Reviewed::Approved(Box::new(
                shaped::<Approved>(found.value)?.checked(design, checker)?,
            )),
        };
        Ok(Decoded { document, repairs })
    }
}

fn invalid_decision(found: &Value) -> Blocked {
    let mut blocked = Blocked::default();
    let near = found.as_str().and_then(|word| nearest(word, ["APPROVED", "REJECTED"].into_iter()));
    let mut problem = problem("/decision", "\"APPROVED\" or \"REJECTED\"", found.to_string());
    problem.did_you_mean = near;
    blocked.add("invalid decision".to_owned(), problem);
    blocked
}

impl Approved {
    fn checked(self, design: &Design, checker: &Checker<'_>) -> Result<Approval, Blocked> {
        let mut blocked = Blocked::default();
        let edits = checker.edits(&self.commands, DOCUMENT_NAME, &mut blocked);
        let verifying = checker.verification(&self.verification, &mut blocked);
        if let Some(verifying) = &verifying
            && !verifying.extent.covers(&design.verifying.extent)
        {
            let expected =
                format!("a verification as wide as the Designer's: {}", design.verifying.extent);
            let found = verifying.extent.to_string();
            blocked.broken_rule(DOCUMENT_NAME, problem("/verification/args", expected, found));
        }
        match (edits, verifying) {
            (Some(edits), Some(verifying)) => {
                blocked.or(Approval { output: self, edits, verifying })
            }
            _ => Err(blocked),
        }
    }
}
