//! What the plugins of a call have asked the user, and the answers. Asking is not part of this module.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cofferdam_core::form::{Form, FormAnswer};

/// How many questions one call may ask.
pub(crate) const MAX_QUESTIONS: usize = 8;

/// A question of a plugin to the user.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginQuestion {
    /// The name of the plugin.
    pub plugin: String,
    /// What the plugin asks, in its own words.
    pub message: String,
    /// What the user is to fill in.
    pub form: Form,
}

/// What a plugin is told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QuestionsAnswer {
    /// The answers, in the order of the questions.
    Answers(Vec<FormAnswer>),
    /// The user can't be asked: the reason.
    Unavailable(String),
    /// More questions than one call may ask.
    TooMany,
    /// Nothing: the instance ends, and the call is made again with the answers.
    Asked,
}

/// The questions of one call.
#[derive(Debug, Default)]
pub struct QuestionGuard {
    /// Whether a user can be asked.
    can_ask: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of questions since the call began, or began again.
    asked: usize,
    /// The questions that the user has to be asked.
    wanted: Option<Vec<PluginQuestion>>,
    answered: Vec<Answered>,
    /// The plugins that could not ask, in words, for the caller.
    unavailable: BTreeSet<String>,
}

/// Questions that were asked together, with the answers, or why there are none.
#[derive(Debug)]
struct Answered {
    questions: Vec<PluginQuestion>,
    answers: Result<Vec<FormAnswer>, String>,
}

impl QuestionGuard {
    /// The guard of a call about which the user can be asked, or not.
    pub(crate) fn new(can_ask: bool) -> Self {
        Self { can_ask, state: Mutex::default() }
    }

    /// Begins the call, or begins it again: the answers stay.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.asked = 0;
        state.wanted = None;
        state.unavailable.clear();
    }

    /// Returns the answers to questions that a plugin asks together, or notes that the user has to be asked.
    pub(crate) fn ask(&self, questions: Vec<PluginQuestion>) -> QuestionsAnswer {
        let mut state = self.state();
        state.asked += questions.len();
        if state.asked > MAX_QUESTIONS {
            return QuestionsAnswer::TooMany;
        }
        let found = state.answered.iter().find(|answered| answered.questions == questions);
        let unavailable = match found.map(|answered| answered.answers.clone()) {
            Some(Ok(answers)) => return QuestionsAnswer::Answers(answers),
            Some(Err(why)) => why,
            None if !self.can_ask => "no user can be asked here".to_owned(),
            None => {
                // A call that asks something else each time has the same limit.
                let before: usize = state.answered.iter().map(|all| all.questions.len()).sum();
                if before + questions.len() > MAX_QUESTIONS {
                    return QuestionsAnswer::TooMany;
                }
                state.wanted.get_or_insert(questions);
                return QuestionsAnswer::Asked;
            }
        };
        let plugin = questions.first().map(|question| question.plugin.as_str()).unwrap_or_default();
        let why = format!("'{plugin}' could not ask the user: {unavailable}");
        state.unavailable.insert(why);
        QuestionsAnswer::Unavailable(unavailable)
    }

    /// The questions that the user has to be asked.
    pub(crate) fn wanted(&self) -> Option<Vec<PluginQuestion>> {
        self.state().wanted.clone()
    }

    /// Whether the user can be asked, so that the call may have to be made again.
    pub(crate) fn may_ask(&self) -> bool {
        self.can_ask
    }

    /// Notes the answers of the user, or why there are none.
    pub(crate) fn answered(
        &self,
        questions: Vec<PluginQuestion>,
        answers: Result<Vec<FormAnswer>, String>,
    ) {
        self.state().answered.push(Answered { questions, answers });
    }

    /// Who could not ask and why, in words: for the caller.
    pub(crate) fn unavailable(&self) -> Vec<String> {
        self.state().unavailable.iter().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn questions(count: usize, message: &str) -> Vec<PluginQuestion> {
        let form =
            Form::parse(r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#).unwrap();
        let question = PluginQuestion { plugin: "p".to_owned(), message: message.to_owned(), form };
        vec![question; count]
    }

    #[test]
    fn a_call_that_begins_again_gets_its_answers() {
        let guard = QuestionGuard::new(true);
        guard.begin();
        assert_eq!(guard.ask(questions(2, "a")), QuestionsAnswer::Asked);
        let answers = vec![FormAnswer::Declined, FormAnswer::Cancelled];
        guard.answered(guard.wanted().unwrap(), Ok(answers.clone()));
        guard.begin();
        assert_eq!(guard.wanted(), None);
        assert_eq!(guard.ask(questions(2, "a")), QuestionsAnswer::Answers(answers));
        assert_eq!(guard.ask(questions(1, "a")), QuestionsAnswer::Asked);
        guard.answered(guard.wanted().unwrap(), Err("no answer".to_owned()));
        guard.begin();
        assert_eq!(
            guard.ask(questions(1, "a")),
            QuestionsAnswer::Unavailable("no answer".to_owned())
        );
        assert_eq!(guard.unavailable(), ["'p' could not ask the user: no answer"]);
    }

    #[test]
    fn questions_are_bounded() {
        let guard = QuestionGuard::new(true);
        guard.begin();
        assert_eq!(guard.ask(questions(MAX_QUESTIONS + 1, "a")), QuestionsAnswer::TooMany);
        // A question that is repeated.
        let guard = QuestionGuard::new(true);
        guard.answered(questions(1, "a"), Ok(vec![FormAnswer::Declined]));
        for _ in 0..MAX_QUESTIONS {
            assert!(matches!(guard.ask(questions(1, "a")), QuestionsAnswer::Answers(_)));
        }
        assert_eq!(guard.ask(questions(1, "a")), QuestionsAnswer::TooMany);
        // Another question each time that the call is made again.
        let guard = QuestionGuard::new(true);
        for at in 0..MAX_QUESTIONS {
            guard.begin();
            assert_eq!(guard.ask(questions(1, &at.to_string())), QuestionsAnswer::Asked);
            guard.answered(guard.wanted().unwrap(), Ok(vec![FormAnswer::Declined]));
        }
        guard.begin();
        assert_eq!(guard.ask(questions(1, "last")), QuestionsAnswer::TooMany);
        let guard = QuestionGuard::default();
        let none = QuestionsAnswer::Unavailable("no user can be asked here".to_owned());
        assert_eq!(guard.ask(questions(1, "a")), none);
    }
}
