//! The state of one call that all layers use: deadline and cancellation, why it was stopped,
//! permissions, observer, and usage. Running calls is not part of this module.

mod control;
mod observer;
mod permissions;
mod session;
mod usage;

pub use control::{Control, Stop};
pub use observer::{Observer, Quiet};
pub use permissions::{Grants, Permissions, PluginGrant};
pub use session::{Session, SessionCommit};
pub use usage::{CallUsage, Usage, Used};
