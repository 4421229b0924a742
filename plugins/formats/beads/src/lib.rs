//! What agents leave in a workspace for each other and for people: **beads**, which are issues,
//! tasks, decisions and questions, and **messages**.
//!
//! Here is how their files are read and written, what a bead may become, and how one is found by
//! its id. The plugins `beads` and `team` write such files, the commands `cofferdam beads` and
//! `cofferdam inbox` read them; both through this crate. It opens no file, and knows neither the
//! time nor random numbers.
//!
//! | module | what |
//! |---|---|
//! | [`bead`] | a bead and its file |
//! | [`event`] | what became of a bead: a line of its history |
//! | [`rules`] | what may become of a bead |
//! | [`id`] | what a bead is called |
//! | [`message`] | a message, its file and its id |
//! | `lines` | what all these files have in common |
//!
//! Source of the fields: S3, "Bead Management" and "Communication", for beads; S4,
//! "SendMessage Schema", for messages.

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
