//! What the tools do.

use cofferdam_beads_format::bead::to_millisecond;
use cofferdam_beads_format::{Action, Bead, Change, Id, Kind, Priority};
use cofferdam_sdk::{Context, ToolError};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::{Store, Stored};

/// The longest question that is a title by itself, in characters.
const TITLE: usize = 100;

/// Arguments of `create_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// What is to be created.
    pub bead: NewBead,
}

/// A bead that is to be created.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewBead {
    /// What it is about.
    pub title: String,
    /// The project that it belongs to.
    pub project_id: String,
    /// More of what it is about.
    pub description: Option<String>,
    /// From 0, critical, to 4, backlog.
    pub priority: Option<Priority>,
    /// What sort of bead it is.
    #[serde(rename = "type")]
    pub kind: Option<Type>,
    /// Words to find it by.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// The types that `create_bead` knows.
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

/// Arguments of `close_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// Which bead.
    pub bead_id: String,
    /// What was done.
    pub reason: Option<String>,
}

/// Arguments of `escalate_ceo`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Escalate {
    /// Which bead.
    pub bead_id: String,
    /// What is to be decided.
    pub reason: Option<String>,
    /// The agent who is to hear of the decision.
    pub returned_to: Option<String>,
}

/// Arguments of `approve_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approve {
    /// Which bead.
    pub bead_id: String,
    /// Why.
    pub reason: Option<String>,
}

/// Arguments of `reject_bead`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reject {
    /// Which bead.
    pub bead_id: String,
    /// Why not.
    pub reason: String,
}

/// Arguments of `ask_followup`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// What the user is to answer.
    pub question: String,
}

/// Answer of most tools.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// The whole id of the bead.
    pub bead_id: String,
}

/// Answer of `escalate_ceo`.
#[derive(Debug, Serialize)]
pub struct Escalated {
    /// The id of the decision's own bead.
    pub decision_id: String,
}

/// Answer of `reject_bead`.
#[derive(Debug, Serialize)]
pub struct Rejected {
    /// The whole id of the bead.
    pub bead_id: String,
    /// As it was given.
    pub reason: String,
}

/// Creates a bead.
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

/// Closes a bead.
///
/// # Errors
/// As [`Store::find`], [`Bead::allows`] and [`Store::append`]; so it is with the other actions.
pub fn close(args: Close, context: &Context) -> Result<Answer, ToolError> {
    let reason = args.reason;
    let with_reason = reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
    let action = Action::Close { with_reason };
    act(context, &args.bead_id, action, Change::Closed { reason }).map(answer)
}

/// Approves a bead.
///
/// # Errors
/// As [`close`].
pub fn approve(args: Approve, context: &Context) -> Result<Answer, ToolError> {
    let change = Change::Approved { reason: args.reason };
    act(context, &args.bead_id, Action::Approve, change).map(answer)
}

/// Rejects a bead.
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

/// A question of now, which the others begin with.
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

/// The first line of a question, shortened.
fn title(question: &str) -> String {
    let line = question.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(TITLE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}...", line[..end].trim_end()),
    }
}

/// Lets a change become of a bead, and of the bead that waits for it.
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

/// The bead that is meant, if it is in a state for an action.
fn find(store: &Store<'_>, given: &str, action: Action) -> Result<Stored, ToolError> {
    let stored = store.find(given)?;
    let allowed = stored.bead.allows(&stored.id, action);
    allowed.map_err(|refusal| ToolError::conflict(refusal.code, refusal.message))?;
    Ok(stored)
}

fn answer(id: Id) -> Answer {
    Answer { bead_id: id.to_string() }
}
