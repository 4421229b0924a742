//! Who may call over HTTP: everybody with the one token, or tenants of a fleet, each with a token, workspaces,
//! roles and a quota of its own.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use super::connections::Peer;
use cofferdam_engine::telemetry::Telemetry;

/// The periods of the quotas.
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Who may reach the server.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// What a request has to bring as `Authorization: Bearer ...`; without one and without tenants,
    /// everybody who reaches the address may call.
    pub token: Option<String>,
    /// Those who may use a part of a fleet, each with a token of their own.
    pub tenants: Vec<Tenant>,
    /// Names besides those of the loopback interface under which it is reached, with a port or
    /// without.
    pub hosts: Vec<String>,
    /// Pages besides its own origin on the loopback interface that may use it from a browser, such
    /// as `https://app.example.com:443`.
    pub origins: Vec<String>,
    /// How many requests a second are taken from one address, with as many at once; `None`: any
    /// number.
    pub rate: Option<NonZeroU32>,
}

/// A caller that may use a part of a fleet.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// The name, for messages and the log.
    pub name: String,
    /// The SHA-256 of the token that it brings as `Authorization: Bearer ...`.
    pub token: [u8; 32],
    /// The workspaces that it may use: names, with `*` for any part.
    pub workspaces: Vec<String>,
    /// The roles that it may act under; empty: all of them.
    pub roles: Vec<String>,
    /// How much it may use on this host.
    pub quota: Quota,
}

/// How much a tenant may use on one host; `None`: any amount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Requests in a minute.
    pub calls: Option<NonZeroU32>,
    /// Seconds in an hour that requests take, added up.
    pub seconds: Option<NonZeroU32>,
    /// Megabytes (10⁶ bytes) in an hour of requests and responses.
    pub megabytes: Option<NonZeroU32>,
}

/// A tenant, and what it has used.
pub(super) struct Account {
    tenant: Tenant,
    used: Mutex<Used>,
    telemetry: Option<Arc<Telemetry>>,
}

/// What a tenant has used in the current periods.
#[derive(Debug)]
struct Used {
    minute: Instant,
    calls: u32,
    hour: Instant,
    time: Duration,
    bytes: u64,
}

/// The tokens that are taken.
pub(super) struct Callers {
    token: Option<[u8; 32]>,
    accounts: Vec<Arc<Account>>,
}

/// Who makes a request; `None`: the operator, or everybody.
#[derive(Clone)]
pub(super) struct Caller(Option<Arc<Account>>);

impl Callers {
    pub(super) fn new(access: &Access, telemetry: Option<&Arc<Telemetry>>) -> Self {
        let account = |tenant: &Tenant| {
            let now = Instant::now();
            let (calls, time, bytes) = (0, Duration::ZERO, 0);
            let used = Used { minute: now, calls, hour: now, time, bytes };
            let (tenant, telemetry) = (tenant.clone(), telemetry.cloned());
            Arc::new(Account { tenant, used: Mutex::new(used), telemetry })
        };
        Self {
            token: access.token.as_deref().map(digest),
            accounts: access.tenants.iter().map(account).collect(),
        }
    }

    /// Returns who brings this token. Digests are compared, so that the time reveals nothing about a token.
    fn caller(&self, token: Option<&str>) -> Option<Caller> {
        if self.token.is_none() && self.accounts.is_empty() {
            return Some(Caller(None));
        }
        let brought = digest(token?);
        if self.token == Some(brought) {
            return Some(Caller(None));
        }
        let account = self.accounts.iter().find(|account| account.tenant.token == brought)?;
        Some(Caller(Some(Arc::clone(account))))
    }
}

impl Caller {
    /// Whether the caller may use a workspace under a role; `None`: all tools.
    pub(super) fn may_use(&self, workspace: &str, role: Option<&str>) -> bool {
        let Some(account) = &self.0 else { return true };
        let Tenant { workspaces, roles, .. } = &account.tenant;
        let may_act =
            roles.is_empty() || role.is_some_and(|role| roles.iter().any(|it| it == role));
        may_act && workspaces.iter().any(|pattern| matches(pattern, workspace))
    }
}

/// Whether a name matches a pattern, in which `*` is any part.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((begin, rest)) => name.strip_prefix(begin).is_some_and(|name| {
            (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))
        }),
    }
}

impl Account {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call, unless the quota is used up.
    ///
    /// # Errors
    /// What is used up, and for how long.
    fn begin(&self) -> Result<(), (&'static str, Duration)> {
        let (now, quota) = (Instant::now(), self.tenant.quota);
        let mut used = self.used();
        if now - used.minute >= MINUTE {
            (used.minute, used.calls) = (now, 0);
        }
        if now - used.hour >= HOUR {
            (used.hour, used.time, used.bytes) = (now, Duration::ZERO, 0);
        }
        let is_over = |most: Option<NonZeroU32>, used: u64| {
            most.is_some_and(|most| used >= u64::from(most.get()))
        };
        if is_over(quota.calls, u64::from(used.calls)) {
            return Err(("calls in a minute", MINUTE - (now - used.minute)));
        }
        let rest = HOUR - (now - used.hour);
        if is_over(quota.seconds, used.time.as_secs()) {
            return Err(("seconds in an hour", rest));
        }
        if is_over(quota.megabytes, used.bytes / 1_000_000) {
            return Err(("megabytes in an hour", rest));
        }
        used.calls += 1;
        Ok(())
    }
}

/// Counts the time and the bytes of a request until it is dropped.
struct Meter {
    account: Arc<Account>,
    begun: Instant,
    bytes: u64,
}

impl Meter {
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let (time, account) = (self.begun.elapsed(), &self.account);
        let mut used = account.used();
        used.time += time;
        used.bytes += self.bytes;
        drop(used);
        if let Some(telemetry) = &account.telemetry {
            telemetry.tenant_used(&account.tenant.name, time, self.bytes);
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Refuses requests without a token (RFC 6750), and those above the quota of their tenant.
pub(super) async fn authorize(
    State(callers): State<Arc<Callers>>,
    Extension(peer): Extension<Arc<Peer>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(caller) = callers.caller(bearer(request.headers())) else {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, challenge, "a bearer token is needed\n").into_response();
    };
    peer.let_in();
    request.extensions_mut().insert(caller.clone());
    let Some(account) = caller.0 else { return next.run(request).await };
    let begun = if request.method() == Method::GET { Ok(()) } else { account.begin() };
    if let Some(telemetry) = &account.telemetry {
        telemetry.tenant_request(&account.tenant.name, begun.is_err());
    }
    if let Err((what, rest)) = begun {
        let later = [(header::RETRY_AFTER, (rest.as_secs() + 1).to_string())];
        let text =
            format!("the quota of the tenant '{}' is used up: {what}\n", account.tenant.name);
        return (StatusCode::TOO_MANY_REQUESTS, later, text).into_response();
    }
    let length = request.headers().get(header::CONTENT_LENGTH);
    let bytes = length.and_then(|length| length.to_str().ok()?.parse().ok()).unwrap_or(0);
    let mut meter = Meter { account, begun: Instant::now(), bytes };
    let (head, body) = next.run(request).await.into_parts();
    let measured = body.into_data_stream().inspect(move |part| {
        meter.add(part.as_ref().map_or(0, |part| part.len() as u64));
    });
    Response::from_parts(head, Body::from_stream(measured))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    // RFC 9110, section 11.1: in any case.
    scheme.eq_ignore_ascii_case("Bearer").then_some(token)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn tenant(quota: Quota) -> Tenant {
        Tenant {
            name: "web".to_owned(),
            token: digest("secret"),
            workspaces: vec!["web-*".to_owned(), "docs".to_owned()],
            roles: vec!["reader".to_owned()],
            quota,
        }
    }

    fn callers(token: Option<&str>, tenants: Vec<Tenant>) -> Callers {
        let token = token.map(str::to_owned);
        Callers::new(&Access { token, tenants, ..Access::default() }, None)
    }

    #[test]
    fn a_tenant_has_its_workspaces_and_roles_only() {
        let callers = callers(Some("operator"), vec![tenant(Quota::default())]);
        let web = callers.caller(Some("secret")).unwrap();
        for (workspace, role, may) in [
            ("web-shop", Some("reader"), true),
            ("web-", Some("reader"), true),
            ("docs", Some("reader"), true),
            ("docs", Some("coder"), false),
            ("docs", None, false),
            ("docs2", Some("reader"), false),
            ("web", Some("reader"), false),
            ("other", Some("reader"), false),
        ] {
            assert_eq!(web.may_use(workspace, role), may, "{workspace} {role:?}");
        }
        assert!(callers.caller(Some("operator")).unwrap().may_use("other", None));
        for token in [None, Some(""), Some("Secret"), Some("secret ")] {
            assert!(callers.caller(token).is_none(), "{token:?}");
        }
    }

    #[test]
    fn without_tokens_everybody_may_call_and_with_tenants_nobody_else() {
        assert!(callers(None, Vec::new()).caller(None).is_some());
        assert!(callers(None, vec![tenant(Quota::default())]).caller(None).is_none());
    }

    #[test]
    fn quotas_are_kept() {
        let one = NonZeroU32::new(1);
        let account = |quota| Arc::clone(&callers(None, vec![tenant(quota)]).accounts[0]);
        let calls = account(Quota { calls: NonZeroU32::new(2), ..Quota::default() });
        calls.begin().unwrap();
        calls.begin().unwrap();
        assert_eq!(calls.begin().unwrap_err().0, "calls in a minute");
        calls.used().minute -= MINUTE;
        calls.begin().unwrap();
        let seconds = account(Quota { seconds: one, ..Quota::default() });
        seconds.used().time = Duration::from_secs(1);
        assert_eq!(seconds.begin().unwrap_err().0, "seconds in an hour");
        seconds.used().hour -= HOUR;
        seconds.begin().unwrap();
        let bytes = account(Quota { megabytes: one, ..Quota::default() });
        drop(Meter { account: Arc::clone(&bytes), begun: Instant::now(), bytes: 999_999 });
        bytes.begin().unwrap();
        drop(Meter { account: Arc::clone(&bytes), begun: Instant::now(), bytes: 1 });
        assert_eq!(bytes.begin().unwrap_err().0, "megabytes in an hour");
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, is_match) in [
            ("*", "a", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "abd", false),
            ("*-x", "a-x", true),
            ("a", "ab", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
