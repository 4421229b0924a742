//! `cofferdam tools`

use serde_json::{Value, json};

use super::args::{Global, ToolFormat, Tools};
use super::output::Output;
use super::{CliError, exit, setup};
use crate::plugin::registry::{ToolEntry, Unresolved};
use crate::policy::Files;

pub fn execute(global: &Global, args: &Tools, output: &Output) -> Result<u8, CliError> {
    let (host, _timers) = setup::host(global, Some(1))?;
    let role = host.role(args.role.as_deref())?;
    let entries: Vec<&ToolEntry> = match &args.tool {
        None => host.registry().tools(role).map(AsRef::as_ref).collect(),
        Some(name) => vec![
            host.registry().resolve(name, role).map_err(|unresolved| unknown(name, unresolved))?,
        ],
    };
    let whole = args.tool.is_some();
    match args.format {
        ToolFormat::Text if !whole => output.text(&listing(&entries))?,
        ToolFormat::Text => output.document(&entries.first().map(|entry| document(entry)))?,
        ToolFormat::Json if whole => {
            output.json(&entries.first().map_or(Value::Null, |entry| document(entry)))?
        }
        ToolFormat::Json => output.json(&json!({ "tools": each(&entries, summary) }))?,
        ToolFormat::Mcp => output.json(&json!({ "tools": each(&entries, mcp) }))?,
        ToolFormat::Openai => output.json(&each(&entries, openai))?,
        ToolFormat::Anthropic => output.json(&each(&entries, anthropic))?,
        ToolFormat::Markdown => {
            output.text(&entries.iter().map(|entry| markdown(entry)).collect::<String>())?
        }
    }
    Ok(exit::OK)
}

fn unknown(name: &str, unresolved: Unresolved) -> CliError {
    CliError::Usage(match unresolved {
        Unresolved::Unknown(Some(nearest)) => {
            format!("there is no tool '{name}'; did you mean '{nearest}'?")
        }
        Unresolved::Unknown(None) => {
            format!("there is no tool '{name}'; `cofferdam tools` lists them")
        }
        Unresolved::Ambiguous(names) => format!("'{name}' could be {}", names.join(" or ")),
    })
}

fn each(entries: &[&ToolEntry], shape: fn(&ToolEntry) -> Value) -> Value {
    entries.iter().map(|entry| shape(entry)).collect()
}

fn summary(entry: &ToolEntry) -> Value {
    let tool = entry.tool();
    json!({
        "name": entry.qualified_name(),
        "title": tool.title,
        "description": tool.description,
        "effects": tool.effects,
    })
}

fn document(entry: &ToolEntry) -> Value {
    let tool = entry.tool();
    let mut document = summary(entry);
    document["input"] = tool.input.clone();
    document["output"] = tool.output.clone();
    if let Some(failure) = &tool.failure {
        document["failure"] = failure.clone();
    }
    document
}

/// As in MCP's `tools/list` (revision 2025-06-18 and later).
fn mcp(entry: &ToolEntry) -> Value {
    let tool = entry.tool();
    json!({
        "name": entry.exported_name(),
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input,
        "outputSchema": tool.output,
        "annotations": {
            "readOnlyHint": tool.effects < Files::Write,
            "openWorldHint": !entry.plugin.manifest.requests.http.is_empty(),
        },
    })
}

/// As in OpenAI's `tools` parameter.
fn openai(entry: &ToolEntry) -> Value {
    let tool = entry.tool();
    json!({
        "type": "function",
        "function": {"name": entry.exported_name(), "description": tool.description, "parameters": tool.input},
    })
}

/// As in Anthropic's `tools` parameter.
fn anthropic(entry: &ToolEntry) -> Value {
    let tool = entry.tool();
    json!({"name": entry.exported_name(), "description": tool.description, "input_schema": tool.input})
}

fn markdown(entry: &ToolEntry) -> String {
    let tool = entry.tool();
    let pretty = |value: &Value| format!("{value:#}");
    format!(
        "## {}\n\n{} (files: {})\n\nArguments:\n\n```json\n{}\n```\n\nAnswer:\n\n```json\n{}\n```\n\n",
        entry.qualified_name(),
        tool.description,
        tool.effects,
        pretty(&tool.input),
        pretty(&tool.output)
    )
}

fn listing(entries: &[&ToolEntry]) -> String {
    let width = entries.iter().map(|entry| entry.qualified_name().len()).max().unwrap_or(0);
    entries
        .iter()
        .map(|entry| format!("{:width$}  {}\n", entry.qualified_name(), entry.tool().title))
        .collect()
}
