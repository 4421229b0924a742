//! Runs the conformance kit on all linters, and lists and compares them.

use serde_json::Value;

use super::{configure_programs, is_missing, project};
use crate::support::{Place, built};

/// Runs the conformance kit on the linters of one plugin.
fn conform(plugin: &str) {
    let place = Place::new();
    configure_programs(&place, "");
    let ended = place.run(&["plugin", "test", plugin]);
    let document = ended.json();
    for tried in document["tried"].as_array().unwrap() {
        let backend = tried["backend"].as_str().unwrap();
        if !tried["unavailable"].is_null() {
            assert!(backend == "golangci-lint" && is_missing(backend), "{tried:#}");
            continue;
        }
        assert_eq!(tried["wrong"], Value::Array(Vec::new()), "{backend}: {:#}", tried["wrong"]);
        assert!(tried["right"].as_array().unwrap().len() >= 20, "{tried:#}");
    }
    assert_eq!(ended.status, 0, "{ended:?}");
}

#[test]
fn the_ruff_plugin_conforms() {
    conform("ruff");
}

#[test]
fn the_ty_plugin_conforms() {
    conform("ty");
}

#[test]
fn the_deno_lint_plugin_conforms() {
    conform("deno_lint");
}

#[test]
fn the_pyflakes_plugin_conforms() {
    conform_if_built("pyflakes");
}

#[test]
fn the_eslint_plugin_conforms() {
    conform_if_built("eslint");
}

/// Plugins in Python and JavaScript are built only if their languages are available.
fn conform_if_built(plugin: &str) {
    if built().join("plugins").join(format!("{plugin}.wasm")).is_file() {
        conform(plugin);
    } else {
        super::print_skipped(&format!("{plugin} was not built on this machine"));
    }
}

#[test]
fn native_linters_conform() {
    conform("native-linters");
}

#[test]
fn backends_are_listed_and_compared() {
    let place = project("python", "[linters]\npython = ['pylint', 'ruff']");
    let listed = place.run(&["backend", "list"]);
    assert_eq!(listed.status, 0, "{listed:?}");
    let document = listed.json();
    let backends = document["backends"].as_array().unwrap();
    let linters: Vec<&str> = backends
        .iter()
        .filter(|backend| backend["languages"] == serde_json::json!(["python"]))
        .map(|backend| backend["name"].as_str().unwrap())
        .collect();
    assert_eq!(linters[..2], ["pylint", "ruff"], "{linters:?}");
    let of = |name: &str| backends.iter().find(|backend| backend["name"] == name).unwrap();
    assert!(of("pylint")["version"].is_string(), "{}", of("pylint"));
    assert_eq!(of("pylint")["chosen_for"][0], "python");
    if is_missing("golangci-lint") {
        assert!(of("golangci-lint")["unusable"].is_string(), "{}", of("golangci-lint"));
    }

    let compared = place.run(&["backend", "compare", "ruff", "pylint", "shop"]);
    assert_eq!(compared.status, 0, "{compared:?}");
    let document = compared.json();
    let [ruff, pylint] = document["compared"].as_array().unwrap().as_slice() else { panic!() };
    assert!(ruff["again_ms"].as_f64().unwrap() > 0.0);
    assert!(document["lines_in_both"].as_u64().unwrap() > 0, "{document:#}");
    assert!(pylint["only_here"].as_array().is_some() && ruff["findings"].as_u64().unwrap() > 0);
    let unknown = place.run(&["backend", "compare", "ruff", "no-such", "shop"]);
    assert_eq!(unknown.status, 2, "{unknown:?}");
    assert!(
        unknown.stdout.contains("no-such") || unknown.stderr.contains("no-such"),
        "{unknown:?}"
    );
}
