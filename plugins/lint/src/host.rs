//! The functions of the host that this plugin needs, as a trait that tests can implement.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::linters::{self, Backend};
use cofferdam_sdk::backend::linting::{Report, Request};
use cofferdam_sdk::scan::{Query, Scanner};
use cofferdam_sdk::{Context, ToolError, git};

/// What the tools need from the host.
pub trait HostApi {
    /// The operator's linters, the chosen ones first.
    fn linters(&self) -> Vec<Backend>;

    /// Runs linters by name, in parallel; the results are in the order of the requests.
    fn lint(&self, requests: &[(String, Request)]) -> Vec<Result<Report, Error>>;

    /// The paths of the files that a query finds, in path order.
    ///
    /// # Errors
    /// As [`Scanner::open`].
    fn find(&self, query: &Query) -> Result<Vec<String>, ToolError>;

    /// The files that differ from git's last commit or are untracked.
    ///
    /// # Errors
    /// As [`git::changed_files`].
    fn changed(&self) -> Result<Vec<String>, ToolError>;
}

/// The real host, for a call.
pub struct Host<'a>(pub &'a Context);

impl HostApi for Host<'_> {
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
