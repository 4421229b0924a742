//! Components for WASI 0.3: asynchronous functions, streams, and interfaces of WASI 0.3, with the same
//! grants as for WASI 0.2. [`crate::hostile`] has attacks with them.

use std::fs;

use cofferdam_core::outcome::{Outcome, Status};
use serde_json::{Value, json};

use crate::hostile::component::{Component, Packed};
use crate::http::server::{self, Server};
use crate::support::{Place, guest};
use crate::trial::{Trial, assert_failed, failure};
use crate::typed::{Typed, bare};

/// A host with the guest `concurrent` as a typed component, which is called `attack`.
pub fn concurrent(place: Place, settings: &str) -> Trial {
    Trial::with(place, vec![Packed::from_bytes(&bare("concurrent"))], settings)
}

/// The result of a call.
pub fn result(trial: &Trial, tool: &str, args: Value) -> Value {
    match trial.call(&format!("attack.{tool}"), args) {
        Outcome::Executed(output) => output["result"].clone(),
        other => panic!("{tool}: {other:?}"),
    }
}

/// What a function said as its error.
fn error(trial: &Trial, tool: &str, args: Value) -> String {
    let failure = failure(trial.call(&format!("attack.{tool}"), args));
    assert_eq!(failure.code.as_str(), "FunctionError", "{failure:?}");
    failure.message
}

#[test]
fn asynchronous_functions_are_called_as_tools() {
    let trial = concurrent(Place::new(), "");
    assert_eq!(result(&trial, "greet", json!({"name": "World"})), "Hello, World.");
    assert_eq!(error(&trial, "greet", json!({"name": ""})), "no name");
    assert_failed(
        trial.call("attack.greet", json!({"name": "crash"})),
        Status::Trap,
        "PluginCrashed",
        "unreachable",
    );
    // One after the other, they would take ten seconds.
    let took = result(&trial, "side-by-side", json!({"waits": 100, "ms": 100}));
    assert!((99..5_000).contains(&took.as_u64().unwrap()), "{took}");
}

#[test]
fn a_component_gets_no_environment_and_its_output_is_logged() {
    let trial = concurrent(Place::new(), "");
    assert_eq!(result(&trial, "surroundings", json!({})), json!([0, 0, 0]));
    let chance = || result(&trial, "chance", json!({}));
    let (first, second) = (chance(), chance());
    assert_ne!(first[0], second[0]);
    assert!(first[1].as_i64().unwrap() > 1_600_000_000, "{first}");
    assert_eq!(result(&trial, "say", json!({"text": "quite a word", "times": 1})), Value::Null);
    let messages = trial.heard.messages.lock().unwrap();
    let said = |level| messages.contains(&(level, "quite a word".to_owned()));
    assert!(said(tracing::Level::INFO) && said(tracing::Level::WARN), "{messages:?}");
}

#[test]
fn files_need_grants_as_in_wasi_0_2() {
    let note = json!({"path": "note.txt"});
    let write = |path: &str| json!({"path": path, "text": "new", "append": false});
    let place = || {
        let place = Place::new();
        place.write("note.txt", "old");
        place.write(".git/config", "x");
        place
    };
    let none = concurrent(place(), "");
    assert_eq!(result(&none, "directories", json!({})), json!([]));
    assert_eq!(error(&none, "read-note", note.clone()), "no directory");

    let read = concurrent(place(), "[grants.attack]\nfiles = 'read'\n");
    assert_eq!(result(&read, "read-note", note.clone()), "old");
    assert_eq!(result(&read, "size", note.clone()), 3);
    for (tool, args) in [
        ("write-note", write("note.txt")),
        ("write-note", write("other.txt")),
        ("make-directory", json!({"path": "sub"})),
        ("remove-note", note.clone()),
        ("rename-note", json!({"path": "note.txt", "to": "b.txt"})),
        ("link-note", json!({"path": "link", "target": "note.txt"})),
    ] {
        assert_eq!(error(&read, tool, args), "ErrorCode::NotPermitted", "{tool}");
    }
    let outside = json!({"path": "../outside"});
    assert_eq!(error(&read, "read-note", outside), "ErrorCode::NotPermitted");

    let all = concurrent(place(), "[grants.attack]\nfiles = 'write'\n");
    for protected in [".git/config", ".cofferdam/x", "cofferdam.toml"] {
        assert_eq!(error(&all, "write-note", write(protected)), "ErrorCode::NotPermitted");
    }
    assert_eq!(all.place.read(".git/config"), "x");
}

#[test]
fn files_are_changed_in_the_transaction_of_the_call() {
    let trial = concurrent(Place::new(), "[grants.attack]\nfiles = 'write'\n");
    let long = "0123456789abcdef".repeat(20_000);
    result(&trial, "write-note", json!({"path": "a.txt", "text": long, "append": false}));
    result(&trial, "write-note", json!({"path": "a.txt", "text": "end", "append": true}));
    assert_eq!(trial.place.read("a.txt"), format!("{long}end"));
    assert_eq!(result(&trial, "read-note", json!({"path": "a.txt"})), format!("{long}end"));
    result(&trial, "make-directory", json!({"path": "sub"}));
    result(&trial, "rename-note", json!({"path": "a.txt", "to": "sub/b.txt"}));
    result(&trial, "link-note", json!({"path": "sub/link", "target": "b.txt"}));
    let listed = result(&trial, "list-notes", json!({"path": "sub"}));
    let wanted = ["b.txt DescriptorType::RegularFile", "link DescriptorType::SymbolicLink"];
    assert_eq!(listed, json!(wanted));
    assert_eq!(result(&trial, "size", json!({"path": "sub/link"})), 320_003);
    result(&trial, "remove-note", json!({"path": "sub/link"}));
    assert!(!trial.place.workspace().join("sub/link").exists());
    assert_eq!(error(&trial, "read-note", json!({"path": "sub"})), "ErrorCode::IsDirectory");
    assert_eq!(error(&trial, "list-notes", json!({"path": "none"})), "ErrorCode::NoEntry");
}

#[test]
fn requests_go_to_granted_origins() {
    let server = Server::new(|_| server::answer(200, "", b"a page"));
    let settings = format!(
        "[[grants.attack.http]]\norigin = 'https://test.example'\naddress = '{}'\nca-file = '{}'\n",
        server.address(),
        server.authority().display()
    );
    let plugins = vec![Packed::from_bytes(&bare("concurrent"))];
    let trial = Trial::with_programs(Place::new(), plugins, &settings);
    let page = |authority: &str| json!({"authority": authority, "path": "/page"});
    assert_eq!(result(&trial, "fetch", page("test.example")), "200 a page");
    assert_eq!(server.lines()[0], "GET /page HTTP/1.1");
    let refused = error(&trial, "fetch", page("other.example"));
    assert!(refused.starts_with("ErrorCode::HttpRequestDenied; no request was sent"), "{refused}");
    assert_eq!(server.lines().len(), 1);
}

#[test]
fn a_component_for_wasi_0_3_is_checked_and_listed() {
    let typed = Typed::new("jobs.wasm", &bare("concurrent"));
    let checked = typed.place.run(&["plugin", "check", "jobs.wasm"]);
    assert_eq!(checked.status, 0, "{checked:?}");
    let checked = checked.json();
    assert_eq!((&checked["plugin"], &checked["wasi"]), (&json!("jobs"), &json!("0.3")));
    let findings = checked["findings"].as_array().unwrap();
    let left_out: Vec<&Value> =
        findings.iter().filter(|finding| finding["place"]["export"] == "listen").collect();
    assert!(left_out[0]["problem"].as_str().unwrap().contains("answers a stream"), "{findings:?}");
    let wit = typed.place.run(&["plugin", "inspect", "jobs.wasm"]).json()["wit"].clone();
    assert!(wit.as_str().unwrap().contains("export greet: async func("), "{wit}");
    typed.answers("jobs.greet", json!({"name": "you"}), json!({"result": "Hello, you."}));
    typed.fails("listen", json!({}), &["UnknownTool"]);
    let older = Typed::new("shapes.wasm", &bare("typed"));
    assert_eq!(older.place.run(&["plugin", "check", "shapes.wasm"]).json()["wasi"], "0.2");
}

#[test]
fn imports_that_are_not_offered_are_named() {
    let importing = |import: &str| {
        let text = format!(
            r#"(component
              (import "{import}" (instance))
              (core module $m (func (export "f")))
              (core instance $m (instantiate $m))
              (func (export "f") (canon lift (core func $m "f"))))"#
        );
        Typed::new("s.wasm", &wat::parse_str(text).unwrap())
    };
    for import in [
        "wasi:keyvalue/store@0.3.0",
        "wasi:cli/environment@0.3.0-rc-2025-09-16",
        "wasi:tls/types@0.3.0",
    ] {
        let typed = importing(import);
        typed.fails("f", json!({}), &["UnknownImport", import]);
        let checked = typed.place.run(&["plugin", "check", "s.wasm"]).json();
        assert_eq!(checked["findings"][0]["place"]["import"], import, "{checked}");
        assert_eq!(checked["wasi"], "0.3");
    }
    importing("wasi:cli/environment@0.3.0").answers("f", json!({}), json!({}));
}

#[test]
fn sockets_can_be_imported_and_not_used() {
    let text = r#"(component
      (import "wasi:sockets/ip-name-lookup@0.3.0" (instance $net
        (export "resolve" (func async (result u32)))))
      (core func $resolve (canon lower (func $net "resolve")))
      (core module $m
        (import "net" "resolve" (func $resolve (result i32)))
        (func (export "still") (result i32) (i32.const 1))
        (func (export "look-up") (result i32) (call $resolve)))
      (core instance $i (instantiate $m
        (with "net" (instance (export "resolve" (func $resolve))))))
      (func (export "still") async (result u32) (canon lift (core func $i "still")))
      (func (export "look-up") async (result u32) (canon lift (core func $i "look-up"))))"#;
    let typed = Typed::new("net.wasm", &wat::parse_str(text).unwrap());
    typed.answers("still", json!({}), json!({"result": 1}));
    typed.fails("look-up", json!({}), &["PluginCrashed", "there are no sockets here"]);
    let checked = typed.place.run(&["plugin", "check", "net.wasm"]);
    assert_eq!(checked.status, 0, "{checked:?}");
}

#[test]
fn a_manifest_describes_asynchronous_functions() {
    let trial = Trial::with(Place::new(), vec![Packed::guest("concurrent")], "");
    let greeted = trial.call("concurrent.greet", json!({"name": "World"}));
    assert_eq!(greeted, Outcome::Executed(json!({"result": "Hello, World."})));
    let place = Place::new();
    let tested = place.run(&["plugin", "test", guest("concurrent").to_str().unwrap()]);
    assert_eq!(tested.status, 0, "{tested:?}");
}

/// A plugin that imports WASI 0.3 and exports the interface of this host.
fn with_own_interface(call: &str) -> Component {
    Component::new(call)
        .definitions(
            r#"(import "wasi:random/random@0.3.0" (instance $random
              (export "get-random-u64" (func (result u64)))))"#,
        )
        .function("random", "get-random-u64", "random", "(result i64)")
}

#[test]
fn a_plugin_with_this_hosts_interface_may_use_wasi_0_3() {
    let call = "(drop (call $random)) (call $answer (i32.const 0) (i32.const 2))";
    let trial = Trial::new(with_own_interface(call).pack(), "");
    assert_eq!(trial.call("attack.go", json!({})), Outcome::Executed(json!({})));
}

/// A tool for WASI 0.3 calls another one: both have tasks of their own, on threads of their own.
#[test]
fn a_tool_calls_a_tool_for_wasi_0_3() {
    let tools = r#"(import "cofferdam:host/tools@0.1.0" (instance $host-tools
      (type $request' (record (field "tool" string) (field "args" string)))
      (export "request" (type $request (eq $request')))
      (type $failure' (record (field "outcome" string) (field "code" string)
        (field "message" string) (field "detail" (option string))))
      (export "failure" (type $failure (eq $failure')))
      (export "call" (func (param "requests" (list $request))
        (result (list (result string (error $failure))))))))"#;
    // The answer is that of the other tool: its address and length are in the first result.
    let call =
        "(i32.store (i32.const 128) (i32.const 256)) (i32.store (i32.const 132) (i32.const 12))
      (i32.store (i32.const 136) (i32.const 272)) (i32.store (i32.const 140) (i32.const 14))
      (drop (call $random))
      (call $call-tools (i32.const 128) (i32.const 1) (i32.const 160))
      (if (i32.load8_u (i32.load (i32.const 160))) (then unreachable))
      (call $answer (i32.load offset=4 (i32.load (i32.const 160)))
        (i32.load offset=8 (i32.load (i32.const 160))))";
    let mut manifest = crate::hostile::component::manifest();
    manifest["name"] = json!("caller");
    manifest["requests"] = json!({"tools": true});
    let caller = with_own_interface(call)
        .definitions(tools)
        .function("host-tools", "call", "call-tools", "(param i32 i32 i32)")
        .module(
            r#"(data (i32.const 256) "attack.greet") (data (i32.const 272) "{\"name\":\"You\"}")"#,
        );
    let plugins =
        vec![Packed::from_bytes(&bare("concurrent")), Packed::new(&caller.build(), &manifest)];
    let trial = Trial::with(Place::new(), plugins, "[grants.caller]\ntools = true\n");
    let answer = trial.call("caller.go", json!({}));
    assert_eq!(answer, Outcome::Executed(json!({"result": "Hello, You."})));
}

#[test]
fn compiled_code_for_wasi_0_3_is_cached() {
    let typed = Typed::new("jobs.wasm", &bare("concurrent"));
    typed.answers("jobs.greet", json!({"name": "you"}), json!({"result": "Hello, you."}));
    let cache = typed.place.home_file(".cache/cofferdam/code");
    let kept = || fs::read_dir(&cache).unwrap().count();
    let once = kept();
    typed.answers("jobs.greet", json!({"name": "me"}), json!({"result": "Hello, me."}));
    assert_eq!(kept(), once);
}
