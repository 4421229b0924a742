//! What every layer needs to know about one call: its deadline and cancellation, why it was
//! stopped, what it may do, who observes it, and what it has used. Nothing here knows how calls
//! run.

mod control;
mod observer;
mod permissions;
mod usage;

pub use control::{Control, Stop};
pub use observer::{Observer, Quiet};
pub use permissions::{Grants, Permissions, PluginGrant};
pub use usage::{CallUsage, Usage, Used};
