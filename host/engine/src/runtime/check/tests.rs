#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use cofferdam_plugin::check::Severity;
use serde_json::json;

fn manifest(requests: serde_json::Value, tools: bool, backend: Option<&str>) -> Manifest {
    let tool =
        json!({"name": "t", "title": "", "description": "", "done": "", "input": {}, "output": {}});
    let manifest = json!({
        "name": "a", "version": "0.1.0", "description": "", "requests": requests,
        "tools": if tools { vec![tool] } else { vec![] },
        "backends": backend.map(|kind| json!({"kind": kind, "name": "b"})).into_iter().collect::<Vec<_>>(),
    });
    Manifest::parse(manifest.to_string().as_bytes()).unwrap()
}

/// A component with these instance imports, each of an empty instance.
fn importing(imports: &[&str]) -> Vec<u8> {
    use wasm_encoder::{
        Component, ComponentImportSection, ComponentTypeRef, ComponentTypeSection, InstanceType,
    };
    let mut types = ComponentTypeSection::new();
    types.instance(&InstanceType::new());
    let mut section = ComponentImportSection::new();
    for import in imports {
        section.import(*import, ComponentTypeRef::Instance(0));
    }
    let mut component = Component::new();
    component.section(&types);
    component.section(&section);
    component.finish()
}

fn found(imports: &[&str], manifest: Option<&Manifest>) -> Vec<(Severity, String, String)> {
    let findings = Runtime::new(1, None).unwrap().check("x.wasm", &importing(imports), manifest);
    let all = findings.into_iter();
    all.map(|finding| {
        (finding.severity, format!("{}: {}", finding.place, finding.problem), finding.cure)
    })
    .collect()
}

#[test]
fn all_refused_imports_are_found() {
    let manifest = manifest(json!({"files": "read"}), false, Some("builder"));
    let imports = [
        "wasi:nn/graph@0.2.0",
        "cofferdam:host/scan@0.1.0",
        "cofferdam:host/process@0.1.0",
        "cofferdam:host/scan@0.2.0",
    ];
    let found = found(&imports, Some(&manifest));
    let wanted = [
        ("x.wasm, import wasi:nn/graph@0.2.0: this host does not offer it", "docs/plugins.md"),
        (
            "x.wasm, import cofferdam:host/scan@0.1.0: the manifest does not request",
            "write scan = true",
        ),
        (
            "x.wasm, import cofferdam:host/process@0.1.0: the manifest does not request",
            "write process = [",
        ),
        (
            "x.wasm, import cofferdam:host/scan@0.2.0: this host does not offer it",
            "cofferdam:host/scan@0.1.0",
        ),
        (
            "x.wasm, export cofferdam:backend/builder@0.1.0: the manifest speaks of it",
            "a world that exports",
        ),
    ];
    for (text, cure) in wanted {
        let is_there = |(severity, found, said): &(Severity, String, String)| {
            *severity == Severity::Error && found.starts_with(text) && said.contains(cure)
        };
        assert!(found.iter().any(is_there), "{text}: {found:#?}");
    }
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
}

#[test]
fn unused_requests_are_warnings() {
    let manifest = manifest(
        json!({"files": "write", "scan": true, "process": ["git"], "backends": ["linter"], "http": ["https://a.example"]}),
        true,
        None,
    );
    let found = found(&[], Some(&manifest));
    let places: Vec<&str> = found
        .iter()
        .filter(|(severity, ..)| *severity == Severity::Warning)
        .filter_map(|(_, text, _)| text.split_once(": ").map(|(place, _)| place))
        .collect();
    assert_eq!(
        places,
        ["files", "scan", "process", "backends", "http"]
            .map(|what| format!("x.wasm at /requests/{what}"))
    );
}

#[test]
fn without_a_manifest_only_unknown_imports_are_found() {
    let found = found(&["wasi:nn/graph@0.2.0", "cofferdam:host/scan@0.1.0"], None);
    assert_eq!(found.iter().filter(|(_, text, _)| text.contains("import wasi:nn")).count(), 1);
    assert!(
        !found.iter().any(|(_, text, _)| text.contains("import cofferdam:host/scan@")),
        "{found:#?}"
    );
}

#[test]
fn invalid_components_are_found() {
    let runtime = Runtime::new(1, None).unwrap();
    let mut bytes = importing(&[]);
    bytes.extend([0xff, 0x01, 0x00]);
    // Reading the manifest reports a broken section.
    assert!(runtime.check("x.wasm", &bytes, None).is_empty());
    let mut bytes = importing(&[]);
    // A core module with a 64-bit memory.
    let module = b"\0asm\x01\0\0\0\x05\x03\x01\x04\x01";
    bytes.extend([1, module.len() as u8]);
    bytes.extend(module);
    let found = runtime.check("x.wasm", &bytes, None);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].problem.contains("can't be compiled") && found[0].cure.contains("64-bit"),
        "{found:#?}"
    );
}
