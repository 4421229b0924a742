//! What a program prints, where it is much: taken into files while it runs, so that nothing of it
//! is lost that its plugin does not get. Small output makes no file.

use std::io;

use cofferdam_sandbox::Stream;

use super::context::CallContext;
use crate::call::CallUsage;
use cofferdam_workspace::{KeptOutput, Spill, Workspace};

/// A stream is kept from this many bytes on. Both streams together stay below what any of the
/// built-in tools leaves out.
pub(super) const ABOVE: usize = 48 << 10;

/// How many streams of one call are kept; the room is for other calls as well.
const MOST: usize = 16;

/// The streams of one run of a program.
pub(super) struct Streams<'a> {
    workspace: &'a Workspace,
    usage: &'a CallUsage,
    program: &'a str,
    /// What their names begin with: the call and the run.
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

    /// Takes the next bytes of a stream. One that can't be written is given up: the run goes on.
    pub(super) fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let (state, name) = match stream {
            Stream::Stdout => (&mut self.stdout, format!("{}.stdout", self.name)),
            Stream::Stderr => (&mut self.stderr, format!("{}.stderr", self.name)),
        };
        let written = match state {
            State::Lost => return,
            State::Begun(spill) => spill.write(bytes),
            State::Short if self.usage.outputs() >= MOST => {
                Err(io::Error::other(format!("{MOST} streams of the call are kept already")))
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

    /// Keeps what was taken: the program has ended.
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
