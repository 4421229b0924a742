//! Calls that write files and then end badly.

use std::fs;

use cofferdam_sdk::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};
use wasip2::filesystem::types::OpenFlags;

use crate::files;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spoil {
    /// The files to write, relative to the workspace, in this order.
    paths: Vec<String>,
    then: Then,
}

/// What the call does after everything is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Then {
    Succeed,
    Fail,
    Crash,
    Exit,
    Loop,
    /// Writes one file after another, without end.
    Write,
    /// Makes host calls without end.
    Call,
    /// Allocates memory without end.
    Grow,
    /// Returns an answer that does not fit the output schema.
    Lie,
    /// Returns an answer that is too large.
    Shout,
}

/// Writes, then ends as requested. The first error of a write ends the call.
#[expect(clippy::panic, clippy::disallowed_methods, reason = "this is what must do no harm")]
pub fn run(spoil: &Spoil) -> Result<Value, ToolError> {
    for path in &spoil.paths {
        files::write(path, OpenFlags::CREATE)
            .map_err(|error| ToolError::denied("Refused", format!("{path}: {}", error.name())))?;
    }
    match spoil.then {
        Then::Succeed => {}
        Then::Fail => return Err(ToolError::failed("Spoiled", "on second thoughts")),
        Then::Crash => panic!("after writing"),
        Then::Exit => std::process::exit(0),
        Then::Loop => loop {
            std::hint::black_box(());
        },
        Then::Write => write_on(),
        Then::Call => loop {
            // The result is ignored, since each attempt counts as a host call.
            let _ = fs::metadata("/workspace");
        },
        Then::Grow => {
            let mut taken = Vec::new();
            loop {
                taken.push(std::hint::black_box(vec![1_u8; 1 << 20]));
            }
        }
        Then::Lie => return Ok(json!({"ok": "perhaps"})),
        Then::Shout => return Ok(json!({"ok": true, "data": "x".repeat(1 << 20)})),
    }
    Ok(json!({"ok": true}))
}

fn write_on() -> ! {
    let mut number = 0_u64;
    loop {
        // Errors at a limit are ignored.
        let _ = fs::write(format!("/workspace/more-{}", number % 1000), "hostile");
        number += 1;
    }
}
