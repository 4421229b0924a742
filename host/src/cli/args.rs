//! The arguments, as clap reads them. Help, man pages and completions come from here.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
#[derive(Debug, Args)]
pub struct Global {
    /// The directory that calls work on
    #[arg(long, short = 'C', global = true, value_name = "DIR", default_value = ".")]
    pub workspace: PathBuf,
    /// Load a packed plugin as well (may be repeated); it gets only what [grants.NAME] says
    #[arg(long, global = true, value_name = "FILE")]
    pub plugin: Vec<PathBuf>,
    /// Use the workspace's cofferdam.toml in this run although nobody has accepted it
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
  cofferdam run --atomic envelope.json
  cofferdam run --dry-run --format text envelope.json")]
    Run(Run),
    /// Make one call and print the tool's own answer
    #[command(after_help = "\
Examples:
  cofferdam call read_file '{\"path\": \"README.md\"}'
  cofferdam call edit.apply_patch - < arguments.json")]
    Call(Call),
    /// Check an envelope without running it, and print every problem
    #[command(after_help = "\
Examples:
  cofferdam validate envelope.json
  cofferdam validate --strict --role designer -")]
    Validate(Validate),
    /// List the tools, or show one with its schemas
    #[command(after_help = "\
Examples:
  cofferdam tools
  cofferdam tools read_file
  cofferdam tools --role reader --format mcp")]
    Tools(Tools),
    /// Look at plugins and pack them
    Plugin(Plugin),
    /// Look at linters, test runners and builders, and compare linters
    Backend(Backend),
    /// Read the responses of agents by their output contracts
    Contract(Contract),
    /// Look at what is granted, and accept the workspace's settings
    Policy(Policy),
    /// Show the journal: how the calls on this workspace ended, and what they changed
    #[command(after_help = "\
Examples:
  cofferdam log --format text
  cofferdam log --failed --limit 5
  cofferdam log --commits --format text
  cofferdam log --diff 019a6f2c")]
    Log(Log),
    /// Take a commit back: what it changed becomes what it was before
    ///
    /// Refuses, and says why, where something was changed since. An undo is a commit of its
    /// own, and can be undone as well.
    #[command(after_help = "\
Examples:
  cofferdam undo
  cofferdam undo 019a6f2c --format text")]
    Undo(Undo),
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
            | Self::Contract(Contract { printed, .. })
            | Self::Policy(Policy { printed, .. })
            | Self::Log(Log { printed, .. })
            | Self::Undo(Undo { printed, .. })
            | Self::Doctor(printed) => printed.format,
            Self::Tools(Tools { format: ToolFormat::Text, .. }) => Format::Text,
            Self::Tools(_)
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
    /// The role that the calls are made under
    #[arg(long)]
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
    /// The role that the call is made under
    #[arg(long)]
    pub role: Option<String>,
    /// Change nothing, and print the unified diff of what would be changed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub narrowed: Narrowed,
}

#[derive(Debug, Args)]
pub struct Validate {
    #[command(flatten)]
    pub printed: Printed,
    /// The envelope; `-`: standard input
    #[arg(default_value = "-")]
    pub file: PathBuf,
    /// The role that the calls would be made under
    #[arg(long)]
    pub role: Option<String>,
    /// Take exactly one JSON document, with nothing around it
    #[arg(long)]
    pub strict: bool,
}

#[derive(Debug, Args)]
pub struct Tools {
    /// Show this tool with its schemas
    pub tool: Option<String>,
    /// Only what this role includes
    #[arg(long)]
    pub role: Option<String>,
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
        /// A plugin's name, or a packed component
        // Not `plugin`: that is the global option's.
        #[arg(value_name = "PLUGIN")]
        name: String,
    },
    /// Try a plugin's linters on the cases that every linter backend has to pass
    ///
    /// Each case runs on a workspace of its own, which is thrown away. A plugin that did not come
    /// with the host may read there without a grant; programs it runs only if they are granted.
    #[command(after_help = "\
Examples:
  cofferdam plugin test ruff --format text
  cofferdam plugin test ./my-linter.wasm")]
    Test {
        /// A plugin's name, or a packed component
        #[arg(value_name = "PLUGIN")]
        name: String,
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
    /// The file of an output contract
    Contract,
    /// A line of the journal
    Journal,
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
