//! Writes large output of a program to files while the program runs, since its plugin gets only a
//! part of it. Small output is not written.

use std::io;

use cofferdam_sandbox::Stream;

use super::context::CallContext;
use crate::call::CallUsage;
use cofferdam_workspace::{KeptOutput, Spill, Workspace};

/// The minimum size of streams that are kept, in bytes. The shell's tools return two smaller streams
/// completely, unless they consist of characters that JSON escapes.
pub(super) const MIN_KEPT_BYTES: usize = 14 << 10;

/// How many streams of one call are kept; the rest of the space is for other calls.
const MAX_STREAMS: usize = 16;

/// The streams of one run of a program.
pub(super) struct Streams<'a> {
    workspace: &'a Workspace,
    usage: &'a CallUsage,
    program: &'a str,
    /// The prefix of the file names: the call and the run.
    name: String,
    stdout: State,
    stderr: State,
}

enum State {
    Short,
    Begun(Box<Spill>),
    Lost,
}

impl<'a> Streams<'a> {
    /// The streams of the next program of a call.
    pub(super) fn new(context: &'a CallContext, program: &'a str) -> Self {
        let CallContext { id, usage, services, .. } = context;
        Self {
            workspace: &services.workspace,
            usage,
            program,
            name: format!("{id}.{}", usage.next_program()),
            stdout: State::Short,
            stderr: State::Short,
        }
    }

    /// Adds bytes of a stream. On an I/O error the stream is not kept, and the run continues.
    pub(super) fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let (state, name) = match stream {
            Stream::Stdout => (&mut self.stdout, format!("{}.stdout", self.name)),
            Stream::Stderr => (&mut self.stderr, format!("{}.stderr", self.name)),
        };
        let written = match state {
            State::Lost => return,
            State::Begun(spill) => spill.write(bytes),
            State::Short if self.usage.outputs() >= MAX_STREAMS => {
                Err(io::Error::other(format!("{MAX_STREAMS} streams of the call are kept already")))
            }
            State::Short => begin(self.workspace, &name, bytes).map(|spill| {
                *state = State::Begun(Box::new(spill));
            }),
        };
        if let Err(error) = written {
            tracing::warn!("what '{}' prints is not kept as {name}: {error}", self.program);
            *state = State::Lost;
        }
    }

    /// Keeps the files after the program has exited.
    pub(super) fn keep(self) {
        for (state, stream) in [(self.stdout, "stdout"), (self.stderr, "stderr")] {
            let State::Begun(spill) = state else { continue };
            let name = format!("{}.{stream}", self.name);
            match spill.keep() {
                Ok(bytes) => {
                    let program = self.program.to_owned();
                    self.usage.add_output(KeptOutput { name, program, bytes });
                }
                Err(error) => {
                    tracing::warn!("what '{}' printed is not kept as {name}: {error}", self.program)
                }
            }
        }
    }
}

fn begin(workspace: &Workspace, name: &str, bytes: &[u8]) -> io::Result<Spill> {
    let mut spill = workspace.spill(name)?;
    spill.write(bytes)?;
    Ok(spill)
}
