//! The plugin `grep`: the tools `grep` and `search_text`.
//!
//! The host walks the tree, applies ignore files, types and globs, and reads the files; this plugin
//! searches their contents.

pub mod answer;
pub mod args;
pub mod blocks;
pub mod deadline;
pub mod pattern;
pub mod prefilter;
pub mod search;
pub mod text;

use std::time::Duration;

use answer::{GrepAnswer, SearchTextAnswer};
use args::{GrepArgs, SearchTextArgs};
use cofferdam_sdk::log::{self, Level};
use cofferdam_sdk::scan::{self, Query, Scanner};
use cofferdam_sdk::{Context, ToolError, plugin};
use deadline::Deadline;
use search::{Found, Search};

/// The plugin: each function is a tool.
pub struct Grep;

impl Grep {
    fn grep(args: GrepArgs, context: &Context) -> Result<GrepAnswer, ToolError> {
        let search = Search::new(&args.settings()?, deadline(context))?;
        let path = args.path.as_deref().unwrap_or(".");
        let found = run(search, &args.files(&context.resolve(path)?), path, context)?;
        Ok(GrepAnswer::new(&args, found))
    }

    fn search_text(args: SearchTextArgs, context: &Context) -> Result<SearchTextAnswer, ToolError> {
        let path = args.path.as_deref().unwrap_or(".");
        let query = scan::query(&context.resolve(path)?);
        let search = Search::new(&args.settings(), deadline(context))?;
        let found = run(search, &query, path, context)?;
        // What is wrong with the query as a regular expression is of no interest here.
        let other = args.as_regex().filter(|_| found.total_matches == 0);
        let other = other.and_then(|args| Search::new(&args.settings(), deadline(context)).ok());
        let other = other.and_then(|search| run(search, &query, path, context).ok());
        Ok(SearchTextAnswer::new(&args, found, other.as_ref()))
    }
}

plugin!(Grep { grep, search_text });

fn deadline(context: &Context) -> Deadline {
    Deadline::new(context.timeout_ms(None, Duration::ZERO))
}

/// Searches the files of `query`. Result paths are as the caller wrote `path`: absolute, or
/// relative to the workspace.
fn run(
    mut search: Search,
    query: &Query,
    path: &str,
    context: &Context,
) -> Result<Found, ToolError> {
    let prefix = if path.starts_with('/') {
        format!("{}/", context.absolute(&context.resolve(".")?))
    } else {
        String::new()
    };
    let scanner = open(query)?;
    scanner.each(|path, contents| search.look(|| format!("{prefix}{}", path()), contents));
    let unreadable = scanner.unreadable();
    if unreadable > 0 {
        log::emit(Level::Warn, &format!("files that can't be read: {unreadable}"));
    }
    search.finish()
}

/// Opens a scanner; if the host rejects the query, finds the argument that caused it.
fn open(query: &Query) -> Result<Scanner, ToolError> {
    Scanner::open(query).map_err(|error| {
        let types_alone = Query { globs: Vec::new(), exclude_globs: Vec::new(), ..query.clone() };
        if error.code != "InvalidPattern"
            || query.types.is_empty()
            || Scanner::open(&types_alone).is_ok()
        {
            return error;
        }
        ToolError::invalid_args("InvalidType", error.message)
    })
}
