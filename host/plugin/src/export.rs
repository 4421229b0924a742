//! Tool definitions in the formats of model clients, with as few words as possible.
//!
//! Schemas are compact ([`cofferdam_core::schema::compact`]): they accept and refuse the same
//! documents as the full schemas. OpenAI's strict mode is not claimed: it requires every property,
//! which would change the arguments of tools; the host checks each call against the full schema
//! anyway.

use serde_json::{Map, Value, json};

use super::registry::{Registry, ToolEntry};
use cofferdam_core::policy::{Capabilities, Files, Policy, Role};
use cofferdam_core::schema::compact;

/// A tool under its name for clients.
pub struct Exported<'a> {
    /// Letters, digits, `_` and `-`, at most 64, which every client accepts.
    pub name: String,
    /// The exported tool itself.
    pub entry: &'a ToolEntry,
    input: Value,
}

impl<'a> Exported<'a> {
    /// Describes a tool for an agent under `role`. Under a role, its name is the role's own name
    /// for it or its short name, if that is unambiguous; otherwise `plugin__tool`.
    ///
    /// Returns `None` if its input schema is invalid, since every call would be refused. This is
    /// logged, with the place in the schema (the tool schemas, "Fallback Strategy").
    pub fn new(registry: &Registry, entry: &'a ToolEntry, role: Option<&Role>) -> Option<Self> {
        if let Err(error) = entry.input() {
            tracing::error!(
                "{error}; the tool is not listed, since its calls could not be checked"
            );
            return None;
        }
        let input = role.and_then(|role| role.parameters(&entry.qualified_name()));
        let input = compact(input.unwrap_or(&entry.tool().input));
        Some(Self { name: name(registry, entry, role), entry, input })
    }

    /// The format of MCP's `tools/list` (revision 2025-06-18 and later), without the output schema.
    /// The hints are derived from what a call is granted, not from the plugin's own description; for
    /// a denied call, from what the plugin requests. Hints that say what MCP assumes without them are
    /// left out.
    pub fn mcp(&self, policy: &Policy) -> Value {
        let tool = self.entry.tool();
        let may = match policy.decide(&self.entry.subject(), None) {
            Ok(grant) => grant.capabilities,
            Err(_) => {
                let requests = self.entry.plugin.manifest.requests.clone();
                Capabilities { files: tool.effects, ..requests }
            }
        };
        let mut hints = Map::new();
        // The hints `destructiveHint` and `idempotentHint` mean nothing for a tool that only reads.
        let leaves_programs = may.background && may.files > Files::None;
        if !tool.agents && !leaves_programs && may.files < Files::Write {
            hints.insert("readOnlyHint".to_owned(), true.into());
        }
        // A script may call tools that reach out.
        let is_script = may.tools && may.files == Files::Write;
        let has_origins = !may.http.is_empty() || may.any_origin;
        if !tool.agents && !has_origins && !is_script {
            hints.insert("openWorldHint".to_owned(), false.into());
        }
        json!({
            "name": self.name,
            "title": tool.title,
            "description": tool.description,
            "inputSchema": self.input,
            "annotations": hints,
        })
    }

    /// As [`Self::mcp`], with the schema of the answers.
    pub fn mcp_with_output(&self, policy: &Policy) -> Value {
        let mut tool = self.mcp(policy);
        tool["outputSchema"] = compact(&self.entry.tool().output);
        tool
    }

    /// The format of `tools` in OpenAI's chat completions.
    pub fn openai(&self) -> Value {
        let description = &self.entry.tool().description;
        json!({
            "type": "function",
            "function": {"name": self.name, "description": description, "parameters": self.input},
        })
    }

    /// The format of `tools` in Anthropic's messages.
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

/// Whether every client accepts this as the name of a tool.
fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Describes a tool in Markdown, with its full schemas.
pub fn markdown(entry: &ToolEntry) -> String {
    let tool = entry.tool();
    format!(
        "## {}\n\n{} (files: {})\n\nArguments:\n\n```json\n{:#}\n```\n\nAnswer:\n\n```json\n{:#}\n```\n\n",
        entry.qualified_name(),
        tool.description,
        tool.effects,
        *tool.input,
        *tool.output
    )
}
