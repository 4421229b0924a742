//! The places of a tree that git controls: repositories at any depth, and the files that their
//! configuration names. [`cofferdam_core::policy::git`] decides which names and contents matter;
//! this module looks them up.
//!
//! A place is checked before it is changed, so that the tool gets the reason, and all changed places
//! are checked again before a commit: several changes, or writes to a file that was open before, can
//! create a repository that none of them creates alone.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::Arc;

use cofferdam_core::policy::git::{self, HEAD_SIZE, LEADS_TO, Mark};
use cofferdam_core::policy::place::is_within;
use cofferdam_core::policy::{executed_by, protected};
use rustix::fs::{AtFlags, FileType, OFlags};

use super::repositories::{Control, GitDirectory};
use super::state::{Entry, Location, Savepoint};
use super::tree::Overlay;
use crate::disk::{self, Listed, Spot};
use crate::path::{MAX_PATH, above, join, link_target};

/// How much of a file of git's configuration is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// How many files of one repository's configuration are read.
const MAX_CONFIGS: usize = 32;

/// How many words of commands in one repository's configuration are considered.
const MAX_COMMANDS: usize = 1000;

/// How many spellings of `HEAD` in a directory are read; further ones are assumed to be valid.
const MAX_HEADS: usize = 16;

const GIT: &str = ".git";

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

    /// Returns what is known of a directory; looks it up the first time.
    fn git_directory(&self, directory: &str) -> Arc<GitDirectory> {
        if let Some(found) = self.repositories.known().get(directory) {
            return Arc::clone(found);
        }
        let (has_head, git) = self.head_and_git(directory);
        let found = Arc::new(GitDirectory {
            is_repository: has_head
                && self
                    .list(directory)
                    .is_ok_and(|entries| self.has_repository(directory, &entries)),
            control: git.and_then(|kind| self.control(directory, kind)),
        });
        // The entries of a tree for reading would become outdated.
        if self.is_writable() {
            self.repositories.known().insert(directory.to_owned(), Arc::clone(&found));
        }
        found
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
        // Forget what is known of directories in which a file of a repository was changed.
        let marked = places.clone().map(disk::split).filter(|(_, name)| Mark::of(name).is_some());
        let marked: BTreeMap<&str, &str> = marked.collect();
        marked.keys().for_each(|directory| drop(self.repositories.known().remove(*directory)));
        let mut made = marked.iter().filter(|(directory, _)| {
            self.list(directory).is_ok_and(|entries| self.has_repository(directory, &entries))
        });
        if let Some((directory, name)) = made.next() {
            return Some((join(directory, name), repository(directory, "would be")));
        }
        let mut held =
            places.filter_map(|place| Some((place.to_owned(), self.held(place, "would be")?)));
        held.next()
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
            if control.roots.iter().any(|root| is_within(place, root)) {
                return Some(format!(
                    "git's control files, to which {} leads",
                    join(directory, GIT)
                ));
            }
            if control.configs.iter().any(|config| is_within(place, config)) {
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
    pub(crate) fn executed(&self, since: Option<&Savepoint>) -> Vec<ExecutedFile> {
        let is_new = |place: &str, entry: &Entry| {
            matches!(entry, Entry::Staged(_, kind) if *kind != FileType::Directory)
                && since.is_none_or(|since| since.entries.get(place) != Some(entry))
        };
        let entries = self.entries();
        let written = entries.iter().filter(|(place, entry)| is_new(place, entry));
        let found = written.filter_map(|(place, _)| {
            let by = executed_by(place).map(str::to_owned).or_else(|| self.run_by_git(place))?;
            Some(ExecutedFile { path: place.clone(), by })
        });
        found.collect()
    }

    /// Whether git's configuration or a link of its hooks names a file.
    fn run_by_git(&self, place: &str) -> Option<String> {
        above(place).find_map(|directory| {
            let known = self.git_directory(directory);
            let control = known.control.as_ref()?;
            let parent = disk::split(place).0;
            let is_hook = control.hooks.contains(place)
                || !parent.is_empty() && control.hooks.contains(parent);
            let git = join(directory, GIT);
            if is_hook {
                Some(format!("git runs as a hook (by {git})"))
            } else {
                let is_named = control.commands.contains(place);
                is_named.then(|| format!("git runs (by the configuration in {git})"))
            }
        })
    }

    /// Returns the places that the `.git` of a directory refers to, and the files of the repository's
    /// configuration, if they are not in `.git` itself.
    pub(crate) fn led_to(&self, directory: &str) -> Vec<String> {
        let (_, git) = self.head_and_git(directory);
        let control = git.and_then(|kind| self.control(directory, kind)).unwrap_or_default();
        let mut places = control.roots;
        places.extend(control.configs);
        places.retain(|place| self.stat(place).is_ok());
        places
    }

    /// Whether git considers a directory with these entries a repository.
    pub(crate) fn has_repository(&self, directory: &str, entries: &[Listed]) -> bool {
        git::is_repository(&self.marks(directory, entries))
    }

    /// Returns whether a directory has a `HEAD` of any type, and the type of its `.git`.
    fn head_and_git(&self, directory: &str) -> (bool, Option<FileType>) {
        let places = ["HEAD", GIT].map(|name| join(directory, name));
        let found = places.each_ref().map(|place| self.find(place).unwrap_or(Location::Nothing));
        let on_disk = |found: &Location| matches!(found, Location::Disk);
        // Only a file system that folds case has other spellings, and it finds these names, too.
        let spot = Spot::of(&*self.disk, &places[0]).ok().filter(|_| found.iter().any(on_disk));
        let kind = |found: &Location, name: &str| match found {
            Location::Nothing => None,
            Location::Staged(_, kind) => Some(*kind),
            Location::Disk => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let stat = rustix::fs::statat(spot.as_ref()?.directory(), name, flags).ok()?;
                Some(disk::file_type(&stat))
            }
        };
        (kind(&found[0], "HEAD").is_some(), kind(&found[1], GIT))
    }

    /// Returns which files of a repository are among the entries of a directory.
    fn marks(&self, directory: &str, entries: &[Listed]) -> Vec<Mark> {
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        let mut heads = 0;
        let marks = names.filter_map(|name| Some((name, Mark::of(name)?)));
        let counts = |(name, mark): &(&str, Mark)| {
            if *mark != Mark::Head {
                return true;
            }
            // There can be any number of spellings of one name.
            heads += 1;
            heads > MAX_HEADS || self.is_head(&join(directory, name))
        };
        marks.filter(counts).map(|(_, mark)| mark).collect()
    }

    /// Whether git considers the file at a place a valid `HEAD`. True if it can't be read.
    fn is_head(&self, place: &str) -> bool {
        let Ok(stat) = self.stat(place) else { return true };
        match disk::file_type(&stat) {
            FileType::Symlink => {
                self.read_link(place).map_or(true, |target| git::is_head_link(&target))
            }
            FileType::RegularFile => {
                self.content(place, HEAD_SIZE as u64).map_or(true, |content| git::is_head(&content))
            }
            _ => false,
        }
    }

    /// Reads the beginning of a file, without noting it as seen by the transaction.
    fn content(&self, place: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = match self.find(place)? {
            Location::Nothing => return Err(io::ErrorKind::NotFound.into()),
            Location::Staged(id, _) => {
                disk::open(self.stage()?, &self.image_name(id), OFlags::RDONLY)?
            }
            Location::Disk => disk::open(&*self.disk, place, OFlags::RDONLY)?,
        };
        let file = std::fs::File::from(file);
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut content = Vec::new();
        file.take(most).read_to_end(&mut content)?;
        Ok(content)
    }

    fn text(&self, place: &str, most: u64) -> Option<String> {
        let content = self.content(place, most).ok()?;
        Some(String::from_utf8_lossy(&content).into_owned())
    }

    /// Returns the place of a path in a file of git; `None` if it is outside of the workspace.
    fn named(&self, directory: &str, path: &str) -> Option<String> {
        let (directory, path) = match path.strip_prefix('/') {
            None => (directory, path.to_owned()),
            Some(_) => {
                let inside =
                    std::path::Path::new(path).strip_prefix(&self.repositories.top).ok()?;
                ("", inside.to_str()?.to_owned())
            }
        };
        let place = link_target(&join(directory, GIT), path.trim()).ok()?;
        if place.is_empty() {
            return Some(place.into());
        }
        Some(self.resolve("", &place, true).unwrap_or(place).into())
    }

    /// Returns what the `.git` of a directory refers to. `kind` is the type of `.git`.
    fn control(&self, directory: &str, kind: FileType) -> Option<Control> {
        let git = join(directory, GIT);
        let repository = match kind {
            FileType::Directory => Some(git.clone()),
            FileType::Symlink => self.resolve("", &git, true).ok().map(String::from),
            _ => self
                .text(&git, MAX_PATH as u64)
                .and_then(|text| self.named(directory, text.strip_prefix(LEADS_TO)?.trim())),
        };
        // A repository outside of the workspace: no call can change it.
        let Some(repository) = repository else { return Some(Control::default()) };
        let shared = self.text(&join(&repository, "commondir"), MAX_PATH as u64);
        let shared = shared.and_then(|path| self.named(&repository, path.trim()));
        let mut control = Control::default();
        for root in [Some(&repository), shared.as_ref()].into_iter().flatten() {
            for name in ["config", "config.worktree"] {
                self.add_config(directory, &join(root, name), &mut control);
            }
            self.add_hooks(&join(root, "hooks"), &mut control);
            if !root.is_empty() && *root != git {
                control.roots.push(root.clone());
            }
        }
        control.configs.retain(|config| !is_within(config, &git));
        Some(control)
    }

    /// Adds the places named by a configuration file and by the files that it includes.
    fn add_config(&self, top: &str, config: &str, control: &mut Control) {
        let mut waiting = vec![config.to_owned()];
        while let Some(config) = waiting.pop() {
            if control.configs.len() >= MAX_CONFIGS || control.configs.contains(&config) {
                continue;
            }
            // Links are followed only if the place can't be read as a file.
            let (real, text) = match self.text(&config, MAX_CONFIG_BYTES) {
                Some(text) => (config.clone(), Some(text)),
                None => {
                    let real = self.resolve("", &config, true).map(String::from);
                    let real = real.unwrap_or_else(|_| config.clone());
                    let text = self.text(&real, MAX_CONFIG_BYTES);
                    control.configs.push(config);
                    (real, text)
                }
            };
            control.configs.push(real.clone());
            let named = text.map(|text| git::named_by(&text)).unwrap_or_default();
            let above = disk::split(&real).0;
            waiting.extend(named.includes.iter().filter_map(|path| self.named(above, path)));
            control.hooks.extend(named.hooks.iter().filter_map(|path| self.named(top, path)));
            let left = MAX_COMMANDS.saturating_sub(control.commands.len());
            let words = named.words.iter().take(left);
            control.commands.extend(words.filter_map(|path| self.named(top, path)));
        }
    }

    /// Adds the directory of hooks, if it is a link, and the targets of links in it.
    fn add_hooks(&self, hooks: &str, control: &mut Control) {
        let (real, entries) = match self.list(hooks) {
            Ok(entries) => (hooks.to_owned(), entries),
            Err(_) => {
                let Ok(real) = self.resolve("", hooks, true) else { return };
                let entries = self.list(&real).unwrap_or_default();
                (real.into(), entries)
            }
        };
        let links = entries.iter().filter(|entry| entry.kind == FileType::Symlink);
        let links = links
            .filter_map(|entry| self.resolve("", &join(&real, entry.name.to_str()?), true).ok());
        control.hooks.extend(links.map(String::from));
        if real != hooks {
            control.hooks.insert(real);
        }
    }
}

fn repository(directory: &str, is: &str) -> String {
    let shown =
        if directory.is_empty() { "the workspace".to_owned() } else { format!("{directory}/") };
    format!("{shown} {is} a git repository (HEAD, objects, refs)")
}
