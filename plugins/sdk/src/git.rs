//! Runs git on a repository that is not trusted: lists the changes in the workspace without running
//! anything that the repository names.
//!
//! A repository's own configuration can name programs that git then runs: filters, file system
//! monitors, external diffs, transports and more. Each of these is disabled by the environment, by
//! settings that override those of the repository, or by an option:
//!
//! | what a repository can contain | how it is disabled |
//! |---|---|
//! | `core.fsmonitor`, hooks, `core.pager` | overridden |
//! | `filter.*.clean`, `.smudge`, `.process` | all names are listed first, then each is overridden; nothing is listed where the settings are one file that mentions neither filters nor other files |
//! | `diff.external`, `diff.*.command`, `diff.*.textconv` | `--no-ext-diff`, `--no-textconv` |
//! | a missing object that a remote promises: `core.sshCommand`, `core.gitProxy`, `credential.helper`, `ext::` | nothing is fetched, no protocol is allowed |
//! | a submodule with a configuration of its own | git does not look into submodules |
//! | `core.worktree`, a `.git` file or link to elsewhere, `objects/info/alternates` | the host determines the repository and the tree; what is outside of the workspace counts only if it is confirmed there |
//! | `alias.*` | can't replace git's own commands, and only these are run |
//!
//! A workspace below the root of a repository is compared by itself: paths are relative to the
//! workspace, and nothing outside of it is listed. Needs git 2.32 or later.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::process::{self, Changes, Command, End, Output, Repository};
use crate::{Context, ToolError, WorkspacePath, shorten};

/// Environment variables that make git independent of the settings of the user and the machine.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    // Git does not write the index, so no hook for that runs.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("LC_ALL", "C"),
];

/// Settings that override those of the repository.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.pager", "cat"),
    ("core.quotePath", "false"),
    ("color.ui", "false"),
    ("color.diff", "false"),
    ("color.status", "false"),
    ("column.status", "never"),
    ("advice.statusHints", "false"),
    ("status.relativePaths", "true"),
    ("protocol.allow", "never"),
    // This setting makes git run itself in each submodule.
    ("status.submoduleSummary", "false"),
];

/// Compares submodules only by their commits, without reading their files.
const SUBMODULES: &str = "--ignore-submodules=dirty";

/// The maximum size of a file of settings that is searched for filters here, in bytes.
const SETTINGS_BYTES: u64 = 64 * 1024;

/// Runs commands of git on the workspace's repository with everything overridden that it names.
pub struct Git {
    repository: Repository,
    settings: Vec<(String, String)>,
    environment: Vec<(String, String)>,
}

impl Git {
    /// Finds the repository and lists its filters.
    ///
    /// # Errors
    /// As [`status`].
    pub fn find(context: &Context) -> Result<Self, ToolError> {
        let repository = repository(context)?;
        let mut git = Self { repository, settings: Vec::new(), environment: Vec::new() };
        if !git.may_have_filters(context) {
            return Ok(git);
        }
        // Only git can list its settings, since configuration files include others.
        let list = ["config", "--list", "--name-only", "-z"];
        let listed = checked(&git.command(&list), &git.repository, context)?;
        if listed.stdout.total > listed.stdout.bytes.len() as u64 {
            return Err(ToolError::failed("GitFailed", "the repository has too many settings"));
        }
        git.settings = filter_overrides(&listed.stdout.bytes)?;
        Ok(git)
    }

    /// Returns `false` only if no setting of the repository can name a filter. It saves a run of git, which
    /// takes longer than most of git's own work.
    fn may_have_filters(&self, context: &Context) -> bool {
        let Ok(place) = context.resolve(".git") else { return true };
        let directory = context.local(&place);
        let is_own = self.repository.git_dir == ".git"
            && fs::symlink_metadata(&directory).is_ok_and(|metadata| metadata.is_dir())
            // Otherwise the settings are elsewhere.
            && is_absent(&directory.join("commondir"));
        let worktree = directory.join("config.worktree");
        !is_own
            || may_name_filters(&directory.join("config"))
            || (!is_absent(&worktree) && may_name_filters(&worktree))
    }

    /// Overrides further settings of the repository, and sets variables of the environment.
    pub fn set(&mut self, settings: &[(&str, &str)], environment: &[(&str, &str)]) {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        self.settings.extend(settings.iter().map(owned));
        for (name, value) in environment {
            set(&mut self.environment, name, value);
        }
    }

    /// Runs a command; another exit code than 0 is an error.
    ///
    /// # Errors
    /// As [`status`].
    pub fn run(&self, command: &Command, context: &Context) -> Result<Output, ToolError> {
        checked(command, &self.repository, context)
    }

    /// Describes the run of a command, which can't change the workspace.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let fixed = SETTINGS.iter().map(|&(key, value)| (key, value));
        let found = self.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let settings: Vec<(&str, &str)> = fixed.chain(found).collect();
        let mut environment: Vec<(String, String)> =
            ENVIRONMENT.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        environment.push(("GIT_DIR".to_owned(), self.repository.git_dir.clone()));
        // Otherwise `core.worktree` could point elsewhere.
        environment.push(("GIT_WORK_TREE".to_owned(), self.repository.work_tree.clone()));
        // Not `-c`, which would cut a name at its first `=`.
        environment.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            environment.push((format!("GIT_CONFIG_KEY_{index}"), key.to_owned()));
            environment.push((format!("GIT_CONFIG_VALUE_{index}"), value.to_owned()));
        }
        for (name, value) in &self.environment {
            set(&mut environment, name, value);
        }
        Command {
            environment,
            changes: Changes::None,
            ..process::command("git", &[&["--no-pager"], arguments].concat())
        }
    }
}

fn is_absent(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}

/// Returns `false` only if this is a file of settings that mentions neither filters nor other files. The name
/// of a section, such as `[filter "x"]`, can't be escaped or divided.
fn may_name_filters(path: &Path) -> bool {
    let read = || {
        if !fs::symlink_metadata(path)?.is_file() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::open(path)?.take(SETTINGS_BYTES + 1).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>((bytes.len() as u64 <= SETTINGS_BYTES).then_some(bytes))
    };
    let Ok(Some(bytes)) = read() else { return true };
    let mentions = |word: &str| {
        bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
    };
    mentions("filter") || mentions("include")
}

/// Sets a variable, which may be there already.
fn set(environment: &mut Vec<(String, String)>, name: &str, value: &str) {
    environment.retain(|(known, _)| known != name);
    environment.push((name.to_owned(), value.to_owned()));
}

/// What git printed about the workspace.
pub struct Report {
    /// What git printed.
    pub output: Output,
    /// The repository, with the files outside of the workspace that git could read.
    pub repository: Repository,
}

/// Runs `git status` with these options; returns its output.
///
/// # Errors
/// `NotARepository`, `RepositoryNotConfirmed`, `GitFailed`, `TimeoutError`, those of
/// [`crate::process::run`].
pub fn status(options: &[&str], context: &Context) -> Result<Report, ToolError> {
    run(&[&["status", SUBMODULES], options].concat(), None, context)
}

/// Runs `git diff`, of one file or directory if `path` is given; returns its output, a patch from `a/`
/// to `b/`.
///
/// # Errors
/// As [`status`].
pub fn diff(path: Option<&WorkspacePath>, context: &Context) -> Result<Report, ToolError> {
    let own = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        "--submodule=short",
        "--relative",
        SUBMODULES,
    ];
    run(&own, path, context)
}

/// The existing files that differ from the last commit, with untracked but without ignored files.
/// Paths are relative to the workspace, in git's order; names that are not UTF-8 are left out.
///
/// # Errors
/// As [`status`]; `GitFailed` if the list is longer than a program's output may be.
pub fn changed_files(context: &Context) -> Result<Vec<String>, ToolError> {
    let options = ["--porcelain=v1", "-z", "--untracked-files=all", "--no-renames"];
    let arguments = [&["status", SUBMODULES], &options[..]].concat();
    let Report { output, repository } = run(&arguments, None, context)?;
    if output.stdout.total > output.stdout.bytes.len() as u64 {
        return Err(ToolError::failed("GitFailed", "more files have changed than can be listed"));
    }
    let files = output.stdout.bytes.split(|&byte| byte == 0).filter_map(changed_file);
    // These paths are always relative to the root of the working tree.
    let relative = |path: String| match repository.prefix.as_str() {
        "" => Some(path),
        prefix => path.strip_prefix(prefix)?.strip_prefix('/').map(str::to_owned),
    };
    Ok(files.filter_map(relative).collect())
}

/// Finds the workspace's repository.
fn repository(context: &Context) -> Result<Repository, ToolError> {
    process::repository(context).map_err(|error| match error {
        process::Error::NotFound(message) => ToolError::not_found("NotARepository", message),
        process::Error::Invalid(message) => ToolError::denied("RepositoryNotConfirmed", message),
        error => error.into(),
    })
}

/// The path of an entry `XY PATH`; `None` if the file does not exist or is a directory, which is a
/// nested repository.
fn changed_file(entry: &[u8]) -> Option<String> {
    let (&[_, in_tree, _], path) = entry.split_first_chunk()?;
    let path = str::from_utf8(path).ok()?;
    let staged_and_gone = entry.starts_with(b"D ");
    (in_tree != b'D' && !staged_and_gone && !path.ends_with('/')).then(|| path.to_owned())
}

/// Runs git on the files of the workspace, or on those at or below `path`.
fn run(
    arguments: &[&str],
    path: Option<&WorkspacePath>,
    context: &Context,
) -> Result<Report, ToolError> {
    let git = Git::find(context)?;
    let place = match path.map(WorkspacePath::as_str).unwrap_or_default() {
        "" if git.repository.prefix.is_empty() => Vec::new(),
        "" => vec!["--".to_owned(), ".".to_owned()],
        path => vec!["--".to_owned(), format!(":(literal){path}")],
    };
    let place = place.iter().map(String::as_str);
    let arguments: Vec<&str> = arguments.iter().copied().chain(place).collect();
    let output = git.run(&git.command(&arguments), context)?;
    Ok(Report { output, repository: git.repository })
}

/// Settings that disable each filter named in `names`, a list separated by NUL.
fn filter_overrides(names: &[u8]) -> Result<Vec<(String, String)>, ToolError> {
    let mut settings = Vec::new();
    for name in names.split(|&byte| byte == 0).filter(|name| name.starts_with(b"filter.")) {
        let Ok(name) = str::from_utf8(name) else {
            let name = String::from_utf8_lossy(name);
            let name = shorten(&name, 200);
            let message = format!("the repository has a setting whose name is not UTF-8: {name}");
            return Err(ToolError::conflict("GitFailed", message));
        };
        match name.rsplit_once('.') {
            Some((_, "clean" | "smudge" | "process")) => {
                settings.push((name.to_owned(), String::new()));
            }
            Some((_, "required")) => settings.push((name.to_owned(), "false".to_owned())),
            _ => {}
        }
    }
    Ok(settings)
}

/// Runs a command; a failure of git is an error.
fn checked(
    command: &Command,
    repository: &Repository,
    context: &Context,
) -> Result<Output, ToolError> {
    let output = process::run(command, context)?;
    match &output.end {
        End::Exited(0) => Ok(output),
        End::Exited(code) => {
            let said = output.telling();
            // `git diff` writes it with a capital letter.
            Err(if said.contains("ot a git repository") {
                let git = &repository.git_dir;
                let message = format!(
                    "git does not accept {git} as a git repository: it should be a directory with a \
                     valid HEAD, objects and refs, or a file that leads to one in the workspace. Git \
                     says: {said}"
                );
                ToolError::not_found("NotARepository", message)
            } else {
                let message = format!("git ended with exit code {code}: {said}");
                ToolError::failed("GitFailed", message)
            })
        }
        End::TimedOut => {
            let message = format!("git took longer than {} ms", output.duration_ms);
            Err(ToolError::limit("TimeoutError", message))
        }
        End::Limit(limit) => {
            Err(ToolError::limit(limit, format!("git was stopped at a limit: {limit}")))
        }
        End::Signalled(signal) => {
            Err(ToolError::failed("GitFailed", format!("git was ended by signal {signal}")))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn filters_of_any_name_are_disabled() {
        let names = b"core.bare\0filter.lfs.clean\0filter.a=b.c.process\0filter.x.required\0\
            filter.x.other\0diff.x.textconv\0";
        let wanted = [
            ("filter.lfs.clean", ""),
            ("filter.a=b.c.process", ""),
            ("filter.x.required", "false"),
        ];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(filter_overrides(names).unwrap(), wanted);
        assert_eq!(filter_overrides(b"filter.\xff.clean\0").unwrap_err().code, "GitFailed");
    }

    #[test]
    fn only_plain_settings_name_no_filters() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        assert!(may_name_filters(&path), "there is no file");
        for (text, may) in [
            ("[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n".to_owned(), false),
            (String::new(), false),
            ("[Filter \"x\"] clean = y".to_owned(), true),
            ("[FILTER.x]\nclean = y".to_owned(), true),
            ("[include]\n\tpath = other".to_owned(), true),
            ("[IncludeIf \"gitdir:/\"]\n\tpath = other".to_owned(), true),
            (format!("#{}\n", "x".repeat(SETTINGS_BYTES as usize)), true),
        ] {
            fs::write(&path, &text).unwrap();
            assert_eq!(may_name_filters(&path), may, "{:.40}", text);
        }
        let link = directory.path().join("link");
        fs::write(&path, "").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(may_name_filters(&link));
    }

    #[test]
    fn changed_files_are_existing_files() {
        for (entry, wanted) in [
            (&b" M src/a b.rs"[..], Some("src/a b.rs")),
            (b"?? new \xc3\xa9", Some("new é")),
            (b"A  staged", Some("staged")),
            (b"AM both", Some("both")),
            (b"UU conflict", Some("conflict")),
            (b" D gone", None),
            (b"D  gone for good", None),
            (b"AD added and gone", None),
            (b"?? repository/", None),
            (b"?? \xff", None),
            (b"", None),
        ] {
            assert_eq!(changed_file(entry).as_deref(), wanted);
        }
    }
}
