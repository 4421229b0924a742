//! The report as JSON: exactly what was submitted, with the fields in the documented order.

use super::report::Args;

impl Args {
    /// The report as JSON. Characters that control a terminal are written as `\u` escapes.
    ///
    /// # Errors
    /// The report could not be serialized.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut json = cofferdam_text::json(&serde_json::to_string_pretty(self)?);
        json.push('\n');
        Ok(json)
    }
}
