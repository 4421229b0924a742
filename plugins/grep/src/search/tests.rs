#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;

use super::*;
use crate::text::MAX_TEXT_BYTES;

const LINES: Collect = Collect::Lines { before: 0, after: 0 };

fn settings(pattern: &str, collect: Collect) -> Settings<'_> {
    let limit = Limit::Page(usize::MAX);
    let pattern = pattern.into();
    Settings { pattern, ignore_case: false, multiline: false, collect, offset: 0, limit }
}

fn search(settings: &Settings<'_>, files: &[(&str, &[u8])]) -> Result<Found, ToolError> {
    let mut search = Search::new(settings, Deadline::new(60_000))?;
    for (path, contents) in files {
        if !search.look(|| (*path).to_owned(), contents) {
            break;
        }
    }
    search.finish()
}

/// The matches in one file, as `line:text`.
fn matches(settings: &Settings<'_>, contents: &[u8]) -> Vec<String> {
    let found = search(settings, &[("f", contents)]).unwrap();
    found.lines.iter().map(|found| format!("{}:{}", found.line, found.text)).collect()
}

#[test]
fn lines_match() {
    for (pattern, contents, found) in [
        ("foo", "foo\nbar\nfoo foo", vec!["1:foo", "3:foo foo"]),
        ("^b", "ab\nb\n", vec!["2:b"]),
        ("a$", "a\nab\nba", vec!["1:a", "3:ba"]),
        // The end of the file does not start another line.
        ("^$", "a\n\nb\n", vec!["2:"]),
        ("x*", "a\nb\n", vec!["1:a", "2:b"]),
        ("^$", "", vec![]),
        // A carriage return is part of the line end,
        ("a$", "a\r\nb\r\na", vec!["1:a", "3:a"]),
        ("^$", "a\r\n\r\nb", vec!["2:"]),
        ("a.*$", "xab\r\n", vec!["1:xab"]),
        (r"a\s*$", "a \r\nb\r\n", vec!["1:a "]),
        (r"a\s$", "a\r\n", vec![]),
        // unless the pattern contains it.
        (r"a\r", "a\r\na\n", vec!["1:a"]),
        (r"a\r$", "a\r\na\n", vec!["1:a"]),
        // `\A` and `\z` match the ends of each line.
        (r"\Ab", "a\nb\n", vec!["2:b"]),
        (r"a\z", "ba\nb\nca", vec!["1:ba", "3:ca"]),
        // A byte order mark is not part of the line.
        ("^foo", "\u{feff}foo\n", vec!["1:foo"]),
        ("ü", "über\nfur\n", vec!["1:über"]),
        (r"\bb\w+", "ab\nbär bc\n", vec!["2:bär bc"]),
        ("FOO", "foo\n", vec![]),
        ("(?i)FOO", "foo\n", vec!["1:foo"]),
        (r"a\|b", "a\na|b\n", vec!["2:a|b"]),
    ] {
        assert_eq!(
            matches(&settings(pattern, LINES), contents.as_bytes()),
            found,
            "{pattern} {contents:?}"
        );
    }
}

#[test]
fn case_can_be_ignored() {
    let ignoring = Settings { ignore_case: true, ..settings("straße|É", LINES) };
    assert_eq!(matches(&ignoring, "STRAßE\né\ne\n".as_bytes()), ["1:STRAßE", "2:é"]);
}

#[test]
fn multiline_matches_span_lines() {
    for (pattern, contents, found) in [
        (r"b\nc", "a\nb\nc\nd\n", vec!["2:b\nc"]),
        (r"\{[^}]*\}", "x {\n 1\n} y\nz {}\n", vec!["1:x {\n 1\n} y", "4:z {}"]),
        // Matches on adjacent lines are two, those that share a line are one.
        (r"a\n", "a\na\nb\n", vec!["1:a", "2:a"]),
        (r"\([^)]*\)", "(\n) (\n)\n()", vec!["1:(\n) (\n)", "4:()"]),
        ("a.b", "a\nb\n", vec![]),
        ("(?s)a.b", "a\nb\n", vec!["1:a\nb"]),
        ("a", "a\na\n", vec!["1:a", "2:a"]),
        (r"b$\s*c", "a\r\nb\r\nc\r\n", vec!["2:b\r\nc"]),
        (r"\r\n\r\n", "a\r\n\r\nb\r\n", vec!["1:a\r\n"]),
        (r"\Aa\n", "a\na\n", vec!["1:a"]),
        (r"a\n\z", "a\na\n", vec!["2:a"]),
        (r"\s*", "a\n", vec!["1:a"]),
        (r"\n^", "a\nb", vec!["1:a"]),
    ] {
        let spanning = Settings { multiline: true, ..settings(pattern, LINES) };
        assert_eq!(matches(&spanning, contents.as_bytes()), found, "{pattern} {contents:?}");
    }
}

#[test]
fn a_match_does_not_span_files() {
    let spanning = Settings { multiline: true, ..settings(r"a\s*b", LINES) };
    let found = search(&spanning, &[("1", b"a\n"), ("2", b"b\n")]).unwrap();
    assert!(found.lines.is_empty());
    let found = search(&settings("ab", LINES), &[("1", b"a"), ("2", b"b")]).unwrap();
    assert!(found.lines.is_empty());
}

#[test]
fn context_is_listed_once() {
    for (contents, before, after, found) in [
        ("1\nx\n3\n4\n5\nx\n7\n", 1, 1, "1 [x] 3 | 5 [x] 7"),
        ("1\nx\n3\nx\n5\n", 1, 1, "1 [x] 3 | [x] 5"),
        ("1\nx\n3\n4\nx\n6\n", 1, 1, "1 [x] 3 | 4 [x] 6"),
        ("x\nx\n3\n", 2, 2, "[x] | [x] 3"),
        ("1\n2\nx\n", 5, 5, "1 2 [x]"),
        ("x\n2\n3\n", 0, 1, "[x] 2"),
        ("1\n2\nx\n4\n", 1, 0, "2 [x]"),
    ] {
        let settings = settings("x", Collect::Lines { before, after });
        let all = search(&settings, &[("f", contents.as_bytes())]).unwrap().lines;
        let shown: Vec<String> = all
            .iter()
            .map(|found| {
                let texts = found.before.iter().map(|line| line.text.clone());
                let texts = texts.chain([format!("[{}]", found.text)]);
                let texts = texts.chain(found.after.iter().map(|line| line.text.clone()));
                texts.collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(shown.join(" | "), found, "{contents:?}");
        let numbered =
            |line: &ContextLine| contents.lines().nth(line.line as usize - 1) == Some(&line.text);
        assert!(all.iter().all(|found| found.before.iter().chain(&found.after).all(numbered)));
    }
}

#[test]
fn multiline_matches_have_context() {
    let settings = Settings {
        multiline: true,
        ..settings(r"b\n|c\nd", Collect::Lines { before: 1, after: 1 })
    };
    let found = search(&settings, &[("f", b"a\nb\nc\nd\ne\n")]).unwrap().lines;
    assert_eq!(
        found.iter().map(|found| (found.line, found.text.as_str())).collect::<Vec<_>>(),
        [(2, "b"), (3, "c\nd")]
    );
    assert_eq!(found[0].before, [ContextLine { line: 1, text: "a".to_owned() }]);
    assert_eq!(found[1].after, [ContextLine { line: 5, text: "e".to_owned() }]);
}

#[test]
fn files_and_counts() {
    let files: [(&str, &[u8]); 4] = [("a", b"x\nx x\n"), ("b", b"y"), ("c", b"x"), ("d", b"x\n\n")];
    let names =
        |found: &Found| found.files.iter().map(|file| file.file.clone()).collect::<String>();
    let found = search(&settings("x", Collect::Files), &files).unwrap();
    assert_eq!((names(&found).as_str(), found.searched, found.truncated), ("acd", 4, false));
    let found = search(&settings("x", Collect::Counts), &files).unwrap();
    assert_eq!(found.files.iter().map(|file| file.matches).collect::<Vec<_>>(), [2, 1, 1]);
    let spanning = Settings { multiline: true, ..settings(r"x\n", Collect::Counts) };
    let found = search(&spanning, &files).unwrap();
    assert_eq!((names(&found).as_str(), found.files[0].matches), ("ad", 2));
}

/// Each of these would take hours if the cost of a match were proportional to its line or file.
#[test]
fn many_matches_take_linear_time() {
    for (contents, counted) in [
        (b"ab ".repeat(300_000), 1),
        (b"a\n".repeat(300_000), 300_000),
        (b"a\nb ".repeat(300_000), 1),
    ] {
        let spanning = Settings { multiline: true, ..settings(r"a\n?b?|b\s", Collect::Counts) };
        let found = search(&spanning, &[("f", &contents)]).unwrap();
        assert_eq!(found.files[0].matches, counted);
    }
}

#[test]
fn binary_files_are_skipped() {
    let late = [b"foo\n".repeat(100_000).as_slice(), b"\0"].concat();
    let utf16: Vec<u8> = b"\xff\xfe"
        .iter()
        .copied()
        .chain("foo\u{4e2d}".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    for (contents, binary) in [
        (b"foo\0".as_slice(), 1),
        (&late, 1),
        (b"\xff\xfefoo", 1),
        (b"\xfe\xfffoo", 1),
        (&utf16, 0),
        (b"bar\0", 0),
    ] {
        let found = search(&settings("foo", Collect::Files), &[("f", contents)]).unwrap();
        assert!(found.files.is_empty());
        assert_eq!(found.binary, binary);
    }
    assert_eq!(matches(&settings("caf", LINES), b"caf\xe9\n"), ["1:caf\u{fffd}"]);
}

#[test]
fn long_lines_show_the_match() {
    let mut line = "x".repeat(50_000);
    line.replace_range(30_000..30_003, "foo");
    for multiline in [false, true] {
        let settings = Settings { multiline, ..settings(r"foo\s?", LINES) };
        let found = matches(&settings, line.as_bytes());
        assert!(found[0].contains("xfoox") && found[0].len() < MAX_TEXT_BYTES + 10);
    }
}

#[test]
fn a_limit_sets_truncated() {
    let files: [(&str, &[u8]); 3] = [("a", b"1\nx\n2\nx\n3\n"), ("b", b"x\n"), ("c", b"x\n")];
    for (collect, limit, files_found, lines, truncated, searched) in [
        (Collect::Files, 2, 2, 0, true, 3),
        (Collect::Files, 3, 3, 0, false, 3),
        (Collect::Counts, 1, 1, 0, true, 2),
        (LINES, 1, 1, 1, true, 1),
        (LINES, 2, 1, 2, true, 2),
        (LINES, 4, 3, 4, false, 3),
    ] {
        let settings = Settings { limit: Limit::Entries(limit), ..settings("x", collect) };
        let found = search(&settings, &files).unwrap();
        let seen = (found.files.len(), found.lines.len(), found.truncated, found.searched);
        assert_eq!(seen, (files_found, lines, truncated, searched), "{collect:?} {limit}");
    }
    // The last match in the result has all of its context.
    let settings = Settings {
        limit: Limit::Entries(1),
        ..settings("x", Collect::Lines { before: 1, after: 1 })
    };
    let found = search(&settings, &files).unwrap();
    assert_eq!((found.lines[0].before.len(), found.lines[0].after.len()), (1, 1));
}

#[test]
fn without_a_limit_a_page_is_listed_and_all_is_counted() {
    let contents = b"x\n".repeat(MAX_ENTRIES + 1);
    let found = search(&settings("x", LINES), &[("f", &contents), ("g", b"x")]).unwrap();
    assert!(found.truncated && found.lines.len() < 1_000);
    assert_eq!((found.total_matches, found.total_files), (MAX_ENTRIES + 2, 2));
    assert_eq!(found.files[0].matches, found.lines.len());
    let later = Settings { offset: MAX_ENTRIES + 1, ..settings("x", LINES) };
    let later = search(&later, &[("f", &contents), ("g", b"x")]).unwrap();
    assert_eq!((later.lines.len(), later.lines[0].file.as_str()), (1, "g"));

    // With the caller's limit, context lines count, and the search ends when it is exceeded.
    let apart = b"x\n1\n2\n3\n".repeat(MAX_ENTRIES / 4 + 1);
    let with_context = settings("x", Collect::Lines { before: 0, after: 3 });
    let settings = Settings { limit: Limit::Entries(MAX_ENTRIES), ..with_context };
    let found = search(&settings, &[("f", &apart)]).unwrap();
    assert_eq!((found.lines.len(), found.truncated), (MAX_ENTRIES / 4, true));
}

#[test]
fn paths_are_requested_once_and_only_for_matches() {
    let asked = Cell::new(0);
    let path = || {
        asked.set(asked.get() + 1);
        "f".to_owned()
    };
    let mut search = Search::new(&settings("x$", LINES), Deadline::new(60_000)).unwrap();
    for contents in ["y\n", "xy\n", "x\0"] {
        search.look(path, contents.as_bytes());
    }
    assert_eq!(asked.get(), 0);
    search.look(path, b"x\nx\n");
    assert_eq!(asked.get(), 1);
}

#[test]
fn the_deadline_ends_the_search() {
    let mut search = Search::new(&settings("x", LINES), Deadline::new(0)).unwrap();
    assert!(!search.look(|| "f".to_owned(), b"x"));
    assert_eq!(search.finish().unwrap_err().code, "TimeoutError");
}
