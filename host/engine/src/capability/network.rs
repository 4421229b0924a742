//! The network of one run of a program: what it is granted, and what the result says about what it
//! tried beyond that.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use cofferdam_sandbox::{Attempt, End, PROXY_PORT, Report, Running, Tier};

use super::bindings::cofferdam::host::process::Error;
use super::context::CallContext;
use crate::call::Permissions;
use crate::egress::{Authority, Egress, Plan, Refusal, Secrets, variables};
use cofferdam_core::policy::{BundleName, NetworkRules, Origin, OriginHost};

/// Programs whose exit code says nothing about the programs that they started.
const SHELLS: [&str; 2] = ["bash", "sh"];

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
    /// [`Error::Failed`] if a credential is missing or the file can't be written; [`Error::Denied`] if
    /// the program can know a secret that an origin may not receive.
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
        let origins = rules.origins().map(|settings| &settings.origin);
        context
            .secrets
            .send(origins, Some(program))
            .map_err(|flow| Error::Denied(format!("the program was not started: {flow}")))?;
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
        let (file, java_file) = (self.authority.file(), self.authority.java_file());
        let before = &described.environment;
        let own = variables(&self.rules, PROXY_PORT, (&file, &java_file), before);
        // They replace those that say that there is no network.
        described.environment.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
        described.environment.extend(own);
        described.hidden.extend(self.secrets.hidden());
        described.readable.extend([file, java_file]);
        described.proxy = true;
    }

    /// Starts the proxy of a running program.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub(super) fn start(
        self,
        running: &mut Running,
        context: &CallContext,
    ) -> Result<Option<Egress>, Error> {
        // Without it, the answer of the sandbox says why.
        let Some(listener) = running.take_proxy() else { return Ok(None) };
        let Self { rules, authority, secrets } = self;
        // The program knows them, and must not send them.
        let guarded = context.granted_values().map(|(_, value)| value).collect();
        let usage = Arc::clone(&context.usage);
        let plan = Plan { rules, authority, secrets, guarded, usage };
        let started = Egress::start(listener, plan);
        started.map(Some).map_err(|error| Error::Failed(format!("the proxy: {error}")))
    }
}

/// Adds to the errors of a program what it tried to reach and was not granted, with the settings that
/// grant it: nothing if it has succeeded, except for a shell.
pub(super) fn explain(
    permissions: &Permissions,
    program: &str,
    report: &mut Report,
    refusals: &[Refusal],
) {
    let mut text = explanation(permissions, program, report, refusals);
    if !text.is_empty() {
        let stderr = &mut report.stderr;
        if stderr.bytes.last().is_some_and(|last| *last != b'\n') {
            text.insert(0, '\n');
        }
        stderr.written += text.len() as u64;
        stderr.bytes.extend_from_slice(text.as_bytes());
    }
}

/// The lines that [`explain`] adds.
pub(super) fn explanation(
    permissions: &Permissions,
    program: &str,
    report: &Report,
    refusals: &[Refusal],
) -> String {
    if report.end == End::Exited(0) && !SHELLS.contains(&program) {
        return String::new();
    }
    let is_granted = !NetworkRules::new(&permissions.grant.network, program).is_empty();
    let tried = Tried { plugin: permissions.plugin(), program, tier: report.tier, is_granted };
    let mut text = tried.attempts(&report.attempts).unwrap_or_default();
    text.push_str(&tried.refusals(refusals));
    text
}

/// A run that tried to reach something.
struct Tried<'a> {
    plugin: &'a str,
    program: &'a str,
    tier: Tier,
    /// Whether the program is granted any origin.
    is_granted: bool,
}

impl Tried<'_> {
    /// A line about what it tried to reach without the proxy.
    fn attempts(&self, attempts: &[Attempt]) -> Option<String> {
        let Self { program, tier, is_granted, .. } = self;
        let named: Vec<String> = attempts.iter().take(MAX_NAMED).map(Attempt::to_string).collect();
        let what = match attempts.len().saturating_sub(MAX_NAMED) {
            _ if named.is_empty() => return None,
            0 => named.join(", "),
            more => format!("{} and {more} more", named.join(", ")),
        };
        let why = match (tier, is_granted) {
            (Tier::B, _) => "programs have no network in tier B of the sandbox, and none can be \
                             granted"
                .to_owned(),
            (Tier::A, true) => "it reaches only what it is granted, and only through the proxy in \
                                HTTPS_PROXY"
                .to_owned(),
            (Tier::A, false) => {
                let granted = granting(attempts);
                format!("no network is granted to it. {}", self.remedy(&granted))
            }
        };
        Some(format!("cofferdam: `{program}` tried to reach {what}: {why}\n"))
    }

    /// Lines about what the proxy has refused.
    fn refusals(&self, refusals: &[Refusal]) -> String {
        let Self { program, .. } = self;
        let line = |refusal: &Refusal| {
            let why = &refusal.why;
            let remedy = match &refusal.origin {
                Some(origin) if why.ends_with("is not granted") => {
                    format!(". {}", self.remedy(&granting_origin(origin)))
                }
                _ => String::new(),
            };
            format!("cofferdam: the proxy refused `{program}`: {why}{remedy}\n")
        };
        refusals.iter().take(MAX_NAMED).map(line).collect()
    }

    fn remedy(&self, granted: &str) -> String {
        let Self { plugin, program, .. } = self;
        format!(
            "A person can grant it in cofferdam.toml: [[grants.{plugin}.network]] with programs = \
             [\"{program}\"] and {granted}"
        )
    }
}

/// The setting that grants what was tried: a bundle if one has it, else the origins.
fn granting(attempts: &[Attempt]) -> String {
    let names = attempts.iter().filter_map(|attempt| match attempt {
        Attempt::Name(name) => Some(name.clone()),
        Attempt::Address(address) => match (address.port(), address.ip()) {
            (443, IpAddr::V4(ip)) => Some(ip.to_string()),
            (443, IpAddr::V6(ip)) => Some(format!("[{ip}]")),
            _ => Some(address.to_string()),
        },
        Attempt::Socket => None,
    });
    let names: Vec<String> = names.collect();
    if let Some(bundle) = names.iter().find_map(|name| BundleName::of_host(name)) {
        return format!("bundle = \"{}\"", bundle.as_str());
    }
    let origins: BTreeSet<String> =
        names.iter().take(MAX_NAMED).map(|name| format!("\"https://{name}\"")).collect();
    format!("origins = [{}]", origins.into_iter().collect::<Vec<_>>().join(", "))
}

/// The setting that grants an origin: the bundle that has it, else the origin.
fn granting_origin(origin: &Origin) -> String {
    let bundle = match origin.host() {
        OriginHost::Name(name) if origin.is_secure() => BundleName::of_host(name),
        _ => None,
    };
    match bundle.filter(|bundle| bundle.bundle().origins.contains(origin)) {
        Some(bundle) => format!("bundle = \"{}\"", bundle.as_str()),
        None => format!("origins = [\"{origin}\"]"),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn tried(tier: Tier, is_granted: bool) -> Tried<'static> {
        Tried { plugin: "shell", program: "npm", tier, is_granted }
    }

    fn name(name: &str) -> Attempt {
        Attempt::Name(name.to_owned())
    }

    #[test]
    fn attempts_are_named_with_the_settings_that_grant_them() {
        let address = |text: &str| Attempt::Address(text.parse().unwrap());
        for (attempts, wanted) in [
            (
                vec![name("registry.npmjs.org")],
                "reach registry.npmjs.org: no network is granted to it. ",
            ),
            (
                vec![name("registry.npmjs.org")],
                "[[grants.shell.network]] with programs = [\"npm\"] and bundle = \"npm\"\n",
            ),
            (vec![name("a.example"), name("pypi.org")], "bundle = \"pypi\""),
            (vec![name("a.example")], "origins = [\"https://a.example\"]"),
            (vec![address("192.0.2.1:443")], "origins = [\"https://192.0.2.1\"]"),
            (vec![address("[2001:db8::1]:443")], "origins = [\"https://[2001:db8::1]\"]"),
            (vec![address("192.0.2.1:22")], "reach 192.0.2.1:22: "),
            ((0..9).map(|n| name(&format!("{n}.example"))).collect(), "3.example and 5 more: "),
        ] {
            let text = tried(Tier::A, false).attempts(&attempts).unwrap();
            assert!(text.starts_with("cofferdam: `npm` tried to reach "), "{text}");
            assert!(text.contains(wanted) && text.lines().count() == 1, "{text}");
        }
        assert_eq!(tried(Tier::A, false).attempts(&[]), None);
        let text = tried(Tier::B, true).attempts(&[Attempt::Socket]).unwrap();
        assert!(text.contains("reach the network: programs have no network in tier B"), "{text}");
        let text = tried(Tier::A, true).attempts(&[name("a.example")]).unwrap();
        assert!(text.contains("only through the proxy") && !text.contains("grants"), "{text}");
    }

    #[test]
    fn refusals_are_named_with_the_settings_that_grant_them() {
        let origin: Origin = "https://a.example".parse().unwrap();
        let refusal = |why: &str| Refusal { origin: Some(origin.clone()), why: why.to_owned() };
        let refusals = [refusal("https://a.example is not granted"), refusal("too much")];
        let text = tried(Tier::A, true).refusals(&refusals);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("refused `npm`: https://a.example is not granted. A person"));
        assert!(lines[0].ends_with("origins = [\"https://a.example\"]"), "{text}");
        assert_eq!(lines[1..], ["cofferdam: the proxy refused `npm`: too much"]);
        assert_eq!(tried(Tier::A, true).refusals(&[]), "");
        for (origin, wanted) in [
            ("https://repo1.maven.org", "bundle = \"maven\""),
            ("https://repo1.maven.org:8443", "origins = [\"https://repo1.maven.org:8443\"]"),
            ("https://192.0.2.1", "origins = [\"https://192.0.2.1\"]"),
        ] {
            assert_eq!(granting_origin(&origin.parse().unwrap()), wanted);
        }
    }
}
