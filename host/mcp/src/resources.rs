//! Resources: the files of the workspace, the latest entries of the journal, large answers, and
//! long output of programs.
//!
//! Files are read by the tools `files.glob` and `files.read_file`, as an agent would: what the role
//! does not include, or its scope does not hold, is not found.

use std::io;
use std::path::Path;

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Value, json};
use url::Url;

use super::Server;
use super::app;
use super::results;
use cofferdam_core::outcome::{ErrorCode, Failure, Outcome};
use cofferdam_core::policy::Role;
use cofferdam_engine::call::Session;
use cofferdam_engine::host::{Host, RunOptions};
use cofferdam_engine::journal::Entry;
use cofferdam_engine::runtime::blocking;
use cofferdam_workspace::fair_queue::Client;

/// The address of the journal.
const JOURNAL: &str = "cofferdam://journal";

/// The address of what is held of a session, and of what users have decided about it.
const REVIEW: &str = "cofferdam://review";

/// The number of decisions that are returned.
const MAX_DECISIONS: usize = 50;

/// Returns the proposal of a session, and the latest decisions about its calls and proposals.
fn review(host: &Host, session: &Session) -> io::Result<String> {
    let name = session.name();
    let held = app::proposal_of(host, session)?.into_iter().map(|proposal| {
        let paths = proposal.paths.iter();
        let paths = paths.map(|(path, change)| json!({"path": path, "change": change}));
        json!({
            "proposal": proposal.id,
            "revision": proposal.revision,
            "paths": paths.collect::<Vec<_>>(),
        })
    });
    let held: Vec<Value> = held.collect();
    let is_own = |entry: &Entry| match entry {
        Entry::Event(event) => {
            let decision = event.decision.as_ref();
            decision.is_some_and(|decision| decision.session.as_deref() == Some(&**name))
        }
        _ => false,
    };
    let (decisions, _) = host.journal().latest(MAX_DECISIONS, is_own)?;
    Ok(json!({ "held": held, "decisions": decisions }).to_string())
}

/// The number of journal entries that are returned.
const MAX_ENTRIES: usize = 200;

impl Server {
    /// Lists all resources: the latest large answers, the journal, files by name.
    pub(super) async fn resources(&self, client: Client) -> Vec<Resource> {
        let mut resources = self.shared.results.list(self.role.as_deref());
        if self.sees_journal() {
            resources.push(
                Resource::new(JOURNAL, "Journal")
                    .with_description("How the latest calls here ended, as JSON lines.")
                    .with_mime_type("application/jsonl"),
            );
        }
        let offer = self.offer();
        let workspace = offer.host.workspace();
        if workspace.may_have_proposals() || workspace.may_have_notices() {
            resources.push(
                Resource::new(REVIEW, "Review")
                    .with_description("What is held of this session, and what users have decided.")
                    .with_mime_type("application/json"),
            );
        }
        let names = [("pattern", "**/*".into())];
        let found = self.ask(client, &Session::default(), "files.glob", names).await;
        let found = found.unwrap_or_default();
        let mut files: Vec<&str> =
            found["files"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        files.sort_unstable();
        let offer = self.offer();
        let workspace = offer.host.workspace().path();
        resources.extend(files.into_iter().filter_map(|path| {
            let uri = Url::from_file_path(path).ok()?;
            let name = Path::new(path).strip_prefix(workspace).ok()?;
            Some(Resource::new(uri, name.to_string_lossy()))
        }));
        resources
    }

    /// Whether its role sees the calls of all roles.
    fn sees_journal(&self) -> bool {
        let role = self.role.as_deref();
        self.offer().host.role(role).is_ok_and(|role| role.is_none_or(Role::is_unrestricted))
    }

    pub(super) fn resource_templates(&self) -> Vec<ResourceTemplate> {
        let workspace = Url::from_directory_path(self.offer().host.workspace().path());
        let file = workspace.ok().map(|workspace| {
            ResourceTemplate::new(format!("{workspace}{{+path}}"), "File")
                .with_description("A text file of the workspace.")
        });
        let result = ResourceTemplate::new(results::TEMPLATE, "Answer").with_description(
            "A large answer of a call, or what a program of it printed, or a part, in bytes.",
        );
        file.into_iter().chain([result]).collect()
    }

    pub(super) async fn read(
        &self,
        client: Client,
        session: &Session,
        uri: &str,
    ) -> Result<ReadResourceResult, ErrorData> {
        let unknown = |why: String| ErrorData::resource_not_found(why, Some(json!({"uri": uri})));
        let text = |text: String, kind: &str| {
            let contents = ResourceContents::text(text, uri).with_mime_type(kind);
            Ok(ReadResourceResult::new(vec![contents]))
        };
        if uri == JOURNAL && self.sees_journal() {
            let offer = self.offer();
            let latest = blocking(move || offer.host.journal().latest(MAX_ENTRIES, |_| true)).await;
            let (entries, _) = latest.map_err(|error| unknown(error.to_string()))?;
            let lines = entries.iter().filter_map(|entry| serde_json::to_string(entry).ok());
            return text(lines.map(|line| line + "\n").collect(), "application/jsonl");
        }
        if uri == app::ADDRESS {
            return Ok(ReadResourceResult::new(vec![app::page()]));
        }
        let of_session = [(REVIEW, review as fn(&_, &_) -> _), (app::HELD, app::held)];
        if let Some((_, read)) = of_session.into_iter().find(|(address, _)| *address == uri) {
            let (offer, session) = (self.offer(), session.clone());
            let read = blocking(move || read(&offer.host, &session)).await;
            return text(read.map_err(|error| unknown(error.to_string()))?, "application/json");
        }
        // The client knows afterwards what the session knew that the answer is from.
        session.reads().add(self.shared.results.reads(self.role.as_deref(), uri));
        let (server, wanted) = (self.clone(), uri.to_owned());
        let kept = blocking(move || {
            let (offer, role) = (server.offer(), server.role.as_deref());
            server.shared.results.read(offer.host.workspace(), role, &wanted)
        });
        let kept = kept.await.map_err(unknown)?;
        if let Some(kept) = kept {
            return text(kept.text, kept.mime_type);
        }
        let path = Url::parse(uri).ok().filter(|url| url.scheme() == "file");
        let path = path.and_then(|url| url.to_file_path().ok());
        let Some(path) = path.as_deref().and_then(Path::to_str) else {
            return Err(unknown(format!("there is no resource {uri} here")));
        };
        let args = [("path", path.into()), ("raw", true.into())];
        match self.ask(client, session, "files.read_file", args).await {
            Ok(file) => text(file["content"].as_str().unwrap_or_default().to_owned(), "text/plain"),
            Err(failure) => Err(unknown(format!("{}: {}", failure.code, failure.message))),
        }
    }

    /// Calls a tool under the server's role, and returns its answer.
    async fn ask(
        &self,
        client: Client,
        session: &Session,
        tool: &str,
        args: impl IntoIterator<Item = (&str, Value)>,
    ) -> Result<Value, Failure> {
        let args = args.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let (role, session) = (self.role.clone(), session.clone());
        let options =
            RunOptions { role, client, session, leave_notices: true, ..RunOptions::default() };
        match self.offer().host.call_parsed(tool, args, &options).await {
            Ok((answer, _)) => match answer.outcome {
                Outcome::Executed(output) => Ok(output),
                Outcome::Failed(failure) => Err(failure),
            },
            Err(refusal) => Err(Failure::new(ErrorCode::Refused, refusal.feedback)),
        }
    }
}
