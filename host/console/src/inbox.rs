//! What waits for the user: questions of calls, and open proposals.

use std::io;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::form::{Fields, address};
use crate::layout::{self, Page, ago, facts, maybe, name, redirect, short, text};
use crate::state::Console;
use cofferdam_core::form::{Field, Form, FormAnswer, Input};
use cofferdam_core::policy::CallPattern;
use cofferdam_engine::runtime::blocking;
use cofferdam_workspace::{
    AskedForm, ListedProposal, Question, QuestionAnswer, ReviewError, Reviews,
};

/// How many paths of a proposal the list names.
const MAX_PATHS: usize = 8;

/// The field of a proposal that is chosen, with the revision that the page shows.
pub const CHOSEN: &str = "chosen";

/// How many questions, and how many proposals, are shown.
pub const MAX_SHOWN: usize = 100;

/// The message about a question that was withdrawn.
const GONE: &str = "The call does not wait for an answer any more.";

type Questions = Option<Vec<(String, Question)>>;

/// The open questions of calls, unless another process answers them, and the open proposals: at most
/// [`MAX_SHOWN`] of each.
pub async fn show(console: &Arc<Console>, _: Fields) -> Page {
    let reading = Arc::clone(console);
    let read = blocking(move || {
        let listener = reading.listener()?;
        let mut questions: Questions = listener.map(|listener| listener.questions()).transpose()?;
        if let Some(questions) = &mut questions {
            questions.sort_by(|a, b| a.0.cmp(&b.0));
        }
        let proposals = Reviews::new(Arc::clone(reading.workspace())).list()?;
        Ok::<_, ReviewError>((questions, proposals))
    });
    match read.await {
        Err(error) => Page::failed("inbox", StatusCode::INTERNAL_SERVER_ERROR, error),
        Ok((questions, proposals)) => {
            let body =
                html! { (of_questions(console, &questions)) (of_proposals(console, &proposals)) };
            let reloads = "questions proposals reviewed history";
            Page { reloads, ..Page::new("inbox", "Inbox", body) }
        }
    }
}

fn of_questions(console: &Console, questions: &Questions) -> Markup {
    html! {
        section aria-labelledby="questions" {
            h2 id="questions" { "Questions of calls" }
            @match questions {
                None => p class="quiet" {
                    "Another process answers the questions of this workspace ("
                    code { "cofferdam review answer" } ", or another console). They are shown here once it ends."
                },
                Some(questions) if questions.is_empty() => p class="quiet" { "No call waits for an answer." },
                Some(questions) => {
                    @for (id, question) in questions.iter().take(MAX_SHOWN) { (of_question(console, id, question)) }
                    (left_out(questions.len()))
                }
            }
        }
    }
}

fn of_question(console: &Console, id: &str, question: &Question) -> Markup {
    if let Some(asked) = &question.form {
        return of_form(console, id, question, asked);
    }
    let Question { tool, session, client, role, text: asked, for_session, .. } = question;
    let reason = format!("reason-{id}");
    html! {
        article class="card asks" {
            h3 { (name(tool)) }
            (facts([
                ("session", Some(name(session))),
                ("client", maybe(client.as_ref())),
                ("role", maybe(role.as_ref())),
            ]))
            pre class="asked" { (text(asked)) }
            // The first button is what Enter in the field presses.
            form method="post" action="answer" class="row" {
                (layout::token(console))
                input type="hidden" name="question" value=(id);
                label for=(reason) { "Reason for the agent" }
                input id=(reason) name="reason" maxlength="2000" autocomplete="off";
                button name="answer" value="no" class="reject" { "No" }
                button name="answer" value="once" class="accept" { "Yes, this call" }
                @if *for_session {
                    button name="answer" value="session" {
                        @if question.is_consent { "Yes, and the same again in this session" }
                        @else { "Yes, and later calls of this tool in this session" }
                    }
                }
            }
            @if let Some(exact) = question.exact() { (for_a_time(console, id, &exact)) }
        }
    }
}

/// A question of a plugin, with its form.
fn of_form(console: &Console, id: &str, question: &Question, asked: &AskedForm) -> Markup {
    let Question { tool, session, client, role, text: shown, .. } = question;
    html! {
        article class="card asks" {
            h3 { "A question of the plugin " (name(&asked.plugin)) }
            (facts([
                ("tool", Some(name(tool))),
                ("session", Some(name(session))),
                ("client", maybe(client.as_ref())),
                ("role", maybe(role.as_ref())),
            ]))
            pre class="asked" { (text(shown)) }
            form method="post" action="answer" class="edit" {
                (layout::token(console))
                input type="hidden" name="question" value=(id);
                @for field in asked.form.fields() { (of_field(id, field)) }
                p class="row" {
                    button name="answer" value="form" class="accept" { "Answer the plugin" }
                    button name="answer" value="decline" class="reject" formnovalidate { "Don't answer" }
                }
            }
        }
    }
}

fn of_field(id: &str, field: &Field) -> Markup {
    let (key, is_required) = (field_key(field), field.is_required());
    let input = format!("{key}-{id}");
    let default = field.default();
    let is_default = |value: &str| match default {
        Some(Value::Array(values)) => values.iter().any(|one| one == value),
        Some(one) => one == value,
        None => false,
    };
    let told = html! { @if let Some(told) = field.description() { span class="quiet" { " " (text(told)) } } };
    let label = html! { label for=(input) { (text(field.title())) (told) } };
    let typed =
        default.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    html! {
        @match field.input() {
            Input::Text => {
                (label)
                input id=(input) name=(key) type="text" autocomplete="off" required[is_required] value=[typed];
            }
            Input::Number => {
                (label)
                input id=(input) name=(key) type="text" inputmode="decimal" autocomplete="off"
                    required[is_required] value=[typed];
            }
            Input::Bool => {
                (label)
                select id=(input) name=(key) {
                    @if default.is_none() { option value="" { "–" } }
                    option value="yes" selected[default == Some(&Value::Bool(true))] { "Yes" }
                    option value="no" selected[default == Some(&Value::Bool(false))] { "No" }
                }
            }
            Input::One(choices) => {
                (label)
                select id=(input) name=(key) {
                    @if default.is_none() { option value="" { "–" } }
                    @for (value, title) in &choices {
                        option value=(value) selected[is_default(value)] { (text(title)) }
                    }
                }
            }
            Input::Many(choices) => fieldset {
                legend { (text(field.title())) (told) }
                @for (value, title) in &choices {
                    label {
                        input type="checkbox" name=(key) value=(value) checked[is_default(value)];
                        " " (text(title))
                    }
                }
            },
        }
    }
}

/// The name of a field of a plugin's form in the page's form. The page has fields of its own.
fn field_key(field: &Field) -> String {
    format!("field-{}", field.name())
}

/// The form for a yes to calls like this one for a time.
fn for_a_time(console: &Console, id: &str, exact: &CallPattern) -> Markup {
    let (pattern, minutes) = (format!("pattern-{id}"), format!("minutes-{id}"));
    html! {
        details {
            summary { "Yes, and calls like it for a time" }
            form method="post" action="answer" class="edit" {
                (layout::token(console))
                input type="hidden" name="question" value=(id);
                label for=(pattern) { "Arguments; in a text, * stands for any characters (\\* for a star)" }
                textarea id=(pattern) name="pattern" rows="6" spellcheck="false" autocomplete="off" {
                    "\n" (text(&format!("{:#}", exact.json())))
                }
                p class="row" {
                    label for=(minutes) { "Minutes" }
                    input id=(minutes) name="minutes" type="number" min="1" max="1440" value="30";
                    button name="answer" value="like" class="accept" { "Yes, for this time" }
                }
            }
        }
    }
}

fn of_proposals(console: &Console, proposals: &[ListedProposal]) -> Markup {
    html! {
        section aria-labelledby="proposals" {
            h2 id="proposals" { "Held changes" }
            @if proposals.is_empty() { p class="quiet" { "Nothing is held." } }
            @for proposal in proposals.iter().take(MAX_SHOWN) { (of_proposal(proposal)) }
            (left_out(proposals.len()))
            @if !proposals.is_empty() { (bulk(console)) }
        }
    }
}

fn of_proposal(proposal: &ListedProposal) -> Markup {
    let ListedProposal { id, revision, author, paths, .. } = proposal;
    html! {
        article class="card" {
            h3 {
                input type="checkbox" form="bulk" name=(CHOSEN) value=(format!("{id}.{revision}"))
                    aria-label=(format!("Choose the changes of the session {}", layout::line(&author.session)));
                " "
                a href=(address("proposal", &[("id", id)])) {
                    (paths.len()) @if paths.len() == 1 { " change" } @else { " changes" }
                    " of the session " (name(&author.session))
                }
            }
            (of_author(proposal))
            ul class="paths" {
                @for (path, change) in paths.iter().take(MAX_PATHS) {
                    li { span class=(format!("tag {change}")) { (change) } " " (name(path)) }
                }
                @if paths.len() > MAX_PATHS { li { "and " (paths.len() - MAX_PATHS) " more" } }
            }
        }
    }
}

/// The form that decides about all proposals that are chosen.
fn bulk(console: &Console) -> Markup {
    html! {
        form id="bulk" method="post" action="decide-all" class="row" {
            (layout::token(console))
            label for="comment" { "Comment for the agents" }
            textarea id="comment" name="comment" rows="1" maxlength="10000" {}
            button name="verdict" value="accept" class="accept" { "Accept all of the chosen ones" }
            button name="verdict" value="reject" class="reject" { "Reject all of the chosen ones" }
        }
    }
}

fn left_out(count: usize) -> Markup {
    html! { @if count > MAX_SHOWN {
        p class="cut" { (count - MAX_SHOWN) " more are shown once some of these are decided." }
    } }
}

/// Who proposes something, with what.
pub fn of_author(proposal: &ListedProposal) -> Markup {
    let author = &proposal.author;
    let tools = author.tools.join(", ");
    facts([
        ("client", maybe(author.client.as_ref())),
        ("role", maybe(author.role.as_ref())),
        ("tools", (!tools.is_empty()).then(|| name(&tools))),
        ("changed", Some(html! { (ago(proposal.time)) })),
        ("revision", Some(html! { (proposal.revision) })),
        ("marked", (!proposal.reviewed.is_empty()).then(|| html! { (proposal.progress()) })),
        ("proposal", Some(html! { code { (short(&proposal.id)) } })),
    ])
}

/// Answers a question with what its form offered. Refuses anything else, such as a pattern that the call does
/// not match; a call that no longer waits gets no answer.
pub async fn answer(console: &Arc<Console>, fields: Fields) -> Response {
    let reading = Arc::clone(console);
    let answered = blocking(move || {
        let Some(listener) = reading.listener()? else {
            return Ok("Another process answers the questions of this workspace.".to_owned());
        };
        let id = fields.get("question");
        let questions = listener.questions()?;
        let question = questions.iter().find(|(name, _)| name == id);
        let Some((_, question)) = question else { return Ok(GONE.to_owned()) };
        let answer = match chosen(question, &fields) {
            Ok(answer) => answer,
            Err(why) => return Ok(format!("Nothing was answered: {why}.")),
        };
        let is_taken = listener.answer(id, &answer)?;
        Ok::<_, io::Error>(if is_taken { "The call has your answer." } else { GONE }.to_owned())
    });
    match answered.await {
        Ok(message) => console.say(message),
        Err(error) => {
            return Page::failed("inbox", StatusCode::INTERNAL_SERVER_ERROR, error)
                .respond(console);
        }
    }
    redirect("inbox")
}

/// Reads an answer that was offered.
///
/// # Errors
/// What is wrong with it.
fn chosen(question: &Question, fields: &Fields) -> Result<QuestionAnswer, String> {
    let reason = fields.filled("reason").map(|reason| reason.trim().to_owned());
    if let Some(AskedForm { form, .. }) = &question.form {
        return match fields.get("answer") {
            "form" => filled(form, fields).map(QuestionAnswer::Form),
            "decline" => Ok(QuestionAnswer::Form(FormAnswer::Declined)),
            _ => Err("the form has no such answer".to_owned()),
        };
    }
    match fields.get("answer") {
        "once" => Ok(QuestionAnswer::Once),
        "session" if question.for_session => Ok(QuestionAnswer::ForSession),
        "no" => Ok(QuestionAnswer::No(reason)),
        "like" => {
            let pattern = serde_json::from_str(fields.get("pattern"));
            let pattern = pattern.map_err(|error| format!("the pattern is not JSON ({error})"))?;
            let pattern = CallPattern::new(pattern).ok_or("the pattern is too long")?;
            question.like(&pattern, fields.get("minutes"))
        }
        _ => Err("the form has no such answer".to_owned()),
    }
}

/// Reads a filled form of a plugin.
///
/// # Errors
/// What is wrong with it.
fn filled(form: &Form, fields: &Fields) -> Result<FormAnswer, String> {
    let mut content = Map::new();
    for field in form.fields() {
        let texts: Vec<&str> = fields.all(&field_key(field)).collect();
        if let Some(value) = field.read(&texts)? {
            content.insert(field.name().to_owned(), value);
        }
    }
    form.answer(content).map(FormAnswer::Accepted)
}
