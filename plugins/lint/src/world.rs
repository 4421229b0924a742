//! What only the host can do for this plugin, so that everything else can be tested without it.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::linters::{self, Backend};
use cofferdam_sdk::backend::linting::{Report, Request};
use cofferdam_sdk::scan::{Query, Scanner};
use cofferdam_sdk::{Context, ToolError, git};

/// What the tools ask of the host.
pub trait World {
    /// The operator's linters, the chosen ones first.
    fn linters(&self) -> Vec<Backend>;

    /// Runs linters by their names, side by side; the answers are in the order of the requests.
    fn lint(&self, requests: &[(String, Request)]) -> Vec<Result<Report, Error>>;

    /// The paths of the files that a query finds, in path order.
    ///
    /// # Errors
    /// As [`Scanner::open`].
    fn find(&self, query: &Query) -> Result<Vec<String>, ToolError>;

    /// The files that differ from git's last commit, or that git does not know.
    ///
    /// # Errors
    /// As [`git::changed_files`].
    fn changed(&self) -> Result<Vec<String>, ToolError>;
}

/// The host itself.
pub struct Host<'a>(pub &'a Context);

impl World for Host<'_> {
    fn linters(&self) -> Vec<Backend> {
        linters::available()
    }

    fn lint(&self, requests: &[(String, Request)]) -> Vec<Result<Report, Error>> {
        linters::lint(requests)
    }

    fn find(&self, query: &Query) -> Result<Vec<String>, ToolError> {
        Ok(Scanner::open(query)?.files().map(|file| file.path).collect())
    }

    fn changed(&self) -> Result<Vec<String>, ToolError> {
        git::changed_files(self.0)
    }
}
