//! The arguments, as clap reads them. Help, man pages and completions come from here.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Parser, Subcommand, ValueEnum};
use cofferdam_ledger::{Kind, MessageId, Status};

use crate::plugin::digest::Digest;
use crate::policy::{Capability, CapabilityError};

/// Run the tools of coding agents as sandboxed WebAssembly plugins
///
/// Every tool is a WebAssembly component in an instance of its own. Each call is checked
/// against the tool's JSON Schema and the policy, and gets exactly the files that were granted.
/// Results go to standard output as one JSON document, everything else to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "cofferdam",
    version,
    max_term_width = 100,
    after_help = "\
Exit status:
  0  every call was executed
  1  a call ended in error
  2  the envelope or the command line was refused; nothing was run
  3  a call was denied by the policy
  4  a call reached a limit, or its plugin crashed
  5  the host itself failed

Examples:
  cofferdam run envelope.json
  cofferdam call grep.grep '{\"pattern\": \"TODO\", \"output_mode\": \"content\"}'
  cofferdam tools --format text"
)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The directory that calls work on
    #[arg(long, short = 'C', global = true, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// Load a packed plugin as well (may be repeated); it gets only what [grants.NAME] says
    #[arg(long, global = true, value_name = "FILE")]
    pub plugin: Vec<PathBuf>,
    /// Use the workspace's cofferdam.toml, and agent definitions in the workspace, in this run
    /// although nobody has accepted them
    #[arg(long, global = true)]
    pub trust_workspace: bool,
    /// Say nothing on standard error but errors
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more on standard error: plugins' messages (-v), and their debugging (-vv)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// How a result is printed.
#[derive(Debug, Args)]
pub struct Printed {
    /// How the result is printed
    #[arg(long, global = true, value_enum, default_value_t = Format::Json)]
    pub format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON document
    Json,
    /// For people
    Text,
}

/// How figures and reports are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One JSON document
    Json,
    /// For people
    Text,
    /// A document
    Markdown,
    /// A web page of one file, which loads and runs nothing
    Html,
}

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

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an envelope of calls and print its results
    #[command(after_help = "\
Examples:
  cofferdam run envelope.json
  echo '{\"tool\": \"glob\", \"pattern\": \"**/*.rs\"}' | cofferdam run
  cofferdam run --role reader --strict envelope.json
  cofferdam run --role lint_subagent.yaml --target src/app.py envelope.json
  cofferdam run --atomic envelope.json
  cofferdam run --dry-run --format text envelope.json")]
    Run(Run),
    /// Make one call and print the tool's own answer
    #[command(after_help = "\
Examples:
  cofferdam call read_file '{\"path\": \"README.md\"}'
  cofferdam call edit.apply_patch - < arguments.json")]
    Call(Call),
    /// Serve the tools to MCP clients, on standard input and output or over HTTP
    ///
    /// Over HTTP, /mcp has all tools and /mcp/ROLE those of each role; with --role, there is only /mcp,
    /// with those of that role.
    #[command(after_help = "\
Examples:
  cofferdam serve --workspace ~/project
  cofferdam serve --role reader
  cofferdam serve --role lint_agent.yaml --target src/app.py
  cofferdam serve --http 127.0.0.1:8080
  cofferdam serve --http 0.0.0.0:8080 --token-file token.txt --allow-host tools.example.com")]
    Serve(Serve),
    /// Connect MCP clients with the server
    #[command(subcommand_required = true)]
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// Check an envelope without running it, and print every problem
    #[command(after_help = "\
Examples:
  cofferdam validate envelope.json
  cofferdam validate --strict --role designer -")]
    Validate(Validate),
    /// Run a round of Designer, QA and Main: check both documents, execute what was approved
    ///
    /// The work order says what is to be done; the Designer's output has the commands, QA's the
    /// decision about them. Each is a file, or the answer of an agent that is asked for it. What
    /// was approved is executed verbatim as one transaction, and committed only if the result
    /// passes its lints. An agent is your own program: it is not sandboxed.
    #[command(after_help = "\
Exit status:
  0  APPLIED: executed, verified and committed
  2  BLOCKED: a document does not keep to the rules, an agent gave no answer, or QA rejected;
     nothing was executed
  1  FAILED: a command failed, or the result does not pass; nothing was changed (see --keep);
     3, 4 or 5 where a call was denied, was stopped, or the host failed

Examples:
  cofferdam pipeline --work-order step.json --designer design.json --qa review.json
  cofferdam pipeline --work-order step.json --designer-cmd 'claude -p' --qa-cmd 'claude -p'
  cofferdam pipeline --work-order - --designer-agent designer --qa-agent qa < step.json
  cofferdam pipeline --work-order step.json --designer d.json --qa q.json --dry-run --format text")]
    Pipeline(Pipeline),
    /// List the tools, or show one with its schemas
    #[command(after_help = "\
Examples:
  cofferdam tools
  cofferdam tools read_file
  cofferdam tools --role reader --format mcp
  cofferdam tools --search 'apply a patch' --brief
  cofferdam tools --role code-reviewer --format anthropic --tokens")]
    Tools(Tools),
    /// Install plugins, look at them, pack and publish them
    Plugin(Plugin),
    /// Look at linters, test runners and builders, and compare linters
    Backend(Backend),
    /// Look at beads: the issues, tasks, decisions and questions of the workspace
    Beads(Beads),
    /// Read the messages that agents have sent each other
    ///
    /// Nothing is marked as read: whoever wants only what is new names the last message that they
    /// have seen.
    #[command(after_help = "\
Examples:
  cofferdam inbox --format text
  cofferdam inbox --for team-lead
  cofferdam inbox --for team-lead --after msg-20260207T103000.123Z")]
    Inbox(Inbox),
    /// Look at roles and agent definitions, and make an agent's first prompt
    Role(RoleArgs),
    /// Read the responses of agents by their output contracts
    Contract(Contract),
    /// Look at what is granted and why, change it, and accept the workspace's settings
    Policy(Policy),
    /// Show the journal: how the calls on this workspace ended, and what they changed
    #[command(after_help = "\
Examples:
  cofferdam log --format text
  cofferdam log --failed --limit 5
  cofferdam log --commits --format text
  cofferdam log --diff 019a6f2c
  cofferdam log --output 019a6f2c-63d2 --stream stderr --format text
  cofferdam log --output 019a6f2c-63d2 --offset 1000000 --length 4000 --format text")]
    Log(Log),
    /// Show figures of the calls on record: counts, times, errors, fallbacks, alerts
    ///
    /// Reads the workspace's journal, or log files of the same format, with what was rotated away
    /// (FILE.1, FILE.2 and so on). Latencies have their mean and their 50th, 95th and 99th
    /// percentile (nearest rank). An alert is a fallback rate above 10 %, a 95th percentile above
    /// 5 s, or three failed health checks in a row within an hour.
    #[command(after_help = "\
Exit status:
  0  the figures were printed
  1  with --check: there is an alert
  2  the command line was refused, or a file can't be read

Examples:
  cofferdam stats --format text
  cofferdam stats --since 24h --check
  cofferdam stats --log-file ~/.claude/logs/mcp-calls.jsonl --tool context7_query_docs
  cofferdam stats --format html --output dashboard.html")]
    Stats(Stats),
    /// Check by trying that tools can be called here
    ///
    /// Loads the host and every plugin, calls a tool that only reads, and tries the journal, the
    /// sandbox for native programs and the backends that the settings name. Each of these probes
    /// is healthy below 3 s, degraded up to 10 s, and failed beyond. The whole is as its slowest
    /// probe, degraded where a probe failed, and failed where no tool can be called. The result
    /// goes to the journal, where `stats` sees it. --quiet prints nothing: the exit status says it.
    #[command(after_help = "\
Exit status:
  0  healthy
  1  degraded: slower than 3 s, or a part does not work
  2  failed: slower than 10 s, or no tool can be called

Examples:
  cofferdam health --format text
  cofferdam health --quiet && echo OK")]
    Health(Printed),
    /// Look at the verification reports of agents
    Report(Report),
    /// Take a commit back: what it changed becomes what it was before
    ///
    /// Refuses, and says why, where something was changed since. An undo is a commit of its
    /// own, and can be undone as well.
    #[command(after_help = "\
Examples:
  cofferdam undo
  cofferdam undo 019a6f2c --format text")]
    Undo(Undo),
    /// Look at the cache of compiled code, or empty it
    Cache(Cache),
    /// Say what this machine offers and what is missing
    #[command(after_help = "\
Examples:
  cofferdam doctor --format text")]
    Doctor(Printed),
    /// Print the JSON Schema of one of the host's own documents
    #[command(after_help = "\
Examples:
  cofferdam schema manifest
  cofferdam schema settings")]
    Schema(Schema),
    /// Print completions for a shell
    #[command(after_help = "\
Examples:
  cofferdam completions bash > ~/.local/share/bash-completion/completions/cofferdam")]
    Completions(Completions),
    /// Write the manual pages
    #[command(after_help = "\
Examples:
  cofferdam man ~/.local/share/man/man1")]
    Man(Man),
    /// Print this help of every command as one Markdown document
    #[command(hide = true)]
    Reference,
}

impl Command {
    /// How the command prints its result, and what kept it from having one.
    pub fn format(&self) -> Format {
        match self {
            Self::Run(Run { printed, .. })
            | Self::Call(Call { printed, .. })
            | Self::Validate(Validate { printed, .. })
            | Self::Plugin(Plugin { printed, .. })
            | Self::Backend(Backend { printed, .. })
            | Self::Beads(Beads { printed, .. })
            | Self::Inbox(Inbox { printed, .. })
            | Self::Role(RoleArgs { printed, .. })
            | Self::Contract(Contract { printed, .. })
            | Self::Policy(Policy { printed, .. })
            | Self::Log(Log { printed, .. })
            | Self::Undo(Undo { printed, .. })
            | Self::Cache(Cache { printed, .. })
            | Self::Doctor(printed)
            | Self::Health(printed) => printed.format,
            Self::Stats(Stats { shown, .. })
            | Self::Report(Report { command: ReportCommand::Summary { shown, .. } }) => {
                shown.errors()
            }
            Self::Pipeline(Pipeline { format: RoundFormat::Json, .. }) => Format::Json,
            // The standard output of a server is its client's.
            Self::Serve(_)
            | Self::Pipeline(_)
            | Self::Tools(Tools { format: ToolFormat::Text, .. }) => Format::Text,
            Self::Tools(_)
            | Self::Mcp { .. }
            | Self::Schema(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Reference => Format::Json,
        }
    }
}

#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    pub printed: Printed,
    /// The envelope; `-`: standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The role that the calls are made under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Take exactly one JSON document, with nothing around it
    #[arg(long)]
    pub strict: bool,
    /// Skip what comes after the first call that fails
    #[arg(long)]
    pub fail_fast: bool,
    /// Commit what all calls change as one, or nothing if a call fails
    #[arg(long)]
    pub atomic: bool,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub narrowed: Narrowed,
}

/// What narrows the calls of a run, below what holds anyway.
#[derive(Debug, Args)]
pub struct Narrowed {
    /// Let calls touch only this file or directory (may be repeated), within the role's scope
    #[arg(long, value_name = "PATH")]
    pub scope: Vec<String>,
    /// The file that an agent definition is bound to, relative to the workspace
    #[arg(long, value_name = "PATH", requires = "role")]
    pub target: Option<String>,
    /// Stop each call after so many milliseconds
    #[arg(long, value_name = "N")]
    pub call_ms: Option<u32>,
    /// Give each call at most so many MiB of memory
    #[arg(long, value_name = "N")]
    pub memory_mb: Option<u32>,
}

#[derive(Debug, Args)]
pub struct Call {
    #[command(flatten)]
    pub printed: Printed,
    /// The tool: `plugin.tool`, or its short name where only one tool has it
    pub tool: String,
    /// The arguments as a JSON object; `-`: standard input
    #[arg(default_value = "{}")]
    pub args: String,
    /// The role that the call is made under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub narrowed: Narrowed,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Listen here for streamable HTTP, in place of standard input and output
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<SocketAddr>,
    /// Serve only what this role, or agent definition (.yaml), includes
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// The file that an agent definition is bound to, relative to the workspace
    #[arg(long, value_name = "PATH", requires = "role")]
    pub target: Option<String>,
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

#[derive(Debug, Args)]
pub struct Validate {
    #[command(flatten)]
    pub printed: Printed,
    /// The envelope; `-`: standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The role that the calls would be made under, or an agent definition (.yaml)
    #[arg(long, value_name = "ROLE|FILE")]
    pub role: Option<String>,
    /// Take exactly one JSON document, with nothing around it
    #[arg(long)]
    pub strict: bool,
}

/// How a round of the pipeline is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoundFormat {
    /// One JSON document
    Json,
    /// For people
    Text,
    /// A document
    Markdown,
}

#[derive(Debug, Args)]
pub struct Pipeline {
    /// The work order; `-`: standard input
    #[arg(long, value_name = "FILE")]
    pub work_order: PathBuf,
    #[command(flatten)]
    pub designer: DesignerSource,
    #[command(flatten)]
    pub qa: QaSource,
    /// End an agent that has not answered after so many seconds (default: what its settings say,
    /// or 600)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub agent_timeout_s: Option<u32>,
    /// Take exactly one JSON document from each, with nothing around it
    #[arg(long)]
    pub strict: bool,
    /// The step is the last one of its phase: the work order's phase_boundary_lint has to pass, too
    #[arg(long)]
    pub phase_boundary: bool,
    /// If the round fails, commit what was done by then, to be looked at
    #[arg(long, conflicts_with = "dry_run")]
    pub keep: bool,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    /// Stop each call after so many milliseconds
    #[arg(long, value_name = "N")]
    pub call_ms: Option<u32>,
    /// Write the record of the round there as well, as JSON
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = RoundFormat::Json)]
    pub format: RoundFormat,
}

/// Where the Designer's output comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct DesignerSource {
    /// The Designer's output; `-`: standard input
    #[arg(long, value_name = "FILE")]
    designer: Option<PathBuf>,
    /// Ask this program: the prompt on its standard input, the answer on its standard output
    #[arg(long, value_name = "COMMAND")]
    designer_cmd: Option<String>,
    /// Ask this agent of the settings ([agents.NAME])
    #[arg(long, value_name = "NAME")]
    designer_agent: Option<String>,
}

/// Where QA's output comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct QaSource {
    /// QA's output; `-`: standard input
    #[arg(long, value_name = "FILE")]
    qa: Option<PathBuf>,
    /// Ask this program: the prompt on its standard input, the answer on its standard output
    #[arg(long, value_name = "COMMAND")]
    qa_cmd: Option<String>,
    /// Ask this agent of the settings ([agents.NAME])
    #[arg(long, value_name = "NAME")]
    qa_agent: Option<String>,
}

/// Where a document comes from: one of the three.
#[derive(Debug, Clone, Copy)]
pub struct DocumentSource<'a> {
    /// What the options begin with.
    pub option: &'static str,
    pub file: Option<&'a Path>,
    pub command: Option<&'a str>,
    pub agent: Option<&'a str>,
}

impl DesignerSource {
    pub fn document(&self) -> DocumentSource<'_> {
        let Self { designer, designer_cmd, designer_agent } = self;
        DocumentSource {
            option: "designer",
            file: designer.as_deref(),
            command: designer_cmd.as_deref(),
            agent: designer_agent.as_deref(),
        }
    }
}

impl QaSource {
    pub fn document(&self) -> DocumentSource<'_> {
        let Self { qa, qa_cmd, qa_agent } = self;
        DocumentSource {
            option: "qa",
            file: qa.as_deref(),
            command: qa_cmd.as_deref(),
            agent: qa_agent.as_deref(),
        }
    }
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
    /// How they are printed
    #[arg(long, value_enum, default_value_t = ToolFormat::Json)]
    pub format: ToolFormat,
}

#[derive(Debug, Args)]
pub struct Plugin {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: PluginCommand,
}

#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// List the plugins
    #[command(after_help = "\
Examples:
  cofferdam plugin list --format text")]
    List,
    /// Show what a plugin is and asks for, without running it
    #[command(after_help = "\
Examples:
  cofferdam plugin inspect files
  cofferdam plugin inspect ./hello.wasm")]
    Inspect {
        /// A plugin's name, or a component
        // Not `plugin`: that is the global option's.
        #[arg(value_name = "PLUGIN")]
        name: String,
    },
    /// Start a project: a plugin with a tool, an example call and tests, in your language
    ///
    /// It builds with the language's own tools; its README has the exact lines.
    #[command(after_help = "\
Examples:
  cofferdam plugin new hello --lang python
  cofferdam plugin new my-linter --lang rust --kind lint-backend ~/src/my-linter")]
    New(PluginNew),
    /// Find everything that is wrong with a plugin, without running it
    ///
    /// Looks at the component, its world and imports, the manifest, the schemas and their
    /// examples. Each finding has a place and says what would be right. The exit status is 1 where
    /// one of them keeps the plugin from working.
    #[command(after_help = "\
Examples:
  cofferdam plugin check .
  cofferdam plugin check ./hello.wasm --format text")]
    Check {
        /// A component, or a project's folder: its plugin.toml, and NAME.wasm beside it
        // Not `plugin`: that is the global option's.
        #[arg(value_name = "PLUGIN", default_value = ".")]
        path: PathBuf,
    },
    /// Make a plugin's example calls, and try its linters on the conformance kit
    ///
    /// Examples are those of the manifest ([[tools.examples]]), which say what has to come of
    /// them, and those of the input schemas. Each example and each case runs on a workspace of its
    /// own, which is thrown away. A plugin that did not come with the host gets the files, scans
    /// and backends that it requests there, without a grant; programs and origins only if they are
    /// granted. The exit status is 1 where something is wrong.
    #[command(after_help = "\
Examples:
  cofferdam plugin test .
  cofferdam plugin test ./my-linter.wasm --format text
  cofferdam plugin test ruff --format text")]
    Test {
        /// A component, a project's folder, or a plugin's name
        #[arg(value_name = "PLUGIN")]
        name: String,
        /// Grant the programs and origins that it requests as well, for this test
        #[arg(long)]
        grant_requests: bool,
    },
    /// Put a manifest and its schemas into a component
    #[command(after_help = "\
Examples:
  cofferdam plugin pack --manifest plugin.toml --component target/wasm32-wasip2/release/hello.wasm --output hello.wasm")]
    Pack {
        /// The manifest, as TOML
        #[arg(long, default_value = "plugin.toml")]
        manifest: PathBuf,
        /// What the compiler wrote
        #[arg(long)]
        component: PathBuf,
        /// Where the packed component goes
        #[arg(long, short)]
        output: PathBuf,
        /// Write its compiled code beside it, for plugins that come with the host
        #[arg(long)]
        compile: bool,
    },
    /// Install a plugin for this workspace, or what its cofferdam.lock names
    ///
    /// The plugin is kept in your own store, and pinned in cofferdam.lock with its digest. What it
    /// asks for is shown, and asked for on a terminal; --grant and --deny say it beforehand. What
    /// is granted goes to your own cofferdam.toml. Without a name, everything that the lock names
    /// is installed: it grants nothing, so what is new here is asked for.
    #[command(after_help = "\
Examples:
  cofferdam plugin install ./lines.wasm
  cofferdam plugin install oci://ghcr.io/ada/lines:1.0 --key RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3
  cofferdam plugin install https://example.org/lines.wasm --digest sha256:... --grant files=read
  cofferdam plugin install
  cofferdam plugin install lines --deny")]
    Install(Install),
    /// Get the newest of what is installed, and show what is different
    ///
    /// What asks for more than was accepted, has another signer or lost its signature is refused
    /// until you say otherwise.
    #[command(after_help = "\
Examples:
  cofferdam plugin update --dry-run --format text
  cofferdam plugin update
  cofferdam plugin update lines --grant process=git")]
    Update(Update),
    /// Remove a plugin from this workspace's cofferdam.lock
    #[command(after_help = "\
Examples:
  cofferdam plugin remove lines
  cofferdam plugin remove lines --everywhere")]
    Remove {
        /// The plugin's name
        #[arg(value_name = "PLUGIN")]
        name: String,
        /// Forget it altogether: its files, what was accepted of it, and what it is granted
        #[arg(long)]
        everywhere: bool,
    },
    /// Publish a packed plugin in an OCI registry
    ///
    /// FILE.minisig is published with it, where it is there. Who you are, `docker login` says.
    #[command(after_help = "\
Examples:
  cofferdam plugin push lines.wasm oci://ghcr.io/ada/lines:1.0")]
    Push {
        /// The packed plugin
        file: PathBuf,
        /// Where it goes, with a tag
        reference: String,
    },
}

#[derive(Debug, Args)]
pub struct Install {
    /// A file, an https:// address or an oci:// reference; or the name of a plugin in
    /// cofferdam.lock
    pub source: Option<String>,
    /// Refuse anything but this content
    #[arg(long, value_name = "SHA256", requires = "source")]
    pub digest: Option<Digest>,
    #[command(flatten)]
    pub accepted: Accepted,
    #[command(flatten)]
    pub granting: Granting,
}

#[derive(Debug, Args)]
pub struct Update {
    /// The plugin; all that are installed where none is named
    #[arg(value_name = "PLUGIN")]
    pub name: Option<String>,
    /// Only show what is different
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub accepted: Accepted,
    #[command(flatten)]
    pub granting: Granting,
}

/// What a person accepts of where a plugin comes from.
#[derive(Debug, Args)]
pub struct Accepted {
    /// The minisign key that has to have signed it, or the file of one; from then on no other
    /// signer is taken
    #[arg(long, value_name = "KEY|FILE")]
    pub key: Option<String>,
    /// Take it although another key has signed it than before, or none
    #[arg(long)]
    pub accept_signer: bool,
    /// Take it although it comes from elsewhere than before, and no signature says that it is the
    /// same plugin
    #[arg(long)]
    pub accept_source: bool,
}

/// What a person grants a plugin.
#[derive(Debug, Args)]
pub struct Granting {
    /// Grant this of what it asks for (may be repeated): files=read, files=write, scan,
    /// process=PROGRAM, backends=KIND, http=ORIGIN, or all
    #[arg(long, value_name = "CAPABILITY", conflicts_with = "deny")]
    pub grant: Vec<Granted>,
    /// Grant nothing of what it asks for
    #[arg(long)]
    pub deny: bool,
}

/// One capability, or everything that a plugin asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    All,
    One(Capability),
}

impl std::str::FromStr for Granted {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        if text == "all" { Ok(Self::All) } else { text.parse().map(Self::One) }
    }
}

#[derive(Debug, Args)]
pub struct PluginNew {
    /// The plugin's name: [a-z][a-z0-9_-]*
    pub name: String,
    /// Where the project goes; must not be there yet [default: a directory of the plugin's name]
    pub directory: Option<PathBuf>,
    /// What the plugin is written in
    #[arg(long, value_enum)]
    pub lang: Language,
    /// What the plugin is
    #[arg(long, value_enum, default_value = "tool")]
    pub kind: PluginKind,
}

/// The languages that there are templates in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// Built by cargo
    Rust,
    /// Built by componentize-py
    Python,
    /// Built by componentize-js
    Javascript,
    /// Checked by tsc, built by esbuild and componentize-js
    Typescript,
    /// Built by clang
    C,
}

/// What a plugin can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PluginKind {
    /// Tools that agents call
    Tool,
    /// A linter that the operator can choose; in Rust
    LintBackend,
    /// A test runner that the operator can choose; in Rust
    TestBackend,
}

#[derive(Debug, Args)]
pub struct Backend {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: BackendCommand,
}

#[derive(Debug, Subcommand)]
pub enum BackendCommand {
    /// List the backends, their versions, and what each is chosen for
    #[command(after_help = "\
Examples:
  cofferdam backend list --format text")]
    List,
    /// Lint the same files with two linters, and show what each finds that the other doesn't
    #[command(after_help = "\
Examples:
  cofferdam backend compare ruff pyflakes src --format text")]
    Compare {
        /// A linter's name
        first: String,
        /// Another's
        second: String,
        /// A file or directory of the workspace
        #[arg(default_value = ".")]
        path: String,
    },
}

#[derive(Debug, Args)]
pub struct Beads {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: BeadsCommand,
}

#[derive(Debug, Subcommand)]
pub enum BeadsCommand {
    /// List beads, the most urgent first, and of those of one priority the oldest
    #[command(after_help = "\
Examples:
  cofferdam beads list --format text
  cofferdam beads list --status open --status rejected --type bug
  cofferdam beads list --project proj-123 --tag security --tag urgent")]
    List(ListBeads),
    /// Show a bead with its history
    #[command(after_help = "\
Examples:
  cofferdam beads show bead-7k2m-x9qd --format text
  cofferdam beads show 7k2")]
    Show {
        /// The bead's id, or the beginning of it, with or without `bead-`
        #[arg(value_name = "ID")]
        bead: String,
    },
}

#[derive(Debug, Args)]
pub struct RoleArgs {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: RoleCommand,
}

#[derive(Debug, Subcommand)]
pub enum RoleCommand {
    /// List the roles
    #[command(after_help = "\
Examples:
  cofferdam role list --format text")]
    List,
    /// Show a role: its tools, what is denied or not installed, its scope
    #[command(after_help = "\
Examples:
  cofferdam role show code-reviewer --format text
  cofferdam role show agents/lint/lint_subagent.yaml")]
    Show {
        /// A role's name, or an agent definition (.yaml)
        #[arg(value_name = "ROLE|FILE")]
        role: String,
    },
    /// Print what an agent begins with: messages, tools and context
    ///
    /// Calls the context providers, which only read. A definition in the workspace may have been
    /// changed by an agent, so it counts only with --trust-workspace.
    #[command(after_help = "\
Examples:
  cofferdam role prompt ~/agents/lint_subagent.yaml --target src/app.py
  cofferdam role prompt agents/lint/lint_subagent.yaml --target src/app.py --trust-workspace")]
    Prompt {
        /// The agent definition
        file: PathBuf,
        /// The file that it is bound to, relative to the workspace
        #[arg(long, value_name = "PATH")]
        target: String,
    },
}

#[derive(Debug, Args)]
pub struct Contract {
    #[command(flatten)]
    pub printed: Printed,
    /// Take the contracts in this directory as well, `*.toml` (may be repeated)
    #[arg(long, global = true, value_name = "DIR")]
    pub contracts: Vec<PathBuf>,
    #[command(subcommand)]
    pub command: ContractCommand,
}

#[derive(Debug, Subcommand)]
pub enum ContractCommand {
    /// List the contracts
    #[command(after_help = "\
Examples:
  cofferdam contract list --format text
  cofferdam contract list --contracts ./contracts")]
    List,
    /// Show a contract: its fields, its prompt, an example, and what is done next
    #[command(after_help = "\
Examples:
  cofferdam contract show code-reviewer --format text")]
    Show {
        /// The agent, or what follows the `:` of its name
        agent: String,
    },
    /// Print the text that is added to the agent's prompt
    #[command(after_help = "\
Examples:
  cofferdam contract prompt tdd-task-executor --format text >> prompt.txt")]
    Prompt {
        /// The agent, or what follows the `:` of its name
        agent: String,
    },
    /// Read an agent's response, and say what is done next
    ///
    /// Exits with 1 where the response breaks the contract. `next` is then `retry`, with a
    /// `reminder` for the agent, or after two retries `blocked`.
    #[command(after_help = "\
Examples:
  cofferdam contract parse tdd-task-executor response.txt
  cofferdam contract parse code-reviewer --round 3 < response.txt
  cofferdam contract parse code-reviewer --attempt 1 --format text response.txt")]
    Parse {
        /// The agent, or what follows the `:` of its name
        agent: String,
        /// Its response; `-`: standard input
        #[arg(default_value = "-")]
        file: PathBuf,
        /// How often the agent was run again for this response
        #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=2))]
        attempt: u32,
        /// Which round of review this is
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3))]
        round: u32,
    },
    /// Prove contracts: examples, prompts and rules fit their fields, and each rule is reached
    #[command(after_help = "\
Examples:
  cofferdam contract check
  cofferdam contract check ./contracts/my-agent.toml --format text")]
    Check {
        /// Agents, or contracts' files; all contracts where none is named
        // Not `contracts`: that is the group's option.
        #[arg(value_name = "AGENT|FILE")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct ListBeads {
    /// Only beads of this status (may be repeated: of any of them)
    #[arg(long, value_parser = PossibleValuesParser::new(Status::NAMES).try_map(|name| name.parse::<Status>()))]
    pub status: Vec<Status>,
    /// Only beads of this type (may be repeated: of any of them)
    #[arg(long = "type", value_name = "TYPE", value_parser = PossibleValuesParser::new(Kind::NAMES).try_map(|name| name.parse::<Kind>()))]
    pub kind: Vec<Kind>,
    /// Only beads of this project
    #[arg(long, value_name = "ID")]
    pub project: Option<String>,
    /// Only beads with this tag (may be repeated: with all of them)
    #[arg(long)]
    pub tag: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Inbox {
    #[command(flatten)]
    pub printed: Printed,
    /// Only messages to somebody of this name, and broadcasts
    #[arg(long = "for", value_name = "NAME")]
    pub name: Option<String>,
    /// Only messages after this one
    #[arg(long, value_name = "ID")]
    pub after: Option<MessageId>,
}

#[derive(Debug, Args)]
pub struct Policy {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show what every plugin is granted here
    #[command(after_help = "\
Examples:
  cofferdam policy show
  cofferdam policy show --plugin ./hello.wasm")]
    Show,
    /// Accept the workspace's cofferdam.toml as it is now
    #[command(after_help = "\
Examples:
  cofferdam policy accept
  cofferdam policy accept --workspace ~/project")]
    Accept,
    /// Say why a plugin or a tool may do what it may, or why not, down to the line that says so
    #[command(after_help = "\
Examples:
  cofferdam policy explain shell --format text
  cofferdam policy explain files.write_file --role reader")]
    Explain {
        /// A plugin's name, or a tool's
        #[arg(value_name = "PLUGIN|TOOL")]
        name: String,
        /// The role that a call would be made under
        #[arg(long)]
        role: Option<String>,
    },
    /// Grant a plugin something that it asks for, in your own cofferdam.toml
    #[command(after_help = "\
Examples:
  cofferdam policy grant lines files=read
  cofferdam policy grant docs http=https://context7.com
  cofferdam policy grant lines all")]
    Grant {
        /// The plugin's name
        #[arg(value_name = "PLUGIN")]
        name: String,
        /// files=read, files=write, scan, process=PROGRAM, backends=KIND, http=ORIGIN, or all
        #[arg(required = true, value_name = "CAPABILITY")]
        capabilities: Vec<Granted>,
    },
    /// Take back what a plugin is granted, in your own cofferdam.toml
    #[command(after_help = "\
Examples:
  cofferdam policy revoke lines files=write
  cofferdam policy revoke lines")]
    Revoke {
        /// The plugin's name
        #[arg(value_name = "PLUGIN")]
        name: String,
        /// What is taken back; everything where nothing is named. Without files=write, reading is
        /// left
        #[arg(value_name = "CAPABILITY")]
        capabilities: Vec<Capability>,
    },
}

#[derive(Debug, Args)]
pub struct Log {
    #[command(flatten)]
    pub printed: Printed,
    /// At most so many, the latest ones
    #[arg(long, short = 'n', default_value_t = 20)]
    pub limit: usize,
    /// Only calls of this tool (qualified name)
    #[arg(long)]
    pub tool: Option<String>,
    /// Only calls that did not succeed
    #[arg(long)]
    pub failed: bool,
    /// Only commits
    #[arg(long, conflicts_with_all = ["tool", "failed"])]
    pub commits: bool,
    /// Print what this commit changed, as a unified diff; the beginning of its id will do
    #[arg(long, value_name = "ID", conflicts_with_all = ["tool", "failed", "commits"])]
    pub diff: Option<String>,
    /// Print what a program of this call printed, where that was much; the beginning of the name
    /// that the call's line shows will do
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["tool", "failed", "commits", "diff"]
    )]
    pub output: Option<String>,
    /// Which of its streams
    #[arg(long, requires = "output")]
    pub stream: Option<Stream>,
    /// From this byte on, counted from 0
    #[arg(long, value_name = "BYTE", requires = "output")]
    pub offset: Option<u64>,
    /// At most so many bytes
    #[arg(long, value_name = "BYTES", requires = "output")]
    pub length: Option<u64>,
}

/// One of a program's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stream {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl Stream {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Where figures and reports go, and how.
#[derive(Debug, Args)]
pub struct Shown {
    /// How they are printed
    #[arg(long, value_enum, default_value_t = ReportFormat::Json)]
    pub format: ReportFormat,
    /// Write them to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl Shown {
    /// How is said what kept the command from showing anything.
    fn errors(&self) -> Format {
        if self.format == ReportFormat::Json { Format::Json } else { Format::Text }
    }
}

#[derive(Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    pub shown: Shown,
    /// Read this log instead of the journal (may be repeated, the oldest first); `-`: standard
    /// input
    #[arg(long, value_name = "FILE")]
    pub log_file: Vec<PathBuf>,
    /// Only what happened since: a time (2026-02-08T10:30:00Z), a day (2026-02-08, UTC), or how
    /// long ago (24h, 7 days)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Only calls of this tool: its qualified name, or the name behind the dot
    #[arg(long)]
    pub tool: Option<String>,
    /// End with 1 where there is an alert
    #[arg(long)]
    pub check: bool,
}

#[derive(Debug, Args)]
pub struct Report {
    #[command(subcommand)]
    pub command: ReportCommand,
}

#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// Sum up the reports that agents saved with save_agent_report, by phase and wave
    ///
    /// Shows how much each agent found, how long a wave took (its agents work side by side), whose
    /// report is missing, what contradicts itself, and all findings, the worst first. An agent's
    /// last report counts.
    #[command(after_help = "\
Examples:
  cofferdam report summary --format text
  cofferdam report summary --phase 3 --wave 1
  cofferdam report summary --format html --output summary.html")]
    Summary {
        #[command(flatten)]
        shown: Shown,
        /// Only this phase
        #[arg(long, value_name = "N")]
        phase: Option<f64>,
        /// Only this wave
        #[arg(long, value_enum)]
        wave: Option<WaveName>,
    },
}

/// A wave of verification agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaveName {
    /// best-practices-enforcer, security-auditor, hallucination-detector
    #[value(name = "1", alias = "Wave1", alias = "wave1", alias = "wave-1")]
    First,
    /// code-reviewer, test-generator
    #[value(name = "2", alias = "Wave2", alias = "wave2", alias = "wave-2")]
    Second,
}

#[derive(Debug, Args)]
pub struct Undo {
    #[command(flatten)]
    pub printed: Printed,
    /// The commit, or the beginning of its id; the latest one where none is named
    #[arg(value_name = "ID")]
    pub commit: Option<String>,
}

#[derive(Debug, Args)]
pub struct Cache {
    #[command(flatten)]
    pub printed: Printed,
    #[command(subcommand)]
    pub command: CacheCommand,
}

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Show how much compiled code is kept, and where
    #[command(after_help = "\
Examples:
  cofferdam cache list --format text")]
    List,
    /// Remove all compiled code; plugins that did not come with the host are compiled again
    #[command(after_help = "\
Examples:
  cofferdam cache clear")]
    Clear,
}

#[derive(Debug, Args)]
pub struct Schema {
    /// Which document
    #[arg(value_enum)]
    pub document: Document,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Document {
    /// An envelope of the dialect `actions`
    EnvelopeActions,
    /// An envelope of the dialect `tool`
    EnvelopeTool,
    /// The results of an envelope of the dialect `actions`
    ResultsActions,
    /// The results of an envelope of the dialect `tool`
    ResultsTool,
    /// What is printed for an envelope that was refused
    Refusal,
    /// The manifest inside of a packed component
    Manifest,
    /// `plugin.toml`, as a plugin's author writes it
    Plugin,
    /// `cofferdam.toml`
    Settings,
    /// A role in `cofferdam.toml`
    Role,
    /// An agent definition
    Agent,
    /// The file of an output contract
    Contract,
    /// A line of the journal
    Journal,
    /// A work order of a pipeline
    PipelineWorkOrder,
    /// A Designer's output
    PipelineDesigner,
    /// QA's output
    PipelineQa,
    /// What is printed and recorded for a round of a pipeline
    PipelineResult,
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub struct Man {
    /// The folder that the pages go to
    pub folder: PathBuf,
}
