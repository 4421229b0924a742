//! The state of one call that all layers use: deadline and cancellation, why it was stopped, permissions,
//! observer, usage, the secrets that it has read, the consent that it has asked for, and its questions. Running calls is
//! not part of this module.

mod consent;
mod control;
mod observer;
mod permissions;
mod questions;
mod secrets;
mod session;
mod usage;

pub(crate) use consent::ConsentAnswer;
pub use consent::{
    ConsentDecision, ConsentGuard, ConsentRecord, ConsentRequest, RememberedConsents,
};
pub use control::{Control, Stop};
pub use observer::{Observer, Quiet};
pub use permissions::{Grants, Permissions, PluginGrant};
pub(crate) use questions::QuestionsAnswer;
pub use questions::{PluginQuestion, QuestionGuard};
pub use secrets::{SecretFlow, SecretGuard, SecretRead, SecretReads};
pub use session::{Later, Session, SessionCommit};
pub use usage::{CallUsage, RefusedOrigins, Usage, Used};
