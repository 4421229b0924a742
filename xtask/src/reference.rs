//! `docs/tools.md` and `docs/settings.md`: the built-in tools, and every key of `cofferdam.toml`.
//!
//! What stands above the generated tables is `reference/tools.md` and `reference/settings.md`.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::answers::{ask, list, text};
use crate::fields::{Field, fields, kind, one_line, required, resolve, row};
use crate::project::Project;

const TOOLS: &str = include_str!("reference/tools.md");
const SETTINGS: &str = include_str!("reference/settings.md");

/// The largest example, in characters, that is shown on one line.
const LINE: usize = 96;

/// The catalogue of the built-in tools.
///
/// # Errors
/// The command does not answer, or in another form.
pub fn tools(project: &Project) -> Result<String> {
    let plugins = ask(project, &["plugin", "list"])?;
    let (mut overview, mut details) = (String::new(), String::new());
    for plugin in list(&plugins, "plugins")? {
        let names = list(plugin, "tools")?;
        if names.is_empty() {
            continue;
        }
        let name = text(plugin, "name")?;
        let denied =
            if plugin["granted"] == plugin["requests"] { "" } else { " (not granted by default)" };
        write!(details, "\n## {name}\n\n{}\n", one_line(text(plugin, "description")?))?;
        write!(details, "\nRequests: {}.\n", requests(&plugin["requests"], denied))?;
        for tool in names {
            let tool = tool.as_str().context("the name of a tool is no text")?;
            let qualified = format!("{name}.{tool}");
            let document = ask(project, &["tools", &qualified])?;
            let (title, effects) = (text(&document, "title")?, text(&document, "effects")?);
            let anchor = qualified.replace('.', "");
            writeln!(
                overview,
                "| [`{qualified}`](#{anchor}) | {effects}{denied} | {} |",
                one_line(title)
            )?;
            details += &section(&qualified, &document)?;
        }
    }
    Ok(format!(
        "{TOOLS}\n## Overview\n\n| tool | effect on files | what it does |\n|---|---|---|\n{overview}{details}"
    ))
}

/// What a plugin requests, in words.
fn requests(requests: &Value, denied: &str) -> String {
    let mut words = Vec::new();
    for (key, value) in requests.as_object().into_iter().flatten() {
        match value {
            Value::String(value) if value != "none" => words.push(format!("`{key} = \"{value}\"`")),
            Value::Bool(true) => words.push(format!("`{key} = true`")),
            Value::Array(values) if !values.is_empty() => words.push(format!("`{key} = {value}`")),
            _ => {}
        }
    }
    if words.is_empty() { "nothing".to_owned() } else { words.join(", ") + denied }
}

/// A tool with its arguments and an example.
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

/// Every key of `cofferdam.toml`.
///
/// # Errors
/// The command does not answer, or in another form.
pub fn settings(project: &Project) -> Result<String> {
    let schema = ask(project, &["schema", "settings"])?;
    let mut page = SETTINGS.to_owned();
    let mut waiting = vec![("Top level".to_owned(), &schema)];
    let mut done: Vec<(&Value, String)> = Vec::new();
    while !waiting.is_empty() {
        let (heading, table) = waiting.remove(0);
        let title = if heading.starts_with('[') { format!("`{heading}`") } else { heading.clone() };
        write!(page, "\n## {title}\n")?;
        if let Some(description) =
            table["description"].as_str().filter(|_| heading.starts_with('['))
        {
            write!(page, "\n{}\n", one_line(description))?;
        }
        let prefix = heading.trim_matches(['[', ']']);
        let prefix = if heading.starts_with('[') { format!("{prefix}.") } else { String::new() };
        let mut rows = Vec::new();
        for (name, field) in table["properties"].as_object().context("settings without keys")? {
            let mut row = key(&schema, table, name, field);
            if let Some((place, inner)) = inner_table(&schema, &format!("{prefix}{name}"), field) {
                let known = done.iter().find(|(other, _)| std::ptr::eq(*other, inner));
                let place = known.map_or(place.clone(), |(_, known)| known.clone());
                let alone = row.kind == "object" || row.kind.starts_with("table of");
                let section = format!("see `{place}`");
                row.kind = if alone { section } else { format!("{}: {section}", row.kind) };
                if known.is_none() {
                    done.push((inner, place.clone()));
                    waiting.push((place, inner));
                }
            }
            rows.push(row);
        }
        page += &self::table("key", &rows);
    }
    Ok(page)
}

/// A key of a table without what is nested in it.
fn key(root: &Value, table: &Value, name: &str, field: &Value) -> Field {
    let inner = resolve(root, field);
    let description = [field, inner].iter().find_map(|schema| schema["description"].as_str());
    let whole = fields(root, table);
    let default =
        whole.into_iter().find(|other| other.path == name).and_then(|field| field.default);
    Field {
        path: name.to_owned(),
        kind: kind(root, field),
        required: required(table, name),
        default,
        description: one_line(description.unwrap_or_default()),
    }
}

/// The table that a key holds, or of which it holds several, with its heading in TOML.
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
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_written_as_in_a_manifest() {
        let all =
            json!({"files": "write", "scan": false, "cache": true, "process": ["git"], "http": []});
        for (asked, denied, wanted) in [
            (all, "", "`files = \"write\"`, `cache = true`, `process = [\"git\"]`"),
            (json!({"process": ["bash"]}), " (off)", "`process = [\"bash\"]` (off)"),
            (json!({"files": "none", "http": []}), "", "nothing"),
        ] {
            assert_eq!(requests(&asked, denied), wanted);
        }
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
