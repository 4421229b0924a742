//! `move_path`, `copy_path` and `delete_path`: whole files, links and directories.
//!
//! A link is moved, copied and deleted itself. A call that fails changes nothing, since the host
//! discards its changes.

use std::fs;

use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

/// The arguments of `move_path` and `copy_path`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The file, link or directory.
    pub path: String,
    /// The path that it gets.
    pub to: String,
    /// Whether an existing file or link is replaced.
    #[serde(default)]
    pub overwrite: bool,
}

/// The result of `move_path` and `copy_path`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Transferred {
    /// The absolute path of the source.
    pub path: String,
    /// The absolute new path.
    pub to: String,
    /// How much was moved or copied.
    #[serde(flatten)]
    pub counts: Counts,
    /// Whether a file or link was replaced.
    pub overwritten: bool,
}

/// The arguments of `delete_path`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// The file, link or directory.
    pub path: String,
    /// Whether a directory that is not empty is deleted.
    #[serde(default)]
    pub recursive: bool,
}

/// The result of `delete_path`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Deleted {
    /// The absolute path.
    pub path: String,
    /// How much was deleted.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The number of files, directories and links in a tree, its top included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Files, of any kind but links.
    pub files: usize,
    /// Directories.
    pub directories: usize,
    /// Symbolic links.
    pub links: usize,
}

/// The type of a file, without following a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    Link,
}

/// Moves a file, link or directory.
///
/// # Errors
/// Those of [`prepare`] and of moving.
pub fn move_path(args: &Transfer, context: &Context) -> Result<Transferred, ToolError> {
    let (source, target, overwritten) = prepare(args, context)?;
    let counts = count(&tree(context, &source)?);
    context.rename(&source, &target)?;
    Ok(transferred(context, &source, &target, counts, overwritten))
}

/// Copies a file, link or directory, with everything beneath.
///
/// # Errors
/// Those of [`prepare`] and of copying.
pub fn copy_path(args: &Transfer, context: &Context) -> Result<Transferred, ToolError> {
    let (source, target, overwritten) = prepare(args, context)?;
    let found = tree(context, &source)?;
    let counts = count(&found);
    if overwritten {
        context.remove(&target)?;
    }
    for (from, kind) in &found {
        let to =
            context.resolve(&format!("{target}{}", &from.as_str()[source.as_str().len()..]))?;
        match kind {
            Kind::File => context.copy(from, &to)?,
            Kind::Link => context.create_link(&to, &context.read_link(from)?)?,
            Kind::Directory => context.create_directory(&to)?,
        }
    }
    Ok(transferred(context, &source, &target, counts, overwritten))
}

/// Deletes a file, a link or a directory.
///
/// # Errors
/// `FileNotFoundError`; `InvalidPath` for the workspace itself; `DirectoryNotEmpty` without
/// `recursive`; those of deleting.
pub fn delete_path(args: &Delete, context: &Context) -> Result<Deleted, ToolError> {
    let path = named(context, "path", &args.path)?;
    if kind(context, &path)? == Kind::Directory && !args.recursive {
        let entries = entries(context, &path)?.len();
        if entries > 0 {
            return Err(ToolError::conflict(
                "DirectoryNotEmpty",
                format!(
                    "path: {path} is a directory that is not empty (entries: {entries}); \
                     `recursive: true` deletes it with everything in it"
                ),
            ));
        }
    }
    let found = tree(context, &path)?;
    for (path, kind) in found.iter().rev() {
        match kind {
            Kind::Directory => context.remove_directory(path)?,
            Kind::File | Kind::Link => context.remove(path)?,
        }
    }
    Ok(Deleted { path: context.absolute(&path), counts: count(&found) })
}

fn transferred(
    context: &Context,
    source: &WorkspacePath,
    target: &WorkspacePath,
    counts: Counts,
    overwritten: bool,
) -> Transferred {
    let (path, to) = (context.absolute(source), context.absolute(target));
    Transferred { path, to, counts, overwritten }
}

/// Resolves both paths and checks them. Also returns whether a file or link is to be replaced.
///
/// # Errors
/// Those of [`Context::resolve`]; `InvalidPath` for the workspace itself and for a target that is
/// the source or in it; `FileExistsError` for a target that exists and is not to be replaced;
/// `IsADirectoryError` for a directory as target, `NotADirectoryError` for a file as the target of a
/// directory.
fn prepare(
    args: &Transfer,
    context: &Context,
) -> Result<(WorkspacePath, WorkspacePath, bool), ToolError> {
    let source = named(context, "path", &args.path)?;
    let target = named(context, "to", &args.to)?;
    let source_kind = kind(context, &source)?;
    let is_inside = target.as_str().strip_prefix(source.as_str());
    if is_inside.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Err(ToolError::invalid_args(
            "InvalidPath",
            format!("to: {target} is {source} itself or in it; name a path outside of it"),
        ));
    }
    if args.to.ends_with('/') && source_kind != Kind::Directory {
        return Err(directory_as_target(&source, &target));
    }
    let overwritten = match kind(context, &target) {
        Err(error) if error.code == "FileNotFoundError" => false,
        Err(error) => return Err(error),
        Ok(Kind::Directory) => return Err(directory_as_target(&source, &target)),
        Ok(_) if source_kind == Kind::Directory => {
            return Err(ToolError::invalid_args(
                "NotADirectoryError",
                format!(
                    "to: {target} is a file, and {source} is a directory; delete {target} first"
                ),
            ));
        }
        Ok(_) if !args.overwrite => {
            return Err(ToolError::conflict(
                "FileExistsError",
                format!("to: {target} exists already; `overwrite: true` replaces it"),
            ));
        }
        Ok(_) => true,
    };
    Ok((source, target, overwritten))
}

fn directory_as_target(source: &WorkspacePath, target: &WorkspacePath) -> ToolError {
    let name = source.as_str().rsplit('/').next().unwrap_or_default();
    ToolError::invalid_args(
        "IsADirectoryError",
        format!(
            "to: {target} is a directory and is not replaced; for a place in it, name the whole new \
             path: {target}/{name}"
        ),
    )
}

/// Resolves the path in an argument.
fn named(context: &Context, argument: &str, path: &str) -> Result<WorkspacePath, ToolError> {
    let resolved = context.resolve(path)?;
    if resolved.as_str().is_empty() {
        return Err(ToolError::invalid_args(
            "InvalidPath",
            format!("{argument}: '{path}' is the workspace itself; name something in it"),
        ));
    }
    Ok(resolved)
}

fn kind(context: &Context, path: &WorkspacePath) -> Result<Kind, ToolError> {
    let metadata = fs::symlink_metadata(context.local(path));
    let kind = metadata.map_err(|error| ToolError::io(&path.to_string(), &error))?.file_type();
    Ok(if kind.is_dir() {
        Kind::Directory
    } else if kind.is_symlink() {
        Kind::Link
    } else {
        Kind::File
    })
}

/// Returns the entries of a directory, by name.
fn entries(context: &Context, path: &WorkspacePath) -> Result<Vec<WorkspacePath>, ToolError> {
    let io = |error| ToolError::io(&path.to_string(), &error);
    let mut found = Vec::new();
    for entry in fs::read_dir(context.local(path)).map_err(io)? {
        let name = entry.map_err(io)?.file_name().into_string().map_err(|name| {
            ToolError::invalid_args(
                "UnicodeDecodeError",
                format!("{path}: the name {name:?} is not UTF-8; rename it with another program"),
            )
        })?;
        found.push(context.resolve(&format!("{path}/{name}"))?);
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns a path and everything beneath, each directory before its contents.
fn tree(context: &Context, top: &WorkspacePath) -> Result<Vec<(WorkspacePath, Kind)>, ToolError> {
    let mut found = Vec::new();
    let mut waiting = vec![top.clone()];
    while let Some(path) = waiting.pop() {
        let kind = kind(context, &path)?;
        if kind == Kind::Directory {
            waiting.extend(entries(context, &path)?);
        }
        found.push((path, kind));
    }
    Ok(found)
}

fn count(found: &[(WorkspacePath, Kind)]) -> Counts {
    let of = |wanted| found.iter().filter(|(_, kind)| *kind == wanted).count();
    Counts { files: of(Kind::File), directories: of(Kind::Directory), links: of(Kind::Link) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;

    /// A directory `src` with an executable file, a link and an empty directory, and a file `a`.
    fn workspace() -> (TempDir, Context) {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("src/empty")).unwrap();
        fs::write(at("src/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(at("src/run"), fs::Permissions::from_mode(0o750)).unwrap();
        symlink("run", at("src/link")).unwrap();
        symlink("src", at("directory-link")).unwrap();
        fs::write(at("a"), "a").unwrap();
        (directory, context)
    }

    fn transfer(path: &str, to: &str) -> Transfer {
        Transfer { path: path.to_owned(), to: to.to_owned(), overwrite: false }
    }

    fn delete(path: &str, recursive: bool) -> Delete {
        Delete { path: path.to_owned(), recursive }
    }

    /// Checks a copy or the new place of `src`.
    fn check_src(at: &Path) {
        let mode = fs::metadata(at.join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o750);
        assert_eq!(fs::read_link(at.join("link")).unwrap(), Path::new("run"));
        assert!(at.join("empty").is_dir());
    }

    const SRC: Counts = Counts { files: 1, directories: 2, links: 1 };

    #[test]
    fn directories_are_moved_copied_and_deleted_with_exact_counts() {
        let (directory, context) = workspace();
        let at = |name: &str| directory.path().join(name);
        let copied = copy_path(&transfer("src", "new/copy"), &context).unwrap();
        assert_eq!((copied.counts, copied.overwritten), (SRC, false));
        assert_eq!(copied.to, at("new/copy").display().to_string());
        check_src(&at("new/copy"));
        check_src(&at("src"));
        let moved = move_path(&transfer("src", "moved/"), &context).unwrap();
        assert_eq!(moved.counts, SRC);
        check_src(&at("moved"));
        assert!(!at("src").exists());
        let deleted = delete_path(&delete("moved", true), &context).unwrap();
        assert_eq!(deleted.counts, SRC);
        assert!(!at("moved").exists() && at("new/copy/run").exists());
    }

    #[test]
    fn links_are_moved_copied_and_deleted_as_links() {
        let (directory, context) = workspace();
        let at = |name: &str| directory.path().join(name);
        let link = Counts { links: 1, ..Counts::default() };
        let copied = copy_path(&transfer("directory-link", "copy"), &context).unwrap();
        assert_eq!(copied.counts, link);
        assert_eq!(fs::read_link(at("copy")).unwrap(), Path::new("src"));
        assert_eq!(move_path(&transfer("copy", "moved"), &context).unwrap().counts, link);
        assert_eq!(fs::read_link(at("moved")).unwrap(), Path::new("src"));
        assert_eq!(delete_path(&delete("moved", false), &context).unwrap().counts, link);
        assert!(!at("moved").exists() && at("src/run").exists());
    }

    #[test]
    fn files_are_overwritten_only_if_asked_for() {
        for act in [move_path, copy_path] {
            let (directory, context) = workspace();
            let at = |name: &str| directory.path().join(name);
            let mut args = transfer("src/run", "a");
            let error = act(&args, &context).unwrap_err();
            assert_eq!(error.code, "FileExistsError");
            assert!(error.message.contains("to: a ") && error.message.contains("overwrite: true"));
            assert_eq!(fs::read_to_string(at("a")).unwrap(), "a");
            args.overwrite = true;
            assert!(act(&args, &context).unwrap().overwritten);
            assert_eq!(fs::read_to_string(at("a")).unwrap(), "#!/bin/sh\n");
            assert_eq!(fs::metadata(at("a")).unwrap().permissions().mode() & 0o777, 0o750);
            // The link is replaced, not the directory that it leads to.
            let args = Transfer { overwrite: true, ..transfer("a", "directory-link") };
            act(&args, &context).unwrap();
            assert!(fs::symlink_metadata(at("directory-link")).unwrap().is_file());
            assert!(at("src/empty").is_dir());
        }
    }

    #[test]
    fn refusals_have_codes_and_cures() {
        let (directory, context) = workspace();
        for (path, to, code, cure) in [
            ("none", "b", "FileNotFoundError", "none"),
            ("a/b", "b", "FileNotFoundError", "a/b"),
            (".", "b", "InvalidPath", "path: '.' is the workspace"),
            ("a", "/", "PathNotAllowed", "outside"),
            ("a", ".", "InvalidPath", "to: '.' is the workspace"),
            ("a", "../b", "PathNotAllowed", "leaves"),
            ("a", "./a", "InvalidPath", "outside of it"),
            ("src", "src/deep/src", "InvalidPath", "outside of it"),
            ("a", "src", "IsADirectoryError", "src/a"),
            ("a", "none/", "IsADirectoryError", "none/a"),
            ("src/empty", "src", "IsADirectoryError", "src/empty"),
            ("src", "a", "NotADirectoryError", "delete a first"),
        ] {
            for (act, overwrite) in [(move_path as fn(&_, &_) -> _, false), (copy_path, true)] {
                let args = Transfer { overwrite, ..transfer(path, to) };
                let error = act(&args, &context).unwrap_err();
                assert_eq!(error.code, code, "{path} {to}: {error}");
                assert!(error.message.contains(cure), "{path} {to}: {error}");
            }
        }
        for (path, recursive, code, cure) in [
            ("none", true, "FileNotFoundError", "none"),
            (".", true, "InvalidPath", "workspace itself"),
            ("../x", true, "PathNotAllowed", "leaves"),
            ("src", false, "DirectoryNotEmpty", "entries: 3); `recursive: true`"),
        ] {
            let error = delete_path(&delete(path, recursive), &context).unwrap_err();
            assert_eq!(error.code, code, "{path}: {error}");
            assert!(error.message.contains(cure), "{path}: {error}");
        }
        check_src(&directory.path().join("src"));
        let empty = delete_path(&delete("src/empty", false), &context).unwrap();
        assert_eq!(empty.counts, Counts { directories: 1, ..Counts::default() });
    }
}
