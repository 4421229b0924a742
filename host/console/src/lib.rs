//! `cofferdam console`: a local web page for the user who supervises agents. It shows what waits for a
//! decision (proposals, questions of calls) and takes the decision, and shows calls under way, the history,
//! the journal, what is granted, and figures.
//!
//! Every page works without JavaScript: plain forms, answered by a redirect. The script adds keys and
//! reloads what has changed. All content comes from files, agents and plugins, and is escaped.
//!
//! No arguments, no printing, no environment. What is decided is carried out by
//! [`cofferdam_engine::review`], as for the command.

mod bulk;
mod calls;
mod diff;
mod figures;
mod form;
mod guard;
mod history;
mod inbox;
mod journal;
mod layout;
mod live;
mod permissions;
mod proposal;
mod server;
mod state;
mod syntax;

pub use server::serve;
pub use state::{Permissions, Settings};
