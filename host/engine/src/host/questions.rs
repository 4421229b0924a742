//! Questions of plugins to the user. The instance ends at a question, and nothing that the call changed is
//! kept. With the answers the call is made again.

use super::Host;
use super::approver::{AskedForms, FormAnswers};
use super::cancel::cancelled;
use super::context::{ActiveCall, RunOptions};
use crate::call::{PluginQuestion, QuestionGuard};
use crate::dispatch::{self, GrantedCall};
use crate::journal::{DecisionRecord, Entry, Event, bounded};
use cofferdam_core::form::FormAnswer;
use cofferdam_core::outcome::{DenialCode, Failure};

/// The guard of a call that is about to be made. The user is not asked during calls that call tools: what
/// those have done can't be done again.
pub(super) fn guard(options: &RunOptions, call: &GrantedCall) -> QuestionGuard {
    let may_ask = call.permissions.capabilities.questions && !call.calls_tools();
    // Last, since it looks for a program that answers.
    let can_ask = || options.approver.as_ref().is_some_and(|approver| approver.can_ask());
    QuestionGuard::new(may_ask && can_ask())
}

impl Host {
    /// Asks the user what the plugins of a call want to know, and notes the answers.
    ///
    /// # Errors
    /// The call ends: the user has not answered yet, or has as many questions as they can have.
    pub(super) async fn ask_questions(
        &self,
        active: &ActiveCall<'_>,
        call: &GrantedCall,
        questions: Vec<PluginQuestion>,
    ) -> Result<(), Failure> {
        let options = active.run.options;
        let Some(approver) = &options.approver else {
            active.questions.answered(questions, Err("no user can be asked here".to_owned()));
            return Ok(());
        };
        let tool = call.call().tool().qualified_name().into();
        let asked = AskedForms { tool, args: call.call().args().clone(), questions };
        let answered = tokio::select! {
            answered = approver.ask(&asked) => answered,
            () = cancelled(options.cancel.clone()) => return Err(dispatch::cancelled()),
        };
        let answers = match answered {
            Ok(FormAnswers { answers, is_new }) => {
                if is_new {
                    let by = approver.answered_by().map(str::to_owned);
                    self.record_answers(active, &asked, &answers, by);
                }
                Ok(answers)
            }
            Err(failure) if failure.code.as_str() == DenialCode::ApprovalNeeded.as_str() => {
                Err(failure.message)
            }
            Err(failure) => return Err(failure),
        };
        active.questions.answered(asked.questions, answers);
        Ok(())
    }

    /// Records each question with how it was answered. What the user has filled in is not recorded.
    fn record_answers(
        &self,
        active: &ActiveCall<'_>,
        asked: &AskedForms,
        answers: &[FormAnswer],
        by: Option<String>,
    ) {
        let options = active.run.options;
        let approver = by.unwrap_or_else(|| super::approval::approver_name(active));
        for (question, answer) in asked.questions.iter().zip(answers) {
            let answer = match answer {
                FormAnswer::Accepted(_) => "answered",
                FormAnswer::Declined => "declined",
                FormAnswer::Cancelled => "not answered",
            };
            let PluginQuestion { plugin, message, .. } = question;
            let mut event = Event::decided(
                Event::QUESTION,
                DecisionRecord {
                    answer: answer.to_owned(),
                    approver: approver.clone(),
                    client: options.client_name.clone(),
                    session: Some(options.session.name().to_string()),
                    role: options.role.clone(),
                    shown: bounded(&format!("the plugin '{plugin}' asks: {message}")),
                    ..DecisionRecord::default()
                },
            );
            event.tool = Some(asked.tool.clone());
            event.call = Some(active.id.clone());
            self.append(Entry::Event(event));
        }
    }
}
