//! What a server offers at a time: a host, and the lists made from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{Prompt, Tool};

use super::{prompts, results};
use cofferdam_core::policy::Role;
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::Host;
use cofferdam_plugin::export::Exported;
use cofferdam_plugin::registry::ToolEntry;

/// A host and the lists made from it.
pub(super) struct Offer {
    pub host: Host,
    /// The prompts, each with the text that it adds to a task.
    pub prompts: Vec<(Prompt, String)>,
    /// The tools of each role that was asked for.
    tools: Mutex<HashMap<Option<String>, Arc<[Tool]>>>,
}

impl Offer {
    pub fn new(host: Host) -> Self {
        let prompts = prompts::all(host.contracts());
        Self { host, prompts, tools: Mutex::default() }
    }

    /// Returns the tools that a role can call, sorted by name.
    ///
    /// # Errors
    /// An unknown role.
    pub fn tools(&self, role: Option<&str>) -> Result<Arc<[Tool]>, Refusal> {
        let of_role = self.host.role(role)?;
        let mut known = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        let list = known.entry(role.map(str::to_owned));
        Ok(Arc::clone(list.or_insert_with(|| tools(&self.host, of_role).into())))
    }
}

fn tools(host: &Host, role: Option<&Role>) -> Vec<Tool> {
    let tool = |entry| {
        let exported = Exported::new(host.registry(), entry, role)?;
        match serde_json::from_value(results::widened(exported.mcp(host.policy()))) {
            Ok(tool) => Some(tool),
            Err(error) => {
                tracing::error!("{} is left out of the tools: {error}", exported.name);
                None
            }
        }
    };
    // Tools that are not granted are left out: every call would be denied.
    let granted = |entry: &&Arc<ToolEntry>| host.policy().decide(&entry.subject(), role).is_ok();
    let mut tools: Vec<Tool> = host
        .registry()
        .tools(role)
        .filter(granted)
        .filter_map(|entry| tool(entry.as_ref()))
        .collect();
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools
}
