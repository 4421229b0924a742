//! The tree of a call as a native program sees it, and the changes that the program makes to it.
//!
//! A transaction is a map in memory, which programs can't read. So it is written out for each run:
//! as the upper directory of an overlayfs over the workspace, or, if none can be mounted, as a copy
//! of the whole tree. Both are in a directory of the run. The program's changes have no effect until
//! [`NativeView::keep`] adds them to the transaction.
//!
//! # Guarantees
//!
//! - The program never gets the staged files themselves, only copies. A run that is discarded, or
//!   whose changes can't be kept, leaves the transaction unchanged: its changes are kept completely
//!   or not at all.
//! - Every change that is kept was allowed, place by place, and counts as written by the call.
//! - A place that both the program and another process changed is a conflict. Places that the
//!   transaction looked at before the run are compared at the commit, as always. All others must not
//!   have changed on the disk since the run began, by the time of the inode; a directory is compared
//!   by its entries. One case is not detected through an overlayfs: another process removes a file
//!   that the program changed. The file exists again then, with the program's content.
//! - The host's own directory is empty for the program, and nothing in it is kept. If the program
//!   gets the workspace itself ([`ViewKind::Workspace`]), it sees that directory.
//!
//! # Limitations
//!
//! These are not kept: sockets, FIFOs and devices; permissions and times of directories that existed
//! before; set-user-ID and set-group-ID bits. Hard links become separate files. File systems mounted
//! beneath the workspace are not visible through an overlayfs.

mod attributes;
mod copy;
mod keep;
#[cfg(target_os = "linux")]
mod mount;
mod protect;
mod shown;
mod view;

#[cfg(all(test, target_os = "linux"))]
mod tests;

pub use protect::Protected;
pub use view::{NativeView, ViewKind, ViewOptions};
