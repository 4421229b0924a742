//! Questions to the user, each with a form. The plugin needs the grant `questions`.
//!
//! While the user is asked, the instance ends, and the call is made again with the answers. So ask before doing
//! what can't be undone, and before long work. Never ask for passwords, keys or other secrets.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ToolError;
use crate::bindings::cofferdam::host::questions::{self, Error};

/// A question to the user.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What the user is asked, 1 to 2,000 bytes.
    pub message: String,
    /// The form: the JSON Schema of an object with 1 to 20 fields, each a string, a number, an integer, a boolean,
    /// or one or several of some choices, as MCP's elicitation has them.
    pub form: Value,
}

/// The answer of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<T> {
    /// The filled form; it fits its schema.
    Accepted(T),
    /// The user has said no.
    Declined,
    /// The user has not answered.
    Cancelled,
}

impl Question {
    /// A question with a form.
    pub fn new(message: impl Into<String>, form: Value) -> Self {
        Self { message: message.into(), form }
    }
}

/// Asks one question.
///
/// # Errors
/// `NoUser` if no user can be asked; `QuestionRefused` if the plugin may not ask, has asked too much, or the
/// question is invalid; `InvalidAnswer` if the form's fields are not those of `T`.
pub fn ask<T: DeserializeOwned>(message: &str, form: Value) -> Result<Answer<T>, ToolError> {
    let answers = ask_all(&[Question::new(message, form)])?;
    answers.into_iter().next().map_or(Ok(Answer::Cancelled), parsed)
}

/// Asks 1 to 8 questions together; the answers are in their order. A call may ask 8 questions in all.
///
/// # Errors
/// As [`ask`].
pub fn ask_all(questions: &[Question]) -> Result<Vec<Answer<Value>>, ToolError> {
    let question = |Question { message, form }: &Question| questions::Question {
        message: message.clone(),
        form: form.to_string(),
    };
    let all: Vec<questions::Question> = questions.iter().map(question).collect();
    let answers = questions::ask(&all).map_err(refused)?;
    answers.into_iter().map(answer).collect()
}

fn answer(answer: questions::Answer) -> Result<Answer<Value>, ToolError> {
    Ok(match answer {
        questions::Answer::Accepted(content) => {
            Answer::Accepted(serde_json::from_str(&content).map_err(|error| invalid(&error))?)
        }
        questions::Answer::Declined => Answer::Declined,
        questions::Answer::Cancelled => Answer::Cancelled,
    })
}

fn parsed<T: DeserializeOwned>(answer: Answer<Value>) -> Result<Answer<T>, ToolError> {
    Ok(match answer {
        Answer::Accepted(content) => {
            Answer::Accepted(serde_json::from_value(content).map_err(|error| invalid(&error))?)
        }
        Answer::Declined => Answer::Declined,
        Answer::Cancelled => Answer::Cancelled,
    })
}

fn refused(error: Error) -> ToolError {
    match error {
        Error::Unavailable(why) => ToolError::unavailable("NoUser", why),
        Error::Denied(why) => ToolError::denied("QuestionRefused", why),
        Error::Invalid(why) => ToolError::failed("QuestionRefused", why),
        Error::TooMany => {
            ToolError::limit("QuestionRefused", "a call may ask the user 8 questions in all")
        }
    }
}

fn invalid(error: &serde_json::Error) -> ToolError {
    ToolError::failed("InvalidAnswer", format!("the answer of the user: {error}"))
}
