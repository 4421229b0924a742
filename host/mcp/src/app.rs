//! The app that shows what is held of a session, inside of clients that know MCP Apps (the extension
//! `io.modelcontextprotocol/ui`, revision 2026-01-26). It only shows: what an app may call, a model could
//! call as well, and would then accept its own changes.

use std::io;

use rmcp::RoleServer;
use rmcp::model::{MetaObject, ResourceContents, Tool};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::connection::Connection;
use super::offer::Offer;
use cofferdam_core::policy::executed_by;
use cofferdam_engine::call::Session;
use cofferdam_engine::host::Host;
use cofferdam_text::escape_control;
use cofferdam_workspace::{FileReview, ListedProposal};

/// The name of the extension.
const EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The media type of its pages.
const MIME_TYPE: &str = "text/html;profile=mcp-app";

/// The address of the page. The client asks for it by the metadata of a tool.
pub(super) const ADDRESS: &str = "ui://cofferdam/held";

/// The address of what the page shows.
pub(super) const HELD: &str = "cofferdam://review/held";

/// How much of the hunks is returned at once, in bytes. The rest is counted.
const MAX_DIFF_BYTES: usize = 512 << 10;

/// How many files are named.
const MAX_FILES: usize = 1_000;

/// Whether the client of a request shows apps, and has a session in which the page can ask what is held.
pub(super) fn is_shown(context: &RequestContext<RoleServer>) -> bool {
    let connection = context.extensions.get::<Connection>();
    if !connection.is_some_and(|connection| connection.session.is_lasting()) {
        return false;
    }
    let extension = context.client_capabilities().and_then(|client| {
        let extensions = client.extensions.as_ref()?;
        extensions.get(EXTENSION)?.get("mimeTypes").cloned()
    });
    let types = extension.as_ref().and_then(Value::as_array);
    types.is_some_and(|types| types.iter().any(|kind| kind == MIME_TYPE))
}

/// Names the page in the metadata of those tools whose changes are held; of all that change files if
/// `hold` is set.
pub(super) fn name_page(tools: &mut [Tool], offer: &Offer, role: Option<&str>, hold: bool) {
    for tool in tools.iter_mut().filter(|tool| offer.is_held(&tool.name, role, hold)) {
        let ui = json!({"resourceUri": ADDRESS, "visibility": ["model"]});
        let meta = tool.meta.get_or_insert_default();
        meta.0.insert("ui".to_owned(), ui);
    }
}

/// Returns the page. It needs nothing from elsewhere, so the client's default policy for its content
/// is enough.
pub(super) fn page() -> ResourceContents {
    let ui = json!({"ui": {"prefersBorder": true}});
    let meta = MetaObject(ui.as_object().cloned().unwrap_or_default());
    let page = ResourceContents::text(include_str!("app.html"), ADDRESS);
    page.with_mime_type(MIME_TYPE).with_meta(meta)
}

/// Returns the open proposal of a session, which has at most one.
///
/// # Errors
/// The proposals can't be read.
pub(super) fn proposal_of(host: &Host, session: &Session) -> io::Result<Option<ListedProposal>> {
    let proposals = host.reviews().list().map_err(io::Error::other)?;
    Ok(proposals.into_iter().find(|proposal| proposal.author.session == *session.name()))
}

/// Returns the proposal of a session compared with the workspace as it is; without files if nothing
/// is held. Control and invisible characters are shown as escapes.
///
/// # Errors
/// The proposals can't be read.
pub(super) fn held(host: &Host, session: &Session) -> io::Result<String> {
    let Some(own) = proposal_of(host, session)? else {
        return Ok(json!({"files": []}).to_string());
    };
    let review = host.reviews().show(&own.id).map_err(io::Error::other)?;
    let mut left = MAX_DIFF_BYTES;
    let files = review.files.iter().take(MAX_FILES).map(|file| of_file(file, &mut left));
    Ok(json!({
        "proposal": own.id,
        "revision": own.revision,
        "console": host.workspace().console_link(&own.id),
        "files": files.collect::<Vec<_>>(),
        "more_files": review.files.len().saturating_sub(MAX_FILES),
    })
    .to_string())
}

/// A file with as many of its hunks as fit into what is left.
fn of_file(file: &FileReview, left: &mut usize) -> Value {
    let mut hunks = Vec::new();
    for hunk in &file.hunks {
        let text = escape_control(&String::from_utf8_lossy(&hunk.text));
        let Some(rest) = left.checked_sub(text.len()) else { break };
        *left = rest;
        hunks.push(text);
    }
    json!({
        "path": escape_control(&file.path).replace('\n', "\\n"),
        "change": file.change,
        "collides": file.collides,
        "executed_by": executed_by(&file.path),
        "more_hunks": file.hunks.len() - hunks.len(),
        "hunks": hunks,
    })
}
