//! A single capability: its form on the command line, and its description for the user who decides
//! about it.

use std::fmt;
use std::str::FromStr;

use super::capabilities::EVERY_AGENT;
use super::{
    BackendKind, Capabilities, Files, Origin, OriginError, is_agent_name, is_consent_class,
};

/// A capability that can be granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Written as `files=read` or `files=write`.
    Files(Files),
    /// Written as the word `scan`.
    Scan,
    /// Written as `process=git` and the like.
    Process(String),
    /// Written as `backends=linter` and the like.
    Backends(BackendKind),
    /// Written as the word `cache`.
    Cache,
    /// Written as the word `history`.
    History,
    /// Written as the word `git-commit`.
    GitCommit,
    /// Written as the word `background`.
    Background,
    /// Written as the word `tools`.
    Tools,
    /// Written as `agents=code-implementer`; `agents=*` for every agent of the settings.
    Agent(String),
    /// Written as `http=https://example.org` and the like.
    Http(Origin),
    /// Written as `http=*`: requested by plugins that can't name their origins, and never granted
    /// itself.
    AnyOrigin,
    /// Written as `consent=drop` and the like: a class of actions that the plugin asks consent for.
    Consent {
        /// The name of the class.
        class: String,
        /// What its manifest says about it; empty in a grant.
        description: String,
    },
    /// Written as the word `questions`.
    Questions,
}

/// The text is not a capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// It has none of the known forms.
    #[error(
        "'{0}' is no capability; there are files=read, files=write, scan, process=PROGRAM, \
         backends=linter, backends=test-runner, backends=builder, cache, history, git-commit, \
         background, tools, questions, agents=NAME, http=https://HOST and consent=CLASS"
    )]
    Unknown(String),
    /// Its origin is invalid.
    #[error(transparent)]
    Origin(#[from] OriginError),
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(files) => write!(f, "files={files}"),
            Self::Scan => f.write_str("scan"),
            Self::Process(program) => write!(f, "process={program}"),
            Self::Backends(kind) => write!(f, "backends={kind}"),
            Self::Cache => f.write_str("cache"),
            Self::History => f.write_str("history"),
            Self::GitCommit => f.write_str("git-commit"),
            Self::Background => f.write_str("background"),
            Self::Tools => f.write_str("tools"),
            Self::Agent(name) => write!(f, "agents={name}"),
            Self::Http(origin) => write!(f, "http={origin}"),
            Self::AnyOrigin => f.write_str("http=*"),
            Self::Consent { class, .. } => write!(f, "consent={class}"),
            Self::Questions => f.write_str("questions"),
        }
    }
}

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let unknown = || CapabilityError::Unknown(cofferdam_text::shorten(text, 80));
        match text {
            "scan" => return Ok(Self::Scan),
            "cache" => return Ok(Self::Cache),
            "history" => return Ok(Self::History),
            "git-commit" => return Ok(Self::GitCommit),
            "background" => return Ok(Self::Background),
            "tools" => return Ok(Self::Tools),
            "questions" => return Ok(Self::Questions),
            _ => {}
        }
        match text.split_once('=').ok_or_else(unknown)? {
            ("files", "read") => Ok(Self::Files(Files::Read)),
            ("files", "write") => Ok(Self::Files(Files::Write)),
            ("process", program) if !program.is_empty() => Ok(Self::Process(program.to_owned())),
            ("backends", name) => {
                let mut kinds = BackendKind::ALL.into_iter();
                let kind = kinds.find(|kind| kind.to_string() == name).ok_or_else(unknown)?;
                Ok(Self::Backends(kind))
            }
            ("agents", name) if name == EVERY_AGENT || is_agent_name(name) => {
                Ok(Self::Agent(name.to_owned()))
            }
            ("http", origin) => Ok(Self::Http(origin.parse()?)),
            ("consent", class) if is_consent_class(class) => {
                Ok(Self::Consent { class: class.to_owned(), description: String::new() })
            }
            _ => Err(unknown()),
        }
    }
}

impl Capability {
    /// Its key in `[grants.NAME]`.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Files(_) => "files",
            Self::Scan => "scan",
            Self::Process(_) => "process",
            Self::Backends(_) => "backends",
            Self::Cache => "cache",
            Self::History => "history",
            Self::GitCommit => "git-commit",
            Self::Background => "background",
            Self::Tools => "tools",
            Self::Agent(_) => "agents",
            Self::Http(_) | Self::AnyOrigin => "http",
            Self::Consent { .. } => "consent",
            Self::Questions => "questions",
        }
    }

    /// The form in which a user grants it. A request without a name is granted with one.
    pub fn to_grant(&self) -> String {
        match self {
            Self::AnyOrigin => "http=https://HOST".to_owned(),
            Self::Agent(name) if name == EVERY_AGENT => "agents=NAME".to_owned(),
            named => named.to_string(),
        }
    }

    /// Describes what it allows, for the user who decides about it.
    pub fn in_words(&self) -> String {
        match self {
            Self::Files(Files::None) => "no access to files".to_owned(),
            Self::Files(Files::Read) => "reading files of the workspace".to_owned(),
            Self::Files(Files::Write) => "reading and changing files of the workspace".to_owned(),
            Self::Scan => "reading whole trees of the workspace in bulk".to_owned(),
            Self::Process(program) => {
                format!("running the program {program} in the sandbox, on files as above")
            }
            Self::Backends(BackendKind::Linter) => "using the linters".to_owned(),
            Self::Backends(BackendKind::TestRunner) => {
                "using the test runners, which execute what the workspace holds".to_owned()
            }
            Self::Backends(BackendKind::Builder) => {
                "using the builders, which execute what the workspace holds".to_owned()
            }
            Self::Backends(BackendKind::Checker) => {
                "checking texts, such as scripts before they run".to_owned()
            }
            Self::Cache => "keeping something from call to call".to_owned(),
            Self::History => {
                "listing, showing and undoing the commits of the session that calls it".to_owned()
            }
            Self::GitCommit => {
                "committing to the git repository of the workspace, without its hooks".to_owned()
            }
            Self::Background => {
                "leaving its programs running in the sandbox until the session ends".to_owned()
            }
            Self::Tools => "calling every tool that the role of its own call includes".to_owned(),
            Self::Agent(name) if name == EVERY_AGENT => {
                "giving tasks to every agent of your settings, none of which is sandboxed: each \
                 can be granted by name, as agents=NAME"
                    .to_owned()
            }
            Self::Agent(name) => {
                format!("giving tasks to your agent {name}, which is not sandboxed")
            }
            Self::Http(origin) => format!("asking {origin}"),
            Self::AnyOrigin => {
                "asking origins that it does not name: each has to be granted by name, as \
                 http=https://HOST"
                    .to_owned()
            }
            Self::Consent { class, description } if description.is_empty() => {
                format!("actions of the class {class}, after it has asked for consent")
            }
            Self::Consent { class, description } => {
                format!("{description} (the class {class}), after it has asked for consent")
            }
            Self::Questions => "asking you questions, and reading what you answer".to_owned(),
        }
    }
}

// A field that is missing here could neither be shown to the user nor revoked. So each set is
// destructured by all of its fields: a new field does not compile until it is handled here.
impl Capabilities {
    /// The capabilities of the set, one by one.
    pub fn each(&self) -> impl Iterator<Item = Capability> + '_ {
        let Self {
            files,
            scan,
            process,
            backends,
            cache,
            history,
            git_commit,
            background,
            tools,
            agents,
            http,
            any_origin,
            consent,
            questions,
        } = self;
        (*files > Files::None)
            .then_some(Capability::Files(*files))
            .into_iter()
            .chain(scan.then_some(Capability::Scan))
            .chain(process.iter().cloned().map(Capability::Process))
            .chain(backends.iter().copied().map(Capability::Backends))
            .chain(cache.then_some(Capability::Cache))
            .chain(history.then_some(Capability::History))
            .chain(git_commit.then_some(Capability::GitCommit))
            .chain(background.then_some(Capability::Background))
            .chain(tools.then_some(Capability::Tools))
            .chain(agents.iter().cloned().map(Capability::Agent))
            .chain(http.iter().cloned().map(Capability::Http))
            .chain(any_origin.then_some(Capability::AnyOrigin))
            .chain(consent.iter().map(|(class, description)| Capability::Consent {
                class: class.clone(),
                description: description.clone(),
            }))
            .chain(questions.then_some(Capability::Questions))
    }

    /// Whether the set includes a capability, or more of its kind.
    pub fn holds(&self, capability: &Capability) -> bool {
        match capability {
            Capability::Files(wanted) => self.files >= *wanted,
            Capability::Scan => self.scan,
            Capability::Process(program) => self.process.contains(program),
            Capability::Backends(kind) => self.backends.contains(kind),
            Capability::Cache => self.cache,
            Capability::History => self.history,
            Capability::GitCommit => self.git_commit,
            Capability::Background => self.background,
            Capability::Tools => self.tools,
            Capability::Agent(name) => self.every_agent() || self.agents.contains(name),
            Capability::Http(origin) => self.any_origin || self.http.contains(origin),
            Capability::AnyOrigin => self.any_origin,
            Capability::Consent { class, .. } => self.consent.contains_key(class),
            Capability::Questions => self.questions,
        }
    }

    /// The capabilities of this set that are not in the other one.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        self.each().filter(|capability| !other.holds(capability)).collect()
    }

    /// The union of both sets.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        self.each().chain(other.each()).collect()
    }

    /// Removes a capability. Without write access, read access remains; without read access, none.
    /// A single agent can't be removed from a set of all agents, which still includes it.
    pub fn remove(&mut self, capability: &Capability) {
        match capability {
            Capability::Files(Files::Write) => self.files = self.files.min(Files::Read),
            Capability::Files(_) => self.files = Files::None,
            Capability::Scan => self.scan = false,
            Capability::Process(program) => {
                self.process.remove(program);
            }
            Capability::Backends(kind) => {
                self.backends.remove(kind);
            }
            Capability::Cache => self.cache = false,
            Capability::History => self.history = false,
            Capability::GitCommit => self.git_commit = false,
            Capability::Background => self.background = false,
            Capability::Tools => self.tools = false,
            Capability::Agent(name) => {
                self.agents.remove(name);
            }
            Capability::Http(origin) => {
                self.http.remove(origin);
            }
            Capability::AnyOrigin => self.any_origin = false,
            Capability::Consent { class, .. } => {
                self.consent.remove(class);
            }
            Capability::Questions => self.questions = false,
        }
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        let mut set = Self::NONE;
        for capability in capabilities {
            match capability {
                Capability::Files(more) => set.files = more.max(set.files),
                Capability::Scan => set.scan = true,
                Capability::Process(program) => {
                    set.process.insert(program);
                }
                Capability::Backends(kind) => {
                    set.backends.insert(kind);
                }
                Capability::Cache => set.cache = true,
                Capability::History => set.history = true,
                Capability::GitCommit => set.git_commit = true,
                Capability::Background => set.background = true,
                Capability::Tools => set.tools = true,
                Capability::Agent(name) => {
                    set.agents.insert(name);
                }
                Capability::Http(origin) => {
                    set.http.insert(origin);
                }
                Capability::AnyOrigin => set.any_origin = true,
                Capability::Consent { class, description } => {
                    let said: &mut String = set.consent.entry(class).or_default();
                    if said.is_empty() {
                        *said = description;
                    }
                }
                Capability::Questions => set.questions = true,
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn set(words: &[&str]) -> Capabilities {
        words.iter().map(|word| word.parse::<Capability>().unwrap()).collect()
    }

    #[test]
    fn capabilities_round_trip() {
        let all = [
            "files=write",
            "scan",
            "process=git",
            "process=ruff",
            "backends=linter",
            "backends=test-runner",
            "backends=builder",
            "cache",
            "history",
            "git-commit",
            "background",
            "tools",
            "agents=code-implementer",
            "agents=qa",
            "http=https://a.example",
            "consent=drop",
            "questions",
        ];
        let words: Vec<String> =
            set(&all).each().map(|capability| capability.to_string()).collect();
        assert_eq!(words, all);
        // The whole set has the same words in the same order.
        assert_eq!(set(&all).to_string(), all.join(" "));
        assert_eq!(set(&["files=write", "files=read"]), set(&["files=write"]));
        for (text, wanted) in [
            ("", "'' is no capability; there are files=read"),
            ("files", "no capability"),
            ("files=none", "no capability"),
            ("files=everything", "no capability"),
            ("scan=true", "no capability"),
            ("process=", "no capability"),
            ("backends=linters", "no capability"),
            (
                "cache=true",
                "background, tools, questions, agents=NAME, http=https://HOST and consent=CLASS",
            ),
            ("tools=files.*", "no capability"),
            ("agents", "no capability"),
            ("agents=", "no capability"),
            ("agents=a b", "no capability"),
            ("agents=q*", "no capability"),
            ("http=example.org", "begin with https://"),
            ("http=https://*.example", "letters, digits"),
            ("http=*", "begin with https://"),
            ("consent=", "no capability"),
            ("consent=*", "no capability"),
        ] {
            let error = text.parse::<Capability>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn differences_are_found_and_removed() {
        let old = set(&["files=read", "process=git"]);
        for (new, beyond) in [
            (vec!["files=read"], vec![]),
            (vec!["files=write", "process=git"], vec!["files=write"]),
            (vec!["files=read", "scan", "process=sh"], vec!["scan", "process=sh"]),
            (vec!["http=https://a.example"], vec!["http=https://a.example"]),
            (vec!["cache", "agents=qa"], vec!["cache", "agents=qa"]),
        ] {
            assert_eq!(set(&new).beyond(&old), set(&beyond));
            assert_eq!(set(&new).join(&old).beyond(&old), set(&beyond));
        }
        let unnamed: Capabilities = [Capability::AnyOrigin].into_iter().collect();
        let named = set(&["http=https://a.example"]);
        assert_eq!(named.beyond(&unnamed), Capabilities::NONE);
        assert_eq!(unnamed.beyond(&named), unnamed);
        for (gone, left) in [
            ("files=write", vec!["files=read", "scan"]),
            ("files=read", vec!["scan"]),
            ("scan", vec!["files=write"]),
            ("process=git", vec!["files=write", "scan"]),
        ] {
            let mut some = set(&["files=write", "scan"]);
            some.remove(&gone.parse().unwrap());
            assert_eq!(some, set(&left), "{gone}");
        }
    }

    /// A set with a value in every field. It names all fields, so a new one must be added here.
    fn full() -> Capabilities {
        Capabilities {
            files: Files::Write,
            scan: true,
            process: ["git".to_owned()].into(),
            backends: [BackendKind::Linter].into(),
            cache: true,
            history: true,
            git_commit: true,
            background: true,
            tools: true,
            agents: ["*".to_owned(), "qa".to_owned()].into(),
            http: "https://a.example".parse().into_iter().collect(),
            any_origin: true,
            consent: [("drop".to_owned(), "Drops a table".to_owned())].into(),
            questions: true,
        }
    }

    #[test]
    fn each_lists_every_field() {
        let full = full();
        assert_eq!(full.each().collect::<Capabilities>(), full);
        assert_eq!(full.join(&Capabilities::NONE), full);
        assert_eq!(Capabilities::NONE.join(&full), full);
        assert_eq!(full.beyond(&Capabilities::NONE), full);
        assert_eq!(full.beyond(&full), Capabilities::NONE);
        for each in full.each() {
            assert!(full.holds(&each) && !Capabilities::NONE.holds(&each), "{each}");
        }
        let mut rest = full.clone();
        for each in [Capability::Files(Files::Read)].into_iter().chain(full.each()) {
            rest.remove(&each);
        }
        assert_eq!(rest, Capabilities::NONE);
    }

    #[test]
    fn all_agents_include_each_agent() {
        let (every, one) = (set(&["agents=*"]), set(&["agents=qa"]));
        assert_eq!(one.beyond(&every), Capabilities::NONE);
        assert_eq!(every.beyond(&one), every);
        // One of all can't be removed; the set still includes it.
        let (mut some, qa) = (every.clone(), Capability::Agent("qa".to_owned()));
        some.remove(&qa);
        assert!(some.holds(&qa));
        some.remove(&Capability::Agent("*".to_owned()));
        assert_eq!(some, Capabilities::NONE);
        let words = every.each().map(|each| each.in_words()).collect::<String>();
        assert!(words.contains("every agent") && words.contains("agents=NAME"), "{words}");
        let written: Vec<String> = one.each().map(|each| each.to_grant()).collect();
        assert_eq!(written, ["agents=qa"]);
    }
}
