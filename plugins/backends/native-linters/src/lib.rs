//! Linters that are native programs. Each runs in the operating system's sandbox, its changes of
//! the workspace are discarded, and its machine-readable output is converted to the findings of
//! `cofferdam:backend/linter`.
//!
//! | module | backend | program |
//! |---|---|---|
//! | [`ruff`] | `native-ruff` | `ruff` |
//! | [`eslint`] | `native-eslint` | `node` with the workspace's own ESLint, or `eslint` |
//! | [`mypy`] | `mypy` | `mypy` |
//! | [`import_linter`] | `import-linter` | `lint-imports` |
//! | [`pylint`] | `pylint` | `pylint` |
//! | [`golangci_lint`] | `golangci-lint` | `golangci-lint` |
//! | [`clippy`] | `clippy` | `cargo` |
//!
//! [`job`] validates requests, [`special`] excludes files that programs must not open, [`program`]
//! runs programs and interprets their exit, [`findings`] makes reports. The `lint` function of a
//! backend runs its program; its `read` function parses the output, and is tested with recorded
//! output.

pub mod clippy;
pub mod eslint;
mod files;
pub mod findings;
pub mod golangci_lint;
pub mod import_linter;
pub mod job;
pub mod mypy;
pub mod program;
pub mod pylint;
pub mod ruff;
mod special;

#[cfg(test)]
mod testing;

use cofferdam_sdk::backend::linting::{Report, Request};
use cofferdam_sdk::backend::{Error, Linter};
use cofferdam_sdk::{Context, linter};

use job::Job;

/// A backend: how to get its program's version, and how to lint.
struct Backend {
    version: fn(&Context) -> Result<String, Error>,
    lint: fn(&Job) -> Result<Report, Error>,
    /// The extensions of the files that its program searches in directories; empty if it searches
    /// packages.
    sources: &'static [&'static str],
}

/// The extensions of Python files.
const PYTHON: &[&str] = &["py", "pyi"];

/// The extensions that ESLint may be configured for.
const SCRIPTS: &[&str] = &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"];

/// The backend with the manifest's `name`.
fn backend(name: &str) -> Result<Backend, Error> {
    Ok(match name {
        "native-ruff" => Backend { version: ruff::version, lint: ruff::lint, sources: PYTHON },
        "native-eslint" => {
            Backend { version: eslint::version, lint: eslint::lint, sources: SCRIPTS }
        }
        "mypy" => Backend { version: mypy::version, lint: mypy::lint, sources: PYTHON },
        "import-linter" => {
            Backend { version: import_linter::version, lint: import_linter::lint, sources: &[] }
        }
        "pylint" => Backend { version: pylint::version, lint: pylint::lint, sources: PYTHON },
        "golangci-lint" => {
            Backend { version: golangci_lint::version, lint: golangci_lint::lint, sources: &[] }
        }
        "clippy" => Backend { version: clippy::version, lint: clippy::lint, sources: &[] },
        _ => return Err(Error::Invalid(format!("this plugin has no linter '{name}'"))),
    })
}

/// The plugin: a linter for each program.
pub struct NativeLinters;

impl Linter for NativeLinters {
    fn version(name: &str, context: &Context) -> Result<String, Error> {
        (backend(name)?.version)(context)
    }

    fn lint(name: &str, request: &Request, context: &Context) -> Result<Report, Error> {
        let Backend { lint, sources, .. } = backend(name)?;
        let mut job = Job::new(request, context)?;
        if !sources.is_empty() {
            job.targets = special::left_out(&job, sources);
        }
        if job.targets.is_empty() {
            return Ok(Report {
                findings: Vec::new(),
                files_checked: 0,
                exit_code: None,
                raw: String::new(),
            });
        }
        lint(&job)
    }
}

linter!(NativeLinters);
