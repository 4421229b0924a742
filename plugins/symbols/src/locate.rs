//! `locate_symbol`: finds the definitions of a symbol.

use cofferdam_sdk::ToolError;
use cofferdam_sdk::answer::Notice;
use serde::Serialize;

use crate::args::LocateSymbolArgs;
use crate::language::Language;
use crate::name::Name;
use crate::outline::Kind;
use crate::project::{Deadline, Files};
use crate::search::{Hit, NOT_FOUND, Search, Unparsed};

/// The default maximum number of matches.
const DEFAULT_LIMIT: usize = 50;

/// The result of `locate_symbol`.
#[derive(Debug, Serialize)]
pub struct Located {
    /// The symbols, by file and line.
    pub matches: Vec<Match>,
    /// The number of symbols, with those not shown.
    pub total: usize,
    /// Whether the limit was exceeded, so that some are left out.
    pub truncated: bool,
    /// The number of files searched.
    pub files_searched: usize,
    /// The number of files that could not be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub files_unreadable: usize,
    /// Files that contain the name and could be parsed only in part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unparsed: Vec<Unparsed>,
    /// The number of such files.
    #[serde(skip_serializing_if = "is_zero")]
    pub unparsed_total: usize,
    /// Nothing was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<Notice>,
}

/// The place of a symbol's definition.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the names of Symbol's fields")]
pub struct Match {
    /// The name with its module.
    pub symbol: String,
    pub kind: Kind,
    pub language: Language,
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub signature: String,
    /// The first paragraph of its documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doc: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decorators: Vec<String>,
    pub public: bool,
}

impl From<Hit> for Match {
    fn from(hit: Hit) -> Self {
        let doc = hit.symbol.summary();
        Self {
            symbol: hit.qualified,
            kind: hit.symbol.kind,
            language: hit.language,
            file: hit.file,
            line: hit.symbol.line,
            column: hit.symbol.column,
            end_line: hit.symbol.end_line,
            signature: hit.symbol.signature,
            doc,
            decorators: hit.symbol.decorators,
            public: hit.symbol.public,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Finds the definitions of a symbol below `root`.
///
/// # Errors
/// `InvalidSymbol`, `PathNotFound`, `TimeoutError`.
pub fn locate(
    args: LocateSymbolArgs,
    root: String,
    files: &dyn Files,
    deadline: &mut Deadline,
) -> Result<Located, ToolError> {
    let name = Name::parse(&args.symbol)?;
    let search =
        Search { name, written: args.symbol, root, language: args.language, kinds: args.kinds };
    let found = search.find(files, deadline, args.limit.unwrap_or(DEFAULT_LIMIT))?;
    let notice = (found.total == 0).then(|| {
        let message = search.not_found(files, deadline, &found);
        Notice { code: NOT_FOUND, message }
    });
    Ok(Located {
        notice,
        truncated: found.hits.len() < found.total,
        matches: found.hits.into_iter().map(Match::from).collect(),
        total: found.total,
        files_searched: found.searched,
        files_unreadable: found.unreadable,
        unparsed: found.unparsed,
        unparsed_total: found.unparsed_total,
    })
}
