//! `get_source`: returns the source text of a symbol, unchanged.

use cofferdam_sdk::ToolError;
use serde::Serialize;

use crate::args::GetSourceArgs;
use crate::locate::is_zero;
use crate::name::Name;
use crate::outline::Kind;
use crate::project::{Deadline, Files};
use crate::search::{Search, Unparsed};

/// The default maximum number of sources.
const DEFAULT_LIMIT: usize = 5;

/// The default maximum number of lines of each source.
const DEFAULT_MAX_LINES: usize = 400;

/// The maximum size of all sources together, in bytes.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The result of `get_source`.
#[derive(Debug, Serialize)]
pub struct Sources {
    /// The sources, by file and line.
    pub sources: Vec<Source>,
    /// The number of symbols with that name, with those not shown.
    pub total: usize,
    /// Whether the limit was exceeded, so that some are left out.
    pub truncated: bool,
    /// Files that contain the name and could be parsed only in part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unparsed: Vec<Unparsed>,
    /// The number of such files.
    #[serde(skip_serializing_if = "is_zero")]
    pub unparsed_total: usize,
}

/// The source of one symbol.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the names of Symbol's fields")]
pub struct Source {
    /// The name with its module.
    pub symbol: String,
    pub kind: Kind,
    pub file: String,
    /// The line of the definition itself.
    pub line: usize,
    /// The first line of `source`, with decorators, attributes and comments before the definition.
    pub start_line: usize,
    /// The definition's last line.
    pub end_line: usize,
    pub signature: String,
    /// The whole documentation of the symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decorators: Vec<String>,
    /// The lines of the file, unchanged.
    pub source: String,
    /// The last line in `source`, if it was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown_to_line: Option<usize>,
}

/// Returns the sources of a symbol below `root`.
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
    let found = search.run(files, deadline, args.limit.unwrap_or(DEFAULT_LIMIT))?;
    let max_lines = args.max_lines.unwrap_or(DEFAULT_MAX_LINES);
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

/// The first whole lines of a text within both limits, and their number.
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
