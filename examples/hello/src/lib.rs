//! A first plugin: one tool, which greets a person by name.

use cofferdam_sdk::{Context, ToolError, plugin};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Greet {
    name: String,
}

#[derive(Serialize)]
struct Greeting {
    text: String,
}

struct Hello;

impl Hello {
    fn greet(args: Greet, _: &Context) -> Result<Greeting, ToolError> {
        Ok(Greeting { text: format!("Hello, {}!", args.name) })
    }
}

plugin!(Hello { greet });
