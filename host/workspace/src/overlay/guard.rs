//! What git would take for its own, asked of a tree: repositories wherever they lie, and the files
//! that a repository's configuration names. Which names and contents count is decided by
//! [`cofferdam_core::policy::git`]; here they are looked at.
//!
//! A place is asked about before it is changed, so that the tool hears why not, and all changed
//! places once more before they are committed: several changes, or what is written to a file that
//! is open, can make a repository that none of them makes alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, OFlags};

use super::super::ExecutedFile;
use super::super::disk::{self, Listed, Spot};
use super::super::path::{MAX_PATH, join, link_target};
use super::{Entry, Found, Overlay, Savepoint};
use cofferdam_core::policy::git::{self, GITFILE_PREFIX, HEAD_BYTES, Mark};
use cofferdam_core::policy::{executed_by, protected};

/// The largest file of git's configuration that is looked at, in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// How many files of one repository's configuration are looked at.
const MAX_CONFIGS: usize = 32;

/// How many words of its commands are looked at.
const MAX_COMMANDS: usize = 1000;

/// How many spellings of `HEAD` in a directory are read; more of them are taken for one.
const MAX_HEADS: usize = 16;

const GIT: &str = ".git";

/// What is known of the directories of one tree.
#[derive(Default)]
pub(super) struct Guard {
    /// The tree's absolute path, since git's files may name places by theirs.
    top: PathBuf,
    known: Mutex<HashMap<String, Arc<Known>>>,
}

/// A directory as git sees it.
#[derive(Default)]
struct Known {
    /// It is a repository by its content.
    is_repository: bool,
    /// What its `.git` leads to, if it has one.
    control: Option<Control>,
}

/// What a `.git` in the directory above leads to.
#[derive(Debug, Default)]
struct Control {
    /// The repository, and the one that it shares with other working trees, where they are not
    /// `.git` itself.
    roots: Vec<String>,
    /// Files that are part of its configuration.
    configs: Vec<String>,
    /// Directories of hooks, and files that links in one lead to.
    hooks: BTreeSet<String>,
    /// Words of commands in its configuration, as places.
    commands: BTreeSet<String>,
}

impl Guard {
    fn known(&self, tree: &Overlay, directory: &str) -> Arc<Known> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known().get(directory) {
            return Arc::clone(found);
        }
        let (has_head, git) = tree.head_and_git(directory);
        let found = Arc::new(Known {
            is_repository: has_head
                && tree
                    .list(directory)
                    .is_ok_and(|entries| tree.has_repository(directory, &entries)),
            control: git.and_then(|kind| tree.control(directory, kind)),
        });
        // A tree that can't be changed may stay for long.
        if tree.is_writable() {
            known().insert(directory.to_owned(), Arc::clone(&found));
        }
        found
    }
}

impl Overlay {
    /// The tree of a workspace with this absolute path.
    pub(crate) fn at(mut self, top: PathBuf) -> Self {
        self.guard.top = top;
        self
    }

    /// Why nothing may be changed at a place, if that is so.
    pub fn refusal(&self, place: &str) -> Option<String> {
        self.held(place, "is").or_else(|| {
            let (directory, name) = disk::split(place);
            let mark = Mark::of(name)?;
            self.completes(directory, mark).then(|| repository(directory, "would be"))
        })
    }

    /// The first of the places that may not be changed as they are now, and why.
    pub(crate) fn refused<'a>(
        &self,
        places: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<(String, String)> {
        // What was looked at before may be something else by now, where a mark was changed.
        let marked = places.clone().map(disk::split).filter(|(_, name)| Mark::of(name).is_some());
        let marked: BTreeMap<&str, &str> = marked.collect();
        {
            let mut known = self.guard.known.lock().unwrap_or_else(PoisonError::into_inner);
            marked.keys().for_each(|directory| drop(known.remove(*directory)));
        }
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

    /// Why a place is one that is protected already.
    fn held(&self, place: &str, is: &str) -> Option<String> {
        if let Some(why) = protected(place) {
            return Some(why.to_owned());
        }
        // Between the place and a repository may be a working tree with a `.git` of its own.
        let mut has_git = false;
        for directory in above(place) {
            let known = self.guard.known(self, directory);
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

    /// Whether a directory is a repository once it has this mark as well. Other spellings of names
    /// wait for the commit: to look for those takes a listing.
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

    /// What was written since the savepoint, or at all, that other programs execute by its name or
    /// because git's configuration says so.
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
            let known = self.guard.known(self, directory);
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

    /// The places that the `.git` of a directory leads to, and the files that are part of git's
    /// configuration by it, where they are not in the `.git` itself.
    pub(crate) fn led_to(&self, directory: &str) -> Vec<String> {
        let (_, git) = self.head_and_git(directory);
        let control = git.and_then(|kind| self.control(directory, kind)).unwrap_or_default();
        let mut places = control.roots;
        places.extend(control.configs);
        places.retain(|place| self.stat(place).is_ok());
        places
    }

    /// Whether git takes a directory, in which this is, for a repository.
    pub(crate) fn has_repository(&self, directory: &str, entries: &[Listed]) -> bool {
        git::is_repository(&self.marks(directory, entries))
    }

    /// Whether a directory has a `HEAD`, of whatever kind, and what its `.git` is.
    fn head_and_git(&self, directory: &str) -> (bool, Option<FileType>) {
        let places = ["HEAD", GIT].map(|name| join(directory, name));
        let found = places.each_ref().map(|place| self.find(place).unwrap_or(Found::Nothing));
        let on_disk = |found: &Found| matches!(found, Found::Disk);
        // Only a file system that folds case has other spellings, and there these are found.
        let spot = Spot::of(&*self.disk, &places[0]).ok().filter(|_| found.iter().any(on_disk));
        let kind = |found: &Found, name: &str| match found {
            Found::Nothing => None,
            Found::Staged(_, kind) => Some(*kind),
            Found::Disk => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                let stat = rustix::fs::statat(spot.as_ref()?.directory(), name, flags).ok()?;
                Some(disk::file_type(&stat))
            }
        };
        (kind(&found[0], "HEAD").is_some(), kind(&found[1], GIT))
    }

    /// What of a repository is in a directory with these entries.
    fn marks(&self, directory: &str, entries: &[Listed]) -> Vec<Mark> {
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        let mut heads = 0;
        let marks = names.filter_map(|name| Some((name, Mark::of(name)?)));
        let counts = |(name, mark): &(&str, Mark)| {
            if *mark != Mark::Head {
                return true;
            }
            // Spellings of one name are without number.
            heads += 1;
            heads > MAX_HEADS || self.is_head(&join(directory, name))
        };
        marks.filter(counts).map(|(_, mark)| mark).collect()
    }

    /// Whether git takes what is at a place for a `HEAD`. So it is where nobody can say.
    fn is_head(&self, place: &str) -> bool {
        let Ok(stat) = self.stat(place) else { return true };
        match disk::file_type(&stat) {
            FileType::Symlink => {
                self.read_link(place).map_or(true, |target| git::is_head_link(&target))
            }
            FileType::RegularFile => self
                .content(place, HEAD_BYTES as u64)
                .map_or(true, |content| git::is_head(&content)),
            _ => false,
        }
    }

    /// The beginning of a file. Nothing is noted as seen by the transaction.
    fn content(&self, place: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = match self.find(place)? {
            Found::Nothing => return Err(io::ErrorKind::NotFound.into()),
            Found::Staged(id, _) => {
                disk::open(self.stage()?, &self.image_name(id), OFlags::RDONLY)?
            }
            Found::Disk => disk::open(&*self.disk, place, OFlags::RDONLY)?,
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

    /// The place that a path means which one of git's files names. None for one elsewhere.
    fn named(&self, directory: &str, path: &str) -> Option<String> {
        let (directory, path) = match path.strip_prefix('/') {
            None => (directory, path.to_owned()),
            Some(_) => {
                let inside = std::path::Path::new(path).strip_prefix(&self.guard.top).ok()?;
                ("", inside.to_str()?.to_owned())
            }
        };
        let place = link_target(&join(directory, GIT), path.trim()).ok()?;
        if place.is_empty() {
            return Some(place);
        }
        Some(self.resolve("", &place, true).unwrap_or(place))
    }

    /// What the `.git` of a directory leads to, if there is one.
    fn control(&self, directory: &str, kind: FileType) -> Option<Control> {
        let git = join(directory, GIT);
        let repository = match kind {
            FileType::Directory => Some(git.clone()),
            FileType::Symlink => self.resolve("", &git, true).ok(),
            _ => self
                .text(&git, MAX_PATH as u64)
                .and_then(|text| self.named(directory, text.strip_prefix(GITFILE_PREFIX)?.trim())),
        };
        // It leads out of the workspace: nothing here can be changed by a call.
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

    /// Adds what a file of configuration names, and what those name that it includes.
    fn add_config(&self, top: &str, config: &str, control: &mut Control) {
        let mut waiting = vec![config.to_owned()];
        while let Some(config) = waiting.pop() {
            if control.configs.len() >= MAX_CONFIGS || control.configs.contains(&config) {
                continue;
            }
            // Only one that is no plain file, or is not there, may be a link.
            let (real, text) = match self.text(&config, MAX_CONFIG) {
                Some(text) => (config.clone(), Some(text)),
                None => {
                    let real = self.resolve("", &config, true).unwrap_or_else(|_| config.clone());
                    let text = self.text(&real, MAX_CONFIG);
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

    /// Adds what the directory of hooks, or links in it, lead to.
    fn add_hooks(&self, hooks: &str, control: &mut Control) {
        let (real, entries) = match self.list(hooks) {
            Ok(entries) => (hooks.to_owned(), entries),
            Err(_) => {
                let Ok(real) = self.resolve("", hooks, true) else { return };
                let entries = self.list(&real).unwrap_or_default();
                (real, entries)
            }
        };
        let links = entries.iter().filter(|entry| entry.kind == FileType::Symlink);
        let links = links
            .filter_map(|entry| self.resolve("", &join(&real, entry.name.to_str()?), true).ok());
        control.hooks.extend(links);
        if real != hooks {
            control.hooks.insert(real);
        }
    }
}

/// The directories above a place, the nearest first.
fn above(place: &str) -> impl Iterator<Item = &str> {
    let ends = place.rmatch_indices('/').map(|(end, _)| &place[..end]);
    ends.chain([""]).filter(move |_| !place.is_empty())
}

fn repository(directory: &str, is: &str) -> String {
    let shown =
        if directory.is_empty() { "the workspace".to_owned() } else { format!("{directory}/") };
    format!("{shown} {is} a git repository (HEAD, objects, refs)")
}

fn is_within(place: &str, directory: &str) -> bool {
    place.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
