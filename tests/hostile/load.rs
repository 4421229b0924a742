//! Files that should not load, or that should not get what they request.

use std::fs;
use std::path::Path;

use cofferdam_core::outcome::{Outcome, Status};
use cofferdam_engine::host::OpenError;
use cofferdam_engine::runtime::Runtime;
use cofferdam_plugin::registry::RegistryError;
use serde_json::json;
use tempfile::TempDir;

use super::component::{Component, Packed, manifest};
use super::engine::ANSWER;
use crate::support::Place;
use crate::trial::{Trial, assert_failed, cache};

/// The host's refusal of a plugin file.
fn refusal(bytes: &[u8]) -> String {
    match Trial::open(Place::new(), vec![Packed::from_bytes(bytes)], "", cache()) {
        Err(error @ OpenError::Registry(RegistryError::Pack { .. })) => error.to_string(),
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was taken"),
    }
}

/// The outcome of a call of an unusual component.
fn call(component: &[u8], settings: &str) -> Outcome {
    Trial::new(Packed::new(component, &manifest()), settings).call("attack.go", json!({}))
}

/// An honest packed plugin.
fn honest() -> Vec<u8> {
    fs::read(Component::new(ANSWER).pack().path).unwrap()
}

/// The code that this host compiles a component to.
fn compiled(component: &[u8]) -> Vec<u8> {
    Runtime::new(1, None).unwrap().compile(component).unwrap()
}

/// Case 14.
#[test]
fn files_that_are_not_plugins_are_refused() {
    let module = wat::parse_str("(module (func (export \"call\")))").unwrap();
    let unpacked = Component::new(ANSWER).build();
    let executable = fs::read(std::env::current_exe().unwrap()).unwrap();
    for (bytes, wanted) in [
        (&b""[..], "not a WebAssembly component"),
        (b"\0asm", "not a WebAssembly component"),
        (&[0xde; 1000], "not a WebAssembly component"),
        (&executable[..10_000], "not a WebAssembly component"),
        (b"#!/bin/sh\necho\n", "not a WebAssembly component"),
        (&module, "a core WebAssembly module, not a component"),
        (&unpacked, "no manifest"),
    ] {
        let error = refusal(bytes);
        assert!(error.contains(wanted), "{error}");
    }
}

/// Case 14: truncated at any place.
#[test]
fn truncated_plugins_are_refused() {
    let honest = honest();
    for length in (0..honest.len()).step_by(97) {
        refusal(&honest[..length]);
    }
}

/// Case 14: damaged at any place, a file is refused or does no harm.
#[test]
fn damaged_plugins_do_no_harm() {
    let honest = honest();
    let (mut refused, mut failed) = (0, 0);
    for position in (8..honest.len()).step_by(11) {
        let mut damaged = honest.clone();
        damaged[position] ^= 0x55;
        let settings = "[limits]\ncall-ms = 1000\n";
        let call = |trial: Trial| trial.try_call(None, "attack.go", json!({})).ok();
        match Trial::open(Place::new(), vec![Packed::from_bytes(&damaged)], settings, cache())
            .map(call)
        {
            Err(_) | Ok(None) => refused += 1,
            Ok(Some(outcome)) => failed += u32::from(matches!(outcome, Outcome::Failed(_))),
        }
    }
    assert!(refused > 10 && failed > 10, "{refused} {failed}");
}

/// Case 15: machine code is never accepted from a plugin's author.
#[test]
fn compiled_code_is_not_accepted_as_a_plugin() {
    let code = compiled(&Component::new(ANSWER).build());
    assert!(refusal(&code).contains("not a WebAssembly component"));
}

/// Case 15: not even beside a plugin, as for built-in plugins.
#[test]
fn compiled_code_beside_a_plugin_is_ignored() {
    let packed = Component::new(ANSWER).pack();
    fs::write(packed.path.with_extension("cwasm"), compiled(&other())).unwrap();
    assert_eq!(Trial::new(packed, "").call("attack.go", json!({})), Outcome::Executed(json!({})));
}

/// A component whose calls fail.
fn other() -> Vec<u8> {
    Component::new("(call $fail (i32.const 0) (i32.const 2))").build()
}

/// Case 15: a process that can write to the cache can't make the host run code.
#[test]
fn a_tampered_cache_is_compiled_again() {
    let directory = TempDir::new().unwrap();
    let cache = directory.path().join("code");
    let call = || {
        let trial =
            Trial::open(Place::new(), vec![Component::new(ANSWER).pack()], "", cache.clone());
        trial.unwrap_or_else(|error| panic!("{error}")).call("attack.go", json!({}))
    };
    assert_eq!(call(), Outcome::Executed(json!({})));
    let file = only_code_in(&cache);
    let code = fs::read(&file).unwrap();

    let authentic_end = code[code.len() - 32..].to_vec();
    let other = compiled(&other());
    let flipped = |position: usize| {
        let mut code = code.clone();
        code[position] ^= 1;
        code
    };
    for tampered in [
        other.clone(),
        [other, authentic_end].concat(),
        flipped(code.len() / 2),
        flipped(code.len() - 1),
        code[..code.len() / 2].to_vec(),
        Vec::new(),
    ] {
        // Written to a new file: the previous host may still have the old one mapped into its
        // memory.
        let changed = file.with_extension("changed");
        fs::write(&changed, &tampered).unwrap();
        fs::rename(&changed, &file).unwrap();
        assert_eq!(call(), Outcome::Executed(json!({})));
        assert_eq!(fs::read(&file).unwrap().len(), code.len(), "it was compiled again");
    }
}

fn only_code_in(cache: &Path) -> std::path::PathBuf {
    let mut files: Vec<_> =
        fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "cwasm"));
    assert_eq!(files.len(), 1);
    files.remove(0)
}

/// Case 16: interfaces that the host does not have, with any grant.
#[test]
fn imports_that_are_not_served_are_refused_by_name() {
    let everything = "[grants.attack]\nfiles = 'write'\nscan = true\n";
    for import in [
        "wasi:nn/graph@0.2.0",
        "cofferdam:host/secrets@0.1.0",
        "cofferdam:backend/linter@0.1.0",
        "cofferdam:host/scan@9.0.0",
        "escape",
    ] {
        let text = format!("(import \"{import}\" (instance (export \"f\" (func))))");
        let component = Component::new(ANSWER).definitions(&text);
        assert_failed(
            call(&component.build(), everything),
            Status::Denied,
            "UnknownImport",
            import,
        );
    }
    // A package that is served, but not with this interface.
    for (import, instance) in [
        ("wasi:io/poll@0.3.0", "(export \"f\" (func))"),
        ("wasi:clocks/wall-clock@0.2.6", "(export \"set\" (func (param \"when\" u64)))"),
        ("wasi:filesystem/escape@0.2.6", "(export \"f\" (func))"),
        ("wasi:cli/run@0.2.6", "(export \"run\" (func))"),
    ] {
        let text = format!("(import \"{import}\" (instance {instance}))");
        let component = Component::new(ANSWER).definitions(&text);
        assert_failed(
            call(&component.build(), everything),
            Status::Denied,
            "UnknownImport",
            import,
        );
    }
    let component =
        Component::new(ANSWER).definitions("(import \"run\" (func (param \"program\" string)))");
    assert_failed(
        call(&component.build(), everything),
        Status::Denied,
        "UnknownImport",
        "imports run",
    );
}

/// Case 16: interfaces that were requested but not granted end the call that uses them; the others
/// of the plugin work.
#[test]
fn imports_that_are_not_granted_are_refused_by_name() {
    let mut demanding = manifest();
    demanding["requests"] = json!({
        "files": "write", "scan": true, "process": ["git"], "http": ["https://a.example"],
    });
    let call = |component: &[u8], settings: &str| {
        Trial::new(Packed::new(component, &demanding), settings).call("attack.go", json!({}))
    };
    let files = "[grants.attack]\nfiles = 'write'\n";
    // `wasi:http/types` has a resource of `wasi:io`, which is linked for all plugins.
    let errors = "(import \"wasi:io/error@0.2.6\" (instance $errors
          (export \"error\" (type (sub resource)))))
        (alias export $errors \"error\" (type $failed))";
    let error = "(export \"io-error\" (type (eq $failed)))";
    for (import, before, inside, settings, grant) in [
        ("cofferdam:host/scan@0.1.0", "", "", "", "scan = true"),
        ("cofferdam:host/scan@0.1.0", "", "", files, "scan = true"),
        // Scanning is reading: it requires access to files.
        ("cofferdam:host/scan@0.1.0", "", "", "[grants.attack]\nscan = true\n", "scan = true"),
        (
            "cofferdam:host/scan@0.1.0",
            "",
            "",
            "[grants.other]\nfiles = 'write'\nscan = true\n",
            "scan = true",
        ),
        ("cofferdam:host/process@0.1.0", "", "", "", "process = ["),
        ("cofferdam:host/process@0.1.0", "", "", files, "process = ["),
        ("wasi:http/types@0.2.6", errors, error, "", "http = ["),
        ("wasi:http/types@0.2.6", errors, error, files, "http = ["),
        ("wasi:http/outgoing-handler@0.2.6", "", "", files, "http = ["),
    ] {
        let text = format!(
            "{before}(import \"{import}\" (instance $used {inside} (export \"f\" (func))))"
        );
        let unused = Component::new(ANSWER).definitions(&text);
        assert_eq!(call(&unused.build(), settings), Outcome::Executed(json!({})), "{settings}");
        let used = Component::new(&format!("(call $f) {ANSWER}"))
            .definitions(&text)
            .function("used", "f", "f", "");
        for part in [import, grant, "[grants.attack]"] {
            assert_failed(call(&used.build(), settings), Status::Denied, "NotGranted", part);
        }
    }
}

/// Case 16: what the manifest does not even request keeps the plugin from loading.
#[test]
fn imports_that_are_not_requested_are_refused_by_name() {
    let import = "wasi:http/outgoing-handler@0.2.6";
    let component =
        Component::new(ANSWER).definitions(&format!("(import \"{import}\" (instance))"));
    for part in [import, "http = [", "[grants.attack]"] {
        let outcome = call(&component.build(), "[grants.attack]\nfiles = 'write'\n");
        assert_failed(outcome, Status::Denied, "NotGranted", part);
    }
}

/// Case 16: a grant gives only what was requested.
#[test]
fn a_grant_without_a_request_gives_nothing() {
    let mut modest = manifest();
    modest["requests"] = json!({});
    let component =
        Component::new(ANSWER).definitions("(import \"cofferdam:host/scan@0.1.0\" (instance))");
    let packed = Packed::new(&component.build(), &modest);
    let trial = Trial::new(packed, "[grants.attack]\nfiles = 'write'\nscan = true\n");
    assert_failed(
        trial.call("attack.go", json!({})),
        Status::Denied,
        "NotGranted",
        "cofferdam:host/scan@0.1.0",
    );
}

/// Case 17.
#[test]
fn components_that_need_more_of_the_engine_are_refused() {
    for (definitions, reason) in [
        ("(core module $m (memory 1 1 shared)) (core instance (instantiate $m))", "threads must be enabled"),
        ("(core module $m (memory i64 1)) (core instance (instantiate $m))", "memory64"),
        ("(core module $m (memory 1) (memory 1)) (core instance (instantiate $m))", "multiple memories"),
        (
            "(core module $m (func (export \"f\") (result i32) i32.const 0)) (core instance $i (instantiate $m))
             (func (export \"f\") async (canon lift (core func $i \"f\") async))",
            "async",
        ),
        ("(core func (canon error-context.drop))", "error-context"),
        ("(core module $m (type (struct))) (core instance (instantiate $m))", "gc"),
        ("(core module $m (tag))", "exceptions"),
        ("(core module $m (func $f (return_call $f)))", "tail calls"),
    ] {
        let component = Component::new(ANSWER).definitions(definitions);
        assert_failed(call(&component.build(), ""), Status::Trap, "InvalidComponent", reason);
    }
}

/// A component that exports no tools, or not those of its manifest.
#[test]
fn components_of_another_world_are_refused() {
    for text in [
        "(component)",
        "(component (instance $i) (export \"cofferdam:tool/tools@0.1.0\" (instance $i)))",
        "(component (instance $i) (export \"cofferdam:tool/tools@0.2.0\" (instance $i)))",
    ] {
        let component = wat::parse_str(text).unwrap();
        assert_failed(
            call(&component, ""),
            Status::Trap,
            "WrongWorld",
            "cofferdam:tool/tools@0.1.0",
        );
    }
    // The function's type is only checked when it is called.
    let component = wat::parse_str(
        r#"(component
             (core module $m (func (export "call")))
             (core instance $c (instantiate $m))
             (func $call (canon lift (core func $c "call")))
             (instance $i (export "call" (func $call)))
             (export "cofferdam:tool/tools@0.1.0" (instance $i)))"#,
    );
    assert_failed(call(&component.unwrap(), ""), Status::Trap, "PluginCrashed", "expected 3-tuple");
}

/// Grants go by the plugin's name, so two plugins can't have the same one.
#[test]
fn a_second_plugin_with_the_same_name_is_refused() {
    let (first, second) = (Component::new(ANSWER).pack(), Component::new(ANSWER).pack());
    let error = Trial::open(Place::new(), vec![first, second], "", cache()).err();
    assert!(
        matches!(error, Some(OpenError::Registry(RegistryError::Duplicate { .. }))),
        "{error:?}"
    );
}
