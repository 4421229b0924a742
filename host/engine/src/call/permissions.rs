//! What the operator grants a plugin, and what one call may do.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cofferdam_core::policy::{
    Capabilities, ConsentRule, ConsentSettings, NetworkSettings, OriginSettings, Policy,
    ProgramRules, Scope,
};
use cofferdam_plugin::registry::{Plugin, Registry};

/// What the operator grants a plugin as a whole. Each call gets a part of it.
#[derive(Debug, Default)]
pub struct PluginGrant {
    /// The name of the plugin.
    pub plugin: String,
    /// The capabilities that it may use at most.
    pub capabilities: Capabilities,
    /// The rules about its programs.
    pub rules: ProgramRules,
    /// Names of the variables of the host's environment that are passed to its programs.
    pub environment: Vec<String>,
    /// The settings of the origins that it may send requests to.
    pub origins: Vec<OriginSettings>,
    /// What its programs can reach.
    pub network: Vec<NetworkSettings>,
    /// The classes of actions that its manifest declares, with their descriptions.
    pub classes: BTreeMap<String, String>,
    /// The rules about actions of these classes.
    pub consent: BTreeMap<String, ConsentSettings>,
    /// What it reads as its configuration: `${NAME}` stands for a variable of the host.
    pub config: BTreeMap<String, String>,
    /// Whether it works with what it is granted, as a component without a manifest does.
    pub as_granted: bool,
}

impl PluginGrant {
    /// The rule about an action.
    pub fn consent_rule(&self, class: &str, key: &str) -> ConsentRule {
        self.consent.get(class).map_or(ConsentRule::Refuse, |rules| rules.rule(key))
    }
}

/// The grants of all plugins of a registry, by their names.
pub struct Grants(HashMap<String, Arc<PluginGrant>>);

impl Grants {
    /// What `policy` grants the plugins of `registry`.
    pub fn new(registry: &Registry, policy: &Policy) -> Self {
        let grant = |plugin: &Arc<Plugin>| {
            let manifest = &plugin.manifest;
            let name = &manifest.name;
            let grant = PluginGrant {
                plugin: name.clone(),
                capabilities: policy.capabilities(name, plugin.built_in, &manifest.requests),
                rules: policy.program_rules(name),
                environment: policy.environment(name).map(str::to_owned).collect(),
                origins: policy.origins(name).to_vec(),
                network: policy.network(name).to_vec(),
                classes: manifest.requests.consent.clone(),
                consent: policy.consent(name),
                config: policy.config(name),
                as_granted: manifest.as_granted,
            };
            (name.clone(), Arc::new(grant))
        };
        Self(registry.plugins().iter().map(grant).collect())
    }

    /// The grant of one plugin; one that is not in the registry is granted nothing.
    pub fn of(&self, plugin: &Plugin) -> Arc<PluginGrant> {
        self.0.get(&plugin.manifest.name).cloned().unwrap_or_default()
    }
}

/// What one instance may do.
#[derive(Debug, Clone)]
pub struct Permissions {
    /// What its plugin is granted.
    pub grant: Arc<PluginGrant>,
    /// What it may use.
    pub capabilities: Capabilities,
    /// The paths that it may read.
    pub sight: Scope,
    /// The paths that it may change.
    pub scope: Scope,
}

impl Permissions {
    /// The name of the plugin.
    pub fn plugin(&self) -> &str {
        &self.grant.plugin
    }
}
