//! The report for machines: exactly what was submitted, in the order of its documentation.

use cofferdam_sdk::ToolError;

use crate::inert::is_active;
use crate::report::Args;

/// Renders the report. Characters that would act on a terminal are written as `\u` escapes, so
/// the text can be looked at and still reads back as it was.
///
/// # Errors
/// `InvalidOutput` where the report can't be written as JSON.
pub fn render(args: &Args) -> Result<String, ToolError> {
    let plain = serde_json::to_string_pretty(args)
        .map_err(|error| ToolError::failed("InvalidOutput", error.to_string()))?;
    let mut json = String::with_capacity(plain.len() + 1);
    for c in plain.chars() {
        if is_active(c) {
            // Outside of strings JSON is plain ASCII: an active character is inside of one.
            for unit in c.encode_utf16(&mut [0; 2]) {
                json.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            json.push(c);
        }
    }
    json.push('\n');
    Ok(json)
}
