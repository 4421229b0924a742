//! Misconduct that needs no files: inspecting the environment, printing control characters,
//! flooding, invalid answers, crashing.

use std::time::{Instant, SystemTime};

use cofferdam_sdk::{log, progress};
use serde::Deserialize;

use crate::Tried;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conduct {
    pub how: String,
    #[serde(default)]
    size: usize,
}

/// Text that would control a terminal: colour, the clipboard (OSC 52), the title, a CSI as one
/// byte, right-to-left override, a zero-width space, and a hidden tag character.
const SHOUT: &str = "\u{1b}[31mred\u{1b}]52;c;aGk=\u{7}\u{1b}]0;title\u{7}\u{9b}2J\u{202e}desrever\u{200b}\u{e0041}\rover";

/// Does it; returns `None` for an unknown kind.
#[expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this is what must do no harm"
)]
#[expect(clippy::disallowed_methods, reason = "this is what must find nothing")]
pub fn run(conduct: &Conduct) -> Option<Tried> {
    let size = conduct.size;
    Some(Ok(match conduct.how.as_str() {
        "look-around" => {
            let variables: Vec<String> =
                std::env::vars_os().map(|pair| format!("{pair:?}")).collect();
            let arguments: Vec<String> =
                std::env::args_os().map(|argument| format!("{argument:?}")).collect();
            format!(
                "{} {} {:?}",
                variables.join(","),
                arguments.join(","),
                wasip2::cli::environment::initial_cwd()
            )
        }
        "read-input" => {
            std::io::read_to_string(std::io::stdin()).unwrap_or_else(|error| error.to_string())
        }
        "clock-steps" => smallest_steps(),
        "print" => flood(std::io::stdout(), size),
        "print-error" => flood(std::io::stderr(), size),
        "log" => {
            let line = "x".repeat(1 << 20);
            for _ in 0..size >> 20 {
                log::emit(log::Level::Error, &line);
            }
            String::new()
        }
        "report-progress" => {
            for done in 0..size {
                progress::report(done as u64, None, "");
            }
            String::new()
        }
        "shout" => {
            println!("{SHOUT}");
            eprintln!("{SHOUT}");
            log::emit(log::Level::Warn, SHOUT);
            progress::report(1, Some(2), SHOUT);
            SHOUT.to_owned()
        }
        "answer" => "x".repeat(size),
        "panic" => panic!("last words {SHOUT}"),
        "exit" => std::process::exit(0),
        "sleep" => {
            std::thread::sleep(std::time::Duration::from_secs(size as u64));
            String::new()
        }
        _ => return None,
    }))
}

fn flood(mut out: impl std::io::Write, size: usize) -> String {
    let piece = vec![b'x'; 64 << 10];
    for _ in 0..size / piece.len() {
        if let Err(error) = out.write_all(&piece) {
            return error.to_string();
        }
    }
    String::new()
}

/// The smallest steps of the two clocks that were observed, in nanoseconds.
fn smallest_steps() -> String {
    let mut monotonic = Vec::new();
    let mut wall = Vec::new();
    let (mut last, mut last_wall) = (Instant::now(), SystemTime::now());
    while monotonic.len() < 20 || wall.len() < 20 {
        let (now, now_wall) = (Instant::now(), SystemTime::now());
        if now != last {
            monotonic.push(now.duration_since(last).as_nanos());
            last = now;
        }
        if let Ok(step) = now_wall.duration_since(last_wall)
            && !step.is_zero()
        {
            wall.push(step.as_nanos());
            last_wall = now_wall;
        }
    }
    let least = |steps: &[u128]| steps.iter().min().map_or(0, |step| *step);
    format!("{} {}", least(&monotonic), least(&wall))
}
