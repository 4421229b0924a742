#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};
use wasm_encoder::{ComponentSection as _, CustomSection};

use super::*;
use cofferdam_core::envelope::KEPT;
use cofferdam_core::schema::CONTENT;

/// A component that re-exports what it imports: `functions` are the types of its functions `f0`,
/// `f1`, ... in terms of `types`. It can't be run, and has the same types as one that can.
fn component(types: &str, functions: &[&str]) -> String {
    let functions: String = functions
        .iter()
        .enumerate()
        .map(|(index, ty)| {
            format!("(import \"i{index}\" (func $f{index} {ty})) (export \"f{index}\" (func $f{index}))\n")
        })
        .collect();
    format!("(component {types} {functions})")
}

fn derive_text(text: &str) -> Result<Derived, String> {
    let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}"));
    derive(&bytes, "example.wasm", &Beside::default()).map_err(|error| error.to_string())
}

fn with_section(text: &str, name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = wat::parse_str(text).unwrap();
    CustomSection { name: name.into(), data: data.into() }.append_to_component(&mut bytes);
    bytes
}

const ADDER: &str = r#"(component
  (import "add" (func $add (param "x" u32) (param "y" u32) (result u32)))
  (instance $adder (export "add" (func $add)))
  (export "docs:adder/add@0.1.0" (instance $adder)))"#;

#[test]
fn exported_interfaces_become_tools() {
    let Derived { manifest, left_out, unread } = derive_text(ADDER).unwrap();
    manifest.check_schemas().unwrap();
    assert_eq!((left_out, unread), (Vec::new(), Vec::<String>::new()));
    assert_eq!((manifest.name.as_str(), manifest.version.as_str()), ("example", "0.1.0"));
    assert!(manifest.as_granted);
    assert_eq!(manifest.requests, Capabilities::NONE);
    assert_eq!(manifest.description, "A component that exports add.");
    let [tool] = manifest.tools.as_slice() else { panic!("{manifest:?}") };
    assert_eq!((tool.name.as_str(), tool.title.as_str()), ("add", "add"));
    assert_eq!(tool.description, "The function add of the interface docs:adder/add@0.1.0.");
    let number = json!({"type": "integer", "minimum": 0, "maximum": 4_294_967_295_u32});
    assert_eq!(
        *tool.input,
        json!({
            "type": "object",
            "properties": {"x": number, "y": number},
            "required": ["x", "y"],
            "additionalProperties": false,
        })
    );
    assert_eq!(
        *tool.output,
        json!({
            "type": "object",
            "properties": {"result": number},
            "required": ["result"],
            "additionalProperties": false,
        })
    );
}

#[test]
fn imports_become_requests() {
    for (imports, files, any_origin) in [
        ("", Files::None, false),
        ("(import \"wasi:clocks/wall-clock@0.2.0\" (instance))", Files::None, false),
        ("(import \"wasi:filesystem/preopens@0.2.0\" (instance))", Files::Write, false),
        ("(import \"wasi:http/outgoing-handler@0.2.0\" (instance))", Files::None, true),
    ] {
        let text = component(imports, &["(result string)"]);
        let manifest = derive_text(&text).unwrap().manifest;
        assert_eq!((manifest.requests.files, manifest.requests.any_origin), (files, any_origin));
        assert_eq!(manifest.tools[0].effects, files);
    }
}

/// Types for the parameters of [`check_schema`].
const TYPES: &str = r#"
      (type $point' (record (field "x-axis" s32) (field "label" (option string))))
      (import "point" (type $point (eq $point')))
      (type $shape' (variant (case "dot") (case "circle" f64)))
      (import "shape" (type $shape (eq $shape')))
      (type $color' (enum "red" "green"))
      (import "color" (type $color (eq $color')))
      (type $style' (flags "bold" "wide"))
      (import "style" (type $style (eq $style')))
      (type $strings (list string)) (type $bytes (list u8)) (type $pair (tuple string u8))
      (type $maybe (option string)) (type $maybe-color (option $color)) (type $maybe-point (option $point))
      (type $twice (option $maybe)) (type $nested (list (result u8 (error string))))
      (type $silent (list (result)))
    "#;

fn between(least: i64, most: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

fn wrapped(name: &str, schema: Value) -> Value {
    json!({
        "type": "object", "properties": {name: schema}, "required": [name],
        "additionalProperties": false,
    })
}

/// Checks the schema of a parameter and a result of a type.
fn check_schema(ty: &str, wanted: Value) {
    let text = component(TYPES, &[&format!("(param \"it\" {ty}) (result {ty})")]);
    let manifest = derive_text(&text).unwrap().manifest;
    manifest.check_schemas().unwrap();
    let tool = &manifest.tools[0];
    assert_eq!(tool.input["properties"]["it"], wanted, "{ty}");
    assert_eq!(tool.output["properties"]["result"], wanted, "{ty}");
    let is_option = ty.starts_with("$maybe") || ty == "$twice";
    let required = if is_option { json!([]) } else { json!(["it"]) };
    assert_eq!(tool.input["required"], required, "{ty}");
}

#[test]
fn each_plain_type_has_a_schema() {
    for (ty, wanted) in [
        ("bool", json!({"type": "boolean"})),
        ("s8", between(-128, 127)),
        ("u8", between(0, 255)),
        ("s16", between(-32768, 32767)),
        ("u16", between(0, 65535)),
        ("s32", between(-2_147_483_648, 2_147_483_647)),
        ("u32", between(0, 4_294_967_295)),
        ("s64", between(i64::MIN, i64::MAX as u64)),
        ("u64", between(0, u64::MAX)),
        ("f32", json!({"type": "number", "minimum": -3.402_823_5e38, "maximum": 3.402_823_5e38})),
        ("f64", json!({"type": "number"})),
        ("char", json!({"type": "string", "minLength": 1, "maxLength": 1})),
        ("string", json!({"type": "string"})),
    ] {
        check_schema(ty, wanted);
    }
}

#[test]
fn each_named_type_has_a_schema() {
    for (ty, wanted) in [
        (
            "$point",
            json!({
                "type": "object",
                "properties": {
                    "x-axis": between(-2_147_483_648, 2_147_483_647),
                    "label": {"type": ["string", "null"]},
                },
                "required": ["x-axis"],
                "additionalProperties": false,
            }),
        ),
        (
            "$shape",
            json!({"oneOf": [
                wrapped("tag", json!({"const": "dot"})),
                {
                    "type": "object",
                    "properties": {"tag": {"const": "circle"}, "value": {"type": "number"}},
                    "required": ["tag", "value"],
                    "additionalProperties": false,
                },
            ]}),
        ),
        ("$color", json!({"type": "string", "enum": ["red", "green"]})),
        (
            "$style",
            json!({"type": "array", "items": {"enum": ["bold", "wide"]}, "uniqueItems": true}),
        ),
    ] {
        check_schema(ty, wanted);
    }
}

#[test]
fn each_composed_type_has_a_schema() {
    for (ty, wanted) in [
        ("$strings", json!({"type": "array", "items": {"type": "string"}})),
        ("$bytes", json!({"type": "string", "contentEncoding": "base64"})),
        (
            "$pair",
            json!({
                "type": "array", "prefixItems": [{"type": "string"}, between(0, 255)],
                "minItems": 2, "maxItems": 2,
            }),
        ),
        ("$maybe", json!({"type": ["string", "null"]})),
        (
            "$maybe-color",
            json!({"anyOf": [{"type": "string", "enum": ["red", "green"]}, {"type": "null"}]}),
        ),
        (
            "$twice",
            json!({
                "type": ["object", "null"], "properties": {"some": {"type": ["string", "null"]}},
                "required": ["some"], "additionalProperties": false,
            }),
        ),
        (
            "$nested",
            json!({"type": "array", "items": {"oneOf": [
                wrapped("ok", between(0, 255)), wrapped("err", json!({"type": "string"})),
            ]}}),
        ),
        (
            "$silent",
            json!({"type": "array", "items": {"oneOf": [
                wrapped("ok", json!({"type": "null"})), wrapped("err", json!({"type": "null"})),
            ]}}),
        ),
    ] {
        check_schema(ty, wanted);
    }
}

#[test]
fn results_become_answers_and_failures() {
    let wrapped = |name: &str, ty: &str| schema::wrapped(name, Some(json!({"type": ty})));
    let nothing = schema::wrapped("result", None);
    for (result, output, failure) in [
        ("", nothing.clone(), None),
        ("(result (result))", nothing.clone(), None),
        ("(result (result string))", wrapped("result", "string"), None),
        ("(result (result (error string)))", nothing, Some(wrapped("error", "string"))),
        (
            "(result (result bool (error string)))",
            wrapped("result", "boolean"),
            Some(wrapped("error", "string")),
        ),
    ] {
        let manifest = derive_text(&component("", &[result])).unwrap().manifest;
        assert_eq!(*manifest.tools[0].output, output, "{result}");
        assert_eq!(manifest.tools[0].failure.as_deref(), failure.as_ref(), "{result}");
    }
}

#[test]
fn asynchronous_functions_are_tools() {
    let derived = derive_text(&component("", &["async (param \"n\" u8) (result u8)"])).unwrap();
    assert!(derived.left_out.is_empty());
    assert_eq!(derived.manifest.tools[0].input["required"], json!(["n"]));
    assert_eq!(derived.manifest.tools[0].output["required"], json!(["result"]));
}

#[test]
fn the_generation_follows_from_imports_and_types() {
    let of = |text: &str| Generation::of(&wat::parse_str(text).unwrap());
    let inner = r#"(component (component
        (core module $m (func (export "f") (result i32) (i32.const 0))
          (func (export "back") (param i32 i32 i32) (result i32) (i32.const 0)))
        (core instance $m (instantiate $m))
        (func (export "f") async (canon lift (core func $m "f") async
          (callback (core func $m "back"))))))"#;
    for (text, wanted) in [
        ("(component)", Generation::Wasi02),
        (&component("", &["(result u8)"]), Generation::Wasi02),
        (r#"(component (import "wasi:random/random@0.2.6" (instance)))"#, Generation::Wasi02),
        (r#"(component (import "other:random/random@0.3.0" (instance)))"#, Generation::Wasi02),
        (r#"(component (import "wasi:random/random@0.3.0" (instance)))"#, Generation::Wasi03),
        (r#"(component (import "wasi:random/random@0.3.0-rc-1" (instance)))"#, Generation::Wasi03),
        (&component("", &["async (result u8)"]), Generation::Wasi03),
        (&component("", &["(result (future u8))"]), Generation::Wasi03),
        (inner, Generation::Wasi03),
    ] {
        assert_eq!(of(text), wanted, "{text}");
    }
    // What is not valid is left to the engine.
    assert_eq!(Generation::of(b"\0asm"), Generation::Wasi02);
}

#[test]
fn unusable_functions_are_left_out_with_the_reason() {
    let resource = "(import \"file\" (type $file (sub resource)))";
    for (types, function, wanted) in [
        (
            resource,
            "(param \"f\" (own $file))",
            "takes a resource, which would not outlive a call ('f')",
        ),
        (resource, "(param \"f\" (borrow $file))", "takes a resource"),
        (resource, "(result (own $file))", "answers a resource"),
        (resource, "(result (result string (error (own $file))))", "answers a resource"),
        ("", "(result (stream u8))", "answers a stream"),
        ("", "(result (future u8))", "answers a future"),
        ("", "async (result (stream u8))", "answers a stream"),
        ("", "async (param \"f\" (future u8))", "takes a future"),
        ("", "(param \"m\" (map string u8))", "takes a type that this engine does not have"),
        (
            "(type $l (list u8 4))",
            "(param \"l\" $l)",
            "takes a type that this engine does not have",
        ),
    ] {
        let error = derive_text(&component(types, &[function])).unwrap_err();
        assert!(error.contains("no function that it exports can be a tool: f0 "), "{error}");
        assert!(error.contains(wanted), "{function}: {error}");
        let derived = derive_text(&component(types, &[function, "(result u8)"])).unwrap();
        assert_eq!(derived.manifest.tools.len(), 1);
        assert_eq!(derived.left_out.len(), 1);
        assert_eq!(derived.left_out[0].function, "f0");
        assert!(derived.left_out[0].why.starts_with(wanted), "{:?}", derived.left_out);
    }
    let command = r#"(component
      (import "run" (func $run (result (result))))
      (instance $command (export "run" (func $run)))
      (export "wasi:cli/run@0.2.6" (instance $command)))"#;
    assert!(derive_text(command).unwrap_err().contains("wasi:cli/run@0.2.6#run is a command"));
    let method = r#"(component
      (import "a:b/c" (instance $i
        (export "file" (type $file (sub resource)))
        (export "[method]file.size" (func (param "self" (borrow $file)) (result u8)))))
      (export "a:b/c" (instance $i)))"#;
    let error = derive_text(method).unwrap_err();
    assert!(error.contains("a:b/c#[method]file.size belongs to a resource"), "{error}");
}

#[test]
fn names_come_from_functions_and_files() {
    for (interface, function, wanted) in [
        (None, "get-weather", Some("get-weather")),
        (None, "get-URL", Some("get-url")),
        (Some("docs:adder/add@0.1.0"), "add", Some("add_add")),
        (Some("calculator"), "add", Some("calculator_add")),
        (Some("a:b/c"), "[method]r.f", None),
        (Some("unlocked-dep=<a:b>"), "f", None),
    ] {
        assert_eq!(tool_name(interface, function).as_deref(), wanted);
    }
    for (called, wanted) in [
        ("weather.wasm", Some("weather")),
        ("Get Weather.component.wasm", Some("get-weather")),
        ("time_server--js@1.0.wasm", Some("time_server-js")),
        ("7zip.wasm", None),
        ("_a__b_", Some("a_b")),
        ("", None),
        ("é.wasm", None),
        ("../x", None),
    ] {
        let found = plugin_name(called);
        assert_eq!(found.ok().as_deref(), wanted, "{called}");
    }
    let long = "x".repeat(60);
    let text = component("", &["(result u8)"]).replace("f0", &long);
    assert!(derive_text(&text).unwrap_err().contains("at most 64 characters"));
}

#[test]
fn two_functions_of_one_name_are_an_error() {
    let text = r#"(component
      (import "f" (func $f (result u8)))
      (instance $i (export "f" (func $f)))
      (export "a:b/c@1.0.0" (instance $i))
      (export "d:e/c@2.0.0" (instance $i)))"#;
    let error = derive_text(text).unwrap_err();
    assert!(
        error.contains("'a:b/c@1.0.0#f' and 'd:e/c@2.0.0#f' would both be the tool 'c_f'"),
        "{error}"
    );
}

#[test]
fn other_components_give_no_manifest() {
    for text in [
        "(component)",
        "(component (type $t' (record (field \"a\" u8))) (export \"t\" (type $t')))",
        r#"(component (import "f" (func $f (result u8))) (instance $i (export "call" (func $f)))
           (export "cofferdam:tool/tools@0.1.0" (instance $i)) (export "g" (func $f)))"#,
    ] {
        let error = derive_text(text).unwrap_err();
        assert_eq!(error, TypedError::NoManifest.to_string(), "{text}");
    }
    for bytes in [&b""[..], b"\0asm\x0d\0\x01\0\x07\xff", &[0xde; 100]] {
        assert!(matches!(derive(bytes, "x", &Beside::default()), Err(TypedError::Malformed(_))));
    }
    let whole = wat::parse_str(ADDER).unwrap();
    // Without its last sections it may still be a component.
    let all = derive(&whole, "x", &Beside::default()).unwrap();
    for end in 0..whole.len() {
        if let Ok(some) = derive(&whole[..end], "x", &Beside::default()) {
            assert_eq!(some, all);
        }
    }
}

const POINTS: &str = r#"(component
  (import "a:b/points@1.0.0" (instance $points
    (type $point' (record (field "x" s32)))
    (export "point" (type $point (eq $point')))
    (export "move" (func (param "to" $point)))))
  (import "g" (func $g (result u8)))
  (export "a:b/points@1.0.0" (instance $points))
  (export "get" (func $g)))"#;

#[test]
fn comments_become_descriptions() {
    let docs = json!({
        "worlds": {"w": {
            "docs": "Moves points.\nAnd more.",
            "func_exports": {"get": {"docs": "Gets it.", "stability": {"stable": {"since": "1.0.0"}}}},
        }},
        "interfaces": {"points": {
            "funcs": {"move": "Moves there."},
            "types": {"point": {"docs": "A place.", "items": {"x": "To the right."}}},
        }},
    });
    for version in [0, 1] {
        let section = [&[version][..], docs.to_string().as_bytes()].concat();
        let bytes = with_section(POINTS, docs::SECTION, &section);
        let Derived { manifest, unread, .. } =
            derive(&bytes, "points.wasm", &Beside::default()).unwrap();
        assert_eq!(unread, Vec::<String>::new());
        assert_eq!(manifest.description, "Moves points.");
        let [get, to] = manifest.tools.as_slice() else { panic!("{manifest:?}") };
        assert_eq!((get.name.as_str(), get.description.as_str()), ("get", "Gets it."));
        assert_eq!((to.name.as_str(), to.description.as_str()), ("move", "Moves there."));
        let point = &to.input["properties"]["to"];
        assert_eq!(point["description"], "A place.");
        assert_eq!(point["properties"]["x"]["description"], "To the right.");
    }
    let described = with_section(ADDER, "description", b"Adds numbers.");
    assert_eq!(
        derive(&described, "adder", &Beside::default()).unwrap().manifest.description,
        "Adds numbers."
    );
    let versioned = with_section(ADDER, "version", b"7.0.0-rc.1");
    assert_eq!(
        derive(&versioned, "adder", &Beside::default()).unwrap().manifest.version,
        "7.0.0-rc.1"
    );
    let nonsense = with_section(ADDER, "version", b"\x1b[2Jnewest");
    assert_eq!(derive(&nonsense, "adder", &Beside::default()).unwrap().manifest.version, "0.1.0");
}

#[test]
fn unreadable_comments_are_reported() {
    let deep = [b"\x01".to_vec(), b"{\"worlds\":".repeat(10_000)].concat();
    let large = [&b"\x01{\"docs\":\""[..], &b"x".repeat(2 << 20), b"\"}"].concat();
    for (section, wanted) in [
        (&b""[..], "it is empty"),
        (b"\x02{}", "unknown version 2"),
        (b"\x01", "EOF while parsing"),
        (b"\x01{\"worlds\": []}", "invalid type"),
        (&deep, "EOF while parsing"),
        (&large, "larger than 1048576 bytes"),
    ] {
        let derived =
            derive(&with_section(ADDER, docs::SECTION, section), "adder", &Beside::default())
                .unwrap();
        let unread = derived.unread.join("");
        assert!(unread.contains(wanted), "{unread}");
        assert_eq!(derived.manifest.tools.len(), 1);
    }
    let long = json!({"interfaces": {"add": {"funcs": {"add": "x".repeat(100_000)}}}});
    let section = [&b"\x01"[..], long.to_string().as_bytes()].concat();
    let derived =
        derive(&with_section(ADDER, docs::SECTION, &section), "adder", &Beside::default()).unwrap();
    assert!(derived.manifest.tools[0].description.len() <= MAX_DESCRIPTION_BYTES + "...".len());
}

/// Small files with huge types are refused cheaply.
#[test]
fn bombs_are_refused() {
    let chain = |count: usize, of: &dyn Fn(usize) -> String| -> String {
        let types: String = (1..=count).map(|n| format!("(type $t{n} {})\n", of(n - 1))).collect();
        component(
            &format!("(type $t0 (option u8)) {types}"),
            &[&format!("(param \"it\" $t{count})")],
        )
    };
    for (text, wanted) in [
        (chain(30, &|n| format!("(option $t{n})")), "takes types that nest deeper than 24"),
        (chain(90, &|n| format!("(list $t{n})")), "takes types that nest deeper than 24"),
        // 2^16 types when expanded.
        (chain(16, &|n| format!("(tuple $t{n} $t{n})")), "takes too many types and cases"),
    ] {
        let error = derive_text(&text).unwrap_err();
        assert!(error.contains(wanted), "{error}");
    }
    let names: String = (0..3_000).map(|n| format!(" \"n{n}\"")).collect();
    let names = format!("(type $e' (enum {names})) (import \"e\" (type $e (eq $e')))");
    let error = derive_text(&component(&names, &["(param \"it\" $e)"])).unwrap_err();
    assert!(error.contains("too many types and cases"), "{error}");
    let wide: String = (0..3_000).map(|n| format!("(field \"f{n}\" u8)")).collect();
    let wide = format!("(type $r' (record {wide})) (import \"r\" (type $r (eq $r')))");
    let error = derive_text(&component(&wide, &["(param \"it\" $r)"])).unwrap_err();
    assert!(error.contains("too many types and cases"), "{error}");
    // 10,000 nested options must be refused early, by the validator or by this module.
    assert!(derive_text(&chain(10_000, &|n| format!("(option $t{n})"))).is_err());
    let many: Vec<&str> = std::iter::repeat_n("(result u8)", MAX_FUNCTIONS + 1).collect();
    assert!(derive_text(&component("", &many)).unwrap_err().contains("more than 1000 functions"));
}

/// With any bit changed, the result is a valid manifest or an error.
#[test]
fn damaged_components_do_no_harm() {
    for text in [ADDER, POINTS] {
        let docs = br#"\x01{"interfaces":{"points":{"funcs":{"move":"Moves."}}}}"#;
        let whole = with_section(text, docs::SECTION, docs);
        for place in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[place] ^= 1 << bit;
                let _ = wit::text(&damaged);
                if let Ok(derived) = derive(&damaged, "x", &Beside::default()) {
                    derived.manifest.check_schemas().unwrap();
                }
            }
        }
    }
}

/// A component with all kinds of items.
const COMPONENT: &str = r#"(component
      (import "wasi:cli/exit@0.2.6" (instance))
      (import "a:b/canvas" (instance $canvas
        (type $color' (enum "red" "green"))
        (export "color" (type $color (eq $color')))))
      (alias export $canvas "color" (type $color))
      (import "a:b/points@1.0.0" (instance $points
        (alias outer 1 $color (type $color'))
        (export "color" (type $color (eq $color')))
        (type $point' (record (field "x" s32) (field "color" $color)))
        (export "point" (type $point (eq $point')))
        (type $many' (list $point)) (export "many" (type $many (eq $many')))
        (export "file" (type $file (sub resource)))
        (export "[constructor]file" (func (param "name" string) (result (own $file))))
        (export "[method]file.size" (func (param "self" (borrow $file)) (result u64)))
        (export "[static]file.open" (func (param "name" (option string)) (result (own $file))))
        (export "move" (func (param "all" $many) (param "by" (tuple s32 s32)) (result (result (error $color)))))))
      (import "f" (func $f (param "x" (list u8)) (result (result string (error (list string))))))
      (export "a:b/points@1.0.0" (instance $points))
      (export "get-it" (func $f)))"#;

/// [`COMPONENT`] with its comments, as WIT.
const WRITTEN: &str = "\
/// All of it.
world root {
  import wasi:cli/exit@0.2.6;
  import a:b/canvas;
  import a:b/points@1.0.0;
  import f: func(x: list<u8>) -> result<string, list<string>>;
  export a:b/points@1.0.0;
  /// Gets it.
  ///
  /// Now.
  export get-it: func(x: list<u8>) -> result<string, list<string>>;
}

package a:b@1.0.0 {
  /// Points.
  interface points {
    use a:b/canvas.{color};
    /// A place.
    record point {
      /// To the right.
      x: s32,
      color: color,
    }
    type many = list<point>;
    resource file {
      constructor(name: string);
      size: func() -> u64;
      open: static func(name: option<string>) -> file;
    }
    /// Moves \u{1b}[2J.
    move: func(all: many, by: tuple<s32, s32>) -> result<_, color>;
  }
}
";

#[test]
fn a_component_is_written_as_wit() {
    let docs = json!({
        "worlds": {"w": {"docs": "All of it.", "funcs": {"get-it": "Gets it.\n\nNow."}}},
        "interfaces": {"points": {
            "docs": "Points.",
            "funcs": {"move": "Moves \u{1b}[2J."},
            "types": {"point": {"docs": "A place.", "items": {"x": "To the right."}}},
        }},
    });
    let section = [&b"\x01"[..], docs.to_string().as_bytes()].concat();
    let written = wit::text(&with_section(COMPONENT, docs::SECTION, &section)).unwrap();
    assert_eq!(written, WRITTEN);
    for bytes in [&b""[..], &[0xde; 100]] {
        assert!(wit::text(bytes).is_err());
    }
    assert_eq!(wit::text(&wat::parse_str("(component)").unwrap()).unwrap(), "world root {\n}\n");
    let bomb = (1..20).map(|n| format!("(type $t{n} (tuple $t{} $t{}))", n - 1, n - 1));
    let bomb = component(
        &format!("(type $t0 (tuple u8)) {}", bomb.take(15).collect::<String>()),
        &["(param \"it\" $t15)"],
    );
    let written = wit::text(&wat::parse_str(&bomb).unwrap()).unwrap();
    assert!(written.contains("/* ... */") && written.len() < 1 << 20);
}

#[test]
fn no_words_of_tool_names_are_doubled() {
    let names = |plugin: &str, functions: &[(Option<&str>, &str)]| {
        let names = tool_names(plugin, functions).into_iter();
        names.map(Option::unwrap_or_default).collect::<Vec<_>>()
    };
    for (plugin, interface, function, wanted) in [
        ("p", None, "add", "add"),
        ("p", Some("docs:adder/add@0.1.0"), "add", "add"),
        ("p", Some("a:b/weather"), "get-weather", "get-weather"),
        ("p", Some("a:b/web-search"), "web-search-all", "web-search-all"),
        ("p", Some("a:b/web-search"), "search", "web-search_search"),
        ("p", Some("a:b/art"), "start", "art_start"),
        ("file_system", Some("a:b/file-system"), "list", "list"),
        ("p", Some("a:b/calculator"), "add", "calculator_add"),
        ("p", Some("a:b/c"), "[method]x.y", ""),
    ] {
        assert_eq!(names(plugin, &[(interface, function)]), [wanted]);
    }
    // Two functions never get one name that they would not have had before.
    let twice = [(Some("a:b/get"), "get"), (None, "get"), (Some("a:b/put"), "put")];
    assert_eq!(names("p", &twice), ["get_get", "get", "put"]);
}

#[test]
fn texts_beside_a_component_describe_types_as_well() {
    let wit = "package docs:adder@0.1.0;\n/// Sums.\ninterface add {\n/// Adds.\nadd: func(x: u32, \
               y: u32) -> u32;\n/// A place.\nrecord point {\n/// Across.\nx: u32,\n}\n}\n\
               /// All.\nworld w {\n/// Runs.\nexport run: func();\nimport other:thing/api;\n}\n";
    let beside = Beside { wit: Some(wit.to_owned()), ..Beside::default() };
    let docs = beside.docs().unwrap().unwrap();
    assert_eq!(docs.component(), Some("All."));
    assert_eq!(docs.function(Some("add"), "add"), Some("Adds."));
    assert_eq!(docs.function(None, "run"), Some("Runs."));
    let point = docs.ty(Some("add"), "point").unwrap();
    assert_eq!((point.docs.as_deref(), point.items["x"].as_str()), (Some("A place."), "Across."));
}

/// Clients get the bytes apart, so an answer may lack them; an argument may not.
#[test]
fn bytes_with_a_media_type_are_content() {
    let types = r#"(type $record (record (field "mime-type" string) (field "data" (list u8))))
      (import "content" (type $content (eq $record)))
      (type $other (record (field "type" string) (field "data" (list u8))))
      (import "other" (type $plain (eq $other)))"#;
    for (function, place, wanted) in [
        ("(result $content)", "/properties/result", json!(KEPT)),
        ("(result (result $content))", "/properties/result", json!(KEPT)),
        ("(result (list $content))", "/properties/result/items", json!(KEPT)),
        ("(result $plain)", "/properties/result", Value::Null),
        ("(param \"c\" $content)", "/properties/result", Value::Null),
    ] {
        let derived = derive_text(&component(types, &[function])).unwrap();
        let [tool] = derived.manifest.tools.as_slice() else { panic!("{derived:?}") };
        let record = tool.output.pointer(place).unwrap_or(&Value::Null);
        assert_eq!(record[CONTENT], wanted, "{function}: {record}");
        let required = record["required"].as_array().map(Vec::len);
        assert_eq!(required == Some(1), wanted == KEPT, "{record}");
        assert_eq!(tool.input["properties"]["c"][CONTENT], Value::Null);
    }
    assert_eq!(schema::with_content(json!({"properties": {}})), json!({"properties": {}}));
}
