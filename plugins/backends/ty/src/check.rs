//! Checking texts that are no files, such as scripts.
//!
//! The database for this is made when the plugin is packed, with everything inferred that most scripts
//! need of the standard library ([`prepare`]). So a check infers only the script.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use ruff_db::files::system_path_to_file;
use ruff_db::system::{SystemPath, SystemPathBuf};

use crate::database::Database;
use crate::findings::{Collector, Finding};
use crate::options::Project;
use crate::settings::Settings;
use crate::system::Workspace;

/// The directory that the texts are in.
const ROOT: &str = "/texts";

/// The other text that a script can import in the prepared database, which has listed the directory: no
/// other file appears there later.
const STUBS: &str = "tools__.pyi";

/// The text with which the database is made. No request has its path.
const FIRST: (&str, &str) = ("prepare__.py", include_str!("prepare.py"));

/// The database that [`prepare`] made.
static PREPARED: Mutex<Option<Texts>> = Mutex::new(None);

/// A database of texts. It serves one check, since nothing in it may change.
struct Texts {
    db: Database,
    workspace: Workspace,
    settings: Arc<Settings>,
}

/// Makes the database, and infers what most scripts need.
pub fn prepare() {
    let prepared = Texts::new().and_then(|mut texts| {
        let first = [(FIRST.0, FIRST.1), (STUBS, "")];
        texts.check(&first.map(|(path, text)| (path.to_owned(), text.to_owned())))?;
        Ok(texts)
    });
    *PREPARED.lock().unwrap_or_else(PoisonError::into_inner) = prepared.ok();
}

/// Checks the first text, which may import the others.
///
/// # Errors
/// If a path is not the name of a file, or that of [`FIRST`], or there is no text.
pub fn check(sources: &[(String, String)]) -> Result<Vec<Finding>> {
    let is_own = sources.iter().any(|(path, _)| path == FIRST.0);
    ensure!(!is_own, "'{}' is the checker's own", FIRST.0);
    let is_expected = sources.iter().skip(1).all(|(path, _)| path == STUBS);
    let prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner).take();
    prepared.filter(|_| is_expected).map_or_else(Texts::new, Ok)?.check(sources)
}

impl Texts {
    fn new() -> Result<Self> {
        let root = SystemPath::new(ROOT);
        let workspace = Workspace::of_texts(root);
        let project = Project::find(&workspace, root, None)?;
        let settings = Arc::new(Settings::new(project, &workspace, &[])?);
        let db = Database::new(workspace.clone(), Arc::clone(&settings), Arc::default());
        Ok(Self { db, workspace, settings })
    }

    fn check(&mut self, sources: &[(String, String)]) -> Result<Vec<Finding>> {
        let mut paths: Vec<SystemPathBuf> = Vec::new();
        for (path, text) in sources {
            let place = SystemPath::absolute(path, ROOT);
            let is_name = place.parent() == Some(SystemPath::new(ROOT));
            ensure!(is_name, "'{path}' is not the name of a file");
            self.workspace.add_text(place.clone(), text.clone());
            paths.push(place);
        }
        let first = paths.first().context("there is no text to check")?;
        self.db.checks_only(BTreeSet::from([first.clone()]));
        let mut findings = Collector::new(&self.db, &self.settings);
        let file = system_path_to_file(&self.db, first).context("the text can't be read")?;
        findings.add(file, &self.db.check(file));
        Ok(findings.finish().findings)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn codes(texts: &[(&str, &str)]) -> Vec<String> {
        let texts: Vec<(String, String)> =
            texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let found = check(&texts).unwrap().into_iter();
        found.map(|found| format!("{}:{} {}", found.path, found.line, found.code)).collect()
    }

    #[test]
    fn what_prepares_the_database_has_no_findings_and_changes_none() {
        let texts = [
            ("script.py", "from tools__ import *\nimport json\nx = read(path=1)\nx['contents']\n"),
            (
                "tools__.pyi",
                "from typing import TypedDict\nclass Read(TypedDict):\n    content: str\n\
                 def read(*, path: str) -> Read: ...\n",
            ),
        ];
        let wanted = ["script.py:3 invalid-argument-type", "script.py:4 invalid-key"];
        assert_eq!(codes(&texts), wanted);
        let mut first = Texts::new().unwrap();
        let found = first.check(&[(FIRST.0.to_owned(), FIRST.1.to_owned())]).unwrap();
        assert!(found.is_empty(), "{found:#?}");
        prepare();
        assert!(PREPARED.lock().unwrap().is_some());
        assert_eq!(codes(&texts), wanted);
        assert!(PREPARED.lock().unwrap().is_none());
    }

    #[test]
    fn a_text_outside_and_no_text_are_refused() {
        let text = |path: &str| check(&[(path.to_owned(), String::new())]);
        assert!(text("../a.py").unwrap_err().to_string().contains("'../a.py'"));
        assert!(text("/etc/a.py").is_err() && text("a/b.py").is_err() && text(".").is_err());
        assert!(check(&[]).is_err());
        // Other texts than stubs are seen as well.
        let texts = [("a.py", "import b\nb.x\nb.y\n"), ("b.py", "x = 1\n")];
        assert_eq!(codes(&texts), ["a.py:3 unresolved-attribute"]);
    }
}
