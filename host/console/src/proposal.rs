//! A proposal by file and hunk, and deciding about it.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};

use crate::diff::{self, View};
use crate::form::{Fields, address};
use crate::inbox::of_author;
use crate::layout::{self, Page, name, redirect};
use crate::state::{Console, REVIEWER};
use cofferdam_core::policy::executed_by;
use cofferdam_engine::review::DecideError;
use cofferdam_engine::runtime::blocking;
use cofferdam_workspace::{
    Chosen, CommitError, Decided, Decision, FileReview, HunkReview, Review, ReviewError, Reviews,
    Verdict,
};

/// How many hunks a page has.
const MAX_HUNKS: usize = 1_000;

/// How many hunks have their lines at once. Those of the others are in `noscript`: for a browser without
/// scripts, they are the same, and for others they are a text that the script makes a table of when it is near. A
/// browser takes a third of a second to read a thousand tables.
const MAX_AT_ONCE: usize = 40;

/// About how large a page is, but for the last hunk, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// How many files the list names.
const MAX_FILES: usize = 500;

/// What the buttons say that mark a file as reviewed, and take the mark away.
const MARK: &str = "Mark as reviewed";
const UNMARK: &str = "Not reviewed";

/// What the user has asked to see.
struct Wanted {
    id: String,
    view: View,
    /// The first hunk of the page.
    from: usize,
    /// The comment of a decision that was refused.
    comment: String,
}

impl Wanted {
    fn of(fields: &Fields) -> Self {
        Self {
            id: fields.get("id").to_owned(),
            view: View::named(fields.get("show")),
            from: fields.number("from"),
            comment: fields.get("comment").to_owned(),
        }
    }

    fn address(&self, view: View, from: usize) -> String {
        let from = if from > 0 { from.to_string() } else { String::new() };
        let view = if view == View::Side { view.name() } else { "" };
        address("proposal", &[("id", &self.id), ("show", view), ("from", &from)])
    }
}

/// The hunks of one page, by file.
struct Part<'a> {
    /// Each file with its hunks, and the number of each hunk among all.
    files: Vec<(&'a FileReview, Vec<(usize, &'a HunkReview)>)>,
    /// The first hunk of the next page.
    next: Option<usize>,
    /// The number of all hunks.
    count: usize,
}

impl<'a> Part<'a> {
    fn new(review: &'a Review, from: usize) -> Self {
        let count = review.files.iter().map(|file| file.hunks.len()).sum();
        let mut part = Self { files: Vec::new(), next: None, count };
        let (mut at, mut hunks, mut bytes) = (0, 0, 0);
        for file in &review.files {
            let mut shown = Vec::new();
            for hunk in &file.hunks {
                if at >= from && part.next.is_none() {
                    if hunks >= MAX_HUNKS || bytes >= MAX_BYTES {
                        part.next = Some(at);
                    } else {
                        shown.push((at + 1, hunk));
                        hunks += 1;
                        bytes += diff::size(&hunk.text);
                    }
                }
                at += 1;
            }
            if !shown.is_empty() {
                part.files.push((file, shown));
            }
        }
        part
    }
}

/// A proposal as it compares with the workspace now: files, then hunks, at most [`MAX_HUNKS`] from the first
/// one that is wanted. Refuses an id that is unknown or the beginning of several.
pub async fn show(console: &Arc<Console>, fields: Fields) -> Page {
    of(console, Wanted::of(&fields)).await
}

async fn read(console: &Arc<Console>, id: &str) -> Result<Review, ReviewError> {
    let (reviews, id) = (Reviews::new(Arc::clone(console.workspace())), id.to_owned());
    blocking(move || reviews.show(&id)).await
}

async fn of(console: &Arc<Console>, wanted: Wanted) -> Page {
    let review = match read(console, &wanted.id).await {
        Ok(review) => review,
        Err(error) => return Page::failed("inbox", status(&error), error),
    };
    let title = format!("Held changes of the session {}", review.proposal.author.session);
    let part = Part::new(&review, wanted.from);
    let (other, other_name) = wanted.view.other();
    let body = html! {
        (of_author(&review.proposal))
        p class="row" {
            span id="progress" data-files=(review.proposal.files) data-reviewed=(review.proposal.reviewed.len()) {
                (review.proposal.progress())
            }
            a href=(wanted.address(other, wanted.from)) { (other_name) }
            button type="button" class="help" hidden { "Keys" }
            @if part.count == 0 { span { "The workspace has all of this already." } }
        }
        (files(&review, &part, &wanted))
        form id="decide" method="post" action="decide" {
            button id="submit-marked" name="do" value="marked" disabled hidden { "Decide what is marked" }
            (layout::token(console))
            input type="hidden" name="id" value=(review.proposal.id);
            input type="hidden" name="view" value=(review.view);
            input type="hidden" name="show" value=(wanted.view.name());
            input type="hidden" name="from" value=(wanted.from);
            @for (file, hunks) in &part.files { (of_file(file, hunks, &review, &wanted)) }
            (page_links(&part, &wanted))
            (actions(&part, &wanted))
        }
    };
    Page { reports: "proposals history", ..Page::new("inbox", title, body) }
}

/// The list of files, with links to those on this page.
fn files(review: &Review, part: &Part<'_>, wanted: &Wanted) -> Markup {
    let is_here = |file: &FileReview| part.files.iter().any(|(here, _)| here.path == file.path);
    // The number of the first hunk of each file, counted from 0.
    let firsts = review.files.iter().scan(0, |next, file| {
        *next += file.hunks.len();
        Some(*next - file.hunks.len())
    });
    html! {
        nav aria-label="Files" class="files" {
            ul { @for (file, from) in review.files.iter().zip(firsts).take(MAX_FILES) {
                li {
                    span class=(format!("tag {}", file.change)) { (file.change) } " "
                    @match file.hunks.first() {
                        None => (name(&file.path)),
                        Some(hunk) if is_here(file) => a href=(format!("#h-{}", hunk.id)) { (name(&file.path)) },
                        Some(_) => a href=(wanted.address(wanted.view, from)) { (name(&file.path)) },
                    }
                    @if file.collides { " " strong class="tag collides" { "COLLIDES" } }
                    @if executed_by(&file.path).is_some() { " " strong class="tag attention" { "ATTENTION" } }
                    " " span class="tag reviewed" hidden[!file.is_reviewed] { "reviewed" }
                }
            } }
            @if review.files.len() > MAX_FILES {
                p class="cut" { (review.files.len() - MAX_FILES) " more files are not named here; their hunks are below." }
            }
        }
    }
}

fn of_file(
    file: &FileReview,
    hunks: &[(usize, &HunkReview)],
    review: &Review,
    wanted: &Wanted,
) -> Markup {
    let first = hunks.first().map_or(0, |(number, _)| *number);
    html! {
        section class="file" aria-labelledby=(format!("f-{first}")) {
            div class="bar" {
                h2 id=(format!("f-{first}")) {
                    span class=(format!("tag {}", file.change)) { (file.change) } " " (name(&file.path))
                }
                @if !file.collides { button name="accept-file" value=(file.path) { "Accept file" } }
                button name="reject-file" value=(file.path) { "Reject file" }
                @let (name, label) = if file.is_reviewed { ("unreviewed", UNMARK) } else { ("reviewed", MARK) };
                button class="review" formaction="mark" name=(name) value=(file.path) data-other=(if file.is_reviewed { MARK } else { UNMARK }) { (label) }
            }
            @if file.collides { p class="warning" {
                strong { "COLLIDES: " } "the workspace has other changes in the same place. These hunks can only be rejected."
            } }
            @if let Some(by) = executed_by(&file.path) { p class="warning" {
                strong { "ATTENTION: " } "a file that " (layout::line(by)) "."
            } }
            details open[!file.is_reviewed] {
                summary { (self::hunks(hunks.len())) }
                @for (number, hunk) in hunks { (of_hunk(file, (*number, hunk), review, wanted)) }
            }
        }
    }
}

fn of_hunk(
    file: &FileReview,
    (number, hunk): (usize, &HunkReview),
    review: &Review,
    wanted: &Wanted,
) -> Markup {
    let label = format!("Hunk {number}");
    let edit = [
        ("id", &*review.proposal.id),
        ("hunk", hunk.id.as_str()),
        ("view", review.view.as_str()),
        ("show", wanted.view.name()),
    ];
    let whole = format!(
        "cofferdam review show {} --hunk {} --format text",
        layout::line(&review.proposal.id),
        hunk.id
    );
    html! {
        div class="hunk" id=(format!("h-{}", hunk.id)) role="group" aria-label=(label) tabindex="-1"
            data-hunk=(hunk.id) data-collides[file.collides] {
            div class="bar" {
                label { input type="checkbox" name="hunk" value=(hunk.id); " " (label) }
                span class="mark" {}
                @if editable(&hunk.text).is_some() && !file.collides {
                    a class="edit" href=(address("edit", &edit)) aria-label=(format!("Edit hunk {number}")) { "Edit" }
                }
                @if !file.collides {
                    button name="accept-one" value=(hunk.id) aria-label=(format!("Accept hunk {number}")) { "Accept" }
                }
                button name="reject-one" value=(hunk.id) aria-label=(format!("Reject hunk {number}")) { "Reject" }
            }
            @let lines = diff::table(&format!("The lines of hunk {number}"), &hunk.text, &file.path, wanted.view, &whole);
            @if number < wanted.from.saturating_add(MAX_AT_ONCE) { (lines) } @else { noscript { (lines) } }
        }
    }
}

fn page_links(part: &Part<'_>, wanted: &Wanted) -> Markup {
    html! {
        @if wanted.from > 0 || part.next.is_some() {
            nav class="pager" aria-label="Parts of the proposal" {
                @if wanted.from > 0 { a href=(wanted.address(wanted.view, 0)) { "First part" } }
                span { "Not all of its " (hunks(part.count)) " are on this page." }
                @if let Some(next) = part.next { a rel="next" href=(wanted.address(wanted.view, next)) { "Next part" } }
            }
        }
    }
}

fn actions(part: &Part<'_>, wanted: &Wanted) -> Markup {
    html! {
        @if part.count > 0 { div class="actions" role="group" aria-label="Decision" {
            p class="counts" { (hunks(part.count)) }
            label for="comment" { "Comment for the agent" }
            textarea id="comment" name="comment" rows="1" maxlength="10000" { (wanted.comment) }
            button name="do" value="accept-chosen" class="accept" { "Accept chosen" }
            button name="do" value="reject-chosen" class="reject" { "Reject chosen" }
            button name="do" value="accept-all" { "Accept all " (part.count) }
            button name="do" value="reject-all" { "Reject all " (part.count) }
        } }
    }
}

/// How the text of a hunk can be edited.
struct Editable {
    /// The lines without the header, each with a line feed.
    lines: String,
    /// Whether the file's own lines end with a carriage return as well.
    has_returns: bool,
}

/// A hunk whose every byte a text field shows and returns. Others are edited with the command.
fn editable(hunk: &[u8]) -> Option<Editable> {
    let text = std::str::from_utf8(hunk).ok()?;
    let (header, lines) = text.split_once('\n')?;
    let of_file = || lines.split_inclusive('\n').filter(|line| !line.starts_with('\\'));
    let has_returns = of_file().all(|line| line.ends_with("\r\n"));
    let lines = if has_returns { lines.replace("\r\n", "\n") } else { lines.to_owned() };
    let is_plain = layout::text(&lines) == lines && lines.lines().count() <= diff::MAX_LINES;
    (header.starts_with("@@ ") && is_plain && lines.ends_with('\n'))
        .then_some(Editable { lines, has_returns })
}

/// The text of a hunk as the user has edited it: a text field has its own line ends.
fn edited(text: &str, has_returns: bool) -> Vec<u8> {
    let mut text = text.replace("\r\n", "\n");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(of_file) if has_returns && !line.starts_with('\\') => format!("{of_file}\r\n"),
        _ => line.to_owned(),
    });
    lines.collect::<String>().into_bytes()
}

/// The page on which a hunk is edited. For one that is gone, or whose characters a text field would change,
/// the page of the proposal with the reason.
pub async fn edit(console: &Arc<Console>, fields: Fields) -> Page {
    editing(console, &fields, None).await
}

/// The page on which a hunk is edited, with what was refused.
async fn editing(console: &Arc<Console>, fields: &Fields, typed: Option<&str>) -> Page {
    let review = match read(console, fields.get("id")).await {
        Ok(review) => review,
        Err(error) => return Page::failed("inbox", status(&error), error),
    };
    let mut hunks = review.files.iter().flat_map(|file| &file.hunks);
    let hunk = hunks.find(|hunk| hunk.id == fields.get("hunk"));
    let Some((hunk, found)) = hunk.and_then(|hunk| Some((hunk, editable(&hunk.text)?))) else {
        let page = of(console, Wanted::of(fields)).await;
        let why =
            "The hunk has changed, or can only be edited with `cofferdam review accept --edit`.";
        return page.alerting(StatusCode::CONFLICT, why);
    };
    let rows = found.lines.lines().count().clamp(6, 40);
    let back = Wanted::of(fields);
    let text = typed.unwrap_or(&found.lines);
    let body = html! {
        p class="quiet" {
            "Each line begins with a space (unchanged), " code { "-" } " (removed) or " code { "+" }
            " (added). Change the added lines; the others have to stay."
        }
        form method="post" action="decide" class="edit" {
            (layout::token(console))
            input type="hidden" name="id" value=(review.proposal.id);
            // What the user has seen when they began to edit.
            input type="hidden" name="view" value=(fields.filled("view").unwrap_or(&review.view));
            input type="hidden" name="show" value=(back.view.name());
            input type="hidden" name="hunk" value=(hunk.id);
            label for="text" { "Lines of the hunk" }
            textarea id="text" name="text" rows=(rows) spellcheck="false" autocomplete="off" wrap="off" { "\n" (text) }
            label for="comment" { "Comment for the agent" }
            textarea id="comment" name="comment" rows="2" maxlength="10000" { (fields.get("comment")) }
            p class="row" {
                button name="do" value="edit" class="accept" { "Accept as edited" }
                a href=(back.address(back.view, 0)) { "Back" }
            }
        }
    };
    Page::new("inbox", "Edit a hunk", body)
}

/// Carries out the decision of a form about hunks, files or all. If nothing is decided (another view, hunks that
/// collide, an edit that does not fit), shows the page as it is now with the reason and the user's comment.
pub async fn decide(console: &Arc<Console>, fields: Fields) -> Response {
    let wanted = Wanted::of(&fields);
    let decision = match decision(console, &fields).await {
        Ok(decision) => decision,
        Err(why) => {
            let page = of(console, wanted).await;
            return page.alerting(StatusCode::UNPROCESSABLE_ENTITY, why).respond(console);
        }
    };
    match console.reviewer.decide(decision).await {
        Ok(decided) => {
            console.say(outcome(&decided));
            let next = wanted.address(wanted.view, 0);
            redirect(if decided.revision.is_some() { &next } else { "inbox" })
        }
        Err(DecideError::Review(error @ ReviewError::Edited { .. })) => {
            let page = editing(console, &fields, Some(fields.get("text"))).await;
            page.alerting(status(&error), error).respond(console)
        }
        Err(DecideError::Review(error)) => refused(console, wanted, &error).await,
        Err(error) => {
            let page = of(console, wanted).await;
            page.alerting(StatusCode::INTERNAL_SERVER_ERROR, error).respond(console)
        }
    }
}

/// Marks a file as reviewed, or takes the mark away, and leads back to the file.
pub async fn mark(console: &Arc<Console>, fields: Fields) -> Response {
    let wanted = Wanted::of(&fields);
    let is_reviewed = fields.filled("reviewed").is_some();
    let path = fields.get(if is_reviewed { "reviewed" } else { "unreviewed" }).to_owned();
    let (view, paths) = (fields.get("view").to_owned(), [path.clone()]);
    let (reviews, id) = (Reviews::new(Arc::clone(console.workspace())), wanted.id.clone());
    match blocking(move || reviews.mark(&id, &view, &paths, is_reviewed)).await {
        Ok(review) => {
            let before = review.files.iter().take_while(|file| file.path != path);
            let first = before.map(|file| file.hunks.len()).sum::<usize>().max(wanted.from) + 1;
            redirect(&format!("{}#f-{first}", wanted.address(wanted.view, wanted.from)))
        }
        Err(error) => refused(console, wanted, &error).await,
    }
}

/// The page as it is now, with why nothing was done.
async fn refused(console: &Arc<Console>, wanted: Wanted, error: &ReviewError) -> Response {
    let why = match error {
        ReviewError::Stale { .. } => {
            "Nothing was decided: the proposal or the workspace has changed since \
                                      you have looked. This is how it is now."
                .to_owned()
        }
        error => format!("Nothing was decided: {error}"),
    };
    of(console, wanted).await.alerting(status(error), why).respond(console)
}

/// Reads what the user has decided.
///
/// # Errors
/// The form has no decision, or it is about nothing.
async fn decision(console: &Arc<Console>, fields: &Fields) -> Result<Decision, String> {
    let all = |name: &str, verdict: Verdict| -> Vec<Chosen> {
        let ids = fields.all(name).map(str::to_owned);
        ids.map(|id| Chosen { id, verdict, edited: None }).collect()
    };
    let (accept, reject) = (Verdict::Accept, Verdict::Reject);
    let mut verdict = accept;
    let chosen = match fields.get("do") {
        "accept-all" => None,
        "reject-all" => {
            verdict = reject;
            None
        }
        "accept-chosen" => Some(all("hunk", accept)),
        "reject-chosen" => Some(all("hunk", reject)),
        "marked" => Some([all("accept", accept), all("reject", reject)].concat()),
        "edit" => Some(vec![edit_of(console, fields).await?]),
        _ => Some(
            [
                all("accept-one", accept),
                all("reject-one", reject),
                of_files(console, fields, ("accept-file", accept)).await?,
                of_files(console, fields, ("reject-file", reject)).await?,
            ]
            .concat(),
        ),
    };
    if chosen.as_ref().is_some_and(Vec::is_empty) {
        return Err("Nothing was decided: choose hunks first.".to_owned());
    }
    Ok(Decision {
        proposal: fields.get("id").to_owned(),
        // Without what was seen, a decision is never carried out, not even one about hunks.
        view: Some(fields.get("view").to_owned()),
        chosen,
        verdict,
        comment: fields.filled("comment").map(|comment| comment.replace("\r\n", "\n")),
        reviewer: REVIEWER.to_owned(),
    })
}

async fn edit_of(console: &Arc<Console>, fields: &Fields) -> Result<Chosen, String> {
    let review = read(console, fields.get("id")).await.map_err(|error| error.to_string())?;
    let id = fields.get("hunk").to_owned();
    let hunk = review.files.iter().flat_map(|file| &file.hunks).find(|hunk| hunk.id == id);
    // The decision refuses an unknown one.
    let has_returns =
        hunk.and_then(|hunk| editable(&hunk.text)).is_some_and(|found| found.has_returns);
    let text = edited(fields.get("text"), has_returns);
    Ok(Chosen { id, verdict: Verdict::Accept, edited: Some(text) })
}

async fn of_files(
    console: &Arc<Console>,
    fields: &Fields,
    (name, verdict): (&str, Verdict),
) -> Result<Vec<Chosen>, String> {
    let Some(path) = fields.all(name).next() else { return Ok(Vec::new()) };
    let review = read(console, fields.get("id")).await.map_err(|error| error.to_string())?;
    let hunks = review.files.iter().filter(|file| file.path == path).flat_map(|file| &file.hunks);
    Ok(hunks.map(|hunk| Chosen { id: hunk.id.clone(), verdict, edited: None }).collect())
}

fn hunks(count: usize) -> String {
    if count == 1 { "1 hunk".to_owned() } else { format!("{count} hunks") }
}

/// What a decision has done, for the user.
pub fn outcome(decided: &Decided) -> String {
    let counts = [("accepted", decided.accepted), ("rejected", decided.rejected)];
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let mut said: Vec<String> =
        counts.map(|(word, count)| format!("{} {word}", hunks(*count))).collect();
    said.extend(decided.executed.iter().map(|file| format!("wrote {file}")));
    if decided.revision.is_none() {
        said.push("nothing is left of the proposal".to_owned());
    }
    format!("{}.", said.join("; "))
}

fn status(error: &ReviewError) -> StatusCode {
    match error {
        ReviewError::Unknown(_) => StatusCode::NOT_FOUND,
        ReviewError::Stale { .. }
        | ReviewError::Collides(_)
        | ReviewError::UnknownHunks { .. }
        | ReviewError::Commit(CommitError::Conflict(_)) => StatusCode::CONFLICT,
        ReviewError::Ambiguous(_) | ReviewError::Unseen(_) | ReviewError::Edited { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        ReviewError::Commit(_) | ReviewError::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_a_text_field_returns_has_the_bytes_of_the_hunk() {
        for hunk in [
            "@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
            "@@ -1,2 +1,2 @@\r\n",
            "@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n",
            "@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n",
        ] {
            let Some(found) = editable(hunk.as_bytes()) else {
                assert!(hunk.ends_with("@@\r\n"), "{hunk:?}");
                continue;
            };
            let typed = found.lines.replace('\n', "\r\n");
            let lines = hunk.split_once('\n').unwrap().1.as_bytes();
            assert_eq!(edited(&typed, found.has_returns), lines, "{hunk:?}");
            assert_eq!(edited(typed.trim_end(), found.has_returns), lines, "{hunk:?}");
        }
        for hunk in [
            &b"old mode 100644\nnew mode 100755\n"[..],
            b"@@ -1 +1 @@\n-a\xff\n+b\n",
            b"@@ -1 +1 @@\n-a\r\n+b\n",
            "@@ -1 +1 @@\n-a\n+\u{202e}b\n".as_bytes(),
            b"@@ -1 +1 @@\n-a\r\n+b\n\\ No newline at end of file\n",
        ] {
            assert!(editable(hunk).is_none(), "{hunk:?}");
        }
    }
}
