//! `cofferdam inbox`: shows the messages that agents sent each other.

use std::fmt::Write as _;

use cofferdam_beads_format::message::DIRECTORY;
use cofferdam_beads_format::{Message, MessageId};
use serde_json::{Value, json};

use super::args::{Format, Global, Inbox};
use super::output::Output;
use super::{CliError, exit, ledger, setup};

pub fn execute(global: &Global, args: &Inbox, output: &Output) -> Result<u8, CliError> {
    let workspace = setup::workspace(global)?;
    let mut listing = ledger::list(&workspace, DIRECTORY, MessageId::of_file)?;
    listing.ids.retain(|id| args.after.is_none_or(|after| *id > after));
    let mut broken = listing.broken;
    let mut messages = Vec::new();
    for id in listing.ids {
        let path = format!("{DIRECTORY}/{}", id.file_name());
        match ledger::read(&workspace, &path, Message::parse) {
            Ok(message) if args.name.as_ref().is_none_or(|name| message.is_for(name)) => {
                messages.push((id, message));
            }
            Ok(_) => {}
            Err(problem) => broken.push(problem),
        }
    }
    if output.format() == Format::Text {
        let text: String = messages.iter().map(|(id, message)| text(*id, message)).collect();
        ledger::print(output, &text, &broken)?;
    } else {
        let messages: Vec<Value> =
            messages.iter().map(|(id, message)| document(*id, message)).collect();
        output.json(&json!({ "messages": messages, "problems": broken }))?;
    }
    Ok(if broken.is_empty() { exit::OK } else { exit::ERROR })
}

fn document(id: MessageId, message: &Message) -> Value {
    let mut document = json!({
        "id": id.to_string(),
        "sent": id.sent(),
        "type": message.kind(),
    });
    if let Some(recipient) = &message.recipient {
        document["recipient"] = recipient.as_str().into();
    }
    document["summary"] = message.summary.as_str().into();
    document["content"] = message.content.as_str().into();
    document["call"] = message.call.as_str().into();
    document
}

fn text(id: MessageId, message: &Message) -> String {
    let recipient = message.recipient.as_deref().unwrap_or("everybody");
    let summary = message.summary.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = format!("{id}  to {recipient}: {summary}\n");
    for line in message.content.lines() {
        // Writing to a String can't fail.
        let _ = writeln!(text, "  | {line}");
    }
    text
}
