//! Arguments of `plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{Granted, Printed};
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::manifest::{NAME_FORM, is_name};

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
    /// own, which is thrown away. A plugin that did not come with the host gets the files, scans,
    /// backends and cache that it requests there, without a grant; programs, origins and agents
    /// only if they are granted. The exit status is 1 where something is wrong.
    #[command(after_help = "\
Examples:
  cofferdam plugin test .
  cofferdam plugin test ./my-linter.wasm --format text
  cofferdam plugin test ruff --format text")]
    Test {
        /// A component, a project's folder, or a plugin's name
        #[arg(value_name = "PLUGIN")]
        name: String,
        /// Grant the programs, origins and consent that it requests as well, for this test
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
    /// From a registry, where the tag is a semantic version: the highest version in the range that
    /// cofferdam.lock has. What asks for more than was accepted, has another signer or lost its
    /// signature is refused until you say otherwise.
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
    /// Find plugins in the catalogues of your settings
    ///
    /// A catalogue is a signed list of plugins on the web, in a registry or on this machine. Nothing is
    /// installed: each plugin comes with the command that installs it.
    #[command(after_help = "\
Examples:
  cofferdam plugin search sqlite --format text
  cofferdam plugin search --catalogue https://example.org/catalogue.toml --key RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")]
    Search(Search),
    /// Fetch the built-in plugins of a release, for a command that came without them
    ///
    /// Packages bring them, and `cargo xtask build` makes them; `cargo install` installs the command alone. The
    /// catalogue of the release has the digest of each. They are kept in your own directory for data, and
    /// replace those that were fetched before.
    #[command(after_help = "\
Examples:
  cofferdam plugin fetch https://example.org/cofferdam/built-in/catalogue.toml --key cofferdam.pub
  cofferdam plugin fetch ./dist/built-in/catalogue.toml --key RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")]
    Fetch(Fetch),
    /// Write a catalogue of plugins, to be signed and published
    #[command(after_help = "\
Examples:
  cofferdam plugin catalogue lines.wasm words.wasm --from oci://ghcr.io/ada --key ada.pub
  minisign -Sm catalogue.toml
  cofferdam plugin push catalogue.toml oci://ghcr.io/ada/all:catalogue")]
    Catalogue(Catalogue),
    /// Publish a packed plugin in an OCI registry
    ///
    /// FILE.minisig is published with it, where it is there. Who you are, `docker login` says. The tag
    /// `revoked` is for a list of revoked versions, `catalogue` for a catalogue.
    #[command(after_help = "\
Examples:
  cofferdam plugin push lines.wasm oci://ghcr.io/ada/lines:1.0
  cofferdam plugin push revoked.toml oci://ghcr.io/ada/lines:revoked")]
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
    /// The versions that `plugin update` takes, such as '>=1.2, <3' [default: those that are
    /// compatible with the tag, where it is a semantic version]
    #[arg(long, value_name = "VERSIONS", requires = "source", value_parser = versions)]
    pub range: Option<semver::VersionReq>,
    /// Install it under this name instead of its own, such as one that a plugin of Cofferdam has
    #[arg(long = "as", value_name = "NAME", requires = "source", value_parser = plugin_name)]
    pub name: Option<String>,
    #[command(flatten)]
    pub accepted: Accepted,
    #[command(flatten)]
    pub granting: Granting,
}

/// Parses the name of a plugin.
fn plugin_name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("the name of a plugin is of {NAME_FORM}")),
    }
}

/// Parses a range of versions; the error has no trait that clap needs.
fn versions(text: &str) -> Result<semver::VersionReq, String> {
    text.parse().map_err(|error: semver::Error| error.to_string())
}

#[derive(Debug, Args)]
pub struct Search {
    /// What to look for, in names, tools and descriptions; all plugins where nothing is named
    pub words: Vec<String>,
    /// Look in this catalogue instead: a file, an https:// address or an oci:// reference
    #[arg(long, value_name = "SOURCE", requires = "key")]
    pub catalogue: Option<String>,
    /// The minisign key that has to have signed it, or the file of one
    #[arg(long, value_name = "KEY|FILE", requires = "catalogue")]
    pub key: Option<String>,
}

#[derive(Debug, Args)]
pub struct Fetch {
    /// The catalogue of the release: a file, an https:// address or an oci:// reference
    #[arg(value_name = "CATALOGUE")]
    pub catalogue: String,
    /// The minisign key that has to have signed it, or the file of one
    #[arg(long, value_name = "KEY|FILE")]
    pub key: String,
}

#[derive(Debug, Args)]
pub struct Catalogue {
    /// The packed plugins
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Where they are published: an https:// address that ends with a slash, or the beginning of oci://
    /// references [default: beside the catalogue]
    #[arg(long, value_name = "PREFIX")]
    pub from: Option<String>,
    /// The minisign key that signs them, or the file of one
    #[arg(long, value_name = "KEY|FILE")]
    pub key: Option<String>,
    /// Where the catalogue goes
    #[arg(long, short, default_value = "catalogue.toml")]
    pub output: PathBuf,
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

/// The options about a plugin's origin and signer.
#[derive(Debug, Args)]
pub struct Accepted {
    /// The minisign key that has to have signed it, or the file of one; from then on no other
    /// signer is taken
    #[arg(long, value_name = "KEY|FILE")]
    pub key: Option<String>,
    /// The identity that an attestation of a plugin in a registry has to name as its maker, such as the
    /// address of a workflow, with `@*` at its end for all its tags and branches; from then on no other
    /// maker is taken
    #[arg(long, value_name = "IDENTITY", requires = "issuer")]
    pub require_identity: Option<String>,
    /// Who has to have vouched for the identity, such as https://token.actions.githubusercontent.com
    #[arg(long, value_name = "URL", requires = "require_identity")]
    pub issuer: Option<String>,
    /// Take it although another key has signed it than before, or none
    #[arg(long)]
    pub accept_signer: bool,
    /// Take it although it comes from elsewhere than before, and no signature says that it is the
    /// same plugin
    #[arg(long)]
    pub accept_source: bool,
}

/// The options that grant a plugin its capabilities.
#[derive(Debug, Args)]
pub struct Granting {
    /// Grant this of what it asks for (may be repeated): files=read, files=write, scan,
    /// process=PROGRAM, backends=KIND, cache, history, git-commit, background, tools, questions,
    /// agents=NAME, http=ORIGIN, consent=CLASS, or all
    #[arg(long, value_name = "CAPABILITY", conflicts_with = "deny")]
    pub grant: Vec<Granted>,
    /// Grant nothing of what it asks for
    #[arg(long)]
    pub deny: bool,
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
    /// Where a tool in Rust gets the SDK from [default: released, once this version is]
    #[arg(long, value_enum)]
    pub sdk: Option<SdkSource>,
}

/// Where a project in Rust gets `cofferdam-sdk` from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SdkSource {
    /// From crates.io
    Released,
    /// A copy in the project, which builds without a registry
    Bundled,
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
