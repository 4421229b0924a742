//! The variables by which tools find the proxy of a run and trust its authority.

use std::path::Path;

use cofferdam_core::policy::NetworkRules;

/// The variables of programs without a network: what they try fails at once, and is not tried again.
pub(crate) const OFFLINE_VARIABLES: [(&str, &str); 9] = [
    ("CARGO_NET_RETRY", "0"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
    ("PIP_RETRIES", "0"),
    ("RUSTUP_MAX_RETRIES", "0"),
    ("UV_HTTP_RETRIES", "0"),
    ("YARN_HTTP_RETRY", "0"),
    ("npm_config_fetch_retries", "0"),
    ("npm_config_fund", "false"),
    ("npm_config_update_notifier", "false"),
];

/// Variables with the address of the proxy.
const PROXY: [&str; 11] = [
    "ALL_PROXY",
    "CARGO_HTTP_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "YARN_HTTP_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "npm_config_https_proxy",
    "npm_config_proxy",
];

/// Variables with the file of authorities.
const AUTHORITIES: [&str; 10] = [
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
    "YARN_HTTPS_CA_FILE_PATH",
    // Otherwise a `cafile` of the operator's settings would replace NODE_EXTRA_CA_CERTS.
    "npm_config_cafile",
];

/// What tools need besides: their own settings for being online, and no requests that a rule for
/// reading would refuse.
const ONLINE: [(&str, &str); 13] = [
    ("CARGO_NET_OFFLINE", "false"),
    ("COREPACK_ENABLE_NETWORK", "1"),
    ("UV_OFFLINE", "0"),
    ("npm_config_audit", "false"),
    ("npm_config_fetch_retries", "2"),
    ("npm_config_fetch_retry_maxtimeout", "5000"),
    ("npm_config_fetch_retry_mintimeout", "500"),
    ("npm_config_offline", "false"),
    ("CARGO_NET_RETRY", "3"),
    ("PIP_RETRIES", "5"),
    ("RUSTUP_MAX_RETRIES", "3"),
    ("UV_HTTP_RETRIES", "3"),
    ("YARN_HTTP_RETRY", "3"),
];

/// The origin that Go asks by default.
const GO_PROXY: &str = "https://proxy.golang.org";

/// The variables of a program that has a network. The files have the authorities that it trusts, also
/// in Java's format; `before` are the variables that it has already.
pub(crate) fn variables(
    rules: &NetworkRules,
    port: u16,
    (authorities, java_authorities): (&Path, &Path),
    before: &[(String, String)],
) -> Vec<(String, String)> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let proxy = format!("http://127.0.0.1:{port}");
    let file = authorities.display().to_string();
    let mut all: Vec<_> = PROXY.iter().map(|name| pair(name, &proxy)).collect();
    all.extend(AUTHORITIES.iter().map(|name| pair(name, &file)));
    all.extend(ONLINE.iter().map(|(name, value)| pair(name, value)));
    // The run's own servers are reached directly, unless a server of this machine is granted.
    let is_local = rules.origins().any(|settings| settings.origin.is_local());
    let direct = if is_local { "" } else { "localhost,127.0.0.1,::1" };
    all.extend(["NO_PROXY", "no_proxy", "npm_config_noproxy"].map(|name| pair(name, direct)));
    let java = format!(
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={port} -Dhttps.proxyHost=127.0.0.1 \
         -Dhttps.proxyPort={port} -Djavax.net.ssl.trustStoreType=jks -Djavax.net.ssl.trustStore={}",
        java_authorities.display()
    );
    all.push(pair("JAVA_TOOL_OPTIONS", &java));
    if rules.origins().any(|settings| settings.origin.to_string() == GO_PROXY) {
        let known = before.iter().rev().find(|(name, _)| name == "GOPROXY");
        let value = match known {
            Some((_, cache)) if cache.starts_with("file:") => format!("{cache},{GO_PROXY}"),
            _ => GO_PROXY.to_owned(),
        };
        all.push(pair("GOPROXY", &value));
    }
    all
}
