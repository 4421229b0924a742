//! File operations in a component. Contents are written through `wasi:filesystem` directly: the
//! standard library writes pieces of 4 KiB, each of which is a call into the host.

use std::io;

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

use super::WriteMode;
use crate::bindings::cofferdam::host::files as host;
use crate::context::WORKSPACE;
use crate::{Context, WorkspacePath};

pub(crate) use host::last_refusal;

/// The size of one write, in bytes. The host's maximum is 32 MiB.
const WRITE_BYTES: usize = 4 << 20;

/// Writes a whole file.
pub(super) fn write(
    _: &Context,
    path: &WorkspacePath,
    contents: &[u8],
    mode: WriteMode,
) -> io::Result<()> {
    let mode = OpenFlags::CREATE
        | match mode {
            WriteMode::Replace => OpenFlags::TRUNCATE,
            WriteMode::New => OpenFlags::EXCLUSIVE,
        };
    let file = workspace()?
        .open_at(PathFlags::SYMLINK_FOLLOW, &path.to_string(), mode, DescriptorFlags::WRITE)
        .map_err(io_error)?;
    let mut rest = contents;
    while !rest.is_empty() {
        let offset = contents.len() - rest.len();
        let piece = &rest[..rest.len().min(WRITE_BYTES)];
        let written = file.write(piece, offset as u64).map_err(io_error)?;
        rest = match usize::try_from(written) {
            Ok(written) if (1..=rest.len()).contains(&written) => &rest[written..],
            _ => return Err(io::ErrorKind::WriteZero.into()),
        };
    }
    Ok(())
}

pub(super) fn create_link(_: &Context, path: &WorkspacePath, target: &str) -> io::Result<()> {
    workspace()?.symlink_at(target, &path.to_string()).map_err(io_error)
}

pub(super) fn is_executable(_: &Context, path: &WorkspacePath) -> io::Result<bool> {
    host::is_executable(path.as_str()).map_err(host_error)
}

/// Sets or clears the executable bits.
pub(super) fn set_executable(
    _: &Context,
    path: &WorkspacePath,
    executable: bool,
) -> io::Result<()> {
    host::set_executable(path.as_str(), executable).map_err(host_error)
}

pub(super) fn copy(_: &Context, from: &WorkspacePath, to: &WorkspacePath) -> io::Result<()> {
    host::copy(from.as_str(), to.as_str()).map_err(host_error)
}

/// The directory handle of the workspace, if the call has one.
fn workspace() -> io::Result<Descriptor> {
    let workspace = get_directories().into_iter().find(|(_, name)| name == WORKSPACE);
    workspace.map(|(directory, _)| directory).ok_or(io::ErrorKind::PermissionDenied.into())
}

/// Converts an error code as the standard library does.
fn io_error(code: ErrorCode) -> io::Error {
    let kind = match code {
        ErrorCode::NoEntry => io::ErrorKind::NotFound,
        ErrorCode::Exist => io::ErrorKind::AlreadyExists,
        ErrorCode::Access | ErrorCode::NotPermitted => io::ErrorKind::PermissionDenied,
        ErrorCode::IsDirectory => io::ErrorKind::IsADirectory,
        ErrorCode::NotDirectory => io::ErrorKind::NotADirectory,
        code => return io::Error::other(code.message()),
    };
    kind.into()
}

fn host_error(error: host::Error) -> io::Error {
    match error {
        host::Error::NotFound(_) => io::ErrorKind::NotFound.into(),
        // The host is asked for the reason of every refusal.
        host::Error::Denied(_) => io::ErrorKind::PermissionDenied.into(),
        host::Error::Failed(message) => io::Error::other(message),
    }
}
