//! The journal: search, and one call with what belongs to it.

use std::sync::Arc;

use axum::http::StatusCode;
use maud::{Markup, html};
use serde_json::Value;

use crate::form::{Fields, address};
use crate::layout::{Page, facts, line, name, pager, short, text, time};
use crate::permissions::value;
use crate::state::Console;
use cofferdam_core::outcome::{HostCode, Status};
use cofferdam_engine::journal::{CommitRecord, DecisionRecord, Entry, Event, Record};
use cofferdam_engine::runtime::blocking;

/// How many entries a page has.
const PER_PAGE: usize = 50;

/// How many calls of a call, events and commits the page of a call shows.
const MAX_RELATED: usize = 500;

/// How many paths of a commit a line names.
const MAX_PATHS: usize = 3;

/// The length of a UUID, in bytes.
const UUID_BYTES: usize = 36;

/// The kinds of entries that can be selected.
const KINDS: [(&str, &str); 5] = [
    ("", "Everything"),
    ("calls", "Calls"),
    ("failed", "Calls that did not succeed"),
    ("decisions", "Decisions of users"),
    ("commits", "Commits"),
];

/// What the user looks for.
struct Search {
    /// In lower case; an entry has to contain each of them.
    words: Vec<String>,
    kind: String,
}

impl Search {
    fn of(fields: &Fields) -> Self {
        let words = fields.get("q").split_whitespace().map(str::to_lowercase).collect();
        Self { words, kind: fields.get("kind").to_owned() }
    }

    fn takes(&self, entry: &Entry) -> bool {
        let is_kind = match (self.kind.as_str(), entry) {
            ("calls", entry) => matches!(entry, Entry::Call(_)),
            ("failed", Entry::Call(record)) => record.outcome() != Status::Executed,
            ("decisions", Entry::Event(event)) => event.decision.is_some(),
            ("commits", Entry::Commit(_)) => true,
            ("failed" | "decisions" | "commits", _) => false,
            _ => true,
        };
        // Calls of calls are shown with their callers, unless something is looked for.
        let is_nested = matches!(entry, Entry::Call(record) if record.parent.is_some());
        is_kind
            && (!is_nested || !self.words.is_empty())
            && (self.words.is_empty() || {
                let hay = searched(entry).to_lowercase();
                self.words.iter().all(|word| hay.contains(word))
            })
    }
}

/// The text of an entry that is searched.
fn searched(entry: &Entry) -> String {
    let of_decision = |decision: &DecisionRecord| {
        let DecisionRecord { answer, approver, comment, client, session, role, proposal, .. } =
            decision;
        let rest =
            [comment, client, session, role, proposal].map(|text| text.as_deref().unwrap_or(""));
        format!("{answer} {approver} {}", rest.join(" "))
    };
    match entry {
        Entry::Call(record) => {
            let Record { code, client, session, role, agent, approver, proposal, commit, .. } =
                &**record;
            let rest = [code, client, session, role, agent, approver, proposal, commit]
                .map(|text| text.as_deref().unwrap_or(""));
            let outcome = record.outcome().as_str();
            format!("{} {} {outcome} {}", record.tool, record.call, rest.join(" "))
        }
        Entry::Commit(record) => {
            let paths: Vec<&str> =
                record.changes.iter().map(|change| change.path.as_str()).collect();
            format!("commit {} {} {}", record.commit, paths.join(" "), record.calls.join(" "))
        }
        Entry::Event(event) => {
            let decision = event.decision.as_deref().map(of_decision).unwrap_or_default();
            let tool = event.tool.as_deref().unwrap_or("");
            format!("{} {} {tool} {decision}", event.event, event.reason)
        }
        Entry::Health(health) => format!("health {}", health.verdict.as_str()),
    }
}

/// A page of the entries that contain all words and are of the chosen kind, the newest first.
pub async fn show(console: &Arc<Console>, fields: Fields) -> Page {
    let (search, at) = (Search::of(&fields), fields.number("page"));
    let journal = Arc::clone(console.reviewer.journal());
    let read = blocking(move || {
        journal.page(at.saturating_mul(PER_PAGE), PER_PAGE, |entry| search.takes(entry))
    });
    let (entries, has_more) = match read.await {
        Ok(page) => page,
        Err(error) => return Page::failed("journal", StatusCode::INTERNAL_SERVER_ERROR, error),
    };
    let (q, kind) = (fields.get("q"), fields.get("kind"));
    let body = html! {
        form method="get" action="journal" role="search" class="row" {
            label for="q" { "Search" }
            input id="q" name="q" type="search" value=(q) maxlength="500"
                placeholder="tool, session, client, role, outcome, code" size="40";
            label for="kind" { "Show" }
            select id="kind" name="kind" { @for (value, title) in KINDS {
                option value=(value) selected[value == kind] { (title) }
            } }
            button { "Search" }
        }
        @if entries.is_empty() { p class="quiet" { "Nothing is found." } } @else {
            (table("Entries, the newest first", &entries))
            (pager("journal", &[("q", q), ("kind", kind)], (at, has_more)))
        }
    };
    // Further pages would move while they are read.
    let reloads = if at == 0 { "journal" } else { "" };
    Page { reloads, ..Page::new("journal", "Journal", body) }
}

fn table(caption: &str, entries: &[Entry]) -> Markup {
    html! {
        section class="scroll" aria-label=(caption) tabindex="0" { table {
            caption { (caption) }
            thead { tr {
                th scope="col" { "Time (UTC)" } th scope="col" { "What" } th scope="col" { "Outcome" }
                th scope="col" class="number" { "ms" } th scope="col" { "Who" }
            } }
            tbody { @for entry in entries { @match entry {
                Entry::Call(record) => (call_row(record)),
                Entry::Commit(record) => (commit_row(record)),
                Entry::Event(event) => (event_row(event)),
                Entry::Health(health) => tr {
                    td { (time(health.timestamp)) } th scope="row" { "health check" }
                    td { (health.verdict.as_str()) } td class="number" { (milliseconds(health.latency_ms)) } td {}
                },
            } } }
        } }
    }
}

fn call_row(record: &Record) -> Markup {
    let outcome = record.outcome();
    html! { tr {
        td { (time(record.timestamp)) }
        th scope="row" {
            @if record.call.is_empty() { (name(&record.tool)) }
            @else { a href=(address("call", &[("id", &record.call)])) { (name(&record.tool)) } }
            @if record.dry_run { " " span class="tag" { "dry run" } }
            @if record.proposal.is_some() { " " span class="tag" { "held" } }
            @if record.parent.is_some() { " " span class="tag" { "by a call" } }
        }
        td {
            span class=(format!("tag {}", outcome.as_str())) { (outcome.as_str()) }
            @if let Some(code) = &record.code { " " (name(code)) }
        }
        td class="number" { (milliseconds(record.latency_ms)) }
        td { (who([&record.client, &record.role, &record.agent, &record.session])) }
    } }
}

fn commit_row(record: &CommitRecord) -> Markup {
    html! { tr {
        td { (time(record.timestamp)) }
        th scope="row" { a href=(address("commit", &[("id", &record.commit)])) { "commit " code { (short(&record.commit)) } } }
        td colspan="2" {
            @for change in record.changes.iter().take(MAX_PATHS) { (line(&change.change)) " " (name(&change.path)) " " }
            @if record.paths > MAX_PATHS { "and " (record.paths - MAX_PATHS) " more" }
            @if record.undoes.is_some() { " " span class="tag" { "undo" } }
        }
        td { @if let Some(approver) = &record.approver { "accepted by " (name(approver)) } }
    } }
}

fn event_row(event: &Event) -> Markup {
    html! { tr {
        td { (time(event.timestamp)) }
        th scope="row" {
            (name(&event.event))
            @if let Some(call) = &event.call { " " a href=(address("call", &[("id", call)])) { (name(event.tool.as_deref().unwrap_or("call"))) } }
        }
        td colspan="2" {
            (name(&event.reason))
            @if let Some(decision) = &event.decision {
                @if let Some(hunks) = decision.hunks { ": " (hunks) @if hunks == 1 { " hunk" } @else { " hunks" } }
                @if let Some(comment) = &decision.comment { ": " (name(comment)) }
            }
        }
        td { @if let Some(decision) = &event.decision {
            "by " (name(&decision.approver)) " "
            (who([&decision.client, &decision.role, &None, &decision.session]))
        } }
    } }
}

fn who(names: [&Option<String>; 4]) -> Markup {
    html! { @for (at, who) in names.into_iter().flatten().enumerate() {
        @if at > 0 { " · " }
        // The names of most sessions are long and say nothing.
        @if who.len() == UUID_BYTES && who.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit()) {
            code title=(who) { (short(who)) }
        } @else { (name(who)) }
    } }
}

fn milliseconds(latency: f64) -> String {
    format!("{latency:.1}")
}

/// What belongs to a call.
struct Related {
    record: Record,
    nested: Vec<Entry>,
    /// Events of the call, decisions about its proposal, and commits with its changes; the newest first.
    other: Vec<Entry>,
}

/// A call by its id: its record, the calls that it made, and the decisions, events and commits that name it.
pub async fn call(console: &Arc<Console>, fields: Fields) -> Page {
    let id = fields.get("id").to_owned();
    let journal = Arc::clone(console.reviewer.journal());
    let read = blocking(move || {
        let is_it = |entry: &Entry| matches!(entry, Entry::Call(record) if record.call == id);
        let (found, _) = journal.page(0, 1, is_it)?;
        let Some(Entry::Call(record)) = found.into_iter().next() else { return Ok(None) };
        let is_nested = |entry: &Entry| matches!(entry, Entry::Call(record) if record.parent.as_deref() == Some(&id));
        let is_other = |entry: &Entry| match entry {
            Entry::Event(event) => {
                let proposal =
                    event.decision.as_ref().and_then(|decision| decision.proposal.as_ref());
                event.call.as_deref() == Some(&id)
                    || (proposal.is_some() && proposal == record.proposal.as_ref())
            }
            Entry::Commit(commit) => commit.calls.contains(&id),
            Entry::Call(_) | Entry::Health(_) => false,
        };
        let nested = Vec::from(journal.latest(MAX_RELATED, is_nested)?.0);
        let (other, _) = journal.page(0, MAX_RELATED, is_other)?;
        Ok::<_, std::io::Error>(Some(Related { record: *record, nested, other }))
    });
    match read.await {
        Err(error) => Page::failed("journal", StatusCode::INTERNAL_SERVER_ERROR, error),
        Ok(None) => Page::failed(
            "journal",
            StatusCode::NOT_FOUND,
            "There is no such call in the journal. It may still run, or its line was rotated away.",
        ),
        Ok(Some(related)) => Page::new(
            "journal",
            format!("Call of {}", line(&related.record.tool)),
            of_call(&related),
        ),
    }
}

/// Why a call did not succeed, if its code is one of the host's, with what its role and its plugin may do.
fn why(record: &Record) -> Markup {
    let code = record.code.as_deref().and_then(|code| {
        let mut all = HostCode::ALL.iter().copied().flatten();
        all.find(|known| known.as_str() == code)
    });
    let Some(code) = code else { return html! {} };
    html! {
        h2 { "Why" }
        p { code { (code.as_str()) } ": " (code.meaning()) " " (code.remedy()) }
        @if matches!(code, HostCode::Denied(_)) {
            p {
                "What is allowed now: " a href="permissions#roles" { "roles" }
                @if let Some(plugin) = record.plugin() {
                    ", " a href=(format!("permissions#plugin-{plugin}")) { "the plugin " (name(plugin)) }
                }
            }
        }
    }
}

fn of_call(Related { record, nested, other }: &Related) -> Markup {
    let fields = serde_json::to_value(record).unwrap_or(Value::Null);
    let link = |page: &str, id: &String| {
        html! {
            a href=(address(page, &[("id", id)])) { code { (short(id)) } }
        }
    };
    let shown = |name: &str, of: &Value| match (name, of.as_str()) {
        ("parent", Some(id)) => link("call", &id.to_owned()),
        ("commit", Some(id)) => link("commit", &id.to_owned()),
        ("proposal", Some(id)) => link("proposal", &id.to_owned()),
        _ => value(of),
    };
    let decisions = other.iter().filter_map(|entry| match entry {
        Entry::Event(Event { decision: Some(decision), .. }) => Some(decision),
        _ => None,
    });
    html! {
        (facts(fields.as_object().into_iter().flatten().map(|(name, of)| (name.as_str(), Some(shown(name, of))))))
        (why(record))
        @if !nested.is_empty() { h2 { "Calls that it made" } (table("The first is the oldest", nested)) }
        @if !other.is_empty() { h2 { "Decisions, events and commits" } (table("The newest first", other)) }
        @for decision in decisions {
            @if !decision.shown.is_empty() {
                h3 { "What was shown: " (name(&decision.answer)) ", by " (name(&decision.approver)) }
                pre class="asked" { (text(&decision.shown)) }
            }
        }
    }
}
