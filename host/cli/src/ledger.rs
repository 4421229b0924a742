//! Reads the files of beads and messages for the commands that show them. The formats are those of
//! the crate `cofferdam-beads-format`.

use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;

use cofferdam_beads_format::Problem;
use serde::Serialize;

use super::CliError;
use super::output::Output;
use cofferdam_workspace::Workspace;

/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A file that can't be read or is malformed.
#[derive(Debug, Serialize)]
pub struct Unreadable {
    /// Relative to the workspace.
    pub path: String,
    /// The line of the problem, if known, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem.
    pub message: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The files in a directory whose names are ids.
pub struct Listing<I> {
    /// In the order of the names.
    pub ids: Vec<I>,
    /// Files whose names look like ids but are not valid.
    pub broken: Vec<Unreadable>,
}

/// Lists a directory of the workspace; returns an empty list if the directory does not exist.
///
/// # Errors
/// An I/O error if the directory can't be listed.
pub fn list<I, E: fmt::Display>(
    workspace: &Workspace,
    directory: &str,
    of_file: fn(&str) -> Option<Result<I, E>>,
) -> Result<Listing<I>, CliError> {
    let tree = workspace.plain();
    let entries = tree.resolve("", directory, true).and_then(|place| tree.list(&place));
    let mut entries = match entries {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries.map_err(|error| CliError::host(error).at(directory))?,
    };
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    let mut listing = Listing { ids: Vec::new(), broken: Vec::new() };
    for entry in entries {
        let name = entry.name.to_string_lossy();
        match of_file(&name) {
            None => {}
            Some(Ok(id)) => listing.ids.push(id),
            Some(Err(error)) => listing.broken.push(Unreadable {
                path: format!("{directory}/{name}"),
                line: None,
                message: error.to_string(),
            }),
        }
    }
    Ok(listing)
}

/// Reads and parses one file.
///
/// # Errors
/// `Unreadable` if the file can't be read, is longer than 4 MiB, or can't be parsed.
pub fn read<T>(
    workspace: &Workspace,
    path: &str,
    parse: fn(Vec<u8>) -> Result<T, Problem>,
) -> Result<T, Unreadable> {
    let broken = |line, message| Unreadable { path: path.to_owned(), line, message };
    let contents = contents(workspace, path).map_err(|error| broken(None, error.to_string()))?;
    parse(contents).map_err(|problem| broken(Some(problem.line), problem.message))
}

fn contents(workspace: &Workspace, path: &str) -> io::Result<Vec<u8>> {
    let file = workspace.open_read(Path::new(path))?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("no regular file"));
    }
    let mut contents = Vec::new();
    if file.take(MAX_FILE_BYTES + 1).read_to_end(&mut contents)? as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("longer than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    Ok(contents)
}

/// Prints a text to standard output, and the unreadable files to standard error.
pub fn print(output: &Output, text: &str, broken: &[Unreadable]) -> Result<(), CliError> {
    for broken in broken {
        tracing::error!("{broken}");
    }
    output.text(text)
}
