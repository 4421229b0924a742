//! Components of ACT (Agent Component Tools): what they declare, their list of tools, calls with CBOR,
//! sessions; and hostile ones. The guest `act` is one.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use cofferdam_core::cbor;
use cofferdam_core::outcome::{Outcome, Status};
use cofferdam_engine::host::ToolListError;
use serde_json::{Value, json};
use wasm_encoder::{ComponentSection as _, CustomSection};

use crate::hostile::component::Packed;
use crate::support::Place;
use crate::trial::{Trial, assert_failed, failure};
use crate::typed::bare;

/// What the guest has where the mode of its list is written.
const MODE: &str = "the-mode-of-the-list:plain           ";

fn replace(bytes: &mut [u8], what: &str, by: &str) {
    assert_eq!(what.len(), by.len());
    let found: Vec<usize> = (0..bytes.len() - what.len())
        .filter(|at| bytes[*at..].starts_with(what.as_bytes()))
        .collect();
    assert!(!found.is_empty(), "the guest has no '{what}'");
    for at in found {
        bytes[at..at + by.len()].copy_from_slice(by.as_bytes());
    }
}

/// The guest with a mode of its list and a section `act:component` of these bytes.
fn with_section(mode: &str, section: &[u8]) -> Vec<u8> {
    let mut bytes = bare("act");
    replace(&mut bytes, MODE, &format!("the-mode-of-the-list:{mode:<16}"));
    let section = CustomSection { name: "act:component".into(), data: section.into() };
    section.append_to_component(&mut bytes);
    bytes
}

/// What the guest declares.
fn declared() -> Value {
    json!({"std": {
        "name": "acting", "version": "1.2.3", "description": "Does as it is told.",
        "capabilities": {
            "wasi:filesystem": {"constraints": [{"path": "**", "mode": "rw"}]},
            "wasi:http": {"constraints": [{"host": "api.test.example"}, {"host": "*"}]},
        },
    }})
}

/// The guest with sessions.
fn with_sessions(mode: &str) -> Vec<u8> {
    with_section(mode, &cbor::encode(&declared()).unwrap())
}

/// The guest without sessions: their interface has another name.
fn plain(mode: &str) -> Vec<u8> {
    let mut bytes = with_sessions(mode);
    replace(&mut bytes, "act:sessions/session-provider", "xct:sessions/session-provider");
    bytes
}

/// A host that has no plugin.
fn empty() -> Trial {
    Trial::with(Place::new(), Vec::new(), "")
}

/// A host with an installed component.
fn installed(bytes: &[u8], settings: &str) -> Trial {
    let list = empty().tool_list(bytes).unwrap();
    let plugin = Packed::from_bytes(bytes);
    fs::write(plugin.path.with_extension("tools.json"), list).unwrap();
    Trial::with(Place::new(), vec![plugin], settings)
}

fn output(trial: &Trial, tool: &str, args: Value) -> Value {
    match trial.call(&format!("acting.{tool}"), args) {
        Outcome::Executed(output) => output,
        other => panic!("{tool}: {other:?}"),
    }
}

#[test]
fn a_component_is_asked_for_its_tools_once() {
    let place = Place::new();
    let file = place.home_file("component.wasm");
    fs::write(&file, plain("plain")).unwrap();
    let file = file.to_str().unwrap();

    let shown = place.works(&["plugin", "inspect", file]);
    assert_eq!((&shown["name"], &shown["version"]), (&json!("acting"), &json!("1.2.3")));
    assert_eq!(shown["lists_tools_when_installed"], true);
    assert_eq!(shown["tools"], json!([]));
    assert_eq!(place.works(&["plugin", "check", file])["findings"], json!([]));
    let ended = place.run(&["tools", "--plugin", file]);
    assert!(ended.stderr.contains("`cofferdam plugin install` does so, once"), "{ended:?}");

    let installed = place.works(&["plugin", "install", file, "--grant", "files=read"]);
    let tools = &installed["plugins"][0]["tools"];
    assert_eq!(tools[0], "arguments");
    assert_eq!(tools.as_array().unwrap().len(), 13);
    let listed = place.works(&["tools", "acting.arguments"]);
    assert_eq!(listed["description"], "The tool arguments.");
    let shown = place.works(&["plugin", "inspect", "acting"]);
    assert_eq!(shown["tools"][0]["effects"], "read");
    assert_eq!(shown["tools"][1]["effects"], "write");
    let args = json!({"value": {"$bytes": "aGk="}}).to_string();
    let called = place.works(&["call", "acting.arguments", &args]);
    assert_eq!(called, json!({"result": {"value": {"$bytes": "aGk="}}}));

    // The list is that file alone: it is of this component, and never asked for again.
    let folder = place.home().join(".local/share/cofferdam/plugins/sha256");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let list = entries.filter(|path| path.extension().is_some_and(|name| name == "json"));
    let [list] = &list.collect::<Vec<_>>()[..] else { panic!("one list") };
    let pinned = fs::read_to_string(list).unwrap();
    fs::write(list, pinned.replacen("sha256:", "sha256:00", 1).replacen("00\",", "\",", 1))
        .unwrap();
    assert_ne!(place.run(&["call", "acting.arguments"]).status, 0);
    fs::write(list, empty().tool_list(&plain("reach 1")).unwrap()).unwrap();
    let ended = place.run(&["call", "acting.arguments"]);
    assert!(ended.stderr.contains("the list of tools of another component"), "{ended:?}");
    fs::remove_file(list).unwrap();
    assert_ne!(place.run(&["call", "acting.arguments"]).status, 0);
    place.works(&["plugin", "install"]);
    assert_eq!(fs::read_to_string(list).unwrap(), pinned);
    assert_eq!(place.run(&["call", "acting.arguments"]).status, 0);
}

#[test]
fn events_become_one_answer() {
    let trial = installed(&plain("plain"), "");
    let args = json!({"value": [1, -1.5, null, {"$$bytes": "é"}]});
    assert_eq!(output(&trial, "arguments", args.clone()), json!({"result": args}));
    assert_eq!(output(&trial, "nothing", json!({})), json!({}));
    assert_eq!(
        output(&trial, "parts", json!({})),
        json!({"content": [
            {"text": "text"},
            {"value": {"a": [1, 2]}},
            {"value": [1, 2]},
            {"mime-type": "image/png", "data": "iVBORw=="},
            {"mime-type": "text/plain", "data": "/w=="},
            {"mime-type": "application/octet-stream", "data": "aGk="},
        ]})
    );
    let fails = trial.call("acting.fails", json!({}));
    assert_failed(fails, Status::Error, "not-found", "there is none");
    // An error ends a stream: content before and after it is not returned.
    let late = failure(trial.call("acting.late", json!({})));
    assert_eq!(late.message, "too late");
    let refused = trial.try_call(None, "acting.arguments", json!([])).unwrap_err();
    assert!(refused.to_string().contains("object"), "{refused}");
}

#[test]
fn files_need_grants_and_the_transaction_of_the_call() {
    let none = installed(&plain("plain"), "");
    assert_eq!(failure(none.call("acting.files", json!({}))).status, Status::Denied);
    let read = installed(&plain("plain"), "[grants.acting]\nfiles = 'read'\n");
    assert_eq!(failure(read.call("acting.files", json!({}))).status, Status::Denied);
    let write = installed(&plain("plain"), "[grants.acting]\nfiles = 'write'\n");
    assert_eq!(output(&write, "files", json!({})), json!({"result": "written"}));
    assert_eq!(write.place.read("by-act"), "written");
}

#[test]
fn settings_are_the_metadata_of_calls_or_open_sessions() {
    let settings = "[grants.acting.config]\nof = 'a'\nsize = '7'\n";
    let trial = installed(&plain("plain"), settings);
    assert_eq!(output(&trial, "metadata", json!({})), json!({"result": {"of": "a", "size": "7"}}));

    let opened = |trial: &Trial, args: Value| {
        let id = output(trial, "metadata", args)["result"]["std:session-id"].clone();
        let hex = id.as_str().unwrap().as_bytes().chunks(2);
        let bytes: Vec<u8> =
            hex.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect();
        cbor::decode(&bytes).unwrap()
    };
    let files = "[grants.acting]\nfiles = 'write'\n";
    let trial = installed(&with_sessions("plain"), files);
    let of = json!({"session": {"of": "é", "size": 3}});
    assert_eq!(opened(&trial, of), json!({"of": "é", "size": 3}));
    assert!(!trial.place.read("closed").is_empty());
    let unopened = failure(trial.call("acting.metadata", json!({})));
    assert_eq!((unopened.code.as_str(), &*unopened.message), ("invalid-args", "'of' is missing"));
    // A failed call changes nothing, so its session is not closed first.
    fs::remove_file(trial.place.workspace().join("closed")).unwrap();
    trial.call("acting.fails", json!({"session": {"of": "a"}}));
    assert!(!trial.place.workspace().join("closed").exists());
    // The user's settings win over the call's arguments, and have the schema's types.
    let trial = installed(&with_sessions("plain"), &format!("{files}{settings}"));
    let of = json!({"session": {"of": "b"}});
    assert_eq!(opened(&trial, of), json!({"of": "a", "size": 7}));
    assert!(trial.try_call(None, "acting.metadata", json!({"session": 1})).is_err());
}

#[test]
fn hostile_calls_end_at_their_limits() {
    let settings = "[limits]\ncall-ms = 1500\noutput-kb = 1024\n";
    let trial = installed(&plain("plain"), settings);
    for (tool, status, code) in [
        ("crash", Status::Trap, "PluginCrashed"),
        ("events", Status::Limit, "OutputLimit"),
        ("silence", Status::Limit, "WallClockLimit"),
        ("damaged", Status::Error, "UnrepresentableAnswer"),
        ("deep", Status::Error, "UnrepresentableAnswer"),
        ("large", Status::Limit, "OutputLimit"),
    ] {
        let begun = Instant::now();
        assert_failed(trial.call(&format!("acting.{tool}"), json!({})), status, code, "");
        assert!(begun.elapsed() < Duration::from_secs(20), "{tool}");
    }
    let nested = (0..100).fold(json!(0), |inner, _| json!([inner]));
    let deep = trial.call("acting.arguments", json!({"value": nested}));
    assert_failed(deep, Status::Error, "InvalidArguments", "nest deeper than 64");
    assert_eq!(output(&trial, "nothing", json!({})), json!({}));
}

#[test]
fn hostile_lists_are_refused() {
    let trial = empty();
    for (mode, wanted) in [
        ("trap", "crashed"),
        ("error", "no list today"),
        ("none", "no function"),
        ("twice", "lists the tool 'one' twice"),
        ("many", "lists more than 1000 tools"),
        ("large", "larger than 1024 KiB"),
        ("schemas", "come to more than"),
        ("spin", "longer than"),
        ("wait", "longer than"),
    ] {
        let begun = Instant::now();
        let error = trial.tool_list(&plain(mode)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{mode}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(40), "{mode}");
    }
}

#[test]
fn tools_that_can_not_be_are_left_out() {
    let list = empty().tool_list(&with_sessions("partly")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    let names = |of: &Value, name: &str| {
        of.as_array().unwrap().iter().map(|tool| tool[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&list["tools"], "name"), ["good"]);
    let left_out = names(&list["left-out"], "function");
    let wanted = [
        "Not a name",
        "no-json",
        "no-object",
        "no-schema",
        "elsewhere",
        "deep",
        "deeper",
        "of-session",
    ];
    assert_eq!(left_out, wanted, "{list}");
}

#[test]
fn a_list_is_made_without_any_grant() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let place = Place::new();
    place.write("secret", "x");
    let settings = format!(
        "[grants.acting]\nfiles = 'write'\nhttp = ['http://127.0.0.1:{port}']\n[grants.acting.config]\na = 'b'\n"
    );
    let trial = Trial::with(place, Vec::new(), &settings);
    let list = trial.tool_list(&plain(&format!("reach {port}"))).unwrap();
    assert!(list.contains("read failed, write failed, environment 0, request failed"), "{list}");
    let refused = trial.tool_list(&plain(&format!("socket {port}"))).unwrap_err().to_string();
    assert!(refused.contains("wasi:sockets"), "{refused}");
    assert!(listener.accept().is_err(), "something connected");
    assert_eq!(trial.place.read("secret"), "x");
    assert!(!trial.place.workspace().join("x").exists());
}

#[test]
fn damaged_sections_are_refused() {
    let trial = empty();
    let encoded = |value: &Value| cbor::encode(value).unwrap();
    let mut many = declared();
    many["std"]["capabilities"]["wasi:http"]["constraints"] =
        json!(vec![json!({"host": "a.example"}); 101]);
    let mut wrong = declared();
    wrong["std"]["capabilities"]["wasi:filesystem"]["constraints"] = json!([{"mode": "all"}]);
    for (section, wanted) in [
        (b"".to_vec(), "is cut off"),
        (b"\xff\xff".to_vec(), "no valid CBOR"),
        (vec![0x81; 1 << 10], "nest deeper than 64"),
        (vec![0; (64 << 10) + 1], "larger than 65536 bytes"),
        (b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff".to_vec(), "is cut off"),
        (encoded(&json!({})), "missing field `std`"),
        (encoded(&json!({"std": {"name": 7}})), "invalid type"),
        (encoded(&many), "more than 100 constraints"),
        (encoded(&wrong), "wrong constraint"),
    ] {
        let error = trial.tool_list(&with_section("plain", &section)).unwrap_err();
        assert!(matches!(error, ToolListError::Typed(_)), "{error}");
        assert!(error.to_string().contains(wanted), "'{wanted}': {error}");
    }
    let error = trial.tool_list(&bare("act")).unwrap_err().to_string();
    assert!(error.contains("no section act:component"), "{error}");
    let error = trial.tool_list(&bare("concurrent")).unwrap_err().to_string();
    assert!(error.contains("no component of ACT"), "{error}");
}
