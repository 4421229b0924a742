//! How many files a linter was given, for those that don't say so.

use crate::job::Job;

/// Counts the job's files: those that it names, and those beneath its directories that have one
/// of the `extensions`, but for what ignore rules and a leading dot hide.
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
    // It is a number for people: one that is missing is no reason to keep the findings back.
    Scanner::open(&query).map_or(0, |scanner| scanner.count())
}

/// On the machine that develops this plugin, without ignore rules.
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
