//! The workspace as one transaction sees it: the files on the disk, with the transaction's changes on
//! top. Every change is staged: a new or changed file, directory or link is an inode in the staging
//! directory, and the tree on the disk is unchanged until the commit.
//!
//! Places are normalised paths ([`Place`](cofferdam_core::policy::Place)); the empty place is the
//! workspace itself. An operation on a place fails with `ELOOP` if a symbolic link is on the way:
//! then [`Overlay::resolve`] returns the place behind the link.
//!
//! | module | what |
//! |---|---|
//! | [`tree`] | [`Overlay`]: looking up, listing and reading |
//! | [`state`] | the changes, as a map |
//! | [`repositories`] | what is known of git repositories in the tree |
//! | [`staging`] | writing to staged files, directories and links |
//! | [`names`] | creating, removing and renaming |
//! | [`resolve`] | following symbolic links |
//! | [`git_files`] | reading git's files |
//! | [`held`] | the changes of a held commit, in the tree of a later call |
//! | [`guard`] | places that git controls, and files that git executes |

mod git_files;
mod guard;
mod held;
mod names;
mod repositories;
mod resolve;
mod staging;
mod state;
mod tree;

pub use guard::ExecutedFile;
pub use staging::Opening;
pub use state::Savepoint;
pub(crate) use state::{Entry, Undo};
pub use tree::Overlay;
pub(crate) use tree::Staging;
