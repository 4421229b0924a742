//! `send_message`.

use cofferdam_beads_format::Message;
use cofferdam_beads_format::message::MessageKind;
use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::mailbox;

/// Arguments of `send_message`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Whether it is for one agent or for all.
    #[serde(rename = "type")]
    pub kind: MessageKind,
    /// Whom it is for.
    pub recipient: Option<String>,
    /// What it says.
    pub content: String,
    /// What it is about.
    pub summary: String,
}

/// Answer of `send_message`.
#[derive(Debug, Serialize)]
pub struct Output {
    /// What the message is called.
    pub message_id: String,
}

/// Leaves a message in the mailbox.
///
/// # Errors
/// `RecipientMissing`, `RecipientOfBroadcast`, and as [`mailbox::add`].
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
