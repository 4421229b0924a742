//! Tools in the shapes in which the clients of models take them, in as few words as they need.
//!
//! Schemas are compact ([`cofferdam_core::schema::compact`]): they accept and refuse what the whole ones
//! do. OpenAI's strict mode is not claimed: it wants every property required, which would change
//! what a tool takes; the host checks each call against the whole schema anyway.

use serde_json::{Value, json};

use super::registry::{Registry, ToolEntry};
use cofferdam_core::policy::{Capabilities, Files, Policy, Role};
use cofferdam_core::schema::compact;

/// A tool under the name that a client is told.
pub struct Exported<'a> {
    /// Letters, digits, `_` and `-`, at most 64: what every client takes.
    pub name: String,
    /// The tool.
    pub entry: &'a ToolEntry,
    input: Value,
}

impl<'a> Exported<'a> {
    /// A tool as an agent under `role` is told of it. Under a role it has the role's own word or
    /// its short name, where that means this tool; otherwise `plugin__tool`.
    ///
    /// `None` where its input schema is invalid: every call of it would be refused, so nobody is
    /// told of it. That is logged, with the place in the schema (S4, "Fallback Strategy").
    pub fn new(registry: &Registry, entry: &'a ToolEntry, role: Option<&Role>) -> Option<Self> {
        if let Err(error) = entry.input() {
            tracing::error!("{error}; nobody is told of it, since no call of it could be checked");
            return None;
        }
        let input = role.and_then(|role| role.parameters(&entry.qualified_name()));
        let input = compact(input.unwrap_or(&entry.tool().input));
        Some(Self { name: name(registry, entry, role), entry, input })
    }

    /// As in MCP's `tools/list` (revision 2025-06-18 and later). The hints come from what a call is
    /// granted, not from what the plugin says of itself; where it would be denied, from what the
    /// plugin asks for.
    pub fn mcp(&self, policy: &Policy) -> Value {
        let tool = self.entry.tool();
        let may = match policy.decide(&self.entry.subject(), None) {
            Ok(grant) => grant.capabilities,
            Err(_) => {
                let requests = self.entry.plugin.manifest.requests.clone();
                Capabilities { files: tool.effects, ..requests }
            }
        };
        let reads_only = !tool.agents && may.files < Files::Write;
        json!({
            "name": self.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": self.input,
            "outputSchema": compact(&tool.output),
            "annotations": {
                "readOnlyHint": reads_only,
                "destructiveHint": !reads_only,
                "idempotentHint": reads_only,
                "openWorldHint": tool.agents || !may.http.is_empty(),
            },
        })
    }

    /// As in the `tools` of OpenAI's chat completions.
    pub fn openai(&self) -> Value {
        let description = &self.entry.tool().description;
        json!({
            "type": "function",
            "function": {"name": self.name, "description": description, "parameters": self.input},
        })
    }

    /// As in the `tools` of Anthropic's messages.
    pub fn anthropic(&self) -> Value {
        let description = &self.entry.tool().description;
        json!({"name": self.name, "description": description, "input_schema": self.input})
    }
}

fn name(registry: &Registry, entry: &ToolEntry, role: Option<&Role>) -> String {
    let exported = entry.exported_name();
    let Some(role) = role else { return exported };
    let qualified = entry.qualified_name();
    let words = role.names().filter(|(_, target)| **target == qualified).map(|(word, _)| word);
    words
        .chain([entry.tool().name.as_str()])
        .filter(|word| is_name(word))
        .find(|word| {
            let means = registry.resolve(word, Some(role));
            means.is_ok_and(|means| std::ptr::eq(means.as_ref(), entry))
        })
        .map_or(exported, str::to_owned)
}

/// Whether every client takes such a name for a tool.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// A tool as a document for people, with everything that its schemas say.
pub fn markdown(entry: &ToolEntry) -> String {
    let tool = entry.tool();
    format!(
        "## {}\n\n{} (files: {})\n\nArguments:\n\n```json\n{:#}\n```\n\nAnswer:\n\n```json\n{:#}\n```\n\n",
        entry.qualified_name(),
        tool.description,
        tool.effects,
        tool.input,
        tool.output
    )
}
