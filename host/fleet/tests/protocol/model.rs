//! The store, the hosts, and every step that they can make.
//!
//! A step is one effect on the store with all that one host computes before the next effect: what a host
//! does by itself can't be seen by others, so it needs no steps of its own. A request takes effect in the
//! same step in which its answer arrives. All other orders are covered by requests that are late: they
//! belong to a host that was killed or has stopped waiting, and take effect in any later step or never.

use std::collections::{BTreeMap, BTreeSet};

use stateright::Model;

/// The number of a commit; 0 is the state before the first one.
pub type Number = u8;

/// The index of a call in the list of calls.
pub type CallIndex = usize;

/// What a place contains: the call that wrote it, and the commit that the call was computed from.
pub type Value = Option<(CallIndex, Number)>;

/// How many places a workspace has.
pub const PLACES: usize = 2;

/// The content of all places of a workspace.
pub type Tree = [Value; PLACES];

/// A call that is to be committed.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Whether it has an idempotency key. A call without one is delivered once.
    pub is_keyed: bool,
    /// The places that it changes, a bit for each.
    pub changes: u8,
    /// The places that its changes depend on, such as the directory of a file.
    pub needs: u8,
}

impl Call {
    /// A call with a key.
    pub const fn keyed(changes: u8) -> Self {
        Self { is_keyed: true, changes, needs: 0 }
    }

    /// A call without a key.
    pub const fn keyless(changes: u8) -> Self {
        Self { is_keyed: false, changes, needs: 0 }
    }

    /// Makes the changes of the call depend on places.
    pub const fn needing(self, needs: u8) -> Self {
        Self { needs, ..self }
    }
}

/// A rule that hosts and stores follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The commits that the intents name are read before a call runs.
    LookBeforeRun,
    /// The head is read before the intents are listed.
    HeadBeforeIntents,
    /// The intent is written before the commit is created.
    IntentBeforeCommit,
    /// The commit is created only after the intent was acknowledged.
    AwaitIntent,
    /// After a lost race, the key is looked for in the new commits.
    LookAfterRace,
    /// After a lost race, the new commits are compared with the changes of the call.
    CheckCollisions,
    /// That comparison includes the places that the changes depend on.
    CheckNeeds,
    /// After a lost race, the changes are put on top of the new tree.
    RebaseOnHead,
    /// A commit that exists is compared with the own one by its id: a repeated request finds its own.
    CompareId,
    /// Refusals of calls with a key are recorded by a commit.
    RecordRefusals,
    /// If the answer to a request was lost, the commit is read.
    LookAfterLostAnswer,
    /// A call that has intents and no commit is run.
    IntentIsNoProof,
    /// The store creates a commit only if it does not exist.
    CreateOnly,
}

/// How much of everything there is.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub hosts: usize,
    /// How often each call with a key is delivered.
    pub deliveries: u8,
    /// How often a host is killed. Killed hosts start again.
    pub kills: u8,
    /// How often the answer to a request is lost.
    pub losses: u8,
}

/// What a call has returned to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    /// It has run on the tree of a commit.
    Done { base: Number },
    /// It was refused, or has failed.
    Refused,
    /// A commit after the one that it was computed from has changed the same places.
    Conflict,
}

/// What a commit names as its parent, in place of a digest.
pub type Digest = Option<(CallIndex, Answer)>;

/// A commit as it is in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Commit {
    /// The host that is still at work on it and knows it by its random id.
    pub id: Option<usize>,
    pub call: CallIndex,
    pub parent: Digest,
    pub answer: Answer,
    pub tree: Tree,
}

/// What a host has computed and not committed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Work {
    call: CallIndex,
    /// The latest commit that the host knows.
    known: Number,
    answer: Answer,
}

/// What a host is doing at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    Idle,
    /// It has read the head.
    Looking {
        call: CallIndex,
        head: Number,
    },
    /// It has listed the intents, a bit for each, but has not read the head: the order is wrong.
    Listed {
        call: CallIndex,
        intents: u16,
    },
    /// It has sent the intent.
    Announcing(Work),
    /// It has sent the commit.
    Creating(Work),
    /// The answer to the commit was lost.
    Unsure(Work),
    /// It has created the commit and has sent the intent: the order is wrong.
    Recording(Work),
}

/// A request that has not taken effect, of a host that does not wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    Intent { call: CallIndex, number: Number },
    Create { number: Number, commit: Commit },
}

/// A step from one state to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A host is given a call, and reads the head.
    Deliver { call: CallIndex, host: usize },
    /// A host looks for the call's commit; if there is none, the call runs.
    Run { host: usize, is_refused: bool },
    /// A request takes effect, and its host receives the answer.
    Land { host: usize },
    /// A host receives no answer to its request, which may be late.
    Lose { host: usize },
    /// A host that has received no answer reads the commit.
    LookUp { host: usize },
    /// A host is killed; its request is late.
    Kill { host: usize },
    /// A late request takes effect.
    LandLate { request: usize },
}

/// The store, the hosts, and what clients were told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub commits: BTreeMap<Number, Commit>,
    /// The intents of each call, a bit for each number.
    pub intents: Vec<u16>,
    pub hosts: Vec<Host>,
    pub late: BTreeSet<Request>,
    /// How often each call was delivered.
    pub delivered: Vec<u8>,
    /// The first result that a client has received, for each call.
    pub answers: Vec<Option<Answer>>,
    /// Whether two clients have received different results of one call.
    pub is_contradicted: bool,
    pub kills: u8,
    pub losses: u8,
}

impl State {
    /// The number of the latest commit.
    pub fn head(&self) -> Number {
        self.commits.last_key_value().map_or(0, |(number, _)| *number)
    }

    fn tree(&self, number: Number) -> Tree {
        self.commits.get(&number).map(|commit| commit.tree).unwrap_or_default()
    }

    fn digest(&self, number: Number) -> Digest {
        self.commits.get(&number).map(|commit| (commit.call, commit.answer))
    }

    /// The answer of a call's commit, which is one of these.
    fn find(&self, call: CallIndex, mut numbers: impl Iterator<Item = Number>) -> Option<Answer> {
        numbers.find_map(|number| {
            self.commits.get(&number).filter(|commit| commit.call == call).map(|found| found.answer)
        })
    }

    /// Gives the client an answer; the host's work has ended.
    fn reply(&mut self, host: usize, call: CallIndex, answer: Answer) {
        let first = *self.answers[call].get_or_insert(answer);
        self.is_contradicted |= first != answer;
        self.hosts[host] = Host::Idle;
    }

    /// Returns the same state in one form: hosts are in order, and nothing is left that can't matter.
    fn canonical(mut self) -> Self {
        let State { late, commits, intents, .. } = &mut self;
        late.retain(|request| match request {
            Request::Intent { call, number } => intents[*call] & 1 << number == 0,
            Request::Create { number, .. } => !commits.contains_key(number),
        });
        let mut order: Vec<usize> = (0..self.hosts.len()).collect();
        order.sort_by_key(|host| self.hosts[*host]);
        let renamed = |mut commit: Commit| {
            let is_at_work = |host: &usize| self.hosts[*host] != Host::Idle;
            commit.id = commit
                .id
                .filter(is_at_work)
                .and_then(|host| order.iter().position(|old| *old == host));
            commit
        };
        let late = std::mem::take(&mut self.late).into_iter().map(|request| match request {
            Request::Create { number, commit } => {
                Request::Create { number, commit: renamed(commit) }
            }
            intent @ Request::Intent { .. } => intent,
        });
        let late = late.collect();
        let commits = std::mem::take(&mut self.commits).into_iter();
        let commits = commits.map(|(number, commit)| (number, renamed(commit))).collect();
        let hosts = order.iter().map(|host| self.hosts[*host]).collect();
        Self { late, commits, hosts, ..self }
    }
}

/// The model of the protocol, for some calls.
#[derive(Debug, Clone, Copy)]
pub struct Protocol {
    pub calls: &'static [Call],
    pub bounds: Bounds,
    /// The rule that hosts do not follow.
    pub broken: Option<Rule>,
}

impl Protocol {
    fn follows(&self, rule: Rule) -> bool {
        self.broken != Some(rule)
    }

    /// The places that a call changed.
    pub fn changes(&self, call: CallIndex, answer: Answer) -> u8 {
        if matches!(answer, Answer::Done { .. }) { self.calls[call].changes } else { 0 }
    }

    /// The places that the changes of a call depend on.
    pub fn needs(&self, call: CallIndex, answer: Answer) -> u8 {
        if matches!(answer, Answer::Done { .. }) { self.calls[call].needs } else { 0 }
    }

    /// The tree with the changes of a call.
    pub fn changed(&self, mut tree: Tree, call: CallIndex, answer: Answer) -> Tree {
        if let Answer::Done { base } = answer {
            let changes = self.changes(call, answer);
            let places = tree.iter_mut().enumerate().filter(|(place, _)| changes & 1 << place != 0);
            places.for_each(|(_, value)| *value = Some((call, base)));
        }
        tree
    }

    /// The commit that a host creates.
    fn commit(&self, state: &State, host: usize, work: Work) -> Commit {
        let base = match work.answer {
            Answer::Done { base } if !self.follows(Rule::RebaseOnHead) => base,
            _ => work.known,
        };
        Commit {
            id: Some(host),
            call: work.call,
            parent: state.digest(work.known),
            answer: work.answer,
            tree: self.changed(state.tree(base), work.call, work.answer),
        }
    }

    fn deliver(&self, state: &mut State, host: usize, call: CallIndex) {
        state.delivered[call] += 1;
        state.hosts[host] = if self.follows(Rule::HeadBeforeIntents) {
            Host::Looking { call, head: state.head() }
        } else {
            Host::Listed { call, intents: state.intents[call] }
        };
    }

    /// Looks for a call's commit, and runs the call. Returns whether that depends on `is_refused`.
    fn run(&self, state: &mut State, host: usize, is_refused: bool) -> bool {
        let (call, head, intents) = match state.hosts[host] {
            Host::Looking { call, head } => (call, head, state.intents[call]),
            Host::Listed { call, intents } => (call, state.head(), intents),
            _ => return false,
        };
        let is_keyed = self.calls[call].is_keyed;
        let named = (1..=head).filter(|number| intents & 1 << number != 0);
        if is_keyed
            && self.follows(Rule::LookBeforeRun)
            && let Some(answer) = state.find(call, named)
        {
            state.reply(host, call, answer);
            return false;
        }
        if is_keyed && intents != 0 && !self.follows(Rule::IntentIsNoProof) {
            state.hosts[host] = Host::Idle;
            return false;
        }
        let answer = if is_refused { Answer::Refused } else { Answer::Done { base: head } };
        self.propose(state, host, Work { call, known: head, answer });
        true
    }

    /// Sends the intent for a commit, or the commit.
    fn propose(&self, state: &mut State, host: usize, work: Work) {
        let is_keyed = self.calls[work.call].is_keyed;
        let is_done = matches!(work.answer, Answer::Done { .. });
        let is_recorded = is_done || is_keyed && self.follows(Rule::RecordRefusals);
        if !is_recorded {
            return state.reply(host, work.call, work.answer);
        }
        let is_announced = is_keyed && self.follows(Rule::IntentBeforeCommit);
        if is_announced && !self.follows(Rule::AwaitIntent) {
            state.late.insert(Request::Intent { call: work.call, number: work.known + 1 });
            state.hosts[host] = Host::Creating(work);
        } else if is_announced {
            state.hosts[host] = Host::Announcing(work);
        } else {
            state.hosts[host] = Host::Creating(work);
        }
    }

    fn land(&self, state: &mut State, host: usize) {
        match state.hosts[host] {
            Host::Announcing(work) => {
                state.intents[work.call] |= 1 << (work.known + 1);
                state.hosts[host] = Host::Creating(work);
            }
            Host::Recording(work) => {
                state.intents[work.call] |= 1 << (work.known + 1);
                state.reply(host, work.call, work.answer);
            }
            Host::Creating(work) => {
                let commit = self.commit(state, host, work);
                if self.create(state, work.known + 1, commit) {
                    self.created(state, host, work);
                } else {
                    self.exists(state, host, work, self.follows(Rule::CompareId));
                }
            }
            _ => {}
        }
    }

    fn create(&self, state: &mut State, number: Number, commit: Commit) -> bool {
        let is_created = !state.commits.contains_key(&number) || !self.follows(Rule::CreateOnly);
        if is_created {
            state.commits.insert(number, commit);
        }
        is_created
    }

    /// The commit of a host is in the store.
    fn created(&self, state: &mut State, host: usize, work: Work) {
        if self.calls[work.call].is_keyed && !self.follows(Rule::IntentBeforeCommit) {
            state.hosts[host] = Host::Recording(work);
        } else {
            state.reply(host, work.call, work.answer);
        }
    }

    /// The commit exists: it is the host's own, or the host has lost the race.
    fn exists(&self, state: &mut State, host: usize, mut work: Work, compares_id: bool) {
        let is_own = |commit: &Commit| commit.id == Some(host) && commit.call == work.call;
        if compares_id && state.commits.get(&(work.known + 1)).is_some_and(is_own) {
            return self.created(state, host, work);
        }
        let new = work.known + 1..=state.head();
        if self.calls[work.call].is_keyed
            && self.follows(Rule::LookAfterRace)
            && let Some(answer) = state.find(work.call, new.clone())
        {
            return state.reply(host, work.call, answer);
        }
        let mut touched = self.changes(work.call, work.answer);
        if self.follows(Rule::CheckNeeds) {
            touched |= self.needs(work.call, work.answer);
        }
        let changed = |number| {
            let commit = &state.commits[&number];
            self.changes(commit.call, commit.answer)
        };
        if self.follows(Rule::CheckCollisions)
            && new.clone().any(|number| changed(number) & touched != 0)
        {
            work.answer = Answer::Conflict;
        }
        work.known = state.head();
        self.propose(state, host, work);
    }

    /// A host that has received no answer reads the commit.
    fn look_up(&self, state: &mut State, host: usize) {
        let Host::Unsure(work) = state.hosts[host] else { return };
        if !self.follows(Rule::LookAfterLostAnswer) {
            state.reply(host, work.call, Answer::Refused);
        } else if state.commits.contains_key(&(work.known + 1)) {
            self.exists(state, host, work, true);
        } else {
            state.hosts[host] = Host::Creating(work);
        }
    }

    /// The request of a host no longer has a host that waits for it.
    fn leave_request(&self, state: &mut State, host: usize) {
        let request = match state.hosts[host] {
            Host::Announcing(work) | Host::Recording(work) => {
                Request::Intent { call: work.call, number: work.known + 1 }
            }
            Host::Creating(work) => {
                let commit = self.commit(state, host, work);
                Request::Create { number: work.known + 1, commit }
            }
            _ => return,
        };
        state.late.insert(request);
    }

    fn land_late(&self, state: &mut State, index: usize) {
        let Some(request) = state.late.iter().nth(index).cloned() else { return };
        state.late.remove(&request);
        match request {
            Request::Intent { call, number } => state.intents[call] |= 1 << number,
            Request::Create { number, commit } => {
                self.create(state, number, commit);
            }
        }
    }

    fn may_be_delivered(&self, state: &State, call: CallIndex) -> bool {
        let most = if self.calls[call].is_keyed { self.bounds.deliveries } else { 1 };
        state.delivered[call] < most
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let calls = self.calls.len();
        vec![State {
            commits: BTreeMap::new(),
            intents: vec![0; calls],
            hosts: vec![Host::Idle; self.bounds.hosts],
            late: BTreeSet::new(),
            delivered: vec![0; calls],
            answers: vec![None; calls],
            is_contradicted: false,
            kills: 0,
            losses: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if let Some(host) = state.hosts.iter().position(|host| *host == Host::Idle) {
            let calls = (0..self.calls.len()).filter(|call| self.may_be_delivered(state, *call));
            actions.extend(calls.map(|call| Action::Deliver { call, host }));
        }
        for (host, doing) in state.hosts.iter().enumerate() {
            match doing {
                Host::Idle => continue,
                Host::Looking { .. } | Host::Listed { .. } => {
                    actions.extend([false, true].map(|is_refused| Action::Run { host, is_refused }))
                }
                Host::Announcing(_) | Host::Recording(_) => actions.push(Action::Land { host }),
                Host::Creating(_) => {
                    actions.push(Action::Land { host });
                    if state.losses < self.bounds.losses {
                        actions.push(Action::Lose { host });
                    }
                }
                Host::Unsure(_) => actions.push(Action::LookUp { host }),
            }
            if state.kills < self.bounds.kills {
                actions.push(Action::Kill { host });
            }
        }
        actions.extend((0..state.late.len()).map(|request| Action::LandLate { request }));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Deliver { call, host } => self.deliver(&mut state, host, call),
            Action::Run { host, is_refused } => {
                let depends = self.run(&mut state, host, is_refused);
                if is_refused && !depends {
                    return None;
                }
            }
            Action::Land { host } => self.land(&mut state, host),
            Action::Lose { host } => {
                self.leave_request(&mut state, host);
                if let Host::Creating(work) = state.hosts[host] {
                    state.hosts[host] = Host::Unsure(work);
                }
                state.losses += 1;
            }
            Action::LookUp { host } => self.look_up(&mut state, host),
            Action::Kill { host } => {
                self.leave_request(&mut state, host);
                state.hosts[host] = Host::Idle;
                state.kills += 1;
            }
            Action::LandLate { request } => self.land_late(&mut state, request),
        }
        Some(state.canonical())
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        crate::properties::all()
    }
}
