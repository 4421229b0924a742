//! Finds FIFOs, sockets and devices with the name of a source file: a program that opens one would
//! wait for input until its timeout.

use std::fs;
use std::path::Path;

use cofferdam_sdk::WorkspacePath;

use crate::job::Job;

/// Directories with third-party code or without code.
const SKIPPED_DIRECTORIES: [&str; 2] = ["node_modules", "__pycache__"];

/// The job's targets without such special files: a directory that contains one is replaced by the
/// rest of its contents.
pub fn left_out(job: &Job<'_>, sources: &[&str]) -> Vec<WorkspacePath> {
    let mut targets = Vec::new();
    for target in &job.targets {
        name(job, target, sources, &mut targets);
    }
    targets
}

/// Whether any entry below a directory is named like a source file but is a special file.
fn has_special(directory: &Path, sources: &[&str]) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.filter_map(Result::ok).any(|entry| {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| is_looked_at(name)) else { return false };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => has_special(&entry.path(), sources),
            Ok(kind) if kind.is_file() => false,
            _ => is_source(name, sources) && !is_file_or_missing(&entry.path()),
        }
    })
}

fn is_looked_at(name: &str) -> bool {
    !name.starts_with('.') && !SKIPPED_DIRECTORIES.contains(&name)
}

/// Adds a target to `named`: itself if everything below it is safe, which is the normal case, or
/// else its contents.
fn name(job: &Job<'_>, target: &WorkspacePath, sources: &[&str], named: &mut Vec<WorkspacePath>) {
    let directory = job.context.local(target);
    if !has_special(&directory, sources) {
        return named.push(target.clone());
    }
    let mut inner = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        let Ok(name_of) = entry.file_name().into_string() else { continue };
        if !is_looked_at(&name_of) {
            continue;
        }
        let Ok(path) = job.context.resolve(&format!("./{target}/{name_of}")) else { continue };
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory {
            name(job, &path, sources, &mut inner);
        } else if is_source(&name_of, sources) && is_file_or_missing(&entry.path()) {
            inner.push(path);
        }
    }
    inner.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    named.append(&mut inner);
}

fn is_source(name: &str, sources: &[&str]) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| sources.contains(&end))
}

/// Whether opening a path does not block: symbolic links are followed, and a file without
/// permission can't be opened anyway.
fn is_file_or_missing(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |metadata| metadata.is_file() || metadata.is_dir())
}

#[cfg(all(test, unix))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::testing::{Workspace, request};

    #[test]
    fn special_files_are_left_out() {
        let workspace = Workspace::new(&[
            ("a.py", ""),
            ("notes.txt", ""),
            ("pkg/b.py", ""),
            ("pkg/sub/c.py", ""),
            ("other/d.py", ""),
            (".hidden/e.py", ""),
            ("only/f.txt", ""),
        ]);
        let targets = |paths: &[&str]| -> Vec<String> {
            let request = request(paths);
            let job = Job::new(&request, &workspace.context).unwrap();
            let left = left_out(&job, &["py", "pyi"]);
            left.iter().map(|path| path.as_str().to_owned()).collect()
        };
        assert_eq!(targets(&["."]), [""]);
        // A socket is a special file that can be created without another program.
        let root = workspace.context.local(&workspace.context.resolve(".").unwrap());
        let socket = |path: &str| UnixListener::bind(root.join(path)).unwrap();
        let _harmless = socket("other/log.socket");
        assert_eq!(targets(&["."]), [""], "it is not called as a source file is");
        let _special = [socket("pkg/wait.py"), socket("only/wait.pyi"), socket(".hidden/x.py")];
        assert_eq!(targets(&["."]), ["a.py", "other", "pkg/b.py", "pkg/sub"]);
        assert_eq!(targets(&["pkg", "other"]), ["pkg/b.py", "pkg/sub", "other"]);
        assert_eq!(targets(&["a.py"]), ["a.py"]);
        assert!(targets(&["only"]).is_empty());
    }

    #[test]
    fn links_are_followed() {
        let workspace = Workspace::new(&[("a.py", "")]);
        let root = workspace.context.local(&workspace.context.resolve(".").unwrap());
        std::os::unix::fs::symlink("a.py", root.join("b.py")).unwrap();
        std::os::unix::fs::symlink("none", root.join("c.py")).unwrap();
        let request = request(&["."]);
        let job = Job::new(&request, &workspace.context).unwrap();
        assert_eq!(left_out(&job, &["py"])[0].as_str(), "");
        let _special = UnixListener::bind(root.join("socket")).unwrap();
        std::os::unix::fs::symlink("socket", root.join("d.py")).unwrap();
        let left = left_out(&job, &["py"]);
        let left: Vec<&str> = left.iter().map(WorkspacePath::as_str).collect();
        assert_eq!(left, ["a.py", "b.py", "c.py"]);
    }
}
