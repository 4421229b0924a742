//! Runs the cases on a correct linter, and on linters with one flaw each.
#![expect(clippy::unwrap_used, reason = "tests")]
use super::cases::{BOM, Expected};
use super::report::well_formed;
use super::seeds::count_u32;
use super::*;
use crate::runtime::linting::{Edit, Fix, Severity};

/// One flaw of a linter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    Bytes,
    Utf16,
    Width,
    Unsorted,
    Absolute,
    RelativeToRoot,
    OffsetsWithoutBom,
    TakesBomAway,
    MixesLineEnds,
    FixesNothing,
    FixBreaks,
    StopsAtFifty,
    CleanWithoutUtf8,
    FailsWithoutUtf8,
    IgnoresMissing,
    IgnoresConfig,
    IgnoresSelect,
    ParsesNothing,
    FailsOnEmpty,
    OptionsInNames,
    NoDirectories,
    CrlfCountsTwice,
    LineTooFar,
}

const FAULT: &str = "print(undefined";

/// A linter with one rule, and a flaw.
fn lint(files: &Files, request: &Request, flaw: Flaw) -> Answer {
    let invalid = |why: &str| Err(Error::Invalid(why.to_owned()));
    if let Some(config) = &request.config
        && flaw != Flaw::IgnoresConfig
        && files.get(config).is_none_or(|text| text.starts_with(b"]"))
    {
        return invalid("the configuration can't be read");
    }
    let mut findings = Vec::new();
    let mut files_checked = 0;
    for asked in &request.paths {
        if asked.starts_with('-') && flaw == Flaw::OptionsInNames {
            return Err(Error::Failed(format!("unknown option {asked}")));
        }
        let below = |path: &str| {
            flaw != Flaw::NoDirectories && (asked == "." || path.starts_with(&format!("{asked}/")))
        };
        let mut paths: Vec<&String> =
            files.keys().filter(|path| *path == asked || below(path)).collect();
        paths.retain(|path| path.ends_with(".py"));
        if paths.is_empty() && flaw != Flaw::IgnoresMissing {
            return invalid("there is no such file");
        }
        for path in paths {
            files_checked += 1;
            findings.extend(lint_file(path, &files[path], request, flaw)?);
        }
    }
    if flaw != Flaw::Unsorted {
        findings.sort_by(|a: &Finding, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    }
    if flaw == Flaw::StopsAtFifty {
        findings.truncate(50);
    }
    Ok(Report { findings, files_checked, exit_code: None, raw: String::new() })
}

fn lint_file(
    path: &str,
    contents: &[u8],
    request: &Request,
    flaw: Flaw,
) -> Result<Vec<Finding>, Error> {
    let Ok(text) = str::from_utf8(contents) else {
        return match flaw {
            Flaw::CleanWithoutUtf8 => Ok(Vec::new()),
            Flaw::FailsWithoutUtf8 => Err(Error::Unavailable("crashed".to_owned())),
            _ => Err(Error::Invalid("no UTF-8".to_owned())),
        };
    };
    if text.is_empty() && flaw == Flaw::FailsOnEmpty {
        return Err(Error::Failed("nothing to parse".to_owned()));
    }
    let named = match flaw {
        Flaw::Absolute => format!("/workspace/{path}"),
        Flaw::RelativeToRoot => path.rsplit('/').next().unwrap().to_owned(),
        _ => path.to_owned(),
    };
    let finding = |line: usize, column: usize, code: &str| Finding {
        path: named.clone(),
        line: count_u32(line),
        column: count_u32(column),
        end_line: None,
        end_column: None,
        code: code.to_owned(),
        severity: Severity::Error,
        message: "wrong".to_owned(),
        url: None,
        fix: None,
    };
    if text.contains("(:") || text.contains('\0') {
        let code = if flaw == Flaw::ParsesNothing { "E1" } else { SYNTAX_ERROR };
        return Ok(vec![finding(1, 1, code)]);
    }
    let mut findings = Vec::new();
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let mut number = index + 1;
        if flaw == Flaw::CrlfCountsTwice && line.ends_with("\r\n") {
            number += index;
        }
        if flaw == Flaw::LineTooFar {
            number += 100;
        }
        if request.select.is_empty() || flaw == Flaw::IgnoresSelect {
            findings.push(finding(number, 1, "E0"));
        }
        if let Some(at) = line.find(FAULT) {
            let before = line[..at].trim_start_matches('\u{feff}');
            let edit = edit(path, &line[at..], offset + at, contents.starts_with(BOM), flaw);
            let fix = Fix { description: "pass".to_owned(), safe: true, edits: vec![edit] };
            let column = 1 + width(before, flaw);
            findings.push(Finding { fix: Some(fix), ..finding(number, column, "F821") });
        }
        offset += line.len();
    }
    Ok(findings)
}

/// The width of the text before a fault.
fn width(before: &str, flaw: Flaw) -> usize {
    match flaw {
        Flaw::Bytes => before.len(),
        Flaw::Utf16 => before.encode_utf16().count(),
        Flaw::Width => before.chars().map(|c| 1 + usize::from(c > '\u{1000}')).sum(),
        _ => before.chars().count(),
    }
}

/// The edit that replaces a fault, which begins at the byte `start`.
fn edit(path: &str, fault: &str, mut start: usize, has_bom: bool, flaw: Flaw) -> Edit {
    let fault = fault.trim_end();
    let mut end = start + fault.len();
    match flaw {
        Flaw::OffsetsWithoutBom if has_bom => (start, end) = (start - 3, end - 3),
        Flaw::TakesBomAway if has_bom => start = 0,
        _ => {}
    }
    let text = match flaw {
        Flaw::MixesLineEnds => "pass\n",
        Flaw::FixesNothing => fault,
        Flaw::FixBreaks => "(:",
        _ => "pass",
    };
    Edit { path: path.to_owned(), start: start as u64, end: end as u64, text: text.to_owned() }
}

/// The names of the cases and trials that a linter with a flaw fails, and the reasons.
fn failures(flaw: Flaw) -> Vec<(String, String)> {
    let known: Vec<Known> = probes("python")
        .iter()
        .filter_map(|probe| probe.learn(&lint(&probe.files, &probe.request, flaw)))
        .collect();
    let mut failures = Vec::new();
    if known.is_empty() {
        failures.push(("probe".to_owned(), "finds no seed".to_owned()));
    }
    for case in cases("python", &known) {
        let answer = lint(&case.files, &case.request, flaw);
        if let Err(why) = case.check(&answer) {
            failures.push((case.name.clone(), why));
            continue;
        }
        for trial in case.trials(&answer).unwrap() {
            let answer = lint(&trial.files, &trial.request, flaw);
            if let Err(why) = trial.check(&answer) {
                failures.push((trial.name, why));
            }
        }
    }
    failures
}

#[test]
fn a_correct_linter_passes() {
    assert_eq!(failures(Flaw::None), []);
}

#[test]
fn every_flaw_is_detected() {
    for (flaw, case) in [
        (Flaw::Bytes, "columns behind characters of several bytes"),
        (Flaw::Utf16, "columns behind characters of several bytes"),
        (Flaw::Width, "columns behind characters of several bytes"),
        (Flaw::Unsorted, "several files in the order of their paths"),
        (Flaw::Absolute, "probe"),
        (Flaw::RelativeToRoot, "a project in a directory of the workspace"),
        (Flaw::OffsetsWithoutBom, "the fix for F821 with a byte order mark, fixed"),
        (Flaw::TakesBomAway, "the fix for F821 with both, fixed"),
        (Flaw::MixesLineEnds, "the fix for F821 with CRLF, fixed"),
        (Flaw::FixesNothing, "a fault, fixed"),
        (Flaw::FixBreaks, "a fault, fixed"),
        (Flaw::StopsAtFifty, "a thousand faults"),
        (Flaw::CleanWithoutUtf8, "no UTF-8"),
        (Flaw::FailsWithoutUtf8, "no UTF-8"),
        (Flaw::IgnoresMissing, "a path that does not exist"),
        (Flaw::IgnoresMissing, "a path outside"),
        (Flaw::IgnoresConfig, "a configuration that does not exist"),
        (Flaw::IgnoresConfig, "a broken configuration"),
        (Flaw::IgnoresSelect, "only one code"),
        (Flaw::ParsesNothing, "a syntax error"),
        (Flaw::FailsOnEmpty, "an empty file"),
        (Flaw::OptionsInNames, "a name like an option"),
        (Flaw::NoDirectories, "a directory"),
        (Flaw::CrlfCountsTwice, "CRLF"),
        (Flaw::LineTooFar, "probe"),
    ] {
        let failures = failures(flaw);
        assert!(failures.iter().any(|(name, _)| name == case), "{flaw:?}: {failures:?}");
    }
}

#[test]
fn every_language_has_cases_and_seeds_are_in_their_lines() {
    for name in languages() {
        for probe in probes(name) {
            let Seed { path, fault, .. } = probe.seed;
            let text = str::from_utf8(&probe.files[*path]).unwrap();
            let line = text.lines().nth(probe.seed.line() as usize - 1).unwrap();
            assert_eq!(line, fault.replace("{n}", "0000"), "{name}");
            let known = Known {
                seed: probe.seed,
                code: "x".to_owned(),
                column: 1,
                end_column: None,
                fixed: Some(Vec::new()),
            };
            let cases = cases(name, &[known]);
            assert!(cases.len() >= 20, "{name}: {}", cases.len());
            for case in cases {
                assert!(!case.request.paths.is_empty());
                let is_there = |path: &String| {
                    path == "." || case.files.keys().any(|file| file.starts_with(path.as_str()))
                };
                let all_there = case.request.paths.iter().all(is_there);
                assert!(all_there || matches!(case.expected, Expected::Invalid), "{}", case.name);
            }
        }
    }
    assert!(probes("cobol").is_empty());
    assert!(cases("python", &[]).is_empty());
}

#[test]
fn impossible_reports_are_rejected() {
    let files: Files = [("a.py".to_owned(), b"x = 1\r\n".to_vec())].into();
    let found = Finding {
        path: "a.py".to_owned(),
        line: 1,
        column: 1,
        end_line: Some(1),
        end_column: Some(2),
        code: "E1".to_owned(),
        severity: Severity::Error,
        message: "wrong".to_owned(),
        url: None,
        fix: None,
    };
    let fix = |start, end| {
        let edit = Edit { path: "a.py".to_owned(), start, end, text: String::new() };
        Some(Fix { description: String::new(), safe: false, edits: vec![edit] })
    };
    let check = |finding: Finding| {
        let findings = vec![finding];
        let report = Report { findings, files_checked: 1, exit_code: None, raw: String::new() };
        well_formed(&report, &files)
    };
    for right in [
        found.clone(),
        Finding { line: 0, column: 0, end_line: None, end_column: None, ..found.clone() },
        Finding { end_line: Some(2), end_column: Some(1), ..found.clone() },
        Finding { fix: fix(0, 7), ..found.clone() },
    ] {
        check(right).unwrap();
    }
    for (wrong, why) in [
        (Finding { path: "./a.py".to_owned(), ..found.clone() }, "no file of this path"),
        (Finding { line: 3, end_line: None, ..found.clone() }, "no such place"),
        (Finding { column: 9, ..found.clone() }, "no such place"),
        (Finding { line: 0, column: 1, ..found.clone() }, "a column without a line"),
        (Finding { end_column: Some(9), ..found.clone() }, "where the finding ends"),
        (Finding { column: 3, ..found.clone() }, "ends before it begins"),
        (Finding { code: String::new(), ..found.clone() }, "the code is empty"),
        (Finding { message: " ".to_owned(), ..found.clone() }, "the message is empty"),
        (Finding { fix: fix(0, 8), ..found.clone() }, "an edit of bytes"),
        (Finding { fix: fix(2, 1), ..found.clone() }, "an edit of bytes"),
    ] {
        let error = check(wrong).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    let edit = |start, end| Edit { path: "a.py".to_owned(), start, end, text: String::new() };
    assert_eq!(
        apply(&files, &[edit(0, 3), edit(2, 4)]).unwrap_err(),
        "edits that overlap at byte 2"
    );
}
