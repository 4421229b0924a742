//! The capabilities that an instance can be linked with, and the intersection of two sets of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Origin;

/// Access to the files of the workspace.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Files {
    /// No access to any directory.
    #[default]
    None,
    /// Read access to the workspace.
    Read,
    /// Read and write access to the workspace.
    Write,
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// What a backend does for tools.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Finds problems in source files.
    Linter,
    /// Runs the tests of a project.
    TestRunner,
    /// Builds a project, such as with a compiler.
    Builder,
    /// Checks texts that are no files, such as scripts.
    Checker,
}

impl BackendKind {
    /// All kinds, in the order of the enum.
    pub const ALL: [Self; 4] = [Self::Linter, Self::TestRunner, Self::Builder, Self::Checker];
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linter => "linter",
            Self::TestRunner => "test-runner",
            Self::Builder => "builder",
            Self::Checker => "checker",
        })
    }
}

/// A set of capabilities: requested by a manifest, granted by the operator, or given to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Capabilities {
    /// Access to the files of the workspace.
    #[serde(default)]
    pub files: Files,
    /// Reading trees in bulk through `cofferdam:host/scan`.
    #[serde(default)]
    pub scan: bool,
    /// Programs that may be run through `cofferdam:host/process`, by name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub process: BTreeSet<String>,
    /// The kinds of backends that may be used through `cofferdam:backend`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub backends: BTreeSet<BackendKind>,
    /// Whether data may be kept between calls through `cofferdam:host/cache`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cache: bool,
    /// Whether the commits of the calling session may be listed, shown and undone through
    /// `cofferdam:host/history`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history: bool,
    /// Whether commits to the git repository of the workspace may be made through
    /// `cofferdam:host/git-commit`.
    #[serde(default, rename = "git-commit", skip_serializing_if = "std::ops::Not::not")]
    pub git_commit: bool,
    /// Whether programs of `process` may be left running until the session ends, through
    /// `cofferdam:host/background`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Whether other tools may be called through `cofferdam:host/tools`, each with what its own plugin
    /// is granted and never more than the role and the scope of the call that calls it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tools: bool,
    /// Agents that may be given tasks through `cofferdam:host/agents`, by their names in the
    /// settings; `*` for all of them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub agents: BTreeSet<String>,
    /// Origins that may be accessed through `wasi:http`, such as `https://context7.com`.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub http: BTreeSet<Origin>,
    /// Whether a plugin requests origins that it can't name, such as one that fetches any page: it gets
    /// those that the user grants by name. This itself is never granted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub any_origin: bool,
    /// Classes of actions that no file and no origin shows, and for which consent may be asked through
    /// `cofferdam:host/consent`: each with what users are told about it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub consent: BTreeMap<String, String>,
    /// Whether the user may be asked questions through `cofferdam:host/questions`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub questions: bool,
}

impl Capabilities {
    /// No capabilities except those of every plugin: messages and progress.
    pub const NONE: Self = Self {
        files: Files::None,
        scan: false,
        process: BTreeSet::new(),
        backends: BTreeSet::new(),
        cache: false,
        history: false,
        git_commit: false,
        background: false,
        tools: false,
        agents: BTreeSet::new(),
        http: BTreeSet::new(),
        any_origin: false,
        consent: BTreeMap::new(),
        questions: false,
    };

    /// The intersection of both sets.
    #[must_use]
    pub fn meet(&self, other: &Self) -> Self {
        let files = self.files.min(other.files);
        Self {
            files,
            scan: self.scan && other.scan && files >= Files::Read,
            process: &self.process & &other.process,
            backends: &self.backends & &other.backends,
            cache: self.cache && other.cache,
            history: self.history && other.history,
            git_commit: self.git_commit && other.git_commit,
            background: self.background && other.background,
            tools: self.tools && other.tools,
            agents: match (self.every_agent(), other.every_agent()) {
                (true, _) => other.agents.clone(),
                (_, true) => self.agents.clone(),
                _ => &self.agents & &other.agents,
            },
            http: match (self.any_origin, other.any_origin) {
                (true, false) => other.http.clone(),
                (false, true) => self.http.clone(),
                _ => &self.http & &other.http,
            },
            any_origin: self.any_origin && other.any_origin,
            consent: described(&self.consent, &other.consent),
            questions: self.questions && other.questions,
        }
    }

    /// What a built-in plugin gets of its requests if the settings have no entry for it: no shell,
    /// which could run any other program, no program that is left running, no agent, which can do
    /// everything that the operator can, no network, no consent, and no questions.
    #[must_use]
    pub(super) fn unasked(&self) -> Self {
        let Self {
            files,
            scan,
            process,
            backends,
            cache,
            history,
            git_commit: _,
            background: _,
            tools,
            agents: _,
            http: _,
            any_origin: _,
            consent: _,
            questions: _,
        } = self.clone();
        let process = process.into_iter().filter(|program| !is_shell(program)).collect();
        Self { files, scan, process, backends, cache, history, tools, ..Self::NONE }
    }

    /// Whether a call may wait for programs: its own, those of backends, or agents. Checkers run none.
    pub fn runs_programs(&self) -> bool {
        let has_backends = self.backends.iter().any(|kind| *kind != BackendKind::Checker);
        !self.process.is_empty() || has_backends || !self.agents.is_empty()
    }

    /// Whether an agent of this name may be given tasks.
    pub fn allows_agent(&self, name: &str) -> bool {
        self.every_agent() || self.agents.contains(name)
    }

    pub(super) fn every_agent(&self) -> bool {
        self.agents.contains(EVERY_AGENT)
    }
}

/// The classes that are in both sets. A grant has no descriptions.
fn described(
    left: &BTreeMap<String, String>,
    right: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let both = left.iter().filter_map(|(class, said)| {
        let other = right.get(class)?;
        Some((class.clone(), if said.is_empty() { other.clone() } else { said.clone() }))
    });
    both.collect()
}

/// Stands for all agents of the settings.
pub(super) const EVERY_AGENT: &str = "*";

/// Programs whose arguments are programs.
const SHELLS: &[&str] = &["ash", "bash", "csh", "dash", "fish", "ksh", "sh", "tcsh", "zsh"];

/// Whether a program is a shell, by its name.
pub(super) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program)
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let no_files = (self.files == Files::None).then(|| "files=none".to_owned());
        let words = no_files.into_iter().chain(self.each().map(|each| each.to_string()));
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meet_is_the_intersection() {
        let set = |files, scan| Capabilities { files, scan, ..Capabilities::NONE };
        for (left, right, wanted) in [
            (set(Files::Write, true), set(Files::Write, true), set(Files::Write, true)),
            (set(Files::Write, true), set(Files::Read, true), set(Files::Read, true)),
            (set(Files::Read, true), set(Files::Read, false), set(Files::Read, false)),
            // Scanning is reading: without files there is nothing to scan.
            (set(Files::Read, true), set(Files::None, true), set(Files::None, false)),
            (Capabilities::NONE, set(Files::Write, true), Capabilities::NONE),
        ] {
            assert_eq!(left.meet(&right), wanted);
            assert_eq!(right.meet(&left), wanted);
        }
    }

    #[test]
    fn programs_intersect_by_name_and_shells_need_a_grant() {
        let set = |names: &[&str]| Capabilities {
            process: names.iter().map(|&name| name.to_owned()).collect(),
            ..Capabilities::NONE
        };
        let requested = set(&["git", "bash", "ruff"]);
        assert_eq!(requested.meet(&set(&["ruff", "node"])), set(&["ruff"]));
        assert_eq!(requested.unasked(), set(&["git", "ruff"]));
        assert!(requested.runs_programs() && !Capabilities::NONE.runs_programs());
    }

    #[test]
    fn agents_intersect_by_name_and_need_a_grant() {
        let set = |names: &[&str]| Capabilities {
            agents: names.iter().map(|&name| name.to_owned()).collect(),
            ..Capabilities::NONE
        };
        for (requested, granted, wanted) in [
            (set(&["*"]), set(&["qa", "writer"]), set(&["qa", "writer"])),
            (set(&["qa"]), set(&["*"]), set(&["qa"])),
            (set(&["*"]), set(&["*"]), set(&["*"])),
            (set(&["qa", "a"]), set(&["qa", "b"]), set(&["qa"])),
            (set(&["*"]), Capabilities::NONE, Capabilities::NONE),
        ] {
            assert_eq!(requested.meet(&granted), wanted);
            assert_eq!(granted.meet(&requested), wanted);
        }
        assert_eq!(set(&["*"]).unasked(), Capabilities::NONE);
        assert!(set(&["*"]).allows_agent("qa") && set(&["qa"]).allows_agent("qa"));
        assert!(!set(&["qa"]).allows_agent("main") && !Capabilities::NONE.allows_agent("*"));
        assert!(set(&["qa"]).runs_programs());
    }

    #[test]
    fn origins_intersect_exactly_and_need_a_grant() {
        let set = |origins: &[&str]| Capabilities {
            http: origins.iter().filter_map(|origin| origin.parse().ok()).collect(),
            ..Capabilities::NONE
        };
        let requested = set(&["https://context7.com", "https://example.org:8443"]);
        for (granted, wanted) in [
            (set(&["https://CONTEXT7.com:443"]), set(&["https://context7.com"])),
            (set(&["https://example.org"]), Capabilities::NONE),
            (set(&["https://api.context7.com"]), Capabilities::NONE),
            (set(&[]), Capabilities::NONE),
        ] {
            assert_eq!(requested.meet(&granted), wanted);
        }
        assert_eq!(requested.unasked(), Capabilities::NONE);
        let unnamed = Capabilities { any_origin: true, ..Capabilities::NONE };
        assert_eq!(unnamed.meet(&requested), requested);
        assert_eq!(requested.meet(&unnamed), requested);
        assert_eq!(unnamed.meet(&Capabilities::NONE), Capabilities::NONE);
        assert_eq!(unnamed.unasked(), Capabilities::NONE);
        assert_eq!(set(&["https://a.example"]).to_string(), "files=none http=https://a.example");
    }
}
