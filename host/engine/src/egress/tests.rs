#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;

use super::guard::Guard;
use super::*;
use cofferdam_core::policy::Settings;

fn rules(toml: &str) -> NetworkRules {
    let settings = Settings::parse(toml).unwrap();
    NetworkRules::new(&settings.grants["a"].network, "x")
}

#[test]
fn values_are_found_in_their_usual_forms() {
    let guard = Guard::new(&["s3cr3t/value".to_owned(), "short".to_owned()]);
    for text in [
        "GET /?a=s3cr3t/value",
        "GET /?a=s3cr3t%2Fvalue",
        "GET /?a=%73%33%63%72%33%74%2f%76%61%6c%75%65",
        "x-a: czNjcjN0L3ZhbHVl",
        "x-a: AHMzY3IzdC92YWx1ZQ",
        "x-a: AABzM2NyM3QvdmFsdWU",
        "x-a: 7333637233742f76616c7565",
        "x-a: 7333637233742F76616C7565",
        "x-a: eulav/t3rc3s",
    ] {
        assert!(guard.finds(text.as_bytes()), "{text}");
        for size in 1..8 {
            let mut scanner = guard.scanner();
            let mut passed = Vec::new();
            let found = text.as_bytes().chunks(size).any(|piece| match scanner.push(piece) {
                Some(piece) => {
                    passed.extend(piece);
                    false
                }
                None => true,
            });
            // Not even the beginning of the value has passed.
            let before = text.find(['=', ':']).unwrap() + 2;
            assert!(found && passed.len() <= before, "{text}");
        }
    }
    let mut scanner = guard.scanner();
    let text = "a text without the value ".repeat(9);
    let passed = text.as_bytes().chunks(7).flat_map(|piece| scanner.push(piece).unwrap());
    let mut passed: Vec<u8> = passed.collect();
    passed.extend(scanner.finish());
    assert!(passed == text.as_bytes() && scanner.is_empty());
    for text in ["", "short", "s3cr3t", "GET /packages/value"] {
        assert!(!guard.finds(text.as_bytes()), "{text}");
    }
    assert!(!Guard::new(&[]).finds(b"anything"));
}

#[test]
fn limits_are_those_of_an_entry() {
    let rules = rules(
        "[[grants.a.network]]\nprograms = ['x']\nbundle = 'pypi'\nbytes = 10\nrequests = 2\n\
         origins = ['https://a.example']",
    );
    let account = Account::new(&rules);
    let used: Vec<_> = rules.iter().map(|rule| account.of(rule).unwrap()).collect();
    // The bundle's rule and the entry's own one count together.
    assert!(used.len() == 2 && Arc::ptr_eq(&used[0], &used[1]));
    assert!(used[0].add_request() && used[1].add_request() && !used[0].add_request());
    assert!(used[0].add_bytes(10) && !used[0].add_bytes(1));
}

#[test]
fn tools_are_told_where_the_proxy_is() {
    let before = [("GOPROXY".to_owned(), "file:///cache".to_owned())];
    let of = |toml: &str, name: &str| {
        let all = variables(&rules(toml), 5, (Path::new("/ca.pem"), Path::new("/ca.jks")), &before);
        all.into_iter().find(|(own, _)| own == name).map(|(_, value)| value)
    };
    let go = "[[grants.a.network]]\nprograms = ['x']\nbundle = 'go'";
    assert_eq!(of(go, "HTTPS_PROXY").as_deref(), Some("http://127.0.0.1:5"));
    assert_eq!(of(go, "SSL_CERT_FILE").as_deref(), Some("/ca.pem"));
    assert!(of(go, "JAVA_TOOL_OPTIONS").unwrap().ends_with("trustStore=/ca.jks"));
    assert_eq!(of(go, "GOPROXY").as_deref(), Some("file:///cache,https://proxy.golang.org"));
    assert_eq!(of(go, "NO_PROXY").as_deref(), Some("localhost,127.0.0.1,::1"));
    let local = "[[grants.a.network]]\nprograms = ['x']\norigins = ['http://localhost:8080']";
    assert_eq!(of(local, "NO_PROXY").as_deref(), Some(""));
    assert_eq!(of(local, "GOPROXY"), None);
}

#[test]
fn credentials_come_from_variables_files_and_programs() {
    let file = tempfile::NamedTempFile::new().unwrap();
    io::Write::write_all(&mut file.as_file(), b"from-a-file\n").unwrap();
    let toml = |credential: &str| {
        format!(
            "[[grants.a.network]]\nprograms = ['x']\norigins = [{{ origin = 'https://a.example', \
             headers = {{ Authorization = 'Bearer ${{KEY}}' }} }}]\ncredentials = {{ {credential} }}"
        )
    };
    let environment = [("KEY", "its-own"), ("OTHER", "from-another")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let found = |credential: &str| {
        let settings = Settings::parse(&toml(credential)).unwrap();
        let network = &settings.grants["a"].network;
        let secrets = Secrets::find(network, "x", &environment)?;
        let headers = secrets.headers(&network[0].origins[0])?;
        assert!(headers[0].1.is_sensitive());
        Ok::<_, String>(headers[0].1.to_str().unwrap().to_owned())
    };
    let from_file = format!("KEY = {{ file = '{}' }}", file.path().display());
    for (credential, wanted) in [
        ("", "its-own"),
        ("KEY = { variable = 'OTHER' }", "from-another"),
        (from_file.as_str(), "from-a-file"),
        ("KEY = { command = ['/bin/echo', 'from-a-program'] }", "from-a-program"),
    ] {
        assert_eq!(found(credential), Ok(format!("Bearer {wanted}")));
    }
    for (credential, why) in [
        ("KEY = { variable = 'UNSET' }", "needs the variable UNSET"),
        ("KEY = { file = '/none' }", "can't be read from /none"),
        ("KEY = { command = ['/bin/false'] }", "comes from /bin/false, which failed"),
        ("KEY = { command = ['/bin/true'] }", "is empty"),
    ] {
        let error = found(credential).unwrap_err();
        assert!(error.contains("the credential KEY") && error.contains(why), "{error}");
    }
    let settings = Settings::parse(&toml("KEY = { variable = 'OTHER' }")).unwrap();
    let secrets = Secrets::find(&settings.grants["a"].network, "x", &environment).unwrap();
    let hidden: Vec<String> = secrets.hidden().into_iter().map(|(_, value)| value).collect();
    assert_eq!(hidden, ["from-another", "ZnJvbS1hbm90aGVy", "from%2Danother"]);
}
