//! What can be wrong with a response, in a form for programs and in words.

use std::fmt;

use serde::Serialize;

/// What sort of problem it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Code {
    /// The response has no `---OUTPUT---` block.
    MissingBlock,
    /// A required field is not there.
    MissingField,
    /// A field that the contract does not know.
    UnknownField,
    /// A field that stands in the block more than once.
    DuplicateField,
    /// A value of another type.
    WrongType,
    /// A number out of its range, or a word that is none of the choices.
    OutOfRange,
    /// The words of the prompt instead of a value.
    Placeholder,
}

/// One thing that is wrong with a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContractProblem {
    /// What sort of problem it is.
    pub code: Code,
    /// The line of the response, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The field, as the response has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What was expected there.
    pub expected: String,
    /// What was there instead, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The nearest name of a field, or word of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub did_you_mean: Option<String>,
}

impl fmt::Display for ContractProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match (self.line, &self.field) {
            (Some(line), Some(field)) => format!("line {line}, {field}: "),
            (Some(line), None) => format!("line {line}: "),
            (None, Some(field)) => format!("{field}: "),
            (None, None) => String::new(),
        };
        write!(f, "{place}expected {}", self.expected)?;
        if let Some(found) = &self.found {
            write!(f, ", found {found}")?;
        }
        if let Some(name) = &self.did_you_mean {
            write!(f, "; did you mean '{name}'?")?;
        }
        Ok(())
    }
}
