//! What the answers of many tools have in common: nothing was found, or a list that goes on.

use serde::Serialize;

/// That a search found nothing, or too much. In the dialect `tool`, the host reports it as the error
/// that the tool schemas name.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The name of the error.
    pub code: &'static str,
    /// What was searched, and what to try.
    pub message: String,
}

/// Returns a call as text for a model: the tool's name and its arguments as JSON.
pub fn call_text(tool: &str, args: &impl Serialize) -> String {
    format!("{tool} {}", serde_json::to_string(args).unwrap_or_default())
}

/// Returns the size of an item in a JSON list, with its comma, in bytes.
pub fn item_bytes(item: &impl Serialize) -> usize {
    serde_json::to_string(item).map_or(usize::MAX, |json| json.len() + 1)
}
