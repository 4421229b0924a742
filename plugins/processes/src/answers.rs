//! The results of the tools.

use cofferdam_sdk::background::{Output, Program, State};
use serde::Serialize;

use crate::page::page;

/// The most of a command that a list shows, in bytes.
const MAX_COMMAND_BYTES: usize = 200;

/// The state of a program, which every result has.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    process_id: String,
    /// `running`, `exited`, `stopped`, `killed`, `timed_out`, `limit` or `failed`.
    state: &'static str,
    /// The exit code as a shell reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The limit that was exceeded, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// How long it has been running, or ran.
    running_ms: u64,
    /// The ports on which it listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ports: Vec<u16>,
}

impl Summary {
    fn new(program: &Program) -> Self {
        let (state, exit_code, reason) = match &program.state {
            State::Running => ("running", None, None),
            State::Exited(code) => ("exited", Some(*code), None),
            State::Signalled(signal) => ("killed", Some(128 + signal), None),
            State::Stopped => ("stopped", None, None),
            State::TimedOut => ("timed_out", None, None),
            State::Limit(limit) => ("limit", None, Some(limit.clone())),
            State::Failed(why) => ("failed", None, Some(why.clone())),
        };
        Self {
            process_id: program.id.clone(),
            state,
            exit_code,
            reason,
            running_ms: program.time_ms,
            ports: program.ports.clone(),
        }
    }
}

/// The result of `start_process` and `read_output`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Printed {
    #[serde(flatten)]
    summary: Summary,
    output: String,
    /// The offset for the next call.
    next_offset: u64,
    /// Whether there is more output already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
    /// How many bytes from the requested offset on are not kept any more.
    #[serde(skip_serializing_if = "is_zero")]
    dropped: u64,
    /// What the sandbox does not offer the program, said once.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Printed {
    /// A part of the output, which was requested from the offset `asked` on.
    pub(crate) fn new(output: Output, asked: u64) -> Self {
        let Output { offset, bytes, program } = output;
        let is_last = offset + bytes.len() as u64 >= program.written;
        let has_ended = !matches!(program.state, State::Running);
        let (text, taken) = page(&bytes, !is_last || has_ended);
        let next_offset = offset + taken as u64;
        Self {
            summary: Summary::new(&program),
            output: text,
            next_offset,
            more: !is_last || taken < bytes.len() && has_ended,
            dropped: offset.saturating_sub(asked),
            note: None,
        }
    }

    /// Adds what the sandbox does not offer the program.
    pub(crate) fn with_note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }
}

/// The result of `stop_process`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Stopped {
    #[serde(flatten)]
    summary: Summary,
}

impl Stopped {
    pub(crate) fn new(program: &Program) -> Self {
        Self { summary: Summary::new(program) }
    }
}

/// The result of `list_processes`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    processes: Vec<Process>,
}

/// A program in a list.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Process {
    #[serde(flatten)]
    summary: Summary,
    command: String,
    /// How much it has printed.
    output_bytes: u64,
}

impl Listed {
    pub(crate) fn new(programs: &[Program]) -> Self {
        let process = |program: &Program| {
            // The arguments of the shell are `-c`, `--` and the command.
            let command = program.arguments.last().map_or(program.program.as_str(), String::as_str);
            Process {
                summary: Summary::new(program),
                command: cofferdam_sdk::shorten(command, MAX_COMMAND_BYTES).to_string(),
                output_bytes: program.written,
            }
        };
        Self { processes: programs.iter().map(process).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(state: State, written: u64) -> Program {
        Program {
            id: "process-1".to_owned(),
            program: "bash".to_owned(),
            arguments: ["-c", "--", "npm run dev"].map(str::to_owned).into(),
            state,
            time_ms: 5,
            written,
            ports: vec![3000],
            lacks: None,
        }
    }

    #[test]
    fn every_state_has_a_name() {
        for (state, wanted) in [
            (State::Running, ("running", None, None)),
            (State::Exited(3), ("exited", Some(3), None)),
            (State::Signalled(11), ("killed", Some(139), None)),
            (State::Stopped, ("stopped", None, None)),
            (State::TimedOut, ("timed_out", None, None)),
            (State::Limit("ProcessLimit".to_owned()), ("limit", None, Some("ProcessLimit"))),
            (State::Failed("why".to_owned()), ("failed", None, Some("why"))),
        ] {
            let Summary { state, exit_code, reason, .. } = Summary::new(&program(state, 0));
            assert_eq!((state, exit_code, reason.as_deref()), wanted);
        }
        let listed = Listed::new(&[program(State::Running, 7)]);
        assert_eq!(listed.processes[0].command, "npm run dev");
    }

    #[test]
    fn what_is_missing_is_said() {
        let printed = |state, written, offset, bytes: &[u8]| {
            let program = program(state, written);
            let printed = Printed::new(Output { offset, bytes: bytes.to_vec(), program }, 2);
            (printed.output, printed.next_offset, printed.more, printed.dropped)
        };
        for (state, written, offset, bytes, wanted) in [
            (State::Running, 5, 2, &b"abc"[..], ("abc", 5, false, 0)),
            (State::Running, 9, 2, b"abc", ("abc", 5, true, 0)),
            (State::Running, 9, 6, b"abc", ("abc", 9, false, 4)),
            // The rest of a character comes later, or never.
            (State::Running, 4, 2, b"a\xc3", ("a", 3, false, 0)),
            (State::Exited(0), 4, 2, b"a\xc3", ("a\u{fffd}", 4, false, 0)),
        ] {
            let (output, next, more, dropped) = printed(state, written, offset, bytes);
            assert_eq!((output.as_str(), next, more, dropped), wanted);
        }
    }
}
