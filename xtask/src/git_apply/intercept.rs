//! Stands in for one run of `git apply`.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::arguments::{Run, setting};
use crate::apply_patch::Workspace;
use crate::process::{ask, native};
use crate::project::Project;
use crate::tree::{self, Tree};

/// One run of `git apply`, and how it compares.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) arguments: Vec<String>,
    pub(super) result: Comparison,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Comparison {
    /// Both applied the patch, and the trees are the same; or git only checked it.
    Applied,
    /// Both refused the patch, and changed nothing.
    Refused,
    /// The patch was applied here and refused by git, for this reason.
    OnlyHere(String),
    /// The patch was applied by git and refused here, for this reason.
    OnlyGit(String),
    /// The trees differ at these paths.
    Different(Vec<String>),
    /// There is no counterpart, because of this option or setting.
    NotCompared(String),
}

/// Runs `git apply` with `arguments` and appends to `records` how `apply_patch` compares. Returns
/// git's exit status.
///
/// # Errors
/// If git or the built command can't be run, or files can't be copied.
pub fn intercept(
    project: &Project,
    git: &Path,
    records: &Path,
    arguments: &[String],
) -> Result<u8> {
    let mut stdin = Vec::new();
    let run = Run::parse(arguments).and_then(|run| {
        let list = ask(native(git).args(["config", "--list"])).unwrap_or_default();
        setting(&list).map_or(Ok(run), |setting| Err(setting.to_owned()))
    });
    let reads_stdin = match &run {
        Ok(run) => run.patches.iter().any(|patch| patch.as_os_str() == "-"),
        Err(_) => false,
    };
    if reads_stdin {
        io::stdin().read_to_end(&mut stdin)?;
    }
    let own = run.map(|run| (Own::apply(project, git, records, &run, &stdin), run));
    let output = run_git(git, arguments, reads_stdin.then_some(&stdin[..]))?;
    let result = match own {
        Err(reason) => Comparison::NotCompared(reason),
        Ok((own, run)) => own?.compared(&output, &run)?,
    };
    // Only now: the output may go to a file in the working tree.
    io::stdout().write_all(&output.stdout)?;
    io::stderr().write_all(&output.stderr)?;
    let line = serde_json::to_string(&Record { arguments: arguments.to_vec(), result })?;
    let mut file = OpenOptions::new().append(true).open(records)?;
    writeln!(file, "{line}")?;
    Ok(output.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

fn run_git(git: &Path, arguments: &[String], stdin: Option<&[u8]>) -> Result<Output> {
    let mut command = native(git);
    command.arg("apply").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    if stdin.is_some() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().context("starting git")?;
    if let (Some(mut pipe), Some(stdin)) = (child.stdin.take(), stdin) {
        // Git may have refused the patch by its first lines.
        let _broken_pipe = pipe.write_all(stdin);
    }
    Ok(child.wait_with_output()?)
}

/// What `apply_patch` did on a copy of the working tree.
struct Own {
    /// The directory that git changes.
    top: PathBuf,
    before: Tree,
    after: Tree,
    refusal: Option<String>,
}

impl Own {
    fn apply(
        project: &Project,
        git: &Path,
        records: &Path,
        run: &Run,
        stdin: &[u8],
    ) -> Result<Self> {
        let here = std::env::current_dir()?;
        let top = ask(native(git).args(["rev-parse", "--show-toplevel"]))
            .filter(|top| !top.is_empty())
            .map_or_else(|| here.clone(), PathBuf::from);
        let place = records.with_extension("copy");
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        let copy = place.join("tree");
        tree::copy(&top, &copy)?;
        let before = tree::read(&copy)?;
        let mut refusal = None;
        for name in &run.patches {
            let patch = match name.as_os_str() == "-" {
                true => stdin.to_vec(),
                false => fs::read(name).unwrap_or_default(),
            };
            // Names of git's patches begin at the top of the working tree, others at the working
            // directory.
            let of_git = patch.windows(11).any(|part| part == b"diff --git ");
            let below = here.strip_prefix(&top).unwrap_or(Path::new(""));
            let directory = if of_git { copy.clone() } else { copy.join(below) };
            refusal = Workspace::new(project, &directory, &place.join("home"))?.apply(&patch)?;
            if refusal.is_some() {
                break;
            }
        }
        let after = tree::read(&copy)?;
        Ok(Self { top, before, after, refusal })
    }

    /// Compares with what git did.
    fn compared(self, git: &Output, run: &Run) -> Result<Comparison> {
        let by_git = if run.checks_only { None } else { Some(tree::read(&self.top)?) };
        Ok(match (self.refusal, git.status.success()) {
            (Some(_), false) => match tree::differences(&self.before, &self.after) {
                changed if changed.is_empty() => Comparison::Refused,
                changed => Comparison::Different(changed),
            },
            (Some(reason), true) => Comparison::OnlyGit(reason),
            (None, false) => {
                Comparison::OnlyHere(String::from_utf8_lossy(&git.stderr).trim().to_owned())
            }
            (None, true) => {
                let paths = by_git.map(|by_git| tree::differences(&self.after, &by_git));
                match paths.filter(|paths| !paths.is_empty()) {
                    Some(paths) => Comparison::Different(paths),
                    None => Comparison::Applied,
                }
            }
        })
    }
}
