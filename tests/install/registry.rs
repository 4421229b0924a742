//! OCI registries: Debian's `docker-registry`, and hostile ones.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_plugin::digest::Digest;
use serde_json::json;

use super::signatures::Author;
use super::web::{answer, path};
use super::{Plugin, assert_contains};
use crate::http::server::Server;
use crate::programs;
use crate::support::{Ended, Place};
use crate::trial::configure;

/// How long the registry may take to start.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The user `ada` with the password `secret`, as htpasswd writes it.
const PASSWORDS: &str = "ada:$2b$04$YjShMqqN8skYbgXLlmfcPOlxgLSXx/I6ME23putd4Snfu8anSERcu\n";

/// A running registry.
struct Registry {
    child: Child,
    address: SocketAddr,
    files: PathBuf,
}

impl Registry {
    /// Returns `None` on a machine without the registry's program. `closed`: only `ada` has access.
    #[expect(clippy::disallowed_methods, reason = "a real registry is what the host talks to")]
    fn start(place: &Place, closed: bool) -> Option<Self> {
        let program = programs::find("docker-registry")?;
        let files = place.home_file("registry");
        fs::create_dir(&files).unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let passwords = place.home_file("htpasswd");
        fs::write(&passwords, PASSWORDS).unwrap();
        let mut settings = json!({
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": files}},
            "http": {"addr": address.to_string()},
        });
        if closed {
            settings["auth"] = json!({"htpasswd": {"realm": "test", "path": passwords}});
        }
        let config = place.home_file("registry.yml");
        fs::write(&config, settings.to_string()).unwrap();
        let mut command = Command::new(program);
        command.arg("serve").arg(config).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < TIMEOUT && child.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(20));
        }
        Some(Self { child, address, files })
    }

    fn reference(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }

    /// The path where the registry stores a blob.
    fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.strip_prefix("sha256:").unwrap();
        self.files.join("docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[test]
fn a_plugin_is_published_and_installed_by_others() {
    let place = Place::new();
    let Some(registry) = Registry::start(&place, false) else { return };
    let reference = registry.reference("tools/lines:1.0");
    assert_contains(
        &place.refused(1, &["plugin", "install", &reference]),
        &["there is nothing of that name"],
    );
    let first = Plugin::new("lines").requests(json!({"files": "read"}));
    let file = place.beside("lines.wasm", &first);
    let pushed = place.works(&["plugin", "push", text(&file), &reference]);
    let by_digest = pushed["by_digest"].as_str().unwrap();
    // Publishing again changes nothing.
    assert_eq!(place.works(&["plugin", "push", text(&file), &reference]), pushed);

    let user = Place::new();
    let install = ["plugin", "install", &reference, "--grant", "files=read"];
    assert_eq!(user.works(&install)["plugins"][0]["digest"], pushed["digest"]);
    assert_eq!(user.go("lines").status, 0);
    let pinned = Place::new();
    pinned.works(&["plugin", "install", by_digest, "--deny"]);

    // The tag moves to a version that requests more.
    place.beside("lines.wasm", &first.version("2.0.0").requests(json!({"files": "write"})));
    let second = place.works(&["plugin", "push", text(&file), &reference]);
    assert_eq!(pinned.works(&["plugin", "update"])["plugins"][0]["state"], "unchanged");
    assert_contains(&user.refused(3, &["plugin", "update"]), &["files=write", "no terminal"]);
    user.works(&["plugin", "update", "lines", "--deny"]);
    assert_eq!(user.lock()["plugins"]["lines"]["version"].as_str(), Some("2.0.0"));
    // Restoring an old lock file does not install the new version.
    let late = Place::new();
    late.works(&["plugin", "install", &reference, "--deny"]);
    late.write("cofferdam.lock", pinned.read("cofferdam.lock").replace(by_digest, &reference));
    assert_contains(
        &late.refused(3, &["plugin", "install", "--deny"]),
        &["was asked for", "plugin update"],
    );

    // Another digest, and a blob that was changed in the registry.
    let zeros = format!("{}@sha256:{}", registry.reference("tools/lines"), "0".repeat(64));
    assert_contains(
        &late.refused(1, &["plugin", "install", &zeros]),
        &["there is nothing of that name"],
    );
    let blob = registry.blob(second["digest"].as_str().unwrap());
    let mut content = fs::read(&blob).unwrap();
    *content.last_mut().unwrap() ^= 1;
    fs::write(&blob, content).unwrap();
    let tampered = Place::new();
    let why = tampered.refused(3, &["plugin", "install", &reference, "--deny"]);
    assert_contains(&why, &["it has sha256:", second["digest"].as_str().unwrap(), "was asked for"]);
    assert!(tampered.stored().is_empty());
}

#[test]
fn an_update_takes_the_newest_version_of_the_range() {
    let place = Place::new();
    let Some(registry) = Registry::start(&place, false) else { return };
    let publish = |version: &str, requests: serde_json::Value| {
        let plugin = Plugin::new("lines").version(version).requests(requests);
        let file = place.beside("lines.wasm", &plugin);
        let reference = registry.reference(&format!("lines:{version}"));
        place.works(&["plugin", "push", text(&file), &reference]);
        reference
    };
    let first = publish("1.0.0", json!({}));
    let user = Place::new();
    let wrong = user.refused(2, &["plugin", "install", &first, "--range", ">=2", "--deny"]);
    assert_contains(&wrong, &["1.0.0 is not in >=2"]);
    user.works(&["plugin", "install", &first, "--deny"]);
    let locked =
        |user: &Place, key: &str| user.lock()["plugins"]["lines"][key].as_str().unwrap().to_owned();
    assert_eq!(locked(&user, "range"), "^1.0.0");
    assert_eq!(user.works(&["plugin", "update"])["plugins"][0]["state"], "unchanged");

    publish("1.2.0", json!({}));
    let newest = publish("1.10.0", json!({}));
    publish("1.11.0-rc.1", json!({}));
    publish("2.0.0", json!({"files": "write"}));
    let found = user.works(&["plugin", "update", "--dry-run"])["plugins"][0].clone();
    assert_eq!((&found["state"], &found["source"]), (&json!("newer"), &json!(newest)), "{found}");
    assert_eq!(locked(&user, "version"), "1.0.0", "a dry run changes nothing");
    let updated = user.works(&["plugin", "update"])["plugins"][0].clone();
    assert_eq!(updated["beyond_range"], "2.0.0", "{updated}");
    assert_eq!(locked(&user, "version"), "1.10.0");
    assert_eq!((locked(&user, "source"), locked(&user, "range")), (newest, "^1.0.0".to_owned()));
    assert_eq!(user.go("lines").status, 0);

    // A wider range is the user's choice, and what requests more still asks.
    let wide = ["plugin", "install", &first, "--range", ">=1", "--deny"];
    let user = Place::new();
    user.works(&wide);
    assert_contains(&user.refused(3, &["plugin", "update"]), &["files=write", "no terminal"]);
    user.works(&["plugin", "update", "--deny"]);
    assert_eq!(locked(&user, "version"), "2.0.0");
    // Other plugins have no versions to choose from.
    let file = place.beside("other.wasm", &Plugin::new("other"));
    let refused = user.refused(2, &["plugin", "install", text(&file), "--range", "1"]);
    assert_contains(&refused, &["a tag of a registry that is a semantic version"]);
}

#[test]
fn a_list_of_revocations_is_published() {
    let place = Place::new();
    let Some(registry) = Registry::start(&place, false) else { return };
    let Some(ada) = Author::new(&place, "ada") else { return };
    let file = place.beside("lines.wasm", &Plugin::new("lines").version("1.0.0"));
    ada.sign(&file);
    let reference = registry.reference("lines:1.0.0");
    let digest = place.works(&["plugin", "push", text(&file), &reference])["digest"].clone();
    let user = Place::new();
    let install = ["plugin", "install", &reference, "--key", &ada.key(), "--deny"];
    user.works(&install);

    let list = place.home_file("revoked.toml");
    let content = format!("version = 1\n[revoked]\n{digest} = \"it loses lines\"\n");
    fs::write(&list, content).unwrap();
    let push = ["plugin", "push", text(&list), &registry.reference("lines:revoked")];
    assert_contains(&place.refused(2, &push), &["it is not signed"]);
    ada.sign(&list);
    assert_eq!(place.works(&push)["revoked"], 1);
    assert_contains(&user.refused(3, &["plugin", "update"]), &["it loses lines"]);
    let other = Place::new();
    assert_contains(&other.refused(3, &install), &["it loses lines"]);
    assert!(other.stored().is_empty());
    // The list is no plugin.
    let wrong = ["plugin", "install", &registry.reference("lines:revoked"), "--deny"];
    assert_ne!(other.run(&wrong).status, 0);
}

/// Also one whose publisher has removed what it revokes.
#[test]
fn an_update_passes_over_revoked_and_older_versions() {
    let place = Place::new();
    let Some(registry) = Registry::start(&place, false) else { return };
    let Some(ada) = Author::new(&place, "ada") else { return };
    let publish = |tag: &str, version: &str| {
        let file = place.beside("lines.wasm", &Plugin::new("lines").version(version));
        ada.sign(&file);
        place.works(&["plugin", "push", text(&file), &registry.reference(&format!("lines:{tag}"))])
    };
    let first = publish("1.0.0", "1.0.0");
    let by_digest = first["by_digest"].as_str().unwrap();
    let (user, fixed) = (Place::new(), Place::new());
    let key = ada.key();
    let reference = registry.reference("lines:1.0.0");
    user.works(&["plugin", "install", &reference, "--key", &key, "--deny"]);
    fixed.works(&["plugin", "install", by_digest, "--key", &key, "--deny"]);
    let renamed = user.refused(2, &["plugin", "install", "lines", "--range", ">=1"]);
    assert_contains(&renamed, &["--range is for a source", &reference]);

    publish("1.1.0", "1.1.0");
    let highest = publish("1.2.0", "1.2.0");
    let list = place.home_file("revoked.toml");
    let (one, other) = (&first["digest"], &highest["digest"]);
    let content =
        format!("version = 1\n[revoked]\n{one} = \"it is old\"\n{other} = \"it is bad\"\n");
    fs::write(&list, content).unwrap();
    ada.sign(&list);
    place.works(&["plugin", "push", text(&list), &registry.reference("lines:revoked")]);
    // What is pinned by its digest is revoked as well.
    assert_contains(&fixed.refused(3, &["plugin", "update"]), &["it is old"]);
    assert_contains(&fixed.refused(3, &["plugin", "install"]), &["it is old"]);
    assert_eq!(user.works(&["plugin", "update"])["plugins"][0]["version"], "1.1.0");

    // The signed file of an older version under a higher tag.
    publish("1.3.0", "0.9.0");
    let why = user.refused(3, &["plugin", "update"]);
    assert_contains(&why, &["it is version 0.9.0", "older than 1.1.0"]);
    assert_eq!(user.lock()["plugins"]["lines"]["version"].as_str(), Some("1.1.0"));
}

#[test]
fn a_signature_goes_with_the_plugin() {
    let place = Place::new();
    let Some(registry) = Registry::start(&place, false) else { return };
    let (Some(ada), Some(eve)) = (Author::new(&place, "ada"), Author::new(&place, "eve")) else {
        return;
    };
    let reference = registry.reference("lines:latest");
    let file = place.beside("lines.wasm", &Plugin::new("lines"));
    ada.sign(&file);
    assert_eq!(place.works(&["plugin", "push", text(&file), &reference])["has_signature"], true);
    let user = Place::new();
    let eves = ["plugin", "install", &reference, "--key", &eve.key()];
    assert_contains(&user.refused(3, &eves), &["made with another key"]);
    let adas = ["plugin", "install", &reference, "--key", &ada.key()];
    assert_eq!(user.works(&adas)["plugins"][0]["signer"], ada.key());
    place.beside("lines.wasm", &Plugin::new("lines").version("0.2.0"));
    eve.sign(&file);
    place.works(&["plugin", "push", text(&file), &reference]);
    assert_contains(
        &user.refused(3, &["plugin", "update"]),
        &["made with another key", "--accept-signer"],
    );
    assert_eq!(user.go("lines").status, 0);
}

#[test]
fn a_private_registry_gets_the_password_of_docker_login() {
    let place = Place::new();
    let Some(registry) = Registry::start(&place, true) else { return };
    let reference = registry.reference("lines:1");
    let file = place.beside("lines.wasm", &Plugin::new("lines"));
    let push = ["plugin", "push", text(&file), &reference];
    let login = format!("`docker login {}`", registry.address);
    assert_contains(&place.refused(1, &push), &["requires authentication", &login]);
    let docker = place.home_file(".docker");
    fs::create_dir(&docker).unwrap();
    for (auth, outcome) in [
        // ada:wrong, ada:secret
        ("YWRhOndyb25n", Err("permission denied (401 Unauthorized)")),
        ("YWRhOnNlY3JldA==", Ok(())),
    ] {
        let config = json!({"auths": {registry.address.to_string(): {"auth": auth}}});
        fs::write(docker.join("config.json"), config.to_string()).unwrap();
        match outcome {
            Ok(()) => {
                place.works(&push);
                place.works(&["plugin", "install", &reference]);
            }
            Err(why) => {
                let said = place.refused(1, &push);
                assert_contains(&said, &[why]);
                assert!(!said.contains("wrong") && !said.contains(auth), "{said}");
            }
        }
    }
}

#[test]
fn a_registry_with_wrong_digests_is_refused() {
    let plugin = Plugin::new("lines").bytes();
    let digest = Digest::of(&plugin);
    let layer = |media_type: &str, digest: &str, size: u64| json!({"mediaType": media_type, "digest": digest, "size": size});
    let right = layer("application/wasm", &digest.to_string(), plugin.len() as u64);
    let manifest =
        |layers: serde_json::Value| json!({"schemaVersion": 2, "layers": layers}).to_string();
    for (document, status, why) in [
        (manifest(json!([])), 1, "0 layers, where a plugin is one"),
        (manifest(json!([right, right])), 1, "2 layers"),
        (
            manifest(json!([layer("text/html", &digest.to_string(), 1)])),
            1,
            "its content is text/html",
        ),
        (manifest(json!([layer("application/wasm", "sha256:../../x", 1)])), 1, "is no digest"),
        (
            manifest(json!([layer("application/wasm", &digest.to_string(), 1 << 40)])),
            2,
            "more than 67108864 bytes",
        ),
        (
            manifest(json!([layer("application/wasm", &Digest::of(b"").to_string(), 0)])),
            3,
            "it has sha256:",
        ),
        ("<html>".to_owned(), 1, "its manifest: expected value"),
        (manifest(json!([right])), 0, ""),
    ] {
        let (served, content) = (document.clone(), plugin.clone());
        let server = Server::plain(move |head| {
            if path(head).contains("/manifests/") {
                answer("200 OK", "", served.as_bytes())
            } else {
                answer("200 OK", "", &content)
            }
        });
        let place = Place::new();
        let reference = format!("oci://{}/lines:1", server.address());
        let ended = place.run(&["plugin", "install", &reference]);
        assert_eq!(ended.status, status, "{document}: {ended:?}");
        assert_contains(&ended.stderr, &[why]);
        assert_eq!(place.stored().len(), usize::from(status == 0));
        // A manifest that is requested by digest must have that digest.
        let fixed = format!("oci://{}/lines@{}", server.address(), Digest::of(b"other"));
        assert_contains(&place.refused(3, &["plugin", "install", &fixed]), &["was asked for"]);
    }
}

#[test]
fn a_token_is_requested_from_the_registrys_realm() {
    let plugin = Plugin::new("lines").bytes();
    let digest = Digest::of(&plugin).to_string();
    let manifest =
        json!({"layers": [{"mediaType": "application/wasm", "digest": digest, "size": 1}]});
    let tokens = Server::plain(|head| {
        // ada:secret
        let knows = head.contains("uthorization: Basic YWRhOnNlY3JldA==");
        let body = if knows { r#"{"token": "t0k3n"}"# } else { r#"{"errors": []}"# };
        answer(if knows { "200 OK" } else { "401 Unauthorized" }, "", body.as_bytes())
    });
    let realm = format!("http://{}/token", tokens.address());
    let store = Server::plain(move |_| answer("200 OK", "", &plugin));
    let elsewhere = format!("location: http://{}/content\r\n", store.address());
    let registry = Server::plain(move |head| {
        if !head.contains("uthorization: Bearer t0k3n") {
            let challenge =
                format!("www-authenticate: Bearer realm=\"{realm}\",service=\"of a test\"\r\n");
            return answer("401 Unauthorized", &challenge, b"");
        }
        match path(head) {
            "/v2/lines/manifests/1" => answer("200 OK", "", manifest.to_string().as_bytes()),
            _ => answer("307 Temporary Redirect", &elsewhere, b""),
        }
    });
    let place = Place::new();
    let reference = format!("oci://{}/lines:1", registry.address());
    // Without a password; but a registry may not name addresses of this machine or its network.
    let words = format!("http://{} has no public address", tokens.address());
    assert_contains(&place.refused(1, &["plugin", "install", &reference]), &[&words]);
    assert!(tokens.asked().is_empty());
    let docker = place.home_file("config.json");
    let auths = json!({"auths": {registry.address().to_string(): {"username": "ada", "password": "secret"}}});
    fs::write(docker, auths.to_string()).unwrap();
    let install = || {
        let mut command = place.command(&["plugin", "install", &reference]);
        Ended::of(command.env("DOCKER_CONFIG", place.home()))
    };
    // A registry names where the password is sent, so the user's settings have to allow that.
    let before = tokens.asked().len();
    let ended = install();
    let words = format!("`tokens = 'http://{}'` below", tokens.address());
    assert_contains(&ended.stderr, &["asks to send your password for it to", &words]);
    assert_eq!((ended.status, tokens.asked().len()), (1, before));
    let settings =
        format!("[registries.'{}']\ntokens = 'http://{}'\n", registry.address(), tokens.address());
    configure(&place, &settings);
    let ended = install();
    let words = format!("http://{} has no public address", store.address());
    assert_contains(&ended.stderr, &[&words, "`content = ["]);
    assert_eq!((ended.status, store.asked().len()), (1, 0));
    configure(&place, &format!("{settings}content = ['http://{}']\n", store.address()));
    let ended = install();
    assert_eq!(ended.status, 0, "{ended:?}");
    // If blobs are stored on another server, that server does not get the token.
    let asked = store.asked();
    assert!(!asked.is_empty());
    for content in asked {
        assert!(content.starts_with("GET /content ") && !content.contains("uthorization"));
    }
    let asked = tokens.lines();
    let wanted = "GET /token?scope=repository:lines:pull&service=of%20a%20test HTTP/1.1";
    assert_eq!(asked.last().map(String::as_str), Some(wanted));
}

/// A program that keeps the user's credentials, as Docker Desktop and keyrings bring one.
#[test]
fn credential_helpers_are_asked() {
    let plugin = Plugin::new("lines").bytes();
    let digest = Digest::of(&plugin).to_string();
    let manifest =
        json!({"layers": [{"mediaType": "application/wasm", "digest": digest, "size": 1}]});
    let registry = Server::plain(move |head| match path(head) {
        // ada:secret
        _ if !head.contains("uthorization: Basic YWRhOnNlY3JldA==") => {
            answer("401 Unauthorized", "www-authenticate: Basic realm=\"x\"\r\n", b"")
        }
        "/v2/lines/manifests/1" => answer("200 OK", "", manifest.to_string().as_bytes()),
        _ => answer("200 OK", "", &plugin),
    });
    let place = Place::new();
    let reference = format!("oci://{}/lines:1", registry.address());
    let asked = place.home_file("asked");
    for (prints, status, why) in [
        ("echo credentials not found in native keychain; exit 1", 1, "requires authentication"),
        ("printf 'locked \\033[31m'; exit 1", 1, "locked \\u{1b}[31m"),
        ("echo nonsense", 1, "malformed"),
        (r#"echo '{"Username": "<token>", "Secret": "secret"}'"#, 1, "requires authentication"),
        (r#"echo '{"Username": "ada", "Secret": "wrong"}'"#, 1, "permission denied"),
        (r#"echo '{"Username": "ada", "Secret": "secret"}'"#, 0, "is not signed"),
    ] {
        let body = format!("echo $1 >{0}; cat >>{0}; {prints}", asked.display());
        place.script("docker-credential-test", &body);
        for config in [
            json!({"credHelpers": {registry.address().to_string(): "test"}}),
            json!({"auths": {registry.address().to_string(): {}}, "credsStore": "test"}),
        ] {
            fs::write(place.home_file("config.json"), config.to_string()).unwrap();
            let mut command = place.command(&["plugin", "install", &reference]);
            let path = format!("{}:/usr/bin:/bin", place.home().display());
            command.env("DOCKER_CONFIG", place.home()).env("PATH", path);
            let ended = Ended::of(&mut command);
            assert_eq!(ended.status, status, "{prints}: {ended:?}");
            assert_contains(&ended.stderr, &[why]);
            assert!(!ended.stderr.contains("secret"), "{ended:?}");
            let asked = fs::read_to_string(&asked).unwrap();
            assert_eq!(asked, format!("get\n{}", registry.address()));
            if status == 0 {
                place.works(&["plugin", "remove", "lines", "--everywhere"]);
            }
        }
    }
}
