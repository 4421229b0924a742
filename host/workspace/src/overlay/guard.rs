//! The places of a tree that git controls: repositories at any depth, and the files that their
//! configuration names. [`cofferdam_core::policy::git`] decides which names and contents matter;
//! this module looks them up.
//!
//! A place is checked before it is changed, so that the tool gets the reason, and all changed places
//! are checked again before a commit: several changes, or writes to a file that was open before, can
//! create a repository that none of them creates alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use cofferdam_core::policy::git::{self, Mark};
use cofferdam_core::policy::place::is_within;
use cofferdam_core::policy::{executed_by, may_lead_to_executed, protected};
use rustix::fs::FileType;

use super::git_files::GIT;
use super::repositories::Execution;
use super::state::{Entry, Location, Savepoint};
use super::tree::Overlay;
use crate::disk;
use crate::disk::StatFields as _;
use crate::path::{above, join};

/// A file that another program of the user executes without being asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedFile {
    /// Relative to the workspace.
    pub path: String,
    /// The program and the occasion, as the end of a sentence.
    pub by: String,
}

impl fmt::Display for ExecutedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, which {}", self.path, self.by)
    }
}

impl Overlay {
    /// Sets the absolute path of the tree.
    pub(crate) fn at(mut self, top: PathBuf) -> Self {
        self.repositories.top = top;
        self
    }

    /// Returns why a place may not be changed, if it may not.
    pub fn refusal(&self, place: &str) -> Option<String> {
        self.held(place, "is").or_else(|| {
            let (directory, name) = disk::split(place);
            let mark = Mark::of(name)?;
            self.completes(directory, mark).then(|| repository(directory, "would be"))
        })
    }

    /// Returns the first of the places that may not be changed, as the tree is now, and why.
    pub(crate) fn refused<'a>(
        &self,
        places: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<(String, String)> {
        if let Some(made) = self.made_repository(places.clone()) {
            return Some(made);
        }
        let mut held = places
            .clone()
            .filter_map(|place| Some((place.to_owned(), self.held(place, "would be")?)));
        held.next().or_else(|| self.included_elsewhere(places))
    }

    /// Returns the first of the places whose directory is a repository as the tree is now, and why that
    /// may not be.
    pub(crate) fn made_repository<'a>(
        &self,
        places: impl Iterator<Item = &'a str>,
    ) -> Option<(String, String)> {
        let marked = places.map(disk::split).filter(|(_, name)| Mark::of(name).is_some());
        let marked: BTreeMap<&str, &str> = marked.collect();
        // Forget what is known of directories in which a file of a repository was changed.
        marked.keys().for_each(|directory| drop(self.repositories.known().remove(*directory)));
        let mut made = marked.iter().filter(|(directory, _)| {
            self.list(directory).is_ok_and(|entries| self.has_repository(directory, &entries))
        });
        let (directory, name) = made.next()?;
        Some((join(directory, name), repository(directory, "would be")))
    }

    /// Returns the first of the places that belong to a repository elsewhere in the tree, and why it
    /// may not be changed. Only files that may be configuration or a hook are considered, since this
    /// lists the whole tree.
    fn included_elsewhere<'a>(
        &self,
        places: impl Iterator<Item = &'a str>,
    ) -> Option<(String, String)> {
        let mut suspects = places.filter(|place| self.may_be_control(place)).peekable();
        suspects.peek()?;
        let all = self.named_anywhere();
        let why = |place: &str| {
            if all.configures(place) || all.is_configured_below(place) {
                return Some("part of the configuration of a git repository");
            }
            if all.holds(place, None) {
                return Some("git's control files, to which a .git elsewhere leads");
            }
            all.is_partial.then_some(
                "perhaps git's configuration: a repository includes more of that than is looked at",
            )
        };
        suspects.find_map(|place| Some((place.to_owned(), why(place)?.to_owned())))
    }

    /// Whether the staged file at a place may be git's configuration or a hook, or a link to one.
    fn may_be_control(&self, place: &str) -> bool {
        match self.find(place) {
            Ok(Location::Staged(_, FileType::Symlink)) => true,
            Ok(Location::Staged(_, FileType::RegularFile)) => {
                let beginning = self.content(place, git::CONFIGURATION_HEAD_BYTES as u64);
                beginning.is_ok_and(|beginning| git::may_be_configuration(&beginning))
                    || self.may_be_executed(place)
            }
            _ => false,
        }
    }

    fn may_be_executed(&self, place: &str) -> bool {
        self.stat(place).is_ok_and(|stat| stat.mode() & 0o111 != 0)
    }

    /// Returns why a place is protected, regardless of a change there.
    fn held(&self, place: &str, is: &str) -> Option<String> {
        if let Some(why) = protected(place) {
            return Some(why.to_owned());
        }
        // Between the place and a repository, there may be a working tree with its own `.git`.
        let mut has_git = false;
        for directory in above(place) {
            let known = self.git_directory(directory);
            if known.is_repository && !has_git {
                return Some(repository(directory, is));
            }
            let Some(control) = &known.control else { continue };
            has_git = true;
            // A repository may contain its own working tree.
            if control.holds(place, Some(directory)) {
                return Some(format!(
                    "git's control files, to which {} leads",
                    join(directory, GIT)
                ));
            }
            if control.configures(place) {
                return Some(format!("part of git's configuration in {}", join(directory, GIT)));
            }
        }
        None
    }

    /// Whether a directory becomes a repository with this file. Other spellings of names are checked
    /// before the commit, since that needs a listing.
    fn completes(&self, directory: &str, mark: Mark) -> bool {
        let has = |name: &str| self.stat(&join(directory, name)).is_ok();
        let is_rest_here = match mark {
            Mark::Head => return false,
            Mark::CommonDirectory => true,
            Mark::Objects => has("refs"),
            Mark::Refs => has("objects"),
        };
        is_rest_here && has("HEAD") && self.is_head(&join(directory, "HEAD"))
    }

    /// Returns the files written since the savepoint (without one: all) that other programs execute,
    /// by their names or because git's configuration names them.
    pub fn executed(&self, since: Option<&Savepoint>) -> Vec<ExecutedFile> {
        let is_file =
            |entry: &Entry| matches!(entry, Entry::Staged(_, kind) if *kind != FileType::Directory);
        let entries = since
            .map_or_else(|| self.entries(), |since| self.state().entries.since(since.position));
        let written = entries.iter().filter(|(_, entry)| is_file(entry));
        let written: Vec<&str> = written.map(|(place, _)| place.as_str()).collect();
        let links = self.naming_links(&written);
        let found = written.iter().filter_map(|place| {
            let by = executed_by(place).map(str::to_owned);
            let by = by
                .or_else(|| self.run_by_git(place))
                .or_else(|| executed_through_link(place, &links))
                .or_else(|| self.run_elsewhere(place))?;
            Some(ExecutedFile { path: (*place).to_owned(), by })
        });
        found.collect()
    }

    /// Returns links that may give written files a name by which they are executed, and where they
    /// lead: those that the transaction followed, and those in directories above the files.
    fn naming_links(&self, written: &[&str]) -> Vec<(String, String)> {
        let directories: BTreeSet<&str> = written.iter().flat_map(|place| above(place)).collect();
        let mut links = self.state().followed.clone();
        for directory in directories {
            let entries = self.list(directory).unwrap_or_default();
            let in_it = entries.iter().filter(|entry| entry.kind == FileType::Symlink);
            let places = in_it.filter_map(|entry| Some(join(directory, entry.name.to_str()?)));
            links.extend(places.filter(|place| may_lead_to_executed(place)));
        }
        self.targets(links)
    }

    /// Returns where links lead, without those that lead to nothing.
    fn targets(&self, links: impl IntoIterator<Item = String>) -> Vec<(String, String)> {
        let led = links.into_iter().filter_map(|link| {
            let target = self.resolve_noting("", &link, true, |_| {}).ok()?;
            Some((link, target.into()))
        });
        led.collect()
    }

    /// As [`executed`](Self::executed), for the files and links of a tree that has no repository and
    /// whose links are `links`.
    pub(crate) fn executed_by_names(&self, written: &[&str], links: &[&str]) -> Vec<ExecutedFile> {
        let links = links.iter().filter(|link| may_lead_to_executed(link));
        let links = self.targets(links.map(|link| (*link).to_owned()));
        let found = written.iter().filter_map(|place| {
            let by = executed_by(place).map(str::to_owned);
            let by = by.or_else(|| executed_through_link(place, &links))?;
            Some(ExecutedFile { path: (*place).to_owned(), by })
        });
        found.collect()
    }

    /// Whether git's configuration or a link of its hooks names a file.
    fn run_by_git(&self, place: &str) -> Option<String> {
        above(place).find_map(|directory| {
            let known = self.git_directory(directory);
            let execution = known.control.as_ref()?.executes(place)?;
            let git = join(directory, GIT);
            Some(match execution {
                Execution::Hook => format!("git runs as a hook (by {git})"),
                Execution::Command => format!("git runs (by the configuration in {git})"),
            })
        })
    }

    /// As [`run_by_git`](Self::run_by_git), for repositories anywhere in the tree.
    fn run_elsewhere(&self, place: &str) -> Option<String> {
        let control = self.may_be_executed(place).then(|| self.named_anywhere())?;
        let by = match control.executes(place)? {
            Execution::Hook => "git runs as a hook (of a repository in another directory)",
            Execution::Command => {
                "git runs (by the configuration of a repository in another directory)"
            }
        };
        Some(by.to_owned())
    }
}

/// Which program executes a file by the name that a link gives it.
fn executed_through_link(place: &str, links: &[(String, String)]) -> Option<String> {
    links.iter().filter(|(_, target)| is_within(place, target)).find_map(|(link, target)| {
        let name = format!("{link}/{}", place[target.len()..].trim_start_matches('/'));
        let name = name.trim_end_matches('/');
        executed_by(name).map(|by| format!("{by} (as {name})"))
    })
}

fn repository(directory: &str, is: &str) -> String {
    let shown =
        if directory.is_empty() { "the workspace".to_owned() } else { format!("{directory}/") };
    format!("{shown} {is} a git repository (HEAD, objects, refs)")
}
