//! Finds symbols with a similar name, for a message about a name that does not exist.
//!
//! Scanning words is much faster than parsing. So only words after the beginning of a definition
//! are compared, and only the files with the most similar ones are parsed.

use std::collections::HashMap;

use cofferdam_sdk::ToolError;

use crate::name::Name;
use crate::project::{Deadline, Files};
use crate::search::{distinct, outline_of, qualified};

/// The maximum number of names in a message.
const MAX_NAMES: usize = 5;

/// The maximum number of files parsed for one word.
const MAX_FILES: usize = 4;

/// The minimum similarity of two names; 1 is equality.
const MIN_SIMILARITY: f64 = 0.7;

/// The keywords that precede the name of a definition.
const DEFINITION_KEYWORDS: [&[u8]; 18] = [
    b"class",
    b"const",
    b"def",
    b"enum",
    b"fn",
    b"func",
    b"function",
    b"interface",
    b"let",
    b"macro_rules",
    b"mod",
    b"namespace",
    b"static",
    b"struct",
    b"trait",
    b"type",
    b"union",
    b"var",
];

/// A search for similar names.
pub struct Nearest {
    lower: String,
    words: HashMap<Vec<u8>, (f64, Vec<String>)>,
}

impl Nearest {
    /// Prepares a search for names like this.
    pub fn new(wanted: &Name) -> Self {
        Self { lower: wanted.last().to_lowercase(), words: HashMap::new() }
    }

    /// The names, the most similar first; empty if the deadline has passed.
    pub fn search(
        mut self,
        files: &dyn Files,
        root: &str,
        globs: &[String],
        deadline: &mut Deadline,
    ) -> Vec<String> {
        let mut late: Result<(), ToolError> = Ok(());
        let walked = files.each(root, globs, &mut |path, contents| {
            late = deadline.check(contents.len());
            self.look(path, contents);
            late.is_ok()
        });
        if walked.is_err() || late.is_err() {
            return Vec::new();
        }
        let mut words: Vec<_> = std::mem::take(&mut self.words).into_iter().collect();
        words.sort_by(|(a, (near, _)), (b, (other, _))| {
            other.total_cmp(near).then_with(|| a.cmp(b))
        });
        let names = words.iter().take(MAX_NAMES * 2).flat_map(|(word, (_, paths))| {
            let word = String::from_utf8_lossy(word).into_owned();
            paths.iter().flat_map(move |path| defined(files, path, &word))
        });
        let mut names = distinct(names);
        names.truncate(MAX_NAMES);
        names
    }

    fn look(&mut self, path: &dyn Fn() -> String, contents: &[u8]) {
        let mut known = None;
        let mut before: &[u8] = b"";
        let mut at = 0;
        while at < contents.len() {
            if !is_word(contents[at]) {
                at += 1;
                continue;
            }
            let start = at;
            while at < contents.len() && is_word(contents[at]) {
                at += 1;
            }
            let word = &contents[start..at];
            let is_definition = DEFINITION_KEYWORDS.contains(&before)
                || follows_line_start_or_receiver(contents, start, at);
            before = word;
            if !is_definition {
                continue;
            }
            let Some(nearness) = self.nearness(word) else {
                continue;
            };
            let (_, paths) = self.words.entry(word.to_vec()).or_insert((nearness, Vec::new()));
            if paths.len() < MAX_FILES {
                let path = known.get_or_insert_with(path);
                if paths.last() != Some(path) {
                    paths.push(path.clone());
                }
            }
        }
    }

    /// The similarity of a word, if it is high enough.
    fn nearness(&self, word: &[u8]) -> Option<f64> {
        let (a, b) = (word.len(), self.lower.len());
        let contains = a > b && b >= 4 && a <= b * 3;
        if a.abs_diff(b) > b / 3 + 1 && !contains {
            return None;
        }
        let word = str::from_utf8(word).ok()?.to_lowercase();
        let alike = strsim::normalized_damerau_levenshtein(&word, &self.lower);
        // Names that contain the wanted one are candidates too, after similar ones.
        let nearness =
            if contains && word.contains(&self.lower) { alike.max(MIN_SIMILARITY) } else { alike };
        (nearness >= MIN_SIMILARITY && word.as_bytes() != b"").then_some(nearness)
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Whether this is `name(` or `name =` at a line's start, as for methods and variables, or follows
/// the receiver of a Go method.
fn follows_line_start_or_receiver(contents: &[u8], start: usize, end: usize) -> bool {
    let before = contents[..start].iter().rev().find(|&&byte| !matches!(byte, b' ' | b'\t'));
    let after = contents[end..].iter().find(|&&byte| byte != b' ');
    match before {
        None | Some(b'\n') => matches!(after, Some(b'(' | b'=' | b':' | b'<')),
        Some(b')') => after == Some(&b'('),
        _ => false,
    }
}

/// The qualified names of the symbols with this name in a file.
fn defined(files: &dyn Files, path: &str, name: &str) -> Vec<String> {
    let Some((language, outline)) = files.read(path).and_then(|text| outline_of(path, &text))
    else {
        return Vec::new();
    };
    let modules = language.modules(path, outline.package.as_deref());
    let symbols = outline.symbols.iter().filter(|symbol| symbol.name() == name);
    symbols.map(|symbol| qualified(language, &modules, &symbol.path)).collect()
}
