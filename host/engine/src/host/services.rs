//! The services that plugins are granted, and whether they can be reached now.

use std::fmt;
use std::path::Path;

use super::Host;
use cofferdam_core::policy::{Agent, Capabilities, OriginSettings};
use cofferdam_sandbox::find_program;

/// A service that at least one plugin is granted.
#[derive(Debug, Clone)]
pub enum Service {
    /// An origin, as the settings of the plugin name it.
    Origin(Box<OriginSettings>),
    /// An agent of the settings.
    Agent(Box<Agent>),
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(settings) => write!(f, "origin {}", settings.origin),
            Self::Agent(agent) => write!(f, "agent {}", agent.name()),
        }
    }
}

impl Host {
    /// All services that plugins are granted: origins first, each as often as its settings differ,
    /// then agents.
    pub fn services(&self) -> Vec<Service> {
        let granted: Vec<_> =
            self.registry.plugins().iter().map(|plugin| self.grants.of(plugin)).collect();
        let mut origins: Vec<&OriginSettings> = Vec::new();
        for grant in &granted {
            for settings in &grant.origins {
                let is_granted = grant.capabilities.http.contains(&settings.origin);
                if is_granted && !origins.contains(&settings) {
                    origins.push(settings);
                }
            }
        }
        let may_ask = |agent: &Agent| {
            let one =
                Capabilities { agents: [agent.name().to_owned()].into(), ..Capabilities::NONE };
            granted.iter().any(|grant| !grant.capabilities.meet(&one).agents.is_empty())
        };
        let agents = self.policy.agents().filter(|agent| may_ask(agent));
        let agents = agents.map(|agent| Service::Agent(Box::new(agent.clone())));
        let origins = origins.into_iter().map(|origin| Service::Origin(Box::new(origin.clone())));
        origins.chain(agents).collect()
    }

    /// Connects to an origin, without sending a request, or looks for the program of an agent,
    /// without running it. Returns what was found.
    ///
    /// # Errors
    /// A description of why the service can't be reached.
    pub async fn reach(&self, service: &Service) -> Result<String, String> {
        match service {
            Service::Origin(settings) => {
                let reached = self.services.http.reach(settings).await;
                reached.map(|()| "accepts connections".to_owned()).map_err(|error| error.message)
            }
            Service::Agent(agent) => {
                let program = self.agents.find(agent.command().program());
                let program = program.map_err(|error| error.to_string())?;
                let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                let directory = program.parent().map(Path::to_owned).unwrap_or_default();
                find_program(name, &[directory])
                    .map(|found| found.display().to_string())
                    .ok_or_else(|| format!("{} is not an executable file", program.display()))
            }
        }
    }
}
