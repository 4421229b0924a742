//! Asks the user of a client whether a call may be made. In sessions of older revisions, the server
//! sends an elicitation request, and the user may answer at a terminal or in the console instead. Since
//! 2026-07-28, the result says that input is required, and the client makes the call again with the user's
//! answer; a call that is a task already asks by the state of the task.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ElicitRequest, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationSchema, InputRequest, InputRequiredResult, JsonObject,
    ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Server;
use super::connection::{Connection, client_name};
use super::slot::MAX_QUESTIONS;
use super::tasks::{Admitted, Task};
use cofferdam_core::outcome::{DenialCode, Failure, SkippedCode};
use cofferdam_core::policy::CallPattern;
use cofferdam_engine::call::{Later, Session};
use cofferdam_engine::host::{Approval, Approver, NOT_OPEN, Proposal, outdated};
use cofferdam_engine::runtime::blocking;
use cofferdam_text::escape_control;
use cofferdam_workspace::{
    AskedQuestion, Fingerprint, GivenAnswer, PausedId, Question, QuestionAnswer,
};

/// The key of the question in a result that requires input.
pub(super) const QUESTION: &str = "approval";

/// The fields of a question's form, and the values of the answer.
const ANSWER: &str = "answer";
const REASON: &str = "reason";
const ONCE: &str = "once";
const FOR_SESSION: &str = "session";
const NO: &str = "no";

/// How much of a reason is passed on, in bytes.
const MAX_REASON_BYTES: usize = 2000;

/// How long to wait for the user's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// The maximum number of open questions for calls that are made again. Beyond it, the oldest one is
/// removed.
const MAX_PENDING: usize = 256;

/// The maximum size of what is shown of a diff or of arguments, in bytes.
const MAX_SHOWN_BYTES: usize = 32 << 10;

/// The message if the client can't ask its user.
const CANNOT_ASK: &str = "this call needs the yes of a person, and this client can't ask (it does not \
                      support elicitation by forms)";

/// How a person answers for such a client.
const AT_TERMINAL: &str = "; a person who runs `cofferdam review answer` or `cofferdam console` in the workspace can answer";

/// How often to look for an answer at a terminal.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How the handle of a question begins for which a call was paused; its id follows.
const PAUSED: &str = "paused-";

/// The open questions of calls that clients make again.
#[derive(Default)]
pub(super) struct Pending(Mutex<HashMap<String, OpenQuestion>>);

struct OpenQuestion {
    /// The digest of the proposal that was shown.
    digest: String,
    /// The workspace when the user was asked.
    tree: Option<Fingerprint>,
    /// The role of the call.
    role: Option<String>,
    asked: Instant,
    /// What the user has approved before, for the same call.
    earlier: Vec<Answered>,
}

/// What the user has approved: the digest of the proposal, and the workspace when the user was asked.
#[derive(Clone)]
struct Answered {
    digest: String,
    tree: Option<Fingerprint>,
}

impl Pending {
    /// Stores a question and returns its handle. `earlier` is what was approved before, for the same
    /// call.
    fn ask(&self, proposal: &Proposal, role: Option<&str>, earlier: Vec<Answered>) -> String {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.retain(|_, question| question.asked.elapsed() < ANSWER_TIMEOUT);
        if questions.len() >= MAX_PENDING {
            let oldest = questions.iter().min_by_key(|(_, question)| question.asked);
            if let Some(oldest) = oldest.map(|(handle, _)| handle.clone()) {
                questions.remove(&oldest);
            }
        }
        let handle = Uuid::new_v4().to_string();
        let (digest, tree, role) = (proposal.digest(), proposal.tree, role.map(str::to_owned));
        let question = OpenQuestion { digest, tree, role, asked: Instant::now(), earlier };
        questions.insert(handle.clone(), question);
        handle
    }

    /// Removes and returns the open question with this handle. A question of another role stays open.
    fn take(&self, handle: &str, role: Option<&str>) -> Option<OpenQuestion> {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.get(handle).filter(|question| question.role.as_deref() == role)?;
        questions.remove(handle).filter(|question| question.asked.elapsed() < ANSWER_TIMEOUT)
    }
}

/// Asks the user of a client, for one call.
pub(super) struct ClientApprover {
    pending: Arc<Pending>,
    /// The call, whose permit is released while the user is asked.
    call: Arc<Admitted>,
    connection: Connection,
    /// The role that the call is made under.
    role: Option<String>,
    session: Session,
    /// The client, as it names itself.
    client: Option<String>,
    /// Who has answered at a terminal or in the console, for the record.
    elsewhere: OnceLock<String>,
    channel: Channel,
    /// Whether the client has a session, for which all calls of a tool can be approved.
    has_session: bool,
    /// The question that was answered, once it was looked for.
    question: Mutex<Option<OpenQuestion>>,
    /// What the client gets instead of a result, if it is asked or its answer is invalid.
    reply: Mutex<Option<Reply>>,
}

/// What the client has to ask first, or why its answer is invalid.
type Reply = Result<InputRequiredResult, ErrorData>;

/// How the user can be asked.
enum Channel {
    /// Not at all: the client did not declare elicitation in `initialize`.
    None,
    /// Not at all: the client did not declare elicitation with the call.
    Undeclared,
    /// By a request to the client.
    Request(Peer<RoleServer>),
    /// By the result of the call.
    Result,
    /// The user was asked: the handle and the answer.
    Answered(String, ElicitResult),
}

impl ClientApprover {
    pub(super) fn new(
        server: &Server,
        call: &Arc<Admitted>,
        request: &mut CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Self {
        let can = context.client_capabilities().is_some_and(|client| takes_forms(&client));
        let stateless = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let answer = request.input_responses.as_mut().and_then(|answers| answers.remove(QUESTION));
        let answer = answer.and_then(|answer| serde_json::from_value(answer).ok());
        let channel = match (request.request_state.take(), answer) {
            (Some(handle), Some(answer)) => Channel::Answered(handle, answer),
            _ if stateless && !can => Channel::Undeclared,
            _ if stateless => Channel::Result,
            _ if !can => Channel::None,
            _ => Channel::Request(context.peer.clone()),
        };
        let has_session = context.extensions.get::<Connection>().is_some();
        Self {
            pending: Arc::clone(&server.shared.pending),
            call: Arc::clone(call),
            connection: Connection::of(&context.extensions),
            role: server.role.clone(),
            session: server.session(&context.extensions),
            client: client_name(context),
            elsewhere: OnceLock::new(),
            channel,
            has_session,
            question: Mutex::default(),
            reply: Mutex::default(),
        }
    }

    /// The session of the call.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// The client, as it names itself.
    pub(super) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// The connection of the call.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns what the client gets instead of a result.
    pub(super) fn reply(&self) -> Option<Reply> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set_reply(&self, reply: Reply) {
        *self.reply.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
    }

    async fn ask(&self, proposal: &Proposal) -> Result<Approval, Failure> {
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: message(proposal),
            requested_schema: form(later(proposal).filter(|_| self.has_session)),
        };
        match &self.channel {
            Channel::None => self.wait(Way::Terminal, params, proposal).await,
            // Since 2026-07-28 this is an error of the protocol, which clients can act on.
            Channel::Undeclared => {
                let elicitation = ClientCapabilities::builder().enable_elicitation().build();
                let mut error = ErrorData::missing_required_client_capability(elicitation);
                error.message = match &proposal.flow {
                    Some(flow) => format!("{CANNOT_ASK}: {flow}").into(),
                    None => CANNOT_ASK.into(),
                };
                self.set_reply(Err(error));
                Err(Failure::new(DenialCode::ApprovalNeeded, CANNOT_ASK))
            }
            Channel::Answered(_, answer)
                if proposal.paused.is_some() && self.resumes() == proposal.paused =>
            {
                Ok(Approval { tree: proposal.tree, later: decided(answer)? })
            }
            Channel::Answered(handle, _) if proposal.paused.is_some() => {
                match self.resumes().is_some() || self.asked(handle).is_some() {
                    true => self.ask_once_more(proposal, params, Vec::new()).await,
                    false => Err(self.not_open()),
                }
            }
            Channel::Request(peer) => self.wait(Way::Request(peer), params, proposal).await,
            Channel::Answered(handle, answer) => match self.answered(handle, answer, proposal)? {
                Ok(approval) => Ok(approval),
                Err(earlier) => self.ask_once_more(proposal, params, earlier).await,
            },
            Channel::Result => self.ask_once_more(proposal, params, Vec::new()).await,
        }
    }

    /// Asks by the task that the call has become, or else by the result of the call.
    async fn ask_once_more(
        &self,
        proposal: &Proposal,
        params: ElicitRequestParams,
        earlier: Vec<Answered>,
    ) -> Result<Approval, Failure> {
        match self.call.job.settle() {
            Some(task) => {
                let paused = proposal.paused.as_ref().map(|id| format!("{PAUSED}{id}"));
                let paused = paused.zip(self.call.arguments.clone());
                self.wait(Way::Task(&task, paused), params, proposal).await
            }
            None => Err(self.ask_by_result(proposal, params, earlier)),
        }
    }

    /// Asks by the result of the call, which the client makes again with the answer.
    fn ask_by_result(
        &self,
        proposal: &Proposal,
        params: ElicitRequestParams,
        earlier: Vec<Answered>,
    ) -> Failure {
        let handle = match &proposal.paused {
            Some(paused) => format!("{PAUSED}{paused}"),
            None => self.pending.ask(proposal, self.role.as_deref(), earlier),
        };
        let request = InputRequest::Elicitation(ElicitRequest::new(params));
        let requests = [(QUESTION.to_owned(), request)].into();
        self.set_reply(Ok(InputRequiredResult::new(Some(requests), Some(handle))));
        Failure::new(SkippedCode::ApprovalPending, "a person has to say yes first")
    }

    /// Asks by a request to the client and at a terminal, and waits for the first answer.
    async fn wait(
        &self,
        way: Way<'_>,
        params: ElicitRequestParams,
        proposal: &Proposal,
    ) -> Result<Approval, Failure> {
        let (is_only, has_timeout) =
            (matches!(way, Way::Terminal), !matches!(way, Way::Request(_)));
        let needed = |message| Failure::new(DenialCode::ApprovalNeeded, message);
        let terminal = self.ask_at_terminal(proposal).await;
        if is_only && terminal.is_none() {
            return Err(needed(format!("{CANNOT_ASK}{AT_TERMINAL}")));
        }
        let asked = self.call.slot.aside(async {
            tokio::select! {
                Some(answer) = from_client(way, params) => decided(&answer.map_err(needed)?),
                Some(answer) = from_terminal(terminal, is_only) => {
                    let GivenAnswer { answer, by } = answer.map_err(needed)?;
                    // There is one answer.
                    let _ = self.elsewhere.set(format!("the user of {by}"));
                    decided_at_terminal(answer)
                }
                () = self.connection.silent.cancelled() => {
                    Err(needed(unasked("the client has closed the connection")))
                }
                () = tokio::time::sleep(ANSWER_TIMEOUT), if has_timeout => {
                    Err(needed(unasked("no answer in time")))
                }
            }
        });
        let later = asked.await.ok_or_else(|| {
            let message = format!(
                "{MAX_QUESTIONS} questions wait for the yes of a person already; try again later"
            );
            Failure::new(DenialCode::TooManyQuestions, message)
        })??;
        Ok(Approval { tree: proposal.tree, later })
    }

    /// Leaves the question for a user at a terminal, if there is one.
    async fn ask_at_terminal(&self, proposal: &Proposal) -> Option<AskedQuestion> {
        let for_session = proposal.for_session && self.has_session;
        let is_short = for_session
            && proposal.consent.is_none()
            && CallPattern::exact(&proposal.args).is_some();
        let question = Question {
            tool: proposal.tool.clone(),
            session: self.session.name().to_string(),
            client: self.client.clone(),
            role: self.role.clone(),
            text: message(proposal),
            for_session,
            args: is_short.then(|| proposal.args.clone()),
            is_consent: proposal.consent.is_some(),
        };
        let offer = Arc::clone(&self.call.offer);
        let asked = blocking(move || offer.host.workspace().ask(&question)).await;
        asked.unwrap_or_else(|error| {
            tracing::warn!("a question can't be answered at a terminal: {error}");
            None
        })
    }

    /// The question that the answer belongs to, if it is open.
    fn asked(&self, handle: &str) -> MutexGuard<'_, Option<OpenQuestion>> {
        let mut question = self.question.lock().unwrap_or_else(PoisonError::into_inner);
        if question.is_none() {
            *question = self.pending.take(handle, self.role.as_deref());
        }
        question
    }

    /// Compares a call that comes with the user's answer with what the user was shown. If the user has
    /// approved that, and the call needs another approval, returns what was approved before.
    fn answered(
        &self,
        handle: &str,
        answer: &ElicitResult,
        proposal: &Proposal,
    ) -> Result<Result<Approval, Vec<Answered>>, Failure> {
        let digest = proposal.digest();
        let mut question = self.asked(handle);
        let Some(question) = &mut *question else { return Err(self.not_open()) };
        let approved =
            |digest: &str| question.earlier.iter().find(|answered| answered.digest == digest);
        if let Some(Answered { tree, .. }) = approved(&digest) {
            return Ok(Ok(Approval { tree: *tree, later: Later::None }));
        }
        if question.digest == digest {
            let later = decided(answer)?;
            let tree = question.tree;
            question.earlier.push(Answered { digest, tree });
            return Ok(Ok(Approval { tree, later }));
        }
        match approved(&question.digest) {
            Some(_) => Ok(Err(question.earlier.clone())),
            None => Err(outdated("")),
        }
    }
}

impl Approver for ClientApprover {
    fn approve<'a>(&'a self, proposal: &'a Proposal) -> BoxFuture<'a, Result<Approval, Failure>> {
        self.ask(proposal).boxed()
    }

    fn was_asked(&self) -> bool {
        matches!(self.channel, Channel::Answered(..))
    }

    fn can_ask(&self) -> bool {
        match self.channel {
            Channel::None => self.call.offer.host.workspace().has_listener(),
            Channel::Undeclared => false,
            _ => true,
        }
    }

    fn answered_by(&self) -> Option<&str> {
        self.elsewhere.get().map(String::as_str)
    }

    fn resumes(&self) -> Option<PausedId> {
        let Channel::Answered(handle, _) = &self.channel else { return None };
        handle.strip_prefix(PAUSED).map(|id| id.parse().unwrap_or_default())
    }

    fn not_open(&self) -> Failure {
        // The protocol wants a state that is not the server's own to be an error.
        self.set_reply(Err(ErrorData::invalid_params(NOT_OPEN, None)));
        Failure::new(DenialCode::ApprovalUnknown, NOT_OPEN)
    }
}

/// Whether a client shows forms. One that declares elicitation without details does; one that
/// declares only URLs does not.
fn takes_forms(client: &ClientCapabilities) -> bool {
    client.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none())
}

/// How a call asks that waits for the answer.
enum Way<'a> {
    /// By a request to the client.
    Request(&'a Peer<RoleServer>),
    /// By the task that the call has become.
    Task(&'a Arc<Task>, Option<(String, JsonObject)>),
    /// Only at a terminal.
    Terminal,
}

/// Asks the client. Returns `None` if it can't be asked.
async fn from_client(
    way: Way<'_>,
    params: ElicitRequestParams,
) -> Option<Result<ElicitResult, String>> {
    match way {
        Way::Request(peer) => {
            let asked = peer.create_elicitation_with_timeout(params, Some(ANSWER_TIMEOUT)).await;
            Some(asked.map_err(unasked))
        }
        Way::Task(task, paused) => task.ask(params, paused).await.map(Ok),
        Way::Terminal => None,
    }
}

/// Waits for an answer at a terminal. If there will be none, returns an error if this is the
/// only way to ask, and `None` otherwise.
async fn from_terminal(
    asked: Option<AskedQuestion>,
    is_only: bool,
) -> Option<Result<GivenAnswer, String>> {
    let asked = Arc::new(asked?);
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let question = Arc::clone(&asked);
        match blocking(move || question.answer()).await {
            Ok(None) => {}
            Ok(answer) => return answer.map(Ok),
            Err(error) => return is_only.then(|| Err(unasked(error))),
        }
    }
}

fn unasked(why: impl std::fmt::Display) -> String {
    format!("the person could not be asked: {why}")
}

/// What else a yes can be for in this session.
fn later(proposal: &Proposal) -> Option<&'static str> {
    match (&proposal.consent, proposal.for_session) {
        (_, false) => None,
        (Some(_), true) => Some("Yes, and the same again in this session"),
        (None, true) => Some("Yes, and later calls of this tool in this session"),
    }
}

/// The form of a question, with what else a yes can be for. Nothing in it is required: a client that shows
/// only yes and no has that.
fn form(later: Option<&str>) -> ElicitationSchema {
    let mut choices = vec![(ONCE, "Yes, this call")];
    choices.extend(later.map(|later| (FOR_SESSION, later)));
    choices.push((NO, "No"));
    let choices: Vec<Value> =
        choices.iter().map(|(value, title)| json!({"const": value, "title": title})).collect();
    let form = json!({
        "type": "object",
        "properties": {
            ANSWER: {"type": "string", "title": "Answer", "oneOf": choices, "default": ONCE},
            REASON: {"type": "string", "title": "Reason for the agent", "maxLength": MAX_REASON_BYTES},
        },
    });
    serde_json::from_value(form).unwrap_or_else(|_| ElicitationSchema::new(Default::default()))
}

/// Which later calls of the tool in the session the user approves as well.
///
/// # Errors
/// `Declined` with the user's reason.
fn decided(answer: &ElicitResult) -> Result<Later, Failure> {
    let text = |name: &str| answer.content.as_ref()?.get(name)?.as_str();
    let no = || Err(declined(text(REASON)));
    match answer.action {
        ElicitationAction::Accept => {
            match answer.content.as_ref().and_then(|content| content.get(ANSWER)) {
                None => Ok(Later::None),
                Some(answer) if answer == ONCE => Ok(Later::None),
                Some(answer) if answer == FOR_SESSION => Ok(Later::All),
                // What is not known to be a yes is none.
                Some(_) => no(),
            }
        }
        ElicitationAction::Decline => no(),
        _ => Err(Failure::new(DenialCode::Declined, "the person did not answer")),
    }
}

/// As [`decided`], for an answer at a terminal.
fn decided_at_terminal(answer: QuestionAnswer) -> Result<Later, Failure> {
    match answer {
        QuestionAnswer::Once => Ok(Later::None),
        QuestionAnswer::ForSession => Ok(Later::All),
        QuestionAnswer::Like { pattern, minutes } => {
            let time = Duration::from_secs(60 * u64::from(minutes));
            let like = |pattern| Later::Like(pattern, time);
            Ok(CallPattern::new(pattern).map_or(Later::None, like))
        }
        QuestionAnswer::No(reason) => Err(declined(reason.as_deref())),
    }
}

/// The failure of a call to which the user has said no.
fn declined(reason: Option<&str>) -> Failure {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    let message = match reason {
        Some(reason) => {
            let end = reason.floor_char_boundary(MAX_REASON_BYTES);
            format!("the person said no: {}", escape_control(&reason[..end]))
        }
        None => "the person said no".to_owned(),
    };
    Failure::new(DenialCode::Declined, message)
}

/// Returns the text for the user: the tool, and what it would change or its arguments. Characters that
/// hide text are escaped.
fn message(proposal: &Proposal) -> String {
    let Proposal { tool, args, diff, flow, consent, .. } = proposal;
    let question = match (flow, consent) {
        (Some(flow), _) => format!("May {tool} go on? Note that {flow}."),
        (None, Some(request)) => {
            let plugin = &request.plugin;
            format!("May {tool} go on? The plugin '{plugin}' asks for your consent: {request}.")
        }
        (None, None) => format!("May {tool} be called?"),
    };
    let (what, text) = match diff {
        Some(diff) if diff.is_empty() => ("It changes nothing. Its arguments", args.to_string()),
        Some(diff) => ("It changes", String::from_utf8_lossy(diff).into_owned()),
        None => ("Its arguments", format!("{args:#}")),
    };
    let shown = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    let rest = match text.len() - shown.len() {
        0 => String::new(),
        rest => format!("\n\nATTENTION: {rest} more bytes are not shown."),
    };
    format!("{question} {what}:\n\n{}{rest}", escape_control(shown))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use cofferdam_engine::call::{SecretFlow, SecretRead};

    fn proposal(diff: Option<&str>) -> Proposal {
        Proposal {
            tool: "shell.run_command".to_owned(),
            args: json!({"command": "rm\u{202e} -r x"}),
            diff: diff.map(|diff| diff.as_bytes().to_vec()),
            change: None,
            tree: None,
            flow: None,
            consent: None,
            for_session: false,
            paused: None,
        }
    }

    #[test]
    fn a_question_is_answered_once_and_for_what_was_shown() {
        let pending = Pending::default();
        let shown = proposal(None);
        let digest =
            |handle: &str, role| pending.take(handle, role).map(|question| question.digest);
        let handle = pending.ask(&shown, None, Vec::new());
        assert_eq!(digest(&handle, None), Some(shown.digest()));
        assert_eq!(digest(&handle, None), None);
        assert_ne!(shown.digest(), proposal(Some("-a\n+b\n")).digest());
        assert_eq!(digest("made up", None), None);
        // Binary files with different contents look the same in a diff.
        let binary = |content| Proposal { change: Some([content; 32]), ..proposal(Some("Binary")) };
        assert_eq!(binary(1).digest(), binary(1).digest());
        assert_ne!(binary(1).digest(), binary(2).digest());
        let handles: Vec<String> =
            (0..=MAX_PENDING).map(|_| pending.ask(&shown, None, Vec::new())).collect();
        assert_eq!(digest(&handles[0], None), None);
        assert_eq!(digest(&handles[MAX_PENDING], None), Some(shown.digest()));
    }

    #[test]
    fn a_question_of_one_role_is_not_answered_under_another() {
        let pending = Pending::default();
        for (asked, others) in [(Some("a"), [None, Some("b")]), (None, [Some("a"), Some("b")])] {
            let handle = pending.ask(&proposal(None), asked, Vec::new());
            for other in others {
                assert!(pending.take(&handle, other).is_none());
            }
            assert!(pending.take(&handle, asked).is_some());
        }
    }

    #[test]
    fn only_clients_that_show_forms_are_asked() {
        for (client, can) in [
            (json!({}), false),
            (json!({"elicitation": {}}), true),
            (json!({"elicitation": {"form": {}}}), true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true),
            (json!({"elicitation": {"url": {}}}), false),
        ] {
            let capabilities: ClientCapabilities = serde_json::from_value(client.clone()).unwrap();
            assert_eq!(takes_forms(&capabilities), can, "{client}");
        }
    }

    #[test]
    fn the_answer_of_a_form_counts() {
        let decide = |answer: Value| {
            decided(&serde_json::from_value(answer).unwrap()).map_err(|failure| failure.message)
        };
        for (answer, wanted) in [
            (json!({"action": "accept"}), Ok(Later::None)),
            (json!({"action": "accept", "content": {}}), Ok(Later::None)),
            (json!({"action": "accept", "content": {"answer": "once"}}), Ok(Later::None)),
            (json!({"action": "accept", "content": {"answer": "session"}}), Ok(Later::All)),
            (json!({"action": "accept", "content": {"answer": 5}}), Err("the person said no")),
            (json!({"action": "accept", "content": {"answer": "No"}}), Err("the person said no")),
            (json!({"action": "accept", "content": {"answer": null}}), Err("the person said no")),
            (json!({"action": "accept", "content": {"answer": "no"}}), Err("the person said no")),
            (
                json!({"action": "accept", "content": {"answer": "no", "reason": " use b\u{1b} "}}),
                Err("the person said no: use b\\u{1b}"),
            ),
            (
                json!({"action": "decline", "content": {"reason": "not now"}}),
                Err("the person said no: not now"),
            ),
            (json!({"action": "decline"}), Err("the person said no")),
            (json!({"action": "cancel"}), Err("the person did not answer")),
        ] {
            assert_eq!(decide(answer.clone()), wanted.map_err(str::to_owned), "{answer}");
        }
        let values = |for_session| {
            let asked = Proposal { for_session, ..proposal(None) };
            let form = serde_json::to_value(form(later(&asked))).unwrap();
            assert!(form["required"].as_array().is_none_or(Vec::is_empty), "{form}");
            let choices = form["properties"][ANSWER]["oneOf"].as_array().unwrap();
            choices.iter().map(|choice| choice["const"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(values(false), ["once", "no"]);
        assert_eq!(values(true), ["once", "session", "no"]);
    }

    #[test]
    fn what_is_shown_hides_nothing() {
        let text = message(&proposal(None));
        assert!(text.starts_with("May shell.run_command be called? Its arguments:"), "{text}");
        assert!(text.contains("\\u{202e}"), "{text}");
        assert!(message(&proposal(Some("-a\n+b\n"))).ends_with("It changes:\n\n-a\n+b\n"));
        assert!(message(&proposal(Some(""))).contains("It changes nothing. Its arguments:\n\n{"));
        let read = SecretRead { secret: "key".to_owned(), what: "prod\n.key".to_owned() };
        let origins = ["https://x.example".parse().unwrap()].into();
        let flow = SecretFlow { reads: [read].into(), origins, program: None };
        let asked = Proposal { flow: Some(flow), ..proposal(None) };
        assert_ne!(asked.digest(), proposal(None).digest());
        let wanted = "May shell.run_command go on? Note that it has read the secret 'key' \
                      (prod⟨U+000A⟩.key), and would send to https://x.example. Its arguments:\n\n{";
        assert!(message(&asked).starts_with(wanted), "{}", message(&asked));
        let long = message(&proposal(Some(&"x".repeat(MAX_SHOWN_BYTES + 5))));
        assert!(long.ends_with("ATTENTION: 5 more bytes are not shown."), "{}", long.len());
    }
}
