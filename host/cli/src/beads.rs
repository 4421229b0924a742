//! `cofferdam beads`: lists beads and shows one with its history.

use cofferdam_beads_format::bead::DIRECTORY;
use cofferdam_beads_format::{Bead, Event, Id, id};
use serde_json::{Value, json};

use super::args::{BeadsCommand, Format, Global, ListBeads};
use super::ledger::{self, Listing, Unreadable};
use super::output::Output;
use super::{CliError, exit, setup};
use cofferdam_workspace::Workspace;

pub fn execute(global: &Global, command: &BeadsCommand, output: &Output) -> Result<u8, CliError> {
    let workspace = setup::workspace(global)?;
    let listing = ledger::list(&workspace, DIRECTORY, Id::of_file)?;
    match command {
        BeadsCommand::List(filter) => list(&workspace, listing, filter, output),
        BeadsCommand::Show { bead } => show(&workspace, &listing.ids, bead, output),
    }
}

fn read(workspace: &Workspace, id: &Id) -> Result<Bead, Unreadable> {
    ledger::read(workspace, &format!("{DIRECTORY}/{}", id.file_name()), Bead::parse)
}

fn list(
    workspace: &Workspace,
    listing: Listing<Id>,
    filter: &ListBeads,
    output: &Output,
) -> Result<u8, CliError> {
    let mut beads = Vec::new();
    let mut broken = listing.broken;
    for id in listing.ids {
        match read(workspace, &id) {
            Ok(bead) if matches_filter(filter, &bead) => beads.push((id, bead)),
            Ok(_) => {}
            Err(problem) => broken.push(problem),
        }
    }
    beads.sort_by(|(left_id, left), (right_id, right)| {
        let order = (left.priority, left.created, left_id);
        order.cmp(&(right.priority, right.created, right_id))
    });
    if output.format() == Format::Text {
        ledger::print(output, &table(&beads), &broken)?;
    } else {
        let beads: Vec<Value> = beads.iter().map(|(id, bead)| summary(id, bead)).collect();
        output.json(&json!({ "beads": beads, "problems": broken }))?;
    }
    Ok(if broken.is_empty() { exit::OK } else { exit::ERROR })
}

/// Whether the filter includes this bead.
fn matches_filter(filter: &ListBeads, bead: &Bead) -> bool {
    (filter.status.is_empty() || filter.status.contains(&bead.status()))
        && (filter.kind.is_empty() || filter.kind.contains(&bead.kind))
        && filter.project.as_ref().is_none_or(|project| bead.project_id.as_ref() == Some(project))
        && filter.tag.iter().all(|tag| bead.tags.contains(tag))
}

fn table(beads: &[(Id, Bead)]) -> String {
    let width = |text: fn(&(Id, Bead)) -> &str| {
        beads.iter().map(|bead| text(bead).chars().count()).max().unwrap_or(0)
    };
    let (ids, projects) = (width(|(id, _)| id.as_str()), width(|(_, bead)| project(bead)));
    let line = |(id, bead): &(Id, Bead)| {
        // A table row is one line, even if the title has line breaks.
        let title = bead.title.split_whitespace().collect::<Vec<_>>().join(" ");
        format!(
            "{:ids$}  P{}  {:9}  {:8}  {:projects$}  {title}\n",
            id.as_str(),
            bead.priority.get(),
            bead.status(),
            bead.kind,
            project(bead)
        )
    };
    beads.iter().map(line).collect()
}

fn project(bead: &Bead) -> &str {
    bead.project_id.as_deref().unwrap_or("-")
}

fn show(workspace: &Workspace, ids: &[Id], given: &str, output: &Output) -> Result<u8, CliError> {
    let id = id::find(given, ids).map_err(|error| CliError::usage(error.to_string()))?;
    match read(workspace, &id) {
        Ok(bead) => {
            output.document(&document(&id, &bead))?;
            Ok(exit::OK)
        }
        Err(broken) => {
            if output.format() == Format::Text {
                ledger::print(output, "", &[broken])?;
            } else {
                output.json(&json!({ "problems": [broken] }))?;
            }
            Ok(exit::ERROR)
        }
    }
}

fn summary(id: &Id, bead: &Bead) -> Value {
    json!({
        "id": id.as_str(),
        "title": bead.title,
        "status": bead.status(),
        "type": bead.kind,
        "priority": bead.priority.get(),
        "project_id": bead.project_id,
        "tags": bead.tags,
        "created": bead.created,
    })
}

fn document(id: &Id, bead: &Bead) -> Value {
    let mut document = summary(id, bead);
    if let Some(description) = &bead.description {
        document["description"] = description.as_str().into();
    }
    if let Some(waiting) = &bead.decides {
        document["decides"] = waiting.as_str().into();
    }
    if let Some(agent) = &bead.returned_to {
        document["returned_to"] = agent.as_str().into();
    }
    document["waits_for"] = bead.waits_for().into_iter().map(Id::as_str).collect();
    document["history"] = bead.history.iter().map(Event::to_value).collect();
    document
}
