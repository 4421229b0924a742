//! The frame of every page, and the parts that several pages have.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use crate::form::address;
use crate::state::Console;
use cofferdam_text::{escape_control, shorten};

/// The pages that the navigation leads to, with their titles.
const TABS: [(&str, &str); 6] = [
    ("inbox", "Inbox"),
    ("calls", "Under way"),
    ("history", "History"),
    ("journal", "Journal"),
    ("permissions", "Permissions"),
    ("figures", "Figures"),
];

/// How much of a name or another text of one line is shown, in bytes.
const MAX_LINE_BYTES: usize = 4 << 10;

/// A page below the navigation, before it is written as HTML.
pub struct Page {
    pub status: StatusCode,
    /// The page of the navigation that it belongs to.
    pub tab: &'static str,
    pub title: String,
    /// What was refused, or went wrong.
    pub alert: Option<String>,
    /// The parts whose changes it is reloaded for ([`crate::live`]), separated by spaces.
    pub reloads: &'static str,
    /// The parts whose changes are only reported, since the user may be deciding.
    pub reports: &'static str,
    pub body: Markup,
}

impl Page {
    /// A page without anything that changes.
    pub fn new(tab: &'static str, title: impl Into<String>, body: Markup) -> Self {
        Self {
            status: StatusCode::OK,
            tab,
            title: title.into(),
            alert: None,
            reloads: "",
            reports: "",
            body,
        }
    }

    /// A page that says why there is no other one.
    pub fn failed(tab: &'static str, status: StatusCode, why: impl ToString) -> Self {
        let body = html! { p { a href=(tab) { "Back" } } };
        Self { status, alert: Some(why.to_string()), ..Self::new(tab, "That did not work", body) }
    }

    /// The same page with what was refused.
    pub fn alerting(self, status: StatusCode, why: impl ToString) -> Self {
        Self { status, alert: Some(why.to_string()), ..self }
    }

    /// The whole response, with what was said for the next page.
    pub fn respond(self, console: &Console) -> Response {
        let said = console.said();
        self.saying(console, said)
    }

    /// The response for the script, which leaves what was said to the next whole page.
    pub fn respond_part(self, console: &Console) -> Response {
        self.saying(console, None)
    }

    fn saying(self, console: &Console, said: Option<String>) -> Response {
        let body = html! {
            body data-reloads=(self.reloads) data-reports=(self.reports) {
                a class="skip" href="#content" { "Skip to the content" }
                header {
                    p class="name" { "Cofferdam" }
                    nav aria-label="Pages" { ul { @for (page, title) in TABS {
                        li { a href=(page) aria-current=[(page == self.tab).then_some("page")] { (title) } }
                    } } }
                    p class="place" title="The workspace" { (line(console.workspace().name())) }
                }
                main id="content" tabindex="-1" {
                    h1 { (line(&self.title)) }
                    div id="news" role="status" {
                        @if let Some(said) = &said { p class="said" { (text(said)) } }
                    }
                    @if let Some(alert) = &self.alert {
                        div class="refused" role="alert" { (text(alert)) }
                    }
                    div id="live" { (self.body) }
                }
                dialog id="help" aria-labelledby="help-title" {
                    h2 id="help-title" { "Keys" }
                    dl { @for (key, what) in KEYS { div { dt { kbd { (key) } } dd { (what) } } } }
                    form method="dialog" { button { "Close" } }
                }
            }
        };
        let head = html! {
            link rel="icon" href="icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="console.css";
            script src="console.js" defer {}
        };
        html(self.status, document(&html! { (line(&self.title)) " · Cofferdam" }, &head, &body))
    }
}

/// The keys of the page of a proposal.
const KEYS: [(&str, &str); 9] = [
    ("j", "next hunk"),
    ("k", "previous hunk"),
    ("a", "mark to be accepted: this hunk, or the chosen ones"),
    ("r", "mark to be rejected: this hunk, or the chosen ones"),
    ("x", "choose this hunk, or not"),
    ("e", "edit this hunk"),
    ("v", "mark this file as reviewed, or not"),
    ("Enter", "decide what is marked"),
    ("?", "these keys"),
];

/// The page after the token was taken; it leads to the inbox.
pub fn entered() -> Markup {
    let head = html! {
        link rel="icon" href="icon.svg" type="image/svg+xml";
        meta http-equiv="refresh" content="0; url=inbox";
    };
    let body = html! {
        body { main { h1 { "Cofferdam" } p { a href="inbox" { "Open the console" } } } }
    };
    document(&html! { "Cofferdam" }, &head, &body)
}

/// The page that a link leads to. It is for every browser, and shows nothing of the workspace: its script leads
/// on to the console in the browser that has opened it.
pub fn link() -> Markup {
    let head = html! { script src="open.js" defer {} };
    let body = html! {
        body { main {
            h1 { "Cofferdam" }
            p {
                "This browser has not opened the console. Use the page in which it is open, or start "
                code { "cofferdam console" } " again."
            }
        } }
    };
    document(&html! { "Cofferdam" }, &head, &body)
}

/// A whole page; `head` is the rest of its head.
fn document(title: &Markup, head: &Markup, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                (head)
            }
            (body)
        }
    }
}

/// A response with HTML.
pub fn html(status: StatusCode, page: Markup) -> Response {
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.into_string())
        .into_response()
}

/// Leads to another page with a GET, so that reloading it repeats nothing.
pub fn redirect(to: &str) -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

/// The field that shows that a form is of this console.
pub fn token(console: &Console) -> Markup {
    html! { input type="hidden" name="csrf" value=(console.access.csrf()); }
}

/// Text of one line: control and invisible characters are shown as escapes.
pub fn line(text: &str) -> String {
    escape_control(&shorten(text, MAX_LINE_BYTES)).replace('\n', "\\n")
}

/// Text of several lines: control and invisible characters are shown as escapes.
pub fn text(text: &str) -> String {
    escape_control(text)
}

/// A name that is not ours, kept apart from the direction of the text around it.
pub fn name(name: &str) -> Markup {
    html! { bdi { (line(name)) } }
}

/// A time, with how long ago it was.
pub fn time(time: Timestamp) -> Markup {
    let shown = time.strftime("%Y-%m-%d %H:%M:%S");
    html! { time datetime=(time) title=(ago(time)) { (shown) } }
}

/// How long ago a time was.
pub fn ago(time: Timestamp) -> String {
    let seconds = Timestamp::now().as_second() - time.as_second();
    match seconds {
        ..1 => "now".to_owned(),
        1..120 => format!("{seconds} s ago"),
        120..7_200 => format!("{} min ago", seconds / 60),
        7_200..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// The beginning of an id that is long enough to name something.
pub fn short(id: &str) -> String {
    line(&id.chars().take(13).collect::<String>())
}

/// Names and values; those without a value are left out.
pub fn facts<'a>(facts: impl IntoIterator<Item = (&'a str, Option<Markup>)>) -> Markup {
    html! {
        dl class="facts" { @for (name, value) in facts { @if let Some(value) = value {
            div { dt { (name) } dd { (value) } }
        } } }
    }
}

/// A name that is not ours, if there is one.
pub fn maybe(value: Option<&String>) -> Option<Markup> {
    value.map(|value| name(value))
}

/// Links to the pages before and after this one of a list.
pub fn pager(page: &str, fields: &[(&str, &str)], (at, has_more): (usize, bool)) -> Markup {
    let link = |at: usize| {
        let at = at.to_string();
        address(page, &[fields, &[("page", at.as_str())]].concat())
    };
    html! {
        @if at > 0 || has_more {
            nav class="pager" aria-label="Parts of the list" {
                @if at > 0 { a rel="prev" href=(link(at - 1)) { "Newer" } }
                span { "Page " (at + 1) }
                @if has_more { a rel="next" href=(link(at + 1)) { "Older" } }
            }
        }
    }
}
