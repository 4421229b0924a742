//! Plugins that were built for each version of the interfaces, once and never again
//! (`tests/frozen/README.md`).

use std::fs;

use cofferdam_core::outcome::{Outcome, Status};
use cofferdam_engine::runtime::served;
use serde_json::json;
use tracing::Level;

use crate::hostile::component::Packed;
use crate::support::{Place, project};
use crate::trial::{Trial, assert_failed};

/// The packed plugin that was frozen at a version.
fn frozen(version: &str) -> Packed {
    let file = project().join("tests/frozen").join(version).join("frozen.wasm");
    Packed::from_bytes(&fs::read(file).unwrap())
}

#[test]
fn plugins_of_the_first_version_are_loaded_and_called() {
    let place = Place::new();
    place.write("poem.txt", "one\ntwo\nthree\n");
    let settings = "[grants.frozen]\nfiles = 'write'\n";
    let trial = Trial::with(place, vec![frozen("0.1.0")], settings);
    let count = |path: &str| trial.call("frozen.count", json!({"path": path, "to": "lines.txt"}));
    assert_eq!(count("poem.txt"), Outcome::Executed(json!({"lines": 3, "executable": false})));
    assert_eq!(trial.place.read("lines.txt"), "3\n");
    let said = trial.heard.messages.lock().unwrap().clone();
    let workspace = trial.place.workspace();
    let wanted = format!("poem.txt has 3 lines in {}", workspace.display());
    assert_eq!(said, [(Level::INFO, wanted)]);
    assert_failed(count("missing"), Status::Error, "FileNotFound", "missing: ");

    // Without a grant it gets the same errors as before.
    let trial = Trial::with(Place::new(), vec![frozen("0.1.0")], "");
    let args = json!({"path": "poem.txt", "to": "lines.txt"});
    assert_failed(trial.call("frozen.count", args), Status::Denied, "NotGranted", "files");
}

/// Each interface version that the host serves has a frozen plugin.
#[test]
fn every_served_interface_version_has_a_frozen_plugin() {
    let ours = served().filter(|name| name.starts_with("cofferdam:"));
    let mut versions: Vec<&str> = ours.filter_map(|name| Some(name.split_once('@')?.1)).collect();
    versions.sort_unstable();
    versions.dedup();
    let folder = project().join("tests/frozen");
    let folders = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut frozen: Vec<String> = folders
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    frozen.sort_unstable();
    assert_eq!(frozen, versions);
}
