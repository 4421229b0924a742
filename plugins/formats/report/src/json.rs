//! The report for machines: exactly what was submitted, in the order of its documentation.

use super::report::Args;

impl Args {
    /// The report as JSON. Characters that would act on a terminal are written as `\u` escapes,
    /// so the text can be looked at and still reads back as it was.
    ///
    /// # Errors
    /// The report can't be written as JSON.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut json = cofferdam_text::json(&serde_json::to_string_pretty(self)?);
        json.push('\n');
        Ok(json)
    }
}
