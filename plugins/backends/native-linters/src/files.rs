//! Counts the files of a job, for linters that do not report the number.

use crate::job::Job;

/// Counts the job's files: named files, and files below its directories with one of the
/// `extensions`, except ignored and hidden ones.
pub fn count(job: &Job<'_>, extensions: &[&str]) -> u32 {
    let count = job
        .targets
        .iter()
        .map(|target| if job.is_directory(target) { beneath(job, target, extensions) } else { 1 })
        .sum::<usize>();
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(target_family = "wasm")]
fn beneath(_: &Job<'_>, directory: &cofferdam_sdk::WorkspacePath, extensions: &[&str]) -> usize {
    use cofferdam_sdk::scan::{self, Query, Scanner};

    let globs = extensions.iter().map(|extension| format!("*.{extension}")).collect();
    let query = Query { globs, ..scan::query(directory) };
    // The number is only informative, so an error does not fail the call.
    Scanner::open(&query).map_or(0, |scanner| scanner.count())
}

/// In native builds (tests), without ignore files.
#[cfg(not(target_family = "wasm"))]
fn beneath(job: &Job<'_>, directory: &cofferdam_sdk::WorkspacePath, extensions: &[&str]) -> usize {
    fn walk(directory: &std::path::Path, extensions: &[&str]) -> usize {
        let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
        let counted = |entry: std::fs::DirEntry| {
            let path = entry.path();
            let extension = path.extension().and_then(std::ffi::OsStr::to_str);
            match entry.file_type() {
                _ if entry.file_name().as_encoded_bytes().starts_with(b".") => 0,
                Ok(kind) if kind.is_dir() => walk(&path, extensions),
                Ok(kind) if kind.is_file() => {
                    usize::from(extension.is_some_and(|name| extensions.contains(&name)))
                }
                _ => 0,
            }
        };
        entries.filter_map(Result::ok).map(counted).sum()
    }
    walk(&job.context.local(directory), extensions)
}
