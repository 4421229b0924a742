//! The report for machines: exactly what was submitted, in the order of its documentation.

use super::report::Args;
use crate::inert::is_active;

impl Args {
    /// The report as JSON. Characters that would act on a terminal are written as `\u` escapes,
    /// so the text can be looked at and still reads back as it was.
    ///
    /// # Errors
    /// The report can't be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let plain = serde_json::to_string_pretty(self)?;
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
}
