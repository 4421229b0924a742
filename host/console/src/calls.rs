//! Calls under way, by session, with a button that cancels each; and the sessions of the latest calls.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use jiff::Timestamp;
use maud::{Markup, html};

use crate::form::{Fields, address};
use crate::layout::{self, Page, ago, facts, line, maybe, name, redirect, short, text, time};
use crate::state::{Console, NAME};
use cofferdam_engine::journal::Entry;
use cofferdam_engine::runtime::blocking;
use cofferdam_workspace::{CallProgress, RunningCall};

/// How many calls under way are shown.
const MAX_CALLS: usize = 200;

/// How many of the latest calls on record are looked at for their sessions.
const LATEST_CALLS: usize = 200;

/// A session of the latest calls.
struct RecentSession {
    client: Option<String>,
    role: Option<String>,
    calls: usize,
    latest: Timestamp,
}

/// The calls under way and the latest sessions. What killed processes have left is not shown.
pub async fn show(console: &Arc<Console>, _: Fields) -> Page {
    let reading = Arc::clone(console);
    let read = blocking(move || {
        let calls = reading.workspace().running_calls()?;
        let is_call = |entry: &Entry| matches!(entry, Entry::Call(call) if call.parent.is_none());
        let (latest, _) = reading.reviewer.journal().page(0, LATEST_CALLS, is_call)?;
        Ok::<_, io::Error>((calls, latest))
    });
    match read.await {
        Err(error) => Page::failed("calls", StatusCode::INTERNAL_SERVER_ERROR, error),
        Ok((calls, latest)) => {
            let body = html! {
                @if calls.is_empty() {
                    p class="quiet" { "No call is under way that has taken longer than a moment." }
                } @else {
                    @for (session, calls) in by_session(&calls) { (of_session(console, session, &calls)) }
                }
                @if calls.len() > MAX_CALLS {
                    p class="cut" { (calls.len() - MAX_CALLS) " more calls are under way." }
                }
                (recent(&latest))
            };
            Page { reloads: "calls journal", ..Page::new("calls", "Calls under way", body) }
        }
    }
}

type CallsOfSession<'a> = Vec<&'a (String, RunningCall)>;

fn by_session(calls: &[(String, RunningCall)]) -> BTreeMap<&str, CallsOfSession<'_>> {
    let mut sessions = BTreeMap::<&str, CallsOfSession<'_>>::new();
    for call in calls.iter().take(MAX_CALLS) {
        sessions.entry(&call.1.session).or_default().push(call);
    }
    sessions
}

fn of_session(console: &Console, session: &str, calls: &CallsOfSession<'_>) -> Markup {
    let first = calls.first().map(|(_, call)| call);
    html! {
        article class="card" {
            h2 { "Session " (name(session)) }
            @if let Some(call) = first {
                (facts([("client", maybe(call.client.as_ref())), ("role", maybe(call.role.as_ref()))]))
            }
            section class="scroll" aria-label=(format!("Calls of the session {}", line(session))) tabindex="0" { table {
                caption { "Calls under way" }
                thead { tr {
                    th scope="col" { "Tool" } th scope="col" { "Begun (UTC)" } th scope="col" { "Progress" } th scope="col" { "Cancel" }
                } }
                tbody { @for (id, call) in calls { (row(console, id, call)) } }
            } }
        }
    }
}

fn row(console: &Console, id: &str, call: &RunningCall) -> Markup {
    html! { tr {
        th scope="row" { (name(&call.tool)) " " code class="quiet" { (short(id)) } }
        td { (time(call.since)) " " small { (ago(call.since)) } }
        td { @match &call.progress {
            Some(progress) => (of_progress(&call.tool, progress)),
            None if call.has_started => span class="quiet" { "runs" },
            None => span class="quiet" { "waits for you or for its turn" },
        } }
        td { form method="post" action="cancel" {
            (layout::token(console))
            input type="hidden" name="call" value=(id);
            button class="reject" aria-label=(format!("Cancel the call {} of {}", short(id), line(&call.tool))) { "Cancel" }
        } }
    } }
}

fn of_progress(tool: &str, CallProgress { done, total, message }: &CallProgress) -> Markup {
    html! {
        @match total {
            Some(total) => {
                progress value=(done) max=(total) aria-label=(format!("Progress of {}", line(tool))) {}
                " " (done) " of " (total)
            }
            None => (done),
        }
        @if !message.is_empty() { " " bdi { (text(message)) } }
    }
}

/// The sessions of the latest calls on record, the latest first.
fn recent(latest: &[Entry]) -> Markup {
    let mut sessions: Vec<(&str, RecentSession)> = Vec::new();
    for entry in latest {
        let Entry::Call(call) = entry else { continue };
        let Some(session) = call.session.as_deref() else { continue };
        match sessions.iter_mut().find(|(name, _)| *name == session) {
            Some((_, found)) => found.calls += 1,
            None => {
                let (client, role) = (call.client.clone(), call.role.clone());
                let found = RecentSession { client, role, calls: 1, latest: call.timestamp };
                sessions.push((session, found));
            }
        }
    }
    html! {
        h2 { "Sessions" }
        @if sessions.is_empty() { p class="quiet" { "No call is on record." } } @else {
            section class="scroll" aria-label="Sessions" tabindex="0" { table {
                caption { "The sessions of the latest " (latest.len()) " calls" }
                thead { tr {
                    th scope="col" { "Session" } th scope="col" { "Client" } th scope="col" { "Role" }
                    th scope="col" class="number" { "Calls" } th scope="col" { "Latest call (UTC)" }
                } }
                tbody { @for (session, RecentSession { client, role, calls, latest }) in &sessions { tr {
                    th scope="row" { a href=(address("journal", &[("q", session)])) { (name(session)) } }
                    td { @if let Some(client) = client { (name(client)) } }
                    td { @if let Some(role) = role { (name(role)) } }
                    td class="number" { (calls) }
                    td { (time(*latest)) }
                } } }
            } }
        }
    }
}

/// Asks the process that makes a call to cancel it. A call that has changed the workspace already ends as it
/// would have.
pub async fn cancel(console: &Arc<Console>, fields: Fields) -> Response {
    let (workspace, id) = (Arc::clone(console.workspace()), fields.get("call").to_owned());
    match blocking(move || workspace.cancel_call(&id, NAME)).await {
        Ok(true) => console.say("The call is asked to end."),
        Ok(false) => console.say("The call is not under way any more."),
        Err(error) => {
            return Page::failed("calls", StatusCode::INTERNAL_SERVER_ERROR, error)
                .respond(console);
        }
    }
    redirect("calls")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_progress_is_inert() {
        let message = "<script>alert(1)</script>\u{202e}\u{1b}[2J\u{200b}".to_owned();
        for total in [None, Some(3)] {
            let progress = CallProgress { done: 1, total, message: message.clone() };
            let shown = of_progress("\"><img src=x>\u{202e}", &progress).into_string();
            assert!(
                shown.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}\\u{1b}"),
                "{shown}"
            );
            for hostile in ["<script", "<img", "\u{202e}", "\u{1b}", "\u{200b}"] {
                assert!(!shown.contains(hostile), "{hostile:?}: {shown}");
            }
        }
    }
}
