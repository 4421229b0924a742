//! Signatures by minisign itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Plugin, assert_contains};
use crate::mcp::http::call;
use crate::mcp::server::{SERVE, Server};
use crate::programs;
use crate::support::Place;
use crate::trial::configure;

/// A signer, with a key pair.
pub struct Author {
    minisign: PathBuf,
    folder: PathBuf,
}

impl Author {
    /// Returns `None` on a machine without minisign.
    pub fn new(place: &Place, name: &str) -> Option<Self> {
        let author = Self { minisign: programs::find("minisign")?, folder: place.home_file(name) };
        fs::create_dir(&author.folder).unwrap();
        author.run(&["-G", "-W", "-p", "key.pub", "-s", "key"]);
        Some(author)
    }

    #[expect(clippy::disallowed_methods, reason = "minisign is what the host is compared with")]
    fn run(&self, args: &[&str]) {
        let mut command = Command::new(&self.minisign);
        command.args(args).current_dir(&self.folder).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    /// The file with the public key.
    pub fn key_file(&self) -> String {
        self.folder.join("key.pub").to_str().unwrap().to_owned()
    }

    /// The public key itself.
    pub fn key(&self) -> String {
        fs::read_to_string(self.key_file()).unwrap().lines().nth(1).unwrap().to_owned()
    }

    pub fn sign(&self, file: &Path) {
        self.run(&["-S", "-s", "key", "-m", file.to_str().unwrap()]);
    }
}

/// A place with two authors and an unsigned plugin; `None` if nothing signs on this machine.
fn two_authors() -> Option<(Place, Author, Author, PathBuf)> {
    let place = Place::new();
    let (ada, eve) = (Author::new(&place, "ada")?, Author::new(&place, "eve")?);
    let file = place.beside("lines.wasm", &Plugin::new("lines"));
    Some((place, ada, eve, file))
}

#[test]
fn a_signature_is_checked_with_the_key_that_the_user_names() {
    let Some((place, ada, eve, file)) = two_authors() else { return };
    let name = file.to_str().unwrap().to_owned();
    let install = ["plugin", "install", &name];
    let adas = ada.key_file();
    let with_key = [&install[..], &["--key", &adas]].concat();
    assert_contains(
        &place.refused(3, &with_key),
        &["there is no signature by RW", "lines.wasm.minisig"],
    );
    ada.sign(&file);
    // A signature without a known key proves nothing.
    let unchecked = place.run(&install);
    assert_contains(&unchecked.stderr, &["lines has a signature, and nobody has checked it"]);
    assert_eq!(unchecked.json()["plugins"][0]["signer"], serde_json::Value::Null);
    place.works(&["plugin", "remove", "lines", "--everywhere"]);
    assert_contains(
        &place.refused(3, &[&install[..], &["--key", &eve.key()]].concat()),
        &["made with another key than RW"],
    );
    assert_contains(
        &place.refused(2, &[&install[..], &["--key", "RWx"]].concat()),
        &["--key: 'RWx' is no public key"],
    );
    assert!(place.stored().is_empty());
}

#[test]
fn a_signer_is_pinned_and_another_one_is_refused() {
    let Some((place, ada, eve, file)) = two_authors() else { return };
    let name = file.to_str().unwrap().to_owned();
    let install = ["plugin", "install", &name];
    let adas = ada.key_file();
    let with_key = [&install[..], &["--key", &adas]].concat();
    ada.sign(&file);
    let installed = place.run(&with_key);
    assert_eq!((installed.status, installed.stderr.as_str()), (0, ""), "{installed:?}");
    assert_eq!(installed.json()["plugins"][0]["signer"], ada.key());
    assert_eq!(place.lock()["plugins"]["lines"]["signer"].as_str(), Some(ada.key().as_str()));
    let inspected = place.works(&["plugin", "inspect", &name]);
    assert_eq!(inspected["signer"], ada.key(), "the file that was installed");
    assert_eq!(place.works(&["plugin", "inspect", "lines"])["signer"], ada.key());

    assert_other_signatures_are_refused(&place, &eve, &file);

    // The next version by the pinned signer is installed without a question.
    ada.sign(&file);
    let updated = place.run(&["plugin", "update"]);
    assert_eq!((updated.status, updated.stderr.as_str()), (0, ""), "{updated:?}");
    // The user may accept another signer.
    let asking = json!({"process": ["git"], "http": ["https://a.example"]});
    place.beside("lines.wasm", &Plugin::new("lines").version("0.3.0").requests(asking));
    eve.sign(&file);
    configure(
        &place,
        "[grants.lines]\nprocess = ['git']\nenvironment = ['GITHUB_TOKEN']\ncache = true\n\
         agents = ['*']\n[[grants.lines.http]]\norigin = 'https://a.example'\n\
         headers = { Authorization = '${GITHUB_TOKEN}' }\n",
    );
    let granting = ["--accept-signer", "--grant", "process=git", "--grant=http=https://a.example"];
    let eve_file = eve.key_file();
    let eves = ["plugin", "update", "lines", "--key", &eve_file];
    let accepted = place.works(&[&eves[..], &granting].concat());
    // The grants, variables and headers of Ada's plugin do not apply to Eve's.
    assert_eq!(
        place.settings(),
        "[grants.lines]\nprocess = [\"git\"]\nhttp = [\"https://a.example\"]\n"
    );
    assert_eq!(
        accepted["plugins"][0]["changes"]["signer"],
        serde_json::json!([ada.key(), eve.key()])
    );
    // Eve's key is the pinned one from then on.
    place.beside("lines.wasm", &Plugin::new("lines").version("0.4.0"));
    ada.sign(&file);
    assert_contains(&place.refused(3, &["plugin", "update"]), &["made with another key"]);
}

/// Replaces the file of a plugin whose signer is pinned: unsigned versions and those of another
/// signer are refused, and the installed version stays.
fn assert_other_signatures_are_refused(place: &Place, eve: &Author, file: &Path) {
    let name = file.to_str().unwrap();
    // The file was changed without a new signature.
    place.beside("lines.wasm", &Plugin::new("lines").version("0.2.0"));
    let inspected = place.works(&["plugin", "inspect", name]);
    assert_eq!(inspected["signer"], serde_json::Value::Null, "another file");
    assert_contains(
        &place.refused(3, &["plugin", "update"]),
        &["is not one of this content: one of the two was changed"],
    );
    // It is signed with another key.
    eve.sign(file);
    assert_contains(
        &place.refused(3, &["plugin", "update"]),
        &["another key than RW", "--key KEY --accept-signer"],
    );
    let eves = ["plugin", "update", "lines", "--key", &eve.key_file()];
    assert_contains(
        &place.refused(3, &eves),
        &["'lines' is refused: it is signed by", "--accept-signer"],
    );
    // It is no longer signed.
    fs::remove_file(place.home().join("lines.wasm.minisig")).unwrap();
    assert_contains(
        &place.refused(3, &["plugin", "update"]),
        &["it is not signed, and what was accepted is", "--accept-signer"],
    );
    assert_contains(&place.refused(3, &["plugin", "install", name]), &["it is not signed"]);
    assert_eq!(place.lock()["plugins"]["lines"]["version"].as_str(), Some("0.1.0"));
    assert_eq!(place.go("lines").status, 0);
}

#[test]
fn a_lock_files_signer_is_checked_by_each_user() {
    let place = Place::new();
    let Some(ada) = Author::new(&place, "ada") else { return };
    place.write("lines.wasm", Plugin::new("lines").bytes());
    ada.sign(&place.workspace().join("lines.wasm"));
    place.works(&["plugin", "install", "lines.wasm", "--key", &ada.key()]);
    let other = Place::new();
    for file in ["cofferdam.lock", "lines.wasm"] {
        other.write(file, fs::read(place.workspace().join(file)).unwrap());
    }
    assert_contains(&other.refused(3, &["plugin", "install"]), &["there is no signature by RW"]);
    other.write("lines.wasm.minisig", place.read("lines.wasm.minisig"));
    let installed = other.works(&["plugin", "install"]);
    assert_eq!(installed["plugins"][0]["signer"], ada.key());
    // A lock file without the signer does not match what was installed.
    let line = format!("signer = \"{}\"\n", ada.key());
    other.write("cofferdam.lock", other.read("cofferdam.lock").replace(&line, ""));
    let ended = other.go("lines");
    assert_eq!(ended.status, 3, "{ended:?}");
    assert_contains(&ended.stderr, &["it would be unsigned, and was signed by RW"]);
    assert_contains(
        &other.refused(3, &["plugin", "install"]),
        &["it is not signed, and what was accepted is"],
    );
}

/// A publisher's signed list keeps the plugin from being installed and called.
#[test]
fn a_publisher_revokes_a_version() {
    let Some((place, ada, eve, file)) = two_authors() else { return };
    let name = file.to_str().unwrap().to_owned();
    ada.sign(&file);
    let install = ["plugin", "install", &name, "--key", &ada.key(), "--deny"];
    let digest = place.works(&install)["plugins"][0]["digest"].as_str().unwrap().to_owned();
    assert_eq!(place.go("lines").status, 0);

    let list = place.home_file("revoked.toml");
    let revoke = |author: Option<&Author>, digest: &str| {
        let text = format!("version = 1\n[revoked]\n\"{digest}\" = \"it loses lines\"\n");
        fs::write(&list, text).unwrap();
        let _ = fs::remove_file(place.home_file("revoked.toml.minisig"));
        if let Some(author) = author {
            author.sign(&list);
        }
    };
    let update = ["plugin", "update", "lines"];
    // Only the signer of the plugin can revoke it; a list that says something else is not passed over.
    for (author, why) in [(None, "not signed"), (Some(&eve), "another key than")] {
        revoke(author, &digest);
        assert_contains(&place.refused(3, &update), &["revoked.toml: ", why]);
        assert_eq!(place.go("lines").status, 0);
    }
    fs::write(&list, "version = 1\nall = true\n").unwrap();
    ada.sign(&list);
    assert_contains(&place.refused(3, &update), &["unknown field `all`"]);
    // A list about other versions changes nothing.
    revoke(Some(&ada), &format!("sha256:{}", "0".repeat(64)));
    assert_eq!(place.works(&update)["plugins"][0]["state"], "unchanged");

    revoke(Some(&ada), &digest);
    assert_contains(&place.refused(3, &update), &["revoked this version: it loses lines"]);
    let called = place.go("lines");
    assert_ne!(called.status, 0, "{called:?}");
    assert_contains(
        &called.stderr,
        &["lines is left out", "it loses lines", "plugin update lines"],
    );
    // Without its list, the version stays revoked; a new one is installed.
    fs::remove_file(&list).unwrap();
    assert_contains(&place.refused(3, &install), &["revoked this version"]);
    place.beside("lines.wasm", &Plugin::new("lines").version("0.2.0"));
    ada.sign(&file);
    assert_eq!(place.works(&update)["plugins"][0]["version"], "0.2.0");
    assert_eq!(place.go("lines").status, 0);
}

/// A running server leaves a revoked plugin out, also while what it was started from can't be read again. If it can't go on
/// without the plugin either, it stops.
#[test]
fn a_server_whose_lock_file_is_invalid_drops_a_revoked_plugin() {
    let Some((place, ada, _, file)) = two_authors() else { return };
    ada.sign(&file);
    let other = place.beside("other.wasm", &Plugin::new("other"));
    let name = file.to_str().unwrap().to_owned();
    let install = ["plugin", "install", &name, "--key", &ada.key(), "--deny"];
    let digest = place.works(&install)["plugins"][0]["digest"].as_str().unwrap().to_owned();
    let server = Server::started(&mut place.command(SERVE));
    let mut with_other = place.command(SERVE);
    let dependent = Server::started(with_other.args(["--plugin", other.to_str().unwrap()]));
    let calls = |server: &Server| server.ask(&call("/mcp/main", "lines__go", &json!({}))).2;
    for server in [&server, &dependent] {
        assert!(calls(server).contains("structuredContent"));
    }
    let clone = place.cloned("clone");
    place.write("cofferdam.lock", "no lock file");
    fs::write(&other, "no plugin").unwrap();
    for server in [&server, &dependent] {
        server.says("the server goes on as it was");
        assert!(calls(server).contains("structuredContent"));
    }
    let list = place.home_file("revoked.toml");
    fs::write(&list, format!("version = 1\n[revoked]\n\"{digest}\" = \"it loses lines\"\n"))
        .unwrap();
    ada.sign(&list);
    let again = [&["-C", &clone][..], &install[..]].concat();
    assert_contains(&place.refused(3, &again), &["revoked this version"]);
    server.says("lines is left out: its publisher has revoked this version (it loses lines)");
    let answer = calls(&server);
    assert!(answer.contains("-32602") && answer.contains("lines__go"), "{answer}");
    place.write("a.txt", "still read");
    let read = call("/mcp/main", "files__read_file", &json!({"path": "a.txt"}));
    assert!(server.ask(&read).2.contains("still read"));
    dependent.says("the server stops, since a revoked plugin can't be left out");
    assert!(dependent.ended().success());
}
