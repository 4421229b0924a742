//! Creating a workspace from a store. The directory appears when it is complete: until then, it has
//! another name beside it. So files are written without a transaction ([`crate::fill`]).
#![expect(
    clippy::disallowed_methods,
    reason = "the user names a directory that does not exist yet"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_workspace::{Secret, Workspace};

use crate::error::FleetError;
use crate::fill::fill;
use crate::local::Synced;
use crate::pull::{Incoming, Pulled};
use crate::store::{Access, Address};

/// Clones a store into a directory, which does not exist or is empty.
///
/// # Errors
/// See [`FleetError`]. The directory was not created or changed then.
pub async fn clone(
    address: Address,
    directory: &Path,
    secret: Secret,
    access: &Access,
) -> Result<Pulled, FleetError> {
    let shown = || FleetError::NotEmpty(directory.display().to_string());
    match fs::read_dir(directory).map(|entries| entries.count()) {
        Ok(0) => {}
        Ok(_) => return Err(shown()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Err(shown()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let temporary = temporary(directory)?;
    let cloned = match into(address, &temporary, secret, access).await {
        Ok(pulled) => fs::rename(&temporary, directory).map(|()| pulled).map_err(Into::into),
        Err(error) => Err(error),
    };
    if cloned.is_err() {
        // The error that the user has to know is the first one.
        let _ = fs::remove_dir_all(&temporary);
    }
    cloned
}

/// Creates a directory with a new name beside another one.
fn temporary(directory: &Path) -> io::Result<PathBuf> {
    let name = directory.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let temporary = directory.with_file_name(format!(".{name}.clone-{}", uuid::Uuid::new_v4()));
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(&temporary)?;
    Ok(temporary)
}

async fn into(
    address: Address,
    directory: &Path,
    secret: Secret,
    access: &Access,
) -> Result<Pulled, FleetError> {
    let opened = Workspace::open(directory, secret);
    let workspace = Arc::new(opened.map_err(|error| error.source)?);
    let mut synced = Synced::lock(&workspace)?;
    let store = synced.open(Some(address), access, false).await?;
    let mut incoming = Incoming::read(&synced, &store).await?;
    fill(&workspace, store, &mut incoming).await?;
    incoming.end(&mut synced)
}
