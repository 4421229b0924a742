#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::policy::{Policy, Settings};

fn settings(toml: &str) -> Result<Vec<NetworkSettings>, String> {
    let settings = Settings::parse(toml).map_err(|error| error.to_string())?;
    Policy::new(std::slice::from_ref(&settings)).map_err(|error| error.to_string())?;
    Ok(settings.grants.into_values().flat_map(|grant| grant.network).collect())
}

fn rules(entries: &str, program: &str) -> NetworkRules {
    NetworkRules::new(&settings(entries).unwrap(), program)
}

fn origin(text: &str) -> Origin {
    text.parse().unwrap()
}

#[test]
fn bundles_are_valid() {
    for name in BundleName::ALL {
        let bundle = name.bundle();
        assert!(!bundle.origins.is_empty() && !bundle.description.is_empty(), "{name:?}");
        let entry = format!("[[grants.a.network]]\nprograms = ['x']\nbundle = '{}'", name.as_str());
        let rules = rules(&entry, "x");
        assert_eq!(rules.origins().count(), bundle.origins.len());
        assert_eq!(BundleName::of_host(&bundle.origins[0].authority()), Some(name));
        assert!(bundle.paths.iter().all(|path| path.starts_with('/')));
        assert!(bundle.methods.iter().all(|method| is_method(method)));
    }
    assert_eq!(BundleName::of_host("registry.example"), None);
}

#[test]
fn invalid_entries_are_refused() {
    for (entry, why) in [
        ("origins = ['https://a.example']", "missing field `programs`"),
        ("programs = []\nbundle = 'npm'", "names no program"),
        ("programs = ['x']", "needs origins or a bundle"),
        ("programs = ['x']\nbundle = 'none'", "unknown variant"),
        ("programs = ['x']\norigins = ['http://a.example']", "everything else is reached"),
        ("programs = ['x']\nbundle = 'npm'\nmethods = ['get']", "'get' is no method"),
        ("programs = ['x']\nbundle = 'npm'\nmethods = ['CONNECT']", "'CONNECT' is no method"),
        ("programs = ['x']\nbundle = 'npm'\nmethods = ['TRACE']", "'TRACE' is no method"),
        ("programs = ['x']\nbundle = 'npm'\npaths = ['a']", "'a' is no path"),
        ("programs = ['x']\nbundle = 'npm'\npaths = ['/a/../b']", "is no path"),
        ("programs = ['x']\nbundle = 'npm'\nbytes = 0", "1 or more"),
        ("programs = ['x']\nbundle = 'npm'\nrequests = 0", "1 or more"),
        ("programs = ['x']\nbundle = 'npm'\nport = 1", "unknown field `port`"),
        (
            "programs = ['x']\nbundle = 'npm'\ncredentials = { A = { variable = 'B' } }",
            "used by no header as ${A}",
        ),
        (
            "programs = ['x']\nbundle = 'npm'\ncredentials = { A = {} }",
            "credentials.A needs exactly one",
        ),
        (
            "programs = ['x']\nbundle = 'npm'\ncredentials = { A = { file = 'a' } }",
            "an absolute path",
        ),
    ] {
        let error = settings(&format!("[[grants.a.network]]\n{entry}")).unwrap_err();
        assert!(error.contains(why), "{entry}: {error}");
    }
}

#[test]
fn rules_are_those_of_the_program() {
    let two = "[[grants.a.network]]\nprograms = ['npm']\nbundle = 'npm'\n\
               [[grants.a.network]]\nprograms = ['npm', 'pip']\norigins = ['https://a.example']";
    let origins = |program| {
        let rules = rules(two, program);
        rules.origins().map(|settings| settings.origin.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(origins("pip"), ["https://a.example"]);
    assert_eq!(rules(two, "npm").iter().map(|rule| rule.entry).collect::<Vec<_>>(), [0, 1]);
    assert!(rules(two, "bash").is_empty());
    // An origin of the bundle only gets further settings.
    let own = "[[grants.a.network]]\nprograms = ['npm']\nbundle = 'npm'\nmethods = ['POST']\n\
               origins = [{ origin = 'https://registry.npmjs.org', address = '127.0.0.1:1' }]";
    let rules = rules(own, "npm");
    assert_eq!(rules.iter().count(), 1);
    let (_, settings) =
        rules.request(&origin("https://registry.npmjs.org"), "GET", "/a").unwrap()[0];
    assert!(settings.address.is_some());
    assert!(rules.request(&origin("https://registry.npmjs.org"), "POST", "/a").is_err());
}

#[test]
fn tls_passes_only_where_nothing_is_decided_by_request() {
    let tunnel = |more: &str| {
        let entry = format!("[[grants.a.network]]\nprograms = ['x']\n{more}");
        let rules = rules(&entry, "x");
        let decided = rules.tunnel(&origin("https://a.example"));
        decided.map(|tunnel| matches!(tunnel, Tunnel::Passed(..)))
    };
    let table = |more: &str| format!("origins = [{{ origin = 'https://a.example', {more} }}]");
    assert_eq!(tunnel("origins = ['https://a.example']"), Ok(true));
    assert_eq!(tunnel("origins = ['https://a.example']\nbytes = 5"), Ok(true));
    assert_eq!(tunnel(&table("address = '127.0.0.1:1'")), Ok(true));
    assert_eq!(tunnel("origins = ['https://a.example']\nmethods = ['GET']"), Ok(false));
    assert_eq!(tunnel("origins = ['https://a.example']\npaths = ['/']"), Ok(false));
    assert_eq!(tunnel("origins = ['https://a.example']\nrequests = 5"), Ok(false));
    assert_eq!(tunnel(&table("headers = { A = 'b' }")), Ok(false));
    let both = "origins = ['https://a.example']\n[[grants.a.network]]\nprograms = ['x']\n\
                origins = ['https://a.example']\nmethods = ['GET']";
    assert_eq!(tunnel(both), Ok(false));
    let refused = Err(NetworkRefusal::Origin(origin("https://a.example")));
    assert_eq!(tunnel("origins = ['https://a.example:8443']"), refused);
    assert_eq!(tunnel("origins = ['https://b.a.example']"), refused);
}

#[test]
fn requests_need_a_rule_with_their_method_and_path() {
    let rules = rules(
        "[[grants.a.network]]\nprograms = ['x']\norigins = ['https://a.example']\n\
         methods = ['GET']\npaths = ['/simple/', '/one']",
        "x",
    );
    let ask = |method: &str, path: &str| match rules.request(
        &origin("https://a.example"),
        method,
        path,
    ) {
        Ok(_) => "granted",
        Err(NetworkRefusal::Origin(_)) => "origin",
        Err(NetworkRefusal::Method(..)) => "method",
        Err(NetworkRefusal::Path(..)) => "path",
        Err(NetworkRefusal::Ambiguous(..)) => "ambiguous",
    };
    for (method, path, wanted) in [
        ("GET", "/simple/a?b=/../c", "granted"),
        ("GET", "/one", "granted"),
        ("GET", "/one?x", "granted"),
        ("GET", "/one/two", "granted"),
        ("GET", "/one%2ftwo", "path"),
        ("GET", "/onetwo", "path"),
        ("GET", "/simple", "path"),
        ("GET", "/", "path"),
        ("GET", "//simple/a", "path"),
        ("POST", "/simple/a", "method"),
        ("get", "/simple/a", "method"),
        ("GET", "/simple/../a", "ambiguous"),
        ("GET", "/simple/%2e%2E/a", "ambiguous"),
        ("GET", "/simple/..;/a", "ambiguous"),
        ("GET", "/simple/..%2fa", "ambiguous"),
        ("GET", "/simple/..%252fa", "ambiguous"),
        ("GET", "/simple/%252e%252e/a", "ambiguous"),
        ("GET", "/simple/..%25252fa", "ambiguous"),
        ("GET", "/simple/a%2525252525", "ambiguous"),
        ("GET", "/simple/..%5ca", "ambiguous"),
        ("GET", "/simple/a\\b", "ambiguous"),
        ("GET", "/simple/a%0d%0aHost:b", "ambiguous"),
        ("GET", "/simple/a b", "ambiguous"),
        ("GET", "/simple/a#b", "ambiguous"),
        ("GET", "*", "ambiguous"),
        ("GET", "", "ambiguous"),
    ] {
        assert_eq!(ask(method, path), wanted, "{method} {path}");
    }
    let other = rules.request(&origin("https://b.example"), "GET", "/simple/");
    assert!(matches!(other, Err(NetworkRefusal::Origin(_))));
}

#[test]
fn a_grant_of_only_a_network_keeps_the_other_grants_of_a_built_in_plugin() {
    let toml = "[[grants.build.network]]\nprograms = ['npm']\nbundle = 'npm'";
    let policy = Policy::new(&[Settings::parse(toml).unwrap()]).unwrap();
    let requests = crate::policy::Capabilities {
        scan: true,
        files: crate::policy::Files::Read,
        ..Default::default()
    };
    assert!(policy.capabilities("build", true, &requests).scan);
    assert!(!policy.capabilities("build", false, &requests).scan);
    assert_eq!(policy.network("build").len(), 1);
}
