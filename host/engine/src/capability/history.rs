//! `cofferdam:host/history`: the commits of the session that calls. [`cofferdam_workspace`] lists and
//! undoes them; this module passes it the ids of the session's own commits, so that it knows no
//! others, and checks each path.

use std::sync::Arc;

use wasmtime::Result;

use super::bindings::cofferdam::host::history::{Change, Commit, Error, Host, Kind, Page, Part};
use super::state::CallState;
use crate::call::SessionCommit;
use cofferdam_core::policy::Files;
use cofferdam_workspace::{self as workspace, History, HistoryError, Refused, summary};

/// The largest number of commits in one page.
const MAX_COMMITS: u32 = 100;

/// The largest number of paths that are listed of a commit.
const MAX_PATHS: usize = 100;

/// The error of an undo without a lasting session, that has no commits.
const NO_SESSION: &str = "this session has no commit that is not undone: a session is one run of the \
                          command, or one call over HTTP since MCP 2026-07-28";

impl Host for CallState {
    fn commits(&mut self, skip: u32, max: u32) -> Result<std::result::Result<Page, Error>> {
        Ok(self.page(skip as usize, max.min(MAX_COMMITS) as usize))
    }

    fn diff(
        &mut self,
        id: String,
        offset: u64,
        max: u32,
    ) -> Result<std::result::Result<Part, Error>> {
        Ok(self.part(&id, offset, max))
    }

    fn undo(&mut self, id: Option<String>) -> Result<std::result::Result<Commit, Error>> {
        Ok(self.stage_undo(id.as_deref()))
    }
}

impl CallState {
    /// Returns the history of the session, and its commits.
    fn own_history(&self) -> std::result::Result<(History, Vec<SessionCommit>), Error> {
        let permissions = &self.context.permissions;
        let (plugin, capabilities) = (permissions.plugin(), &permissions.capabilities);
        if !capabilities.history {
            let why = format!("the plugin '{plugin}' may not use the history (history = true)");
            return Err(Error::Denied(why));
        }
        if capabilities.files == Files::None {
            return Err(Error::Denied("the call has nothing to do with files".to_owned()));
        }
        let commits = self.context.session.commits();
        let history = History::new(Arc::clone(&self.context.services.workspace));
        Ok((history.only(commits.iter().map(|commit| commit.id.as_str().into())), commits))
    }

    fn page(&self, skip: usize, max: usize) -> std::result::Result<Page, Error> {
        let (history, own) = self.own_history()?;
        let (page, total) = history.page(skip, max).map_err(failure)?;
        let commits = page
            .iter()
            .map(|listed| self.described(&listed.commit, listed.undone_by.is_some(), &own));
        Ok(Page { commits: commits.collect(), total: u32::try_from(total).unwrap_or(u32::MAX) })
    }

    fn part(&self, id: &str, offset: u64, max: u32) -> std::result::Result<Part, Error> {
        let (history, _) = self.own_history()?;
        let commit = history.commit(id).map_err(failure)?;
        let sight = self.files.sight();
        if let Some(change) = commit.changes.iter().find(|change| !sight.allows(&change.path)) {
            let why = format!("{} is outside of the call's scope", change.path);
            return Err(Error::Denied(why));
        }
        commit.changes.iter().for_each(|change| self.context.secrets.read(&change.path));
        let diff = history.diff(&commit.id).map_err(failure)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(diff.len());
        let end = start.saturating_add(max as usize).min(diff.len());
        Ok(Part { bytes: diff[start..end].to_vec(), total: diff.len() as u64 })
    }

    fn stage_undo(&self, id: Option<&str>) -> std::result::Result<Commit, Error> {
        let (history, own) = self.own_history()?;
        let allow = |path: &str| self.files.allow_change(path);
        let undone = history.stage_undo(&self.context.tree, id, allow);
        let undone = undone.map_err(|error| match error {
            HistoryError::NothingToUndo if !self.context.session.is_lasting() => {
                Error::Unknown(NO_SESSION.to_owned())
            }
            error => failure(error),
        })?;
        Ok(self.described(&undone, true, &own))
    }

    /// Describes a commit. Paths that the call may not read are counted only.
    fn described(&self, commit: &workspace::Commit, undone: bool, own: &[SessionCommit]) -> Commit {
        let tools = own.iter().find(|own| *own.id == *commit.id);
        let summary = summary(&commit.changes);
        let paths = u32::try_from(summary.len()).unwrap_or(u32::MAX);
        let seen = summary.into_iter().filter(|(path, _)| self.files.sight().allows(path));
        let changes = seen.take(MAX_PATHS).map(|(path, word)| Change {
            path: path.to_owned(),
            kind: match word {
                "created" => Kind::Created,
                "removed" => Kind::Removed,
                _ => Kind::Changed,
            },
        });
        Commit {
            id: commit.id.to_string(),
            time: commit.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            tools: tools.map(|own| own.tools.clone()).unwrap_or_default(),
            undoes: commit.undoes.as_ref().map(ToString::to_string),
            undone,
            changes: changes.collect(),
            paths,
        }
    }
}

fn failure(error: HistoryError) -> Error {
    match error {
        HistoryError::Unknown(id) => Error::Unknown(format!(
            "this session has no commit {}",
            cofferdam_text::shorten(&id, 80)
        )),
        HistoryError::NothingToUndo => {
            Error::Unknown("this session has no commit that is not undone".to_owned())
        }
        HistoryError::Ambiguous(_) => Error::Unknown(error.to_string()),
        HistoryError::Changed { .. } | HistoryError::NotAlone => Error::Changed(error.to_string()),
        HistoryError::Io(error) if Refused::of(&error).is_some() => {
            Error::Denied(error.to_string())
        }
        error => Error::Failed(error.to_string()),
    }
}
