//! The files that agents keep in a workspace for each other and for users: **beads**, which are
//! issues, tasks, decisions and questions, and **messages**.
//!
//! This crate parses and writes these files, checks which events a bead may get, and finds beads by
//! their ids. The plugins `beads` and `team` write such files; the commands `cofferdam beads` and
//! `cofferdam inbox` read them. The crate does no I/O and uses neither the clock nor random
//! numbers.
//!
//! | module | what |
//! |---|---|
//! | [`bead`] | a bead and its file |
//! | [`event`] | the events in a bead's history |
//! | [`rules`] | which actions a bead's status allows |
//! | [`id`] | ids of beads, and finding a bead by its id |
//! | [`message`] | a message, its file and its id |
//! | `lines` | the syntax that all these files share |
//!
//! Source of the fields: the actions reference, "Bead Management" and "Communication", for beads;
//! the tool schemas, "SendMessage Schema", for messages.

pub mod bead;
pub mod event;
pub mod id;
mod lines;
pub mod message;
pub mod rules;

pub use bead::{Bead, Kind, Priority, Status};
pub use event::{Change, Event};
pub use id::{Id, NotFound};
pub use lines::Problem;
pub use message::{Message, MessageId};
pub use rules::{Action, Refusal};
