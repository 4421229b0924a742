//! `task`: gives a task to one of the operator's agents.

use cofferdam_sdk::agents::{Action, Answer, Broken, Kept, Report, Task};
use cofferdam_sdk::{ToolError, agents};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The arguments of `task`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The agent, by its name in the operator's settings.
    pub subagent_type: String,
    /// The task for the agent.
    pub prompt: String,
    /// Further information for the agent.
    pub context: Option<String>,
}

/// The result of `task`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Output {
    /// The name of the agent.
    pub agent: String,
    /// The role under which the agent's own calls were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The number of attempts.
    pub tries: u32,
    /// The response of the agent.
    #[serde(flatten)]
    pub answer: Answered,
}

/// The response of an agent.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answered {
    /// A record that fits the agent's output contract.
    Record {
        /// The name of the contract.
        contract: String,
        /// The fields of the record.
        record: Map<String, Value>,
        /// The next step according to the contract.
        next: &'static str,
        /// Why that is the next step.
        reason: String,
        /// Violations of the contract that do not prevent the use of the record.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    /// The whole response of an agent without a contract.
    Text {
        /// The text of the response.
        response: String,
    },
}

/// The failure document if the last attempt broke the contract too.
#[derive(Debug, Serialize)]
struct Blocked {
    agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<String>,
    tries: u32,
    contract: String,
    next: &'static str,
    reason: String,
    problems: Vec<String>,
    response: String,
}

/// Gives a task to an agent and waits for its response.
///
/// # Errors
/// `ContractBroken` with its failure document; `AgentNotGranted`, `AgentNotFound`,
/// `AgentsTooDeep`, `AgentTimeout`, `AgentFailed`.
pub fn run(args: Args) -> Result<Output, ToolError> {
    let Args { subagent_type, prompt, context } = args;
    let task = Task { agent: subagent_type, prompt: full_prompt(prompt, context.as_deref()) };
    output(agents::run(&task)?)
}

/// The prompt for the agent.
fn full_prompt(prompt: String, context: Option<&str>) -> String {
    match context {
        Some(context) => format!("{}\n\nContext:\n\n{context}", prompt.trim_end()),
        None => prompt,
    }
}

fn output(Report { agent, role, tries, answer }: Report) -> Result<Output, ToolError> {
    let answer = match answer {
        Answer::Text(response) => Answered::Text { response },
        Answer::Kept(Kept { contract, fields, next, reason, problems }) => {
            let record = serde_json::from_str(&fields).map_err(|error| {
                ToolError::failed("AgentFailed", format!("the host's own record: {error}"))
            })?;
            Answered::Record { contract, record, next: action_name(next), reason, problems }
        }
        Answer::Broken(Broken { contract, reason, problems, response }) => {
            let message = format!("'{agent}': {reason}: {}", problems.join("; "));
            let next = action_name(Action::Blocked);
            return Err(ToolError::failed("ContractBroken", message).with_detail(Blocked {
                agent,
                role,
                tries,
                contract,
                next,
                reason,
                problems,
                response,
            }));
        }
    };
    Ok(Output { agent, role, tries, answer })
}

/// The name of an action in documents.
fn action_name(action: Action) -> &'static str {
    match action {
        Action::Proceed => "proceed",
        Action::Review => "review",
        Action::Fix => "fix",
        Action::Blocked => "blocked",
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use serde_json::json;

    use super::*;

    fn report(answer: Answer) -> Report {
        Report { agent: "code-implementer".into(), role: Some("writer".into()), tries: 3, answer }
    }

    fn fits(which: &str, document: &Value) {
        let file =
            format!("{}/../../schemas/tools/team.task.{which}.json", env!("CARGO_MANIFEST_DIR"));
        let schema: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        jsonschema::validate(&schema, document).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn the_context_is_appended_to_the_prompt() {
        assert_eq!(full_prompt("Do it\n".into(), None), "Do it\n");
        assert_eq!(full_prompt("Do it\n".into(), Some("here")), "Do it\n\nContext:\n\nhere");
    }

    #[test]
    fn a_response_by_a_contract_is_its_record() {
        let kept = Kept {
            contract: "tdd-task-executor".into(),
            fields: r#"{"phase_complete": true}"#.into(),
            next: Action::Review,
            reason: "done".into(),
            problems: Vec::new(),
        };
        let answer = serde_json::to_value(output(report(Answer::Kept(kept))).unwrap()).unwrap();
        fits("output", &answer);
        let wanted = json!({
            "agent": "code-implementer", "role": "writer", "tries": 3,
            "contract": "tdd-task-executor", "record": {"phase_complete": true},
            "next": "review", "reason": "done",
        });
        assert_eq!(answer, wanted);
    }

    #[test]
    fn a_response_without_a_contract_is_its_text() {
        let answer = output(report(Answer::Text("Done.".into()))).unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        fits("output", &answer);
        assert_eq!((&answer["response"], answer.get("record")), (&json!("Done."), None));
    }

    #[test]
    fn a_response_that_stays_broken_is_an_error() {
        let broken = Broken {
            contract: "tdd-task-executor".into(),
            reason: "still broken".into(),
            problems: vec!["expected a block".into(), "expected more".into()],
            response: "Done!".into(),
        };
        let error = output(report(Answer::Broken(broken))).unwrap_err();
        assert_eq!(error.code, "ContractBroken");
        let told = "'code-implementer': still broken: expected a block; expected more";
        assert_eq!(error.message, told);
        let detail = error.detail.unwrap();
        fits("failure", &detail);
        assert_eq!((&detail["next"], &detail["tries"]), (&json!("blocked"), &json!(3)));
    }
}
