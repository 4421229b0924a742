//! Attacks by a workspace, by a plugin, or by another process with access to the store.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::{Plugin, assert_contains};
use crate::support::Place;
use crate::trial::configure;

/// A place where `lines` is installed with files = "read".
fn installed() -> Place {
    let place = Place::new();
    let file = place.beside("lines.wasm", &reading());
    place.works(&["plugin", "install", file.to_str().unwrap(), "--grant", "files=read"]);
    place
}

fn reading() -> Plugin {
    Plugin::new("lines").requests(json!({"files": "read"}))
}

#[test]
fn a_lock_that_lies_is_refused() {
    let place = installed();
    let lock = place.read("cofferdam.lock");
    let zeros = format!("sha256:{}", "0".repeat(64));
    let digest = lock.lines().find(|line| line.starts_with("digest = ")).unwrap();
    let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
    for (lie, status, why) in [
        (
            lock.replace(digest, &format!("digest = \"{zeros}\"")),
            3,
            "is another file than those that you have installed",
        ),
        (
            lock.replace(digest, &format!("{digest}\nsigner = \"{key}\"")),
            3,
            "it would be signed by RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3, and was unsigned",
        ),
        (
            lock.replace("files = \"read\"", "files = \"none\""),
            3,
            "it requests files=read, and not files=none",
        ),
        (
            lock.replace("version = \"0.1.0\"", "version = \"9.0.0\""),
            3,
            "its version is 0.1.0, and not 9.0.0",
        ),
        (
            lock.replace("cofferdam:tool@0.1.0", "wasi:io@0.2.6"),
            3,
            "it imports cofferdam:tool@0.1.0, and not wasi:io@0.2.6",
        ),
        (lock.replace("version = 1", "version = 7"), 2, "has version 7"),
        (lock.replace("plugins.lines", "plugins.\"../lines\""), 2, "'../lines' is not of the form"),
        (format!("{lock}\n[grants.lines]\nfiles = 'write'\n"), 2, "unknown field `grants`"),
        ("nonsense".to_owned(), 2, "cofferdam.lock: TOML parse error"),
    ] {
        assert_ne!(lie, lock);
        place.write("cofferdam.lock", &lie);
        let ended = place.go("lines");
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{lie}: {ended:?}");
        assert_contains(&ended.stderr, &[why]);
    }
    // The grants in the lock file have no effect.
    place.write(
        "cofferdam.lock",
        lock.replace(
            "[plugins.lines.granted]\nfiles = \"read\"",
            "[plugins.lines.granted]\nfiles = \"write\"",
        ),
    );
    let explained = place.works(&["policy", "explain", "lines"]);
    assert_eq!(explained["capabilities"].as_array().unwrap().len(), 1);
    // A lock file with wrong requests is corrected by installing again.
    place.write("cofferdam.lock", lock.replace("files = \"read\"", "files = \"none\""));
    place.works(&["plugin", "install", "lines"]);
    assert_eq!(place.lock()["plugins"]["lines"]["requests"]["files"].as_str(), Some("read"));
}

#[test]
fn another_plugins_file_under_a_trusted_name_is_refused() {
    let place = installed();
    let other = place.beside("other.wasm", &Plugin::new("other"));
    place.works(&["plugin", "install", other.to_str().unwrap()]);
    let lock = place.read("cofferdam.lock");
    let digest = |name: &str| place.lock()["plugins"][name]["digest"].as_str().unwrap().to_owned();
    place.write("cofferdam.lock", lock.replace(&digest("lines"), &digest("other")));
    assert_contains(
        &place.go("lines").stderr,
        &["names a plugin 'lines' that you have not accepted"],
    );
}

#[test]
fn a_changed_file_of_the_store_is_refused_before_it_is_compiled() {
    let place = installed();
    assert_eq!(place.go("lines").status, 0);
    let [file] = place.stored().try_into().unwrap();
    let code = || fs::read_dir(place.home().join(".cache/cofferdam/code")).unwrap().count();
    let before = code();
    // A valid plugin, and a file that would not compile.
    for bytes in [Plugin::new("lines").version("6.6.6").bytes(), b"\0asm".to_vec()] {
        fs::write(&file, bytes).unwrap();
        let ended = place.go("lines");
        assert_eq!(ended.status, 3, "{ended:?}");
        assert_contains(
            &ended.stderr,
            &["the file of the plugin 'lines' was changed", "`cofferdam plugin install lines`"],
        );
        assert_eq!(code(), before);
    }
    assert_eq!(place.works(&["plugin", "install"])["plugins"][0]["state"], "installed");
    assert_eq!(place.go("lines").status, 0);
    fs::remove_file(&file).unwrap();
    assert_contains(&place.go("lines").stderr, &["the file of the plugin 'lines' is gone"]);
    // The source has another version by now.
    place.beside("lines.wasm", &reading().version("0.2.0"));
    assert_contains(
        &place.refused(3, &["plugin", "install"]),
        &["was asked for", "`cofferdam plugin update` takes that"],
    );
}

#[test]
fn a_store_that_others_can_enter_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = installed();
    let store = place.home().join(".local/share/cofferdam/plugins");
    fs::set_permissions(&store, fs::Permissions::from_mode(0o777)).unwrap();
    let ended = place.go("lines");
    assert_eq!(ended.status, 5, "{ended:?}");
    assert_contains(&ended.stderr, &["must belong to you and be closed to others"]);
}

#[test]
fn a_plugin_of_the_same_name_from_elsewhere_is_refused_and_inherits_nothing() {
    let place = installed();
    // In another workspace, a file at the same relative path.
    let hostile = place.home_file("hostile");
    fs::create_dir(&hostile).unwrap();
    let workspace = hostile.to_str().unwrap();
    let evil = reading().version("0.2.0").tool("steal", "is other");
    fs::write(hostile.join("lines.wasm"), evil.bytes()).unwrap();
    let file = hostile.join("lines.wasm");
    let install = ["-C", workspace, "plugin", "install", file.to_str().unwrap()];
    let why = place.refused(3, &install);
    assert_contains(
        &why,
        &[
            "'lines' is refused: it comes from",
            "nothing says that this is the same plugin",
            "--accept-source",
        ],
    );
    // A lock file that names it does not help, with any source.
    let mut lock = place.read("cofferdam.lock");
    let digest = place.lock()["plugins"]["lines"]["digest"].as_str().unwrap().to_owned();
    let named = place.home().join("lines.wasm");
    let evils = cofferdam_plugin::digest::Digest::of(&evil.bytes()).to_string();
    lock = lock.replace(&digest, &evils).replace(named.to_str().unwrap(), "./lines.wasm");
    fs::write(hostile.join("cofferdam.lock"), lock).unwrap();
    let ended = place.run(&["-C", workspace, "call", "lines.go"]);
    assert_eq!(ended.status, 3, "{ended:?}");
    assert_contains(
        &place.refused(3, &["-C", workspace, "plugin", "install"]),
        &["nothing says that this is the same plugin"],
    );
    // With --accept-source, the user decides again about all requests.
    let accepting = [&install[..], &["--accept-source"]].concat();
    assert_contains(&place.refused(3, &accepting), &["files=read: reading files", "no terminal"]);
    place.works(&[&accepting[..], &["--deny"]].concat());
    assert_eq!(place.settings(), "");
    // The former plugin has lost the name in every workspace, so that later grants under it are not
    // for both.
    assert_contains(
        &place.go("lines").stderr,
        &["names a plugin 'lines' that you have not accepted"],
    );
}

/// An entry with all fields of a plugin's grants.
const ENTRY: &str = "[grants.lines]\nfiles = 'write'\nprocess = ['git']\n\
    environment = ['GITHUB_TOKEN']\nbackends = ['linter']\ncache = true\nagents = ['*']\n\n\
    [[grants.lines.http]]\norigin = 'https://a.example'\n\
    headers = { Authorization = 'Bearer ${GITHUB_TOKEN}' }\naddress = '127.0.0.1:1'\n";

/// A plugin that requests everything in [`ENTRY`].
fn greedy() -> Plugin {
    Plugin::new("lines").requests(json!({
        "files": "write", "process": ["git"], "backends": ["linter"], "cache": true,
        "agents": ["*"], "http": ["https://a.example"],
    }))
}

#[test]
fn a_plugin_that_takes_over_a_name_gets_only_new_grants() {
    let place = Place::new();
    let old = place.beside("lines.wasm", &greedy());
    fs::create_dir(place.home_file("elsewhere")).unwrap();
    let new = place.beside("elsewhere/lines.wasm", &greedy().version("0.2.0"));
    let install = ["plugin", "install", new.to_str().unwrap()];
    let granting = ["--grant", "process=git", "--grant", "http=https://a.example"];
    let written = "[grants.lines]\nprocess = [\"git\"]\nhttp = [\"https://a.example\"]\n";
    for (options, wanted) in [
        // Variables and headers were for the former plugin.
        (&granting[..], written),
        (&["--grant", "cache"], "[grants.lines]\ncache = true\n"),
        (&["--grant", "agents=qa"], "[grants.lines]\nagents = [\"qa\"]\n"),
        (&["--grant", "files=read"], "[grants.lines]\nfiles = \"read\"\n"),
        (&["--deny"], ""),
    ] {
        place.works(&["plugin", "install", old.to_str().unwrap(), "--deny"]);
        configure(&place, ENTRY);
        assert_contains(&place.refused(3, &[&install[..], options].concat()), &["--accept-source"]);
        assert_eq!(place.settings(), ENTRY);
        let taken = place.run(&[&install[..], options, &["--accept-source"]].concat());
        assert_eq!(taken.status, 0, "{taken:?}");
        assert_contains(&taken.stderr, &["under [grants.lines] was not said of this plugin"]);
        assert_eq!(place.settings(), wanted, "{options:?}");
        place.works(&["plugin", "remove", "lines", "--everywhere"]);
    }
    // An entry that existed before the plugin was installed is not for this plugin.
    configure(&place, ENTRY);
    place.works(&[&install[..], &granting].concat());
    assert_eq!(place.settings(), written);
    // Installing the same plugin again keeps the fields of what stays granted.
    configure(&place, ENTRY);
    place.works(&[&install[..], &granting].concat());
    assert_contains(
        &place.settings(),
        &["environment = ['GITHUB_TOKEN']", "headers = { Authorization"],
    );
    for gone in ["cache", "agents", "backends", "files"] {
        assert!(!place.settings().contains(gone), "{}", place.settings());
    }
}

#[test]
fn a_new_version_that_requests_agents_or_a_cache_is_refused_until_accepted() {
    let place = installed();
    let more = json!({"files": "read", "cache": true, "agents": ["qa"]});
    place.beside("lines.wasm", &reading().version("0.2.0").requests(more));
    let newer = place.works(&["plugin", "update", "--dry-run"]);
    assert_eq!(newer["plugins"][0]["changes"]["requests_added"], json!(["cache", "agents=qa"]));
    assert_eq!(
        newer["plugins"][0]["asks_for"],
        json!([
            "keeping something from call to call",
            "giving tasks to your agent qa, which is not sandboxed",
        ])
    );
    assert_contains(&place.refused(3, &["plugin", "update"]), &["--grant cache --grant agents=qa"]);
    place.works(&["plugin", "update", "lines", "--grant", "cache"]);
    assert_eq!(place.settings(), "[grants.lines]\nfiles = \"read\"\ncache = true\n");
}

#[test]
fn the_name_of_a_built_in_plugin_is_refused() {
    let place = installed();
    let file = place.beside("files.wasm", &Plugin::new("files"));
    let why = place.refused(3, &["plugin", "install", file.to_str().unwrap()]);
    assert_contains(
        &why,
        &["it calls itself 'files', and that is a plugin that came with the host"],
    );
    // Nor by a lock file that gives this name to an accepted file.
    let lock = place.read("cofferdam.lock");
    place.write("cofferdam.lock", lock.replace("plugins.lines", "plugins.files"));
    let ended = place.run(&["tools", "--brief"]);
    assert_contains(&ended.stderr, &["left out: files"]);
    assert_contains(
        &place.refused(3, &["plugin", "install"]),
        &["it calls itself 'lines', and not 'files'"],
    );
    // A plugin that is not in the lock file and has the name of one that is.
    let again = place.beside("again.wasm", &reading());
    place.write("cofferdam.lock", &lock);
    let twice = place.run(&["--plugin", again.to_str().unwrap(), "tools"]);
    assert_contains(&twice.stderr, &["there is a plugin 'lines' already"]);
}

#[test]
fn a_path_that_leads_out_is_refused() {
    let place = installed();
    let outside = place.home_file("lines.wasm");
    symlink(&outside, place.workspace().join("link.wasm")).unwrap();
    let lock = place.read("cofferdam.lock");
    let [file] = place.stored().try_into().unwrap();
    fs::remove_file(file).unwrap();
    let source = outside.to_str().unwrap();
    for (named, status, why) in [
        ("./link.wasm", 2, "it leads out of the workspace"),
        ("../home/lines.wasm", 2, "no '..'"),
        ("./../home/lines.wasm", 2, "no '..'"),
        ("lines.wasm", 2, "begins with ./"),
        ("/dev/zero", 2, "no regular file"),
    ] {
        place.write("cofferdam.lock", lock.replace(source, named));
        assert_contains(&place.refused(status, &["plugin", "install"]), &[why]);
    }
    fs::remove_file(place.workspace().join("cofferdam.lock")).unwrap();
    symlink("/etc/passwd", place.workspace().join("cofferdam.lock")).unwrap();
    let ended = place.run(&["tools"]);
    assert_ne!(ended.status, 0, "{ended:?}");
    assert!(!ended.stderr.contains("root:"), "{ended:?}");
}

#[test]
fn no_tool_writes_the_lock() {
    let place = installed();
    let lock = place.read("cofferdam.lock");
    let args = json!({"path": "cofferdam.lock", "content": ""}).to_string();
    let ended = place.run(&["call", "files.write_file", &args]);
    assert_ne!(ended.status, 0, "{ended:?}");
    assert_eq!(place.read("cofferdam.lock"), lock);
}
