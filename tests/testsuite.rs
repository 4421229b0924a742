//! The public WebAssembly/wasi-testsuite: its programs for WASI 0.3, as they are published. They are too large for
//! this repository, so the test only runs if `COFFERDAM_WASI_TESTSUITE` names their folder
//! (`docs/compatibility.md` says how). `wasi:cli/run` is no tool, so each program gets one more export: its function
//! `run` under the name `go`. Nothing else of it is changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use wasm_encoder::{
    Alias, ComponentAliasSection, ComponentExportKind, ComponentExportSection, ComponentSection,
};
use wasmparser::{ComponentExternalKind, Parser, Payload};

use crate::support::Place;
use crate::trial::configure;

/// Programs that end in another way than the suite expects, and why. A name with a hyphen at its end stands for all
/// that begin with it.
const EXCEPTIONS: [(&str, &str); 6] = [
    ("cli-env", "a call has no arguments and no variables"),
    ("cli-stdio-roundtrip", "standard input is empty"),
    ("cli-stdout-flush", "standard input is empty"),
    ("filesystem-", "they stop unless exactly one directory is open"),
    ("http-request", "the HTTP library refuses relative paths"),
    ("sockets-", "there are no sockets"),
];

/// A program with its function `run` of `wasi:cli/run` exported as `go`; `None` if it has none.
fn with_go(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut instances, mut functions, mut run, mut depth) = (0, 0, None, 0);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            Payload::ComponentImportSection(section) => {
                for import in section {
                    match import.unwrap().ty {
                        wasmparser::ComponentTypeRef::Instance(_) => instances += 1,
                        wasmparser::ComponentTypeRef::Func(_) => functions += 1,
                        _ => {}
                    }
                }
            }
            Payload::ComponentInstanceSection(section) => instances += section.count(),
            Payload::ComponentCanonicalSection(section) => {
                let lifts = section.into_iter().filter(|function| {
                    matches!(function, Ok(wasmparser::CanonicalFunction::Lift { .. }))
                });
                functions += lifts.count() as u32;
            }
            Payload::ComponentAliasSection(section) => {
                for alias in section {
                    let kind = match alias.unwrap() {
                        wasmparser::ComponentAlias::InstanceExport { kind, .. } => kind,
                        _ => continue,
                    };
                    instances += u32::from(kind == ComponentExternalKind::Instance);
                    functions += u32::from(kind == ComponentExternalKind::Func);
                }
            }
            Payload::ComponentExportSection(section) => {
                for export in section {
                    let export = export.unwrap();
                    if export.name.name.starts_with("wasi:cli/run@") {
                        run = Some(instances);
                    }
                    instances += u32::from(export.kind == ComponentExternalKind::Instance);
                    functions += u32::from(export.kind == ComponentExternalKind::Func);
                }
            }
            _ => {}
        }
    }
    let mut aliases = ComponentAliasSection::new();
    aliases.alias(Alias::InstanceExport {
        instance: run?,
        kind: ComponentExportKind::Func,
        name: "run",
    });
    let mut exports = ComponentExportSection::new();
    exports.export("go", ComponentExportKind::Func, functions, None);
    let mut bytes = bytes.to_vec();
    aliases.append_to_component(&mut bytes);
    exports.append_to_component(&mut bytes);
    Some(bytes)
}

/// Copies the regular files of a folder into the workspace.
fn copy(folder: &Path, place: &Place) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, place.workspace().join(path.file_name().unwrap())).unwrap();
    }
}

/// Runs a program; returns why it did not end as expected.
fn run(folder: &Path, name: &str) -> Option<Result<(), String>> {
    let program = with_go(&fs::read(folder.join(format!("{name}.wasm"))).unwrap())?;
    let place = Place::new();
    let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap_or("{}".to_owned());
    let specification: serde_json::Value = serde_json::from_str(&text).unwrap();
    if specification["world"] == "wasi:http/service" {
        return None;
    }
    let operations = specification["operations"].as_array();
    let code = operations.into_iter().flatten().find_map(|operation| operation.get("exit_code"));
    if let Some(root) = specification["root"].as_str() {
        copy(&folder.join(root), &place);
    }
    let file = place.home_file("program.wasm");
    fs::write(&file, program).unwrap();
    configure(&place, "[grants.program]\nfiles = 'write'\n");
    let ended = place.run(&["--plugin", file.to_str().unwrap(), "call", "program.go", "{}"]);
    let wanted = code.and_then(serde_json::Value::as_i64).unwrap_or(0) == 0;
    Some(match (ended.status == 0) == wanted {
        true => Ok(()),
        false => Err(format!("{ended:?}")),
    })
}

#[test]
#[expect(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "what is skipped, and where it is"
)]
fn programs_of_wasi_testsuite_end_as_expected() {
    let Some(folder) = std::env::var_os("COFFERDAM_WASI_TESTSUITE").map(PathBuf::from) else {
        return;
    };
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".wasm").map(str::to_owned))
        .collect();
    names.sort();
    let mut failed = BTreeMap::new();
    let mut ran = 0;
    for name in &names {
        match run(&folder, name) {
            None => eprintln!("{name}: a service, not a command"),
            Some(ended) => {
                ran += 1;
                ended.err().and_then(|why| failed.insert(name.clone(), why));
            }
        }
    }
    eprintln!("{ran} of {} programs are commands", names.len());
    let is_exception = |name: &str| {
        EXCEPTIONS.iter().any(|(of, _)| of == &name || of.ends_with('-') && name.starts_with(of))
    };
    for name in &names {
        match failed.get(name) {
            Some(why) => assert!(is_exception(name), "{name}: {why}"),
            None => assert!(!is_exception(name), "{name} ends as expected by now"),
        }
    }
}
