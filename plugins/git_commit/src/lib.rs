//! The `git_commit` plugin: commits paths of the workspace to its git repository, as
//! `git commit --only -- PATHS` does. Plumbing commands of git write objects and indexes to a
//! directory of the plugin's cache; the host checks them and takes them over.
//!
//! [`cofferdam_sdk::git`] prevents a repository from running its own programs. Filters would not run
//! either, so a path that has one is refused: its unfiltered content must not be committed.

use cofferdam_sdk::git::Git;
use cofferdam_sdk::git_commit::{self, Error, Preparation};
use cofferdam_sdk::process::{self, Command, End, Output as Printed};
use cofferdam_sdk::{Context, ToolError, plugin, shorten};
use serde::{Deserialize, Serialize};

/// The largest number of changes that are listed.
const MAX_LISTED: usize = 50;

/// The largest number of paths that an error names.
const MAX_NAMED: usize = 5;

/// The largest size of a path in an answer, in bytes.
const MAX_PATH_BYTES: usize = 200;

/// The largest size of the summary in an answer, in bytes.
const MAX_SUMMARY_BYTES: usize = 200;

/// The largest number of submodules that can be left out.
const MAX_SUBMODULES: usize = 500;

/// The tree before the first commit, which git knows without storing it.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// The mode of a submodule in a tree.
const SUBMODULE: &str = "160000";

/// The mode of a path that a tree does not have.
const ABSENT: &str = "000000";

/// Settings that make git write loose objects and a whole index, and take the identity from settings
/// only.
const SETTINGS: [(&str, &str); 8] = [
    ("core.bigFileThreshold", "1024g"),
    ("core.splitIndex", "false"),
    ("index.sparse", "false"),
    ("index.skipHash", "false"),
    ("add.ignoreErrors", "false"),
    ("core.safecrlf", "false"),
    ("user.useConfigOnly", "true"),
    ("i18n.commitEncoding", "UTF-8"),
];

/// The arguments of `git_commit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The message of the commit.
    pub message: String,
    /// Files and directories, relative to the workspace or absolute.
    pub paths: Vec<String>,
}

/// The result of `git_commit`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The id of the commit.
    pub commit: String,
    /// The branch that has it.
    pub branch: String,
    /// The first line of the message.
    pub summary: String,
    /// The number of changed files.
    pub files: usize,
    /// A letter and a path for each of the first changes.
    pub changes: Vec<String>,
}

/// How a commit is begun and taken over: by the host, except in tests.
trait Commits {
    fn prepare(&self) -> Result<Preparation, Error>;
    fn finish(&self, id: &str) -> Result<(), Error>;
}

struct Host;

impl Commits for Host {
    fn prepare(&self) -> Result<Preparation, Error> {
        git_commit::prepare()
    }

    fn finish(&self, id: &str) -> Result<(), Error> {
        git_commit::finish(id)
    }
}

/// The plugin: each function is a tool.
pub struct GitCommit;

impl GitCommit {
    fn git_commit(args: Args, context: &Context) -> Result<Output, ToolError> {
        commit(&args, context, &Host)
    }
}

plugin!(GitCommit { git_commit });

fn commit(args: &Args, context: &Context, host: &dyn Commits) -> Result<Output, ToolError> {
    let message = cleaned(&args.message)?;
    if args.paths.is_empty() {
        return Err(ToolError::invalid_args("InvalidPath", "paths: name at least one"));
    }
    let paths = args.paths.iter().map(|path| Ok(context.resolve(path)?.to_string()));
    let paths = paths.collect::<Result<Vec<String>, ToolError>>()?;
    let prepared = host.prepare().map_err(failure)?;
    let mut staging = Staging::new(&prepared, paths, context)?;
    staging.check_identity()?;
    staging.read_tree()?;
    staging.leave_submodules_out()?;
    staging.check_ignored()?;
    staging.add()?;
    let changes = staging.changes()?;
    staging.check_filters(&changes)?;
    let (tree, commit) = staging.write(&message)?;
    staging.update_index(&tree)?;
    host.finish(&commit).map_err(failure)?;
    let branch = prepared.branch.strip_prefix("refs/heads/").unwrap_or(&prepared.branch);
    let first = message.lines().next().unwrap_or_default();
    let listed = changes.iter().take(MAX_LISTED);
    Ok(Output {
        commit,
        branch: branch.to_owned(),
        summary: shorten(first, MAX_SUMMARY_BYTES).into_owned(),
        files: changes.len(),
        changes: listed
            .map(|change| format!("{} {}", change.status, shorten(&change.path, MAX_PATH_BYTES)))
            .collect(),
    })
}

/// Cleans a message up as `git commit` does for `--message`: no blanks at the ends of lines, and no
/// two empty lines in a row.
fn cleaned(message: &str) -> Result<String, ToolError> {
    let invalid = |why| Err(ToolError::invalid_args("InvalidMessage", why));
    if message.contains('\0') {
        return invalid("message: holds a NUL character");
    }
    let mut cleaned = String::new();
    let mut is_gap = false;
    for line in message.lines().map(str::trim_end) {
        if line.is_empty() {
            is_gap = !cleaned.is_empty();
            continue;
        }
        if std::mem::take(&mut is_gap) {
            cleaned.push('\n');
        }
        cleaned.push_str(line);
        cleaned.push('\n');
    }
    if cleaned.is_empty() { invalid("message: has no text") } else { Ok(cleaned) }
}

/// A difference between two trees, or between a tree and an index.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    old_mode: String,
    new_mode: String,
    old_id: String,
    status: char,
    path: String,
}

/// Reads `git diff-index --raw -z`: `:MODE MODE ID ID STATUS`, NUL, the path, NUL.
fn changes(printed: &Printed) -> Result<Vec<Change>, ToolError> {
    let text = whole(printed)?;
    let mut parts = text.split_terminator('\0');
    let mut changes = Vec::new();
    while let (Some(header), Some(path)) = (parts.next(), parts.next()) {
        let fields: Vec<&str> = header.trim_start_matches(':').split(' ').collect();
        let [old_mode, new_mode, old_id, _, status] = fields[..] else {
            let message = format!("git listed a change that is not understood: {header}");
            return Err(ToolError::failed("GitFailed", message));
        };
        changes.push(Change {
            old_mode: old_mode.to_owned(),
            new_mode: new_mode.to_owned(),
            old_id: old_id.to_owned(),
            status: status.chars().next().unwrap_or('?'),
            path: path.to_owned(),
        });
    }
    Ok(changes)
}

/// The output of git, if none is missing and all of it is UTF-8.
fn whole(printed: &Printed) -> Result<String, ToolError> {
    if printed.stdout.total > printed.stdout.bytes.len() as u64 {
        let message = "the paths have more files than can be listed; commit fewer paths at a time";
        return Err(ToolError::limit("TooManyFiles", message));
    }
    String::from_utf8(printed.stdout.bytes.clone()).map_err(|error| {
        let text = String::from_utf8_lossy(error.as_bytes());
        let name = text.split('\0').find(|name| name.contains('\u{fffd}')).unwrap_or_default();
        ToolError::conflict("InvalidPath", format!("a name is not UTF-8: {}", shorten(name, 200)))
    })
}

/// Names the first of some paths.
fn named<'a>(paths: impl ExactSizeIterator<Item = &'a str>) -> String {
    let left = paths.len().saturating_sub(MAX_NAMED);
    let first: Vec<_> = paths.take(MAX_NAMED).map(|path| shorten(path, MAX_PATH_BYTES)).collect();
    let first = first.join(", ");
    if left == 0 { first } else { format!("{first} and {left} more") }
}

fn failure(error: Error) -> ToolError {
    match error {
        Error::Denied(why) => ToolError::denied("PermissionError", why),
        Error::Invalid(why) => ToolError::conflict("CommitNotPossible", why),
        Error::Changed(why) => ToolError::conflict("RepositoryChanged", why),
        Error::Failed(why) => ToolError::failed("OSError", why),
    }
}

/// A commit that is prepared: a copy of the repository's index, and an index of the new tree.
struct Staging<'a> {
    git: Git,
    context: &'a Context,
    prepared: &'a Preparation,
    paths: Vec<String>,
    /// The paths as git takes them, and the submodules that are left out.
    specs: Vec<String>,
}

impl<'a> Staging<'a> {
    fn new(
        prepared: &'a Preparation,
        paths: Vec<String>,
        context: &'a Context,
    ) -> Result<Self, ToolError> {
        let mut git = Git::find(context)?;
        let directory = &prepared.directory;
        // In quotes, a colon does not end the path.
        let lender = prepared.objects.replace('\\', "\\\\").replace('"', "\\\"");
        git.set(
            &SETTINGS,
            &[
                ("GIT_OBJECT_DIRECTORY", &format!("{directory}/objects")),
                ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &format!("\"{lender}\"")),
                ("GIT_CONFIG_GLOBAL", &format!("{directory}/config")),
                ("GIT_INDEX_FILE", &format!("{directory}/tree")),
            ],
        );
        let specs = paths.iter().map(|path| format!(":(literal){path}")).collect();
        Ok(Self { git, context, prepared, paths, specs })
    }

    /// Runs a command on the index of the new tree.
    fn run(&self, arguments: &[&str], stdin: &str) -> Result<Printed, ToolError> {
        self.git.run(&self.command(arguments, stdin), self.context)
    }

    fn command(&self, arguments: &[&str], stdin: &str) -> Command {
        Command { stdin: stdin.as_bytes().to_vec(), ..self.git.command(arguments) }
    }

    /// A command on the copy of the repository's index.
    fn on_copy(&self, arguments: &[&str], stdin: &str) -> Command {
        let mut command = self.command(arguments, stdin);
        for (name, value) in &mut command.environment {
            if name == "GIT_INDEX_FILE" {
                *value = format!("{}/index", self.prepared.directory);
            }
        }
        command
    }

    /// Arguments, followed by the paths.
    fn with_specs<'b>(&'b self, arguments: &[&'b str]) -> Vec<&'b str> {
        let specs = self.specs.iter().map(String::as_str);
        arguments.iter().copied().chain(["--"]).chain(specs).collect()
    }

    fn check_identity(&self) -> Result<(), ToolError> {
        let found = process::run(&self.command(&["var", "GIT_AUTHOR_IDENT"], ""), self.context)?;
        match found.end {
            End::Exited(0) => Ok(()),
            _ => Err(ToolError::conflict(
                "NoIdentity",
                format!(
                    "git does not know who commits; the user sets it with `git config --global \
                     user.name NAME` and `git config --global user.email ADDRESS`. Git says: {}",
                    found.telling()
                ),
            )),
        }
    }

    /// Begins the index of the new tree with the latest commit. What the repository's index knows of
    /// unchanged files is kept, so that they are not read again.
    fn read_tree(&self) -> Result<(), ToolError> {
        let Some(parent) = &self.prepared.parent else { return Ok(()) };
        let output = format!("--index-output={}/tree", self.prepared.directory);
        let command = self.on_copy(&["read-tree", "--reset", &output, parent], "");
        self.git.run(&command, self.context).map(drop)
    }

    /// Leaves submodules out: git would run in them to see whether they have changed.
    fn leave_submodules_out(&mut self) -> Result<(), ToolError> {
        let listed = self.run(&self.with_specs(&["ls-files", "--stage", "-z"]), "")?;
        let listed = whole(&listed)?;
        let found = listed.split('\0').filter(|entry| entry.starts_with(SUBMODULE));
        let submodules: Vec<&str> =
            found.filter_map(|entry| entry.split_once('\t')).map(|(_, path)| path).collect();
        let is_in = |path: &String| {
            submodules.iter().any(|submodule| {
                path.strip_prefix(submodule)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        if let Some(path) = self.paths.iter().find(|path| is_in(path)) {
            let message = format!("{path} is a submodule, or in one; commit it with git itself");
            return Err(ToolError::conflict("SubmoduleNotSupported", message));
        }
        if submodules.len() > MAX_SUBMODULES {
            let message = format!("the paths have more than {MAX_SUBMODULES} submodules");
            return Err(ToolError::limit("TooManyFiles", message));
        }
        let left_out = submodules.iter().map(|path| format!(":(exclude,literal){path}"));
        self.specs.extend(left_out);
        Ok(())
    }

    fn check_ignored(&self) -> Result<(), ToolError> {
        let named_paths: Vec<&str> =
            self.paths.iter().map(String::as_str).filter(|path| *path != ".").collect();
        if named_paths.is_empty() {
            return Ok(());
        }
        let stdin = named_paths.join("\0") + "\0";
        let command = self.command(&["check-ignore", "-z", "--stdin"], &stdin);
        let found = process::run(&command, self.context)?;
        if found.exit_code() == Some(1) {
            return Ok(());
        }
        let found = whole(&found)?;
        let ignored: Vec<&str> = found.split_terminator('\0').collect();
        if ignored.is_empty() {
            // Git itself says what is wrong with the path.
            return Ok(());
        }
        let message = format!("ignored by a .gitignore: {}", named(ignored.into_iter()));
        Err(ToolError::conflict("IgnoredPath", message))
    }

    fn add(&self) -> Result<(), ToolError> {
        let added = self.run(&self.with_specs(&["add", "--all"]), "");
        added.map(drop).map_err(|error| {
            let missing = error.message.split("pathspec ':(literal)").nth(1);
            match missing.and_then(|rest| rest.split_once("' did not match any files")) {
                Some((path, _)) => ToolError::not_found(
                    "FileNotFoundError",
                    format!("neither on disk nor in the latest commit: {path}"),
                ),
                None if error.message.contains(" is in submodule ") => {
                    ToolError::conflict("SubmoduleNotSupported", error.message)
                }
                None => error,
            }
        })
    }

    /// The changes of the commit, with paths relative to the workspace.
    fn changes(&self) -> Result<Vec<Change>, ToolError> {
        let base = self.prepared.parent.as_deref().unwrap_or(EMPTY_TREE);
        let arguments = ["--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--relative"];
        let arguments = [&["diff-index"], &arguments[..], &[base]].concat();
        let changes = changes(&self.run(&arguments, "")?)?;
        if changes.is_empty() {
            let message = "the paths are as in the latest commit";
            return Err(ToolError::conflict("NothingToCommit", message));
        }
        if let Some(nested) = changes.iter().find(|change| change.new_mode == SUBMODULE) {
            let message = format!(
                "{} is a git repository of its own; commit the other paths by their names",
                nested.path
            );
            return Err(ToolError::conflict("NestedRepository", message));
        }
        Ok(changes)
    }

    /// Refuses paths with a filter, such as Git LFS.
    fn check_filters(&self, changes: &[Change]) -> Result<(), ToolError> {
        let written = changes.iter().filter(|change| change.new_mode != ABSENT);
        let stdin: String = written.map(|change| format!("{}\0", change.path)).collect();
        let printed = self.run(&["check-attr", "-z", "--stdin", "filter"], &stdin)?;
        let text = whole(&printed)?;
        let parts: Vec<&str> = text.split_terminator('\0').collect();
        let filtered: Vec<&str> = parts
            .chunks_exact(3)
            .filter(|chunk| !matches!(chunk[2], "unspecified" | "unset"))
            .map(|chunk| chunk[0])
            .collect();
        if filtered.is_empty() {
            return Ok(());
        }
        let message = format!(
            "a filter applies (.gitattributes), such as Git LFS, which does not run here; commit \
             with git itself: {}",
            named(filtered.into_iter())
        );
        Err(ToolError::conflict("FilterNotRun", message))
    }

    /// Writes the tree and the commit; returns their ids.
    fn write(&self, message: &str) -> Result<(String, String), ToolError> {
        let tree = self.run(&["write-tree"], "")?.stdout_text().trim().to_owned();
        let mut arguments = vec!["commit-tree", tree.as_str()];
        if let Some(parent) = &self.prepared.parent {
            arguments.extend(["-p", parent.as_str()]);
        }
        let commit = self.run(&arguments, message)?.stdout_text().trim().to_owned();
        Ok((tree, commit))
    }

    /// Gives the paths in the copy of the repository's index the state of the new tree; what else is
    /// staged stays.
    fn update_index(&self, tree: &str) -> Result<(), ToolError> {
        let options = ["--cached", "--raw", "-z", "--no-renames", "--no-abbrev"];
        let arguments =
            [&["diff-index"], &options[..], &["--ita-invisible-in-index", tree]].concat();
        let command = self.on_copy(&self.with_specs(&arguments), "");
        let changes = changes(&self.git.run(&command, self.context)?)?;
        let (gone, kept): (Vec<_>, Vec<_>) =
            changes.iter().partition(|change| change.old_mode == ABSENT);
        let gone = gone.iter().map(|change| format!("0 {} 0\t{}\0", "0".repeat(40), change.path));
        let kept = kept
            .iter()
            .map(|change| format!("{} {} 0\t{}\0", change.old_mode, change.old_id, change.path));
        let stdin: String = gone.chain(kept).collect();
        let command = self.on_copy(&["update-index", "-z", "--index-info"], &stdin);
        self.git.run(&command, self.context)?;
        // The exit code says only whether other files differ from the index.
        process::run(&self.on_copy(&["update-index", "-q", "--refresh"], ""), self.context)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
