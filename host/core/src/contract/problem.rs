//! Problems of a response, for programs and as text.

use std::fmt;

use serde::Serialize;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Code {
    /// The response has no `---OUTPUT---` block.
    MissingBlock,
    /// A required field is missing.
    MissingField,
    /// The contract has no such field.
    UnknownField,
    /// A field is in the block more than once.
    DuplicateField,
    /// The value has another type.
    WrongType,
    /// A number out of its range, or a word that is none of the choices.
    OutOfRange,
    /// The value is the description in the prompt.
    Placeholder,
}

/// One problem of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContractProblem {
    /// The kind of the problem.
    pub code: Code,
    /// The line of the response, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The field, as written in the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What was expected there.
    pub expected: String,
    /// What was found instead, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The most similar name of a field or word of a choice.
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
