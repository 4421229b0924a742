//! `cofferdam serve`: the MCP server, on standard input and output or over HTTP.

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::args::{Global, Serve};
use super::renew::{self, Source};
use super::setup::RoleUse;
use super::{CliError, exit, fleet, setup};
use cofferdam_core::policy::Role;
use cofferdam_engine::host::Config;
use cofferdam_mcp::{self, Access, Options, Server};

pub fn execute(global: &Global, args: &Serve) -> Result<u8, CliError> {
    let token = token(args)?;
    // A single client gets answers sooner from a runtime with one thread.
    let runtime = match args.http {
        None => setup::current_thread_runtime()?,
        Some(_) => setup::multi_thread_runtime()?,
    };
    let usage = RoleUse::Calling { target: args.target.as_deref() };
    let source = Source::look(global)?;
    let (config, role) = setup::config_under(global, None, args.role.as_deref(), usage)?;
    let config = Config { scripts: scripts(&args.tools)?, ..config };
    let source = source.of(&config);
    let config = setup::for_server(config);
    let (host, runtime) = setup::open(config.clone(), runtime)?;
    let stopping = CancellationToken::new();
    let mut interruption = setup::interruption(&runtime)?;
    let interrupted = stopping.clone();
    let insisted = async {
        if interruption.wait_for(|interrupted| *interrupted).await.is_err() {
            return std::future::pending().await;
        }
        interrupted.cancel();
        match setup::signal() {
            Ok(signal) => signal.await,
            Err(_) => std::future::pending().await,
        }
    };
    let options = Options {
        // A role that the user or the agent's own host named is the only one.
        other_roles: role.is_none(),
        role: Some(role.unwrap_or_else(|| Role::CODER.to_owned())),
        output_schemas: args.output_schemas,
        agent: setup::agent_name(),
        hold: args.hold,
    };
    let telemetry = host.telemetry().cloned();
    let served = match &args.store {
        Some(store) => {
            let what = (store.as_str(), args, access(args, token));
            fleet::serve((host, options), stopping, runtime.handle(), what)?
        }
        None => {
            let server = Server::new(host, options, stopping.clone())?;
            runtime.spawn(renew::follow(server.clone(), source, config, stopping));
            serve(server, args, token).boxed()
        }
    };
    let served = async {
        served.await?;
        if let Some(telemetry) = telemetry {
            telemetry.stop().await;
        }
        Ok(exit::OK)
    };
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = served => ended,
            // A second signal ends the process at once; unfinished writes are rolled back at the
            // next start.
            () = insisted => Ok(exit::ERROR),
        }
    });
    // A read of standard input can't be cancelled and may still be blocking.
    runtime.shutdown_background();
    ended
}

/// The token that callers bring.
fn token(args: &Serve) -> Result<Option<String>, CliError> {
    let Some(file) = &args.token_file else { return Ok(None) };
    let token = setup::read_input(file)?.trim().to_owned();
    match token.is_empty() {
        true => Err(CliError::usage("the file of the token is empty".to_owned())),
        false => Ok(Some(token)),
    }
}

/// The tools that are listed beside scripts; `None` without script mode.
fn scripts(tools: &[String]) -> Result<Option<Vec<String>>, CliError> {
    match tools.split_first() {
        None => Ok(None),
        Some((mode, also)) if mode == "scripts" => Ok(Some(also.to_vec())),
        Some((other, _)) => Err(CliError::usage(format!(
            "--tools begins with `scripts`, not '{other}'; a role names the tools that a client lists \
             otherwise (--role)"
        ))),
    }
}

async fn serve(server: Server, args: &Serve, token: Option<String>) -> Result<(), CliError> {
    let Some(address) = args.http else {
        return server.serve_stdio().await.map_err(CliError::host);
    };
    let access = access(args, token);
    let ready = Box::new(|address| tracing::warn!("serving http://{address}/mcp"));
    let served = cofferdam_mcp::serve_http(server, address, access, ready).await;
    // Each of these errors is about an option.
    served.map_err(|error| CliError::usage(error.to_string()))
}

/// Who may call, by the options.
fn access(args: &Serve, token: Option<String>) -> Access {
    Access {
        token,
        hosts: args.allow_host.clone(),
        origins: args.allow_origin.clone(),
        rate: args.rate,
        tenants: Vec::new(),
    }
}
