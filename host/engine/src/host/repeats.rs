//! Limits how often a tool is called with the same argument, if its manifest says so.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::dispatch::ValidCall;
use cofferdam_core::outcome::{Failure, LimitCode};
use cofferdam_plugin::digest::Digest;

/// How many arguments are counted. When there are more, all counts are reset.
const MAX_ARGUMENTS: usize = 10_000;

/// The number of calls by tool and argument.
#[derive(Default)]
pub(super) struct Repeats(Mutex<HashMap<Digest, u32>>);

impl Repeats {
    /// Counts a call with its argument.
    ///
    /// # Errors
    /// The tool was called too often with this argument.
    pub fn count(&self, call: &ValidCall) -> Result<(), Failure> {
        let (tool, args) = (call.tool(), call.args());
        let Some(repeats) = &tool.tool().repeats else { return Ok(()) };
        let Some(value) = args.get(&repeats.argument) else { return Ok(()) };
        let name = tool.qualified_name();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_ARGUMENTS {
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
