//! What plugins, roles and agents may do, as the command's own documents say it: those of `plugin list`,
//! `policy explain` and `policy show`. Only shown; grants are changed with the command.

use std::sync::Arc;

use axum::http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use crate::form::Fields;
use crate::layout::{Page, line, name};
use crate::state::Console;
use cofferdam_engine::runtime::blocking;

/// The parts of the policy with a table or a list of their own.
const SHOWN_PARTS: [&str; 2] = ["grants", "roles"];

/// How deep documents are shown.
const MAX_DEPTH: usize = 8;

/// The roles, each plugin with what it asks for and why it is granted or not, and the other settings. Takes no
/// fields, and has no forms.
pub async fn show(console: &Arc<Console>, _: Fields) -> Page {
    let reading = Arc::clone(console);
    match blocking(move || (reading.permissions)()).await {
        Err(error) => Page::failed("permissions", StatusCode::INTERNAL_SERVER_ERROR, error),
        Ok(document) => {
            let body = html! {
                p class="quiet" {
                    "What is granted is changed with " code { "cofferdam policy grant" } " and "
                    code { "cofferdam policy revoke" } ", or in the settings."
                }
                (roles(&document["policy"]["roles"]))
                h2 { "Plugins" }
                @for plugin in items(&document["plugins"]) { (of_plugin(plugin)) }
                h2 { "Settings" }
                dl class="facts" { @for (key, part) in document["policy"].as_object().into_iter().flatten() {
                    @if !SHOWN_PARTS.contains(&key.as_str()) {
                        div { dt { (line(key)) } dd { (value(part)) } }
                    }
                } }
            };
            Page::new("permissions", "Permissions", body)
        }
    }
}

fn roles(roles: &Value) -> Markup {
    html! {
        h2 id="roles" { "Roles" }
        section class="scroll" aria-label="Roles" tabindex="0" { table {
            caption { "What calls under a role can use, and where" }
            thead { tr {
                th scope="col" { "Role" } th scope="col" { "For" } th scope="col" { "Tools" } th scope="col" { "Scope" }
            } }
            tbody { @for role in items(roles) { tr {
                th scope="row" { (value(&role["role"])) }
                td { (value(&role["description"])) }
                td { @let tools = items(&role["tools"]); details {
                    summary { (tools.len()) " tools" }
                    (value(&role["tools"]))
                } }
                td { (value(&role["scope"])) }
            } } }
        } }
    }
}

fn of_plugin(plugin: &Value) -> Markup {
    let capabilities = items(&plugin["capabilities"]);
    let count = |part: &str| items(&plugin[part]).len();
    let own = ["plugin", "came_with_the_host", "capabilities"];
    let has_content = |of: &Value| match of {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    html! {
        article class="card" id=[plugin["name"].as_str().map(|name| format!("plugin-{name}"))] {
            h3 { (value(&plugin["name"])) " " small { (value(&plugin["version"])) }
                " " span class="tag" { @if plugin["came_with_the_host"] == true { "came with the host" } @else { "installed" } }
            }
            p { (value(&plugin["description"])) }
            @if capabilities.is_empty() { p class="quiet" { "It asks for nothing." } } @else {
                section class="scroll" aria-label=(format!("Capabilities of {}", line(plugin["name"].as_str().unwrap_or_default()))) tabindex="0" {
                    table {
                        caption { "What it asks for, and what it is granted" }
                        thead { tr {
                            th scope="col" { "Capability" } th scope="col" { "Allows" } th scope="col" { "Granted" } th scope="col" { "Why" }
                        } }
                        tbody { @for capability in capabilities { tr {
                            th scope="row" { (value(&capability["capability"])) }
                            td { (value(&capability["allows"])) }
                            td { @if capability["granted"] == true { span class="tag executed-ok" { "yes" } } @else { span class="tag" { "no" } } }
                            td { (value(&capability["why"])) }
                        } } }
                    }
                }
            }
            details {
                summary { (count("tools")) " tools, " (count("backends")) " backends, limits and more" }
                dl class="facts" { @for (key, part) in plugin.as_object().into_iter().flatten() {
                    @if !own.contains(&key.as_str()) && has_content(part) {
                        div { dt { (line(key)) } dd { (value(part)) } }
                    }
                } }
            }
        }
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Shows a JSON value: objects as terms, lists as lists, strings as names. What is nested deeper than
/// [`MAX_DEPTH`] is left out.
pub fn value(value: &Value) -> Markup {
    nested(value, MAX_DEPTH)
}

fn nested(value: &Value, depth: usize) -> Markup {
    html! { @match value {
        Value::Null => { span class="quiet" { "none" } },
        Value::String(text) => (name(text)),
        Value::Bool(true) => "yes",
        Value::Bool(false) => "no",
        Value::Number(number) => (number),
        _ if depth == 0 => "…",
        Value::Array(items) if items.is_empty() => { span class="quiet" { "none" } },
        Value::Array(items) => { ul class="plain" { @for item in items { li { (nested(item, depth - 1)) } } } },
        Value::Object(fields) if fields.is_empty() => { span class="quiet" { "none" } },
        Value::Object(fields) => { dl class="inner" { @for (key, of) in fields {
            div { dt { (line(key)) } dd { (nested(of, depth - 1)) } }
        } } },
    } }
}
