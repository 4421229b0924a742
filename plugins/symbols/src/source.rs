//! `get_source`: a symbol's source as the file has it.

use cofferdam_sdk::ToolError;
use serde::Serialize;

use crate::args::GetSourceArgs;
use crate::locate::is_zero;
use crate::name::Name;
use crate::outline::Kind;
use crate::project::{Deadline, Files};
use crate::search::{Search, Unparsed};

/// How many sources are shown unless the caller says otherwise.
const LIMIT: usize = 5;

/// How many lines of each are shown unless the caller says otherwise.
const MAX_LINES: usize = 400;

/// How many bytes all sources together may have.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The answer of `get_source`.
#[derive(Debug, Serialize)]
pub struct Sources {
    /// The sources, by file and line.
    pub sources: Vec<Source>,
    /// How many symbols of that name there are.
    pub total: usize,
    /// Whether there are more than are shown.
    pub truncated: bool,
    /// Files that hold the name and could not be parsed in full.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unparsed: Vec<Unparsed>,
    /// How many of those there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub unparsed_total: usize,
}

/// One symbol's source.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the names of Symbol's fields")]
pub struct Source {
    /// The name with its module.
    pub symbol: String,
    pub kind: Kind,
    pub file: String,
    /// Where the definition itself starts.
    pub line: usize,
    /// The first line of `source`: decorators, attributes and comments above included.
    pub start_line: usize,
    /// The definition's last line.
    pub end_line: usize,
    pub signature: String,
    /// Its documentation, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decorators: Vec<String>,
    /// The lines as the file has them.
    pub source: String,
    /// The last line that `source` shows, where it does not show all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown_to_line: Option<usize>,
}

/// Gets the source of a symbol below `root`.
///
/// # Errors
/// `InvalidSymbol`, `SymbolNotFound`, `PathNotFound`, `TimeoutError`.
pub fn get_source(
    args: GetSourceArgs,
    root: String,
    files: &dyn Files,
    deadline: &mut Deadline,
) -> Result<Sources, ToolError> {
    let name = Name::parse(&args.symbol)?;
    let search = Search { name, written: args.symbol, root, language: None, kinds: args.kinds };
    let found = search.run(files, deadline, args.limit.unwrap_or(LIMIT))?;
    let max_lines = args.max_lines.unwrap_or(MAX_LINES);
    let mut left = MAX_BYTES;
    let sources: Vec<Source> = found
        .hits
        .into_iter()
        .map(|hit| {
            let symbol = hit.symbol;
            let (shown, lines) = first_lines(&hit.source, max_lines, left);
            left -= shown.len();
            Source {
                symbol: hit.qualified,
                kind: symbol.kind,
                file: hit.file,
                line: symbol.line,
                start_line: symbol.start_line,
                end_line: symbol.end_line,
                signature: symbol.signature,
                doc: symbol.doc,
                decorators: symbol.decorators,
                shown_to_line: (shown.len() < hit.source.len())
                    .then(|| (symbol.start_line + lines).saturating_sub(1)),
                source: shown.to_owned(),
            }
        })
        .collect();
    Ok(Sources {
        truncated: sources.len() < found.total,
        sources,
        total: found.total,
        unparsed: found.unparsed,
        unparsed_total: found.unparsed_total,
    })
}

/// The first whole lines of a text, within both limits, and how many they are.
fn first_lines(text: &str, most: usize, bytes: usize) -> (&str, usize) {
    let (mut end, mut count) = (0, 0);
    for line in text.split_inclusive('\n').take(most) {
        if end + line.len() > bytes {
            break;
        }
        end += line.len();
        count += 1;
    }
    (&text[..end], count)
}
