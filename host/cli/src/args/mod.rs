//! The arguments, as clap reads them. Help, man pages and completions come from here: this file has
//! what all commands share and the list of them, the others have a group of commands each.

mod backend;
mod cache;
mod console;
mod contract;
mod generate;
mod ledger;
mod pipeline;
mod plugin;
mod policy;
mod record;
mod review;
mod role;
mod run;
mod serve;
mod submit;
mod tools;
mod workspace;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use backend::{Backend, BackendCommand};
pub use cache::{Cache, CacheCommand};
pub use console::Console;
pub use contract::{Contract, ContractCommand};
pub use generate::{Completions, Document, Man, Schema};
pub use ledger::{Beads, BeadsCommand, Inbox, ListBeads};
pub use pipeline::{DocumentSource, Pipeline, RoundFormat};
pub use plugin::{
    Accepted, Catalogue, Fetch, Granting, Install, Language, Plugin, PluginCommand, PluginKind,
    PluginNew, SdkSource, Search, Update,
};
pub use policy::{Granted, Policy, PolicyCommand};
pub use record::{Log, Report, ReportCommand, Stats, Undo, WaveName};
pub use review::{Decide, Review, ReviewCommand};
pub use role::{RoleArgs, RoleCommand};
pub use run::{Call, Holding, Narrowed, Run, Script, Validate};
pub use serve::{Client, McpCommand, McpConfig, Serve};
pub use submit::{QueueArgs, Submit};
pub use tools::{ToolFormat, Tools};
pub use workspace::{Push, WorkspaceArgs, WorkspaceCommand};

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
    /// The directory that calls work on; without it, the nearest directory above that is a workspace
    /// of yours already, or else the current one
    #[arg(long, short = 'C', global = true, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// The workspace above the current directory, where none is named.
    #[arg(skip)]
    pub root: Option<PathBuf>,
    /// Load a packed plugin as well (may be repeated); it gets only what [grants.NAME] says
    #[arg(long, global = true, value_name = "FILE")]
    pub plugin: Vec<PathBuf>,
    /// Use the workspace's cofferdam.toml, and agent definitions in the workspace, in this run
    /// even if you have not accepted them
    #[arg(long, global = true)]
    pub trust_workspace: bool,
    /// Say nothing on standard error but errors
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more on standard error: plugins' messages (-v), and their debugging (-vv)
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Global {
    /// The workspace.
    pub fn workspace(&self) -> &Path {
        self.workspace.as_deref().or(self.root.as_deref()).unwrap_or(Path::new("."))
    }
}

/// How a result is printed.
#[derive(Debug, Clone, Args)]
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
    /// Run a Python script that calls tools, and print its result
    ///
    /// All changes of the script are one commit, or nothing is changed if it fails. Tools are functions:
    /// files.read_file(path="a")["content"]. `cofferdam call python.search_tools` shows them.
    #[command(after_help = "\
Examples:
  cofferdam script rename.py --dry-run --format text
  cofferdam script rename.py --input old=Foo --input new=Bar
  echo 'len(grep.grep(pattern=\"TODO\")[\"files\"])' | cofferdam script -")]
    Script(Script),
    /// Serve the tools to MCP clients, on standard input and output or over HTTP
    ///
    /// The role is coder unless --role names another one; main has every tool. Over HTTP, /mcp/ROLE
    /// has the tools of each role; with --role, there is only /mcp, with those of that role.
    #[command(after_help = "\
Examples:
  cofferdam serve --workspace ~/project
  cofferdam serve --role reader
  cofferdam serve --role main --output-schemas
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
    /// Messages are not marked as read: to see only new ones, name the last one that you have seen
    /// (--after).
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
  cofferdam log --diff 019a6f2c..019a7d10 --format text
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
    /// Look at held changes, and accept or reject them
    ///
    /// Changes are held where the settings say so (`hold`), or with --hold: they are kept beside the
    /// workspace as a proposal. Without a subcommand, lists the proposals.
    #[command(after_help = "\
Examples:
  cofferdam review --format text
  cofferdam review show 019a6f2c --format text
  cofferdam review interactive 019a6f2c")]
    Review(Review),
    /// Keep the workspace in a store: back it up, hand it over, share it
    ///
    /// A store is a local directory, or a bucket: s3://BUCKET (any server that speaks S3's protocol),
    /// gs://BUCKET (Google Cloud Storage) or az://CONTAINER (Azure). It needs no server of Cofferdam's.
    /// For S3, the environment has AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, and
    /// AWS_ENDPOINT for other servers than Amazon's; docs/workspaces.md has the others.
    Workspace(WorkspaceArgs),
    /// Submit an envelope to a fleet, and print its results
    ///
    /// Its calls are one transaction, and are made once: an envelope that is submitted again under the same
    /// key gets the result of the first time.
    #[command(after_help = "\
Examples:
  cofferdam submit shop envelope.json --url http://127.0.0.1:8080
  cofferdam submit shop --key build-17 --queue nats://127.0.0.1:4222 --queue-secret fleet.secret < envelope.json")]
    Submit(Submit),
    /// Supervise agents on a local web page
    ///
    /// Shows held changes, questions of calls, calls under way, history, journal, permissions and figures.
    /// Listens on 127.0.0.1 until it is interrupted, prints an address that can be opened once, and opens
    /// it in a browser where there is one. While it runs, questions of calls that need a yes are shown
    /// there, as with `cofferdam review answer`.
    #[command(after_help = "\
Examples:
  cofferdam console
  cofferdam console --workspace ~/project --port 8700
  cofferdam console --no-open")]
    Console(Console),
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
    /// Print what a native program may ask of the kernel as one Markdown document
    #[command(hide = true)]
    SystemCalls,
    /// Print the codes of outcomes and the limits as one Markdown document
    #[command(hide = true)]
    Outcomes,
    /// Count the tokens of texts: reads a JSON list of strings, and prints a list of numbers
    #[command(hide = true)]
    CountTokens,
}

impl Command {
    /// Whether the command works on a workspace, which it may have to find.
    pub fn has_workspace(&self) -> bool {
        !matches!(
            self,
            Self::Mcp { .. }
                | Self::Workspace(WorkspaceArgs { command: WorkspaceCommand::Clone { .. }, .. })
                | Self::Contract(_)
                | Self::Cache(_)
                | Self::Schema(_)
                | Self::Completions(_)
                | Self::Man(_)
                | Self::Reference
                | Self::Outcomes
                | Self::CountTokens
                | Self::SystemCalls
        )
    }

    /// How the command prints its result, and what kept it from having one.
    pub fn format(&self) -> Format {
        match self {
            Self::Run(Run { printed, .. })
            | Self::Call(Call { printed, .. })
            | Self::Script(Script { printed, .. })
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
            | Self::Review(Review { printed, .. })
            | Self::Workspace(WorkspaceArgs { printed, .. })
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
            | Self::Console(_)
            | Self::Pipeline(_)
            | Self::Tools(Tools { format: ToolFormat::Text, .. }) => Format::Text,
            Self::Tools(_)
            | Self::Submit(_)
            | Self::Mcp { .. }
            | Self::Schema(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Reference
            | Self::Outcomes
            | Self::CountTokens
            | Self::SystemCalls => Format::Json,
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
    /// The form in which the command says what kept it from showing anything.
    fn errors(&self) -> Format {
        if self.format == ReportFormat::Json { Format::Json } else { Format::Text }
    }
}
