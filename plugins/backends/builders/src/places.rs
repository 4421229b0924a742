//! Converts files and columns to those of reports: paths relative to the workspace, columns in
//! characters.

use std::collections::HashMap;

use cofferdam_sdk::backend::building::{Diagnostic, Severity};
use cofferdam_sdk::process::Output;
use cofferdam_sdk::text::{Text, Unit};
use cofferdam_sdk::{Context, WorkspacePath};

use crate::framework::Project;
use crate::text::{Columns, Found};

/// The width of a tab in maven's columns.
const TAB_WIDTH: u32 = 8;

/// Finds the files that a program's messages name.
pub struct Places<'a> {
    context: &'a Context,
    output: &'a Output,
    /// Directories that relative paths may start from: the project's, those that make entered, and
    /// those above the project, since cargo's paths are relative to its workspace.
    directories: Vec<String>,
    /// The files that were read, by path.
    files: HashMap<String, Option<Text>>,
}

impl<'a> Places<'a> {
    /// Prepares for the output of a program in the project's directory that entered these
    /// directories.
    pub fn new(project: &Project<'a>, output: &'a Output, entered: Vec<String>) -> Self {
        let root = project.root.as_str().to_owned();
        let inside = entered
            .iter()
            .map(|directory| output.relative(directory))
            .filter(|directory| !directory.starts_with('/'))
            .map(str::to_owned);
        let mut above: Vec<String> =
            project.root.parents().map(|parent| parent.as_str().to_owned()).collect();
        above.reverse();
        let directories = [root].into_iter().chain(inside).chain(above).chain([String::new()]);
        Self {
            context: project.context,
            output,
            directories: directories.collect(),
            files: HashMap::new(),
        }
    }

    /// Converts a message to a diagnostic. A message without severity is an error if the build
    /// `failed`.
    pub fn diagnostic(&mut self, found: Found, failed: bool) -> Diagnostic {
        let unsaid = if failed { Severity::Error } else { Severity::Warning };
        let path = self.path(&found.path);
        Diagnostic {
            column: self.column(&path, &found),
            path,
            line: found.line,
            message: found.message,
            severity: found.severity.unwrap_or(unsaid),
        }
    }

    /// The path relative to the workspace; a path outside of it is returned unchanged.
    fn path(&self, named: &str) -> String {
        let relative = self.output.relative(named);
        if named.is_empty() || relative.starts_with('/') {
            return named.to_owned();
        }
        if relative != named {
            return self.inside("", relative).map_or(named.to_owned(), |path| path.to_string());
        }
        let mut candidates =
            self.directories.iter().filter_map(|directory| self.inside(directory, named));
        let there = candidates.find(|path| self.context.local(path).is_file());
        let usual = || self.inside(self.directories.first()?, named);
        there.or_else(usual).map_or(named.to_owned(), |path| path.to_string())
    }

    fn inside(&self, directory: &str, path: &str) -> Option<WorkspacePath> {
        self.context.resolve(&format!("./{directory}/{path}")).ok()
    }

    fn column(&mut self, path: &str, found: &Found) -> u32 {
        let unit = match found.columns {
            Columns::Characters => return found.column,
            Columns::Bytes => Unit::Byte,
            Columns::Utf16 | Columns::Utf16Tabs => Unit::Utf16,
        };
        let Some(mut before) = found.column.checked_sub(1) else { return 0 };
        let Some(text) = self.file(path) else { return found.column };
        if found.columns == Columns::Utf16Tabs {
            before = without_tabs(text.line(found.line).unwrap_or_default(), before);
        }
        text.column(found.line, before, unit)
    }

    fn file(&mut self, path: &str) -> Option<&Text> {
        let context = self.context;
        let read = || {
            let path = context.resolve(path).ok()?;
            context.read(&path).ok().map(Text::new)
        };
        self.files.entry(path.to_owned()).or_insert_with(read).as_ref()
    }
}

/// The number of UTF-16 code units before a column in which tabs advance to the next multiple of
/// [`TAB_WIDTH`].
fn without_tabs(line: &[u8], before: u32) -> u32 {
    let (mut columns, mut units) = (0, 0);
    for character in String::from_utf8_lossy(line).chars() {
        if columns >= before {
            return units;
        }
        columns = match character {
            '\t' => (columns / TAB_WIDTH + 1) * TAB_WIDTH,
            _ => columns + character.len_utf16() as u32,
        };
        units += character.len_utf16() as u32;
    }
    units + before.saturating_sub(columns)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use cofferdam_sdk::process::{Captured, End};

    use super::*;

    fn check(root: &str, entered: &[&str], wanted: &[(Found, (&str, u32))]) {
        let directory = tempfile::tempdir().unwrap();
        for (name, contents) in [
            ("a.c", "\té😀x = 1;\n"),
            ("sub/b.c", ""),
            ("crates/one/src/lib.rs", ""),
            ("crates/one/Cargo.toml", ""),
        ] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let context = Context::for_directory(directory.path());
        let captured = || Captured { bytes: Vec::new(), total: 0 };
        let output = Output {
            end: End::Exited(0),
            stdout: captured(),
            stderr: captured(),
            duration_ms: 0,
            workspace: "/seen/as".to_owned(),
        };
        let project = Project::at(root, &context).unwrap();
        let entered = entered.iter().map(|&directory| directory.to_owned()).collect();
        let mut places = Places::new(&project, &output, entered);
        for (found, (path, column)) in wanted {
            let diagnostic = places.diagnostic(found.clone(), true);
            assert_eq!(
                (diagnostic.path.as_str(), diagnostic.column),
                (*path, *column),
                "{found:?}"
            );
        }
    }

    fn at(path: &str, column: u32, columns: Columns) -> Found {
        let message = String::new();
        Found { path: path.to_owned(), line: 1, column, columns, message, severity: None }
    }

    #[test]
    fn paths_are_relative_to_the_workspace() {
        let named = |path| at(path, 0, Columns::Bytes);
        check(
            "",
            &["/seen/as/sub", "/elsewhere"],
            &[
                (named("a.c"), ("a.c", 0)),
                (named("./a.c"), ("a.c", 0)),
                (named("/seen/as/a.c"), ("a.c", 0)),
                (named("/seen/as/gone.c"), ("gone.c", 0)),
                (named("b.c"), ("sub/b.c", 0)),
                (named("none.c"), ("none.c", 0)),
                (named("/usr/include/stdio.h"), ("/usr/include/stdio.h", 0)),
                (named("../outside.c"), ("../outside.c", 0)),
                (named("/seen/as/../x.c"), ("/seen/as/../x.c", 0)),
                (named(""), ("", 0)),
            ],
        );
        check(
            "crates/one",
            &[],
            &[
                (named("src/lib.rs"), ("crates/one/src/lib.rs", 0)),
                (named("crates/one/src/lib.rs"), ("crates/one/src/lib.rs", 0)),
                (named("../../a.c"), ("a.c", 0)),
                (named("src/none.rs"), ("crates/one/src/none.rs", 0)),
            ],
        );
    }

    #[test]
    fn columns_are_characters() {
        check(
            "",
            &[],
            &[
                (at("a.c", 4, Columns::Characters), ("a.c", 4)),
                (at("a.c", 8, Columns::Bytes), ("a.c", 4)),
                (at("a.c", 5, Columns::Utf16), ("a.c", 4)),
                (at("a.c", 12, Columns::Utf16Tabs), ("a.c", 4)),
                (at("a.c", 1, Columns::Utf16Tabs), ("a.c", 1)),
                (at("a.c", 9, Columns::Utf16Tabs), ("a.c", 2)),
                (at("none.c", 7, Columns::Bytes), ("none.c", 7)),
            ],
        );
    }
}
