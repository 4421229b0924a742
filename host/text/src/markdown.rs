//! Plain text as Markdown (CommonMark with GitHub's tables), escaped so that none of it is markup.

/// Returns a table. `numbers` says which columns are right-aligned; cells are Markdown of one line,
/// made by [`escape`] or [`code_span`].
pub fn table(columns: &[&str], numbers: &[bool], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let head: Vec<String> = columns.iter().map(|column| escape(column)).collect();
    let rule: Vec<String> = (0..columns.len())
        .map(|at| if numbers.get(at) == Some(&true) { "--:" } else { "---" }.to_owned())
        .collect();
    [row(&head), row(&rule)]
        .into_iter()
        .chain(rows.iter().map(|cells| row(cells)))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns plain text of several lines as one paragraph: line breaks are kept, blank lines and
/// indentation are not.
pub fn paragraph(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(escape).collect::<Vec<_>>().join("\\\n")
}

/// Escapes the characters of a line that Markdown would take for markup or for a link to the web.
/// (GitHub still links mail addresses.)
pub fn escape(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for (at, c) in line.char_indices() {
        let (before, after) = (&line[..at], &line[at + c.len_utf8()..]);
        let markup = match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' | '$' => true,
            '-' | '+' | '=' => before.is_empty(),
            '.' | ')' if before.bytes().all(|byte| byte.is_ascii_digit()) => !before.is_empty(),
            '.' => {
                before.len() >= 3
                    && before.is_char_boundary(at - 3)
                    && before[at - 3..].eq_ignore_ascii_case("www")
            }
            ':' => before.is_empty() || after.starts_with("//"),
            _ => false,
        };
        if markup {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Returns text as code within a line.
pub fn code_span(text: &str) -> String {
    let fence = "`".repeat(longest_backticks(text) + 1);
    let pad = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Returns text as a fenced code block.
pub fn code_block(text: &str) -> String {
    let fence = "`".repeat((longest_backticks(text) + 1).max(3));
    format!("{fence}\n{}\n{fence}", text.trim_end())
}

fn longest_backticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        for (text, wanted) in [
            (
                "plain, (with) \"marks\"; a-b = c.d: 1.5!",
                "plain, (with) \"marks\"; a-b = c.d: 1.5!",
            ),
            ("<script>", r"\<script\>"),
            ("&lt; `x` *b* _i_ ~s~ | $m$", r"\&lt; \`x\` \*b\* \_i\_ \~s\~ \| \$m\$"),
            ("![a](b)", r"!\[a\](b)"),
            (r"\*", r"\\\*"),
            ("# h", r"\# h"),
            ("- a", r"\- a"),
            ("---", r"\---"),
            ("===", r"\==="),
            (":-:", r"\:-:"),
            ("12. a", r"12\. a"),
            ("1) a", r"1\) a"),
            (".5", ".5"),
            ("https://x.test/", r"https\://x.test/"),
            ("WWW.x.test", r"WWW\.x.test"),
            ("\u{e9}\u{e9}.", "\u{e9}\u{e9}."),
        ] {
            assert_eq!(escape(text), wanted);
        }
    }

    #[test]
    fn line_breaks_in_paragraphs_are_kept() {
        assert_eq!(paragraph("a\n\n    - b\n# c\n"), "a\\\n\\- b\\\n\\# c");
    }

    #[test]
    fn code_can_contain_backticks() {
        assert_eq!(code_span("a"), "`a`");
        assert_eq!(code_span("`a``b"), "``` `a``b ```");
        assert_eq!(code_block("a\n"), "```\na\n```");
        assert_eq!(code_block("```\n</pre>\n```"), "````\n```\n</pre>\n```\n````");
    }
}
