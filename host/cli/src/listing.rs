//! Asks components of ACT for the list of their tools: in an instance that is granted nothing, in an empty
//! workspace, which is removed afterwards.

use std::path::Path;

use cofferdam_engine::host::{Config, Helper, Host, OpenError, ToolListError};

/// Why there is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    /// There is no place for the workspace.
    #[error("there is no empty directory for it: {0}")]
    Workspace(#[from] std::io::Error),
    /// No host can be opened there.
    #[error(transparent)]
    Open(#[from] Box<OpenError>),
    /// The component does not return one.
    #[error(transparent)]
    List(#[from] ToolListError),
}

/// Returns the text of the list of tools of a component. `called` is the name of its file or repository,
/// `cache` the cache of compiled code.
///
/// # Errors
/// See [`ListingError`].
pub async fn tools(component: &[u8], called: &str, cache: &Path) -> Result<String, ListingError> {
    let workspace = tempfile::tempdir()?;
    let config = Config {
        cache: Some(cache.to_owned()),
        workers: Some(1),
        sandbox: Some(Helper::current()),
        ..Config::new(workspace.path())
    };
    let host = Host::open(config).map_err(Box::new)?;
    Ok(host.tool_list(component, called).await?)
}
