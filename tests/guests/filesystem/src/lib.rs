//! A plugin that runs scripts of file operations and returns their results: [`step`] is the
//! language, [`play`] runs it through the bare interface. [`refactor`] uses only the standard
//! library.

mod play;
mod refactor;
mod step;

use std::path::Path;

use cofferdam_sdk::{Context, ToolError, plugin};
use serde::{Deserialize, Serialize};

use crate::play::Player;
use crate::step::Step;

struct Filesystem;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    steps: Vec<String>,
}

#[derive(Serialize)]
struct Results {
    results: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refactoring {
    from: String,
    to: String,
}

#[derive(Serialize)]
struct Refactored {
    files: u32,
}

impl Filesystem {
    fn script(script: Script, _: &Context) -> Result<Results, ToolError> {
        let steps: Result<Vec<Step>, String> =
            script.steps.iter().map(|line| Step::parse(line)).collect();
        let steps = steps.map_err(|error| ToolError::invalid_args("UnknownStep", error))?;
        let mut player = Player::new();
        Ok(Results { results: steps.iter().map(|step| player.play(step)).collect() })
    }

    fn refactor(refactoring: Refactoring, _: &Context) -> Result<Refactored, ToolError> {
        let Refactoring { from, to } = &refactoring;
        refactor::refactor(Path::new("/workspace"), from, to)
            .map(|files| Refactored { files })
            .map_err(|error| ToolError::failed("Unfinished", error.to_string()))
    }
}

plugin!(Filesystem { script, script_read = script, refactor });
