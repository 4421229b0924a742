//! `cofferdam mcp`: prints the configuration that an MCP client needs.

use std::env;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toml::Table;

use super::args::{Client, Global, McpCommand, McpConfig};
use super::output::Output;
use super::{CliError, exit, setup};

/// The server's name in the client's configuration, and the program's.
const NAME: &str = "cofferdam";

pub fn execute(global: &Global, command: &McpCommand, output: &Output) -> Result<u8, CliError> {
    let McpCommand::Config(args) = command;
    output.verbatim(config(args, server(global, args)?)?.as_bytes())?;
    Ok(exit::OK)
}

/// How the client connects to the server.
enum Connection {
    /// The client starts the command with these arguments.
    Command { command: String, args: Vec<String> },
    /// The client connects to this address.
    Address(String),
}

fn server(global: &Global, args: &McpConfig) -> Result<Connection, CliError> {
    if let Some(url) = &args.url {
        return Ok(Connection::Address(url.clone()));
    }
    let text = |path: PathBuf| {
        path.into_os_string()
            .into_string()
            .map_err(|path| CliError::usage(format!("{} is not UTF-8", path.display())))
    };
    let mut words = vec!["serve".to_owned()];
    let workspace = match (&global.workspace, args.client) {
        (Some(_), _) => Some(text(setup::workspace(global)?.path().to_owned())?),
        // The client replaces this by the folder that is open.
        (None, Client::Cursor | Client::Vscode) => Some("${workspaceFolder}".to_owned()),
        // The client starts the server in the project.
        (None, Client::Claude | Client::Codex) => None,
    };
    words.extend(workspace.into_iter().flat_map(|path| ["--workspace".to_owned(), path]));
    if let Some(role) = &args.role {
        // The client may start the server in another working directory, so paths become absolute.
        let role = match setup::agent(role)? {
            Some(_) => text(Path::new(role).canonicalize()?)?,
            None => role.clone(),
        };
        words.extend(["--role".to_owned(), role]);
    }
    words.extend(args.target.iter().flat_map(|path| ["--target".to_owned(), path.clone()]));
    let command = match is_in_path() {
        true => NAME.to_owned(),
        false => text(env::current_exe()?)?,
    };
    Ok(Connection::Command { command, args: words })
}

/// Whether a shell finds this program by its name.
fn is_in_path() -> bool {
    let own = env::current_exe().and_then(|own| own.canonicalize());
    let found = env::var_os("PATH").and_then(|path| {
        env::split_paths(&path).map(|folder| folder.join(NAME)).find(|file| file.is_file())
    });
    let found = found.and_then(|found| found.canonicalize().ok());
    found.is_some() && found == own.ok()
}

/// The text for the client's configuration file. Source: the documentation of each client.
fn config(args: &McpConfig, server: Connection) -> Result<String, CliError> {
    let key = match args.client {
        Client::Claude | Client::Cursor => "mcpServers",
        Client::Vscode => "servers",
        Client::Codex => "mcp_servers",
    };
    let mut server = match server {
        Connection::Command { command, args } => json!({"command": command, "args": args}),
        Connection::Address(url) => json!({"url": url}),
    };
    let kind = if server.get("url").is_some() { "http" } else { "stdio" };
    if matches!(args.client, Client::Claude | Client::Vscode)
        && let Some(fields) = server.as_object_mut()
    {
        fields.shift_insert(0, "type".to_owned(), kind.into());
    }
    let document: Value = json!({key: {NAME: server}});
    if args.client == Client::Codex {
        let table = Table::try_from(&document).map_err(CliError::host)?;
        return toml::to_string(&table).map_err(CliError::host);
    }
    Ok(format!("{document:#}\n"))
}
