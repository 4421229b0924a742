//! What a script prints: kept up to a limit, beyond which the script ends.

use std::borrow::Cow;

use monty_types::{ExcType, MontyException, PrintWriter, PrintWriterCallback};

/// The largest size of what a script prints, in bytes.
pub const MAX_PRINTED_BYTES: usize = 64 << 10;

/// The text that a script has printed.
#[derive(Debug, Default)]
pub struct Printed {
    text: String,
    is_full: bool,
}

impl Printed {
    /// The writer for the interpreter.
    pub fn writer(&mut self) -> PrintWriter<'_> {
        PrintWriter::Callback(self)
    }

    /// Whether the script has printed more than the limit, whatever it did about the exception.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.text
    }

    fn add(&mut self, text: &str) -> Result<(), MontyException> {
        if self.text.len() + text.len() <= MAX_PRINTED_BYTES {
            self.text.push_str(text);
            return Ok(());
        }
        self.is_full = true;
        Err(MontyException::new(ExcType::MemoryError, Some("too much was printed".to_owned())))
    }
}

impl PrintWriterCallback for Printed {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.add(&output)
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.add(end.encode_utf8(&mut [0; 4]))
    }
}
