//! Attestations of plugins in registries: what is shown of them, what can be required, and hostile ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use cofferdam_plugin::digest::Digest;
use rcgen::KeyPair;
use serde_json::{Value, json};

use super::sigstore::{AFTER, Bundle, IDENTITY, ISSUER, SLSA, Sigstore};
use super::web::{answer, path};
use super::{Plugin, assert_contains};
use crate::http::server::Server;
use crate::support::{Ended, Place};
use crate::trial::configure;

const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// All tags of the workflow that makes the plugin.
const ANY_TAG: &str = "https://github.com/ada/lines/.github/workflows/release.yml@*";

/// The content of a registry with one repository, `lines`, by path.
#[derive(Clone, Default)]
struct Content(BTreeMap<String, Vec<u8>>);

impl Content {
    fn put(&mut self, kind: &str, name: &str, bytes: &[u8]) {
        self.0.insert(format!("/v2/lines/{kind}/{name}"), bytes.to_vec());
    }

    /// Adds content under its digest, and returns its descriptor.
    fn add(&mut self, kind: &str, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes).to_string();
        self.put(kind, &digest, bytes);
        json!({"mediaType": media_type, "digest": digest, "size": bytes.len()})
    }

    /// Publishes a plugin under a tag; returns the descriptor of its manifest.
    fn publish(&mut self, tag: &str, plugin: &Plugin) -> Value {
        let layer = self.add("blobs", "application/wasm", &plugin.bytes());
        let manifest = json!({"schemaVersion": 2, "layers": [layer]}).to_string();
        self.put("manifests", tag, manifest.as_bytes());
        self.add("manifests", MANIFEST, manifest.as_bytes())
    }

    /// Adds a bundle that refers to `subject`; returns its descriptor in the list of referrers.
    fn attach(&mut self, subject: &Value, bundle: &[u8]) -> Value {
        let layer = self.add("blobs", BUNDLE, bundle);
        let manifest = json!({"schemaVersion": 2, "artifactType": BUNDLE, "layers": [layer], "subject": subject});
        let mut descriptor = self.add("manifests", MANIFEST, manifest.to_string().as_bytes());
        descriptor["artifactType"] = json!(BUNDLE);
        descriptor
    }

    /// Lists the referrers of a manifest: in the registry's own list, or under the tag for it.
    fn list(&mut self, subject: &Value, referrers: &[Value], by_tag: bool) {
        let index = json!({"schemaVersion": 2, "manifests": referrers}).to_string();
        let digest = subject["digest"].as_str().unwrap();
        let (kind, name) = match by_tag {
            true => ("manifests", digest.replace(':', "-")),
            false => ("referrers", digest.to_owned()),
        };
        self.put(kind, &name, index.as_bytes());
    }

    fn serve(&self) -> Server {
        let content = self.0.clone();
        Server::plain(move |head| {
            let path = path(head).split('?').next().unwrap_or_default();
            match content.get(path) {
                Some(bytes) => answer("200 OK", "", bytes),
                None => answer("404 Not Found", "", b""),
            }
        })
    }
}

fn digest(descriptor: &Value) -> Digest {
    descriptor["digest"].as_str().unwrap().parse().unwrap()
}

/// A place whose user trusts the Sigstore of the test.
fn place(sigstore: &Sigstore) -> Place {
    let place = Place::new();
    let root: PathBuf = place.home_file("trusted_root.json");
    fs::write(&root, sigstore.trusted_root()).unwrap();
    configure(&place, &format!("[sigstore]\ntrusted-root = '{}'\n", root.display()));
    place
}

fn install(place: &Place, server: &Server, more: &[&str]) -> Ended {
    let reference = format!("oci://{}/lines:1", server.address());
    place.run(&[&["plugin", "install", &reference, "--deny"], more].concat())
}

fn require(identity: &str) -> [&str; 4] {
    ["--require-identity", identity, "--issuer", ISSUER]
}

#[test]
fn attestations_are_shown_and_can_be_required() {
    let sigstore = Sigstore::new();
    for by_tag in [false, true] {
        let mut content = Content::default();
        let subject =
            content.publish("1", &Plugin::new("lines").requests(json!({"files": "read"})));
        let bundle = sigstore.bundle(digest(&subject), &Bundle::default()).to_string();
        let referrer = content.attach(&subject, bundle.as_bytes());
        content.list(&subject, &[referrer], by_tag);
        let server = content.serve();

        let user = place(&sigstore);
        let ended = install(&user, &server, &[]);
        assert_eq!(ended.status, 0, "{ended:?}");
        assert_contains(&ended.stderr, &["has attestations", "--require-identity"]);
        let wanted = json!([{
            "identity": IDENTITY,
            "issuer": ISSUER,
            "signed_at": "2024-03-01T13:33:20Z",
            "predicate": SLSA,
            "builder": "https://github.com/actions/runner",
            "repository": "https://github.com/ada/lines",
            "commit": "8b3e2f0c1d4a5968778695a4b3c2d1e0f1234567",
        }]);
        assert_eq!(ended.json()["plugins"][0]["attestations"], wanted);
        assert_eq!(user.works(&["plugin", "inspect", "lines"])["attestations"], wanted);
        // The question shows them as well.
        let asked = place(&sigstore).run(&[
            "plugin",
            "install",
            &format!("oci://{}/lines:1", server.address()),
        ]);
        assert_eq!(asked.status, 3, "{asked:?}");
        assert_contains(&asked.stderr, &["attested: https://slsa.dev/provenance/v1 by", IDENTITY]);

        for identity in [IDENTITY, ANY_TAG] {
            let user = place(&sigstore);
            let ended = install(&user, &server, &require(identity));
            assert_eq!(
                (ended.status, ended.json()["plugins"][0]["identity"]["name"].as_str()),
                (0, Some(identity)),
                "{ended:?}"
            );
            assert!(!ended.stderr.contains("--require-identity"), "{ended:?}");
            let lock = &user.lock()["plugins"]["lines"]["identity"];
            assert_eq!(lock["name"].as_str(), Some(identity));
            assert_eq!(user.go("lines").status, 0);
        }
        // Without the setting, the public Sigstore is trusted, and this is another one.
        let ended = install(&Place::new(), &server, &[]);
        assert_eq!((ended.status, &ended.json()["plugins"][0]["attestations"]), (0, &json!([])));
        assert_contains(&ended.stderr, &["an attestation of lines is not verified"]);
    }
}

#[test]
fn another_identity_than_the_required_one_is_refused() {
    let sigstore = Sigstore::new();
    let mut content = Content::default();
    let subject = content.publish("1", &Plugin::new("lines"));
    let parts = Bundle { predicate: "https://spdx.dev/Document", ..Bundle::default() };
    let eve = "https://github.com/eve/lines/.github/workflows/release.yml@refs/tags/v1.0.0";
    let eves = Bundle { identity: eve, ..Bundle::default() };
    for (bundles, identity, issuer) in [
        (vec![], IDENTITY, ISSUER),
        (
            vec![Bundle::default()],
            "https://github.com/ada/lines/.github/workflows/release.yml@refs/heads/main",
            ISSUER,
        ),
        (vec![Bundle::default()], "https://github.com/ada/*", ISSUER),
        (vec![Bundle::default()], "*", ISSUER),
        (vec![Bundle::default()], IDENTITY, "https://issuer.example"),
        (vec![eves], IDENTITY, ISSUER),
        // It says what the plugin has in it, not who made it.
        (vec![parts], IDENTITY, ISSUER),
    ] {
        let mut content = content.clone();
        let bundles: Vec<String> = bundles
            .iter()
            .map(|says| sigstore.bundle(digest(&subject), says).to_string())
            .collect();
        let referrers: Vec<Value> =
            bundles.iter().map(|bundle| content.attach(&subject, bundle.as_bytes())).collect();
        content.list(&subject, &referrers, false);
        let (server, user) = (content.serve(), place(&sigstore));
        let ended = install(&user, &server, &["--require-identity", identity, "--issuer", issuer]);
        assert_eq!((ended.status, ended.stdout.as_str()), (3, ""), "{ended:?}");
        assert_contains(&ended.stderr, &["no attestation says that", identity]);
        assert!(user.stored().is_empty());
    }
    // Only registries have attestations.
    let user = place(&sigstore);
    let file = user.beside("lines.wasm", &Plugin::new("lines"));
    let refused = [&["plugin", "install", file.to_str().unwrap()][..], &require(IDENTITY)].concat();
    assert_contains(&user.refused(3, &refused), &["no attestation says", "it has none"]);
    assert_contains(&user.refused(2, &refused[..5]), &["--issuer"]);
}

/// Once required, an identity is required of all versions, also those that a lock file or another source names.
#[test]
fn a_required_identity_is_kept() {
    let sigstore = Sigstore::new();
    let mut content = Content::default();
    let subject = content.publish("1", &Plugin::new("lines"));
    let bundle = sigstore.bundle(digest(&subject), &Bundle::default()).to_string();
    let referrer = content.attach(&subject, bundle.as_bytes());
    content.list(&subject, &[referrer], false);
    let server = content.serve();
    let user = place(&sigstore);
    assert_eq!(install(&user, &server, &require(ANY_TAG)).status, 0);
    assert_eq!(user.works(&["plugin", "update"])["plugins"][0]["state"], "unchanged");

    // A new version without an attestation, from another address.
    let file = user.beside("lines.wasm", &Plugin::new("lines").version("2.0.0"));
    let from_file = ["plugin", "install", file.to_str().unwrap(), "--deny"];
    let said = user.refused(3, &from_file);
    assert_contains(&said, &["no attestation says that", ANY_TAG, "--accept-signer"]);
    // A lock file that does not name the identity is refused, and so is one that names another.
    let lock = user.read("cofferdam.lock");
    let table = lock.split("\n\n").find(|part| part.contains(".identity]")).unwrap();
    for (changed, why) in [
        (lock.replace(table, ""), "its maker would be anyone"),
        (lock.replace("@*", "@refs/heads/main"), "its maker would be https://github.com/ada/lines"),
    ] {
        user.write("cofferdam.lock", changed);
        let ended = user.go("lines");
        assert_eq!(ended.status, 3, "{ended:?}");
        assert_contains(&ended.stderr, &[why]);
    }
    user.write("cofferdam.lock", &lock);
    assert_eq!(user.go("lines").status, 0);
    // Another user gets the identity from the lock file, and it is checked there.
    let other = place(&sigstore);
    other.works(&["plugin", "install", &format!("oci://{}/lines:1", server.address()), "--deny"]);
    other.write("cofferdam.lock", &lock);
    assert_eq!(other.go("lines").status, 3);
    other.works(&["plugin", "install", "--deny"]);
    assert_eq!(other.go("lines").status, 0);
    // A person can go on without it.
    user.works(&[&from_file[..], &["--accept-signer", "--accept-source"]].concat());
    assert!(user.lock()["plugins"]["lines"].get("identity").is_none());
}

/// None of these is shown as provenance, and none satisfies a required identity.
#[test]
fn hostile_attestations_are_not_verified() {
    let sigstore = Sigstore::new();
    let mut content = Content::default();
    let subject = content.publish("1", &Plugin::new("lines"));
    let other = Digest::of(b"another artefact");
    let good = || sigstore.bundle(digest(&subject), &Bundle::default());
    let with = |says: &Bundle<'_>| sigstore.bundle(digest(&subject), says).to_string().into_bytes();
    let altered = |pointer: &str, to: &str| {
        let mut bundle = good();
        *bundle.pointer_mut(pointer).unwrap() = json!(to);
        bundle.to_string().into_bytes()
    };
    let signature = good()["dsseEnvelope"]["signatures"][0]["sig"].as_str().unwrap().to_owned();
    let mallory = KeyPair::generate().unwrap();
    let entry = "/verificationMaterial/tlogEntries/0";
    let deep = format!("{{\"a\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000)).into_bytes();
    for (bundle, why) in [
        (sigstore.bundle(other, &Bundle::default()).to_string().into_bytes(), "artifact mismatch"),
        (altered("/dsseEnvelope/signatures/0/sig", &signature), "invalid signature"),
        (with(&Bundle { time: AFTER, ..Bundle::default() }), "CertExpired"),
        (with(&Bundle { time: 4_000_000_000, ..Bundle::default() }), "future"),
        (with(&Bundle { log: Some(&mallory), ..Bundle::default() }), "inclusion promise"),
        (Sigstore::new().bundle(digest(&subject), &Bundle::default()).to_string().into_bytes(), ""),
        (altered(&format!("{entry}/integratedTime"), "1709300001"), "inclusion promise"),
        (altered(&format!("{entry}/canonicalizedBody"), "e30="), ""),
        (altered("/mediaType", "application/x"), ""),
        (b"".to_vec(), "EOF"),
        (b"\xff\xfe".to_vec(), "utf-8"),
        (deep, "recursion limit"),
        (vec![b' '; (512 << 10) + 1], "more than 524288 bytes"),
    ] {
        let mut content = content.clone();
        let referrer = content.attach(&subject, &bundle);
        content.list(&subject, &[referrer], false);
        assert_unverified(&sigstore, &content, why);
    }
}

/// The plugin is installed without provenance, and not installed if an identity is required.
fn assert_unverified(sigstore: &Sigstore, content: &Content, why: &str) {
    let server = content.serve();
    let ended = install(&place(sigstore), &server, &[]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let plugin = &ended.json()["plugins"][0];
    assert_eq!(plugin["attestations"], json!([]), "{why}");
    assert_eq!(plugin["unverified"].as_array().unwrap().len(), 1, "{plugin}");
    assert_contains(&ended.stderr, &["an attestation of lines is not verified", why]);
    let required = install(&place(sigstore), &server, &require(IDENTITY));
    assert_eq!((required.status, required.stdout.as_str()), (3, ""), "{required:?}");
    assert_contains(&required.stderr, &["no attestation says that", "not verified", why]);
}

#[test]
fn hostile_lists_of_attestations_are_bounded() {
    let sigstore = Sigstore::new();
    let mut content = Content::default();
    let subject = content.publish("1", &Plugin::new("lines"));
    let bundle = sigstore.bundle(digest(&subject), &Bundle::default()).to_string();

    // A good bundle, whose manifest names another subject.
    let mut elsewhere = content.clone();
    let other = elsewhere.publish("2", &Plugin::new("other"));
    let referrer = elsewhere.attach(&other, bundle.as_bytes());
    elsewhere.list(&subject, &[referrer], false);
    assert_unverified(&sigstore, &elsewhere, "about another artefact");
    // A blob that is not what the manifest names.
    let mut swapped = content.clone();
    let referrer = swapped.attach(&subject, bundle.as_bytes());
    swapped.put("blobs", &Digest::of(bundle.as_bytes()).to_string(), b"{}");
    swapped.list(&subject, std::slice::from_ref(&referrer), false);
    assert_unverified(&sigstore, &swapped, "was asked for");
    // What is no list, or has no end.
    for list in [b"<html>".to_vec(), b"{\"manifests\": 1}".to_vec(), vec![b' '; (4 << 20) + 1]] {
        let mut malformed = content.clone();
        malformed.put("referrers", &digest(&subject).to_string(), &list);
        malformed.put("manifests", &digest(&subject).to_string().replace(':', "-"), &list);
        assert_unverified(&sigstore, &malformed, "they can't be listed");
    }
    // More than are read: the good one is the 17th.
    let mut many = content.clone();
    let mut referrers: Vec<Value> = (0..16)
        .map(|number| many.attach(&subject, format!("{{\"n\": {number}}}").as_bytes()))
        .collect();
    referrers.push(many.attach(&subject, bundle.as_bytes()));
    many.list(&subject, &referrers, false);
    let server = many.serve();
    let ended = install(&place(&sigstore), &server, &[]);
    assert_eq!(ended.json()["plugins"][0]["attestations"], json!([]));
    assert_contains(&ended.stderr, &["1 more are not read, after the first 16"]);
    assert_eq!(install(&place(&sigstore), &server, &require(IDENTITY)).status, 3);
    // Among others, it is found.
    let mut few = content.clone();
    let other = few.attach(&subject, b"{}");
    let mut foreign = referrer.clone();
    foreign["artifactType"] = json!("application/spdx+json");
    let good = few.attach(&subject, bundle.as_bytes());
    few.list(&subject, &[other, foreign, good], false);
    assert_eq!(install(&place(&sigstore), &few.serve(), &require(IDENTITY)).status, 0);
}
