//! The toolchains of the operator's account: interpreters, compilers and their caches, so that
//! native programs work as they do in the operator's own terminal, without settings.
//!
//! | module | is for |
//! |---|---|
//! | [`table`] | the known toolchains, as data |
//! | [`account`] | the operator's home directory and variables; which directories may be used |
//! | [`version`] | which of several installed versions is in use |
//! | [`special`] | what a table can't say: single programs, environments of Python, Maven |
//! | [`cargo`] | Cargo's configuration without secrets |
//! | [`remedy`] | how a missing program can be installed |
//!
//! A program can read what is found here, and change none of it: what it writes to a cache goes to
//! its plugin's own cache, whose directories lead to the account's caches, unless it has a network:
//! then it fills caches of its own. This uses what each
//! toolchain itself offers (such as `GOPROXY=file://`), so that it is the same in both kinds of
//! sandbox.
//!
//! The workspace decides nothing about what is readable, since an agent can write it. A file such as
//! `.python-version` only chooses among installed versions.

mod account;
mod cargo;
mod remedy;
mod special;
mod table;
mod version;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use cofferdam_workspace::Cache;

use account::Account;

pub use account::SYSTEM_DIRECTORIES;
pub use remedy::remedy;
pub(crate) use remedy::remedy_with;

/// What programs can use of the operator's account.
#[derive(Debug, Default)]
pub struct Toolchains {
    found: Vec<Found>,
}

/// One toolchain that was found.
#[derive(Debug, Default)]
pub struct Found {
    /// The name of the toolchain, such as `pyenv`.
    pub name: &'static str,
    /// The directories of its programs.
    pub programs: Vec<PathBuf>,
    /// The files and directories that programs can read.
    pub readable: Vec<PathBuf>,
    /// What does not fit, such as a version that the workspace asks for and that is not installed.
    pub notes: Vec<String>,
    variables: Vec<Variable>,
    links: Vec<Link>,
    files: Vec<CacheFile>,
}

/// An environment variable of programs.
#[derive(Debug)]
struct Variable {
    name: &'static str,
    /// The value, in which [`CACHE`] stands for the plugin's cache.
    value: String,
}

/// Stands for the path of the plugin's cache in a variable. No path contains this character.
const CACHE: char = '\0';

/// The directory in a plugin's cache for the caches of programs with a network. They have no links: a
/// program could add nothing to a cache of the account.
pub(crate) const NETWORK_CACHE: &str = "network";

/// A link in the plugin's cache to a directory of the account.
#[derive(Debug)]
struct Link {
    place: &'static str,
    target: PathBuf,
}

/// A file that the host writes into the plugin's cache.
#[derive(Debug)]
struct CacheFile {
    place: &'static str,
    text: String,
}

impl Toolchains {
    /// Finds the toolchains for programs that run in `directory`, an absolute path at or below the
    /// workspace. `variables` is the host's environment, which names the home directory; `path` are
    /// the operator's own directories of programs. A toolchain in the workspace does not count.
    pub fn find(
        variables: &HashMap<String, String>,
        path: &[PathBuf],
        workspace: &Path,
        directory: &Path,
    ) -> Self {
        let Some(account) = Account::new(variables, workspace, directory) else {
            return Self::default();
        };
        let known = table::TOOLCHAINS.iter().filter_map(|toolchain| toolchain.find(&account));
        let known: Vec<Found> = known.collect();
        let mut found = special::find(&account, &known, path);
        found.extend(known);
        Self { found }
    }

    /// The toolchains that were found.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// The toolchain whose directories contain a program.
    pub fn of(&self, program: &Path) -> Option<&Found> {
        let directory = program.parent()?;
        self.found.iter().find(|found| found.programs.iter().any(|own| own == directory))
    }

    /// The directories of programs, in the order in which they are searched.
    pub fn programs(&self) -> impl Iterator<Item = &Path> {
        self.found.iter().flat_map(|found| &found.programs).map(PathBuf::as_path)
    }

    /// The files and directories that programs can read, without those below others.
    pub fn readable(&self) -> Vec<PathBuf> {
        let mut paths: Vec<&PathBuf> = self.found.iter().flat_map(|it| &it.readable).collect();
        paths.sort();
        let mut kept: Vec<PathBuf> = Vec::new();
        for path in paths {
            if !kept.last().is_some_and(|above| path.starts_with(above)) {
                kept.push(path.clone());
            }
        }
        kept
    }

    /// The environment variables of programs; a later one replaces an earlier one. Without a cache,
    /// those that name a place in it are left out.
    pub fn variables(&self, cache: Option<&Path>) -> Vec<(String, String)> {
        let variables = self.found.iter().flat_map(|found| &found.variables);
        let value = |Variable { name, value }: &Variable| {
            let value = match cache {
                _ if !value.contains(CACHE) => value.clone(),
                Some(cache) => value.replace(CACHE, cache.to_str()?),
                None => return None,
            };
            Some(((*name).to_owned(), value))
        };
        let offline =
            table::OFFLINE.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        offline.chain(variables.filter_map(value)).collect()
    }

    /// Lays the plugin's cache over those of the account: creates the links and files in it that the
    /// variables refer to. With a network, the files in [`NETWORK_CACHE`], and no links.
    ///
    /// # Errors
    /// A cache that can't be written.
    pub fn prepare(&self, cache: &Cache<'_>, has_network: bool) -> io::Result<()> {
        let links = self.found.iter().flat_map(|found| &found.links);
        for Link { place, target } in links.filter(|_| !has_network) {
            cache.link(place, target)?;
        }
        for CacheFile { place, text } in self.found.iter().flat_map(|found| &found.files) {
            match has_network {
                true => cache.write(&format!("{NETWORK_CACHE}/{place}"), text.as_bytes())?,
                false => cache.write(place, text.as_bytes())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
