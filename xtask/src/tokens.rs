//! Generates `docs/tokens.md`: how many tokens the tools' schemas need, compared with the prose
//! that describes the same tools in the source documents (docs/decisions.md lists them).
//!
//! The prose itself is not part of this project. This file has its token counts: of the section of
//! each tool, from its heading to the next one, as Markdown, in the encoding of `cofferdam tools
//! --tokens`.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};

use crate::answers::ask;
use crate::project::Project;

/// A tool, the document that describes it in prose, and how many tokens that is.
const PROSE: [(&str, &str, u64); 30] = [
    ("edit.atomic_replace", "the pipeline commands", 252),
    ("edit.move_text", "the pipeline commands", 370),
    ("lint.lint_backend", "the pipeline commands", 270),
    ("lint_agent.run_linter", "the lint agent", 89),
    ("lint_agent.apply_fix", "the lint agent", 79),
    ("lint_agent.read_file", "the lint agent", 30),
    ("lint_agent.submit", "the lint agent", 58),
    ("lint_agent.ruff_config", "the lint agent", 42),
    ("files.read_file", "the actions reference", 82),
    ("files.write_file", "the actions reference", 99),
    ("files.read_code", "the actions reference", 19),
    ("edit.edit_code", "the actions reference", 116),
    ("edit.apply_patch", "the actions reference", 73),
    ("files.read_tree", "the actions reference", 103),
    ("grep.search_text", "the actions reference", 107),
    ("shell.run_command", "the actions reference", 111),
    ("tests.run_tests", "the actions reference", 621),
    ("lint.run_linter", "the actions reference", 566),
    ("build.build_project", "the actions reference", 679),
    ("git.git_status", "the actions reference", 38),
    ("git.git_diff", "the actions reference", 38),
    ("shell.bash", SCHEMAS, 681),
    ("files.read", SCHEMAS, 647),
    ("files.glob", SCHEMAS, 643),
    ("grep.grep", SCHEMAS, 817),
    ("docs.context7_resolve_library_id", SCHEMAS, 696),
    ("docs.context7_query_docs", SCHEMAS, 711),
    ("team.task", SCHEMAS, 102),
    ("team.send_message", SCHEMAS, 129),
    ("report.save_agent_report", SCHEMAS, 878),
];

/// The source document that asks for cheaper descriptions.
const SCHEMAS: &str = "the tool schemas";

/// How many percent of tokens that source wants to save ("Token Impact Analysis").
const WANTED: u64 = 70;

const HEAD: &str = "\
# What the tools cost in tokens

Generated from the built command by `cargo xtask gen`.

`cofferdam tools --role ROLE --format anthropic --tokens` counts what an agent is told about its tools:
names, descriptions and input schemas as JSON without white space, in OpenAI's encoding
`o200k_base`. The schemas are compact: they accept and refuse exactly what the complete ones do (a
test compares them on every example and on more than ten thousand changed ones). They keep every
description, repeat nothing and hold no examples. `cofferdam tools TOOL` prints the complete schemas.

*Prose* is what the source document of a tool says of it, counted in the same way
([decisions.md](decisions.md#the-five-source-documents) lists these documents). The tool schemas have
sections of about 700 tokens with parameters, constraints, examples and errors; the actions reference
and the pipeline commands have shorter ones. The tool schemas want tool descriptions to cost 70 % less
than that; `cargo xtask gen --check` fails where they do not.
";

/// Generates the page.
///
/// # Errors
/// If the command fails, or the tools of the tool schemas save less than that.
pub fn table(project: &Project) -> Result<String> {
    let mut text = HEAD.to_owned();
    let all = Counted::ask(project, &["--role", "main", "--format", "anthropic"])?;
    text +=
        "\n## Tools of the tool schemas\n\n| tool | prose | schema | saved |\n|---|--:|--:|--:|\n";
    let (mut prose, mut schemas) = (0, 0);
    for (tool, tokens) in &all.tools {
        if let Some((_, SCHEMAS, of_prose)) = described(tool) {
            writeln!(text, "| `{tool}` | {of_prose} | {tokens} | {} |", saved(of_prose, *tokens))?;
            (prose, schemas) = (prose + of_prose, schemas + tokens);
        }
    }
    writeln!(text, "| together | {prose} | {schemas} | {} |", saved(prose, schemas))?;
    ensure!(
        schemas * 100 <= prose * (100 - WANTED),
        "the tools of {SCHEMAS} cost {schemas} tokens, and {prose} as prose: less than {WANTED} % are saved"
    );

    text += "\n## Roles\n\n| role | tools | schemas | prose of these tools | names and titles only |\n|---|--:|--:|--:|--:|\n";
    for role in roles(project)? {
        let counted = Counted::ask(project, &["--role", &role, "--format", "anthropic"])?;
        let brief = Counted::ask(project, &["--role", &role, "--format", "text", "--brief"])?;
        let known = counted.tools.iter().filter_map(|(tool, _)| described(tool));
        let (known, prose) = known.fold((0, 0), |(n, sum), (_, _, tokens)| (n + 1, sum + tokens));
        let prose = match counted.tools.len() - known {
            0 => prose.to_string(),
            without => format!("{prose} (without {without})"),
        };
        let tools = counted.tools.len();
        writeln!(text, "| `{role}` | {tools} | {} | {prose} | {} |", counted.total, brief.total)?;
    }

    text += "\n## All tools\n\n| tool | schema | prose | from |\n|---|--:|--:|---|\n";
    for (tool, tokens) in &all.tools {
        let (from, prose) = described(tool)
            .map_or(("", String::new()), |(_, from, tokens)| (from, tokens.to_string()));
        writeln!(text, "| `{tool}` | {tokens} | {prose} | {from} |")?;
    }
    Ok(text)
}

fn described(tool: &str) -> Option<(&'static str, &'static str, u64)> {
    PROSE.into_iter().find(|(name, _, _)| *name == tool)
}

fn saved(prose: u64, schema: u64) -> String {
    format!("{} %", 100 - (schema * 100).div_ceil(prose.max(1)).min(100))
}

/// The token counts that the command prints, by qualified name.
struct Counted {
    tools: Vec<(String, u64)>,
    total: u64,
}

impl Counted {
    fn ask(project: &Project, options: &[&str]) -> Result<Self> {
        let answer = ask(project, &[&["tools", "--tokens"], options].concat())?;
        let tools = answer["tools"].as_array().into_iter().flatten();
        let tools: Option<_> = tools
            .map(|tool| Some((tool["tool"].as_str()?.to_owned(), tool["tokens"].as_u64()?)))
            .collect();
        let tools = tools.context("`cofferdam tools --tokens` prints another form")?;
        Ok(Self { tools, total: answer["total"].as_u64().unwrap_or_default() })
    }
}

fn roles(project: &Project) -> Result<Vec<String>> {
    let answer = ask(project, &["role", "list"])?;
    let roles = answer["roles"].as_array().into_iter().flatten();
    let names: Option<_> = roles.map(|role| role["role"].as_str().map(str::to_owned)).collect();
    names.context("`cofferdam role list` prints another form")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_are_never_rounded_up() {
        for (prose, schema, wanted) in [
            (1000, 300, "70 %"),
            (1000, 301, "69 %"),
            (100, 100, "0 %"),
            (100, 120, "0 %"),
            (0, 0, "100 %"),
        ] {
            assert_eq!(saved(prose, schema), wanted, "{prose} {schema}");
        }
    }

    #[test]
    fn no_tool_is_described_twice() {
        let mut tools: Vec<&str> = PROSE.iter().map(|(tool, _, _)| *tool).collect();
        tools.sort_unstable();
        tools.dedup();
        assert_eq!(tools.len(), PROSE.len());
    }
}
