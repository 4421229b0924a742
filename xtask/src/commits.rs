//! Applies real commits as patches with `apply_patch`, undoes them, and compares both trees.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::apply_patch::Workspace;
use crate::process::{native, output};
use crate::project::{self, Project};
use crate::tree::{self, Tree};

/// Options of `git diff`; commits take turns.
const OPTIONS: [&[&str]; 4] =
    [&["-M"], &["--no-renames"], &["-M", "-C", "--no-prefix"], &["-M", "-U1", "--full-index"]];

/// The commit with the empty tree, which a root commit is compared with, does not exist; so root
/// commits are left out.
const SELECTION: [&str; 3] = ["rev-list", "--no-merges", "--min-parents=1"];

/// Applies `count` commits of `repository`, spread over its history, to checkouts of their parents;
/// undoes each. Prints the figures, and which commits were left out.
///
/// # Errors
/// If git fails, or a commit is refused, differs, or can't be undone.
pub fn run(project: &Project, repository: &Path, count: usize) -> Result<()> {
    let mut campaign = Campaign::new(project, repository)?;
    let text = output(campaign.git(None).args(SELECTION).arg("HEAD"))?;
    let commits: Vec<&str> = text.lines().collect();
    let mut applied = 0;
    for index in spread(commits.len(), count) {
        if applied == count {
            break;
        }
        let options = OPTIONS[applied % OPTIONS.len()];
        match campaign.commit(commits[index], options)? {
            Outcome::Exact => applied += 1,
            Outcome::LeftOut(reason) => *campaign.left_out.entry(reason).or_default() += 1,
            Outcome::Failed(problem) => {
                applied += 1;
                campaign.problems.push(format!("{} {options:?}: {problem}", commits[index]));
                campaign.begin_anew()?;
            }
        }
    }
    let exact = applied - campaign.problems.len();
    println!("{exact} of {applied} commits applied and undone exactly");
    for (reason, number) in &campaign.left_out {
        println!("{number} left out: {reason}");
    }
    if !campaign.problems.is_empty() {
        bail!("{}", campaign.problems.join("\n"));
    }
    ensure!(applied == count, "the history has only {applied} such commits");
    Ok(())
}

/// All indexes below `length`, first `count` that are far apart.
fn spread(length: usize, count: usize) -> Vec<usize> {
    let stride = (length / count.max(1)).max(1);
    let mut indexes: Vec<usize> = (0..length).collect();
    indexes.sort_by_key(|index| (index % stride, *index));
    indexes
}

/// How a commit ended.
enum Outcome {
    Exact,
    LeftOut(&'static str),
    Failed(String),
}

/// One repository, and two checkouts of it.
struct Campaign<'a> {
    project: &'a Project,
    /// The directory with everything below.
    place: PathBuf,
    left_out: BTreeMap<&'static str, usize>,
    problems: Vec<String>,
}

impl<'a> Campaign<'a> {
    /// Creates a repository with the objects of another one, which is not changed. Attributes that
    /// convert files are switched off, so that a checkout has the bytes of the commit.
    fn new(project: &'a Project, repository: &Path) -> Result<Self> {
        let place = project.memory("commits");
        let find = ["rev-parse", "--path-format=absolute", "--git-path", "objects", "HEAD"];
        let found = output(native("git").arg("-C").arg(repository).args(find))?;
        let Some((objects, head)) = found.trim().split_once('\n') else {
            bail!("{}: not a git repository", repository.display());
        };
        let campaign = Self { project, place, left_out: BTreeMap::new(), problems: Vec::new() };
        campaign.begin_anew()?;
        output(native("git").args(["init", "--quiet", "--bare"]).arg(campaign.place.join("git")))?;
        let info = |name: &str| campaign.place.join("git").join(name);
        project::write(&info("objects/info/alternates"), format!("{objects}\n"))?;
        let attributes = "* -text -eol -ident -filter -working-tree-encoding diff=plain\n";
        project::write(&info("info/attributes"), attributes)?;
        output(campaign.git(None).args(["update-ref", "--no-deref", "HEAD", head]))?;
        Ok(campaign)
    }

    /// Removes the checkouts.
    fn begin_anew(&self) -> Result<()> {
        for name in ["workspace", "after", "home", "workspace.index", "after.index"] {
            let path = self.place.join(name);
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match removed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).with_context(|| format!("removing {}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Git in the repository, with a checkout as the working tree if one is named.
    fn git(&self, checkout: Option<&str>) -> Command {
        let mut git = native("git");
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        git.arg("--git-dir").arg(self.place.join("git"));
        if let Some(name) = checkout {
            git.env("GIT_INDEX_FILE", self.place.join(format!("{name}.index")));
            git.arg("--work-tree").arg(self.place.join(name));
            git.current_dir(self.place.join(name));
        }
        git
    }

    fn check_out(&self, checkout: &str, commit: &str) -> Result<Tree> {
        let directory = self.place.join(checkout);
        fs::create_dir_all(&directory)?;
        output(self.git(Some(checkout)).args(["read-tree", "--reset", "-u", commit]))?;
        tree::read(&directory)
    }

    /// Applies a commit to its parent and undoes it.
    fn commit(&self, commit: &str, options: &[&str]) -> Result<Outcome> {
        let parent = format!("{commit}^");
        let raw =
            output(self.git(None).args(["diff-tree", "-r", "--no-renames", &parent, commit]))?;
        let numbers =
            output(self.git(None).args(["diff-tree", "--numstat", "-r", &parent, commit]))?;
        if raw.is_empty() {
            return Ok(Outcome::LeftOut("changes nothing"));
        }
        if raw.contains(":160000 ") || raw.contains(" 160000 ") {
            return Ok(Outcome::LeftOut("a submodule"));
        }
        if numbers.lines().any(|line| line.starts_with("-\t-\t")) {
            return Ok(Outcome::LeftOut("a binary file"));
        }
        let mut diff = self.git(None);
        diff.args(["diff", "--no-color"]).args(options).args([&parent, commit]);
        let patch = diff.output()?.stdout;
        if std::str::from_utf8(&patch).is_err() {
            return Ok(Outcome::LeftOut("not UTF-8"));
        }
        let before = self.check_out("workspace", &parent)?;
        let wanted = self.check_out("after", commit)?;
        let directory = self.place.join("workspace");
        let workspace = Workspace::new(self.project, &directory, &self.place.join("home"))?;
        if let Some(reason) = workspace.apply(&patch)? {
            return Ok(Outcome::Failed(format!("refused: {reason}")));
        }
        let differing = tree::differences(&wanted, &tree::read(&directory)?);
        if !differing.is_empty() {
            return Ok(Outcome::Failed(format!("different: {}", differing.join(", "))));
        }
        if let Some(reason) = workspace.undo()? {
            return Ok(Outcome::Failed(format!("not undone: {reason}")));
        }
        let differing = tree::differences(&before, &tree::read(&directory)?);
        if !differing.is_empty() {
            return Ok(Outcome::Failed(format!("different after undo: {}", differing.join(", "))));
        }
        Ok(Outcome::Exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_spread_over_the_history() {
        assert_eq!(spread(7, 3), [0, 2, 4, 6, 1, 3, 5]);
        assert_eq!(spread(3, 9), [0, 1, 2]);
        assert_eq!(spread(0, 0), [] as [usize; 0]);
    }
}
