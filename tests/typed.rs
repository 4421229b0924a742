//! Components without a manifest, as people create them for other hosts: they are loaded, listed
//! and called like any plugin, and get what the user grants.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use wasm_encoder::{ComponentSection as _, CustomSection};

use crate::support::{Ended, Place, guest};

/// A guest without its manifest section, as the compiler wrote it.
pub fn bare(name: &str) -> Vec<u8> {
    let packed = fs::read(guest(name)).unwrap();
    let (header, rest) = packed.split_at(8);
    assert_eq!(rest[0], 0, "a custom section is first");
    let digits = 1 + rest[1..].iter().position(|byte| byte & 0x80 == 0).unwrap();
    let size =
        rest[1..=digits].iter().rev().fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f));
    [header, &rest[1 + digits + size..]].concat()
}

/// The example in the component model's book: one interface with one function.
fn adder() -> Vec<u8> {
    wat::parse_str(
        r#"(component
          (core module $m (func (export "add") (param i32 i32) (result i32)
            (i32.add (local.get 0) (local.get 1))))
          (core instance $i (instantiate $m))
          (func $add (param "x" u32) (param "y" u32) (result u32) (canon lift (core func $i "add")))
          (instance $adder (export "add" (func $add)))
          (export "docs:adder/add@0.1.0" (instance $adder)))"#,
    )
    .unwrap()
}

/// A component with documentation, as hosts for agents expect it, and an import of the network.
fn documented() -> Vec<u8> {
    let mut bytes = wat::parse_str(
        r#"(component
          (import "wasi:http/types@0.2.6" (instance))
          (core module $m (func (export "even") (param i32) (result i32)
            (i32.eqz (i32.and (local.get 0) (i32.const 1)))))
          (core instance $i (instantiate $m))
          (func (export "is-even") (param "number" s32) (result bool)
            (canon lift (core func $i "even"))))"#,
    )
    .unwrap();
    let docs = json!({"worlds": {"parity": {
        "docs": "Looks at numbers.",
        "func_exports": {"is-even": {"docs": "Whether a number can be halved."}},
    }}});
    let data = [&b"\x01"[..], docs.to_string().as_bytes()].concat();
    CustomSection { name: "package-docs".into(), data: data.into() }
        .append_to_component(&mut bytes);
    bytes
}

pub struct Typed {
    pub place: Place,
    file: PathBuf,
}

impl Typed {
    pub fn new(name: &str, bytes: &[u8]) -> Self {
        let place = Place::new();
        place.write(name, bytes);
        let file = place.workspace().join(name);
        Self { place, file }
    }

    fn file(&self) -> &str {
        self.file.to_str().unwrap()
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        self.place.run(&[args, &["--plugin", self.file()]].concat())
    }

    fn call(&self, tool: &str, args: &Value) -> Ended {
        self.run(&["call", tool, &args.to_string()])
    }

    pub fn answers(&self, tool: &str, args: Value, wanted: Value) {
        let ended = self.call(tool, &args);
        assert_eq!(ended.status, 0, "{tool} {args}: {ended:?}");
        assert_eq!(ended.json(), wanted, "{tool} {args}");
    }

    pub fn fails(&self, tool: &str, args: Value, wanted: &[&str]) {
        let ended = self.call(tool, &args);
        assert_ne!(ended.status, 0, "{tool} {args}: {ended:?}");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        for wanted in wanted {
            assert!(said.contains(wanted), "{tool} {args}: '{wanted}' is missing in {said}");
        }
    }

    /// Writes the user's own settings.
    fn settings(&self, settings: &str) {
        let file = self.place.home_file(".config/cofferdam/cofferdam.toml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, settings).unwrap();
    }
}

#[test]
fn three_components_of_other_hosts_load_and_answer() {
    let adder = Typed::new("adder.wasm", &adder());
    adder.answers(
        "adder.add",
        json!({"x": 2, "y": 4_000_000_000_u32}),
        json!({"result": 4_000_000_002_u32}),
    );
    adder.fails("add", json!({"x": 2}), &["InvalidArguments", "the required field 'y'"]);
    adder.fails("add", json!({"x": 2, "y": -1}), &["InvalidArguments", "at least 0"]);

    let parity = Typed::new("parity.wasm", &documented());
    parity.answers("is-even", json!({"number": -2}), json!({"result": true}));
    parity.answers("is-even", json!({"number": 7.0}), json!({"result": false}));
    let tool = parity.run(&["tools", "is-even"]).json();
    assert_eq!(tool["description"], "Whether a number can be halved.");

    let shapes = Typed::new("shapes.wasm", &bare("typed"));
    shapes.answers("get-weather", json!({"city": "Oslo"}), json!({"result": "It rains in Oslo."}));
    shapes.fails("get-weather", json!({"city": ""}), &["FunctionError", "no city"]);
    shapes.fails("get-weather", json!({"city": "crash"}), &["PluginCrashed"]);
    shapes.answers("divide", json!({"dividend": 1, "divisor": 8}), json!({"result": 0.125}));
    shapes.fails(
        "divide",
        json!({"dividend": 0, "divisor": 0}),
        &["UnrepresentableAnswer", "NaN is no number that JSON has"],
    );
}

#[test]
fn every_type_of_value_is_converted_in_both_directions() {
    let shapes = Typed::new("shapes.wasm", &bare("typed"));
    let drawing = json!({
        "shapes": [
            {"tag": "dot"},
            {"tag": "circle", "value": 1.5},
            {"tag": "path", "value": [{"x": -1, "y": 2, "label": "é"}, {"x": 0, "y": 0, "label": null}]},
        ],
        "style": ["bold", "wide"],
        "color": "green",
        "picture": "AP+A",
        "ids": [u64::MAX, i64::MIN],
        "initial": "🦀",
        "scale": 0.1,
    });
    shapes.answers("geometry_echo", json!({"drawing": drawing}), json!({"result": drawing}));
    let mut without = drawing.clone();
    without.as_object_mut().unwrap().shift_remove("color");
    let mut answered = drawing.clone();
    answered["color"] = Value::Null;
    shapes.answers("geometry_echo", json!({"drawing": without}), json!({"result": answered}));
    for (pointer, wrong, wanted) in [
        ("/color", json!("blue"), "/drawing/color"),
        ("/style", json!(["thin"]), "/drawing/style/0"),
        ("/ids", json!([1]), "/drawing/ids"),
        ("/initial", json!("ab"), "/drawing/initial"),
        ("/picture", json!("???"), "expected bytes as base64"),
        ("/shapes/1/tag", json!("square"), "/drawing/shapes/1"),
    ] {
        let mut drawing = drawing.clone();
        *drawing.pointer_mut(pointer).unwrap() = wrong;
        shapes.fails("geometry_echo", json!({"drawing": drawing}), &["InvalidArguments", wanted]);
    }
    shapes.answers(
        "geometry_area",
        json!({"shape": {"tag": "circle", "value": 2}}),
        json!({"result": 12.0}),
    );
    // The cases of an error variant are codes, and the whole error is the failure document.
    let ended = shapes.call("geometry_area", &json!({"shape": {"tag": "circle", "value": -2}}));
    assert_eq!(ended.json(), json!({"error": {"tag": "negative", "value": -2.0}}));
    let envelope = json!({"tool": "geometry_area", "shape": {"tag": "dot"}});
    shapes.place.write("envelope.json", envelope.to_string());
    let ended = shapes.run(&["run", "envelope.json"]);
    assert!(ended.stdout.contains("no-area"), "{ended:?}");
}

#[test]
fn limits_apply_as_for_every_plugin() {
    let shapes = Typed::new("shapes.wasm", &bare("typed"));
    shapes.settings("[limits]\ncall-ms = 500\n");
    shapes.fails("spin", json!({}), &["WallClockLimit"]);
    shapes.settings("");
    shapes.fails("flood", json!({"count": 9_000}), &["OutputLimit"]);
    shapes.fails("flood", json!({"count": 50_000}), &["TransferLimit"]);
    let ended = shapes.call("flood", &json!({"count": 3}));
    assert_eq!(ended.json()["result"].as_array().unwrap().len(), 3, "{ended:?}");
}

#[test]
fn files_need_the_users_grant() {
    let shapes = Typed::new("shapes.wasm", &bare("typed"));
    shapes.place.write("note.txt", "hello");
    let read = json!({"path": "note.txt"});
    let write = json!({"path": "new.txt", "text": "x"});
    let hints = || {
        let tools = shapes.run(&["tools", "--format", "mcp"]).json();
        let tools = tools.as_array().unwrap_or_else(|| tools["tools"].as_array().unwrap()).clone();
        let tool = tools.iter().find(|tool| tool["name"] == "shapes__read-note").unwrap();
        tool["annotations"]["readOnlyHint"] == true
    };
    // Nothing is granted by default.
    shapes.fails("read-note", read.clone(), &["FunctionError"]);
    shapes.fails("write-note", write.clone(), &["FunctionError"]);
    assert!(hints());
    shapes.settings("[grants.shapes]\nfiles = 'read'\n");
    shapes.answers("read-note", read.clone(), json!({"result": "hello"}));
    shapes.fails("write-note", write.clone(), &["FunctionError"]);
    shapes.fails("read-note", json!({"path": "../outside"}), &["FunctionError"]);
    assert!(hints());
    shapes.settings("[grants.shapes]\nfiles = 'write'\n");
    assert!(!hints());
    shapes.answers("write-note", write, json!({}));
    assert_eq!(shapes.place.read("new.txt"), "x");
}

#[test]
fn a_typed_component_is_checked_inspected_and_listed() {
    let shapes = Typed::new("shapes.wasm", &bare("typed"));
    let place = &shapes.place;
    let checked = place.run(&["plugin", "check", "shapes.wasm"]);
    assert_eq!(checked.status, 0, "{checked:?}");
    let checked = checked.json();
    assert_eq!(checked["plugin"], "shapes");
    let findings = checked["findings"].as_array().unwrap();
    let left_out: Vec<&str> =
        findings.iter().filter_map(|finding| finding["place"]["export"].as_str()).collect();
    let interface = "example:shapes/geometry@1.2.0";
    assert_eq!(left_out, [format!("{interface}#[method]canvas.draw"), format!("{interface}#open")]);
    let inspected = place.run(&["plugin", "inspect", "shapes.wasm"]).json();
    assert_eq!(inspected["version"], "1.2.0");
    assert_eq!(inspected["asks_for"], json!(["reading and changing files of the workspace"]));
    let names: Vec<&str> = inspected["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "divide",
            "flood",
            "geometry_area",
            "geometry_echo",
            "get-weather",
            "read-note",
            "spin",
            "write-note"
        ]
    );
    assert_eq!((&inspected["has_manifest"], &inspected["signer"]), (&json!(false), &Value::Null));
    assert_eq!(inspected["left_out"].as_array().unwrap().len(), 2);
    let wit = inspected["wit"].as_str().unwrap();
    for wanted in [
        "  import wasi:filesystem/types@0.2.6;\n",
        "  export get-weather: func(city: string) -> result<string, string>;\n",
        "package example:shapes@1.2.0 {\n  interface geometry {\n",
        "    record point {\n      x: s32,\n      y: s32,\n      label: option<string>,\n    }\n",
        "    variant shape {\n      dot,\n      circle(f64),\n      path(list<point>),\n    }\n",
        "    echo: func(drawing: drawing) -> drawing;\n",
        "    area: func(shape: shape) -> result<f64, area-error>;\n",
        "    resource canvas {\n      draw: func(shape: shape);\n    }\n",
        "    open: func() -> canvas;\n",
    ] {
        assert!(wit.contains(wanted), "{wanted} is missing in {wit}");
    }
    fs::copy(guest("typed"), place.workspace().join("packed.wasm")).unwrap();
    let packed = place.run(&["plugin", "inspect", "packed.wasm"]).json();
    assert_eq!((&packed["name"], &packed["has_manifest"]), (&json!("typed"), &json!(true)));
    let parity = Typed::new("parity.wasm", &documented());
    let inspected = parity.place.run(&["plugin", "inspect", "parity.wasm"]).json();
    assert_eq!(
        inspected["wit"],
        "/// Looks at numbers.\nworld root {\n  import wasi:http/types@0.2.6;\n  \
         /// Whether a number can be halved.\n  export is-even: func(number: s32) -> bool;\n}\n"
    );
    let listed = shapes.run(&["tools", "get-weather"]).json();
    assert_eq!(listed["input"]["properties"], json!({"city": {"type": "string"}}));
}

#[test]
fn a_typed_component_is_installed_under_its_files_name() {
    let place = Place::new();
    let file = place.home_file("parity.wasm");
    fs::write(&file, documented()).unwrap();
    let file = file.to_str().unwrap();
    let refused = place.run(&["plugin", "install", file]);
    assert_ne!(refused.status, 0);
    assert!(refused.stderr.contains("--grant http=https://HOST"), "{refused:?}");
    let installed = place.run(&["plugin", "install", file, "--grant", "http=https://a.example"]);
    assert_eq!(installed.status, 0, "{installed:?}");
    let installed = &installed.json()["plugins"][0];
    assert_eq!(installed["plugin"], "parity");
    assert_eq!(installed["granted"]["http"], json!(["https://a.example"]));
    fs::remove_file(file).unwrap();
    let ended = place.run(&["call", "parity.is-even", "{\"number\": 4}"]);
    assert_eq!(ended.json(), json!({"result": true}), "{ended:?}");
    assert_eq!(place.run(&["plugin", "install"]).json()["plugins"][0]["state"], "unchanged");
    let all = place.run(&["policy", "grant", "parity", "all"]);
    assert!(all.stderr.contains("each is granted as http=https://HOST"), "{all:?}");
    let more = place.run(&["policy", "grant", "parity", "http=https://b.example"]);
    assert_eq!(more.json()["granted"]["http"], json!(["https://a.example", "https://b.example"]));
}

#[test]
fn a_manifest_overrides_the_derived_one() {
    let typed = Typed { place: Place::new(), file: guest("typed") };
    typed.answers(
        "typed.get-weather",
        json!({"city": "Rome"}),
        json!({"result": "It rains in Rome."}),
    );
    typed.fails("get-weather", json!({"city": "x".repeat(101)}), &["InvalidArguments", "100"]);
    typed.fails("divide", json!({}), &["UnknownTool"]);
    let tested = typed.place.run(&["plugin", "test", typed.file()]);
    assert_eq!(tested.status, 0, "{tested:?}");
}

#[test]
fn components_that_cant_be_plugins_are_refused_with_the_reason() {
    let stream =
        r#"(component (import "f" (func $f (result (stream u8)))) (export "f" (func $f)))"#;
    let clash = r#"(component
      (core module $m (func (export "f")))
      (core instance $m (instantiate $m))
      (func $f (canon lift (core func $m "f")))
      (instance $i (export "f" (func $f)))
      (export "a:b/c" (instance $i))
      (export "d:e/c" (instance $i)))"#;
    for (name, text, wanted) in [
        ("s.wasm", stream, "no function that it exports can be a tool: f answers a stream"),
        ("c.wasm", clash, "'a:b/c#f' and 'd:e/c#f' would both be the tool 'c_f'"),
        ("1.wasm", clash, "'1.wasm' gives no name"),
    ] {
        let typed = Typed::new(name, &wat::parse_str(text).unwrap());
        for args in [
            &["tools", "--plugin", name][..],
            &["plugin", "inspect", name],
            &["plugin", "check", name],
        ] {
            let ended = typed.place.run(args);
            let said = format!("{}{}", ended.stdout, ended.stderr);
            assert!(ended.status != 0 && said.contains(wanted), "{args:?}: {ended:?}");
        }
    }
    let unknown = r#"(component
      (import "wasi:keyvalue/store@0.2.0-draft" (instance))
      (core module $m (func (export "f")))
      (core instance $m (instantiate $m))
      (func (export "f") (canon lift (core func $m "f"))))"#;
    let typed = Typed::new("s.wasm", &wat::parse_str(unknown).unwrap());
    typed.fails("f", json!({}), &["UnknownImport", "wasi:keyvalue/store@0.2.0-draft"]);
}

/// Returns the value of the setting "key" as a failure, or as its answer where there is none.
fn configured(version: &str, error: &str) -> Vec<u8> {
    let text = r#"(component
      (import "wasi:config/store@0.2.0-rc.1" (instance $config
        (type $error' (variant (case "upstream" string) (case "io" string)))
        (export "error" (type $error (eq $error')))
        (export "get" (func (param "key" string)
          (result (result (option string) (error $error)))))))
      (alias export $config "get" (func $get))
      (core module $libc
        (memory (export "memory") 1)
        (global $next (mut i32) (i32.const 1024))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32)
          (local $at i32)
          (local.set $at (global.get $next))
          (global.set $next (i32.add (global.get $next) (local.get 3)))
          (local.get $at)))
      (core instance $libc (instantiate $libc))
      (core func $get' (canon lower (func $get) (memory (core memory $libc "memory"))
        (realloc (core func $libc "realloc"))))
      (core module $m
        (import "libc" "memory" (memory 1))
        (import "config" "get" (func $get (param i32 i32 i32)))
        (data (i32.const 0) "key")
        (func $read (call $get (i32.const 0) (i32.const 3) (i32.const 16)))
        ;; The result is at 16: its case, then from 20 on the option: its case, pointer, length.
        (func (export "echo") (result i32)
          (call $read)
          (i32.store (i32.const 64) (i32.load (i32.const 24)))
          (i32.store (i32.const 68) (i32.load (i32.const 28)))
          (i32.const 64))
        (func (export "fail") (result i32)
          (call $read)
          (i32.store8 (i32.const 64) (i32.const 1))
          (i32.store (i32.const 68) (i32.load (i32.const 24)))
          (i32.store (i32.const 72) (i32.load (i32.const 28)))
          (i32.const 64))
        (func (export "has") (result i32)
          (call $read)
          (i32.load8_u (i32.const 20)))
        (func (export "is-error") (result i32)
          (call $read)
          (i32.load8_u (i32.const 16))))
      (core instance $i (instantiate $m
        (with "libc" (instance $libc))
        (with "config" (instance (export "get" (func $get'))))))
      (func (export "echo") (result string)
        (canon lift (core func $i "echo") (memory (core memory $libc "memory"))))
      (func (export "fail") (result (result (error string)))
        (canon lift (core func $i "fail") (memory (core memory $libc "memory"))))
      (func (export "has") (result u32) (canon lift (core func $i "has")))
      (func (export "is-error") (result u32) (canon lift (core func $i "is-error"))))"#;
    let text = text.replace("0.2.0-rc.1", version);
    wat::parse_str(text.replace("(export \"error\"", &format!("(export \"{error}\""))).unwrap()
}

#[test]
fn settings_are_read_and_their_secrets_shown_nowhere() {
    // As JavaScript for other hosts imports it.
    let draft = Typed::new("store.wasm", &configured("0.2.0-draft", "config-error"));
    draft.settings("[grants.store.config]\nkey = 'celsius'\n");
    draft.answers("echo", json!({}), json!({"result": "celsius"}));
    let typed = Typed::new("store.wasm", &configured("0.2.0-rc.1", "error"));
    typed.answers("has", json!({}), json!({"result": 0}));
    typed.settings("[grants.store.config]\nkey = 'celsius'\nother = 'x'\n");
    typed.answers("has", json!({}), json!({"result": 1}));
    typed.answers("echo", json!({}), json!({"result": "celsius"}));
    typed.settings("[grants.store.config]\nkey = 'Bearer ${WEATHER_KEY}'\n");
    typed.answers("is-error", json!({}), json!({"result": 1}));
    let call = |tool: &str| {
        let args = ["call", tool, "{}", "--plugin", typed.file()];
        typed.place.command(&args).env("WEATHER_KEY", "s3cr3t\"key").output().unwrap()
    };
    for (tool, wanted) in [("echo", "[key]"), ("fail", "[key]"), ("has", "1")] {
        let ended = call(tool);
        let said = [ended.stdout, ended.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(wanted) && !said.contains("s3cr3t"), "{tool}: {said}");
    }
    let log = typed.place.run(&["log"]);
    assert!(log.stdout.contains("store.fail") && !log.stdout.contains("s3cr3t"), "{log:?}");
    let explained = typed.run(&["policy", "explain", "store"]).json();
    assert_eq!(explained["config"], json!(["key"]));
    typed.settings("[grants.store.config]\nkey = '${not a name}'\n");
    typed.fails("has", json!({}), &["grants.store.config.key", "variable's name"]);
}

#[test]
fn relative_and_absolute_paths_lead_to_the_workspace() {
    let shapes = Typed::new("shapes.wasm", &bare("typed"));
    shapes.settings("[grants.shapes]\nfiles = 'write'\n");
    shapes.place.write("sub/note.txt", "hello");
    let workspace = shapes.place.workspace().canonicalize().unwrap();
    let real = workspace.join("sub/note.txt");
    for path in
        ["sub/note.txt", "./sub/note.txt", "/workspace/sub/note.txt", real.to_str().unwrap()]
    {
        shapes.answers("read-note", json!({"path": path}), json!({"result": "hello"}));
    }
    for path in ["../outside", "/etc/passwd", "/workspace/../outside", "sub/../../outside"] {
        shapes.fails("read-note", json!({"path": path}), &["FunctionError"]);
    }
    // Where the workspace has directories of these names, relative paths mean them.
    for name in ["workspace", "tmp"] {
        shapes.place.write(&format!("{name}/own.txt"), "own");
        let path = format!("{name}/own.txt");
        shapes.answers("read-note", json!({"path": path}), json!({"result": "own"}));
    }
}

#[test]
fn descriptions_come_from_files_beside_a_component() {
    let typed = Typed::new("adder.wasm", &adder());
    let described = || typed.run(&["tools", "adder.add"]).json()["description"].clone();
    assert_eq!(described(), "The function add of the interface docs:adder/add@0.1.0.");
    let wit = "package docs:adder@0.1.0;\n/// Sums.\ninterface add {\n/// Adds two numbers.\n\
               add: func(x: u32, y: u32) -> u32;\n}\nworld w { export add; }\n";
    typed.place.write("adder.wit", wit);
    assert_eq!(described(), "Adds two numbers.");
    typed.place.write("adder.toml", "description = 'A sum.'\ntools.add = 'Adds, as I say.'\n");
    assert_eq!(described(), "Adds, as I say.");
    // They are installed with the component.
    let installed = typed.place.run(&["plugin", "install", "./adder.wasm"]);
    assert_eq!(installed.status, 0, "{installed:?}");
    for file in ["adder.wasm", "adder.wit", "adder.toml"] {
        fs::remove_file(typed.place.workspace().join(file)).unwrap();
    }
    let listed = typed.place.run(&["tools", "adder.add"]).json();
    assert_eq!(listed["description"], "Adds, as I say.");
}

#[test]
fn files_beside_a_component_that_cant_be_read_are_named() {
    let typed = Typed::new("adder.wasm", &adder());
    let deep = format!("package a:b; interface i {{ type t = {}u8", "list<".repeat(200));
    for (file, text, wanted) in [
        ("adder.wit", "package".to_owned(), "the WIT beside it: "),
        ("adder.wit", deep, "type nesting too deep"),
        ("adder.toml", "tools.sum = 'x'".to_owned(), "there is no tool 'sum'"),
        ("adder.toml", "title = 'x'".to_owned(), "unknown field `title`"),
    ] {
        typed.place.write(file, text);
        let checked = typed.place.run(&["plugin", "check", "adder.wasm"]);
        assert!(checked.stdout.contains(wanted), "{wanted}: {checked:?}");
        typed.answers("adder.add", json!({"x": 1, "y": 2}), json!({"result": 3}));
        fs::remove_file(typed.place.workspace().join(file)).unwrap();
    }
}

/// Python's build tools import sockets into every component.
#[test]
fn sockets_can_be_imported_and_not_used() {
    let text = r#"(component
      (import "wasi:sockets/network@0.2.9" (instance $net
        (export "network" (type (sub resource)))))
      (alias export $net "network" (type $network))
      (import "wasi:sockets/instance-network@0.2.9" (instance $instance
        (alias outer 1 $network (type $network'))
        (export "network" (type $n (eq $network')))
        (export "instance-network" (func (result (own $n))))))
      (alias export $instance "instance-network" (func $get))
      (core func $get' (canon lower (func $get)))
      (core module $m
        (import "net" "get" (func $get (result i32)))
        (func (export "still") (result i32) (i32.const 1))
        (func (export "open") (result i32) (call $get)))
      (core instance $i (instantiate $m (with "net" (instance (export "get" (func $get'))))))
      (func (export "still") (result u32) (canon lift (core func $i "still")))
      (func (export "open") (result u32) (canon lift (core func $i "open"))))"#;
    let typed = Typed::new("net.wasm", &wat::parse_str(text).unwrap());
    typed.answers("still", json!({}), json!({"result": 1}));
    typed.fails("open", json!({}), &["PluginCrashed", "there are no sockets here"]);
    let checked = typed.place.run(&["plugin", "check", "net.wasm"]);
    assert_eq!(checked.status, 0, "{checked:?}");
}
