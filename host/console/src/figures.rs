//! Figures of the calls on record, as `cofferdam stats` has them.

use std::io;
use std::sync::Arc;

use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use maud::html;

use crate::form::Fields;
use crate::layout::Page;
use crate::state::Console;
use cofferdam_engine::runtime::blocking;
use cofferdam_engine::stats::{Filter, Stats};

/// The periods that can be selected: their name in the address, in hours, and for the user.
const PERIODS: [(&str, i64, &str); 4] = [
    ("hour", 1, "The last hour"),
    ("day", 24, "The last 24 hours"),
    ("week", 7 * 24, "The last 7 days"),
    ("", 0, "Everything on record"),
];

/// The figures of a period and of one tool, or of all. A period that is not offered is everything on record.
pub async fn show(console: &Arc<Console>, fields: Fields) -> Page {
    let (chosen, tool) = (fields.get("since").to_owned(), fields.filled("tool").map(str::to_owned));
    let hours = PERIODS.iter().find(|(name, ..)| *name == chosen).map_or(0, |(_, hours, _)| *hours);
    let since = (hours > 0).then(|| Timestamp::now() - SignedDuration::from_hours(hours));
    let journal = Arc::clone(console.reviewer.journal());
    let filter = Filter { since, tool: tool.clone() };
    let read = blocking(move || {
        let mut stats = Stats::new(filter);
        for (name, lines) in journal.files()? {
            stats.read(&name, lines)?;
        }
        Ok::<_, io::Error>(stats.summary())
    });
    match read.await {
        Err(error) => Page::failed("figures", StatusCode::INTERNAL_SERVER_ERROR, error),
        Ok(summary) => {
            let body = html! {
                form method="get" action="figures" class="row" {
                    label for="since" { "Period" }
                    select id="since" name="since" { @for (name, _, title) in PERIODS {
                        option value=(name) selected[name == chosen] { (title) }
                    } }
                    label for="tool" { "Tool" }
                    input id="tool" name="tool" value=(tool.unwrap_or_default()) placeholder="all" maxlength="200";
                    button { "Show" }
                }
                div class="figures" { (summary.to_markup()) }
            };
            Page::new("figures", "Figures", body)
        }
    }
}
