//! The host's side. Contents are written through `wasi:filesystem` itself: the standard library
//! hands them over in pieces of 4 KiB, a call into the host for each.

use std::io;

use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

use super::Opening;
use crate::bindings::cofferdam::host::files as host;
use crate::context::WORKSPACE;
use crate::{Context, WorkspacePath};

pub(crate) use host::last_refusal;

/// How much is handed over in one call, in bytes. The host takes 32 MiB at the most.
const PIECE: usize = 4 << 20;

/// Writes a whole file.
pub(super) fn write(
    _: &Context,
    path: &WorkspacePath,
    contents: &[u8],
    opening: Opening,
) -> io::Result<()> {
    let opening = OpenFlags::CREATE
        | match opening {
            Opening::Replace => OpenFlags::TRUNCATE,
            Opening::New => OpenFlags::EXCLUSIVE,
        };
    let file = workspace()?
        .open_at(PathFlags::SYMLINK_FOLLOW, &path.to_string(), opening, DescriptorFlags::WRITE)
        .map_err(io_error)?;
    let mut rest = contents;
    while !rest.is_empty() {
        let offset = contents.len() - rest.len();
        let piece = &rest[..rest.len().min(PIECE)];
        let written = file.write(piece, offset as u64).map_err(io_error)?;
        rest = match usize::try_from(written) {
            Ok(written) if (1..=rest.len()).contains(&written) => &rest[written..],
            _ => return Err(io::ErrorKind::WriteZero.into()),
        };
    }
    Ok(())
}

/// Creates a symbolic link.
pub(super) fn create_link(_: &Context, path: &WorkspacePath, target: &str) -> io::Result<()> {
    workspace()?.symlink_at(target, &path.to_string()).map_err(io_error)
}

/// Whether the owner may execute a file.
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

/// The workspace's directory, if the call has it.
fn workspace() -> io::Result<Descriptor> {
    let workspace = get_directories().into_iter().find(|(_, name)| name == WORKSPACE);
    workspace.map(|(directory, _)| directory).ok_or(io::ErrorKind::PermissionDenied.into())
}

/// The error that the standard library would have given.
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
        // Why, the host is asked for every refusal.
        host::Error::Denied(_) => io::ErrorKind::PermissionDenied.into(),
        host::Error::Failed(message) => io::Error::other(message),
    }
}
