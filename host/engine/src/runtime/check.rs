//! Checks whether a component would load: compiles and links it without running it. Returns all
//! problems with their places and fixes.

use wasmtime::component::{Component, Linker};

use super::imports::{Needs, Refusal, check_import, nearest, needs_of};
use super::typed::Tools;
use super::{Engine, LoadError, Loaded, Runtime, refused};
use crate::capability::CallState;
use crate::capability::builder::BuildBackendPre;
use crate::capability::checker::CheckerBackendPre;
use crate::capability::linter::LinterBackendPre;
use crate::capability::test_runner::TestBackendPre;
use cofferdam_core::policy::{BackendKind, Capabilities, Files};
use cofferdam_plugin::check::{Finding, Place, TOOLS, backend_interface};
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::pack;

impl Runtime {
    /// Returns all problems that prevent a component from being loaded with the requests of its
    /// manifest, and all unused requests. Without a manifest, returns only problems that no
    /// manifest could solve. Findings name the component `file`.
    pub fn check(&self, file: &str, component: &[u8], manifest: Option<&Manifest>) -> Vec<Finding> {
        let Ok(imports) = pack::imports(component) else {
            // Reading the manifest failed as well, with a better message.
            return Vec::new();
        };
        let (mut findings, mut refused) = (Vec::new(), Vec::new());
        for import in &imports {
            let decided = match manifest {
                Some(manifest) => check_import(manifest, import, &manifest.requests),
                None if needs_of(import).is_some() => Ok(None),
                None if refused::is_socket(import) => Ok(Some(Refusal::Sockets)),
                None => Err(LoadError::NotServed {
                    plugin: file.to_owned(),
                    import: import.clone(),
                    offered: nearest(import),
                }),
            };
            match decided {
                Ok(refusal) => refused.extend(refusal.map(|refusal| (import.clone(), refusal))),
                Err(problem) => findings.push(refused_import(file, import, &problem)),
            }
        }
        if let Some(manifest) = manifest {
            findings.extend(unused(file, &manifest.requests, &imports));
        }
        let Loaded { lanes, components } = match self.compiled(
            component,
            self.compiler.as_ref(),
            &|| false,
        ) {
            Ok(loaded) => loaded,
            Err(error) => {
                let cure = if matches!(error, LoadError::CompileLimit { .. }) {
                    "split its largest functions, or leave out what it does not need: whoever runs it has limits for compiling"
                } else {
                    "build it for wasm32-wasip2 without threads, garbage-collected types, 64-bit memory, tail calls and several memories: this engine has none of them"
                };
                let problem = error.to_string();
                findings.push(Finding::error(Place::file(file), problem, cure));
                return findings;
            }
        };
        let component = &components[0];
        let is_served = |import: &String| needs_of(import).is_some() || refused::is_socket(import);
        if imports.iter().all(is_served)
            && let Err(error) = refused::link(&lanes[0].linker, component, &refused)
        {
            let cure = "make its bindings from the WIT files of this version (`cofferdam plugin new` writes them), and build it anew";
            findings.push(Finding::error(
                Place::file(file),
                format!("an import is not as this host has it: {error:#}"),
                cure,
            ));
        }
        if let Some(manifest) = manifest {
            findings.extend(worlds(file, (&lanes[0].engine, component), manifest));
        }
        findings
    }
}

/// The exports that the manifest declares and that are missing or have another type.
fn worlds(
    file: &str,
    (engine, component): (&Engine, &Component),
    manifest: &Manifest,
) -> Vec<Finding> {
    // The exports are checked, not the imports.
    let mut linker = Linker::<CallState>::new(engine);
    let linked = linker
        .define_unknown_imports_as_traps(component)
        .and_then(|()| linker.instantiate_pre(component));
    let Ok(pre) = linked else { return Vec::new() };
    let has = |kind| manifest.backends.iter().any(|backend| backend.kind == kind);
    let finding = |interface: &str, error: wasmtime::Error| {
        let problem =
            format!("the manifest speaks of it, and it is missing or of another type: {error:#}");
        let cure = format!(
            "build the component for a world that exports {interface} (docs/plugins.md lists them), or change the manifest"
        );
        Finding::error(Place::export(file, interface), problem, cure)
    };
    let mut findings = Vec::new();
    if !manifest.tools.is_empty() || manifest.is_unlisted() {
        findings
            .extend(Tools::new(engine, &pre, manifest).err().map(|error| finding(TOOLS, error)));
    }
    for kind in BackendKind::ALL {
        if !has(kind) {
            continue;
        }
        let error = match kind {
            BackendKind::Linter => LinterBackendPre::new(pre.clone()).err(),
            BackendKind::TestRunner => TestBackendPre::new(pre.clone()).err(),
            BackendKind::Builder => BuildBackendPre::new(pre.clone()).err(),
            BackendKind::Checker => CheckerBackendPre::new(pre.clone()).err(),
        };
        findings.extend(error.map(|error| finding(backend_interface(kind), error)));
    }
    findings
}

fn refused_import(file: &str, import: &str, problem: &LoadError) -> Finding {
    let place = Place::import(file, import);
    match problem {
        LoadError::NotGranted { grant, .. } => {
            let problem = "the manifest does not request what it needs";
            let cure = format!(
                "write {grant} under [requests] in plugin.toml, or build it for a world without the import"
            );
            Finding::error(place, problem, cure)
        }
        _ => {
            let cure = match nearest(import) {
                Some(name) => format!("it offers {name}; make the bindings from the WIT files of this version (`cofferdam plugin new` writes them)"),
                None => "build it for a world without the import; docs/plugins.md lists what plugins can import".to_owned(),
            };
            Finding::error(place, "this host does not offer it", cure)
        }
    }
}

/// The requests of a manifest that no import of the component needs.
fn unused(file: &str, requests: &Capabilities, imports: &[String]) -> Vec<Finding> {
    let imports_any = |of: &[&str]| {
        imports.iter().any(|import| of.iter().any(|prefix| import.starts_with(prefix)))
    };
    let uses = |needs| imports.iter().any(|import| needs_of(import) == Some(needs));
    let mut unused = Vec::new();
    // Programs and backends see the files that the plugin may see.
    let ways_to_files = [
        "wasi:filesystem/",
        "cofferdam:host/files@",
        "cofferdam:host/scan@",
        "cofferdam:host/process@",
        "cofferdam:host/history@",
        "cofferdam:host/git-commit@",
        "cofferdam:host/background@",
        "cofferdam:host/tools@",
        "cofferdam:backend/linters@",
        "cofferdam:backend/test-runners@",
        "cofferdam:backend/builders@",
    ];
    if requests.files != Files::None && !imports_any(&ways_to_files) {
        unused.push(("/requests/files".to_owned(), "files".to_owned()));
    }
    for (is_requested, needs, name) in [
        (requests.scan, Needs::Scan, "scan"),
        (requests.history, Needs::History, "history"),
        (requests.git_commit, Needs::GitCommit, "git-commit"),
        (requests.tools, Needs::Tools, "tools"),
        (requests.questions, Needs::Questions, "questions"),
        (requests.background, Needs::Background, "background"),
    ] {
        if is_requested && !uses(needs) {
            unused.push((format!("/requests/{name}"), name.to_owned()));
        }
    }
    if !requests.consent.is_empty() && !imports_any(&["cofferdam:host/consent@"]) {
        unused.push(("/requests/consent".to_owned(), "consent".to_owned()));
    }
    let uses_programs = uses(Needs::Programs) || uses(Needs::Background);
    if !requests.process.is_empty() && !uses_programs {
        unused.push(("/requests/process".to_owned(), "process".to_owned()));
    }
    for kind in &requests.backends {
        if !uses(Needs::Backends(*kind)) {
            unused.push(("/requests/backends".to_owned(), format!("backends = [\"{kind}\"]")));
        }
    }
    if !requests.http.is_empty() && !uses(Needs::Http) {
        unused.push(("/requests/http".to_owned(), "http".to_owned()));
    }
    let finding = |(pointer, what): (String, String)| {
        let place = Place { pointer: Some(pointer), ..Place::file(file) };
        let problem = format!("the plugin requests {what}, and imports nothing that would use it");
        Finding::warning(
            place,
            problem,
            "leave it out: whoever installs the plugin has to grant it",
        )
    };
    unused.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests;
