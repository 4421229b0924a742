//! The real programs that `cargo xtask test` installed, and the settings for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::support::built;

/// The contents of `target/programs/programs.toml`, which `cargo xtask test` writes.
#[derive(Debug, Deserialize)]
pub struct Programs {
    /// Directories in which programs are looked up before those of the system.
    pub path: Vec<PathBuf>,
    /// Paths that programs must be able to read besides the system's own directories.
    pub readable: Vec<PathBuf>,
    /// The version that each program prints.
    pub versions: BTreeMap<String, String>,
    /// Programs that are not available on this machine, and why.
    pub missing: BTreeMap<String, String>,
}

pub fn programs() -> &'static Programs {
    static PROGRAMS: LazyLock<Programs> = LazyLock::new(|| {
        let release = built();
        let file = release.parent().unwrap().join("programs/programs.toml");
        let text = fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask test`", file.display()));
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    });
    &PROGRAMS
}

/// A program that a test itself runs; prints a message and returns `None` if it is not available.
#[expect(clippy::print_stderr, reason = "reports what was skipped")]
pub fn find(name: &str) -> Option<PathBuf> {
    let system = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    let mut files = programs().path.iter().chain(&system).map(|directory| directory.join(name));
    let found = files.find(|file| file.is_file());
    if found.is_none() {
        let why = programs().missing.get(name);
        let why = why.unwrap_or_else(|| panic!("{name} is missing; run `cargo xtask test`"));
        eprintln!("not tested without {name}: {why}");
    }
    found
}

/// The table `programs` of the host's settings. Other keys of the table can be appended.
pub fn settings() -> String {
    let Programs { path, readable, .. } = programs();
    let mut table = toml::Table::new();
    for (key, paths) in [("path", path), ("readable", readable)] {
        let texts: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
        table.insert(key.to_owned(), texts.into());
    }
    format!("[programs]\n{table}")
}

/// Each program has either a version or a reason why it is missing.
#[test]
fn every_program_is_installed_or_has_a_reason() {
    let Programs { path, readable, versions, missing } = programs();
    for directory in path {
        assert!(directory.is_dir(), "{}", directory.display());
    }
    for place in readable {
        assert!(place.exists(), "{}", place.display());
    }
    for name in ["ruff", "mypy", "pylint", "pytest", "eslint", "jest", "go", "cargo", "git"] {
        assert!(versions.contains_key(name), "{name}: {:?}", missing.get(name));
    }
    for name in [
        "make",
        "mvn",
        "gradle",
        "golangci-lint",
        "cargo-nextest",
        "chromium",
        "docker-registry",
        "minisign",
    ] {
        let why = missing.get(name).is_some_and(|why| !why.is_empty());
        assert!(versions.contains_key(name) != why, "{name}");
    }
    let settings: toml::Table = settings().parse().unwrap();
    let listed = settings["programs"]["path"].as_array().unwrap();
    assert_eq!(listed.len(), path.len());
}
