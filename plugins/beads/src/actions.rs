//! The arguments, results and functions of the tools.

use cofferdam_beads_format::bead::to_millisecond;
use cofferdam_beads_format::{Action, Bead, Change, Id, Kind, Priority};
use cofferdam_sdk::{Context, ToolError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::{Store, Stored};

/// The maximum length of a title made from a question, in characters.
const MAX_TITLE_CHARS: usize = 100;

/// The arguments of `create_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// The bead to create.
    pub bead: NewBead,
}

/// The fields of a new bead.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewBead {
    /// One line that says what the bead is about.
    pub title: String,
    /// The project that the bead belongs to.
    pub project_id: String,
    /// The long form of the title.
    pub description: Option<String>,
    /// From 0 (critical) to 4 (backlog).
    pub priority: Option<Priority>,
    /// The type of the bead.
    #[serde(rename = "type")]
    pub kind: Option<Type>,
    /// Tags to search for.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// The types that `create_bead` accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Type {
    Task,
    Bug,
    Feature,
    Epic,
}

impl From<Type> for Kind {
    fn from(kind: Type) -> Self {
        match kind {
            Type::Task => Self::Task,
            Type::Bug => Self::Bug,
            Type::Feature => Self::Feature,
            Type::Epic => Self::Epic,
        }
    }
}

/// The arguments of `close_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// The bead to close: an id or an abbreviation.
    pub bead_id: String,
    /// What was done about it.
    pub reason: Option<String>,
}

/// The arguments of `escalate_ceo`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Escalate {
    /// The bead to escalate: an id or an abbreviation.
    pub bead_id: String,
    /// What has to be decided.
    pub reason: Option<String>,
    /// The agent to be told the decision.
    pub returned_to: Option<String>,
}

/// The arguments of `approve_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// The bead to approve: an id or an abbreviation.
    pub bead_id: String,
    /// The reason for the approval.
    pub reason: Option<String>,
}

/// The arguments of `reject_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reject {
    /// The bead to reject: an id or an abbreviation.
    pub bead_id: String,
    /// The reason for the rejection.
    pub reason: String,
}

/// The arguments of `ask_followup`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// The question for the user.
    pub question: String,
}

/// The result of most tools.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The full id of the bead.
    pub bead_id: String,
}

/// The result of `escalate_ceo`.
#[derive(Debug, Serialize)]
pub struct Escalated {
    /// The id of the new decision.
    pub decision_id: String,
}

/// The result of `reject_bead`.
#[derive(Debug, Serialize)]
pub struct Rejected {
    /// The full id of the bead.
    pub bead_id: String,
    /// The reason from the arguments.
    pub reason: String,
}

/// Creates a bead of any type except decisions and questions.
///
/// # Errors
/// As [`Store::add`].
pub fn create(Create { bead }: Create, context: &Context) -> Result<Answer, ToolError> {
    let bead = Bead {
        title: bead.title,
        kind: bead.kind.map_or(Kind::Task, Kind::from),
        priority: bead.priority.unwrap_or(Priority::MEDIUM),
        project_id: Some(bead.project_id),
        tags: bead.tags,
        description: bead.description,
        ..new()
    };
    Store::new(context).add(&bead).map(answer)
}

/// Closes a bead, if its status allows that.
///
/// # Errors
/// As [`Store::find`], [`Bead::allows`] and [`Store::append`].
pub fn close(args: Close, context: &Context) -> Result<Answer, ToolError> {
    let reason = args.reason;
    let with_reason = reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
    let action = Action::Close { with_reason };
    act(context, &args.bead_id, action, Change::Closed { reason }).map(answer)
}

/// Records that a review approved a bead.
///
/// # Errors
/// As [`close`].
pub fn approve(args: Approve, context: &Context) -> Result<Answer, ToolError> {
    let change = Change::Approved { reason: args.reason };
    act(context, &args.bead_id, Action::Approve, change).map(answer)
}

/// Records that a review rejected a bead.
///
/// # Errors
/// As [`close`].
pub fn reject(args: Reject, context: &Context) -> Result<Rejected, ToolError> {
    let reason = args.reason;
    let change = Change::Rejected { reason: reason.clone() };
    let id = act(context, &args.bead_id, Action::Reject, change)?;
    Ok(Rejected { bead_id: id.to_string(), reason })
}

/// Creates a decision that a bead waits for.
///
/// # Errors
/// As [`close`].
pub fn escalate(args: Escalate, context: &Context) -> Result<Escalated, ToolError> {
    let store = Store::new(context);
    let stored = find(&store, &args.bead_id, Action::Escalate)?;
    let decision = Bead {
        title: format!("Decide about {}: {}", stored.id, stored.bead.title),
        kind: Kind::Decision,
        priority: stored.bead.priority,
        project_id: stored.bead.project_id.clone(),
        description: args.reason.clone(),
        decides: Some(stored.id.clone()),
        returned_to: args.returned_to,
        ..new()
    };
    let decision = store.add(&decision)?;
    let escalated = Change::Escalated { decision: decision.clone(), reason: args.reason };
    store.append(&stored, escalated)?;
    Ok(Escalated { decision_id: decision.to_string() })
}

/// Creates a bead with a question for the user.
///
/// # Errors
/// As [`Store::add`].
pub fn ask(Ask { question }: Ask, context: &Context) -> Result<Answer, ToolError> {
    let title = title(&question);
    let description = (title != question).then_some(question);
    Store::new(context).add(&Bead { title, description, ..new() }).map(answer)
}

/// A question created now; the other kinds of beads start from it.
fn new() -> Bead {
    Bead {
        title: String::new(),
        kind: Kind::Question,
        priority: Priority::MEDIUM,
        project_id: None,
        tags: Vec::new(),
        description: None,
        decides: None,
        returned_to: None,
        created: to_millisecond(Timestamp::now()),
        history: Vec::new(),
    }
}

/// The first line of a question, shortened to be a title.
fn title(question: &str) -> String {
    let line = question.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(MAX_TITLE_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}...", line[..end].trim_end()),
    }
}

/// Adds an event to a bead and, if it is a decision, to the bead that waits for it.
fn act(context: &Context, given: &str, action: Action, change: Change) -> Result<Id, ToolError> {
    let store = Store::new(context);
    let stored = find(&store, given, action)?;
    store.append(&stored, change)?;
    if let Some(waiting) = &stored.bead.decides
        && let Some(waiting) = store.linked(waiting)?
        && waiting.bead.waits_for().contains(&&stored.id)
    {
        store.append(&waiting, Change::Decided { decision: stored.id.clone() })?;
    }
    Ok(stored.id)
}

/// Finds a bead and checks that its status allows the action.
fn find(store: &Store<'_>, given: &str, action: Action) -> Result<Stored, ToolError> {
    let stored = store.find(given)?;
    let allowed = stored.bead.allows(&stored.id, action);
    allowed.map_err(|refusal| ToolError::conflict(refusal.code, refusal.message))?;
    Ok(stored)
}

fn answer(id: Id) -> Answer {
    Answer { bead_id: id.to_string() }
}
