//! Linters that are native programs of the machine. Each runs in the operating system's sandbox,
//! can change nothing in the workspace that stays, and has its machine-readable output turned into
//! the findings of `cofferdam:backend/linter`.
//!
//! | module | backend | program |
//! |---|---|---|
//! | [`ruff`] | `native-ruff` | `ruff` |
//! | [`eslint`] | `native-eslint` | `node` with the workspace's own ESLint, else `eslint` |
//! | [`mypy`] | `mypy` | `mypy` |
//! | [`import_linter`] | `import-linter` | `lint-imports` |
//! | [`pylint`] | `pylint` | `pylint` |
//! | [`golangci_lint`] | `golangci-lint` | `golangci-lint` |
//! | [`clippy`] | `clippy` | `cargo` |
//!
//! [`job`] is what all of them are asked, [`special`] what of it no program is to open, [`program`]
//! how one is run and what its end means,
//! [`findings`] how a report is made. A backend's `lint` runs its program; its `read` turns what
//! the program printed into findings, and is tested with output that was recorded.

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

/// One backend: how it asks its program for a version, and how it lints.
struct Backend {
    version: fn(&Context) -> Result<String, Error>,
    lint: fn(&Job) -> Result<Report, Error>,
    /// How the names of the files end that its program looks for in directories by itself; empty
    /// where it looks for packages.
    sources: &'static [&'static str],
}

/// What Python's linters look for.
const PYTHON: &[&str] = &["py", "pyi"];

/// What ESLint may be configured to look for.
const SCRIPTS: &[&str] = &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"];

/// The backend that the manifest calls `name`.
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

/// The plugin.
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
