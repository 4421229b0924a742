//! `cofferdam tools`: lists the tools, or shows one with its schemas.

use clap::ValueEnum as _;
use serde_json::{Value, json};

use super::args::{Global, ToolFormat, Tools};
use super::output::Output;
use super::setup::RoleUse;
use super::{CliError, exit, setup, tokens};
use cofferdam_core::policy::Role;
use cofferdam_engine::host::Host;
use cofferdam_plugin::export::{Exported, markdown};
use cofferdam_plugin::registry::{ToolEntry, Unresolved};
use cofferdam_plugin::search::search;

pub fn execute(global: &Global, args: &Tools, output: &Output) -> Result<u8, CliError> {
    let (host, _runtime, role) =
        setup::host_under(global, Some(1), args.role.as_deref(), RoleUse::Show)?;
    let (registry, role) = (host.registry(), host.role(role.as_deref())?);
    let is_listed = |entry: &&ToolEntry| {
        role.is_none_or(|role| role.lists(&entry.plugin.manifest.name, &entry.tool().name))
    };
    let of_role = || registry.tools(role).map(AsRef::as_ref).filter(is_listed);
    let entries: Vec<&ToolEntry> = match (&args.tool, &args.search) {
        (Some(name), _) => vec![
            registry.resolve(name, role).map_err(|unresolved| unknown(name, unresolved))?.as_ref(),
        ],
        (None, Some(words)) => search(of_role(), words),
        (None, None) => of_role().collect(),
    };
    let shown = shown(&host, role, args, &entries)?;
    if args.tokens {
        output.json(&count_tokens(args.format, &shown))?;
        return Ok(exit::OK);
    }
    match args.format {
        ToolFormat::Json if args.tool.is_none() => output.json(&json!({ "tools": values(shown) })),
        ToolFormat::Mcp => output.json(&json!({ "tools": values(shown) })),
        ToolFormat::Openai | ToolFormat::Anthropic => output.json(&values(shown)),
        ToolFormat::Text if args.tool.is_none() => output.text(&listing(&entries)),
        ToolFormat::Json | ToolFormat::Text => {
            output.document(&shown.into_iter().next().map(|shown| shown.value))
        }
        ToolFormat::Markdown => {
            let text = shown.iter().filter_map(|shown| shown.value.as_str()).collect::<String>();
            output.text(&text)
        }
    }?;
    Ok(exit::OK)
}

/// A tool in the chosen output format.
struct ListedTool {
    tool: String,
    name: String,
    /// A JSON document; the text formats are a string.
    value: Value,
}

fn shown(
    host: &Host,
    role: Option<&Role>,
    args: &Tools,
    entries: &[&ToolEntry],
) -> Result<Vec<ListedTool>, CliError> {
    let of_client =
        matches!(args.format, ToolFormat::Mcp | ToolFormat::Openai | ToolFormat::Anthropic);
    if of_client && args.brief {
        return Err(CliError::usage(format!(
            "{} has no short form; --brief goes with json, text and markdown",
            name_of(args.format)
        )));
    }
    if args.output_schemas && args.format != ToolFormat::Mcp {
        return Err(CliError::usage("--output-schemas goes with --format mcp".to_owned()));
    }
    let of_client = |shape: &dyn Fn(&Exported<'_>) -> Value| -> Vec<ListedTool> {
        let exported =
            entries.iter().filter_map(|entry| Exported::new(host.registry(), entry, role));
        exported
            .map(|tool| ListedTool {
                tool: tool.entry.qualified_name().into(),
                value: shape(&tool),
                name: tool.name,
            })
            .collect()
    };
    let of_entry = |shape: fn(&ToolEntry) -> Value| -> Vec<ListedTool> {
        let shown = |entry: &&ToolEntry| {
            let tool = entry.qualified_name().to_string();
            ListedTool { name: tool.clone(), tool, value: shape(entry) }
        };
        entries.iter().map(shown).collect()
    };
    let whole = args.tool.is_some();
    Ok(match args.format {
        ToolFormat::Mcp if args.output_schemas => {
            of_client(&|tool| tool.mcp_with_output(host.policy()))
        }
        ToolFormat::Mcp => of_client(&|tool| tool.mcp(host.policy())),
        ToolFormat::Openai => of_client(&|tool| tool.openai()),
        ToolFormat::Anthropic => of_client(&|tool| tool.anthropic()),
        ToolFormat::Json if args.brief => of_entry(brief),
        ToolFormat::Json if !whole => of_entry(summary),
        ToolFormat::Json => of_entry(document),
        ToolFormat::Text if args.brief || !whole => of_entry(|entry| line(entry, 0).into()),
        ToolFormat::Text => of_entry(document),
        ToolFormat::Markdown if args.brief => of_entry(|entry| {
            format!("- `{}`: {}\n", entry.qualified_name(), entry.tool().title).into()
        }),
        ToolFormat::Markdown => of_entry(|entry| markdown(entry).into()),
    })
}

/// The token counts of each tool and in total. JSON is counted without white space, as clients send
/// it.
fn count_tokens(format: ToolFormat, shown: &[ListedTool]) -> Value {
    let count = |value: &Value| match value {
        Value::String(text) => tokens::count(text),
        value => tokens::count(&value.to_string()),
    };
    let counts: Vec<(&ListedTool, usize)> =
        shown.iter().map(|shown| (shown, count(&shown.value))).collect();
    json!({
        "encoding": tokens::ENCODING,
        "format": name_of(format),
        "tools": counts.iter().map(|(shown, tokens)| json!({"tool": shown.tool, "name": shown.name, "tokens": tokens})).collect::<Value>(),
        "total": counts.iter().map(|(_, tokens)| tokens).sum::<usize>(),
    })
}

fn name_of(format: ToolFormat) -> String {
    format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn values(shown: Vec<ListedTool>) -> Value {
    shown.into_iter().map(|shown| shown.value).collect()
}

fn unknown(name: &str, unresolved: Unresolved) -> CliError {
    let none = || CliError::usage(format!("there is no tool '{name}'"));
    match unresolved {
        Unresolved::Unknown(Some(nearest)) => {
            none().with_hint(format!("did you mean '{nearest}'?"))
        }
        Unresolved::Unknown(None) => none().with_hint("`cofferdam tools` lists them"),
        Unresolved::Ambiguous(names) => {
            CliError::usage(format!("'{name}' could be {}", names.join(" or ")))
        }
    }
}

fn brief(entry: &ToolEntry) -> Value {
    json!({"name": entry.qualified_name(), "title": entry.tool().title})
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
    document["input"] = (*tool.input).clone();
    document["output"] = (*tool.output).clone();
    if let Some(failure) = &tool.failure {
        document["failure"] = (**failure).clone();
    }
    document
}

fn listing(entries: &[&ToolEntry]) -> String {
    let width = entries.iter().map(|entry| entry.qualified_name().len()).max().unwrap_or(0);
    entries.iter().map(|entry| line(entry, width)).collect()
}

fn line(entry: &ToolEntry, width: usize) -> String {
    format!("{:width$}  {}\n", entry.qualified_name(), entry.tool().title)
}
