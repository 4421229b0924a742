//! Parses the names of symbols, and compares them with definitions.

use cofferdam_sdk::ToolError;

use crate::language::Language;

/// The maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 1000;

/// A name as a caller writes it: `get_file`, `Class.method`, `helpers.files.get_file`,
/// `crate::module::function`, `file.py::Class::method`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    parts: Vec<String>,
}

impl Name {
    /// Splits a name into its parts.
    ///
    /// # Errors
    /// `InvalidSymbol`, with the reason.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        let invalid = |why: &str| {
            Err(ToolError::invalid_args(
                "InvalidSymbol",
                format!(
                    "'{text}' is no symbol: {why}. Write a name such as get_file, Class.method or package.module.function"
                ),
            ))
        };
        if text.len() > MAX_NAME_BYTES {
            return Err(ToolError::invalid_args(
                "InvalidSymbol",
                format!(
                    "the symbol is {} bytes long; at most {MAX_NAME_BYTES} are allowed",
                    text.len()
                ),
            ));
        }
        let mut plain = text.trim().trim_end_matches("()").to_owned();
        if let Some((file, rest)) = plain.split_once("::").or_else(|| plain.split_once(':'))
            && let Some((stem, _)) = file.rsplit_once('.')
            && Language::of(file).is_some()
        {
            plain = format!("{stem}.{}", rest.trim_start_matches(':'));
        }
        let plain = plain.replace("::", ".").replace(['/', '#'], ".");
        let mut parts: Vec<String> = plain.split('.').map(normal).collect();
        if parts.len() > 1 && matches!(parts[0].as_str(), "crate" | "self" | "") {
            parts.remove(0);
        }
        if parts.iter().any(String::is_empty) {
            return invalid("a part of it is empty");
        }
        if parts.iter().any(|part| part.chars().any(|c| c.is_whitespace() || c.is_control())) {
            return invalid("it holds white space");
        }
        Ok(Self { parts })
    }

    /// The symbol's own name.
    pub fn last(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    /// The parts of the name.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Whether the name can refer to the symbol with this `path` within the module.
    pub fn means(&self, modules: &[Vec<String>], path: &[String]) -> bool {
        modules.iter().any(|module| {
            let mut whole = module.iter().chain(path).rev();
            self.parts.iter().rev().all(|part| whole.next().is_some_and(|other| other == part))
        })
    }
}

/// Normalizes a name to NFKC, as Python does.
fn normal(text: &str) -> String {
    use unicode_normalization::UnicodeNormalization as _;
    if text.is_ascii() { text.to_owned() } else { text.nfkc().collect() }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn names_are_split() {
        for (text, wanted) in [
            ("get_file", &["get_file"][..]),
            ("helpers.file_helpers.get_file", &["helpers", "file_helpers", "get_file"]),
            ("Class.method()", &["Class", "method"]),
            ("crate::a::b", &["a", "b"]),
            ("tests/test_a.py::TestA::test_b", &["tests", "test_a", "TestA", "test_b"]),
            ("src/a.py:get", &["src", "a", "get"]),
            ("a#b", &["a", "b"]),
            ("/src/a", &["src", "a"]),
            ("ﬁle", &["file"]),
        ] {
            assert_eq!(Name::parse(text).unwrap().parts, wanted, "{text}");
        }
        for text in ["", ".", "a..b", "a.", "a b", "a\nb", &"a".repeat(1001)] {
            assert_eq!(Name::parse(text).unwrap_err().code, "InvalidSymbol", "{text:?}");
        }
    }

    #[test]
    fn a_name_matches_paths_that_end_with_it() {
        let strings = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let modules = [strings("src.app.helpers.files")];
        for (name, path, wanted) in [
            ("get", "get", true),
            ("files.get", "get", true),
            ("src.app.helpers.files.get", "get", true),
            ("File.get", "File.get", true),
            ("get", "File.get", true),
            ("helpers.get", "get", false),
            ("x.src.app.helpers.files.get", "get", false),
            ("File", "File.get", false),
            ("iles.get", "get", false),
        ] {
            let means = Name::parse(name).unwrap().means(&modules, &strings(path));
            assert_eq!(means, wanted, "{name}");
        }
    }
}
