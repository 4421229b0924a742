//! Asks the user of a client whether a call may be made, and the questions of plugins. In sessions of older revisions, the server
//! sends an elicitation request, and the user may answer at a terminal or in the console instead. Since
//! 2026-07-28, the result says that input is required, and the client makes the call again with the user's
//! answer; a call that is a task already asks by the state of the task.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, try_join_all};
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
use super::forms;
use super::slot::MAX_QUESTIONS;
use super::tasks::{APPROVAL, Admitted, Task};
use cofferdam_core::form::FormAnswer;
use cofferdam_core::outcome::{DenialCode, Failure, SkippedCode};
use cofferdam_core::policy::CallPattern;
use cofferdam_engine::call::{Later, PluginQuestion, Session};
use cofferdam_engine::host::{
    Approval, Approver, AskedForms, FormAnswers, NOT_OPEN, Proposal, outdated,
};
use cofferdam_engine::runtime::blocking;
use cofferdam_text::escape_control;
use cofferdam_workspace::{
    AskedForm, AskedQuestion, Fingerprint, GivenAnswer, PausedId, Question, QuestionAnswer,
};

/// The key of the question in a result that requires input.
pub(super) const QUESTION: &str = APPROVAL;

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
    /// The digest of what was shown.
    digest: String,
    /// The workspace when the user was asked.
    tree: Option<Fingerprint>,
    /// The role of the call.
    role: Option<String>,
    asked: Instant,
    /// What the user has answered before, for the same call.
    earlier: Vec<Answered>,
}

/// What the user has answered, by the digest of what was shown.
#[derive(Clone)]
struct Answered {
    digest: String,
    given: Given,
}

/// An answer of the user.
#[derive(Clone)]
enum Given {
    /// A yes to a call, with the workspace when the user was asked.
    Yes(Option<Fingerprint>),
    /// The answers to questions of plugins.
    Forms(Vec<FormAnswer>),
}

impl OpenQuestion {
    /// What the user has answered before to this.
    fn given(&self, digest: &str) -> Option<&Given> {
        let found = self.earlier.iter().find(|answered| answered.digest == digest);
        found.map(|answered| &answered.given)
    }

    fn add(&mut self, given: Given) {
        self.earlier.push(Answered { digest: self.digest.clone(), given });
    }

    /// What was answered before, if this question is, so that the call may ask the next one.
    ///
    /// # Errors
    /// The call does not ask any more what the user has answered.
    fn next(&self) -> Result<Vec<Answered>, Failure> {
        match self.given(&self.digest) {
            Some(_) => Ok(self.earlier.clone()),
            None => Err(outdated("")),
        }
    }
}

impl Pending {
    /// Stores a question and returns its handle. `shown` is the digest of what the user is shown, with the
    /// workspace at that time, and `earlier` what was answered before, for the same call.
    fn ask(
        &self,
        (digest, tree): (String, Option<Fingerprint>),
        role: Option<&str>,
        earlier: Vec<Answered>,
    ) -> String {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.retain(|_, question| question.asked.elapsed() < ANSWER_TIMEOUT);
        if questions.len() >= MAX_PENDING {
            let oldest = questions.iter().min_by_key(|(_, question)| question.asked);
            if let Some(oldest) = oldest.map(|(handle, _)| handle.clone()) {
                questions.remove(&oldest);
            }
        }
        let handle = Uuid::new_v4().to_string();
        let (role, asked) = (role.map(str::to_owned), Instant::now());
        let question = OpenQuestion { digest, tree, role, asked, earlier };
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
    /// The user was asked: the handle and the answers, by the keys of the questions.
    Answered(String, BTreeMap<String, ElicitResult>),
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
        let answers = request.input_responses.take().unwrap_or_default().into_iter();
        let answers: BTreeMap<String, ElicitResult> = answers
            .filter_map(|(key, answer)| Some((key, serde_json::from_value(answer).ok()?)))
            .collect();
        let channel = match request.request_state.take() {
            Some(handle) if !answers.is_empty() => Channel::Answered(handle, answers),
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

    async fn ask_about(&self, proposal: &Proposal) -> Result<Approval, Failure> {
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
            Channel::Answered(_, answers)
                if proposal.paused.is_some() && self.resumes() == proposal.paused =>
            {
                match answers.get(QUESTION) {
                    Some(answer) => Ok(Approval { tree: proposal.tree, later: decided(answer)? }),
                    None => self.ask_once_more(proposal, params, Vec::new()).await,
                }
            }
            Channel::Answered(handle, _) if proposal.paused.is_some() => {
                match self.resumes().is_some() || self.asked(handle).is_some() {
                    true => self.ask_once_more(proposal, params, Vec::new()).await,
                    false => Err(self.not_open()),
                }
            }
            Channel::Request(peer) => self.wait(Way::Request(peer), params, proposal).await,
            Channel::Answered(handle, answers) => match self.answered(handle, answers, proposal)? {
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
                let key = (APPROVAL, task.number());
                let way = Way::Task { task: &task, key, paused };
                self.wait(way, params, proposal).await
            }
            None => {
                let handle = match &proposal.paused {
                    Some(paused) => format!("{PAUSED}{paused}"),
                    None => {
                        let shown = (proposal.digest(), proposal.tree);
                        self.pending.ask(shown, self.role.as_deref(), earlier)
                    }
                };
                Err(self.ask_by_result([(QUESTION.to_owned(), params)].into(), handle))
            }
        }
    }

    /// Asks by the result of the call, which the client makes again with the answers.
    fn ask_by_result(
        &self,
        questions: BTreeMap<String, ElicitRequestParams>,
        handle: String,
    ) -> Failure {
        let request = |(key, params)| (key, InputRequest::Elicitation(ElicitRequest::new(params)));
        let requests = questions.into_iter().map(request).collect();
        self.set_reply(Ok(InputRequiredResult::new(Some(requests), Some(handle))));
        Failure::new(SkippedCode::ApprovalPending, "a person has to say yes first")
    }

    /// Asks whether a call may be made, and waits for the answer.
    async fn wait(
        &self,
        way: Way<'_>,
        params: ElicitRequestParams,
        proposal: &Proposal,
    ) -> Result<Approval, Failure> {
        let later = self.aside(async {
            match self.answer(way, params, self.question(proposal)).await? {
                UserReply::Client(answer) => decided(&answer),
                UserReply::Elsewhere(answer) => decided_at_terminal(answer),
            }
        });
        Ok(Approval { tree: proposal.tree, later: later.await? })
    }

    /// Waits for the user, and releases the permit of the call meanwhile.
    ///
    /// # Errors
    /// `TooManyQuestions`.
    async fn aside<T>(
        &self,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.call.slot.aside(answer).await.unwrap_or_else(|| {
            let message = format!(
                "{MAX_QUESTIONS} questions wait for the answer of a person already; try again later"
            );
            Err(Failure::new(DenialCode::TooManyQuestions, message))
        })
    }

    /// Asks by a request to the client and at a terminal, and waits for the first answer.
    async fn answer(
        &self,
        way: Way<'_>,
        params: ElicitRequestParams,
        question: Question,
    ) -> Result<UserReply, Failure> {
        let (is_only, has_timeout) =
            (matches!(way, Way::Terminal), !matches!(way, Way::Request(_)));
        let terminal = self.ask_at_terminal(question).await;
        if is_only && terminal.is_none() {
            return Err(needed(format!("{CANNOT_ASK}{AT_TERMINAL}")));
        }
        tokio::select! {
            Some(answer) = from_client(way, params) => Ok(UserReply::Client(answer.map_err(needed)?)),
            Some(answer) = from_terminal(terminal, is_only) => {
                let GivenAnswer { answer, by } = answer.map_err(needed)?;
                // The first one counts for all questions that were asked together.
                let _ = self.elsewhere.set(format!("the user of {by}"));
                Ok(UserReply::Elsewhere(answer))
            }
            () = self.connection.silent.cancelled() => {
                Err(needed(unasked("the client has closed the connection")))
            }
            () = tokio::time::sleep(ANSWER_TIMEOUT), if has_timeout => {
                Err(needed(unasked("no answer in time")))
            }
        }
    }

    /// Asks the questions of plugins.
    async fn ask_forms(&self, asked: &AskedForms) -> Result<FormAnswers, Failure> {
        match &self.channel {
            Channel::None => self.wait_for_forms(&Way::Terminal, asked).await,
            Channel::Undeclared => Err(needed(CANNOT_ASK.to_owned())),
            Channel::Request(peer) => self.wait_for_forms(&Way::Request(peer), asked).await,
            Channel::Result => self.ask_forms_once_more(asked, Vec::new()).await,
            Channel::Answered(handle, answers) => {
                match self.answered_forms(handle, answers, asked)? {
                    Ok(answers) => Ok(answers),
                    Err(earlier) => self.ask_forms_once_more(asked, earlier).await,
                }
            }
        }
    }

    /// Asks by the task that the call has become, or else by the result of the call.
    async fn ask_forms_once_more(
        &self,
        asked: &AskedForms,
        earlier: Vec<Answered>,
    ) -> Result<FormAnswers, Failure> {
        if let Some(task) = self.call.job.settle() {
            let way = Way::Task { task: &task, key: (forms::QUESTION, 0), paused: None };
            return self.wait_for_forms(&way, asked).await;
        }
        let request =
            |(number, question)| Ok((forms::key(number), forms::request(&asked.tool, question)?));
        let requests = (1..).zip(&asked.questions).map(request).collect::<Result<_, Failure>>()?;
        let handle = self.pending.ask((asked.digest(), None), self.role.as_deref(), earlier);
        Err(self.ask_by_result(requests, handle))
    }

    /// Asks questions of plugins, and waits for the answers to all of them: one after the other by requests to
    /// the client, which may show only one at a time, and otherwise all at once.
    async fn wait_for_forms(
        &self,
        way: &Way<'_>,
        asked: &AskedForms,
    ) -> Result<FormAnswers, Failure> {
        let one = async |(way, question): (Way<'_>, &PluginQuestion)| {
            let params = forms::request(&asked.tool, question)?;
            let form = &question.form;
            let shown = self.form_question(&asked.tool, question);
            Ok(match self.answer(way, params, shown).await? {
                UserReply::Client(answer) => forms::of_client(form, &answer),
                UserReply::Elsewhere(answer) => forms::of_user(form, answer),
            })
        };
        // The keys of the questions are in their order.
        let questions = asked.questions.iter().map(|question| (way.of_next(), question));
        let questions: Vec<(Way<'_>, &PluginQuestion)> = questions.collect();
        let all = async {
            if !matches!(way, Way::Request(_)) {
                return try_join_all(questions.into_iter().map(one)).await;
            }
            let mut answers = Vec::new();
            for question in questions {
                answers.push(one(question).await?);
            }
            Ok(answers)
        };
        let in_time = async {
            let late = |_| Err(needed(unasked("no answer in time")));
            tokio::time::timeout(ANSWER_TIMEOUT, all).await.unwrap_or_else(late)
        };
        Ok(FormAnswers { answers: self.aside(in_time).await?, is_new: true })
    }

    /// A question of a plugin for a user at a terminal.
    fn form_question(&self, tool: &str, question: &PluginQuestion) -> Question {
        let PluginQuestion { plugin, form, .. } = question;
        Question {
            tool: tool.to_owned(),
            session: self.session.name().to_string(),
            client: self.client.clone(),
            role: self.role.clone(),
            text: forms::message(tool, question),
            for_session: false,
            args: None,
            is_consent: false,
            form: Some(AskedForm { plugin: plugin.clone(), form: form.clone() }),
        }
    }

    /// The question whether a call may be made, for a user at a terminal.
    fn question(&self, proposal: &Proposal) -> Question {
        let for_session = proposal.for_session && self.has_session;
        let is_short = for_session
            && proposal.consent.is_none()
            && CallPattern::exact(&proposal.args).is_some();
        Question {
            tool: proposal.tool.clone(),
            session: self.session.name().to_string(),
            client: self.client.clone(),
            role: self.role.clone(),
            text: message(proposal),
            for_session,
            args: is_short.then(|| proposal.args.clone()),
            is_consent: proposal.consent.is_some(),
            form: None,
        }
    }

    /// Leaves a question for a user at a terminal, if there is one.
    async fn ask_at_terminal(&self, question: Question) -> Option<AskedQuestion> {
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
        answers: &BTreeMap<String, ElicitResult>,
        proposal: &Proposal,
    ) -> Result<Result<Approval, Vec<Answered>>, Failure> {
        let digest = proposal.digest();
        let mut question = self.asked(handle);
        let Some(question) = &mut *question else { return Err(self.not_open()) };
        if let Some(Given::Yes(tree)) = question.given(&digest) {
            return Ok(Ok(Approval { tree: *tree, later: Later::None }));
        }
        if question.digest != digest {
            return question.next().map(Err);
        }
        let Some(answer) = answers.get(QUESTION) else { return Ok(Err(question.earlier.clone())) };
        let (later, tree) = (decided(answer)?, question.tree);
        question.add(Given::Yes(tree));
        Ok(Ok(Approval { tree, later }))
    }

    /// As [`Self::answered`], for questions of plugins. If an answer is missing or does not fit, all of them
    /// are asked again.
    fn answered_forms(
        &self,
        handle: &str,
        answers: &BTreeMap<String, ElicitResult>,
        asked: &AskedForms,
    ) -> Result<Result<FormAnswers, Vec<Answered>>, Failure> {
        let digest = asked.digest();
        let mut question = self.asked(handle);
        let Some(question) = &mut *question else { return Err(self.not_open()) };
        if let Some(Given::Forms(answers)) = question.given(&digest) {
            return Ok(Ok(FormAnswers { answers: answers.clone(), is_new: false }));
        }
        if question.digest != digest {
            return question.next().map(Err);
        }
        let Some(answers) = forms::all(asked, answers) else {
            return Ok(Err(question.earlier.clone()));
        };
        question.add(Given::Forms(answers.clone()));
        Ok(Ok(FormAnswers { answers, is_new: true }))
    }
}

impl Approver for ClientApprover {
    fn approve<'a>(&'a self, proposal: &'a Proposal) -> BoxFuture<'a, Result<Approval, Failure>> {
        self.ask_about(proposal).boxed()
    }

    fn ask<'a>(&'a self, asked: &'a AskedForms) -> BoxFuture<'a, Result<FormAnswers, Failure>> {
        self.ask_forms(asked).boxed()
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

/// An answer, by where it was given.
enum UserReply {
    Client(ElicitResult),
    /// At a terminal or in the console.
    Elsewhere(QuestionAnswer),
}

/// How a call asks that waits for the answer.
#[derive(Clone)]
enum Way<'a> {
    /// By a request to the client.
    Request(&'a Peer<RoleServer>),
    /// By the task that the call has become: the kind and the number of the question, and what a paused call
    /// goes on with.
    Task { task: &'a Arc<Task>, key: (&'a str, u64), paused: Option<(String, JsonObject)> },
    /// Only at a terminal.
    Terminal,
}

impl Way<'_> {
    /// The way for the next question of several that are open.
    fn of_next(&self) -> Self {
        match self {
            Self::Task { task, key: (kind, _), .. } => {
                Self::Task { task, key: (kind, task.number()), paused: None }
            }
            other => other.clone(),
        }
    }
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
        Way::Task { task, key, paused } => task.ask(key, params, paused).await.map(Ok),
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

/// The failure of a call whose user could not be asked.
fn needed(message: String) -> Failure {
    Failure::new(DenialCode::ApprovalNeeded, message)
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
        // It is the answer to a question of a plugin.
        QuestionAnswer::Form(_) => Err(declined(None)),
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
        let handle = pending.ask((shown.digest(), None), None, Vec::new());
        assert_eq!(digest(&handle, None), Some(shown.digest()));
        assert_eq!(digest(&handle, None), None);
        assert_ne!(shown.digest(), proposal(Some("-a\n+b\n")).digest());
        assert_eq!(digest("made up", None), None);
        // Binary files with different contents look the same in a diff.
        let binary = |content| Proposal { change: Some([content; 32]), ..proposal(Some("Binary")) };
        assert_eq!(binary(1).digest(), binary(1).digest());
        assert_ne!(binary(1).digest(), binary(2).digest());
        let handles: Vec<String> = (0..=MAX_PENDING)
            .map(|_| pending.ask((shown.digest(), None), None, Vec::new()))
            .collect();
        assert_eq!(digest(&handles[0], None), None);
        assert_eq!(digest(&handles[MAX_PENDING], None), Some(shown.digest()));
    }

    #[test]
    fn a_question_of_one_role_is_not_answered_under_another() {
        let pending = Pending::default();
        for (asked, others) in [(Some("a"), [None, Some("b")]), (None, [Some("a"), Some("b")])] {
            let handle = pending.ask((proposal(None).digest(), None), asked, Vec::new());
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
