//! What a server offers at a time: a host, and the lists made from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{Prompt, Tool};

use super::{prompts, results};
use cofferdam_core::policy::{Files, Role};
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::Host;
use cofferdam_plugin::export::Exported;
use cofferdam_plugin::registry::ToolEntry;

/// A host and the lists made from it.
pub(super) struct Offer {
    pub host: Host,
    /// Whether the tools have the schemas of their answers.
    pub output_schemas: bool,
    /// The prompts, each with the text that it adds to a task.
    prompts: Vec<(Prompt, String)>,
    /// The tools of each role that was asked for.
    tools: Mutex<HashMap<Option<String>, Arc<[Tool]>>>,
}

impl Offer {
    pub fn new(host: Host, output_schemas: bool) -> Self {
        let prompts = prompts::all(host.contracts());
        Self { host, output_schemas, prompts, tools: Mutex::default() }
    }

    /// Returns the prompt of a role's contract, if it has one; all without a role.
    pub fn prompts(&self, role: Option<&str>) -> impl Iterator<Item = &(Prompt, String)> {
        let of_role = self.host.role(role).ok().flatten();
        let contract = of_role.and_then(Role::contract);
        let contract = contract.and_then(|name| self.host.contracts().get(name).ok());
        let is_used = move |(prompt, _): &&(Prompt, String)| {
            role.is_none() || contract.is_some_and(|contract| contract.agent == prompt.name)
        };
        self.prompts.iter().filter(is_used)
    }

    /// Returns the tools that a role can call, sorted by name.
    ///
    /// # Errors
    /// An unknown role.
    pub fn tools(&self, role: Option<&str>) -> Result<Arc<[Tool]>, Refusal> {
        let of_role = self.host.role(role)?;
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let list = known.entry(role.map(str::to_owned));
        Ok(Arc::clone(list.or_insert_with(|| self.tools_of(of_role).into())))
    }

    /// Whether a tool can change files, and its changes are held; with `hold`, those of every tool are.
    pub fn is_held(&self, tool: &str, role: Option<&str>, hold: bool) -> bool {
        let role = self.host.role(role).ok().flatten();
        let entry = self.host.registry().resolve(tool, role).ok();
        let permissions =
            entry.and_then(|entry| self.host.policy().decide(&entry.subject(), role).ok());
        permissions.is_some_and(|granted| {
            granted.capabilities.files == Files::Write && (hold || granted.hold)
        })
    }

    fn tools_of(&self, role: Option<&Role>) -> Vec<Tool> {
        let mut tools: Vec<Tool> = entries(&self.host, role)
            .filter_map(|entry| tool(&self.host, entry, role, self.output_schemas))
            .collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    }
}

/// Returns the tools of a role that it can call and that clients list: those that are granted, and those
/// that work on a target file only if the role has a scope.
fn entries<'a>(
    host: &'a Host,
    role: Option<&'a Role>,
) -> impl Iterator<Item = &'a ToolEntry> + use<'a> {
    let has_target = role.is_some_and(|role| !role.scope().is_everything());
    let is_usable = move |entry: &&Arc<ToolEntry>| {
        (has_target || !entry.plugin.manifest.target)
            && role.is_none_or(|role| role.lists(&entry.plugin.manifest.name, &entry.tool().name))
            && host.policy().decide(&entry.subject(), role).is_ok()
    };
    host.registry().tools(role).filter(is_usable).map(AsRef::as_ref)
}

fn tool(host: &Host, entry: &ToolEntry, role: Option<&Role>, output: bool) -> Option<Tool> {
    let exported = Exported::new(host.registry(), entry, role)?;
    let document = match output {
        true => results::widened(exported.mcp_with_output(host.policy())),
        false => exported.mcp(host.policy()),
    };
    match serde_json::from_value(document) {
        Ok(tool) => Some(tool),
        Err(error) => {
            tracing::error!("{} is left out of the tools: {error}", exported.name);
            None
        }
    }
}
