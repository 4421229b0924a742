//! Arguments of `tools`.

use clap::{Args, ValueEnum};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ToolFormat {
    /// One JSON document
    Json,
    /// For people
    Text,
    /// As MCP's tools/list shows them
    Mcp,
    /// As OpenAI's API takes them
    Openai,
    /// As Anthropic's API takes them
    Anthropic,
    /// A document
    Markdown,
}

#[derive(Debug, Args)]
pub struct Tools {
    /// Show this tool with its schemas
    pub tool: Option<String>,
    /// Only what this role, or an agent definition (.yaml), includes
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Only the tools that these words fit, the best first
    #[arg(long, value_name = "WORDS", conflicts_with = "tool")]
    pub search: Option<String>,
    /// Only names and titles; `cofferdam tools TOOL` has the rest
    #[arg(long, conflicts_with = "tool")]
    pub brief: bool,
    /// Count the tokens (o200k_base) of what would be printed, for each tool and in total
    #[arg(long)]
    pub tokens: bool,
    /// With the schemas of the answers, as `serve --output-schemas` lists them
    #[arg(long)]
    pub output_schemas: bool,
    /// How they are printed
    #[arg(long, value_enum, default_value_t = ToolFormat::Json)]
    pub format: ToolFormat,
}
