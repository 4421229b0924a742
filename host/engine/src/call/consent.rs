//! What the plugins of a call have asked consent for, and what they were told. Asking the user is not part
//! of this module.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::permissions::PluginGrant;
use cofferdam_core::policy::{ConsentRule, MAX_CONSENT_KEY_BYTES};
use cofferdam_text::visible;

/// How many requests one call may make; further ones are refused.
const MAX_REQUESTS: usize = 1_000;

/// How many questions one call may lead to; further requests are refused.
const MAX_QUESTIONS: usize = 8;

/// How many different requests of a call are recorded. Further ones are refused: there is no consent without a
/// record.
const MAX_RECORDED: usize = 64;

/// How much is recorded of a class or a key that is not valid, in bytes.
const MAX_INVALID_BYTES: usize = 100;

/// How many approved actions are remembered for a session; the oldest ones are forgotten first.
const MAX_REMEMBERED: usize = 100;

/// An action that a plugin asks consent for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConsentRequest {
    /// The name of the plugin.
    pub plugin: String,
    /// The class, which its manifest declares.
    pub class: String,
    /// What the manifest says about the class.
    pub description: String,
    /// What the action is about.
    pub key: String,
}

impl fmt::Display for ConsentRequest {
    /// In one line, without active characters: `drop "shop.db: items" (Drops or empties a table.)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, description, key, .. } = self;
        let (key, description) = (visible::line(key), visible::line(description));
        write!(f, "{class} \"{key}\" ({description})")
    }
}

/// What the user has allowed for the rest of a session. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct RememberedConsents(Arc<Mutex<VecDeque<ConsentRequest>>>);

impl RememberedConsents {
    /// Remembers an action that the user allows for the rest of the session.
    pub fn add(&self, request: ConsentRequest) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_REMEMBERED {
            all.pop_front();
        }
        all.push_back(request);
    }

    /// Whether the user allows exactly this action.
    fn has(&self, request: &ConsentRequest) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(request)
    }
}

/// How a request was decided. A plugin learns only whether it has consent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ConsentDecision {
    /// A pattern of the settings allows it.
    Granted,
    /// The user has said yes to it.
    Approved,
    /// The user has said yes to the same earlier in the session.
    Remembered,
    /// The user is asked, and the call is made again with the answer.
    Asked,
    /// The user has said no.
    Declined,
    /// The user would have to be asked, and can't be asked here.
    NotAsked,
    /// No pattern of the settings matches it.
    NotGranted,
    /// The manifest does not declare the class.
    Undeclared,
    /// The key is empty or too long.
    InvalidKey,
    /// The call has made too many requests, or has led to too many questions.
    TooMany,
}

/// A request in the journal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ConsentRecord {
    /// The name of the plugin.
    pub plugin: String,
    /// The class of the action.
    pub class: String,
    /// What the action is about; shortened if it is not valid.
    pub key: String,
    /// How it was decided.
    pub decision: ConsentDecision,
}

/// What a plugin is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConsentAnswer {
    Yes,
    No,
    /// Nothing: the instance ends, and the call is made again with the answer of the user.
    Asked,
}

/// Decides the requests of one call.
#[derive(Debug, Default)]
pub struct ConsentGuard {
    mode: Mode,
    state: Mutex<State>,
}

/// What happens to requests that the user has to be asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Mode {
    /// They are refused, because no user can be asked.
    #[default]
    Refuse,
    /// The user is asked.
    Ask,
    /// They are allowed: the call is only previewed, and can do nothing but stage changes.
    Preview,
}

#[derive(Debug, Default)]
struct State {
    requests: usize,
    /// The request that the user has to be asked about.
    wanted: Option<ConsentRequest>,
    approved: Vec<ConsentRequest>,
    /// What the user has said no to, each with the failure's message.
    declined: Vec<(ConsentRequest, String)>,
    records: BTreeSet<ConsentRecord>,
    /// What was refused, in words, for the caller.
    refused: BTreeSet<String>,
}

impl ConsentGuard {
    /// The guard of a call about which the user can be asked, or not.
    pub(crate) fn new(can_ask: bool) -> Self {
        let mode = if can_ask { Mode::Ask } else { Mode::Refuse };
        Self { mode, state: Mutex::default() }
    }

    /// The guard of a call that is only previewed.
    pub(crate) fn preview() -> Self {
        Self { mode: Mode::Preview, state: Mutex::default() }
    }

    /// Begins the call, or begins it again: the answers of the user stay.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        let (approved, declined) =
            (std::mem::take(&mut state.approved), std::mem::take(&mut state.declined));
        *state = State { approved, declined, ..State::default() };
    }

    /// Decides a request for a key of a class. `redacted` removes secrets from a text.
    pub(crate) fn decide(
        &self,
        grant: &PluginGrant,
        remembered: &RememberedConsents,
        (class, key): (&str, &str),
        redacted: impl Fn(&str) -> String,
    ) -> ConsentAnswer {
        let mut state = self.state();
        state.requests += 1;
        let declared = grant.classes.get(class);
        let is_valid = (1..=MAX_CONSENT_KEY_BYTES).contains(&key.len());
        let is_declared = declared.is_some();
        let request = ConsentRequest {
            plugin: grant.plugin.clone(),
            class: if is_declared { class.to_owned() } else { redacted(&invalid(class)) },
            description: declared.cloned().unwrap_or_default(),
            key: redacted(if is_valid && is_declared { key } else { beginning(key) }),
        };
        let decision = match () {
            () if state.requests > MAX_REQUESTS || state.is_full(&request) => {
                ConsentDecision::TooMany
            }
            () if !is_declared => ConsentDecision::Undeclared,
            () if !is_valid => ConsentDecision::InvalidKey,
            () => match grant.consent_rule(&request.class, &request.key) {
                ConsentRule::Allow => ConsentDecision::Granted,
                ConsentRule::Refuse => ConsentDecision::NotGranted,
                ConsentRule::Ask => self.asked(&mut state, remembered, &request),
            },
        };
        state.note(&request, decision);
        match decision {
            ConsentDecision::Granted | ConsentDecision::Approved | ConsentDecision::Remembered => {
                ConsentAnswer::Yes
            }
            ConsentDecision::Asked => ConsentAnswer::Asked,
            _ => ConsentAnswer::No,
        }
    }

    /// Decides a request that the user has to be asked about.
    fn asked(
        &self,
        state: &mut State,
        remembered: &RememberedConsents,
        request: &ConsentRequest,
    ) -> ConsentDecision {
        let questions = state.approved.len() + state.declined.len();
        match self.mode {
            _ if state.approved.contains(request) => ConsentDecision::Approved,
            _ if state.declined.iter().any(|(declined, _)| declined == request) => {
                ConsentDecision::Declined
            }
            _ if remembered.has(request) => ConsentDecision::Remembered,
            Mode::Preview => ConsentDecision::Approved,
            Mode::Refuse => ConsentDecision::NotAsked,
            Mode::Ask if questions >= MAX_QUESTIONS => ConsentDecision::TooMany,
            Mode::Ask => {
                state.wanted.get_or_insert_with(|| request.clone());
                ConsentDecision::Asked
            }
        }
    }

    /// The request that the user has to be asked about.
    pub(crate) fn wanted(&self) -> Option<ConsentRequest> {
        self.state().wanted.clone()
    }

    /// Whether the user can be asked, so that the call may have to be made again.
    pub(crate) fn may_ask(&self) -> bool {
        self.mode == Mode::Ask
    }

    /// Notes the answer of the user: a yes, or a no with the message for the caller.
    pub(crate) fn answered(&self, request: ConsentRequest, answer: Result<(), String>) {
        let mut state = self.state();
        match answer {
            Ok(()) => state.approved.push(request),
            Err(message) => state.declined.push((request, message)),
        }
    }

    /// The first requests, for the journal.
    pub(crate) fn records(&self) -> Vec<ConsentRecord> {
        self.state().records.iter().cloned().collect()
    }

    /// What was refused, in words: for the caller and not for the plugin.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.state().refused.iter().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a request can't be recorded any more.
    fn is_full(&self, request: &ConsentRequest) -> bool {
        let is_same = |record: &ConsentRecord| {
            record.decision != ConsentDecision::TooMany
                && *record == recorded(request, record.decision)
        };
        self.records.len() >= MAX_RECORDED && !self.records.iter().any(is_same)
    }

    /// Notes a request for the journal and, if it is refused, for the caller.
    fn note(&mut self, request: &ConsentRequest, decision: ConsentDecision) {
        self.records.insert(recorded(request, decision));
        let ConsentRequest { plugin, class, .. } = request;
        let why = match decision {
            ConsentDecision::Granted
            | ConsentDecision::Approved
            | ConsentDecision::Remembered
            | ConsentDecision::Asked => return,
            ConsentDecision::Declined => {
                let said = self.declined.iter().find(|(declined, _)| declined == request);
                format!(
                    "{request}: {}",
                    said.map(|(_, message)| message.as_str()).unwrap_or_default()
                )
            }
            ConsentDecision::NotAsked => {
                format!("{request}: a person has to be asked, and no user can be asked here")
            }
            ConsentDecision::NotGranted => format!(
                "{request}: a person can allow it, or choose to be asked, by patterns under \
                 [grants.{plugin}.consent.{class}] in cofferdam.toml"
            ),
            ConsentDecision::Undeclared => {
                format!("{class}, which it does not declare")
            }
            ConsentDecision::InvalidKey => {
                format!("{class}: its key does not have 1 to {MAX_CONSENT_KEY_BYTES} bytes")
            }
            ConsentDecision::TooMany => "more actions than one call may ask for".to_owned(),
        };
        self.refused.insert(format!("'{plugin}' was refused consent for {why}"));
    }
}

/// A request as it is recorded. Those that are too many have one record.
fn recorded(request: &ConsentRequest, decision: ConsentDecision) -> ConsentRecord {
    let ConsentRequest { plugin, class, key, .. } = request;
    let (class, key) = match decision {
        ConsentDecision::TooMany => (String::new(), String::new()),
        _ => (class.clone(), visible::line(key)),
    };
    ConsentRecord { plugin: plugin.clone(), class, key, decision }
}

/// The beginning of a text of any length, without active characters.
fn invalid(text: &str) -> String {
    visible::line(beginning(text))
}

/// The beginning of a text of any length.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_INVALID_BYTES)]
}
