//! Decodes the contents of a file.

use std::borrow::Cow;

use crate::language::Language;
use crate::outline::Problem;

/// The maximum size of a file that is parsed, in bytes. A syntax tree takes up to 200 times as much
/// memory, and a plugin has 256 MiB.
pub fn max_size(language: Language) -> usize {
    match language {
        Language::Go => 512 * 1024,
        Language::Python | Language::Rust => 1024 * 1024,
        Language::JavaScript | Language::TypeScript => 3 * 1024 * 1024,
    }
}

/// The text of a file without a byte order mark, and an error in its encoding that does not prevent
/// parsing.
///
/// # Errors
/// The contents are not text, or too large.
pub fn decode(
    language: Language,
    contents: &[u8],
) -> Result<(Cow<'_, str>, Option<Problem>), Problem> {
    let problem = |line: usize, message: String| Problem { line, message };
    let most = max_size(language);
    if contents.len() > most {
        return Err(problem(1, format!("{} bytes; at most {most} are parsed", contents.len())));
    }
    if contents.starts_with(b"\xff\xfe") || contents.starts_with(b"\xfe\xff") {
        return Err(problem(1, "UTF-16; only UTF-8 is parsed".to_owned()));
    }
    let contents = contents.strip_prefix(b"\xef\xbb\xbf").unwrap_or(contents);
    let line = |offset: usize| 1 + memchr::memchr_iter(b'\n', &contents[..offset]).count();
    if let Some(offset) = memchr::memchr(0, contents) {
        return Err(problem(line(offset), "a NUL byte; not a text".to_owned()));
    }
    let error = match str::from_utf8(contents) {
        Ok(text) => return Ok((Cow::Borrowed(text), None)),
        Err(error) => error,
    };
    if language == Language::Python && says_latin_1(contents) {
        return Ok((
            contents.iter().map(|&byte| char::from(byte)).collect::<String>().into(),
            None,
        ));
    }
    let wrong = problem(
        line(error.valid_up_to()),
        "not UTF-8; shown with replacement characters".to_owned(),
    );
    Ok((String::from_utf8_lossy(contents), Some(wrong)))
}

/// Whether a comment in one of the first two lines declares Latin-1 as the encoding (PEP 263).
fn says_latin_1(contents: &[u8]) -> bool {
    contents.split(|&byte| byte == b'\n').take(2).any(|line| {
        let line = String::from_utf8_lossy(line).to_lowercase().replace('_', "-");
        let comment = line.trim_start();
        let Some((_, name)) = comment.split_once("coding").filter(|_| comment.starts_with('#'))
        else {
            return false;
        };
        let name = name.trim_start_matches([':', '=']).trim_start();
        ["latin-1", "latin1", "iso-8859-1", "iso8859-1", "l1"].iter().any(|latin| {
            name.strip_prefix(latin)
                .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_alphanumeric()))
        })
    })
}

/// Whether a file may contain a name, in any of the spellings that its language allows.
pub fn may_hold(
    language: Language,
    name: &str,
    finder: &memchr::memmem::Finder<'_>,
    contents: &[u8],
) -> bool {
    if finder.find(contents).is_some() {
        return true;
    }
    match language {
        // Identifiers are compared after normalization to NFKC: `ﬁle` is `file`.
        Language::Python => {
            !contents.is_ascii()
                && str::from_utf8(contents).is_ok_and(|text| {
                    !unicode_normalization::is_nfkc(text) && {
                        use unicode_normalization::UnicodeNormalization as _;
                        text.nfkc().collect::<String>().contains(name)
                    }
                })
        }
        // Identifiers can contain escapes.
        Language::JavaScript | Language::TypeScript => {
            memchr::memmem::find(contents, b"\\u").is_some()
        }
        Language::Go | Language::Rust => false,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use memchr::memmem::Finder;

    use super::*;

    #[test]
    fn bytes_are_decoded() {
        let decode = |bytes| decode(Language::Python, bytes).unwrap();
        assert_eq!(decode(b"\xef\xbb\xbfa"), ("a".into(), None));
        assert_eq!(
            decode(b"# -*- coding: latin-1 -*-\n\xe9"),
            ("# -*- coding: latin-1 -*-\né".into(), None)
        );
        assert_eq!(decode(b"#!x\n# vim: set fileencoding=ISO_8859-1 :\n\xe9").1, None);
        let (text, problem) = decode(b"a\n\xe9 = 1");
        assert_eq!((text.as_ref(), problem.unwrap().line), ("a\n\u{fffd} = 1", 2));
        assert!(decode(b"x = 'coding: latin-1'\n\xe9").1.is_some());
    }

    #[test]
    fn binary_contents_are_refused() {
        for (bytes, line, wanted) in [
            (&b"\xff\xfea\0"[..], 1, "UTF-16"),
            (b"a\nb\0", 2, "NUL"),
            (&vec![b'a'; max_size(Language::Go) + 1], 1, "at most"),
        ] {
            let problem = decode(Language::Go, bytes).unwrap_err();
            assert_eq!(problem.line, line);
            assert!(problem.message.contains(wanted), "{problem:?}");
        }
    }

    #[test]
    fn names_can_be_written_in_several_ways() {
        for (language, text, wanted) in [
            (Language::Python, "def file(): ...", true),
            (Language::Python, "def ﬁle(): ...", true),
            (Language::Python, "# … é", false),
            (Language::TypeScript, "function f\\u0069le() {}", true),
            (Language::Go, "func ﬁle() {}", false),
        ] {
            let found = may_hold(language, "file", &Finder::new("file"), text.as_bytes());
            assert_eq!(found, wanted, "{text}");
        }
    }
}
