//! Narrows a program, such as a shell, to the programs that the settings name: the sandbox executes
//! no others, and the directories of programs hold no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use cofferdam_sandbox as sandbox;

use super::bindings::cofferdam::host::process::Error;
use super::programs::Programs;
use crate::toolchains::Toolchains;
use cofferdam_workspace::Workspace;

/// Directories with programs that another program is made of, and starts by itself.
const PARTS: &[(&str, &[&str])] = &[("git", &["/usr/lib/git-core", "/usr/libexec/git-core"])];

/// Directories of programs that are not searched.
const ADMINISTRATION: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/games"];

/// Narrows a run to the programs `named`, besides the program itself. A program that is not
/// installed is left out.
///
/// # Errors
/// [`Error::Denied`] if a named program is in the workspace.
pub(super) fn narrow(
    described: &mut sandbox::Command,
    named: &BTreeSet<String>,
    programs: &Programs,
    workspace: &Workspace,
    toolchains: &Toolchains,
) -> Result<(), Error> {
    let mut executable = Vec::new();
    for name in named {
        match programs.find(name, workspace, toolchains) {
            Ok(file) => executable.push(file),
            Err(Error::NotFound(_)) => continue,
            Err(error) => return Err(error),
        }
        let parts = PARTS.iter().filter(|(program, _)| program == name);
        executable.extend(parts.flat_map(|(_, parts)| parts.iter().map(PathBuf::from)));
    }
    let directories = directories(programs, workspace, toolchains);
    described.readable.retain(|path| !directories.contains(path));
    described.masked.extend(directories);
    described.executable = Some(executable);
    Ok(())
}

/// The directories in which programs are searched, without links and each once.
#[expect(clippy::disallowed_methods, reason = "directories of programs are outside the workspace")]
fn directories(
    programs: &Programs,
    workspace: &Workspace,
    toolchains: &Toolchains,
) -> BTreeSet<PathBuf> {
    let all = programs.path(toolchains).into_iter().chain(ADMINISTRATION.map(PathBuf::from));
    let real = all.filter_map(|path| fs::canonicalize(path).ok());
    real.filter(|path| path.is_dir() && path.parent().is_some() && !workspace.holds(path)).collect()
}
