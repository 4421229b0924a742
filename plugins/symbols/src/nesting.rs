//! Measures how deeply a text is nested, without a parser.
//!
//! The parsers are recursive, and a plugin's stack is 1.5 MiB: a file that is nested too deeply
//! would trap and fail the whole call. So a file with deeper nesting than compilers accept is
//! treated as one that can't be parsed, and the call continues with the other files.

use crate::language::Language;
use crate::outline::Problem;

/// The maximum depth of brackets: CPython's own limit (`MAXLEVEL` of its tokenizer).
const MAX_BRACKETS: usize = 200;

/// The maximum depth of indented blocks: CPython's own limit (`MAXINDENT`).
const MAX_INDENTATION: usize = 100;

/// The maximum number of consecutive operators, prefixes and `else` in a statement, including those
/// of the enclosing brackets.
const MAX_CHAIN: usize = 1500;

/// The number of operators that a bracket or a level of indentation counts as, since parsers use
/// more stack for it.
const OPERATORS_PER_BRACKET: usize = 5;

/// Checks that a text is not nested too deeply.
///
/// # Errors
/// The line of the nesting, with a message.
pub fn check(language: Language, text: &str) -> Result<(), Problem> {
    let mut nesting = Nesting::new(language, text.as_bytes());
    match nesting.measure() {
        Ok(()) => Ok(()),
        Err(message) => {
            let before = &text.as_bytes()[..nesting.at.min(text.len())];
            let line = 1 + memchr::memchr_iter(b'\n', before).count();
            Err(Problem { line, message })
        }
    }
}

struct Nesting<'a> {
    language: Language,
    text: &'a [u8],
    at: usize,
    /// The open brackets, each with the number of operators before it in the enclosing brackets.
    open: Vec<(u8, usize)>,
    /// The number of operators since the last separator, with those of the enclosing brackets.
    chain: usize,
    indentation: Vec<usize>,
    /// The end of each open formatted string: one quote, or three of them.
    formatted: Vec<&'static [u8]>,
    /// Whether the last token requires another one after it.
    expects: bool,
}

impl<'a> Nesting<'a> {
    fn new(language: Language, text: &'a [u8]) -> Self {
        Self {
            language,
            text,
            at: 0,
            open: Vec::new(),
            chain: 0,
            indentation: vec![0],
            formatted: Vec::new(),
            expects: false,
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn measure(&mut self) -> Result<(), String> {
        let is_python = self.language == Language::Python;
        if is_python {
            self.indent()?;
        }
        while let Some(&byte) = self.text.get(self.at) {
            if self.skip_comment() {
                continue;
            }
            if self.skip_string() {
                self.expects = false;
                continue;
            }
            match byte {
                b'(' | b'[' | b'{' => self.open_bracket(byte)?,
                b')' | b']' | b'}' => self.close_bracket(byte)?,
                b',' | b';' => {
                    self.at += 1;
                    // Such as `if (a) b; else c`.
                    if byte == b',' || !self.rest().trim_ascii_start().starts_with(b"else") {
                        self.reset();
                    }
                }
                b'\n' => {
                    self.at += 1;
                    self.line_end()?;
                }
                _ if is_word(byte) => self.word()?,
                b' ' | b'\t' | b'\r' => self.at += 1,
                // A backslash continues the line.
                b'\\' => self.at += 2,
                _ => {
                    self.add(1)?;
                    self.at += 1;
                    self.expects = true;
                }
            }
        }
        Ok(())
    }

    fn base(&self) -> usize {
        self.open.last().map_or(self.indentation.len() * OPERATORS_PER_BRACKET, |&(_, before)| {
            before + OPERATORS_PER_BRACKET
        })
    }

    fn reset(&mut self) {
        self.chain = self.base();
        self.expects = false;
    }

    fn add(&mut self, count: usize) -> Result<(), String> {
        self.chain += count;
        if self.chain > MAX_CHAIN {
            return Err(format!(
                "more than {MAX_CHAIN} operators nested in each other; not parsed"
            ));
        }
        Ok(())
    }

    fn open_bracket(&mut self, byte: u8) -> Result<(), String> {
        self.open.push((byte, self.chain));
        self.add(OPERATORS_PER_BRACKET)?;
        self.at += 1;
        self.expects = false;
        // A block begins new statements, but the enclosing ones are not complete.
        let depth = self.open.iter().filter(|(open, _)| *open != b'`').count();
        if depth > MAX_BRACKETS {
            return Err(format!(
                "more than {MAX_BRACKETS} brackets nested in each other; not parsed"
            ));
        }
        Ok(())
    }

    fn close_bracket(&mut self, byte: u8) -> Result<(), String> {
        self.at += 1;
        self.expects = false;
        if self.open.last().is_some_and(|(open, _)| *open != b'`') {
            if let Some((_, before)) = self.open.pop() {
                self.chain = before;
            }
            if self.open.last().is_some_and(|(open, _)| *open == b'`') {
                self.template();
            }
        }
        // Calls and indices can be chained; a block ends the expression before it.
        if byte != b'}' {
            return self.add(1);
        }
        let next = self.rest().trim_ascii_start();
        let length = next.iter().take_while(|&&byte| is_word(byte)).count();
        let ends = length > 0 && !is_continuation(&next[..length]);
        if self.language != Language::Python && ends {
            self.reset();
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), String> {
        let length = self.rest().iter().take_while(|&&byte| is_word(byte)).count();
        let word = &self.rest()[..length];
        self.at += length;
        self.expects = match word {
            b"not" | b"await" | b"lambda" | b"typeof" | b"void" | b"delete" | b"new" | b"yield"
            | b"return" | b"move" | b"async" | b"in" | b"is" | b"and" | b"or" | b"instanceof"
            | b"as" | b"extends" | b"keyof" | b"readonly" | b"infer" | b"unique" | b"do"
            | b"mut" | b"ref" | b"dyn" | b"impl" | b"chan" | b"unsafe" | b"const" | b"break"
            | b"box" | b"asserts" | b"throw" | b"from" => {
                self.add(1)?;
                true
            }
            // For the parsers, each branch of a chain is nested in the previous one.
            b"else" | b"if" | b"for" | b"while" | b"with" | b"label" | b"func" | b"fn" => {
                self.add(4)?;
                true
            }
            _ => false,
        };
        Ok(())
    }

    /// Handles the end of a line, which may end a statement: that depends on the language and the
    /// next token.
    fn line_end(&mut self) -> Result<(), String> {
        if self.language == Language::Python {
            if self.open.is_empty() && !self.continues() {
                self.reset();
                self.indent()?;
            }
            return Ok(());
        }
        if self.expects {
            return Ok(());
        }
        let next = self.rest().trim_ascii_start();
        let goes_on = match next.first() {
            None => true,
            Some(b'}' | b')' | b']') => true,
            Some(&byte) if is_word(byte) => {
                let length = next.iter().take_while(|&&byte| is_word(byte)).count();
                is_continuation(&next[..length])
            }
            Some(b'/') => next.get(1).is_none_or(|&next| next != b'/' && next != b'*'),
            Some(b'@' | b'#' | b'"' | b'\'' | b'`' | b'(' | b'[' | b'{') => false,
            Some(_) => true,
        };
        if !goes_on {
            self.reset();
        }
        Ok(())
    }

    /// Whether the previous line ends in a backslash.
    fn continues(&self) -> bool {
        let before = &self.text[..self.at.saturating_sub(1)];
        before.strip_suffix(b"\r").unwrap_or(before).ends_with(b"\\")
    }

    /// Handles the indentation of a line in Python, which opens or closes blocks.
    fn indent(&mut self) -> Result<(), String> {
        let width = self.rest().iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
        match self.rest().get(width) {
            None | Some(b'\n' | b'\r' | b'#') => return Ok(()),
            Some(_) => {}
        }
        while self.indentation.last().is_some_and(|&last| last > width) {
            self.indentation.pop();
        }
        if self.indentation.last() != Some(&width) {
            self.indentation.push(width);
        }
        if self.indentation.len() > MAX_INDENTATION {
            return Err(format!("more than {MAX_INDENTATION} levels of indentation; not parsed"));
        }
        Ok(())
    }

    fn skip_comment(&mut self) -> bool {
        let rest = self.rest();
        if self.language == Language::Python {
            if rest.first() != Some(&b'#') {
                return false;
            }
        } else if rest.starts_with(b"/*") {
            self.at += 2 + self.block_comment(&rest[2..]);
            return true;
        } else if !rest.starts_with(b"//") {
            return false;
        }
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        true
    }

    /// The length of the rest of a block comment. In Rust, they are nested.
    fn block_comment(&self, rest: &[u8]) -> usize {
        let mut depth = 1;
        let mut at = 0;
        while at < rest.len() {
            if rest[at..].starts_with(b"*/") {
                at += 2;
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            } else if self.language == Language::Rust && rest[at..].starts_with(b"/*") {
                at += 2;
                depth += 1;
            } else {
                at += 1;
            }
        }
        rest.len()
    }

    fn skip_python_string(&mut self, quote: u8) {
        let rest = self.rest();
        let triple = [quote; 3];
        if self.is_formatted() {
            let end: &'static [u8] = match (quote, rest.starts_with(&triple)) {
                (b'"', true) => b"\"\"\"",
                (b'"', false) => b"\"",
                (_, true) => b"'''",
                (_, false) => b"'",
            };
            self.formatted.push(end);
            self.open.push((b'`', self.chain));
            self.at += end.len();
            self.template();
        } else if rest.starts_with(&triple) {
            let end = find_unescaped(&rest[3..], &triple);
            self.at += 3 + end;
        } else {
            self.at += 1 + line_string(&rest[1..], quote);
        }
    }

    /// Skips a raw string of Rust; returns `false` if the `r` here does not start one.
    fn skip_raw_string(&mut self) -> bool {
        let rest = self.rest();
        let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
        if rest.get(1 + hashes) != Some(&b'"') {
            return false;
        }
        let mut end = vec![b'"'];
        end.resize(hashes + 1, b'#');
        let start = 2 + hashes;
        let found = memchr::memmem::find(&rest[start..], &end);
        self.at += found.map_or(rest.len(), |found| start + found + end.len());
        true
    }

    fn skip_string(&mut self) -> bool {
        let rest = self.rest();
        let Some(&quote) = rest.first() else {
            return false;
        };
        match (self.language, quote) {
            (Language::Python, b'"' | b'\'') => {
                self.skip_python_string(quote);
                true
            }
            (Language::Go | Language::Rust, b'"') => {
                self.at += 1 + find_unescaped(&rest[1..], b"\"");
                true
            }
            (Language::Go, b'`') => {
                self.at +=
                    1 + memchr::memchr(b'`', &rest[1..]).map_or(rest.len() - 1, |end| end + 1);
                true
            }
            (Language::Go, b'\'') => {
                self.at += 1 + line_string(&rest[1..], b'\'');
                true
            }
            // A character literal or a lifetime.
            (Language::Rust, b'\'') => {
                let is_character = rest.get(1) == Some(&b'\\')
                    || rest[1..]
                        .iter()
                        .take(5)
                        .position(|&byte| byte == b'\'')
                        .is_some_and(|end| end > 0);
                self.at += if is_character { 1 + line_string(&rest[1..], b'\'') } else { 1 };
                true
            }
            (Language::Rust, b'r')
                if !self.text[..self.at]
                    .last()
                    .is_some_and(|&byte| is_word(byte) && byte != b'b' && byte != b'c') =>
            {
                self.skip_raw_string()
            }
            (Language::JavaScript | Language::TypeScript, b'"' | b'\'') => {
                self.at += 1 + line_string(&rest[1..], quote);
                true
            }
            (Language::JavaScript | Language::TypeScript, b'`') => {
                self.open.push((b'`', self.chain));
                self.at += 1;
                self.template();
                true
            }
            _ => false,
        }
    }

    /// Whether the quote at the current position follows `f` or `t`.
    fn is_formatted(&self) -> bool {
        let before = &self.text[..self.at];
        let prefix = before.iter().rev().take_while(|&&byte| is_word(byte)).count();
        let prefix = &before[before.len() - prefix..];
        (1..=2).contains(&prefix.len())
            && prefix.iter().any(|byte| matches!(byte.to_ascii_lowercase(), b'f' | b't'))
            && prefix.iter().all(|byte| matches!(byte.to_ascii_lowercase(), b'f' | b't' | b'r'))
    }

    /// Skips the text of a template or a formatted string, up to its end or to the next value in
    /// it.
    fn template(&mut self) {
        let end = self.formatted.last().copied().unwrap_or(b"`");
        while let Some(&byte) = self.text.get(self.at) {
            let rest = self.rest();
            if rest.starts_with(end) || (byte == b'\n' && end.len() == 1 && end != b"`") {
                self.at += if byte == b'\n' { 0 } else { end.len() };
                self.formatted.pop();
                self.open.pop();
                return;
            }
            match byte {
                b'\\' => self.at += 2,
                b'{' if end != b"`" && rest.get(1) == Some(&b'{') => self.at += 2,
                b'{' if end != b"`" => return,
                b'$' if end == b"`" && rest.get(1) == Some(&b'{') => {
                    self.at += 1;
                    return;
                }
                _ => self.at += 1,
            }
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Whether a word continues the statement before it.
fn is_continuation(word: &[u8]) -> bool {
    matches!(
        word,
        b"else" | b"as" | b"in" | b"of" | b"instanceof" | b"extends" | b"satisfies" | b"is"
    )
}

/// The length up to and including the first `end` that is not after a backslash.
fn find_unescaped(text: &[u8], end: &[u8]) -> usize {
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'\\' {
            at += 2;
        } else if text[at..].starts_with(end) {
            return at + end.len();
        } else {
            at += 1;
        }
    }
    text.len()
}

/// As [`find_unescaped`], for a string that ends at the end of the line at the latest.
fn line_string(text: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'\n' => return at,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeply_nested_text_is_refused() {
        use Language::{Go, JavaScript, Python, Rust, TypeScript};
        let repeated = |text: &str| text.repeat(5000);
        for (language, text) in [
            (Python, repeated("(")),
            (Python, format!("x = {}", repeated("["))),
            (Python, format!("x = {}1", repeated("-"))),
            (Python, format!("x = {}1", repeated("not "))),
            (Python, format!("x = {}1", repeated("lambda: "))),
            (Python, format!("x = {}1", repeated("1 if a else "))),
            (Python, format!("x = {}1", repeated("1 + "))),
            (Python, format!("x = a{}", repeated(".b"))),
            (Python, format!("x = a{}", repeated("()"))),
            (Python, format!("x = {}1", repeated("2 ** \\\n"))),
            (Python, format!("x = f'{}'", repeated("{f\""))),
            (Python, (0..200).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect()),
            (JavaScript, repeated("(")),
            (JavaScript, repeated("!\n")),
            (JavaScript, repeated("await\n")),
            (JavaScript, repeated("if (a) b\nelse ")),
            (JavaScript, repeated("if (a) b; else ")),
            (JavaScript, repeated("`${")),
            (JavaScript, repeated("a => ")),
            (JavaScript, repeated("a ? b : ")),
            (TypeScript, format!("type A = {}", repeated("B<"))),
            (TypeScript, repeated("<a>")),
            (Go, format!("var x {}", repeated("*"))),
            (Go, repeated("{")),
            (Rust, format!("type A = {}", repeated("&'a "))),
            (Rust, repeated("if a {} else ")),
            (Rust, repeated("a::<")),
        ] {
            let start: String = text.chars().take(30).collect();
            assert!(check(language, &text).is_err(), "{language:?} {start}");
        }
        let problem = check(Python, &format!("\n\nx = {}", repeated("("))).map_err(|one| one.line);
        assert_eq!(problem, Err(3));
    }

    #[test]
    fn text_that_only_looks_nested_is_accepted() {
        use Language::{Go, JavaScript, Python, Rust};
        let repeated = |text: &str| text.repeat(3000);
        for (language, text) in [
            (Python, repeated("x = '('\n")),
            (Python, repeated("x = '''(\n(\"(\\''''\n")),
            (Python, repeated("# ((((\n")),
            (Python, repeated("x = -1 + a.b(not c)\n")),
            (Python, format!("x = [{}]", repeated("-1, \"[\",\n"))),
            (Python, repeated("if a:\n  if b:\n    c\nelif d:\n  e\n")),
            (Python, repeated("f'{a}' f\"{b!r:>{c}}\"\n")),
            (Python, repeated("x = f(f'don\"t ({a})', rf\"{{(\", F'''\n({b['c']}\n''')\n")),
            (Python, repeated("x = f'{a[\"b\"]}(' + f'{f\"{c}\"}'\n")),
            (JavaScript, repeated("a = b.c('(') + \"[\"\n")),
            (JavaScript, repeated("`(${a}[`;")),
            (JavaScript, repeated("// ((\n/* [[ \n */\n")),
            (JavaScript, format!("f({})", repeated("a => -a, "))),
            (JavaScript, repeated("const a = () => { if (b) { c } else { d } }\n")),
            (Go, repeated("x := `(` + \"[\" + string('{')\n")),
            (Rust, repeated("let x: &'a str = r#\"(\"(\"#; let y = '('; let z = b\"[\\\"\";\n")),
            (Rust, repeated("/* /* ( */ ( */\n")),
        ] {
            let start: String = text.chars().take(30).collect();
            assert_eq!(check(language, &text), Ok(()), "{language:?} {start}");
        }
    }
}
