//! Finds the projects of a workspace: directories with the file of a language's tools.

use std::collections::BTreeSet;

use cofferdam_sdk::Context;
use cofferdam_sdk::scan::{Query, query};

/// The files that make a directory a project.
const MARKERS: [&str; 9] = [
    "go.mod",
    "package.json",
    "pytest.ini",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "Cargo.toml",
    "requirements.txt",
];

/// Directories with code of others.
const VENDORED: [&str; 7] =
    ["node_modules", "site-packages", "target", "vendor", "venv", "testdata", "dist"];

/// The query for the markers below the workspace, or below the call's scope.
pub fn marker_query(context: &Context) -> Option<Query> {
    let root = context.resolve(".").ok()?;
    Some(Query {
        globs: MARKERS.iter().map(|name| format!("**/{name}")).collect(),
        exclude_globs: VENDORED.iter().map(|name| format!("**/{name}/**")).collect(),
        ..query(&root)
    })
}

/// The directories with a marker, outermost first; the workspace itself is an empty string. In a
/// project, only Go modules are projects of their own; other tools include what is below.
pub fn modules(markers: &[String]) -> Vec<String> {
    let mut markers: Vec<(&str, &str)> =
        markers.iter().map(|path| path.rsplit_once('/').unwrap_or(("", path))).collect();
    markers.sort_by_key(|(directory, name)| (depth(directory), *directory, *name));
    let mut found: Vec<(&str, &str)> = Vec::new();
    for (directory, name) in markers {
        let kind = kind(name);
        let inside = |(outer, other): &(&str, &str)| *other == kind && is_below(directory, outer);
        if kind == "go" || !found.iter().any(inside) {
            found.push((directory, kind));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|(directory, _)| seen.insert(*directory));
    found.into_iter().map(|(directory, _)| directory.to_owned()).collect()
}

/// The part of `path` below a directory, if it is there.
pub fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    path.strip_prefix(directory)?.strip_prefix('/').filter(|rest| !rest.is_empty())
}

fn is_below(path: &str, directory: &str) -> bool {
    directory.is_empty() || path == directory || below(path, directory).is_some()
}

fn depth(directory: &str) -> usize {
    if directory.is_empty() { 0 } else { 1 + directory.matches('/').count() }
}

fn kind(marker: &str) -> &'static str {
    match marker {
        "go.mod" => "go",
        "package.json" => "npm",
        "Cargo.toml" => "cargo",
        _ => "python",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_outermost_directories_with_markers() {
        for (markers, wanted) in [
            (&["go.mod", "tools/go.mod"][..], &["", "tools"][..]),
            (&["Cargo.toml", "a/Cargo.toml"], &[""]),
            (&["api/pyproject.toml", "api/tests/setup.py", "web/package.json"], &["api", "web"]),
            (&["package.json", "svc/go.mod", "web/package.json"], &["", "svc"]),
            (&["api/x/setup.cfg", "api/pyproject.toml", "apis/tox.ini"], &["api", "apis"]),
            (&[], &[]),
        ] {
            let markers: Vec<String> = markers.iter().map(|&path| path.to_owned()).collect();
            assert_eq!(modules(&markers), wanted, "{markers:?}");
        }
    }
}
