//! Reading git's files in a tree: which directories are repositories, and which files, hooks and
//! commands their configuration names.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_core::policy::git::{self, HEAD_BYTES, Mark};
use cofferdam_core::policy::is_own;
use cofferdam_core::policy::place::{is_within, names};
use rustix::fs::{AtFlags, FileType, OFlags};

use super::repositories::{Control, FoldedControl, GitDirectory, Listing};
use super::state::Location;
use super::tree::Overlay;
use crate::disk::{self, Listed, Spot};
use crate::path::{MAX_PATH, check_length, join, link_target};

/// How much of a file of git's configuration is read, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// How many files of one repository's configuration are read.
const MAX_CONFIGS: usize = 64;

/// How many directories of hooks, and words of commands, in one repository's configuration are
/// considered.
const MAX_COMMANDS: usize = 1000;

/// How many spellings of `HEAD` in a directory are read; further ones are assumed to be valid.
const MAX_HEADS: usize = 16;

pub(super) const GIT: &str = ".git";

impl Overlay {
    /// Returns what is known of a directory; looks it up the first time.
    pub(super) fn git_directory(&self, directory: &str) -> Arc<GitDirectory> {
        if let Some(found) = self.repositories.known().get(directory) {
            return Arc::clone(found);
        }
        let (has_head, git) = self.head_and_git(directory);
        let found = Arc::new(GitDirectory {
            is_repository: has_head
                && self
                    .list(directory)
                    .is_ok_and(|entries| self.has_repository(directory, &entries)),
            control: git.and_then(|kind| self.control(directory, kind)).map(Into::into),
        });
        // The entries of a tree for reading would become outdated.
        if self.is_writable() {
            self.repositories.known().insert(directory.to_owned(), Arc::clone(&found));
        }
        found
    }

    /// Returns the places that the `.git` of a directory refers to, and the files of the repository's
    /// configuration, if they are not in `.git` itself.
    pub(crate) fn led_to(&self, directory: &str) -> Vec<String> {
        let (_, git) = self.head_and_git(directory);
        let control = git.and_then(|kind| self.control(directory, kind)).unwrap_or_default();
        let mut places = control.roots;
        places.extend(control.configs);
        // A repository around its own working tree is found by its content.
        places.retain(|place| self.stat(place).is_ok() && !is_within(directory, place));
        places
    }

    /// Returns the working trees in this tree that a repository lists (`worktrees/*/gitdir`).
    pub(crate) fn linked_working_trees(&self, repository: &str) -> Vec<String> {
        let list = join(repository, "worktrees");
        let entries = self.list(&list).unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        let trees = names.filter_map(|name| {
            let directory = join(&list, name);
            let git = self.text(&join(&directory, "gitdir"), MAX_PATH as u64)?;
            let git = self.named(&directory, git.trim_end()).pop()?;
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
    pub(super) fn is_head(&self, place: &str) -> bool {
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
    pub(super) fn content(&self, place: &str, most: u64) -> io::Result<Vec<u8>> {
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

    /// Returns the places of a path in a file of git: each link on the way, the path as written and,
    /// last, its target. Empty for a path outside of the tree.
    fn named(&self, directory: &str, path: &str) -> Vec<String> {
        // Git can't open a longer path either.
        if check_length(path).is_err() {
            return Vec::new();
        }
        let paths = if path.starts_with('/') {
            self.inside(path).into_iter().collect()
        } else if let Some(path) = path.strip_prefix('~') {
            self.below_home(path)
        } else {
            return self.on_the_way(directory, path);
        };
        paths.iter().flat_map(|path| self.on_the_way("", path)).collect()
    }

    /// As [`named`](Self::named), for a relative path.
    fn on_the_way(&self, directory: &str, path: &str) -> Vec<String> {
        let written = link_target(&join(directory, GIT), path).ok();
        let mut places = Vec::new();
        let end = self.resolve_noting(directory, path, true, |link| places.push(link.to_owned()));
        places.extend(written.map(String::from));
        places.extend(end.ok().map(String::from).filter(|end| places.last() != Some(end)));
        places
    }

    /// Returns an absolute path relative to the tree, even if it leads into the tree by another name
    /// or by a link elsewhere.
    #[expect(clippy::disallowed_methods, reason = "git's files name places by absolute paths")]
    fn inside(&self, path: &str) -> Option<String> {
        let top = &self.repositories.top;
        let mut rest = Path::new(path).components();
        // What is left of the path where it enters the tree for the last time.
        let mut inside = None;
        let (mut real, mut left) = (PathBuf::new(), rest.clone());
        // Step by step, since resolving each beginning of the path anew takes quadratic time.
        while let Some(component) = rest.next() {
            let Ok(next) = real.join(component).canonicalize() else { break };
            (real, left) = (next, rest.clone());
            if real == *top {
                inside = Some(left.as_path());
            }
        }
        match inside {
            Some(inside) => Some(inside.to_str()?.to_owned()),
            None => {
                let real = real.join(left.as_path());
                Some(real.strip_prefix(top).ok()?.to_str()?.to_owned())
            }
        }
    }

    /// Returns the places that `~` and this path may refer to, relative to the tree. Git takes the
    /// user's home directory; here it may be the tree itself and each directory above it.
    fn below_home(&self, path: &str) -> Vec<String> {
        // `~user/` is another user's home directory.
        let Some((_, path)) = path.split_once('/') else { return Vec::new() };
        let names: Vec<&str> = names(path).collect();
        let ends = |count: &usize| self.repositories.top.ends_with(names[..*count].join("/"));
        // The tree's path has no more of the names.
        let most = self.repositories.top.components().count() + 1;
        (0..names.len().min(most)).filter(ends).map(|count| names[count..].join("/")).collect()
    }

    /// Returns what the `.git` of a directory refers to. `kind` is the type of `.git`.
    fn control(&self, directory: &str, kind: FileType) -> Option<Control> {
        let git = join(directory, GIT);
        let mut control = Control::default();
        let mut repository = match kind {
            FileType::Directory => vec![git.clone()],
            FileType::Symlink => self.on_the_way(directory, GIT),
            _ => {
                let text = self.text(&git, MAX_PATH as u64);
                let path = text.as_deref().and_then(git::gitfile);
                path.map(|path| self.named(directory, path)).unwrap_or_default()
            }
        };
        // Without a place, the repository is outside of the workspace, and no call can change it.
        if let Some(end) = repository.pop() {
            control.configs.append(&mut repository);
            self.add_repository(directory, end, &mut control);
        }
        control.roots.retain(|root| *root != git);
        control.configs.retain(|config| !is_within(config, &git));
        Some(control)
    }

    /// Adds a repository whose working tree is `top`, and the one that it shares with others.
    fn add_repository(&self, top: &str, repository: String, control: &mut Control) {
        let shared = self.text(&join(&repository, "commondir"), MAX_PATH as u64);
        let shared = shared.as_deref().map(git::control_path);
        let mut shared = shared.map(|path| self.named(&repository, path)).unwrap_or_default();
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

    /// Returns what all repositories in the tree name. This lists the whole tree, unless nothing was
    /// changed since it was listed.
    pub(super) fn named_anywhere(&self) -> Arc<FoldedControl> {
        let entries = self.entries();
        let mut listing = self.repositories.listing();
        match &*listing {
            Some(known) if known.entries == entries => Arc::clone(&known.control),
            _ => {
                let control = Arc::new(FoldedControl::from(self.list_repositories()));
                *listing = Some(Listing { entries, control: Arc::clone(&control) });
                control
            }
        }
    }

    /// Lists the tree anew when [`named_anywhere`](Self::named_anywhere) is called next: other
    /// processes may change it meanwhile.
    pub(crate) fn forget_listing(&self) {
        *self.repositories.listing() = None;
    }

    fn list_repositories(&self) -> Control {
        let mut all = Control::default();
        let mut add = |top: &str, mut control: Control| {
            // The files of a repository that contains its own working tree are found by its content.
            all.roots.extend(control.roots.into_iter().filter(|root| !is_within(top, root)));
            all.is_partial |= control.is_partial;
            all.configs.append(&mut control.configs);
            all.hooks.append(&mut control.hooks);
            all.commands.append(&mut control.commands);
        };
        let mut waiting = vec![String::new()];
        while let Some(directory) = waiting.pop() {
            // Git can't read a directory that can't be listed.
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

    /// Adds the places named by a configuration file and by the files that it includes.
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
            control.is_partial |= named.includes.len() > MAX_CONFIGS;
            for path in named.includes.iter().take(MAX_CONFIGS) {
                let mut places = self.named(above, path);
                waiting.extend(places.pop());
                control.configs.append(&mut places);
            }
            // Of several directories, git uses the last one.
            let left = MAX_COMMANDS.saturating_sub(control.hooks.len());
            let hooks = named.hooks.iter().rev().take(left);
            control.hooks.extend(hooks.flat_map(|path| self.named(top, path)));
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
                let Ok(real) = self.resolve_noting("", hooks, true, |_| {}) else { return };
                let entries = self.list(&real).unwrap_or_default();
                (real.into(), entries)
            }
        };
        let links = entries.iter().filter(|entry| entry.kind == FileType::Symlink);
        let links = links.filter_map(|entry| {
            let link = join(&real, entry.name.to_str()?);
            self.resolve_noting("", &link, true, |_| {}).ok()
        });
        control.hooks.extend(links.map(String::from));
        if real != hooks {
            control.hooks.insert(real);
        }
    }
}
