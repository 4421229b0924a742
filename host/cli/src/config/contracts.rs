//! Contracts that the user wrote: the files of a directory.
#![expect(clippy::disallowed_methods, reason = "contracts are named by paths")]

use std::fs;
use std::path::Path;

use super::ConfigError;
use cofferdam_core::contract::Contract;
use cofferdam_workspace::bounded_text;

/// Reads the contracts in a directory: each `*.toml`, in the order of their names.
///
/// # Errors
/// `Io` if the directory or a file can't be read; `Invalid` if a file is not a contract.
pub fn contracts(directory: &Path) -> Result<Vec<Contract>, ConfigError> {
    let io = |source| ConfigError::Io { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().map(|file| contract(file)).collect()
}

/// Reads a contract from a file, which must be named after the contract's agent.
///
/// # Errors
/// `Io` if the file can't be read; `Invalid` if it is not a contract.
pub fn contract(file: &Path) -> Result<Contract, ConfigError> {
    let path = || file.to_owned();
    let text =
        bounded_text::read(file).map_err(|source| ConfigError::Io { path: path(), source })?;
    let contract = Contract::from_toml(&text)
        .map_err(|error| ConfigError::Invalid { path: path(), message: error.to_string() })?;
    let name = contract.file_name();
    if file.file_name().is_none_or(|found| found != name.as_str()) {
        let message = format!("the contract of {} belongs into {name}", contract.agent);
        return Err(ConfigError::Invalid { path: path(), message });
    }
    Ok(contract)
}
