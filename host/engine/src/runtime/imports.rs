//! The imports that are served to plugins, and the grants that they need.

use super::{LoadError, refused};
use cofferdam_core::policy::{BackendKind, Capabilities};
use cofferdam_plugin::manifest::Manifest;

/// The packages that the host serves, and the grants that they need. A plugin with any other import
/// does not load.
const SERVED_PACKAGES: &[(&str, Needs)] = &[
    ("wasi:cli/", Needs::Nothing),
    ("wasi:clocks/", Needs::Nothing),
    // One interface, in the versions that are linked: another is named with them.
    ("wasi:config/store@0.2.0-rc.1", Needs::Nothing),
    ("wasi:config/store@0.2.0-draft", Needs::Nothing),
    ("wasi:filesystem/", Needs::Nothing),
    ("wasi:http/", Needs::Http),
    ("wasi:io/", Needs::Nothing),
    ("wasi:random/", Needs::Nothing),
    // Types alone.
    ("act:core/types@0.4.0", Needs::Nothing),
    ("act:sessions/types@0.2.0", Needs::Nothing),
    ("act:tools/types@0.2.0", Needs::Nothing),
    ("cofferdam:tool/types@0.1.0", Needs::Nothing),
    ("cofferdam:host/log@0.1.0", Needs::Nothing),
    ("cofferdam:host/progress@0.1.0", Needs::Nothing),
    ("cofferdam:host/scan@0.1.0", Needs::Scan),
    ("cofferdam:host/files@0.1.0", Needs::Nothing),
    ("cofferdam:host/process@0.1.0", Needs::Programs),
    ("cofferdam:host/agents@0.1.0", Needs::Nothing),
    ("cofferdam:host/cache@0.1.0", Needs::Nothing),
    ("cofferdam:host/consent@0.1.0", Needs::Nothing),
    ("cofferdam:host/history@0.1.0", Needs::History),
    ("cofferdam:host/git-commit@0.1.0", Needs::GitCommit),
    ("cofferdam:host/background@0.1.0", Needs::Background),
    ("cofferdam:host/tools@0.1.0", Needs::Tools),
    ("cofferdam:host/questions@0.1.0", Needs::Questions),
    ("cofferdam:backend/types@0.1.0", Needs::Nothing),
    ("cofferdam:backend/linting@0.1.0", Needs::Nothing),
    ("cofferdam:backend/testing@0.1.0", Needs::Nothing),
    ("cofferdam:backend/building@0.1.0", Needs::Nothing),
    ("cofferdam:backend/parts@0.1.0", Needs::Nothing),
    ("cofferdam:backend/linters@0.1.0", Needs::Backends(BackendKind::Linter)),
    ("cofferdam:backend/test-runners@0.1.0", Needs::Backends(BackendKind::TestRunner)),
    ("cofferdam:backend/builders@0.1.0", Needs::Backends(BackendKind::Builder)),
    ("cofferdam:backend/checkers@0.1.0", Needs::Backends(BackendKind::Checker)),
];

/// The grant that an import needs. Files and agents need none: without a grant a plugin gets no
/// directory, and access to each path or agent is checked when it is used. A cache that is not
/// granted is always empty, and consent without rules is always refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    Scan,
    Programs,
    Backends(BackendKind),
    History,
    GitCommit,
    Background,
    Tools,
    Questions,
    Http,
}

impl Needs {
    /// Checks whether it is granted, or requested in the case of a plugin that is only loaded. A grant
    /// never has `any_origin`.
    ///
    /// # Errors
    /// The line for the settings that would grant it.
    fn met_by(self, granted: &Capabilities) -> Result<(), String> {
        let (met, grant) = match self {
            Self::Nothing => return Ok(()),
            Self::Scan => (granted.scan, "scan = true".to_owned()),
            Self::Programs => {
                (!granted.process.is_empty(), "process = [\"PROGRAM\", ...]".to_owned())
            }
            Self::Backends(kind) => {
                (granted.backends.contains(&kind), format!("backends = [\"{kind}\"]"))
            }
            Self::History => (granted.history, "history = true".to_owned()),
            Self::GitCommit => (granted.git_commit, "git-commit = true".to_owned()),
            Self::Background => (granted.background, "background = true".to_owned()),
            Self::Tools => (granted.tools, "tools = true".to_owned()),
            Self::Questions => (granted.questions, "questions = true".to_owned()),
            Self::Http => {
                let has_origins = !granted.http.is_empty() || granted.any_origin;
                (has_origins, "http = [\"https://HOST\", ...]".to_owned())
            }
        };
        if met { Ok(()) } else { Err(grant) }
    }
}

/// The packages that the host serves.
pub fn served() -> impl Iterator<Item = &'static str> {
    SERVED_PACKAGES.iter().map(|(name, _)| *name)
}

/// The grant that an import needs; `None` if the host does not serve it.
pub(super) fn needs_of(import: &str) -> Option<Needs> {
    // Drafts of WASI 0.3 differ from it.
    if import.starts_with("wasi:") && import.contains("@0.3.0-") {
        return None;
    }
    let served = SERVED_PACKAGES.iter().find(|(name, _)| match name.strip_suffix('/') {
        Some(_) => import.starts_with(name),
        None => import == *name,
    });
    served.map(|(_, needs)| *needs)
}

/// The interface that the host serves in the place of an import: the same one in another version.
pub(super) fn nearest(import: &str) -> Option<&'static str> {
    let interface = |name: &str| name.split('@').next().unwrap_or_default().to_owned();
    served().find(|name| interface(name) == interface(import))
}

/// Why a plugin loads with an import and may not use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There are no sockets.
    Sockets,
    /// The grant is missing; the message names it.
    NotGranted(String),
}

/// Decides about an import of a plugin: `None` if it is served. An import is refused without
/// keeping the plugin from loading if it is of sockets, or if the plugin has only tools and
/// requests what the user has not granted: its other tools work. A plugin that accepts partial
/// grants (`as_granted`) may import `wasi:http` without a grant, since each request is checked.
///
/// # Errors
/// `NotServed` if the host does not have the interface; `NotGranted` if it is not requested, or not
/// granted to a plugin with backends.
pub(super) fn check_import(
    manifest: &Manifest,
    import: &str,
    granted: &Capabilities,
) -> Result<Option<Refusal>, LoadError> {
    let plugin = || manifest.name.clone();
    let not_granted =
        |grant| LoadError::NotGranted { plugin: plugin(), import: import.to_owned(), grant };
    match needs_of(import) {
        Some(Needs::Http) if manifest.as_granted => Ok(None),
        Some(needs) => match needs.met_by(granted) {
            Ok(()) => Ok(None),
            Err(grant)
                if manifest.backends.is_empty() && needs.met_by(&manifest.requests).is_ok() =>
            {
                Ok(Some(Refusal::NotGranted(not_granted(grant).to_string())))
            }
            Err(grant) => Err(not_granted(grant)),
        },
        None if refused::is_socket(import) => Ok(Some(Refusal::Sockets)),
        None => Err(LoadError::NotServed {
            plugin: plugin(),
            import: import.to_owned(),
            offered: nearest(import),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use cofferdam_core::policy::Files;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "looks at the WIT files")]
    fn exactly_the_interfaces_of_the_wit_files_are_served() {
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/deps");
        let mut written = Vec::new();
        for package in ["backend", "host", "tool"] {
            let text =
                fs::read_to_string(wit.join(package).join(format!("{package}.wit"))).unwrap();
            let id = text.lines().find_map(|line| line.strip_prefix("package ")).unwrap();
            let (name, version) = id.trim_end_matches(';').split_once('@').unwrap();
            let interfaces = text.lines().filter_map(|line| line.strip_prefix("interface "));
            written.extend(interfaces.map(|interface| {
                let interface = interface.split([' ', '{']).next().unwrap_or_default();
                format!("{name}/{interface}@{version}")
            }));
        }
        // Exports of plugins are not served to them.
        written.retain(|interface| {
            ![":tool/tools@", "/linter@", "/test-runner@", "/builder@", "/checker@"]
                .iter()
                .any(|exported| interface.contains(exported))
        });
        written.sort_unstable();
        let mut served: Vec<&str> =
            served().filter(|name| name.starts_with("cofferdam:")).collect();
        served.sort_unstable();
        assert_eq!(served, written);
        assert_eq!(fs::read_dir(wit).unwrap().count(), 3);
    }

    /// A plugin with a tool.
    fn manifest(requests: Capabilities) -> Manifest {
        let tool = serde_json::json!({
            "name": "t", "title": "", "description": "", "done": "", "input": {}, "output": {},
        });
        let manifest = serde_json::json!({
            "name": "p", "version": "0.1.0", "description": "", "requests": {}, "tools": [tool],
        });
        Manifest { requests, ..Manifest::parse(manifest.to_string().as_bytes()).unwrap() }
    }

    #[test]
    fn requested_imports_without_a_grant_are_refused_when_they_are_used() {
        let scan = Capabilities { files: Files::Read, scan: true, ..Capabilities::NONE };
        let check = |manifest: &Manifest, import: &str| {
            check_import(manifest, import, &Capabilities::NONE).map_err(|error| error.to_string())
        };
        let import = "cofferdam:host/scan@0.1.0";
        let refused = check(&manifest(scan.clone()), import).unwrap();
        let names = |text: &str| text.contains("needs the grant scan = true");
        assert!(
            matches!(&refused, Some(Refusal::NotGranted(message)) if names(message)),
            "{refused:?}"
        );
        assert!(check(&manifest(Capabilities::NONE), import).is_err());
        let http = "wasi:http/types@0.2.6";
        let as_granted = Manifest { as_granted: true, ..manifest(Capabilities::NONE) };
        assert_eq!(check(&as_granted, http), Ok(None));
        let sockets = "wasi:sockets/tcp@0.2.6";
        assert_eq!(check(&manifest(Capabilities::NONE), sockets), Ok(Some(Refusal::Sockets)));
        // Settings choose backends, which have to be known not to work.
        let backend = serde_json::json!({"kind": "linter", "name": "b"});
        let backends = vec![serde_json::from_value(backend).unwrap()];
        assert!(check(&Manifest { backends, ..manifest(scan) }, import).is_err());
    }

    #[test]
    fn an_import_of_another_version_names_the_version_that_is_served() {
        let error = check_import(
            &manifest(Capabilities::NONE),
            "cofferdam:host/scan@0.2.0",
            &Capabilities::NONE,
        );
        let message = error.unwrap_err().to_string();
        assert!(message.contains("it offers cofferdam:host/scan@0.1.0"), "{message}");
        assert!(message.contains("`cofferdam plugin update p`"), "{message}");
        let config = "wasi:config/store@0.2.0-draft2";
        let error = check_import(&manifest(Capabilities::NONE), config, &Capabilities::NONE);
        let message = error.unwrap_err().to_string();
        assert!(message.contains("it offers wasi:config/store@0.2.0-rc.1"), "{message}");
    }

    #[test]
    fn imports_need_their_grants() {
        let granted = |files, scan| Capabilities { files, scan, ..Capabilities::NONE };
        let programs = Capabilities {
            process: BTreeSet::from(["git".to_owned()]),
            backends: BTreeSet::from([BackendKind::Linter]),
            ..Capabilities::NONE
        };
        let origins = Capabilities {
            http: "https://a.example".parse().into_iter().collect(),
            ..Capabilities::NONE
        };
        for (import, granted, wanted) in [
            ("wasi:io/streams@0.2.6", Capabilities::NONE, None),
            ("wasi:filesystem/types@0.2.6", Capabilities::NONE, None),
            ("cofferdam:host/log@0.1.0", Capabilities::NONE, None),
            ("cofferdam:host/scan@0.1.0", granted(Files::Read, true), None),
            ("cofferdam:host/scan@0.1.0", granted(Files::Write, false), Some("scan = true")),
            ("cofferdam:host/files@0.1.0", granted(Files::Write, false), None),
            ("cofferdam:host/process@0.1.0", programs.clone(), None),
            ("cofferdam:host/process@0.1.0", granted(Files::Write, true), Some("process = [")),
            ("cofferdam:host/agents@0.1.0", Capabilities::NONE, None),
            ("cofferdam:host/cache@0.1.0", Capabilities::NONE, None),
            ("cofferdam:host/history@0.1.0", granted(Files::Write, true), Some("history = true")),
            (
                "cofferdam:host/history@0.1.0",
                Capabilities { history: true, ..Capabilities::NONE },
                None,
            ),
            ("cofferdam:host/tools@0.1.0", granted(Files::Write, true), Some("tools = true")),
            (
                "cofferdam:host/tools@0.1.0",
                Capabilities { tools: true, ..Capabilities::NONE },
                None,
            ),
            ("cofferdam:backend/linters@0.1.0", programs.clone(), None),
            ("cofferdam:backend/builders@0.1.0", programs, Some("backends = [\"builder\"]")),
            ("cofferdam:host/files@0.1.0", Capabilities::NONE, None),
            ("cofferdam:host/changes@0.1.0", granted(Files::Write, true), Some("does not offer")),
            ("cofferdam:host/scan@0.2.0", granted(Files::Write, true), Some("does not offer")),
            ("wasi:http/outgoing-handler@0.2.6", granted(Files::Write, true), Some("http = [")),
            ("wasi:http/types@0.2.6", origins.clone(), None),
            ("wasi:http/outgoing-handler@0.2.6", origins, None),
            ("env", granted(Files::Write, true), Some("does not offer")),
        ] {
            // Nothing is requested, so what is not granted keeps the plugin from loading.
            let error = check_import(&manifest(Capabilities::NONE), import, &granted)
                .err()
                .map(|error| error.to_string());
            match wanted {
                None => assert_eq!(error, None, "{import}"),
                Some(wanted) => {
                    let error = error.unwrap_or_default();
                    assert!(error.contains(wanted) && error.contains(import), "{import}: {error}");
                }
            }
        }
    }
}
