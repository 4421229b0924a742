//! QA's output. Source: S0, "QA Output Schema".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::{Checker, Edits, Verifying};
use super::designer::Design;
use super::{Blocked, Command, Decoded, Verification, find, problem, shaped};
use cofferdam_core::schema::nearest;

/// What QA answers.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "QA output")]
pub enum QaOutput {
    /// The commands may run.
    Approved(Approved),
    /// They may not.
    Rejected(Rejected),
}

/// The word of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ApprovedWord {
    /// The commands may run.
    #[serde(rename = "APPROVED")]
    Approved,
}

/// The word of a rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RejectedWord {
    /// The commands may not run.
    #[serde(rename = "REJECTED")]
    Rejected,
}

/// Commands that may run.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approved {
    /// `APPROVED`.
    pub decision: ApprovedWord,
    /// The Designer's, or what QA made of them.
    #[schemars(length(min = 1))]
    pub commands: Vec<Command>,
    /// The Designer's, or a wider one.
    pub verification: Verification,
    /// Notes.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// Nothing: what has to be changed first is rejected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 0))]
    pub required_changes: Vec<String>,
    /// What was verified, and what was not.
    #[serde(default)]
    pub spot_checks: Vec<String>,
}

/// Commands that may not run.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rejected {
    /// `REJECTED`.
    pub decision: RejectedWord,
    /// None.
    #[schemars(length(max = 0))]
    pub commands: Vec<Command>,
    /// null.
    pub verification: (),
    /// Why.
    #[schemars(length(min = 1))]
    pub reasons: Vec<String>,
    /// What the Designer has to do about it.
    #[schemars(length(min = 1))]
    pub required_changes: Vec<String>,
    /// What was verified, and what was not.
    #[serde(default)]
    pub spot_checks: Vec<String>,
}

/// What a review comes to.
pub enum Reviewed {
    /// The commands may run.
    Approved(Box<Approval>),
    /// They may not.
    Rejected(Rejected),
}

/// Commands that were approved and keep to the rules: what is run is made from it.
pub struct Approval {
    /// As it was written.
    pub output: Approved,
    /// Its commands as calls, and what they touch.
    pub edits: Edits,
    /// Its verification as a call, and what that covers.
    pub verifying: Verifying,
}

/// What the log calls the document.
const NAME: &str = "QA output";

impl QaOutput {
    /// Reads and checks QA's output on a design.
    ///
    /// # Errors
    /// Everything that is wrong with it.
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
            // The shape says that it is missing.
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
        let edits = checker.edits(&self.commands, NAME, &mut blocked);
        let verifying = checker.verification(&self.verification, &mut blocked);
        if let Some(verifying) = &verifying
            && !verifying.extent.covers(&design.verifying.extent)
        {
            let expected =
                format!("a verification as wide as the Designer's: {}", design.verifying.extent);
            let found = verifying.extent.to_string();
            blocked.broken_rule(NAME, problem("/verification/args", expected, found));
        }
        match (edits, verifying) {
            (Some(edits), Some(verifying)) => {
                blocked.or(Approval { output: self, edits, verifying })
            }
            _ => Err(blocked),
        }
    }
}
