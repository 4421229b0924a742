//! What must be true in every state, and what must be reachable: otherwise the model would show nothing.

use stateright::{Model as _, Property};

use crate::model::{Action, Answer, CallIndex, Commit, Host, Number, Protocol, State, Tree};

/// At most one commit has a key.
pub const ONE_COMMIT: &str = "one commit per key";
/// Each result that a client has received is the one in the commit of the call.
pub const SAME_ANSWER: &str = "every answer is the committed one";
/// Commits are numbered without gaps, and each names the one before.
pub const CHAIN: &str = "commits form a chain";
/// The tree of a commit has the changes of all commits up to it, and nothing else.
pub const REPLAY: &str = "a tree is the replay of its commits";
/// No commit changes or needs a place that was changed after the commit that it was computed from.
pub const NO_LOST_UPDATE: &str = "no update is lost";
/// A call that is delivered to the only host that lives ends, with a commit.
pub const ENDS: &str = "a delivered call ends";

/// How many steps a call takes that no other host and no failure disturbs.
const STEPS_OF_CALL: usize = 4;

/// All properties, for the checker.
pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(ONE_COMMIT, one_commit),
        Property::always(SAME_ANSWER, same_answer),
        Property::always(CHAIN, |_, state| chain(state)),
        Property::always(REPLAY, replay),
        Property::always(NO_LOST_UPDATE, no_lost_update),
        Property::always(ENDS, ends),
        Property::sometimes("all calls succeed", |protocol: &Protocol, state: &State| {
            let is_done = |answer: &Option<Answer>| matches!(answer, Some(Answer::Done { .. }));
            state.answers.iter().all(is_done) && state.commits.len() == protocol.calls.len()
        }),
        Property::sometimes("changes are rebased", |_, state: &State| {
            let is_rebased = |number: Number, commit: &Commit| matches!(commit.answer, Answer::Done { base } if base + 1 < number);
            state.commits.iter().any(|(number, commit)| is_rebased(*number, commit))
        }),
        Property::sometimes("a conflict is recorded", |_, state| has(state, Answer::Conflict)),
        Property::sometimes("a refusal is recorded", |_, state| has(state, Answer::Refused)),
        Property::sometimes("a second delivery is answered", |_, state: &State| {
            let is_idle = state.hosts.iter().all(|host| *host == Host::Idle);
            is_idle && state.kills == 0 && state.delivered.iter().any(|times| *times > 1)
        }),
        Property::sometimes("a killed host has committed", |protocol: &Protocol, state: &State| {
            let is_unanswered = |call: CallIndex| {
                protocol.calls[call].is_keyed
                    && state.answers[call].is_none()
                    && state.commits.values().any(|commit| commit.call == call)
            };
            state.kills > 0 && (0..protocol.calls.len()).any(is_unanswered)
        }),
    ]
}

fn has(state: &State, answer: Answer) -> bool {
    state.commits.values().any(|commit| commit.answer == answer)
}

fn one_commit(protocol: &Protocol, state: &State) -> bool {
    let count = |call| state.commits.values().filter(|commit| commit.call == call).count();
    (0..protocol.calls.len()).all(|call| count(call) <= 1)
}

fn same_answer(_: &Protocol, state: &State) -> bool {
    let is_given =
        |commit: &Commit| state.answers[commit.call].is_none_or(|answer| answer == commit.answer);
    !state.is_contradicted && state.commits.values().all(is_given)
}

fn chain(state: &State) -> bool {
    let mut before = None;
    state.commits.iter().zip(1..).all(|((number, commit), expected)| {
        let fits = *number == expected && commit.parent == before;
        before = Some((commit.call, commit.answer));
        fits
    })
}

fn replay(protocol: &Protocol, state: &State) -> bool {
    let mut tree = Tree::default();
    state.commits.values().all(|commit| {
        tree = protocol.changed(tree, commit.call, commit.answer);
        tree == commit.tree
    })
}

fn no_lost_update(protocol: &Protocol, state: &State) -> bool {
    state.commits.iter().all(|(number, commit)| {
        let Answer::Done { base } = commit.answer else { return true };
        let touched = protocol.changes(commit.call, commit.answer)
            | protocol.needs(commit.call, commit.answer);
        let mut between = state.commits.range(base + 1..*number);
        base < *number
            && between.all(|(_, other)| protocol.changes(other.call, other.answer) & touched == 0)
    })
}

fn ends(protocol: &Protocol, state: &State) -> bool {
    let mut calls = (0..protocol.calls.len()).filter(|call| protocol.calls[*call].is_keyed);
    calls.all(|call| ends_alone(protocol, state, call))
}

/// Whether a call ends that is delivered once more, if no other host lives and no answer is lost.
fn ends_alone(protocol: &Protocol, state: &State, call: CallIndex) -> bool {
    let mut state = state.clone();
    state.hosts.fill(Host::Idle);
    let mut action = Some(Action::Deliver { call, host: 0 });
    for _ in 0..STEPS_OF_CALL {
        let Some(next) = action.take().and_then(|action| protocol.next_state(&state, action))
        else {
            break;
        };
        state = next;
        let working = state.hosts.iter().enumerate().find(|(_, host)| **host != Host::Idle);
        action = working.map(|(host, doing)| match doing {
            Host::Looking { .. } | Host::Listed { .. } => Action::Run { host, is_refused: false },
            _ => Action::Land { host },
        });
    }
    let is_committed = state.commits.values().any(|commit| commit.call == call);
    action.is_none() && is_committed && state.answers[call].is_some()
}
