//! One capability at a time: how it is written on a command line, and said to a person who
//! decides about it.

use std::fmt;
use std::str::FromStr;

use super::{BackendKind, Capabilities, Files, Origin, OriginError};

/// One thing that can be granted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// `files=read`, `files=write`
    Files(Files),
    /// `scan`
    Scan,
    /// `process=git`
    Process(String),
    /// `backends=linter`
    Backends(BackendKind),
    /// `http=https://example.org`
    Http(Origin),
    /// `http=*`: asked for by plugins that can't name their origins, and never granted itself.
    AnyOrigin,
}

/// Text that is no capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapabilityError {
    /// It is of no form that there is.
    #[error(
        "'{0}' is no capability; there are files=read, files=write, scan, process=PROGRAM, \
         backends=linter, backends=test-runner, backends=builder and http=https://HOST"
    )]
    Unknown(String),
    /// Its origin is none.
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
            Self::Http(origin) => write!(f, "http={origin}"),
            Self::AnyOrigin => f.write_str("http=*"),
        }
    }
}

impl FromStr for Capability {
    type Err = CapabilityError;

    fn from_str(text: &str) -> Result<Self, CapabilityError> {
        let unknown = || CapabilityError::Unknown(crate::outcome::shorten(text, 80));
        if text == "scan" {
            return Ok(Self::Scan);
        }
        match text.split_once('=').ok_or_else(unknown)? {
            ("files", "read") => Ok(Self::Files(Files::Read)),
            ("files", "write") => Ok(Self::Files(Files::Write)),
            ("process", program) if !program.is_empty() => Ok(Self::Process(program.to_owned())),
            ("backends", "linter") => Ok(Self::Backends(BackendKind::Linter)),
            ("backends", "test-runner") => Ok(Self::Backends(BackendKind::TestRunner)),
            ("backends", "builder") => Ok(Self::Backends(BackendKind::Builder)),
            ("http", origin) => Ok(Self::Http(origin.parse()?)),
            _ => Err(unknown()),
        }
    }
}

impl Capability {
    /// The key of `[grants.NAME]` in which it stands.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Files(_) => "files",
            Self::Scan => "scan",
            Self::Process(_) => "process",
            Self::Backends(_) => "backends",
            Self::Http(_) | Self::AnyOrigin => "http",
        }
    }

    /// What it allows, for a person who decides about it.
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
            Self::Http(origin) => format!("asking {origin}"),
            Self::AnyOrigin => {
                "asking origins that it does not name: each has to be granted by name, as \
                 http=https://HOST"
                    .to_owned()
            }
        }
    }
}

impl Capabilities {
    /// Each capability of the set.
    pub fn each(&self) -> impl Iterator<Item = Capability> + '_ {
        let files = (self.files > Files::None).then_some(Capability::Files(self.files));
        let scan = self.scan.then_some(Capability::Scan);
        files
            .into_iter()
            .chain(scan)
            .chain(self.process.iter().cloned().map(Capability::Process))
            .chain(self.backends.iter().copied().map(Capability::Backends))
            .chain(self.http.iter().cloned().map(Capability::Http))
            .chain(self.any_origin.then_some(Capability::AnyOrigin))
    }

    /// Whether the set holds a capability, or more of its kind.
    pub fn holds(&self, capability: &Capability) -> bool {
        match capability {
            Capability::Files(files) => self.files >= *files,
            Capability::Scan => self.scan,
            Capability::Process(program) => self.process.contains(program),
            Capability::Backends(kind) => self.backends.contains(kind),
            Capability::Http(origin) => self.any_origin || self.http.contains(origin),
            Capability::AnyOrigin => self.any_origin,
        }
    }

    /// The capabilities of this set that another does not hold.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        self.each().filter(|capability| !other.holds(capability)).collect()
    }

    /// What either set holds.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        self.each().chain(other.each()).collect()
    }

    /// The set without a capability. Without writing, reading is left; without reading, nothing.
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
            Capability::Http(origin) => {
                self.http.remove(origin);
            }
            Capability::AnyOrigin => self.any_origin = false,
        }
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        let mut set = Self::NONE;
        for capability in capabilities {
            match capability {
                Capability::Files(files) => set.files = set.files.max(files),
                Capability::Scan => set.scan = true,
                Capability::Process(program) => {
                    set.process.insert(program);
                }
                Capability::Backends(kind) => {
                    set.backends.insert(kind);
                }
                Capability::Http(origin) => {
                    set.http.insert(origin);
                }
                Capability::AnyOrigin => set.any_origin = true,
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
    fn each_is_written_in_one_way() {
        let all = [
            "files=write",
            "scan",
            "process=git",
            "process=ruff",
            "backends=linter",
            "backends=test-runner",
            "backends=builder",
            "http=https://a.example",
        ];
        let words: Vec<String> =
            set(&all).each().map(|capability| capability.to_string()).collect();
        assert_eq!(words, all);
        assert_eq!(set(&["files=write", "files=read"]), set(&["files=write"]));
        for (text, wanted) in [
            ("", "'' is no capability; there are files=read"),
            ("files", "no capability"),
            ("files=none", "no capability"),
            ("files=everything", "no capability"),
            ("scan=true", "no capability"),
            ("process=", "no capability"),
            ("backends=linters", "no capability"),
            ("http=example.org", "begin with https://"),
            ("http=https://*.example", "letters, digits"),
            ("http=*", "begin with https://"),
        ] {
            let error = text.parse::<Capability>().unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn what_goes_beyond_is_found_and_taken_away() {
        let old = set(&["files=read", "process=git"]);
        for (new, beyond) in [
            (vec!["files=read"], vec![]),
            (vec!["files=write", "process=git"], vec!["files=write"]),
            (vec!["files=read", "scan", "process=sh"], vec!["scan", "process=sh"]),
            (vec!["http=https://a.example"], vec!["http=https://a.example"]),
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
}
