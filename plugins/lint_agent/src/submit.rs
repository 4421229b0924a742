//! `submit`: returns the agent's result, in the form that all agents share.

use cofferdam_sdk::Context;
use serde::{Deserialize, Serialize};

use crate::answer::Failure;

/// The arguments of `submit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// A summary of what was done.
    pub summary: String,
    /// The number of issues fixed.
    pub issues_fixed: u64,
    /// The number of issues left.
    pub issues_remaining: u64,
    /// The files that were changed.
    pub changed_files: Vec<String>,
}

/// The result of `submit`: an agent's result.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// `success`, or `failed` while issues remain.
    pub status: &'static str,
    /// The absolute path of the workspace.
    pub workspace_id: String,
    /// Relative to the workspace.
    pub changed_files: Vec<String>,
    /// A summary of what was done.
    pub summary: String,
    /// The number of issues.
    pub details: Details,
    /// Why the status is `failed`.
    pub error: Option<String>,
}

/// The number of issues in an agent's result.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Details {
    /// The number of issues fixed.
    pub issues_fixed: u64,
    /// The number of issues left.
    pub issues_remaining: u64,
}

/// Makes the agent's result from the arguments.
///
/// # Errors
/// A changed file is outside of the workspace.
pub fn run(args: Args, context: &Context) -> Result<Output, Failure> {
    let Args { summary, issues_fixed, issues_remaining, changed_files } = args;
    let changed_files = changed_files
        .iter()
        .map(|path| Ok(context.resolve(path)?.as_str().to_owned()))
        .collect::<Result<_, Failure>>()?;
    let error = (issues_remaining > 0).then(|| format!("{issues_remaining} issues remain"));
    Ok(Output {
        status: if error.is_none() { "success" } else { "failed" },
        workspace_id: context.workspace().to_owned(),
        changed_files,
        summary,
        details: Details { issues_fixed, issues_remaining },
        error,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Fake, fits};

    fn args(changed_files: &[&str], issues_remaining: u64) -> Args {
        Args {
            summary: "Fixed spacing".to_owned(),
            issues_fixed: 2,
            issues_remaining,
            changed_files: changed_files.iter().map(|&path| path.to_owned()).collect(),
        }
    }

    #[test]
    fn the_result_has_the_standard_form() {
        let fake = Fake::new("");
        let workspace = fake.context.workspace();
        let absolute = format!("{workspace}/src/b.py");
        assert_eq!(
            fits("submit", run(args(&["./target.py", &absolute], 0), &fake.context)),
            json!({
                "status": "success",
                "workspace_id": workspace,
                "changed_files": ["target.py", "src/b.py"],
                "summary": "Fixed spacing",
                "details": {"issues_fixed": 2, "issues_remaining": 0},
                "error": null
            })
        );
    }

    #[test]
    fn remaining_issues_are_a_failure() {
        let fake = Fake::new("");
        let answer = fits("submit", run(args(&["target.py"], 1), &fake.context));
        assert_eq!(
            (&answer["status"], &answer["error"]),
            (&json!("failed"), &json!("1 issues remain"))
        );
        assert_eq!(answer["details"], json!({"issues_fixed": 2, "issues_remaining": 1}));
    }

    #[test]
    fn files_outside_the_workspace_are_an_error() {
        let fake = Fake::new("");
        let answer = fits("submit", run(args(&["../x.py"], 0), &fake.context));
        assert_eq!(answer, json!({"error": "'../x.py' leaves the workspace"}));
    }
}
