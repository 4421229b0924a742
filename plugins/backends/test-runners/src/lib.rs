//! Test runners as backends: `go test`, jest, `npm test`, pytest and cargo (with nextest if
//! installed).
//!
//! There is one module for each runner, which detects it, runs it and parses its output. The
//! machine-readable output is parsed; the output for users is passed on. Changes that a run makes
//! in the workspace are discarded; its caches are in the plugin's cache directory.
//!
//! There is no network, so dependencies of a project must be installed already.

mod cargo;
mod go;
mod jest;
mod libtest;
mod nextest;
mod npm;
mod output;
mod pattern;
mod project;
mod pytest;
mod tap;

use cofferdam_sdk::backend::testing::{Report, Request};
use cofferdam_sdk::backend::{Error, TestRunner};
use cofferdam_sdk::{Context, test_runner};
use project::Project;

/// The plugin: a test runner for each framework.
pub struct Runners;

/// The functions of a backend.
struct Runner {
    name: &'static str,
    detect: fn(&Project) -> u8,
    version: fn(&Project) -> Result<String, Error>,
    run: fn(&Project, &Request) -> Result<Report, Error>,
}

const RUNNERS: [Runner; 5] = [go::RUNNER, jest::RUNNER, npm::RUNNER, pytest::RUNNER, cargo::RUNNER];

impl TestRunner for Runners {
    fn detect(name: &str, root: &str, context: &Context) -> u8 {
        match (runner(name), Project::open(root, context)) {
            (Ok(runner), Ok(project)) => (runner.detect)(&project),
            _ => 0,
        }
    }

    fn version(name: &str, context: &Context) -> Result<String, Error> {
        (runner(name)?.version)(&Project::open("", context)?)
    }

    fn run(name: &str, request: &Request, context: &Context) -> Result<Report, Error> {
        (runner(name)?.run)(&Project::open(&request.root, context)?, request)
    }
}

test_runner!(Runners);

fn runner(name: &str) -> Result<&'static Runner, Error> {
    RUNNERS.iter().find(|runner| runner.name == name).ok_or_else(|| {
        Error::Invalid(format!("there is no test runner '{name}' in the plugin test-runners"))
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The backend that is surest for a directory with these files, and the sureness of each that
    /// is not 0.
    fn detected(files: &[(&str, &str)]) -> Vec<(&'static str, u8)> {
        let directory = tempfile::tempdir().unwrap();
        for (name, contents) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let context = Context::for_directory(directory.path());
        let mut sure: Vec<_> = RUNNERS
            .iter()
            .map(|runner| (runner.name, Runners::detect(runner.name, "", &context)))
            .filter(|&(_, sureness)| sureness > 0)
            .collect();
        sure.sort_by_key(|&(_, sureness)| std::cmp::Reverse(sureness));
        sure
    }

    #[test]
    fn projects_are_recognised() {
        const SCRIPT: &str = r#"{"scripts": {"test": "mocha"}}"#;
        const NO_SCRIPT: &str =
            r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}}"#;
        const JEST: &str = r#"{"scripts": {"test": "jest"}, "devDependencies": {"jest": "^30"}}"#;
        type Case = (&'static [(&'static str, &'static str)], &'static [(&'static str, u8)]);
        let table: &[Case] = &[
            (&[], &[]),
            (&[("README.md", "")], &[]),
            (&[("go.mod", "module x")], &[("go", 90)]),
            (&[("internal/api/api_test.go", "")], &[("go", 60)]),
            (&[("vendor/x/x_test.go", ""), (".git/x_test.go", "")], &[]),
            (&[("package.json", JEST)], &[("jest", 88), ("npm", 50)]),
            (
                &[("package.json", r#"{"dependencies": {"jest": "*"}}"#)],
                &[("jest", 88), ("npm", 10)],
            ),
            (&[("package.json", r#"{"jest": {}}"#)], &[("jest", 88), ("npm", 10)]),
            (&[("package.json", SCRIPT), ("jest.config.js", "")], &[("jest", 88), ("npm", 50)]),
            (&[("package.json", SCRIPT)], &[("npm", 50)]),
            (&[("package.json", NO_SCRIPT)], &[("npm", 10)]),
            (&[("package.json", "no JSON")], &[("npm", 10)]),
            (&[("pytest.ini", "")], &[("pytest", 85)]),
            (&[("pyproject.toml", "[tool.pytest.ini_options]\n")], &[("pytest", 84)]),
            (&[("setup.cfg", "[metadata]\n[tool:pytest]\n")], &[("pytest", 84)]),
            (&[("tox.ini", "[pytest]\n")], &[("pytest", 84)]),
            (&[("setup.cfg", "[metadata]\n")], &[]),
            (&[("pyproject.toml", "[project]\n")], &[("pytest", 40)]),
            (&[("pyproject.toml", "[project]\n"), ("tests/test_a.py", "")], &[("pytest", 60)]),
            (&[("a/conftest.py", "")], &[("pytest", 60)]),
            (&[("a/b/a_test.py", "")], &[("pytest", 60)]),
            (&[("Cargo.toml", "")], &[("cargo", 80)]),
            (&[("go.mod", ""), ("package.json", JEST)], &[("go", 90), ("jest", 88), ("npm", 50)]),
            (&[("package.json", SCRIPT), ("pytest.ini", "")], &[("pytest", 85), ("npm", 50)]),
        ];
        for (files, wanted) in table {
            assert_eq!(detected(files), *wanted, "{files:?}");
        }
    }

    #[test]
    fn invalid_package_json_is_reported_with_its_position() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("package.json"), "{\n  \"name\": \"a\",\n}\n").unwrap();
        let context = Context::for_directory(directory.path());
        let request = Request { root: String::new(), pattern: None, timeout_ms: 1 };
        let wanted = "package.json can't be read: trailing comma at line 3 column 1";
        let refused = Runners::run("npm", &request, &context);
        assert!(matches!(refused, Err(Error::Invalid(said)) if said == wanted));
    }

    #[test]
    fn a_project_can_be_a_directory_of_the_workspace() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("service")).unwrap();
        fs::write(directory.path().join("service/go.mod"), "module x").unwrap();
        let context = Context::for_directory(directory.path());
        for (root, wanted) in [("service", 90), ("./service/", 90), ("", 0), ("none", 0), ("..", 0)]
        {
            assert_eq!(Runners::detect("go", root, &context), wanted, "{root}");
        }
    }

    #[test]
    fn unknown_names_and_outside_paths_are_refused() {
        let context = Context::for_directory(Path::new("/nowhere"));
        assert!(matches!(Runners::version("mocha", &context), Err(Error::Invalid(_))));
        assert_eq!(Runners::detect("mocha", "", &context), 0);
        let request = Request { root: "../x".to_owned(), pattern: None, timeout_ms: 1 };
        assert!(matches!(Runners::run("go", &request, &context), Err(Error::Invalid(_))));
    }
}
