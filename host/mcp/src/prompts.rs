//! Output contracts as prompts: the task, and what the response has to end with.

use rmcp::ErrorData;
use rmcp::model::{
    GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role,
};

use cofferdam_core::contract::Contracts;

/// The name of the only argument.
const TASK: &str = "task";

/// Returns a prompt for each contract, and the text that the contract adds.
pub(super) fn all(contracts: &Contracts) -> Vec<(Prompt, String)> {
    let task = PromptArgument::new(TASK)
        .with_description("What the agent is to do; without it, only what its answer ends with.")
        .with_required(false);
    contracts
        .iter()
        .map(|contract| {
            let arguments = Some(vec![task.clone()]);
            let prompt = Prompt::new(&contract.agent, Some(&contract.purpose), arguments);
            (prompt, contract.prompt())
        })
        .collect()
}

/// Returns a prompt with its task.
///
/// # Errors
/// No prompt has this name, or its arguments are invalid.
pub(super) fn get(
    prompts: &[&(Prompt, String)],
    request: &GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let wrong = |message: String| ErrorData::invalid_params(message, None);
    let (prompt, suffix) =
        prompts.iter().find(|(prompt, _)| prompt.name == request.name).ok_or_else(|| {
            let names: Vec<&str> = prompts.iter().map(|(prompt, _)| prompt.name.as_str()).collect();
            let there = match names.as_slice() {
                [] => "this role has none".to_owned(),
                names => format!("there are {}", names.join(", ")),
            };
            wrong(format!("no prompt '{}'; {there}", request.name))
        })?;
    let mut text = String::new();
    for (name, value) in request.arguments.iter().flatten() {
        let value = value.as_str().filter(|_| name == TASK);
        let value = value.ok_or_else(|| {
            wrong(format!("'{name}': '{}' takes one argument, the text '{TASK}'", prompt.name))
        })?;
        text = format!("{}\n\n", value.trim_end());
    }
    let message = PromptMessage::new_text(Role::User, text + suffix);
    Ok(GetPromptResult::new(vec![message])
        .with_description(prompt.description.clone().unwrap_or_default()))
}
