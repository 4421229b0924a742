//! `cofferdam validate`: checks an envelope without running it.

use serde_json::json;

use super::args::{Global, Validate};
use super::output::Output;
use super::run::mode;
use super::setup::RoleUse;
use super::{CliError, exit, setup};
use cofferdam_core::policy::{LimitSettings, Scope};
use cofferdam_engine::dispatch::Bounds;

pub fn execute(global: &Global, args: &Validate, output: &Output) -> Result<u8, CliError> {
    let text = setup::read_input(&args.file)?;
    let (host, _runtime, role) =
        setup::host_under(global, Some(1), args.role.as_deref(), RoleUse::Show)?;
    let role = host.role(role.as_deref())?;
    let (header, calls) = host.check(&text, mode(args.strict), role)?;
    let bounds = Bounds { role, limits: &LimitSettings::default(), scope: &Scope::default() };
    let count = calls.len();
    let denied: Vec<_> = calls
        .into_iter()
        .enumerate()
        .filter_map(|(index, call)| {
            let tool = call.tool().qualified_name();
            let denial = host.allows(call, &bounds).err()?;
            Some(json!({"call": index, "tool": tool, "code": denial.code(), "message": denial.to_string()}))
        })
        .collect();
    let status = if denied.is_empty() { exit::OK } else { exit::DENIED };
    output.document(&json!({
        "valid": denied.is_empty(),
        "dialect": header.dialect,
        "calls": count,
        "denied": denied,
        "repairs": header.repairs,
    }))?;
    Ok(status)
}
