//! The commits of the workspace: list, diff of one or of several in a row, undo, redo. A redo undoes the
//! undo of a commit.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use crate::diff::{self, View};
use crate::form::{Fields, address};
use crate::layout::{self, Page, facts, name, pager, redirect, short, time};
use crate::state::Console;
use cofferdam_engine::review::DecideError;
use cofferdam_engine::runtime::blocking;
use cofferdam_workspace::{
    Commit, CommitId, History, HistoryError, ListedCommit, RangeDiff, summary,
};

/// How many commits a page of the list has.
const PER_PAGE: usize = 50;

/// How many paths of a commit the list names.
const MAX_PATHS: usize = 5;

/// How many paths and conflicts the page of a commit names.
const MAX_NAMED: usize = 200;

/// A page of the commits, the newest first, with what each has changed. Undone ones have a button that makes
/// them again; two can be chosen as the ends of a range.
pub async fn show(console: &Arc<Console>, fields: Fields) -> Page {
    let at = fields.number("page");
    let history = History::new(Arc::clone(console.workspace()));
    let read = blocking(move || history.page(at.saturating_mul(PER_PAGE), PER_PAGE)).await;
    let (commits, count) = match read {
        Ok(page) => page,
        Err(error) => return Page::failed("history", status(&error), error),
    };
    let has_more = count > at.saturating_add(1).saturating_mul(PER_PAGE);
    let body = html! {
        @if commits.is_empty() { p class="quiet" { "There are no commits here." } } @else {
            form id="range" method="get" action="range" class="row" {
                span class="quiet" { "Choose the first and the last commit of a part of the history:" }
                button { "Show what they changed together" }
            }
            section class="scroll" aria-label="Commits" tabindex="0" { table {
                caption { (count) " commits are kept" }
                thead { tr {
                    th scope="col" { "Time (UTC)" } th scope="col" { "Commit" } th scope="col" { "What" }
                    th scope="col" { "Changes" } th scope="col" { "First" } th scope="col" { "Last" }
                } }
                tbody { @for listed in &commits { (row(console, listed)) } }
            } }
            (pager("history", &[], (at, has_more)))
        }
    };
    Page { reloads: "history", ..Page::new("history", "History", body) }
}

fn row(console: &Console, ListedCommit { commit, undone_by }: &ListedCommit) -> Markup {
    let changes = summary(&commit.changes);
    html! {
        tr class=[undone_by.as_ref().map(|_| "undone")] {
            td { (time(commit.time)) }
            th scope="row" { a href=(address("commit", &[("id", &commit.id)])) { code { (short(&commit.id)) } } }
            td {
                (what(commit))
                @if let Some(by) = undone_by {
                    " " span class="tag" { "undone" }
                    form method="post" action="undo" {
                        (layout::token(console))
                        input type="hidden" name="id" value=(by);
                        button title="Makes the changes of this commit again" aria-label=(format!("Redo the commit {}", short(&commit.id))) { "Redo" }
                    }
                }
            }
            td { ul class="paths" {
                @for (path, change) in changes.iter().take(MAX_PATHS) {
                    li { span class=(format!("tag {change}")) { (change) } " " (name(path)) }
                }
                @if changes.len() > MAX_PATHS { li { "and " (changes.len() - MAX_PATHS) " more" } }
            } }
            @for (field, which) in [("from", "first"), ("to", "last")] {
                td { input type="radio" form="range" required name=(field) value=(commit.id)
                    aria-label=(format!("The commit {} is the {which} one", short(&commit.id))); }
            }
        }
    }
}

fn what(commit: &Commit) -> Markup {
    html! {
        @if let Some(undone) = &commit.undoes { "undo of " code { (short(undone)) } }
        @else if let Some(accepted) = &commit.accepts { "accepted by " (name(&accepted.reviewer)) }
        @else { (commit.calls.len()) @if commit.calls.len() == 1 { " call" } @else { " calls" } }
    }
}

/// A commit: who made it, its diff, and a button that undoes it, or the files because of which it can't be
/// undone. Refuses an id that is unknown or the beginning of several.
pub async fn commit(console: &Arc<Console>, fields: Fields) -> Page {
    let id = fields.get("id").to_owned();
    let (workspace, view) = (Arc::clone(console.workspace()), View::named(fields.get("show")));
    let read = blocking(move || {
        let history = History::new(workspace);
        let ListedCommit { commit, undone_by } = history.listed(&id)?;
        let reverted = undone_by.as_ref().unwrap_or(&commit.id);
        Ok((history.diff(&commit.id)?, history.conflicts(reverted)?, commit, undone_by))
    });
    let (diff, conflicts, commit, undone_by) = match read.await {
        Ok(read) => read,
        Err(error) => return Page::failed("history", status(&error), error),
    };
    let whole = format!("cofferdam log --diff {} --format text", layout::line(&commit.id));
    let (other, other_name) = view.other();
    let other = address("commit", &[("id", &commit.id), ("show", other.name())]);
    let body = html! {
        (about(&commit))
        (undoing(console, &commit, undone_by.as_ref(), &conflicts))
        h2 { "Changes" }
        p class="row" {
            a href=(other) { (other_name) }
            a href=(address("range", &[("from", &commit.id)])) { "With all later commits" }
        }
        (diff::table("The changes of the commit", &diff, "", view, &whole))
    };
    Page::new("history", format!("Commit {}", short(&commit.id)), body)
}

/// What several commits in a row changed together. Names the files that are not kept any more.
pub async fn range(console: &Arc<Console>, fields: Fields) -> Page {
    let [from, to] = ["from", "to"].map(|field| fields.get(field).to_owned());
    let (workspace, view) = (Arc::clone(console.workspace()), View::named(fields.get("show")));
    let read = blocking(move || History::new(workspace).diff_range(&from, &to)).await;
    let RangeDiff { first, last, commits, diff, unreadable } = match read {
        Ok(read) => read,
        Err(error) => return Page::failed("history", status(&error), error),
    };
    let whole = format!("cofferdam log --diff {}..{} --format text", first.id, last.id);
    let (other, other_name) = view.other();
    let other = address("range", &[("from", &first.id), ("to", &last.id), ("show", other.name())]);
    let of_commit = |commit: &Commit| {
        html! {
            a href=(address("commit", &[("id", &commit.id)])) { code { (short(&commit.id)) } } " " (time(commit.time))
        }
    };
    let body = html! {
        (facts([
            ("first commit", Some(of_commit(&first))),
            ("last commit", Some(of_commit(&last))),
            ("commits", Some(html! { (commits) })),
        ]))
        p class="quiet" {
            "From the files before the first commit to the files after the last one, with what other programs "
            "changed of these files in between."
        }
        @if !unreadable.is_empty() { div class="warning" {
            p { strong { "Left out: " } "these files are not kept any more, or were changed where they are kept." }
            ul {
                @for path in unreadable.iter().take(MAX_NAMED) { li { (name(path)) } }
                @if unreadable.len() > MAX_NAMED { li { "and " (unreadable.len() - MAX_NAMED) " more" } }
            }
        } }
        @if diff.is_empty() { p class="quiet" { "Together they changed nothing." } }
        p class="row" { a href=(other) { (other_name) } }
        (diff::table("The changes of these commits", &diff, "", view, &whole))
    };
    Page::new("history", "What several commits changed", body)
}

fn about(commit: &Commit) -> Markup {
    let undoes = commit.undoes.as_ref().map(|id| {
        html! {
            a href=(address("commit", &[("id", id)])) { code { (short(id)) } }
        }
    });
    let calls = html! { @for (at, call) in commit.calls.iter().take(MAX_NAMED).enumerate() {
        @if at > 0 { ", " }
        a href=(address("call", &[("id", call)])) { code { (short(call)) } }
    } };
    facts([
        ("time (UTC)", Some(time(commit.time))),
        ("commit", Some(html! { code { (layout::line(&commit.id)) } })),
        ("undoes", undoes),
        ("accepted by", commit.accepts.as_ref().map(|accepted| name(&accepted.reviewer))),
        ("calls", (!commit.calls.is_empty()).then_some(calls)),
    ])
}

/// The form that undoes a commit, or that makes an undone one again by undoing its undo.
fn undoing(
    console: &Console,
    commit: &Commit,
    undone_by: Option<&CommitId>,
    conflicts: &[String],
) -> Markup {
    let (label, what) = match (undone_by, &commit.undoes) {
        (Some(_), _) => ("Redo this commit", "It is undone. A redo makes its changes again."),
        (None, Some(_)) => ("Undo this undo", "What was undone is made again."),
        (None, None) => (
            "Undo this commit",
            "What it changed becomes what it was before. An undo can be undone as well (redo).",
        ),
    };
    html! {
        @if conflicts.is_empty() {
            form method="post" action="undo" class="row" {
                (layout::token(console))
                input type="hidden" name="id" value=(undone_by.unwrap_or(&commit.id));
                button { (label) }
                span class="quiet" { (what) }
            }
        } @else {
            div class="warning" {
                p {
                    strong { @if undone_by.is_some() { "It is undone, and can't be redone now: " } @else { "It can't be undone now: " } }
                    "something was changed since."
                }
                ul {
                    @for conflict in conflicts.iter().take(MAX_NAMED) { li { (name(conflict)) } }
                    @if conflicts.len() > MAX_NAMED { li { "and " (conflicts.len() - MAX_NAMED) " more" } }
                }
            }
        }
    }
}

/// Undoes a commit, or redoes one by undoing its undo. Refuses it, with the page of the commit, if a file was
/// changed since.
pub async fn undo(console: &Arc<Console>, fields: Fields) -> Response {
    let Some(id) = fields.filled("id").map(str::to_owned) else {
        return Page::failed("history", StatusCode::BAD_REQUEST, "the form names no commit")
            .respond(console);
    };
    match console.reviewer.undo(Some(id)).await {
        Ok((undone, made)) => {
            console.say(match (made, &undone.undoes) {
                (None, _) => "There was nothing to change.".to_owned(),
                (_, None) => format!("The commit {} is undone.", short(&undone.id)),
                (_, Some(redone)) => format!("The commit {} is made again.", short(redone)),
            });
            redirect("history")
        }
        Err(DecideError::History(error)) => {
            commit(console, fields).await.alerting(status(&error), error).respond(console)
        }
        Err(error) => {
            Page::failed("history", StatusCode::INTERNAL_SERVER_ERROR, error).respond(console)
        }
    }
}

fn status(error: &HistoryError) -> StatusCode {
    match error {
        HistoryError::Unknown(_) | HistoryError::NothingToUndo => StatusCode::NOT_FOUND,
        HistoryError::Ambiguous(_) | HistoryError::NotAlone | HistoryError::Changed { .. } => {
            StatusCode::CONFLICT
        }
        HistoryError::Commit(_) | HistoryError::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
