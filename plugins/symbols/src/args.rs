//! What callers ask for. The schemas in `schemas/tools` say the same.

use serde::Deserialize;

use crate::language::Language;
use crate::outline::Kind;

/// The arguments of `locate_symbol`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocateSymbolArgs {
    /// The name, qualified as far as the caller likes.
    pub symbol: String,
    /// The file or directory to look in.
    pub path: Option<String>,
    /// Only these kinds.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Only this language.
    pub language: Option<Language>,
    /// The most matches.
    pub limit: Option<usize>,
}

/// The arguments of `get_source`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetSourceArgs {
    /// The name, qualified as far as the caller likes.
    pub symbol: String,
    /// The file or directory to look in.
    pub path: Option<String>,
    /// Only these kinds.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// The most sources.
    pub limit: Option<usize>,
    /// The most lines of one source.
    pub max_lines: Option<usize>,
}

/// The arguments of `discover_api`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverApiArgs {
    /// A file, a directory or the name of a module.
    pub module: String,
    /// Whether to show what is private.
    #[serde(default)]
    pub private: bool,
    /// The most symbols.
    pub limit: Option<usize>,
}

/// The arguments of `trace_calls`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceCallsArgs {
    /// The function or class to start from.
    pub symbol: String,
    /// The file or directory that it is in.
    pub path: Option<String>,
    /// How many calls deep.
    pub depth: Option<usize>,
    /// The most calls.
    pub limit: Option<usize>,
}

/// The arguments of `trace_endpoint`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEndpointArgs {
    /// `METHOD /path`, `/path` or a handler's name; none lists all endpoints.
    pub endpoint: Option<String>,
    /// The file or directory to look for endpoints in.
    pub path: Option<String>,
    /// How many calls deep.
    pub depth: Option<usize>,
    /// The most endpoints.
    pub limit: Option<usize>,
}
