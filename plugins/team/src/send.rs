//! `send_message`: stores a message in the mailbox.

use cofferdam_beads_format::Message;
use cofferdam_beads_format::message::MessageKind;
use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::mailbox;

/// The arguments of `send_message`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Whether the message is for one agent or for all.
    #[serde(rename = "type")]
    pub kind: MessageKind,
    /// The name of the recipient.
    pub recipient: Option<String>,
    /// The text of the message.
    pub content: String,
    /// The subject of the message.
    pub summary: String,
}

/// The result of `send_message`.
#[derive(Debug, Serialize)]
pub struct Output {
    /// The id of the message.
    pub message_id: String,
}

/// Stores a message in the mailbox.
///
/// # Errors
/// `RecipientMissing`, `RecipientOfBroadcast`; those of [`mailbox::add`].
pub fn run(args: Args, context: &Context) -> Result<Output, ToolError> {
    let Args { kind, recipient, content, summary } = args;
    match (kind, &recipient) {
        (MessageKind::Message, None) => {
            let message = "a message needs a recipient; a broadcast is for everybody";
            return Err(ToolError::invalid_args("RecipientMissing", message));
        }
        (MessageKind::Broadcast, Some(name)) => {
            let message = format!(
                "a broadcast is for everybody, not for '{name}': leave out recipient, or send \
                 type message"
            );
            return Err(ToolError::invalid_args("RecipientOfBroadcast", message));
        }
        (MessageKind::Message, Some(_)) | (MessageKind::Broadcast, None) => {}
    }
    let message = Message { recipient, summary, content, call: context.call_id.clone() };
    let id = mailbox::add(&message, context)?;
    Ok(Output { message_id: id.to_string() })
}
