//! Checks all files of a patch against the workspace and plans the changes.

use std::collections::BTreeSet;
use std::fmt::Arguments;

use cofferdam_sdk::{Context, ToolError, WorkspacePath, shorten};

use super::before::{Before, Found, Place};
use super::changes::Changes;
use super::failure::Failures;
use super::{FilePatch, Hunk, Kind, Operation, PatchError, Side, apply};
use crate::paths::editable;

/// Checks a patch against the workspace. Returns the changes, and the output with one line for each
/// file and hunk.
///
/// # Errors
/// `PathNotAllowed` for a file that a patch may not change; `PatchFailed` with all reasons why the
/// patch does not fit; the errors of reading files.
pub(super) fn plan(
    files: Vec<FilePatch>,
    context: &Context,
) -> Result<(Changes, String), ToolError> {
    let mut planner = Planner {
        context,
        before: Before::new(context, &files)?,
        taken: BTreeSet::new(),
        made: BTreeSet::new(),
        edited: BTreeSet::new(),
        failures: Failures::default(),
        changes: Changes::default(),
        output: String::new(),
    };
    for file in files {
        planner.file(file)?;
    }
    planner.failures.into_result()?;
    Ok((planner.changes, bounded(planner.output.trim_end())))
}

/// The maximum size of the output, in bytes.
const MAX_OUTPUT_BYTES: usize = 24_000;

/// Returns output in the maximum size. Of longer output that is a line with numbers, and the files of
/// which not everything applied as the patch says.
fn bounded(output: &str) -> String {
    if output.len() <= MAX_OUTPUT_BYTES {
        return output.to_owned();
    }
    let lines: Vec<&str> = output.lines().collect();
    let is_unusual = |line: &&str| {
        line.starts_with("hunk ") && line.ends_with(')') || line.starts_with("line ends")
    };
    let files: Vec<&[&str]> = lines.chunk_by(|_, next| is_of_file(next)).collect();
    let hunks = lines.iter().filter(|line| line.starts_with("hunk ")).count();
    let unusual: Vec<String> = files
        .iter()
        .filter(|lines| lines.iter().any(is_unusual))
        .map(|lines| lines.join("\n"))
        .collect();
    let numbers = format!(
        "{} files, {hunks} hunks; all applied exactly as the patch says, but for {} files",
        files.len(),
        unusual.len()
    );
    shorten(&[numbers, unusual.join("\n")].join("\n"), MAX_OUTPUT_BYTES).trim_end().to_owned()
}

/// Whether a line of the output is about the file of the line before it.
fn is_of_file(line: &str) -> bool {
    ["hunk ", "mode: ", "line ends: "].iter().any(|beginning| line.starts_with(beginning))
}

struct Planner<'a> {
    context: &'a Context,
    before: Before<'a>,
    /// Files that the patch changes, removes or renames, but not the sources of copies.
    taken: BTreeSet<WorkspacePath>,
    /// Files that the patch changes or creates.
    made: BTreeSet<WorkspacePath>,
    /// Of those, the files whose content is that before the patch, or a new one.
    edited: BTreeSet<WorkspacePath>,
    failures: Failures,
    changes: Changes,
    output: String,
}

impl Planner<'_> {
    /// Plans the changes of one file. Reasons why it does not fit are collected; a path that is not
    /// allowed is an error at once.
    fn file(&mut self, mut patch: FilePatch) -> Result<(), ToolError> {
        match std::mem::replace(&mut patch.operation, Operation::Unnamed) {
            Operation::Unnamed => {
                let problem =
                    "expected 'diff --git' or '--- ' and '+++ ' before the hunk".to_owned();
                Err(PatchError::Malformed { line: patch.line, problem }.into())
            }
            Operation::Different { old, new } => {
                let problem = format!(
                    "expected one file, found {old:?} and {new:?}; name it with 'path', or use git's 'rename from' and 'rename to'"
                );
                Err(PatchError::Malformed { line: patch.line, problem }.into())
            }
            Operation::Modify(name) => {
                let path = editable(self.context, &name)?;
                if self.edited.contains(&path) {
                    return self.modify_again(path, &patch);
                }
                let is_first = self.taken.insert(path.clone()) & self.made.insert(path.clone());
                if !self.is_once(&path, is_first) {
                    return Ok(());
                }
                if adds_a_whole_file(&patch.hunks) && self.before.find(&path)? == Found::Nothing {
                    return self.create(path, &patch);
                }
                self.modify(path, patch)
            }
            Operation::Create(name) => {
                let Some(path) = self.register_target(&name)? else { return Ok(()) };
                self.create(path, &patch)
            }
            Operation::Delete(name) => {
                let Some(path) = self.register_source(&name)? else { return Ok(()) };
                self.delete(path, patch)
            }
            Operation::Rename { from, to } => {
                let (source, target) = (self.register_source(&from)?, self.register_target(&to)?);
                let (Some(source), Some(target)) = (source, target) else { return Ok(()) };
                if self.is_once(&target, source != target) {
                    self.rename(source, target, patch)?;
                }
                Ok(())
            }
            Operation::Copy { from, to } => {
                let source = editable(self.context, &from)?;
                let Some(target) = self.register_target(&to)? else { return Ok(()) };
                self.copy(&source, target, patch)
            }
        }
    }

    /// Registers a source file; `None` if another part of the patch has it already.
    fn register_source(&mut self, name: &str) -> Result<Option<WorkspacePath>, ToolError> {
        let path = editable(self.context, name)?;
        let is_first = self.taken.insert(path.clone());
        Ok(self.is_once(&path, is_first).then_some(path))
    }

    /// Registers a file to create; `None` if another part of the patch has it already.
    fn register_target(&mut self, name: &str) -> Result<Option<WorkspacePath>, ToolError> {
        let path = editable(self.context, name)?;
        let is_first = self.made.insert(path.clone());
        Ok(self.is_once(&path, is_first).then_some(path))
    }

    fn is_once(&mut self, path: &WorkspacePath, is_first: bool) -> bool {
        if !is_first {
            self.failures.add(path, "the patch names it more than once");
        }
        is_first
    }

    fn modify(&mut self, path: WorkspacePath, patch: FilePatch) -> Result<(), ToolError> {
        let Some(kind) = self.kind(&path, &patch)? else { return Ok(()) };
        self.add_output_line(format_args!("patching {kind} {path}"));
        let executable = patch.executable;
        if let Some(versions) = self.changed(&path, kind, patch)? {
            if kind == Kind::File {
                self.edited.insert(path.clone());
            }
            self.change_in_place(path, kind, versions, executable);
        }
        Ok(())
    }

    /// Changes a file that an earlier part of the patch changes or creates, as that leaves it.
    fn modify_again(&mut self, path: WorkspacePath, patch: &FilePatch) -> Result<(), ToolError> {
        let earlier = self.changes.writes.iter().position(|(written, _)| *written == path);
        let before = match earlier {
            Some(index) => self.changes.writes.swap_remove(index).1,
            None => self.context.read(&path)?,
        };
        self.add_output_line(format_args!("patching file {path}"));
        if let Some(executable) = patch.executable {
            self.changes.modes.push((path.clone(), executable));
            self.add_mode_line(executable);
        }
        let after = self.applied(&path, &before, &patch.hunks);
        self.changes.writes.push((path, after.unwrap_or(before)));
        Ok(())
    }

    fn create(&mut self, path: WorkspacePath, patch: &FilePatch) -> Result<(), ToolError> {
        let kind = patch.kind.unwrap_or(Kind::File);
        if self.free_target(&path)?.is_none() {
            return Ok(());
        }
        self.add_output_line(format_args!("creating {kind} {path}"));
        if let Some(contents) = self.applied(&path, b"", &patch.hunks) {
            let executable = patch.executable == Some(true);
            if executable {
                self.add_mode_line(executable);
            }
            if kind == Kind::File {
                self.edited.insert(path.clone());
            }
            self.create_entry(path, kind, contents, executable);
        }
        Ok(())
    }

    fn delete(&mut self, path: WorkspacePath, patch: FilePatch) -> Result<(), ToolError> {
        let Some(kind) = self.kind(&path, &patch)? else { return Ok(()) };
        self.add_output_line(format_args!("deleting {kind} {path}"));
        let any_content = patch.any_content;
        if let Some(Versions { after, .. }) = self.changed(&path, kind, patch)? {
            if !after.is_empty() && !any_content {
                self.failures.add(&path, "the file has more in it than the patch deletes");
            }
            self.changes.removals.push(path);
        }
        Ok(())
    }

    fn rename(
        &mut self,
        source: WorkspacePath,
        target: WorkspacePath,
        patch: FilePatch,
    ) -> Result<(), ToolError> {
        let (kind, is_free) = (self.kind(&source, &patch)?, self.free_target(&target)?);
        let (Some(kind), Some(is_free)) = (kind, is_free) else { return Ok(()) };
        self.add_output_line(format_args!("renaming {kind} {source} to {target}"));
        // If the target is not free yet, the file is created anew. So are links, which come last.
        if !is_free || kind == Kind::Link {
            self.copied(&source, target, kind, patch)?;
            self.changes.removals.push(source);
            return Ok(());
        }
        let executable = patch.executable;
        if let Some(versions) = self.changed(&source, kind, patch)? {
            self.changes.renames.push((source, target.clone()));
            self.change_in_place(target, kind, versions, executable);
        }
        Ok(())
    }

    fn copy(
        &mut self,
        source: &WorkspacePath,
        target: WorkspacePath,
        patch: FilePatch,
    ) -> Result<(), ToolError> {
        let (kind, is_free) = (self.kind(source, &patch)?, self.free_target(&target)?);
        let (Some(kind), Some(_)) = (kind, is_free) else { return Ok(()) };
        self.add_output_line(format_args!("copying {kind} {source} to {target}"));
        self.copied(source, target, kind, patch)
    }

    /// Creates a file at `target` from one that stays or is removed.
    fn copied(
        &mut self,
        source: &WorkspacePath,
        target: WorkspacePath,
        kind: Kind,
        patch: FilePatch,
    ) -> Result<(), ToolError> {
        let executable = match (kind, patch.executable) {
            (Kind::Link, _) => false,
            (Kind::File, Some(executable)) => executable,
            (Kind::File, None) => self.context.is_executable(source)?,
        };
        if let Some(Versions { after, .. }) = self.changed(source, kind, patch)? {
            self.create_entry(target, kind, after, executable);
        }
        Ok(())
    }

    /// Changes content and mode of the file that is at `path`.
    fn change_in_place(
        &mut self,
        path: WorkspacePath,
        kind: Kind,
        Versions { before, after }: Versions,
        executable: Option<bool>,
    ) {
        if let Some(executable) = executable {
            self.changes.modes.push((path.clone(), executable));
        }
        match kind {
            _ if after == before => {}
            Kind::File => self.changes.writes.push((path, after)),
            Kind::Link => {
                self.changes.removals.push(path.clone());
                self.create_entry(path, kind, after, false);
            }
        }
    }

    /// Creates an entry where nothing will exist.
    fn create_entry(
        &mut self,
        path: WorkspacePath,
        kind: Kind,
        contents: Vec<u8>,
        executable: bool,
    ) {
        match kind {
            Kind::File => {
                if executable {
                    self.changes.modes.push((path.clone(), executable));
                }
                self.changes.writes.push((path, contents));
            }
            Kind::Link => match String::from_utf8(contents) {
                Ok(target) if !target.is_empty() => self.changes.links.push((path, target)),
                _ => self.failures.add(&path, "the link's target is empty or not UTF-8"),
            },
        }
    }

    /// The kind of the source file; `None` if the patch expects another kind.
    fn kind(&mut self, path: &WorkspacePath, patch: &FilePatch) -> Result<Option<Kind>, ToolError> {
        let keeps_content = patch.kind.is_none() && patch.hunks.is_empty();
        match self.before.source(path)? {
            Kind::File if patch.kind == Some(Kind::Link) => {
                self.failures.add(path, "it is a file, not a symbolic link");
                Ok(None)
            }
            Kind::Link if patch.kind != Some(Kind::Link) && !keeps_content => {
                Err(ToolError::denied(
                    "PathNotAllowed",
                    format!(
                        "patch failed: {path} is a symbolic link, which only a patch with mode 120000 changes"
                    ),
                ))
            }
            kind => Ok(Some(kind)),
        }
    }

    /// Plans the removal of directories so that `path` is free. `None` if it can't be free;
    /// otherwise whether it was free from the beginning.
    fn free_target(&mut self, path: &WorkspacePath) -> Result<Option<bool>, ToolError> {
        Ok(match self.before.target(path)? {
            Place::Free => Some(true),
            Place::Vacated(mut directories) => {
                self.changes.directories.append(&mut directories);
                Some(false)
            }
            Place::Taken(reason) => {
                self.failures.add(path, &reason);
                None
            }
        })
    }

    /// The content of a file before and after the patch; `None` if the patch does not apply.
    fn changed(
        &mut self,
        path: &WorkspacePath,
        kind: Kind,
        patch: FilePatch,
    ) -> Result<Option<Versions>, ToolError> {
        let before = match kind {
            Kind::File => self.context.read(path)?,
            Kind::Link => self.context.read_link(path)?.into_bytes(),
        };
        let after = self.applied(path, &before, &patch.hunks);
        if let Some(executable) = patch.executable {
            self.add_mode_line(executable);
        }
        Ok(after.map(|after| Versions { before, after }))
    }

    fn applied(
        &mut self,
        path: &WorkspacePath,
        original: &[u8],
        hunks: &[Hunk],
    ) -> Option<Vec<u8>> {
        let file = apply::lines(original);
        let applied = match apply::apply(&file, hunks) {
            Ok(applied) => applied,
            Err(mismatches) => {
                self.failures.add_hunks(path, hunks, &mismatches);
                return None;
            }
        };
        for (index, (hunk, start)) in hunks.iter().zip(applied.starts).enumerate() {
            let offset = match apply::offset(hunk, start) {
                Some(offset) => format!(" (offset {offset:+})"),
                None => String::new(),
            };
            let recounted =
                if hunk.recounted { " (wrong line counts in its header, recounted)" } else { "" };
            let (removed, added) = (hunk.count(Side::Old), hunk.count(Side::New));
            self.add_output_line(format_args!(
                "hunk {}: line {}, -{removed} +{added}{offset}{recounted}",
                index + 1,
                start + 1,
            ));
        }
        if applied.line_ends_differ {
            self.add_output_line(format_args!(
                "line ends: those of the file are kept (the patch has others)"
            ));
        }
        Some(applied.contents)
    }

    fn add_output_line(&mut self, line: Arguments) {
        // Only names can contain line feeds and control characters.
        let line = line.to_string();
        for character in line.chars() {
            if character.is_control() {
                self.output.extend(character.escape_default());
            } else {
                self.output.push(character);
            }
        }
        self.output.push('\n');
    }

    fn add_mode_line(&mut self, executable: bool) {
        self.add_output_line(format_args!(
            "mode: {}executable",
            if executable { "" } else { "not " }
        ));
    }
}

/// The content of a file before and after the patch.
struct Versions {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Whether the hunks create a file, though no header says so.
fn adds_a_whole_file(hunks: &[Hunk]) -> bool {
    matches!(hunks, [hunk] if hunk.old_count == 0 && hunk.position.may_be_of_an_empty_file())
}
