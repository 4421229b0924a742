//! Stores of workspaces: a workspace is pushed to an object store, cloned from it, and kept up to date
//! by pulling. No server takes part. Hosts of a fleet can share a queue of requests. The truth is in the
//! store: content by its digest, and numbered commits that are created and never replaced. Who creates a
//! number first wins.
//!
//! `docs/workspaces.md` describes the format. Nothing that is read from a store is trusted.
//!
//! | module | is for |
//! |---|---|
//! | [`clone`], [`fill`] | creating a directory from a store |
//! | [`push`] | uploading a workspace and creating a commit |
//! | [`pull`], [`merge`], [`download`] | taking commits over: what changes, its content, one transaction |
//! | [`scan`] | the tree on the disk |
//! | [`local`], [`state`] | the workspace that is synced, and what it was when it was last synced |
//! | [`replica`], [`copy`], [`live`], [`publish`], [`refresh`], [`keys`] | a copy on a host of a fleet, whose commits are published before they are applied |
//! | [`chain`] | reading commits and comparing each with the one before |
//! | [`store`], [`requests`] | the object store, and its HTTP requests |
//! | [`commit`], [`tree`] | the documents in a store |
//! | [`queue`] | requests for workspaces, which a NATS server queues |
//!
//! Leaves out: printing, the environment, and who may call what. Credentials are passed by the caller.

mod chain;
mod clone;
mod commit;
mod copy;
mod download;
mod error;
mod fill;
mod keys;
mod live;
mod local;
mod merge;
mod publish;
mod pull;
mod push;
pub mod queue;
mod refresh;
mod replica;
mod requests;
mod scan;
mod state;
mod store;
mod tree;

#[cfg(test)]
mod tests;

pub use chain::{ListedCommit, log};
pub use clone::clone;
pub use commit::{CommitSource, KeyedCall, SourceCall, StoredCommit};
pub use copy::{MAX_RESULT_BYTES, Replica};
pub use error::{FleetError, KeyError};
pub use pull::{Pulled, pull};
pub use push::{PushOptions, Pushed, push};
pub use replica::{Claim, OpenCall};
pub use scan::LeftOut;
pub use store::{Access, Address, Service};
pub use tree::decode_directory;

/// How many requests to a store run at a time.
const PARALLEL: usize = 16;
