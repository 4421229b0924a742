//! `cofferdam:host/questions`: questions of a plugin to the user. This module checks what is asked, and ends the
//! instance if the user has to be asked ([`QuestionGuard`](crate::call::QuestionGuard)).

use wasmtime::{Result, Trap};

use super::bindings::cofferdam::host::questions::{Answer, Error, Host, Question};
use super::state::CallState;
use crate::call::{PluginQuestion, QuestionsAnswer, Stop};
use cofferdam_core::form::{Form, FormAnswer};
use cofferdam_core::outcome::SkippedCode;

/// How many questions may be asked together.
const MAX_TOGETHER: usize = 8;

/// The longest message of a question, in bytes.
const MAX_MESSAGE_BYTES: usize = 2000;

impl Host for CallState {
    fn ask(&mut self, questions: Vec<Question>) -> Result<std::result::Result<Vec<Answer>, Error>> {
        let questions = match self.checked(questions) {
            Ok(questions) => questions,
            Err(error) => return Ok(Err(error)),
        };
        let context = &self.context;
        Ok(match context.questions.ask(questions) {
            QuestionsAnswer::Answers(answers) => Ok(answers.into_iter().map(answer).collect()),
            QuestionsAnswer::Unavailable(why) => Err(Error::Unavailable(why)),
            QuestionsAnswer::TooMany => Err(Error::TooMany),
            QuestionsAnswer::Asked => {
                let why = "the user has to answer first".to_owned();
                context.control.note(Stop::Ended(SkippedCode::ApprovalPending.into(), why));
                return Err(Trap::Interrupt.into());
            }
        })
    }
}

impl CallState {
    fn checked(&self, questions: Vec<Question>) -> std::result::Result<Vec<PluginQuestion>, Error> {
        let permissions = &self.context.permissions;
        let plugin = permissions.plugin();
        if !permissions.capabilities.questions {
            let why = format!("the plugin '{plugin}' may not ask questions (questions = true)");
            return Err(Error::Denied(why));
        }
        if questions.is_empty() || questions.len() > MAX_TOGETHER {
            return Err(Error::Invalid(format!(
                "1 to {MAX_TOGETHER} questions are asked together"
            )));
        }
        let question = |(at, Question { message, form }): (usize, Question)| {
            let invalid = |why: String| Error::Invalid(format!("question {at}: {why}"));
            if message.trim().is_empty() || message.len() > MAX_MESSAGE_BYTES {
                return Err(invalid(format!("its message has 1 to {MAX_MESSAGE_BYTES} bytes")));
            }
            let form = Form::parse(&self.context.redacted(&form));
            let form = form.map_err(|error| invalid(error.to_string()))?;
            let message = self.context.redacted(&message);
            Ok(PluginQuestion { plugin: plugin.to_owned(), message, form })
        };
        (1..).zip(questions).map(question).collect()
    }
}

fn answer(answer: FormAnswer) -> Answer {
    match answer {
        FormAnswer::Accepted(content) => {
            Answer::Accepted(serde_json::Value::Object(content).to_string())
        }
        FormAnswer::Declined => Answer::Declined,
        FormAnswer::Cancelled => Answer::Cancelled,
    }
}
