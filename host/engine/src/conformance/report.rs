//! Requirements for all reports, and applying fixes.

use std::collections::BTreeMap;

use super::{Files, Finding, Report};
use crate::runtime::linting::Edit;

/// Checks that findings are sorted, and that their paths and places exist.
pub(super) fn well_formed(report: &Report, files: &Files) -> Result<(), String> {
    let key = |found: &Finding| (found.path.clone(), found.line, found.column);
    if let Some([before, after]) =
        report.findings.array_windows().find(|[before, after]| key(before) > key(after))
    {
        return Err(format!("{} comes after {}", place(after), place(before)));
    }
    let lines: BTreeMap<&str, Vec<usize>> =
        files.iter().map(|(path, contents)| (path.as_str(), line_lengths(contents))).collect();
    for found in &report.findings {
        let wrong = |what: &str| Err(format!("{}: {what}", place(found)));
        let Some(lines) = lines.get(found.path.as_str()) else {
            return wrong("there is no file of this path, relative to the workspace");
        };
        if found.code.trim().is_empty() || found.code.contains(char::is_control) {
            return wrong("the code is empty or has control characters");
        }
        if found.message.trim().is_empty() {
            return wrong("the message is empty");
        }
        if found.line == 0 && found.column != 0 {
            return wrong("a column without a line");
        }
        if !is_within(found.line, found.column, lines) {
            return wrong("the file has no such place");
        }
        let (line, column) = (found.end_line.unwrap_or(found.line), found.end_column);
        // If the last line has no line ending, the line after it can still be a place.
        let is_behind = column.unwrap_or(1) == 1
            && is_within(line.saturating_sub(1), 0, lines)
            && line > found.line;
        if !is_behind && !is_within(line, column.unwrap_or(0), lines) {
            return wrong("the file has no such place where the finding ends");
        }
        if (line, column.unwrap_or(u32::MAX)) < (found.line, found.column) {
            return wrong("the finding ends before it begins");
        }
        if let Some(fix) = &found.fix {
            check_edits(files, &in_order(&fix.edits))
                .map_err(|what| format!("{}: {what}", place(found)))?;
        }
    }
    Ok(())
}

/// The number of characters of each line, without its LF.
fn line_lengths(contents: &[u8]) -> Vec<usize> {
    let length = |line| str::from_utf8(line).map_or(line.len(), |line| line.chars().count());
    contents.split(|&byte| byte == b'\n').map(length).collect()
}

/// Whether a place exists in a file with lines of these lengths. The end of a line counts as one.
fn is_within(line: u32, column: u32, lines: &[usize]) -> bool {
    let Some(index) = line.checked_sub(1) else { return true };
    lines.get(index as usize).is_some_and(|length| column as usize <= length + 1)
}

/// Checks that edits are in existing files and do not overlap.
fn check_edits(files: &Files, edits: &[&Edit]) -> Result<(), String> {
    for Edit { path, start, end, .. } in edits {
        let contents =
            files.get(path).ok_or_else(|| format!("an edit of {path}, which does not exist"))?;
        let length = contents.len() as u64;
        if start > end || *end > length {
            return Err(format!("an edit of bytes {start} to {end} of {length}"));
        }
        let cuts = |at: &u64| {
            let byte = usize::try_from(*at).ok().and_then(|at| contents.get(at));
            byte.is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000)
        };
        if cuts(start) || cuts(end) {
            return Err(format!("an edit of bytes {start} to {end}, which cuts a character"));
        }
    }
    for [before, after] in edits.array_windows() {
        if before.path == after.path && after.start < before.end {
            return Err(format!("edits that overlap at byte {}", after.start));
        }
    }
    if edits.is_empty() { Err("a fix without edits".to_owned()) } else { Ok(()) }
}

fn in_order(edits: &[Edit]) -> Vec<&Edit> {
    let mut sorted: Vec<&Edit> = edits.iter().collect();
    sorted.sort_by_key(|edit| (&edit.path, edit.start, edit.end));
    sorted
}

/// Applies edits to the files. Returns the files, or which edit can't be applied.
pub(super) fn apply(files: &Files, edits: &[Edit]) -> Result<Files, String> {
    let edits = in_order(edits);
    check_edits(files, &edits)?;
    let mut after = files.clone();
    // Backwards, so that the offsets of the remaining edits stay valid.
    for edit in edits.into_iter().rev() {
        let range = usize::try_from(edit.start).ok().zip(usize::try_from(edit.end).ok());
        if let (Some(contents), Some((start, end))) = (after.get_mut(&edit.path), range) {
            contents.splice(start..end, edit.text.bytes());
        }
    }
    Ok(after)
}

/// Describes the place and code of a finding.
pub(super) fn place(found: &Finding) -> String {
    let Finding { path, line, column, code, .. } = found;
    format!("{code} at {path}:{line}:{column}")
}
