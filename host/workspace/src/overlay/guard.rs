//! The places of a tree that git controls: repositories at any depth, and the files that their
//! configuration names. [`cofferdam_core::policy::git`] decides which names and contents matter;
//! this module looks them up.
//!
//! A place is checked before it is changed, so that the tool gets the reason, and all changed places
//! are checked again before a commit: several changes, or writes to a file that was open before, can
//! create a repository that none of them creates alone.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_core::policy::git::{self, GITFILE_PREFIX, HEAD_BYTES, Mark};
use cofferdam_core::policy::place::is_within;
use cofferdam_core::policy::{executed_by, folded, is_own, protected};
use rustix::fs::{AtFlags, FileType, OFlags};

use super::repositories::{Control, GitDirectory, Run};
use super::state::{Entry, Location, Savepoint};
use super::tree::Overlay;
use crate::disk::{self, Listed, Spot};
use crate::path::{MAX_PATH, above, join, link_target};

/// How much of a file of git's configuration is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// How many files of one repository's configuration are read.
const MAX_CONFIGS: usize = 64;

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
        let mut held = places
            .clone()
            .filter_map(|place| Some((place.to_owned(), self.held(place, "would be")?)));
        held.next().or_else(|| self.included_elsewhere(places))
    }

    /// The first of the places that belong to a repository elsewhere in the tree, and why it may
    /// not be changed. Only what could be configuration or a hook is looked for, since that takes a
    /// walk through the whole tree.
    fn included_elsewhere<'a>(
        &self,
        places: impl Iterator<Item = &'a str>,
    ) -> Option<(String, String)> {
        let mut suspects = places.filter(|place| self.may_be_control(place)).peekable();
        suspects.peek()?;
        let all = self.named_anywhere();
        let why = |place: &str| {
            let leads_to = |config: &String| is_within(&folded(config), &folded(place));
            if all.configures(place) || all.configs.iter().any(leads_to) {
                return Some("part of the configuration of a git repository");
            }
            if all.roots.iter().any(|root| is_within(place, root)) {
                return Some("git's control files, to which a .git elsewhere leads");
            }
            all.is_partial.then_some(
                "perhaps git's configuration: a repository includes more of that than is looked at",
            )
        };
        suspects.find_map(|place| Some((place.to_owned(), why(place)?.to_owned())))
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
            // A working tree may be inside of its own repository.
            let holds = |root: &&String| is_within(place, root) && !is_within(directory, root);
            if control.roots.iter().find(holds).is_some() {
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
    pub(crate) fn executed(&self, since: Option<&Savepoint>) -> Vec<ExecutedFile> {
        let is_new = |place: &str, entry: &Entry| {
            matches!(entry, Entry::Staged(_, kind) if *kind != FileType::Directory)
                && since.is_none_or(|since| since.entries.get(place) != Some(entry))
        };
        let entries = self.entries();
        let written = entries.iter().filter(|(place, entry)| is_new(place, entry));
        let anywhere = OnceCell::new();
        let run_elsewhere = |place: &str| {
            let named = || anywhere.get_or_init(|| self.named_anywhere());
            let control = self.may_be_executed(place).then(named)?;
            Some(match control.runs(place)? {
                Run::Hook => "git runs as a hook (of a repository in another directory)".to_owned(),
                Run::Command => {
                    "git runs (by the configuration of a repository in another directory)"
                        .to_owned()
                }
            })
        };
        let found = written.filter_map(|(place, _)| {
            let by = executed_by(place).map(str::to_owned);
            let by = by.or_else(|| self.run_by_git(place)).or_else(|| run_elsewhere(place))?;
            Some(ExecutedFile { path: place.clone(), by })
        });
        found.collect()
    }

    /// Whether git's configuration or a link of its hooks names a file.
    fn run_by_git(&self, place: &str) -> Option<String> {
        above(place).find_map(|directory| {
            let known = self.git_directory(directory);
            let git = join(directory, GIT);
            Some(match known.control.as_ref()?.runs(place)? {
                Run::Hook => format!("git runs as a hook (by {git})"),
                Run::Command => format!("git runs (by the configuration in {git})"),
            })
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

    /// The working trees in this tree that a repository lists (`worktrees/*/gitdir`).
    pub(crate) fn linked_working_trees(&self, repository: &str) -> Vec<String> {
        let list = join(repository, "worktrees");
        let entries = self.list(&list).unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        let trees = names.filter_map(|name| {
            let directory = join(&list, name);
            let git = self.text(&join(&directory, "gitdir"), MAX_PATH as u64)?;
            let git = self.named(&directory, &git).pop()?;
            Some(disk::split(&git).0.to_owned())
        });
        trees.collect()
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
            FileType::RegularFile => self
                .content(place, HEAD_BYTES as u64)
                .map_or(true, |content| git::is_head(&content)),
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

    /// The places that a path stands for which one of git's files names: each link on the way, the
    /// path as it is written and, last, what it leads to. Empty for a path outside of the tree.
    fn named(&self, directory: &str, path: &str) -> Vec<String> {
        let path = path.trim();
        let paths = if path.starts_with('/') {
            self.inside(path).into_iter().collect()
        } else if let Some(path) = path.strip_prefix('~') {
            self.below_home(path)
        } else {
            return self.on_the_way(directory, path);
        };
        paths.iter().flat_map(|path| self.on_the_way("", path)).collect()
    }

    /// What [`named`](Self::named) returns for a relative path.
    fn on_the_way(&self, directory: &str, path: &str) -> Vec<String> {
        let written = link_target(&join(directory, GIT), path).ok().map(String::from);
        let mut places = Vec::new();
        let end = self.resolve_noting(directory, path, true, |link| {
            places.push(link.to_owned());
        });
        places.extend(written);
        let end = end.ok().map(String::from);
        places.extend(end.filter(|end| places.last() != Some(end)));
        places
    }

    /// An absolute path, relative to the tree: by whatever name the tree is called, or a link
    /// elsewhere leads into it.
    #[expect(clippy::disallowed_methods, reason = "git's files name places by absolute paths")]
    fn inside(&self, path: &str) -> Option<String> {
        let (top, path) = (&self.repositories.top, Path::new(path));
        let real = |path: &Path| path.canonicalize().ok();
        let by_name =
            path.ancestors().find(|above| *above == top || real(above).as_ref() == Some(top));
        let inside = match by_name {
            Some(above) => path.strip_prefix(above).ok()?.to_owned(),
            None => {
                let (above, real) =
                    path.ancestors().find_map(|above| Some((above, real(above)?)))?;
                let real = real.join(path.strip_prefix(above).ok()?);
                real.strip_prefix(top).ok()?.to_owned()
            }
        };
        Some(inside.to_str()?.to_owned())
    }

    /// What `~` and this may be, relative to the tree. The home that git takes is the user's; here
    /// each directory above the tree may be it, and the tree itself.
    fn below_home(&self, path: &str) -> Vec<String> {
        // `~user/` is another home.
        let Some((_, path)) = path.split_once('/') else { return Vec::new() };
        let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
        let ends = |count: &usize| self.repositories.top.ends_with(names[..*count].join("/"));
        (0..names.len()).filter(ends).map(|count| names[count..].join("/")).collect()
    }

    /// What the `.git` of a directory leads to, if there is one.
    fn control(&self, directory: &str, kind: FileType) -> Option<Control> {
        let git = join(directory, GIT);
        let mut control = Control::default();
        let mut repository = match kind {
            FileType::Directory => vec![git.clone()],
            FileType::Symlink => self.on_the_way(directory, GIT),
            _ => {
                let text = self.text(&git, MAX_PATH as u64);
                let path = text.as_deref().and_then(|text| text.strip_prefix(GITFILE_PREFIX));
                path.map(|path| self.named(directory, path)).unwrap_or_default()
            }
        };
        // Where it leads out of the workspace, nothing here can be changed by a call.
        if let Some(end) = repository.pop() {
            control.configs.append(&mut repository);
            self.add_repository(directory, end, &mut control);
        }
        control.roots.retain(|root| !root.is_empty() && *root != git);
        control.configs.retain(|config| !is_within(config, &git));
        Some(control)
    }

    /// Adds a repository whose working tree is `top`, and the one that it shares with others.
    fn add_repository(&self, top: &str, repository: String, control: &mut Control) {
        let shared = self.text(&join(&repository, "commondir"), MAX_PATH as u64);
        let mut shared = shared.map(|path| self.named(&repository, &path)).unwrap_or_default();
        let roots = [Some(repository), shared.pop()];
        control.configs.append(&mut shared);
        for root in roots.into_iter().flatten() {
            for name in ["config", "config.worktree"] {
                self.add_config(top, &join(&root, name), control);
            }
            self.add_hooks(&join(&root, "hooks"), control);
            control.roots.push(root);
        }
    }

    /// What all repositories of the tree name, wherever they lie. This lists the whole tree.
    fn named_anywhere(&self) -> Control {
        let mut all = Control::default();
        let mut add = |top: &str, mut control: Control| {
            // What is in a repository around its own working tree is found by its content.
            all.roots.extend(control.roots.into_iter().filter(|root| !is_within(top, root)));
            all.is_partial |= control.is_partial;
            all.configs.append(&mut control.configs);
            all.hooks.append(&mut control.hooks);
            all.commands.append(&mut control.commands);
        };
        let mut waiting = vec![String::new()];
        while let Some(directory) = waiting.pop() {
            // One that can't be listed holds nothing that git could read.
            let Ok(entries) = self.list(&directory) else { continue };
            if self.has_repository(&directory, &entries) {
                let mut control = Control::default();
                self.add_repository(&directory, directory.clone(), &mut control);
                add(&directory, control);
            }
            for Listed { name, kind, .. } in &entries {
                let Some(name) = name.to_str() else { continue };
                if name == GIT {
                    add(&directory, self.control(&directory, *kind).unwrap_or_default());
                } else if *kind == FileType::Directory && !is_own(name) {
                    waiting.push(join(&directory, name));
                }
            }
        }
        all
    }

    /// Whether what is staged at a place could be git's configuration or a hook, or lead to some.
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
        self.stat(place).is_ok_and(|stat| stat.st_mode & 0o111 != 0)
    }

    /// Adds what a file of configuration names, and what those name that it includes.
    fn add_config(&self, top: &str, config: &str, control: &mut Control) {
        let mut waiting = vec![config.to_owned()];
        while let Some(config) = waiting.pop() {
            if control.configs.contains(&config) {
                continue;
            }
            if control.configs.len() >= MAX_CONFIGS {
                control.is_partial = true;
                return;
            }
            let mut places = self.on_the_way("", &config);
            let real = places.last().cloned().unwrap_or(config);
            control.configs.append(&mut places);
            let text = self.text(&real, MAX_CONFIG_BYTES).unwrap_or_default();
            control.is_partial |= text.len() as u64 >= MAX_CONFIG_BYTES;
            let named = git::named_by(&text);
            let above = disk::split(&real).0;
            for path in &named.includes {
                let mut places = self.named(above, path);
                waiting.extend(places.pop());
                control.configs.append(&mut places);
            }
            control.hooks.extend(named.hooks.iter().flat_map(|path| self.named(top, path)));
            let left = MAX_COMMANDS.saturating_sub(control.commands.len());
            let words = named.words.iter().take(left);
            control.commands.extend(words.flat_map(|path| self.named(top, path)));
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
