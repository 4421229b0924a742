//! Chooses one of several installed versions, as version managers do: by a variable, by a file of
//! the project, or by the account's default.
//!
//! The files of a project are not trusted: what they name has to be installed.

use std::cmp::Ordering;
use std::path::Path;

use super::account::{Account, is_name};

/// How a version manager finds out which version is in use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    /// The variable that names a version.
    pub(super) variable: Option<&'static str>,
    /// The files of projects that name a version.
    pub(super) files: &'static [File],
    /// The file of the account with the default, below the root of the toolchain.
    pub(super) default: Option<&'static str>,
}

/// A file that names versions.
#[derive(Debug, Clone, Copy)]
pub(super) enum File {
    /// The file has nothing but versions, one in each line.
    Lines(&'static str),
    /// A line of the file is `distributionUrl=...NAME-VERSION-bin.zip`, as for Gradle's and Maven's
    /// wrappers.
    Wrapper(&'static str),
}

/// A version that was chosen, or what was asked for and is not installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// The name of an installed version.
    Installed(String),
    /// The manager is told to use the system's programs.
    System,
    /// Not installed; the name of the version, and the one that is used instead.
    Missing(String, Option<String>),
    /// No version is installed.
    None,
}

impl Choice {
    /// Chooses among `installed` versions. `root` is the directory of the toolchain.
    pub(super) fn choose(
        &self,
        account: &Account<'_>,
        root: &Path,
        installed: &[String],
    ) -> Chosen {
        let from_variable =
            self.variable.and_then(|name| account.variable(name)).map(str::to_owned);
        let from_project =
            || self.files.iter().find_map(|file| file.versions(account)?.into_iter().next());
        let from_account = || {
            let text = account.text(&root.join(self.default?))?;
            lines(&text).next().map(str::to_owned)
        };
        let default = || match from_account() {
            Some(wanted) if wanted == "system" => Chosen::System,
            Some(wanted) => resolve(account, root, installed, &wanted)
                .map_or_else(|| newest_or_none(installed), Chosen::Installed),
            None => newest_or_none(installed),
        };
        let Some(wanted) = from_variable.or_else(from_project) else { return default() };
        if wanted == "system" {
            return Chosen::System;
        }
        match resolve(account, root, installed, &wanted) {
            Some(found) => Chosen::Installed(found),
            None => match default() {
                Chosen::Installed(other) => Chosen::Missing(wanted, Some(other)),
                _ => Chosen::Missing(wanted, None),
            },
        }
    }
}

impl File {
    /// The versions that the nearest of these files names.
    fn versions(self, account: &Account<'_>) -> Option<Vec<String>> {
        match self {
            Self::Lines(name) => {
                let text = account.project_files(name).into_iter().next()?;
                Some(lines(&text).map(str::to_owned).collect())
            }
            Self::Wrapper(name) => {
                let text = account.project_files(name).into_iter().next()?;
                let url =
                    text.lines().find_map(|line| line.trim().strip_prefix("distributionUrl"))?;
                let file = url.rsplit('/').next()?.trim_end_matches(".zip");
                Some(vec![file.to_owned()])
            }
        }
    }
}

fn newest_or_none(installed: &[String]) -> Chosen {
    newest(installed.iter()).map_or(Chosen::None, Chosen::Installed)
}

/// The first word of each line that is not a comment.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter_map(|line| line.split('#').next()?.split_whitespace().next())
        .filter(|word| word.len() < 100)
}

/// Finds the installed version that is meant: that name, the newest that begins with it, or the one
/// that an alias in the account leads to.
fn resolve(
    account: &Account<'_>,
    root: &Path,
    installed: &[String],
    wanted: &str,
) -> Option<String> {
    if let Some(found) = matching(installed, wanted) {
        return Some(found);
    }
    if wanted.split('/').all(is_name) {
        let alias = account.text(&root.join("alias").join(wanted))?;
        return matching(installed, lines(&alias).next()?);
    }
    None
}

/// The newest installed version that has this name or begins with it.
pub(super) fn matching(installed: &[String], wanted: &str) -> Option<String> {
    if ["latest", "node", "stable", "lts/*"].contains(&wanted) {
        return newest(installed.iter());
    }
    if !is_name(wanted) {
        return None;
    }
    let fits = |name: &&String| {
        [wanted, &format!("v{wanted}")].iter().any(|wanted| {
            let rest = name.strip_prefix(*wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
        })
    };
    let exact = installed.iter().find(|name| *name == wanted).cloned();
    exact.or_else(|| newest(installed.iter().filter(fits)))
}

/// The newest of these versions; names without a number are older than all others.
pub(super) fn newest<'n>(names: impl Iterator<Item = &'n String>) -> Option<String> {
    names.filter(|name| is_name(name)).max_by(|a, b| compare(a, b)).cloned()
}

/// Compares versions by their numbers; a version with letters, such as `3.14.0rc1`, is older than
/// the same one without.
fn compare(a: &str, b: &str) -> Ordering {
    let starts =
        |name: &str| name.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    let numbers = |name: &str| -> Vec<u64> {
        let parts = name.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        parts.map(|part| part.parse().unwrap_or(u64::MAX)).take(3).collect()
    };
    let plain = |name: &str| !name.trim_start_matches('v').contains(char::is_alphabetic);
    (starts(a), numbers(a), plain(a), a).cmp(&(starts(b), numbers(b), plain(b), b))
}

/// The versions of a tool in a text of asdf's `.tool-versions` or mise's `mise.toml`.
pub(super) fn of_tool(text: &str, tools: &[&str], is_toml: bool) -> Option<Vec<String>> {
    if !is_toml {
        return text.lines().find_map(|line| {
            let mut words = line.split('#').next()?.split_whitespace();
            let tool = words.next()?;
            tools.contains(&tool).then(|| words.map(str::to_owned).collect())
        });
    }
    let table: toml::Table = text.parse().ok()?;
    let table = table.get("tools")?.as_table()?;
    let value = tools.iter().find_map(|tool| table.get(*tool))?;
    let version = |value: &toml::Value| match value {
        toml::Value::String(version) => Some(version.clone()),
        toml::Value::Table(table) => Some(table.get("version")?.as_str()?.to_owned()),
        _ => None,
    };
    Some(match value {
        toml::Value::Array(values) => values.iter().filter_map(version).collect(),
        value => version(value).into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_names_prefixes_or_the_newest() {
        let installed = ["3.9.18", "3.10.2", "3.10.13", "3.14.0rc1", "myenv"].map(str::to_owned);
        for (wanted, found) in [
            ("3.9.18", Some("3.9.18")),
            ("3.10", Some("3.10.13")),
            ("3", Some("3.14.0rc1")),
            ("3.1", None),
            ("myenv", Some("myenv")),
            ("latest", Some("3.14.0rc1")),
            ("3.13", None),
            ("../3.9.18", None),
            ("/etc", None),
            (".", None),
            ("..", None),
            ("", None),
        ] {
            assert_eq!(matching(&installed, wanted).as_deref(), found, "{wanted:?}");
        }
        let nodes = ["v18.20.1", "v20.1.0", "v20.10.0", "v8.0.0"].map(str::to_owned);
        for (wanted, found) in
            [("20", "v20.10.0"), ("v20.1.0", "v20.1.0"), ("node", "v20.10.0"), ("8", "v8.0.0")]
        {
            assert_eq!(matching(&nodes, wanted).as_deref(), Some(found), "{wanted}");
        }
    }

    #[test]
    fn releases_are_newer_than_their_candidates() {
        let newest_of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            newest(names.iter())
        };
        assert_eq!(newest_of(&["3.14.0rc1", "3.14.0"]).as_deref(), Some("3.14.0"));
        assert_eq!(newest_of(&["env", "2.7.18"]).as_deref(), Some("2.7.18"));
        assert_eq!(newest_of(&[".hidden"]), None);
    }

    #[test]
    fn tools_of_asdf_and_mise_have_versions() {
        let asdf = "# tools\npython 3.11.7 3.10.2 # two\nnodejs 20.1.0\n";
        let mise = "[tools]\nnode = '20'\npython = ['3.11', '3.10']\ngo = { version = '1.22' }\n";
        for (text, tools, is_toml, wanted) in [
            (asdf, &["python"][..], false, Some(&["3.11.7", "3.10.2"][..])),
            (asdf, &["node", "nodejs"], false, Some(&["20.1.0"])),
            (asdf, &["ruby"], false, None),
            (mise, &["node", "nodejs"], true, Some(&["20"])),
            (mise, &["python"], true, Some(&["3.11", "3.10"])),
            (mise, &["go"], true, Some(&["1.22"])),
            ("tools = 1", &["go"], true, None),
            ("broken", &["go"], true, None),
        ] {
            let found = of_tool(text, tools, is_toml);
            let wanted = wanted.map(|it| it.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
            assert_eq!(found, wanted, "{tools:?}");
        }
    }
}
