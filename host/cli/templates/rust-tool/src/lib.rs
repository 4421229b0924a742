//! What the host calls. The tool itself is in `greet.rs`.

mod greet;

use cofferdam_sdk::{Context, ToolError, plugin};
use greet::{BlankName, Greet, Greeting};

struct Plugin;

impl Plugin {
    /// The host has checked the arguments against the tool's input schema.
    fn greet(args: Greet, _: &Context) -> Result<Greeting, ToolError> {
        // The code is a stable name that agents branch on; the message says what would be right.
        greet::greet(&args).map_err(|BlankName| {
            ToolError::invalid_args("BlankName", "the name is blank; say whom to greet")
        })
    }
}

plugin!(Plugin { greet });
