//! Prompts for agents: the work order, the rules, the tools with their schemas, and the schema of
//! the response. Source of the rules: the pipeline commands.

use std::fmt::Write as _;

use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::Value;

use super::designer::DesignerOutput;
use super::qa::QaOutput;
use super::work_order::WorkOrder;
use super::{EDIT_TOOLS, ERROR_TOOL, VERIFICATION_TOOL};
use cofferdam_plugin::registry::Registry;

/// The prompt for the Designer.
pub fn designer(order: &WorkOrder, registry: &Registry) -> String {
    let mut prompt = String::from(
        "You are the Designer of a pipeline. You write the edits that carry out one step, QA \
         reviews them, and they are executed verbatim. You edit nothing yourself.\n",
    );
    section(&mut prompt, "Work order", order);
    tools(&mut prompt, registry);
    let _ = write!(
        prompt,
        "\n# Rules\n\n\
         - `touched_files`: all files that the commands touch, and no others; all within \
           `scope_allowlist`.\n\
         - `commands`: in their order; each sees what the ones before it have changed. `tool` is \
           {}; `args` are exactly as its schema says; `reason` is one sentence at most.\n\
         - `changed_signatures`: changes of the public API; `[]` if there are none.\n\
         - `verification`: the lint of the result, by `{}`; at least what `acceptance.lint` says.\n\
         - Nothing that `invariants` names may change.\n\
         - If you can't produce valid commands: `touched_files` and `changed_signatures` are `[]`, \
           and the one command is `{{\"tool\": \"{ERROR_TOOL}\", \"args\": {{}}, \"reason\": \"...\"}}`.\n",
        EDIT_TOOLS.map(|(name, _)| format!("`{name}`")).join(" or "),
        VERIFICATION_TOOL.0,
    );
    answer::<DesignerOutput>(&mut prompt);
    prompt
}

/// The prompt for QA.
pub fn qa(order: &WorkOrder, design: &DesignerOutput, registry: &Registry) -> String {
    let mut prompt = String::from(
        "You are QA of a pipeline. A Designer has written the edits that carry out one step; if \
         you approve them, they are executed verbatim. You edit nothing yourself. For spot checks \
         you may use `locate_symbol`, `get_source` and `discover_api`, and no other tools.\n",
    );
    section(&mut prompt, "Work order", order);
    section(&mut prompt, "The Designer's output", design);
    tools(&mut prompt, registry);
    prompt.push_str(
        "\n# Rules\n\n\
         - `decision`: exactly `APPROVED` or `REJECTED`.\n\
         - `APPROVED`: `commands` are the Designer's, or what you make of them, within \
           `scope_allowlist`; `verification` is the Designer's or a wider one; `reasons` are \
           optional notes.\n\
         - `REJECTED`: `commands` is `[]`, `verification` is `null`, `reasons` and \
           `required_changes` say why and what to change.\n\
         - `spot_checks`: what you verified, and what you did not check.\n\
         - Approve nothing that touches files outside of `scope_allowlist` or breaks one of the \
           `invariants`.\n",
    );
    answer::<QaOutput>(&mut prompt);
    prompt
}

fn section(prompt: &mut String, title: &str, document: &impl Serialize) {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    let _ = write!(prompt, "\n# {title}\n\n```json\n{text}\n```\n");
}

fn tools(prompt: &mut String, registry: &Registry) {
    prompt.push_str("\n# Tools\n");
    for (name, qualified) in EDIT_TOOLS.into_iter().chain([VERIFICATION_TOOL]) {
        let Ok(entry) = registry.resolve(qualified, None) else { continue };
        let tool = entry.tool();
        let mut input = (*tool.input).clone();
        if let Some(fields) = input.as_object_mut() {
            fields.shift_remove("$schema");
            fields.shift_remove("title");
        }
        let _ = write!(prompt, "\n## {name}\n\n{}\n\n```json\n{input}\n```\n", tool.description);
    }
}

fn answer<T: JsonSchema>(prompt: &mut String) {
    let schema: Value = schema_for!(T).to_value();
    let _ = write!(
        prompt,
        "\n# Answer\n\nAnswer with exactly one JSON document of this schema: no markdown, no prose.\n\n\
         ```json\n{schema}\n```\n"
    );
}
