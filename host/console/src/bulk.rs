//! Deciding about several proposals at once, each as a whole, from the inbox.
//!
//! The inbox shows the paths of a proposal, not its diff. So what the user has seen is the revision: a
//! proposal that has another one by now is left alone.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;

use crate::form::Fields;
use crate::inbox::{CHOSEN, MAX_SHOWN};
use crate::layout::{Page, redirect, short};
use crate::proposal::outcome;
use crate::state::{Console, REVIEWER};
use cofferdam_engine::runtime::blocking;
use cofferdam_workspace::{Decision, Reviews, Verdict};

/// Accepts or rejects each proposal that is chosen. One that has changed since the page was made, that
/// collides with the workspace or that was decided about already is left alone, and named with the reason.
pub async fn decide(console: &Arc<Console>, fields: Fields) -> Response {
    let verdict = match fields.get("verdict") {
        "accept" => Verdict::Accept,
        "reject" => Verdict::Reject,
        _ => {
            let why = "the form has no such decision";
            return Page::failed("inbox", StatusCode::UNPROCESSABLE_ENTITY, why).respond(console);
        }
    };
    let comment = fields.filled("comment").map(|comment| comment.replace("\r\n", "\n"));
    let mut lines = Vec::new();
    for chosen in fields.all(CHOSEN).take(MAX_SHOWN) {
        lines.push(decide_whole(console, chosen, verdict, comment.clone()).await);
    }
    if lines.is_empty() {
        lines.push("Nothing was decided: choose held changes first.".to_owned());
    }
    console.say(lines.join("\n"));
    redirect("inbox")
}

/// Decides about a proposal, named by its id and the revision that the user has seen. Returns what was
/// done, or why nothing was.
async fn decide_whole(
    console: &Arc<Console>,
    chosen: &str,
    verdict: Verdict,
    comment: Option<String>,
) -> String {
    let (id, seen) = chosen.rsplit_once('.').unwrap_or((chosen, ""));
    let failed =
        |what: &str, why: &dyn std::fmt::Display| format!("{what}: nothing was decided: {why}.");
    let (reviews, proposal) = (Reviews::new(Arc::clone(console.workspace())), id.to_owned());
    let review = match blocking(move || reviews.show(&proposal)).await {
        Ok(review) => review,
        Err(error) => return failed(&format!("The proposal {}", short(id)), &error),
    };
    let session = format!("The session {}", review.proposal.author.session);
    if review.proposal.revision.to_string() != seen {
        return failed(&session, &"its changes are other ones by now; look at them again");
    }
    let decision = Decision {
        proposal: id.to_owned(),
        view: Some(review.view),
        chosen: None,
        verdict,
        comment,
        reviewer: REVIEWER.to_owned(),
    };
    match console.reviewer.decide(decision).await {
        Ok(decided) => format!("{session}: {}", outcome(&decided)),
        Err(error) => failed(&session, &error),
    }
}
