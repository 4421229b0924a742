//! `cofferdam contract`: agents' output contracts, and parsing responses by them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args::{self, ContractCommand, Format};
use super::output::Output;
use super::{CliError, exit, setup};
use crate::config::{self, ConfigError};
use cofferdam_core::contract::{Contract, Contracts, Turn};

pub fn execute(args: &args::Contract, output: &Output) -> Result<u8, CliError> {
    let contracts = contracts(&args.contracts)?;
    let get = |name: &str| contracts.get(name).map_err(|error| unknown(&error));
    match &args.command {
        ContractCommand::List => list(&contracts, output),
        ContractCommand::Show { agent } => show(get(agent)?, output),
        ContractCommand::Prompt { agent } => prompt(get(agent)?, output),
        ContractCommand::Parse { agent, file, attempt, round } => {
            let contract = get(agent)?;
            let response = setup::read_input(file)?;
            parse(contract, &response, Turn { attempt: *attempt, round: *round }, output)
        }
        ContractCommand::Check { names } => check(&contracts, names, output),
    }
}

fn unknown(error: &dyn std::fmt::Display) -> CliError {
    CliError::usage(error.to_string()).with_hint("`cofferdam contract list` lists them")
}

/// Returns the built-in contracts and those in `directories`. A later one replaces an earlier one
/// for the same agent.
fn contracts(directories: &[PathBuf]) -> Result<Contracts, CliError> {
    let mut contracts = Contracts::built_in().map_err(CliError::host)?;
    for directory in directories {
        for contract in config::contracts(directory)? {
            contracts.add(contract);
        }
    }
    Ok(contracts)
}

fn list(contracts: &Contracts, output: &Output) -> Result<u8, CliError> {
    if output.format() == Format::Text {
        let width = contracts.iter().map(|contract| contract.agent.len()).max().unwrap_or(0);
        let line =
            |contract: &Contract| format!("{:width$}  {}\n", contract.agent, contract.purpose);
        output.text(&contracts.iter().map(line).collect::<String>())?;
    } else {
        let entry = |contract: &Contract| {
            json!({
                "agent": contract.agent,
                "purpose": contract.purpose,
                "fields": contract.fields.iter().map(|field| &field.name).collect::<Vec<_>>(),
            })
        };
        output.json(&json!({ "contracts": contracts.iter().map(entry).collect::<Vec<_>>() }))?;
    }
    Ok(exit::OK)
}

fn show(contract: &Contract, output: &Output) -> Result<u8, CliError> {
    let mut document = serde_json::to_value(contract).map_err(CliError::host)?;
    document["prompt"] = contract.prompt().into();
    document["example"] = contract.example().into();
    output.document(&document)?;
    Ok(exit::OK)
}

fn prompt(contract: &Contract, output: &Output) -> Result<u8, CliError> {
    let prompt = contract.prompt();
    match output.format() {
        Format::Text => output.text(&prompt)?,
        Format::Json => output.json(&json!({ "agent": contract.agent, "prompt": prompt }))?,
    }
    Ok(exit::OK)
}

fn parse(contract: &Contract, text: &str, turn: Turn, output: &Output) -> Result<u8, CliError> {
    let parsed = contract.parse(text);
    let next = contract.next(&parsed, turn);
    let reminder = contract.reminder(&parsed);
    let mut document = json!({
        "agent": contract.agent,
        "record": parsed.record,
        "next": next.action,
        "reason": next.reason,
        "problems": parsed.problems,
    });
    for (name, list) in [("extracted", &parsed.extracted), ("repairs", &parsed.repairs)] {
        if !list.is_empty() {
            document[name] = json!(list);
        }
    }
    if let Some(reminder) = reminder {
        document["reminder"] = reminder.into();
    }
    output.document(&document)?;
    Ok(if parsed.problems.is_empty() { exit::OK } else { exit::ERROR })
}

fn check(contracts: &Contracts, names: &[String], output: &Output) -> Result<u8, CliError> {
    let mut checked: Vec<(String, Vec<String>)> = Vec::new();
    if names.is_empty() {
        checked.extend(contracts.iter().map(|contract| (contract.agent.clone(), contract.check())));
    }
    for name in names {
        let file = Path::new(name);
        let problems = if file.is_file() {
            match config::contract(file) {
                Ok(contract) => contract.check(),
                // The output names the file already.
                Err(ConfigError::Invalid { message, .. }) => vec![message],
                Err(error) => vec![error.to_string()],
            }
        } else {
            contracts
                .get(name)
                .map_err(|error| unknown(&format_args!("{name} is no file, and {error}")))?
                .check()
        };
        checked.push((name.clone(), problems));
    }
    let is_right = checked.iter().all(|(_, problems)| problems.is_empty());
    if output.format() == Format::Text {
        output.text(&checked.iter().map(in_words).collect::<String>())?;
    } else {
        let entry = |(name, problems): &(String, Vec<String>)| -> Value {
            json!({ "contract": name, "problems": problems })
        };
        output.json(&json!({ "checked": checked.iter().map(entry).collect::<Vec<_>>() }))?;
    }
    Ok(if is_right { exit::OK } else { exit::ERROR })
}

fn in_words((name, problems): &(String, Vec<String>)) -> String {
    if problems.is_empty() {
        return format!("{name}: right\n");
    }
    problems.iter().map(|problem| format!("{name}: {problem}\n")).collect()
}
