//! The messages of a workspace, one file each. A message is never changed or replaced.
//!
//! Calls that write run one after the other, even those of several hosts with one workspace, so the
//! latest message that a call sees is the latest of all.

use std::{fs, io};

use cofferdam_beads_format::message::{DIRECTORY, IGNORE, TEAM};
use cofferdam_beads_format::{Message, MessageId};
use cofferdam_sdk::{Context, ToolError};
use jiff::Timestamp;

/// Adds a message to the mailbox.
///
/// # Errors
/// Those of [`Context::create`], for the mailbox.
pub fn add(message: &Message, context: &Context) -> Result<MessageId, ToolError> {
    let id = MessageId::next(Timestamp::now(), latest(context)?);
    let path = context.resolve(&format!("{DIRECTORY}/{}", id.file_name()))?;
    context.create(&path, message.to_text().as_bytes())?;
    create_ignore_file(context)?;
    Ok(id)
}

/// Creates the file that excludes the mailbox from git, unless it exists.
fn create_ignore_file(context: &Context) -> Result<(), ToolError> {
    let (name, text) = IGNORE;
    match context.create(&context.resolve(&format!("{TEAM}/{name}"))?, text.as_bytes()) {
        Err(error) if error.code != "FileExistsError" => Err(error),
        _ => Ok(()),
    }
}

/// The id of the latest message.
fn latest(context: &Context) -> Result<Option<MessageId>, ToolError> {
    let of_name = |entry: io::Result<fs::DirEntry>| {
        Ok(MessageId::of_file(&entry?.file_name().to_string_lossy()).and_then(Result::ok))
    };
    let list = |directory| fs::read_dir(directory)?.map(of_name).collect::<io::Result<Vec<_>>>();
    match list(context.local(&context.resolve(DIRECTORY)?)) {
        Ok(ids) => Ok(ids.into_iter().flatten().max()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ToolError::io(DIRECTORY, &error)),
    }
}
