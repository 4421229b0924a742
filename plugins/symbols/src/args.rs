//! The arguments of the tools. The schemas in `schemas/tools` describe them.

use serde::Deserialize;

use crate::language::Language;
use crate::outline::Kind;

/// The arguments of `locate_symbol`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocateSymbolArgs {
    /// The name, with any number of qualifiers.
    pub symbol: String,
    /// The file or directory to search.
    pub path: Option<String>,
    /// Only symbols of these kinds.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Only files in this language.
    pub language: Option<Language>,
    /// The maximum number of matches.
    pub limit: Option<usize>,
}

/// The arguments of `get_source`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetSourceArgs {
    /// The name, with any number of qualifiers.
    pub symbol: String,
    /// The file or directory to search.
    pub path: Option<String>,
    /// Only symbols of these kinds.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// The maximum number of sources.
    pub limit: Option<usize>,
    /// The maximum number of lines of one source.
    pub max_lines: Option<usize>,
}

/// The arguments of `discover_api`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscoverApiArgs {
    /// A file, a directory or the name of a module.
    pub module: String,
    /// Whether to include private symbols.
    #[serde(default)]
    pub private: bool,
    /// The maximum number of symbols.
    pub limit: Option<usize>,
}

/// The arguments of `trace_calls`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceCallsArgs {
    /// The function or class to start from.
    pub symbol: String,
    /// The file or directory that contains it.
    pub path: Option<String>,
    /// The maximum depth of calls.
    pub depth: Option<usize>,
    /// The maximum number of calls.
    pub limit: Option<usize>,
}

/// The arguments of `trace_endpoint`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceEndpointArgs {
    /// `METHOD /path`, `/path` or the name of a handler; `None` lists all endpoints.
    pub endpoint: Option<String>,
    /// The file or directory to search for endpoints.
    pub path: Option<String>,
    /// The maximum depth of calls.
    pub depth: Option<usize>,
    /// The maximum number of endpoints.
    pub limit: Option<usize>,
}
