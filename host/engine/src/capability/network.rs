//! The network of one run of a program: what it is granted, and what the result says about what it
//! tried beyond that.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use cofferdam_sandbox::{Attempt, End, PROXY_PORT, Report, Running, Tier};

use super::bindings::cofferdam::host::process::Error;
use super::context::CallContext;
use crate::egress::{Authority, Egress, Plan, Refusal, Secrets, variables};
use cofferdam_core::policy::{BundleName, NetworkRules};

/// How many names or refusals the result has.
const MAX_NAMED: usize = 4;

/// What a run can reach, before it starts.
pub(super) struct Network {
    rules: NetworkRules,
    authority: Authority,
    secrets: Secrets,
}

impl Network {
    /// The network that a program is granted, if any. `directory` is for a file with the certificates
    /// that the program is given.
    ///
    /// # Errors
    /// [`Error::Failed`] if a credential is missing or the file can't be written.
    pub(super) fn new(
        context: &CallContext,
        program: &str,
        directory: &Path,
    ) -> Result<Option<Self>, Error> {
        let settings = &context.permissions.grant.network;
        let rules = NetworkRules::new(settings, program);
        if rules.is_empty() {
            return Ok(None);
        }
        let environment = &context.services.programs.environment;
        let secrets = Secrets::find(settings, program, environment).map_err(|why| {
            Error::Failed(format!("the network of '{program}' can't be used: {why}"))
        })?;
        let authority = Authority::new(directory)
            .map_err(|error| Error::Failed(format!("an authority for the run: {error}")))?;
        Ok(Some(Self { rules, authority, secrets }))
    }

    /// Adds what the program needs to a description of its run.
    pub(super) fn describe(&self, described: &mut cofferdam_sandbox::Command) {
        let file = self.authority.file();
        let own = variables(&self.rules, PROXY_PORT, &file, &described.environment);
        // They replace those that say that there is no network.
        described.environment.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
        described.environment.extend(own);
        described.hidden.extend(self.secrets.hidden());
        described.readable.push(file);
        described.proxy = true;
    }

    /// Starts the proxy of a running program. `guarded` are values that the program must not send.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub(super) fn start(
        self,
        running: &mut Running,
        guarded: Vec<String>,
        context: &CallContext,
    ) -> Result<Option<Egress>, Error> {
        // Without it, the answer of the sandbox says why.
        let Some(listener) = running.take_proxy() else { return Ok(None) };
        let Self { rules, authority, secrets } = self;
        let usage = Arc::clone(&context.usage);
        let plan = Plan { rules, authority, secrets, guarded, usage };
        let started = Egress::start(listener, plan);
        started.map(Some).map_err(|error| Error::Failed(format!("the proxy: {error}")))
    }
}

/// What the result says about a network: nothing if the program has succeeded.
pub(super) fn hint(
    context: &CallContext,
    program: &str,
    report: &Report,
    refusals: &[Refusal],
) -> Option<String> {
    if report.end == End::Exited(0) || (report.attempts.is_empty() && refusals.is_empty()) {
        return None;
    }
    let plugin = context.permissions.plugin();
    let is_granted = !NetworkRules::new(&context.permissions.grant.network, program).is_empty();
    let mut text = String::new();
    let attempts = report.attempts.iter().take(MAX_NAMED);
    let tried: Vec<String> = attempts.map(ToString::to_string).collect();
    if !tried.is_empty() {
        let _ = write!(text, "cofferdam: `{program}` tried to reach {}", tried.join(", "));
        match (report.tier, is_granted) {
            (Tier::B, _) => text.push_str(
                "; in tier B of the sandbox programs have no network, and none can be granted\n",
            ),
            (Tier::A, true) => text.push_str(
                " itself; it can only reach what it is granted, through the proxy in HTTPS_PROXY\n",
            ),
            (Tier::A, false) => {
                text.push_str(
                    "; no network is granted to it. This grants it, in cofferdam.toml:\n",
                );
                text.push_str(&grant(plugin, program, &report.attempts));
            }
        }
    }
    for refusal in refusals.iter().take(MAX_NAMED) {
        let _ = writeln!(text, "cofferdam: the proxy refused `{program}`: {}", refusal.why);
    }
    let origins: Vec<String> = refusals
        .iter()
        .filter(|refusal| refusal.why.ends_with("is not granted"))
        .filter_map(|refusal| Some(format!("\"{}\"", refusal.origin.as_ref()?)))
        .take(MAX_NAMED)
        .collect();
    if !origins.is_empty() {
        let origins = origins.join(", ");
        let _ = writeln!(text, "This grants it, in cofferdam.toml:\n{}", entry(plugin, program));
        let _ = writeln!(text, "origins = [{origins}]");
    }
    Some(text)
}

/// The settings that grant what was tried.
fn grant(plugin: &str, program: &str, attempts: &[Attempt]) -> String {
    let mut bundles = BTreeSet::new();
    let mut origins = BTreeSet::new();
    for attempt in attempts.iter().take(MAX_NAMED) {
        match attempt {
            Attempt::Name(name) => match BundleName::of_host(name) {
                Some(bundle) => {
                    bundles.insert(bundle.as_str());
                }
                None => {
                    origins.insert(format!("\"https://{name}\""));
                }
            },
            Attempt::Address(address) if address.port() == 443 => {
                origins.insert(format!("\"https://{}\"", host(address.ip())));
            }
            Attempt::Address(address) => {
                origins.insert(format!("\"https://{address}\""));
            }
            Attempt::Socket => {}
        }
    }
    let entry = entry(plugin, program);
    let mut text = String::new();
    for bundle in bundles {
        let _ = writeln!(text, "{entry}\nbundle = \"{bundle}\"");
    }
    if !origins.is_empty() {
        let origins: Vec<String> = origins.into_iter().collect();
        let _ = writeln!(text, "{entry}\norigins = [{}]", origins.join(", "));
    }
    text
}

fn host(address: std::net::IpAddr) -> String {
    match address {
        std::net::IpAddr::V4(address) => address.to_string(),
        std::net::IpAddr::V6(address) => format!("[{address}]"),
    }
}

fn entry(plugin: &str, program: &str) -> String {
    format!("[[grants.{plugin}.network]]\nprograms = [\"{program}\"]")
}
