//! Who observes running calls.

/// Receives the messages and the progress of running calls.
pub trait Observer: Send + Sync {
    /// A thread has begun to run the call, or a part of it.
    fn started(&self) {}
    /// A message of the plugin, with control characters escaped and within its budget.
    fn message(&self, call: &str, level: tracing::Level, message: &str);
    /// The progress of the call.
    fn progress(&self, call: &str, done: u64, total: Option<u64>, message: &str);
}

impl std::fmt::Debug for dyn Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// An observer that ignores everything.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Observer for Quiet {
    fn message(&self, _: &str, _: tracing::Level, _: &str) {}
    fn progress(&self, _: &str, _: u64, _: Option<u64>, _: &str) {}
}
