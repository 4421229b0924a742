//! `cofferdam workspace`: pushes, clones and pulls a workspace, and lists the commits of its store.

use std::collections::HashMap;
use std::env;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{Format, Global, Push, WorkspaceCommand};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_engine::journal::{CommitRecord, Entry, Journal};
use cofferdam_fleet::{
    Access, Address, ListedCommit, Pulled, PushOptions, Pushed, StoredCommit, clone, log, pull,
    push,
};
use cofferdam_text::escape_control;
use cofferdam_workspace::Workspace;

/// How many lines of the journal are searched for the tools of calls.
const MAX_CALLS: usize = 20_000;

pub fn execute(
    global: &Global,
    command: &WorkspaceCommand,
    output: &Output,
) -> Result<u8, CliError> {
    match command {
        WorkspaceCommand::Push(args) => push_workspace(global, args, output)?,
        WorkspaceCommand::Clone { store, directory } => {
            let directory = std::path::absolute(directory)?;
            let access = access()?;
            let cloned = clone(address(store)?, &directory, setup::secret(), &access);
            let cloned = setup::multi_thread_runtime()?.block_on(cloned)?;
            print_pulled(&cloned, output)?;
        }
        WorkspaceCommand::Pull { store } => {
            let (workspace, _journal) = recorded(global)?;
            let store = store.as_deref().map(address).transpose()?;
            let access = access()?;
            let pulled =
                setup::multi_thread_runtime()?.block_on(pull(&workspace, store, &access))?;
            print_pulled(&pulled, output)?;
        }
        WorkspaceCommand::Log { store, limit } => {
            let workspace = Arc::new(setup::workspace(global)?);
            let store = store.as_deref().map(address).transpose()?;
            let most = usize::try_from(*limit).unwrap_or(usize::MAX);
            let access = access()?;
            let listed = log(&workspace, store, &access, most);
            print_log(&setup::multi_thread_runtime()?.block_on(listed)?, output)?;
        }
    }
    Ok(exit::OK)
}

pub(super) fn address(text: &str) -> Result<Address, CliError> {
    Ok(Address::parse(text, &env::current_dir()?)?)
}

pub(super) fn access() -> Result<Access, CliError> {
    let prefixes = ["AWS_", "AZURE_", "GOOGLE_"];
    let is_of_store = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let variables = setup::environment().filter(|(name, _)| is_of_store(name)).collect();
    Ok(Access { variables, client: Arc::new(setup::client()?) })
}

/// The workspace, with its commits recorded in the journal as long as the journal exists.
fn recorded(global: &Global) -> Result<(Arc<Workspace>, Arc<Journal>), CliError> {
    let workspace = Arc::new(setup::workspace(global)?);
    let journal = Arc::new(Journal::new(Arc::clone(&workspace)));
    journal.record_commits();
    Ok((workspace, journal))
}

fn push_workspace(global: &Global, args: &Push, output: &Output) -> Result<(), CliError> {
    let (workspace, journal) = recorded(global)?;
    let store = args.store.as_deref().map(address).transpose()?;
    let (calls, _) = journal.latest(MAX_CALLS, |entry| matches!(entry, Entry::Call(_)))?;
    let tools: HashMap<String, String> = calls
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::Call(record) => Some((record.call, record.tool)),
            _ => None,
        })
        .collect();
    let options = PushOptions {
        pull: args.pull,
        ignored: args.ignored,
        message: args.message.clone(),
        tool_of: &|call| tools.get(call).cloned(),
    };
    let access = access()?;
    let pushed = push(&workspace, store, &access, options);
    print_pushed(&setup::multi_thread_runtime()?.block_on(pushed)?, output)
}

fn print_pushed(pushed: &Pushed, output: &Output) -> Result<(), CliError> {
    if output.format() == Format::Json {
        let left_out =
            pushed.left_out.iter().map(|left| json!({"path": left.path, "why": left.why}));
        return output.json(&json!({
            "store": pushed.store,
            "pushed": pushed.commit.is_some(),
            "number": pushed.number,
            "commit": pushed.commit,
            "files": pushed.files,
            "bytes": pushed.bytes,
            "new_objects": pushed.new_objects,
            "new_bytes": pushed.new_bytes,
            "ignored": pushed.ignored,
            "left_out": left_out.collect::<Vec<_>>(),
            "pulled": pushed.pulled.as_ref().map(of_pulled),
        }));
    }
    let mut text = pushed.pulled.as_ref().map(text_of_pulled).unwrap_or_default();
    match &pushed.commit {
        Some(commit) => {
            let Pushed { store, files, bytes, new_objects, new_bytes, .. } = pushed;
            let _ = writeln!(
                text,
                "pushed: commit {} to {store}: {files} files, {bytes} bytes; new in the store: \
                 {new_objects} objects, {new_bytes} bytes",
                commit.number
            );
        }
        None => {
            let (store, number) = (&pushed.store, pushed.number);
            let _ = writeln!(text, "nothing to push: {store} has all of it, as commit {number}");
        }
    }
    for left in &pushed.left_out {
        let _ = writeln!(text, "left out: {}: {}", escaped(&left.path), escaped(&left.why));
    }
    output.text(&text)
}

fn print_pulled(pulled: &Pulled, output: &Output) -> Result<(), CliError> {
    match output.format() {
        Format::Json => output.json(&of_pulled(pulled)),
        Format::Text => output.text(&text_of_pulled(pulled)),
    }
}

fn executed(pulled: &Pulled) -> Vec<String> {
    pulled.executed.iter().map(|file| escape_control(&format!("wrote {file}"))).collect()
}

fn of_pulled(pulled: &Pulled) -> Value {
    json!({
        "store": pulled.store,
        "number": pulled.number,
        "new_commits": pulled.new_commits,
        "written": pulled.written,
        "removed": pulled.removed,
        "fetched_objects": pulled.fetched_objects,
        "fetched_bytes": pulled.fetched_bytes,
        "executed": executed(pulled),
        "commit": pulled.commit.as_ref().map(|commit| CommitRecord::new(commit, false)),
    })
}

fn text_of_pulled(pulled: &Pulled) -> String {
    let Pulled { store, number, new_commits, written, removed, .. } = pulled;
    let mut text = if *new_commits == 0 {
        format!("nothing to pull: this is commit {number} of {store}\n")
    } else {
        format!(
            "pulled: {new_commits} commits, up to {number} of {store}; written: {written} files, \
             removed: {removed}\n"
        )
    };
    let record = pulled.commit.as_ref().map(|commit| CommitRecord::new(commit, false));
    for change in record.iter().flat_map(|record| &record.changes) {
        let _ = writeln!(text, "{} {}", change.change, escaped(&change.path));
    }
    for line in executed(pulled) {
        let _ = writeln!(text, "{}", escaped(&line));
    }
    text
}

fn print_log(listed: &[ListedCommit], output: &Output) -> Result<(), CliError> {
    if output.format() == Format::Json {
        let commits = listed.iter().map(|listed| {
            let mut value = serde_json::to_value(&listed.commit).map_err(CliError::host)?;
            value["digest"] = listed.digest.to_string().into();
            Ok(value)
        });
        return output.json(&json!({ "commits": commits.collect::<Result<Vec<_>, CliError>>()? }));
    }
    if listed.is_empty() {
        return output.text("no commits\n");
    }
    output.text(&listed.iter().map(|listed| line(&listed.commit)).collect::<String>())
}

fn line(commit: &StoredCommit) -> String {
    let time = commit.time.strftime("%Y-%m-%d %H:%M:%S");
    let message = commit.message.as_deref().map(escaped).unwrap_or_default();
    let sources = commit.commits.len() + commit.further_commits;
    let mut tools: Vec<&str> = commit
        .commits
        .iter()
        .flat_map(|source| &source.calls)
        .filter_map(|call| call.tool.as_deref())
        .collect();
    tools.sort_unstable();
    tools.dedup();
    let tools = if tools.is_empty() { String::new() } else { format!(" ({})", tools.join(", ")) };
    let number = commit.number;
    format!(
        "{time}  {number}  from {sources} commits of the workspace{}  {message}\n",
        escaped(&tools)
    )
}

/// A text on one line.
fn escaped(text: &str) -> String {
    escape_control(text).replace('\n', "\\n")
}
