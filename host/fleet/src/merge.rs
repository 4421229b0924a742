//! What a pull changes: what differs between the tree that was synced last and the new one, unless the
//! workspace has changed it as well.

use std::collections::BTreeMap;
use std::io;

use cofferdam_workspace::Overlay;
use rustix::io::Errno;

use crate::error::FleetError;
use crate::scan::{Known, read_item};
use crate::state::Stamp;
use crate::tree::Item;

/// What is at a place of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) item: Item,
    pub(crate) stamp: Stamp,
}

/// A place that a pull changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// What the workspace has there now.
    pub(crate) before: Option<Found>,
    /// What will be there.
    pub(crate) after: Option<Item>,
}

/// The changes of a pull, by place.
pub(crate) type Changes = BTreeMap<String, Change>;

/// Returns the changes that lead from what the workspace is to the new tree. `base` is what it was when
/// it was last synced, and `target` where the new tree differs from that.
///
/// # Errors
/// [`FleetError::Collides`] with the places that were changed on both sides; I/O errors.
pub(crate) fn merge(
    tree: &Overlay,
    base: Known<'_>,
    target: &BTreeMap<String, Option<Item>>,
) -> Result<Changes, FleetError> {
    let (mut changes, mut collisions) = (Changes::new(), Vec::new());
    for (place, after) in target {
        let (before, after) = (base.items.get(place), after.as_ref());
        match look(tree, place, base) {
            Ok(found) => {
                let present = found.as_ref().map(|found| &found.item);
                if present == before {
                    let change = Change { before: found, after: after.cloned() };
                    changes.insert(place.clone(), change);
                } else if present != after {
                    collisions.push(place.clone());
                }
            }
            // What a store can't contain is none of the items.
            Err(FleetError::Unsupported { .. }) => collisions.push(place.clone()),
            Err(error) => return Err(error),
        }
    }
    collisions.sort_unstable();
    if collisions.is_empty() { Ok(changes) } else { Err(FleetError::Collides(collisions)) }
}

pub(crate) fn look(
    tree: &Overlay,
    place: &str,
    known: Known<'_>,
) -> Result<Option<Found>, FleetError> {
    let stat = match tree.stat(place) {
        Err(error) if is_gone(&error) => return Ok(None),
        stat => stat?,
    };
    let item = read_item(tree, place, &stat, known)?;
    Ok(Some(Found { item, stamp: Stamp::of(&stat) }))
}

/// Whether an error says that a file, or a directory on the way to it, does not exist: there may be a
/// link or a file instead of the directory.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}
