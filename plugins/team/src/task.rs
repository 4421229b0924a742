//! `task`.

use cofferdam_sdk::agents::{Action, Answer, Broken, Kept, Report, Task};
use cofferdam_sdk::{ToolError, agents};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Arguments of `task`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The agent, by its name in the operator's settings.
    pub subagent_type: String,
    /// What it is to do.
    pub prompt: String,
    /// What it has to know for that.
    pub context: Option<String>,
}

/// Answer of `task`.
#[derive(Debug, PartialEq, Serialize)]
pub struct Output {
    /// The agent.
    pub agent: String,
    /// The role that its own calls were made under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// How often it was asked.
    pub tries: u32,
    /// What came of it.
    #[serde(flatten)]
    pub answer: Answered,
}

/// What an agent answered.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Answered {
    /// By its contract.
    Record {
        /// The contract, by its agent.
        contract: String,
        /// The fields of its block.
        record: Map<String, Value>,
        /// What is done next.
        next: &'static str,
        /// Why.
        reason: String,
        /// What is wrong with it all the same.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        problems: Vec<String>,
    },
    /// All that it said: it has no contract.
    Text {
        /// Its words.
        response: String,
    },
}

/// The failure document of an answer that broke its contract to the end.
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

/// Has an agent do a task.
///
/// # Errors
/// `ContractBroken` with its failure document; `AgentNotGranted`, `AgentNotFound`,
/// `AgentsTooDeep`, `AgentTimeout`, `AgentFailed`.
pub fn run(args: Args) -> Result<Output, ToolError> {
    let Args { subagent_type, prompt, context } = args;
    let task = Task { agent: subagent_type, prompt: worded(prompt, context.as_deref()) };
    output(agents::run(&task)?)
}

/// A task in the words that the agent reads.
fn worded(prompt: String, context: Option<&str>) -> String {
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
            Answered::Record { contract, record, next: word(next), reason, problems }
        }
        Answer::Broken(Broken { contract, reason, problems, response }) => {
            let message = format!("'{agent}': {reason}: {}", problems.join("; "));
            let next = word(Action::Blocked);
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

/// An action as it stands in documents.
fn word(action: Action) -> &'static str {
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
    fn a_context_follows_its_prompt() {
        assert_eq!(worded("Do it\n".into(), None), "Do it\n");
        assert_eq!(worded("Do it\n".into(), Some("here")), "Do it\n\nContext:\n\nhere");
    }

    #[test]
    fn an_answer_by_a_contract_is_its_record() {
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
    fn an_answer_without_a_contract_is_its_words() {
        let answer = output(report(Answer::Text("Done.".into()))).unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        fits("output", &answer);
        assert_eq!((&answer["response"], answer.get("record")), (&json!("Done."), None));
    }

    #[test]
    fn an_answer_that_stays_broken_blocks() {
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
