//! How often a tool was called for the same thing, where its manifest bounds that.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::dispatch::ValidCall;
use cofferdam_core::outcome::{Failure, LimitCode};
use cofferdam_plugin::digest::Digest;

/// How many different things are remembered. Beyond that, counting begins anew.
const REMEMBERED: usize = 10_000;

/// The counts of one host.
#[derive(Default)]
pub(super) struct Repeats(Mutex<HashMap<Digest, u32>>);

impl Repeats {
    /// Counts a call.
    ///
    /// # Errors
    /// It is one too many.
    pub fn count(&self, call: &ValidCall) -> Result<(), Failure> {
        let (tool, args) = (call.tool(), call.args());
        let Some(repeats) = &tool.tool().repeats else { return Ok(()) };
        let Some(value) = args.get(&repeats.argument) else { return Ok(()) };
        let name = tool.qualified_name();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= REMEMBERED {
            counts.clear();
        }
        let count = counts.entry(Digest::of(format!("{name}\n{value}").as_bytes())).or_default();
        *count = count.saturating_add(1);
        if *count <= repeats.most {
            return Ok(());
        }
        let message = format!(
            "{name} may be called {} times with the same '{}'; use what it answered, or do without",
            repeats.most, repeats.argument
        );
        Err(Failure::new(LimitCode::TooManyCalls, message))
    }
}
