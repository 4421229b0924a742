//! What a call and its session have read of the secrets of the settings, and what the call may send
//! therefore. Noticing what is read, and asking the user, are not part of this module.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use cofferdam_core::policy::{Origin, SecretFiles};
use cofferdam_text::{shorten, visible};

/// How many files of one secret are remembered by their names.
const MAX_NAMED_FILES: usize = 8;

/// The maximum length of the name of a file in a question, in bytes.
const MAX_NAME_BYTES: usize = 400;

/// What has been read of a secret: by its files' names, or what else may have read it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SecretRead {
    /// The name of the secret in the settings.
    pub secret: String,
    /// The path of a file, or a description of what may have read any of its files.
    pub what: String,
}

/// All that has been read. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SecretReads(Arc<Mutex<BTreeSet<SecretRead>>>);

/// Something that may hold secrets, and where it would be sent: a question for the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretFlow {
    /// What was read.
    pub reads: BTreeSet<SecretRead>,
    /// The origins that are not allowed for it.
    pub origins: BTreeSet<Origin>,
    /// The program that could send it; `None`: the plugin itself.
    pub program: Option<String>,
}

/// Decides what one call may send.
#[derive(Debug, Default)]
pub struct SecretGuard {
    files: Arc<SecretFiles>,
    /// What the session had read when the call began.
    earlier: BTreeSet<SecretRead>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    own: BTreeSet<SecretRead>,
    /// The first thing that was not sent.
    wanted: Option<SecretFlow>,
    approved: Vec<SecretFlow>,
}

impl SecretReads {
    /// Adds what was read.
    pub fn add(&self, reads: impl IntoIterator<Item = SecretRead>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reads.into_iter().for_each(|read| insert(&mut all, read));
    }

    /// Returns all that was read.
    pub fn all(&self) -> BTreeSet<SecretRead> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Adds what was read, or that there was more.
fn insert(all: &mut BTreeSet<SecretRead>, read: SecretRead) {
    let known = all.iter().filter(|known| known.secret == read.secret).count();
    match known < MAX_NAMED_FILES {
        true => all.insert(read),
        false if all.contains(&read) => false,
        false => all.insert(SecretRead { what: "more of its files".to_owned(), ..read }),
    };
}

impl SecretFlow {
    /// The settings that allow it, one line for each secret.
    pub fn remedy(&self) -> String {
        let origins: Vec<String> =
            self.origins.iter().map(|origin| format!("\"{origin}\"")).collect();
        let secrets: BTreeSet<&str> = self.reads.iter().map(|read| read.secret.as_str()).collect();
        let origins = origins.join(", ");
        let line = |secret: &&str| format!("origins = [{origins}] under [secrets.{}]", key(secret));
        let lines = secrets.iter().map(line);
        lines.collect::<Vec<_>>().join(", ")
    }

    /// Whether the approval of this flow covers the sending of `reads` to `origin`.
    fn covers(&self, reads: &BTreeSet<&SecretRead>, origin: &Origin) -> bool {
        self.origins.contains(origin) && reads.iter().all(|read| self.reads.contains(*read))
    }
}

/// A name as a key of TOML.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => format!("{name:?}"),
    }
}

impl fmt::Display for SecretFlow {
    /// Both ends in one line: `it has read the secret 'x' (a.key), and would send to
    /// https://x.example`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut secrets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for read in &self.reads {
            let what = visible::line(&shorten(&read.what, MAX_NAME_BYTES));
            secrets.entry(&read.secret).or_default().push(what);
        }
        let secrets: Vec<String> = secrets
            .iter()
            .map(|(name, what)| {
                format!("the secret '{}' ({})", visible::line(name), what.join(", "))
            })
            .collect();
        let origins: Vec<String> = self.origins.iter().map(Origin::to_string).collect();
        let (secrets, origins) = (secrets.join(", "), origins.join(", "));
        match &self.program {
            Some(program) => {
                write!(f, "its program `{program}` can know {secrets}, and can send to {origins}")
            }
            None => write!(f, "it has read {secrets}, and would send to {origins}"),
        }
    }
}

impl SecretGuard {
    /// A call in a session that has read `earlier`.
    pub fn new(files: Arc<SecretFiles>, earlier: BTreeSet<SecretRead>) -> Self {
        Self { files, earlier, state: Mutex::default() }
    }

    /// A call that this one makes: it may know what this one has read, and what the session has. The user
    /// is not asked about what it sends.
    pub(crate) fn of_nested(&self, session: &SecretReads) -> Self {
        let mut earlier = session.all();
        self.own().into_iter().chain(self.earlier.iter().cloned()).for_each(|read| {
            insert(&mut earlier, read);
        });
        Self::new(Arc::clone(&self.files), earlier)
    }

    /// Notes what a call that this one has made has read.
    pub(crate) fn add_nested(&self, reads: BTreeSet<SecretRead>) {
        let mut state = self.state();
        reads.into_iter().for_each(|read| insert(&mut state.own, read));
    }

    /// Begins the call, or begins it again: nothing has been read.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.own.clear();
        state.wanted = None;
    }

    /// Whether anything that the call sends could be a question.
    pub(crate) fn may_ask(&self) -> bool {
        self.has_files() || !self.earlier.is_empty()
    }

    /// Whether the settings have secrets, so that it matters what is read.
    pub(crate) fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Whether a file is secret.
    pub(crate) fn is_secret(&self, place: &str) -> bool {
        self.files.of(place).next().is_some()
    }

    /// Notes that the call can know the contents of a file.
    pub(crate) fn read(&self, place: &str) {
        self.add(self.files.of(place), place);
    }

    /// Notes that the call can know the contents of all files in a directory.
    pub(crate) fn read_below(&self, directory: &str) {
        let name = if directory.is_empty() { "." } else { directory };
        self.add(self.files.below(directory), name);
    }

    /// Notes that the call can know everything that is secret. `why` describes what has read it.
    pub(crate) fn read_all(&self, why: &str) {
        self.add(self.files.iter().map(|(name, _)| name), why);
    }

    /// Whether the call has read anything secret itself.
    pub(crate) fn has_read(&self) -> bool {
        !self.state().own.is_empty()
    }

    /// What the call itself has read.
    pub fn own(&self) -> BTreeSet<SecretRead> {
        self.state().own.clone()
    }

    /// Checks whether the call may send to all of `origins`. `program` would send it, or the plugin
    /// itself.
    ///
    /// # Errors
    /// What it may not send without the approval of the user, and where.
    pub(crate) fn send<'a>(
        &self,
        origins: impl IntoIterator<Item = &'a Origin>,
        program: Option<&str>,
    ) -> Result<(), SecretFlow> {
        let mut state = self.state();
        if state.own.is_empty() && self.earlier.is_empty() {
            return Ok(());
        }
        let program = program.map(str::to_owned);
        let mut flow = SecretFlow { program, ..SecretFlow::default() };
        for origin in origins {
            let known = state.own.iter().chain(&self.earlier);
            let reads: BTreeSet<&SecretRead> =
                known.filter(|read| !self.files.allows(&read.secret, origin)).collect();
            let is_approved = || state.approved.iter().any(|flow| flow.covers(&reads, origin));
            if !reads.is_empty() && !is_approved() {
                flow.reads.extend(reads.into_iter().cloned());
                flow.origins.insert(origin.clone());
            }
        }
        if flow.origins.is_empty() {
            return Ok(());
        }
        state.wanted.get_or_insert_with(|| flow.clone());
        Err(flow)
    }

    /// The first thing that the call was not allowed to send.
    pub(crate) fn wanted(&self) -> Option<SecretFlow> {
        self.state().wanted.clone()
    }

    /// Allows what the user has approved. Returns how many flows were approved so far.
    pub(crate) fn approve(&self, flow: SecretFlow) -> usize {
        let mut state = self.state();
        state.approved.push(flow);
        state.approved.len()
    }

    fn add<'a>(&self, secrets: impl Iterator<Item = &'a str>, what: &str) {
        let mut secrets = secrets.peekable();
        if secrets.peek().is_none() {
            return;
        }
        let mut state = self.state();
        for secret in secrets {
            let read = SecretRead { secret: secret.to_owned(), what: what.to_owned() };
            insert(&mut state.own, read);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_core::policy::{Policy, Settings};

    use super::*;

    fn guard(earlier: BTreeSet<SecretRead>) -> SecretGuard {
        let settings = "[secrets.key]\npaths = ['*.key']\norigins = ['https://own.example']\n\
                        [secrets.more]\npaths = ['more/*']\n";
        let policy = Policy::new(&[Settings::parse(settings).unwrap()]).unwrap();
        SecretGuard::new(Arc::clone(policy.secrets()), earlier)
    }

    fn origin(name: &str) -> Origin {
        format!("https://{name}.example").parse().unwrap()
    }

    fn read(secret: &str, what: &str) -> SecretRead {
        SecretRead { secret: secret.to_owned(), what: what.to_owned() }
    }

    #[test]
    fn nothing_is_asked_before_a_secret_was_read() {
        let guard = guard(BTreeSet::new());
        guard.read("a.txt");
        assert_eq!(guard.send([&origin("other")], None), Ok(()));
        guard.read("a.key");
        assert_eq!(guard.send([&origin("own")], None), Ok(()));
        let flow = guard.send([&origin("own"), &origin("other")], None).unwrap_err();
        assert_eq!(
            flow.to_string(),
            "it has read the secret 'key' (a.key), and would send to https://other.example"
        );
        assert_eq!(flow.remedy(), "origins = [\"https://other.example\"] under [secrets.key]");
        assert_eq!(guard.wanted(), Some(flow));
    }

    #[test]
    fn an_approval_covers_what_was_shown() {
        let guard = guard(BTreeSet::new());
        guard.read("a.key");
        let flow = guard.send([&origin("other")], None).unwrap_err();
        assert_eq!(guard.approve(flow), 1);
        guard.begin();
        assert_eq!(guard.send([&origin("third")], None), Ok(()));
        guard.read("a.key");
        assert_eq!(guard.send([&origin("other")], None), Ok(()));
        assert!(guard.send([&origin("third")], None).is_err());
        // Another file of the same secret was not shown, nor was another secret.
        for place in ["b.key", "more/a"] {
            guard.begin();
            guard.read("a.key");
            guard.read(place);
            let flow = guard.send([&origin("other")], None).unwrap_err();
            assert_eq!(flow.reads.len(), 2, "{flow}");
        }
    }

    #[test]
    fn what_a_session_has_read_counts_even_if_the_settings_changed() {
        for secret in ["key", "removed"] {
            let guard = guard([read(secret, "x")].into());
            let flow = guard.send([&origin("other")], Some("bash")).unwrap_err();
            let wanted = format!(
                "its program `bash` can know the secret '{secret}' (x), and can send to \
                 https://other.example"
            );
            assert_eq!(flow.to_string(), wanted);
            assert!(guard.own().is_empty());
        }
        assert!(guard([read("removed", "x")].into()).send([&origin("own")], None).is_err());
        assert!(guard([read("key", "x")].into()).send([&origin("own")], None).is_ok());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_escaped() {
        let guard = guard(BTreeSet::new());
        (0..100).for_each(|number| guard.read(&format!("{number}\n.key")));
        guard.read_below("more");
        guard.read_all("a program");
        let flow = guard.send([&origin("other")], None).unwrap_err();
        assert_eq!(flow.reads.len(), MAX_NAMED_FILES + 3, "{flow}");
        let text = flow.to_string();
        assert!(text.contains("more of its files") && !text.contains('\n'), "{text}");
        let reads = SecretReads::default();
        (0..2).for_each(|_| reads.add(guard.own()));
        assert_eq!(reads.all(), guard.own());
    }
}
