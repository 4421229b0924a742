//! `apply_fix`: applies one fix, as edits of the target's bytes. All other bytes stay unchanged,
//! including a byte order mark and line ends.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::{Edit, Finding, Fix};
use cofferdam_sdk::{Context, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::answer::Failure;
use crate::linting::{Checked, Linters, failure, lint, safe_fix};
use crate::target;

/// The arguments of `apply_fix`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The name of the rule.
    pub issue_code: String,
    /// The line of the issue.
    pub line_number: u32,
}

/// The result of `apply_fix`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// Whether the fix was applied.
    pub success: bool,
    /// What was done, or why nothing was changed.
    pub message: String,
}

/// Fixes the first issue with this code in this line.
///
/// # Errors
/// Those of [`target::path`] and [`lint`]; a fix that does not fit the file.
pub fn run(args: &Args, context: &Context, linters: &impl Linters) -> Result<Output, Failure> {
    let target = target::path(context)?;
    let Some((linter, fix)) = find(args, &target, context, linters)? else {
        let message = "No fixable issue at that location".to_owned();
        return Ok(Output { success: false, message });
    };
    let before = context.read(&target)?;
    let after = apply(&before, &fix.edits)
        .map_err(|why| Failure(format!("{linter} has a fix that does not fit {target}: {why}")))?;
    context.write(&target, &after)?;
    let Args { issue_code, line_number } = args;
    let message = format!("Applied fix for {issue_code} at line {line_number}");
    Ok(Output { success: true, message })
}

/// Finds the fix, and the linter that offers it.
fn find(
    args: &Args,
    target: &WorkspacePath,
    context: &Context,
    linters: &impl Linters,
) -> Result<Option<(String, Fix)>, Failure> {
    let is_meant = |found: &&Finding| {
        found.path == target.as_str()
            && found.code == args.issue_code
            && found.line == args.line_number
    };
    let answers = lint(target, &[&args.issue_code], context, linters)?;
    let one_answered = answers.iter().any(|answer| answer.report.is_ok());
    let mut problem = None;
    for Checked { linter, report } in answers {
        match report {
            Ok(report) => {
                let mut found = report.findings.iter().filter(is_meant);
                if let Some(fix) = found.find_map(|found| safe_fix(found, target)) {
                    return Ok(Some((linter, fix.clone())));
                }
            }
            // This linter does not know the code, but another one does.
            Err(Error::Invalid(_)) if one_answered => {}
            Err(error) => problem = Some(failure(&linter, &error)),
        }
    }
    problem.map_or(Ok(None), Err)
}

/// Applies edits to the contents of a file.
///
/// # Errors
/// Edits that are outside of the file, overlap, change nothing, or make invalid UTF-8 of valid
/// text.
fn apply(before: &[u8], edits: &[Edit]) -> Result<Vec<u8>, String> {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| (edit.start, edit.end));
    let mut after = Vec::with_capacity(before.len());
    let mut done = 0;
    for Edit { start, end, text, .. } in edits {
        let outside = || format!("bytes {start} to {end} of {}", before.len());
        let start = usize::try_from(*start).map_err(|_| outside())?;
        let end = usize::try_from(*end).map_err(|_| outside())?;
        if start > end || end > before.len() {
            return Err(outside());
        }
        if start < done {
            return Err(format!("edits overlap at byte {start}"));
        }
        after.extend_from_slice(&before[done..start]);
        after.extend_from_slice(text.as_bytes());
        done = end;
    }
    after.extend_from_slice(&before[done..]);
    if after == before {
        return Err("it changes nothing".to_owned());
    }
    if str::from_utf8(before).is_ok() && str::from_utf8(&after).is_err() {
        return Err("it cuts a character in two".to_owned());
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::testing::{Fake, edit, finding, fits, fixed, report};

    fn args(issue_code: &str, line_number: u32) -> Args {
        Args { issue_code: issue_code.to_owned(), line_number }
    }

    fn spaces(line: u32, at: u64) -> Finding {
        fixed(finding("E225", line, 2), true, vec![edit("target.py", at, at + 1, " = ")])
    }

    #[test]
    fn a_fix_changes_only_the_bytes_of_its_edits() {
        let text = "\u{feff}# ä😀\r\na=1\r\nb=2";
        let mut fake = Fake::new(text);
        let at = text.find("b=").unwrap() as u64 + 1;
        fake.answers = vec![
            ("mypy", Err(Error::Invalid("unknown code".to_owned()))),
            ("ruff", Ok(report(vec![spaces(2, 13), spaces(3, at)]))),
        ];
        let answer = fits("apply_fix", run(&args("E225", 3), &fake.context, &fake));
        assert_eq!(answer, json!({"success": true, "message": "Applied fix for E225 at line 3"}));
        assert_eq!(fake.read("target.py"), "\u{feff}# ä😀\r\na=1\r\nb = 2".as_bytes());
        assert!(fake.asked().iter().all(|(_, request)| request.select == ["E225"]));
    }

    #[test]
    fn issues_without_a_safe_fix_change_nothing() {
        let mut fake = Fake::new("a=1\n");
        let unsafe_fix = fixed(spaces(1, 1), false, vec![edit("target.py", 1, 2, " = ")]);
        let elsewhere = fixed(spaces(1, 1), true, vec![edit("other.py", 1, 2, " = ")]);
        for (found, wanted) in [
            (spaces(1, 1), args("E225", 2)),
            (spaces(1, 1), args("E226", 1)),
            (spaces(1, 1), args("E22", 1)),
            (finding("E225", 1, 2), args("E225", 1)),
            (fixed(spaces(1, 1), true, vec![]), args("E225", 1)),
            (unsafe_fix, args("E225", 1)),
            (elsewhere, args("E225", 1)),
            (Finding { path: "other.py".to_owned(), ..spaces(1, 1) }, args("E225", 1)),
        ] {
            fake.answers = vec![("ruff", Ok(report(vec![found.clone()])))];
            assert_eq!(
                fits("apply_fix", run(&wanted, &fake.context, &fake)),
                json!({"success": false, "message": "No fixable issue at that location"}),
                "{found:?}"
            );
            assert_eq!(fake.read("target.py"), b"a=1\n");
        }
    }

    #[test]
    fn an_unavailable_linter_is_an_error_if_no_other_has_the_fix() {
        let mut fake = Fake::new("a=1\n");
        let broken = || ("mypy", Err(Error::Failed("it crashed".to_owned())));
        fake.answers = vec![broken(), ("ruff", Ok(report(vec![])))];
        let answer = fits("apply_fix", run(&args("E225", 1), &fake.context, &fake));
        assert_eq!(answer, json!({"error": "mypy: it crashed"}));
        fake.answers = vec![broken(), ("ruff", Ok(report(vec![spaces(1, 1)])))];
        let answer = fits("apply_fix", run(&args("E225", 1), &fake.context, &fake));
        assert_eq!(answer["success"], true);
        fake.answers = vec![("ruff", Err(Error::Invalid("ruff.toml: bad".to_owned())))];
        let answer = fits("apply_fix", run(&args("E225", 1), &fake.context, &fake));
        assert_eq!(answer, json!({"error": "ruff: ruff.toml: bad"}));
    }

    #[test]
    fn edits_are_checked() {
        let edit = |start, end, text| edit("target.py", start, end, text);
        for (edits, wanted) in [
            (vec![edit(1, 2, " = ")], Ok("a = 1ä")),
            (vec![edit(2, 3, "2"), edit(1, 2, " = ")], Ok("a = 2ä")),
            (vec![edit(0, 0, "x"), edit(0, 0, "y")], Ok("xya=1ä")),
            (vec![edit(0, 5, "")], Ok("")),
            (vec![edit(5, 5, "\n")], Ok("a=1ä\n")),
            (vec![edit(0, 2, "b"), edit(1, 3, "c")], Err("edits overlap at byte 1")),
            (vec![edit(2, 1, "")], Err("bytes 2 to 1 of 5")),
            (vec![edit(0, 6, "")], Err("bytes 0 to 6 of 5")),
            (vec![edit(u64::MAX, u64::MAX, "")], Err("bytes 18446744073709551615 to")),
            (vec![edit(0, 1, "a")], Err("it changes nothing")),
            (vec![edit(4, 5, "")], Err("it cuts a character in two")),
        ] {
            let after = apply("a=1ä".as_bytes(), &edits);
            match (&after, wanted) {
                (Ok(after), Ok(wanted)) => assert_eq!(str::from_utf8(after).unwrap(), wanted),
                (Err(error), Err(wanted)) => assert!(error.starts_with(wanted), "{error}"),
                _ => assert_eq!(after.is_ok(), wanted.is_ok(), "{edits:?}: {after:?}"),
            }
        }
        assert_eq!(apply(b"\xe4\n=", &[edit(2, 3, "==")]), Ok(b"\xe4\n==".to_vec()));
    }
}
