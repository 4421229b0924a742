//! Files written by a call that does not end well.

use std::fs;

use cofferdam_sdk::ToolError;
use serde::Deserialize;
use serde_json::{Value, json};
use wasip2::filesystem::types::OpenFlags;

use crate::files;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spoil {
    /// What is written, relative to the workspace, in this order.
    paths: Vec<String>,
    then: Then,
}

/// How the call goes on once everything is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Then {
    Succeed,
    Fail,
    Crash,
    Exit,
    Loop,
    /// Writes on and on, each time another file.
    Write,
    /// Reads on and on.
    Call,
    /// Takes all memory.
    Grow,
    /// Answers what its schema does not know.
    Lie,
    /// Answers more than an answer may be.
    Shout,
}

/// Writes, then ends as it is told. What the host refuses ends it at once.
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
            // Whatever it says, the next one is a call as well.
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
        // A limit that is reached is no reason to stop.
        let _ = fs::write(format!("/workspace/more-{}", number % 1000), "hostile");
        number += 1;
    }
}
