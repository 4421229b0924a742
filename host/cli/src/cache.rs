//! `cofferdam cache`: the compiled code of plugins that are not built in.

use serde_json::{Value, json};

use super::args::CacheCommand;
use super::output::Output;
use super::plugin::install::no_home;
use super::setup::Directories;
use super::{CliError, exit};
use cofferdam_plugin::cache::CodeCache;

pub fn execute(command: &CacheCommand, output: &Output) -> Result<u8, CliError> {
    let directory = Directories::find().ok_or_else(no_home)?.cache;
    let at = |error| CliError::host(error).at(directory.display());
    let cache = CodeCache::open(&directory).map_err(at)?;
    let (key, files) = match command {
        CacheCommand::List => ("files", cache.files().map_err(at)?),
        CacheCommand::Clear => ("removed", cache.clear().map_err(at)?),
    };
    let bytes: u64 = files.iter().map(|(_, size)| size).sum();
    let names = files.iter().filter_map(|(path, size)| {
        Some(json!({"name": path.file_name()?.to_str()?, "bytes": size}))
    });
    output.document(&json!({
        "directory": directory,
        "bytes": bytes,
        key: names.collect::<Vec<Value>>(),
    }))?;
    Ok(exit::OK)
}
