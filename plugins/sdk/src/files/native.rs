//! File operations in a native build, for tests of a plugin.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::WriteMode;
use crate::bindings::cofferdam::host::files::Refusal;
use crate::{Context, WorkspacePath};

pub(super) fn write(
    context: &Context,
    path: &WorkspacePath,
    contents: &[u8],
    mode: WriteMode,
) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    match mode {
        WriteMode::Replace => options.create(true).truncate(true),
        WriteMode::New => options.create_new(true),
    };
    options.open(context.local(path))?.write_all(contents)
}

pub(super) fn create_link(context: &Context, path: &WorkspacePath, target: &str) -> io::Result<()> {
    symlink(target, context.local(path))
}

pub(super) fn is_executable(context: &Context, path: &WorkspacePath) -> io::Result<bool> {
    Ok(mode(&context.local(path))? & 0o100 != 0)
}

pub(super) fn set_executable(
    context: &Context,
    path: &WorkspacePath,
    executable: bool,
) -> io::Result<()> {
    let path = context.local(path);
    let mode = mode(&path)?;
    // Every class of users that may read the file may execute it.
    let mode = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

pub(super) fn copy(context: &Context, from: &WorkspacePath, to: &WorkspacePath) -> io::Result<()> {
    fs::copy(context.local(from), context.local(to)).map(drop)
}

fn mode(path: &Path) -> io::Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode())
}

/// Always `None`: the operating system gives no reasons.
pub(crate) fn last_refusal() -> Option<Refusal> {
    None
}
