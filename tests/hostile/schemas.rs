//! A guest's manifest and schemas, which its author controls.

use std::time::{Duration, Instant};

use cofferdam_core::outcome::Outcome;
use serde_json::{Value, json};

use super::component::{Component, Packed, manifest};
use super::engine::ANSWER;
use crate::support::Place;
use crate::trial::{Trial, cache};

/// A plugin whose tool has these schemas.
fn plugin(input: &Value, output: &Value) -> Packed {
    let mut manifest = manifest();
    manifest["tools"][0]["input"] = input.clone();
    manifest["tools"][0]["output"] = output.clone();
    Packed::new(&Component::new(ANSWER).build(), &manifest)
}

/// The outcomes of calls with such an input schema and with such an output schema.
fn calls(schema: &Value, args: &Value) -> Vec<Option<Outcome>> {
    let open = json!({});
    [(schema, &open), (&open, schema)]
        .map(|(input, output)| {
            Trial::new(plugin(input, output), "").try_call(None, "attack.go", args.clone()).ok()
        })
        .into()
}

/// References to other documents are not resolved.
#[test]
fn schemas_do_not_load_other_documents() {
    for reference in [
        "file:///etc/passwd",
        "http://127.0.0.1:9/schema",
        "https://example.com/schema",
        "../schema.json",
    ] {
        for outcome in calls(&json!({"$ref": reference}), &json!({})) {
            assert!(!matches!(outcome, Some(Outcome::Executed(_))), "{reference}: {outcome:?}");
        }
    }
}

/// A recursive schema is refused, even if it is harmless: checking a hostile one takes twice as
/// long for each level of the arguments.
#[test]
fn recursive_schemas_are_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"$dynamicRef": "#"}),
        json!({"not": {"$ref": "#"}}),
        json!({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [
            {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["y"]},
            {"properties": {"x": {"$ref": "#/$defs/a"}}, "required": ["y"]},
        ]}}}),
    ] {
        let nested = (0..60).fold(json!({}), |inner, _| json!({ "x": inner }));
        assert!(
            matches!(calls(&schema, &nested).as_slice(), [None, Some(Outcome::Failed(_))]),
            "{schema}"
        );
    }
}

/// Patterns do not backtrack exponentially.
#[test]
fn patterns_do_not_backtrack_exponentially() {
    let started = Instant::now();
    for pattern in
        ["^(a+)+$", "^(a|aa)+$", "(?=(a+))\\1+b", "^(?:(?:(?:a{0,50}){0,50}){0,50}){0,50}$"]
    {
        let text = "a".repeat(5000) + "!";
        calls(&json!({"properties": {"a": {"pattern": pattern}}}), &json!({"a": text}));
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

/// Sixty schemas that each refer twice to the next one.
#[test]
fn schemas_that_grow_exponentially_are_refused() {
    let mut definitions = serde_json::Map::new();
    for level in 0..60 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        definitions.insert(level.to_string(), json!({"anyOf": [next, next]}));
    }
    definitions.insert("60".to_owned(), json!({"type": "string"}));
    let schema = json!({"$defs": definitions, "$ref": "#/$defs/0"});
    let (done, waiting) = std::sync::mpsc::channel();
    // On a separate thread, so that the test fails instead of hanging.
    std::thread::spawn(move || done.send(calls(&schema, &json!({}))));
    // Both are refused.
    assert!(matches!(
        waiting.recv_timeout(Duration::from_secs(30)).as_deref(),
        Ok([None, Some(Outcome::Failed(_))])
    ));
}

/// A manifest whose JSON is nested too deeply is refused.
#[test]
fn deeply_nested_manifests_are_refused() {
    let mut component = Component::new(ANSWER).build();
    let json = format!("{{\"name\": {}", "[".repeat(1_000_000));
    let section = wasm_encoder::CustomSection {
        name: "cofferdam:manifest".into(),
        data: json.as_bytes().into(),
    };
    wasm_encoder::ComponentSection::append_to_component(&section, &mut component);
    let refused = Trial::open(Place::new(), vec![Packed::from_bytes(&component)], "", cache());
    assert!(refused.is_err_and(|error| error.to_string().contains("the manifest is malformed")));
}

/// A tool whose input schema is invalid is shown to users but not to clients; the place of the
/// problem is logged, and no call of the tool runs (the tool schemas, "Fallback Strategy").
#[test]
fn a_tool_with_an_invalid_schema_is_not_listed_for_clients() {
    let packed = plugin(&json!({"properties": {"a": {"type": "objekt"}}}), &json!({}));
    let place = Place::new();
    let run = |arguments: &[&str]| {
        place.run(&[&["--plugin", packed.path.to_str().unwrap()], arguments].concat())
    };
    for format in ["mcp", "openai", "anthropic"] {
        let ended = run(&["tools", "--format", format]);
        assert_eq!(ended.status, 0, "{ended:?}");
        assert!(!ended.stdout.contains("attack"), "{ended:?}");
        assert!(ended.stdout.contains("files__read"), "{ended:?}");
        assert!(
            ended
                .stderr
                .contains("the tool 'attack.go': no valid JSON Schema: at '/properties/a/type'"),
            "{ended:?}"
        );
    }
    for format in ["json", "text", "markdown"] {
        let ended = run(&["tools", "--format", format]);
        assert!(ended.stdout.contains("attack.go"), "{ended:?}");
    }
    let ended = run(&["call", "attack.go"]);
    assert_eq!(ended.status, 2, "{ended:?}");
}
