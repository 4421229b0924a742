//! Arguments of `serve` and `mcp`.

use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::QueueArgs;

#[derive(Debug, Args)]
pub struct Serve {
    /// Listen here for streamable HTTP, in place of standard input and output
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<SocketAddr>,
    /// Serve what this role, or agent definition (.yaml), includes; coder where none is named,
    /// main for every tool
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// The file that an agent definition is bound to, relative to the workspace
    #[arg(long, value_name = "PATH", requires = "role")]
    pub target: Option<String>,
    /// List only what runs scripts, and what is named here beside: `scripts` or
    /// `scripts,files.read_file,grep.*`; scripts call every tool of the role
    #[arg(long, value_name = "scripts[,TOOL...]", value_delimiter = ',')]
    pub tools: Vec<String>,
    /// Hold the changes of all calls until they are accepted with `cofferdam review`
    #[arg(long)]
    pub hold: bool,
    /// List the schemas of the tools' answers too: for programs, at the cost of tokens for a model
    #[arg(long)]
    pub output_schemas: bool,
    /// Serve the workspaces that this store has, each as a copy on this machine, to clients of
    /// /workspaces/NAME/mcp: a directory, or a bucket such as s3://BUCKET/PREFIX
    #[arg(long, value_name = "STORE", requires = "http", conflicts_with_all = ["hold", "target", "tools"])]
    pub store: Option<String>,
    /// The directory of the copies
    #[arg(long, value_name = "DIRECTORY", requires = "store")]
    pub copies: Option<PathBuf>,
    /// How many workspaces are open at a time; for another one, one that is idle is closed
    #[arg(long, value_name = "NUMBER", requires = "store", default_value = "1024")]
    pub max_open: NonZeroUsize,
    #[command(flatten)]
    pub queue: QueueArgs,
    /// The file of those who may use a part of the store's workspaces (.toml)
    #[arg(long, value_name = "FILE", requires = "store")]
    pub tenants: Option<PathBuf>,
    /// Take only requests that bring the token in this file (`Authorization: Bearer ...`)
    #[arg(long, value_name = "FILE", requires = "http")]
    pub token_file: Option<PathBuf>,
    /// Take requests for this host too, beside those of this machine (may be repeated)
    #[arg(long, value_name = "HOST", requires = "http")]
    pub allow_host: Vec<String>,
    /// Take requests of pages from this origin (may be repeated)
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,
    /// Take at most so many requests a second from one address
    #[arg(long, value_name = "REQUESTS", requires = "http")]
    pub rate: Option<NonZeroU32>,
}

#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Print the configuration that a client needs to start or reach the server
    ///
    /// It has no path of this machine, so that a project can share it, unless --workspace names one,
    /// or cofferdam is in no directory of PATH.
    #[command(after_help = "\
Examples:
  cofferdam mcp config claude > .mcp.json
  cofferdam --workspace ~/project mcp config codex --role reader
  cofferdam mcp config vscode --url http://127.0.0.1:8080/mcp")]
    Config(McpConfig),
}

#[derive(Debug, Args)]
pub struct McpConfig {
    /// The client
    pub client: Client,
    /// The role that it acts under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE", conflicts_with = "url")]
    pub role: Option<String>,
    /// The file that an agent definition is bound to, relative to the workspace
    #[arg(long, value_name = "PATH", requires = "role")]
    pub target: Option<String>,
    /// The address of a server that runs already (`cofferdam serve --http`)
    #[arg(long)]
    pub url: Option<String>,
}

/// A program that uses MCP servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Client {
    /// Claude Code: .mcp.json in the project
    Claude,
    /// Cursor: .cursor/mcp.json in the project
    Cursor,
    /// Visual Studio Code: .vscode/mcp.json in the project
    Vscode,
    /// Codex: ~/.codex/config.toml
    Codex,
}
