#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]

use std::fs;

use super::*;
use serde_json::json;

const MANIFEST: &str = r#"name = "hello"
version = "0.1.0"
description = "Greets."

[[tools]]
name = "greet"
title = "Greet"
description = "Greets somebody."
done = "greeted"
input = "input.json"
output = "output.json"

[[tools.examples]]
name = "Ada"
arguments = { name = "Ada" }
answer = { text = "Hello, Ada!" }
"#;

fn input() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name"],
        "properties": {"name": {"type": "string"}},
    })
}

fn output() -> Value {
    json!({
        "type": "object",
        "required": ["text"],
        "properties": {"text": {"type": "string"}},
    })
}

/// The findings in a directory with these files.
fn found(manifest: &str, input: &str, output: &str) -> Vec<Finding> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.toml");
    for (name, text) in [("plugin.toml", manifest), ("input.json", input), ("output.json", output)]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let mut findings = manifest_file(&path).findings;
    let prefix = format!("{}/", folder.path().display());
    for finding in &mut findings {
        finding.place.file = finding.place.file.replace(&prefix, "");
        assert!(!finding.cure.is_empty() && !finding.problem.is_empty(), "{finding:?}");
    }
    findings
}

fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{}: {}", finding.place, finding.problem)).collect()
}

#[test]
fn valid_plugins_have_no_findings() {
    assert_eq!(found(MANIFEST, &input().to_string(), &output().to_string()), []);
}

/// A part of [`MANIFEST`], what is written instead, and the place, the problem and the cure that are
/// found.
const MISTAKES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "version = \"0.1.0\"",
        "version = \"1\"",
        "plugin.toml:2 at /version",
        "version '1' is no semantic version",
        "MAJOR.MINOR.PATCH",
    ),
    (
        "name = \"hello\"",
        "name = \"Hello\"",
        "plugin.toml:1 at /name",
        "'Hello' is not of the form",
        "choose another name",
    ),
    (
        "done = \"greeted\"",
        "done = \"greeted\"\neffects = \"write\"",
        "plugin.toml:10 at /tools/0/effects",
        "the plugin requests files = 'none'",
        "under [requests]",
    ),
    (
        "title = \"Greet\"",
        "titel = \"Greet\"",
        "plugin.toml:7 at /tools/0/titel",
        "found the unknown field 'titel'",
        "write 'title'",
    ),
    ("[[tools]]", "[[tools]", "plugin.toml:5", "", "correct the TOML"),
    (
        "input = \"input.json\"",
        "input = \"missing.json\"",
        "plugin.toml:10 at /tools/0/input",
        "the schema missing.json can't be read",
        "relative to the manifest",
    ),
    (
        "arguments = { name = \"Ada\" }",
        "arguments = { nam = \"Ada\" }",
        "plugin.toml:15 at /tools/0/examples/0/arguments/nam",
        "found the unknown field 'nam'",
        "write 'name', or change the tool's input schema",
    ),
    (
        "answer = { text = \"Hello, Ada!\" }",
        "answer = { text = 1 }",
        "plugin.toml:16 at /tools/0/examples/0/answer/text",
        "does not fit the tool's output schema: expected a string, found 1",
        "correct the example",
    ),
    (
        "answer = { text = \"Hello, Ada!\" }",
        "answer = { text = \"\" }\nerror = \"E\"",
        "plugin.toml:17 at /tools/0/examples/0/error",
        "both an answer and an error",
        "leave one of them out",
    ),
    (
        "answer = { text = \"Hello, Ada!\" }",
        "files = { \"../x\" = \"\" }",
        "plugin.toml:16 at /tools/0/examples/0/files/..~1x",
        "has the file '../x', which is no path in a workspace",
        "relative to the workspace",
    ),
    (
        "version = \"0.1.0\"",
        "version = \"0.1.0\"\nrequests = { http = [\"http://a.example\"] }",
        "plugin.toml:3",
        "'http://a.example' is no origin",
        "cofferdam schema plugin",
    ),
];

#[test]
fn each_mistake_is_found_with_place_and_fix() {
    for &(from, to, place, problem, cure) in MISTAKES {
        let manifest = MANIFEST.replacen(from, to, 1);
        assert_ne!(manifest, MANIFEST, "{from}");
        let findings = found(&manifest, &input().to_string(), &output().to_string());
        let wanted = |finding: &Finding| {
            finding.severity == Severity::Error
                && finding.place.to_string().starts_with(place)
                && finding.problem.contains(problem)
                && finding.cure.contains(cure)
        };
        assert!(findings.iter().any(wanted), "{to}: {findings:#?}");
    }
}

#[test]
fn all_mistakes_are_found_at_once() {
    let manifest = MANIFEST
        .replace("\"0.1.0\"", "\"1\"")
        .replace("name = \"hello\"", "name = \"HELLO\"")
        .replace("{ text = \"Hello, Ada!\" }", "{ txt = 1 }");
    let mut input = input();
    input["examples"] = json!([{"name": 1}, {"name": "x"}, {}]);
    let findings = found(&manifest, &input.to_string(), "{\n\"type\":}");
    assert_eq!(
        shown(&findings),
        [
            "input.json at /examples/0/name: does not fit its own schema: expected a string, found 1",
            "input.json at /examples/2/name: does not fit its own schema: expected the required field 'name', found nothing",
            "output.json:2: expected value at line 2 column 8",
            "plugin.toml:1 at /name: name 'HELLO' is not of the form [a-z][a-z0-9_-]*, at most 64 characters, no '__'",
            "plugin.toml:2 at /version: version '1' is no semantic version such as 0.1.0",
        ]
    );
}

#[test]
fn invalid_schemas_are_found_with_their_place() {
    let input = json!({"type": "object", "properties": {"name": {"type": "strin"}}});
    let findings = found(MANIFEST, &input.to_string(), &output().to_string());
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].place.pointer.as_deref(), Some("/properties/name/type"));
    assert_eq!(findings[0].place.file, "input.json");
}

#[test]
fn improvements_are_warnings() {
    let manifest = &MANIFEST[..MANIFEST.find("\n[[tools.examples]]").unwrap()];
    let findings = found(manifest, "{}", &output().to_string());
    assert!(findings.iter().all(|finding| finding.severity == Severity::Warning));
    assert_eq!(
        shown(&findings),
        [
            "input.json at /type: arguments are an object, and the schema does not say so",
            "plugin.toml:5 at /tools/0: the tool 'greet' has no example call",
        ]
    );
}

#[test]
fn a_missing_manifest_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let checked = manifest_file(&folder.path().join("plugin.toml"));
    assert!(checked.findings[0].cure.contains("plugin new"), "{:?}", checked.findings);
    assert!(checked.manifest.is_none());
}

const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

#[test]
fn other_files_are_findings() {
    for (bytes, problem, cure) in [
        (EMPTY, "has no manifest", "cofferdam plugin pack"),
        (b"\0asm\x01\0\0\0", "a core WebAssembly module", "wasm32-wasip2"),
        (b"\x7fELF", "not a WebAssembly component", "build the component anew"),
        (b"", "not a WebAssembly component", "build the component anew"),
    ] {
        let findings = packed("x.wasm", bytes).findings;
        assert_eq!(findings.len(), 1);
        assert!(findings[0].problem.contains(problem), "{findings:?}");
        assert!(findings[0].cure.contains(cure), "{findings:?}");
    }
}

#[test]
fn packed_manifests_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let mut document: Value = toml::from_str(MANIFEST).unwrap();
    document["tools"][0]["input"] = input();
    document["tools"][0]["output"] = json!({"type": "objekt"});
    document["requests"] = json!({"files": "all"});
    let component = |document: &Value| {
        let mut bytes = EMPTY.to_vec();
        let data = serde_json::to_vec(document).unwrap();
        wasm_encoder::ComponentSection::append_to_component(
            &wasm_encoder::CustomSection { name: manifest::SECTION.into(), data: data.into() },
            &mut bytes,
        );
        bytes
    };
    let findings = packed("x.wasm", &component(&document)).findings;
    let places: Vec<String> = findings.iter().map(|finding| finding.place.to_string()).collect();
    assert_eq!(places, ["x.wasm at /requests/files", "x.wasm at /tools/0/output/type"]);
    drop(folder);

    document["requests"] = json!({});
    document["tools"][0]["output"] = output();
    let checked = packed("x.wasm", &component(&document));
    assert_eq!(checked.findings, []);
    assert_eq!(checked.manifest.unwrap().name, "hello");
}
