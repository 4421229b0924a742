//! `cofferdam serve --store`: the workspaces of a fleet.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::args::{QueueArgs, Serve};
use super::setup::{self, Directories};
use super::{CliError, workspace};
use cofferdam_engine::host::Host;
use cofferdam_fleet::Address;
use cofferdam_fleet::queue::{FleetSecret, Queue, QueueCredentials, QueueError, QueueOptions};
use cofferdam_mcp::{Access, Fleet, Location, Options, Quota, Tenant, serve_fleet};
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::bounded_text;

/// The pause before a queue is connected to again.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves the workspaces of a store.
pub fn serve(
    (host, options): (Host, Options),
    stopping: CancellationToken,
    runtime: &Handle,
    (store, args, mut callers): (&str, &Serve, Access),
) -> Result<BoxFuture<'static, Result<(), CliError>>, CliError> {
    let store = workspace::address(store)?;
    let missing = || CliError::usage("there is no home directory: name one with --copies");
    let copies = match &args.copies {
        Some(copies) => std::path::absolute(copies)?,
        None => default_copies(&store).ok_or_else(missing)?,
    };
    if host.workspace().holds(&copies) {
        let why = "--copies: it would be in the workspace, where tools could change it";
        return Err(CliError::usage(why));
    }
    let (access, secret) = (workspace::access()?, setup::secret());
    if let Some(file) = &args.tenants {
        callers.tenants = tenants(file)?;
    }
    let location = Location { store, access, copies, secret, max_open: args.max_open };
    let fleet = Arc::new(Fleet::new(host, options, location, stopping)?);
    let address = args.http.ok_or_else(|| CliError::usage("--store needs --http"))?;
    let ready = Box::new(|address| tracing::warn!("serving http://{address}/workspaces/NAME/mcp"));
    let queue = match settings(&args.queue)? {
        None => None,
        Some(settings) => Some(match runtime.block_on(connect(settings.clone())) {
            Ok(queue) => std::future::ready(queue).boxed(),
            Err(error) if error.may_pass() => {
                connect_again(settings, error, Arc::clone(&fleet)).boxed()
            }
            Err(error) => return Err(CliError::usage(error)),
        }),
    };
    if queue.is_some() {
        fleet.expect_queue();
    }
    let served = serve_fleet(Arc::clone(&fleet), address, callers, ready);
    let served = async move {
        match queue {
            None => served.await,
            Some(queue) => tokio::join!(served, fleet.work_off(queue)).0,
        }
    };
    Ok(served.map(|served| served.map_err(|error| CliError::usage(error.to_string()))).boxed())
}

/// The address, secret and options of a queue.
pub type QueueSettings = (String, FleetSecret, QueueOptions);

/// The queue that the options name, if they name one.
pub fn settings(args: &QueueArgs) -> Result<Option<QueueSettings>, CliError> {
    let (Some(address), Some(secret)) = (&args.queue, &args.queue_secret) else { return Ok(None) };
    let secret = setup::read_input(secret)?;
    let secret = FleetSecret::new(secret.trim().as_bytes()).map_err(CliError::usage)?;
    let options = QueueOptions {
        credentials: credentials()?,
        allow_unencrypted: args.queue_unencrypted,
        ..QueueOptions::default()
    };
    Ok(Some((address.clone(), secret, options)))
}

/// Connects to a queue.
pub async fn connect((address, secret, options): QueueSettings) -> Result<Queue, QueueError> {
    Queue::connect(&address, secret, options).await
}

/// Connects to a queue whose server is not ready yet. Each kind of error is logged when it begins.
async fn connect_again(settings: QueueSettings, first: QueueError, fleet: Arc<Fleet>) -> Queue {
    let mut error = first;
    loop {
        tracing::warn!("the queue is not worked off yet: {error}");
        fleet.note_missing_queue(&error);
        error = loop {
            tokio::time::sleep(PAUSE).await;
            match connect(settings.clone()).await {
                Ok(queue) => {
                    tracing::warn!("the queue is worked off");
                    return queue;
                }
                Err(next) if discriminant(&next) == discriminant(&error) => {}
                Err(next) => break next,
            }
        };
    }
}

/// The credentials for the queue, from the environment.
fn credentials() -> Result<QueueCredentials, CliError> {
    let variables: BTreeMap<String, String> = setup::environment().collect();
    let variable = |name: &str| variables.get(name).filter(|value| !value.is_empty()).cloned();
    if let Some(token) = variable("NATS_TOKEN") {
        return Ok(QueueCredentials::Token(token));
    }
    if let Some(file) = variable("NATS_CREDS") {
        return Ok(QueueCredentials::File(setup::read_input(Path::new(&file))?));
    }
    Ok(match (variable("NATS_USER"), variable("NATS_PASSWORD")) {
        (Some(user), Some(password)) => QueueCredentials::Password { user, password },
        _ => QueueCredentials::None,
    })
}

/// The directory of the copies of a store, in the user's state.
fn default_copies(store: &Address) -> Option<PathBuf> {
    let name = &Digest::of(store.to_string().as_bytes()).hex()[..16];
    Some(Directories::find()?.copies.join(name))
}

/// A file of tenants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantFile {
    tenants: BTreeMap<String, TenantSettings>,
}

/// The settings of a tenant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TenantSettings {
    /// The SHA-256 of its token, in hexadecimal digits.
    token_sha256: String,
    workspaces: Vec<String>,
    #[serde(default)]
    roles: Vec<String>,
    calls_per_minute: Option<NonZeroU32>,
    seconds_per_hour: Option<NonZeroU32>,
    megabytes_per_hour: Option<NonZeroU32>,
}

/// Reads a file of tenants.
fn tenants(file: &Path) -> Result<Vec<Tenant>, CliError> {
    let wrong = |why: String| CliError::usage(format!("{}: {why}", file.display()));
    let text = bounded_text::read(file).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

fn parse(text: &str) -> Result<Vec<Tenant>, String> {
    let file: TenantFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let tenant = |(name, settings): (String, TenantSettings)| {
        let digest = format!("sha256:{}", settings.token_sha256.to_ascii_lowercase());
        let digest: Digest = digest.parse().map_err(|_| {
            format!(
                "tenants.{name}.token-sha256: 64 hexadecimal digits, as `sha256sum` prints them"
            )
        })?;
        if settings.workspaces.is_empty() {
            return Err(format!("tenants.{name}.workspaces: at least one name, or \"*\""));
        }
        Ok(Tenant {
            name,
            token: *digest.bytes(),
            workspaces: settings.workspaces,
            roles: settings.roles,
            quota: Quota {
                calls: settings.calls_per_minute,
                seconds: settings.seconds_per_hour,
                megabytes: settings.megabytes_per_hour,
            },
        })
    };
    let tenants: Vec<Tenant> = file.tenants.into_iter().map(tenant).collect::<Result<_, _>>()?;
    let mut tokens: Vec<_> = tenants.iter().map(|tenant| tenant.token).collect();
    tokens.sort_unstable();
    tokens.dedup();
    match tokens.len() == tenants.len() {
        true => Ok(tenants),
        false => Err("two tenants have the same token".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn tenants_are_read_or_refused() {
        let token = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        let text = format!(
            "[tenants.web]\ntoken-sha256 = \"{token}\"\nworkspaces = [\"web-*\"]\n\
             roles = [\"reader\"]\ncalls-per-minute = 60\n"
        );
        let tenants = parse(&text).unwrap();
        assert_eq!((tenants.len(), tenants[0].name.as_str()), (1, "web"));
        assert_eq!(tenants[0].token[0], 0x2b);
        assert_eq!(tenants[0].quota.calls.unwrap().get(), 60);
        for (from, to) in [
            (token, "2bb8"),
            (token, ""),
            ("\"web-*\"", ""),
            ("roles", "role"),
            ("= 60", "= 0"),
            ("= 60", "= -1"),
            ("[tenants.web]", "[tenant.web]"),
        ] {
            parse(&text.replace(from, to)).unwrap_err();
        }
        parse(&format!("{text}{}", text.replace("web]", "two]"))).unwrap_err();
    }
}
