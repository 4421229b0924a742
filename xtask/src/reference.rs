//! Generates `docs/tools.md` and `docs/settings.md`: the built-in tools, and every key of
//! `cofferdam.toml`.
//!
//! The text above the generated tables is in `reference/tools.md` and `reference/settings.md`.

use std::collections::VecDeque;
use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::answers::{ask, list, text};
use crate::fields::{Field, fields, one_line, resolve, row};
use crate::project::Project;

const TOOLS: &str = include_str!("reference/tools.md");
const SETTINGS: &str = include_str!("reference/settings.md");

/// Added to capabilities that need a grant, and to tools that need such a capability.
const DENIED: &str = " (not granted by default)";

/// The longest example, in characters, that is shown on one line.
const LINE: usize = 96;

/// Generates the catalogue of the built-in tools.
///
/// # Errors
/// If the command fails, or its output has another form than expected.
pub fn tools(project: &Project) -> Result<String> {
    let plugins = ask(project, &["plugin", "list"])?;
    let (mut overview, mut details) = (String::new(), String::new());
    for plugin in list(&plugins, "plugins")? {
        let names = list(plugin, "tools")?;
        if names.is_empty() {
            continue;
        }
        let name = text(plugin, "name")?;
        let explained = ask(project, &["policy", "explain", name])?;
        write!(details, "\n## {name}\n\n{}\n", one_line(text(plugin, "description")?))?;
        write!(details, "\nRequests {}.\n", requests(list(&explained, "capabilities")?)?)?;
        for tool in names {
            let tool = tool.as_str().context("the name of a tool is no text")?;
            let qualified = format!("{name}.{tool}");
            let document = ask(project, &["tools", &qualified])?;
            let explained = ask(project, &["policy", "explain", &qualified])?;
            let denied = if explained["tool"]["decision"] == "denied" { DENIED } else { "" };
            let (title, effects) = (text(&document, "title")?, text(&document, "effects")?);
            let anchor = qualified.replace('.', "");
            let title = one_line(title);
            writeln!(overview, "| [`{qualified}`](#{anchor}) | {effects}{denied} | {title} |")?;
            details += &section(&qualified, &document)?;
        }
    }
    Ok(format!(
        "{TOOLS}\n## Overview\n\n| tool | effect on files | what it does |\n|---|---|---|\n{overview}{details}"
    ))
}

/// Lists what a plugin requests, from the capabilities that `policy explain` prints.
fn requests(capabilities: &[Value]) -> Result<String> {
    let word = |capability: &Value| {
        let denied = if capability["granted"] == false { DENIED } else { "" };
        Ok(format!("`{}`{denied}", text(capability, "capability")?))
    };
    let words: Vec<String> = capabilities.iter().map(word).collect::<Result<_>>()?;
    Ok(if words.is_empty() { "nothing".to_owned() } else { words.join(", ") })
}

/// The section of a tool, with its arguments and an example.
fn section(qualified: &str, document: &Value) -> Result<String> {
    let (title, effects) = (one_line(text(document, "title")?), text(document, "effects")?);
    let description = one_line(text(document, "description")?).replace('<', "&lt;");
    let mut section =
        format!("\n### {qualified}\n\n{title}; effect on files: {effects}.\n\n{description}\n");
    let input = &document["input"];
    let arguments = fields(input, input);
    if arguments.is_empty() {
        section += "\nNo arguments.\n";
    } else {
        section += &table("argument", &arguments);
    }
    let answer: Vec<String> = document["output"]["properties"]
        .as_object()
        .map_or_else(Vec::new, |fields| fields.keys().map(|name| format!("`{name}`")).collect());
    if !answer.is_empty() {
        write!(section, "\nReturns {}.\n", answer.join(", "))?;
    }
    if let Some(example) = input["examples"].as_array().and_then(|examples| examples.first()) {
        let line = example.to_string();
        let shown = if line.len() > LINE { serde_json::to_string_pretty(example)? } else { line };
        write!(section, "\n```json\n{shown}\n```\n")?;
    }
    Ok(section)
}

fn table(first: &str, fields: &[Field]) -> String {
    let rows: String = fields.iter().map(row).collect();
    format!("\n| {first} | value | default | meaning |\n|---|---|---|---|\n{rows}")
}

/// Generates the list of all keys of `cofferdam.toml`.
///
/// # Errors
/// If the command fails, or its output has another form than expected.
pub fn settings(project: &Project) -> Result<String> {
    let schema = ask(project, &["schema", "settings"])?;
    let mut page = SETTINGS.to_owned();
    page += "\n## Top level\n";
    let mut waiting = VecDeque::from([(String::new(), &schema)]);
    let mut known: Vec<(&Value, String)> = Vec::new();
    while let Some((heading, table)) = waiting.pop_front() {
        if !heading.is_empty() {
            write!(page, "\n## `{heading}`\n")?;
        }
        let prefix = match heading.trim_matches(['[', ']']) {
            "" => String::new(),
            place => format!("{place}."),
        };
        let mut rows = fields(&schema, table);
        rows.retain(|row| table["properties"].get(&row.path).is_some());
        for row in &mut rows {
            let field = &table["properties"][&row.path];
            let place = format!("{prefix}{}", row.path);
            let Some((place, inner)) = inner_table(&schema, &place, field) else { continue };
            let found = known.iter().find(|(other, _)| std::ptr::eq(*other, inner));
            let place = found.map_or(place, |(_, place)| place.clone());
            let is_alone = row.kind == "object" || row.kind.starts_with("table of");
            let kind = if is_alone { String::new() } else { format!("{}: ", row.kind) };
            row.kind = format!("{kind}see `{place}`");
            if found.is_none() {
                known.push((inner, place.clone()));
                waiting.push_back((place, inner));
            }
        }
        page += &self::table("key", &rows);
    }
    Ok(page)
}

/// The table or array of tables that a key contains, with its heading in TOML.
fn inner_table<'a>(root: &'a Value, place: &str, field: &'a Value) -> Option<(String, &'a Value)> {
    let is_table = |schema: &Value| schema["properties"].is_object();
    let field = resolve(root, field);
    if is_table(field) {
        return Some((format!("[{place}]"), field));
    }
    let named = resolve(root, &field["additionalProperties"]);
    if is_table(named) {
        return Some((format!("[{place}.NAME]"), named));
    }
    let item = resolve(root, &field["items"]);
    let choices = item["anyOf"].as_array().into_iter().flatten();
    let mut tables = choices.map(|choice| resolve(root, choice)).chain([item]);
    tables.find(|item| is_table(item)).map(|item| (format!("[[{place}]]"), item))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_say_what_is_not_granted() {
        let files = json!({"capability": "files=write", "granted": true});
        let agents = json!({"capability": "agents=*", "granted": false});
        for (capabilities, wanted) in [
            (vec![files.clone(), agents], "`files=write`, `agents=*` (not granted by default)"),
            (vec![files], "`files=write`"),
            (vec![], "nothing"),
        ] {
            assert_eq!(requests(&capabilities).unwrap(), wanted);
        }
        assert!(requests(&[json!({})]).is_err());
    }

    #[test]
    fn tables_are_found_in_every_form() {
        let root = json!({"$defs": {"T": {"type": "object", "properties": {"a": {}}}}});
        let reference = json!({"$ref": "#/$defs/T"});
        for (field, wanted) in [
            (reference.clone(), Some("[x]")),
            (json!({"anyOf": [reference, {"type": "null"}]}), Some("[x]")),
            (json!({"additionalProperties": reference}), Some("[x.NAME]")),
            (json!({"items": {"anyOf": [{"type": "string"}, reference]}}), Some("[[x]]")),
            (json!({"type": "string"}), None),
        ] {
            let found = inner_table(&root, "x", &field).map(|(place, _)| place);
            assert_eq!(found.as_deref(), wanted, "{field}");
        }
    }
}
