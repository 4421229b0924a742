//! The protocol between the host and its helper process.
//!
//! On the helper's standard input: the length of a JSON document (8 bytes, little-endian), the
//! [`Request`], the program's standard input; then the pipe stays open, and closing it cancels the
//! run. On its standard output, while the program runs: pieces of its streams, each as a length, a
//! document and bytes; at the end a length, the answer, and the bytes of the program's standard
//! output and standard error.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Attempt, Captured, Cgroup, Command, End, Report, SandboxError, Stream, Tier};

/// The first argument of a helper process.
pub(crate) const HELPER_ARGUMENT: &str = "--cofferdam-sandbox-helper";

/// The second argument of a process that forks helpers.
pub(crate) const FORK_SERVER_ARGUMENT: &str = "--fork-server";

/// The size of a [`Preparation`] in bytes.
pub(crate) const PREPARATION_BYTES: usize = 9;

/// The largest document that is read, in bytes.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;

/// What a helper does before it has its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preparation {
    /// Nothing.
    Nothing,
    /// It enters the namespaces of a run, in which the user keeps its id.
    Enter,
    /// It makes the namespaces of a run of root on files of this owner.
    MakeFor(Owner),
}

/// The user and the group that own files, by their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Owner {
    /// Returns the owner of the files that a command works on if this process is root, and if the command
    /// can run as a user: it can't with an overlay, which writes as the user that mounted it.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        if !rustix::process::getuid().is_root() || command.overlay.is_some() {
            return None;
        }
        let place = command.writable.first().unwrap_or(&command.directory);
        let metadata = std::fs::metadata(place).ok()?;
        Some(Self { uid: metadata.uid(), gid: metadata.gid() })
    }
}

impl Preparation {
    /// What is of use for a request. A helper can serve it with any other preparation as well, unless it
    /// enters the namespaces.
    pub(crate) fn of(request: &Request) -> Self {
        match request {
            Request::Run { command, tier: Tier::A, .. } => match Owner::of(command) {
                Some(owner) => Self::MakeFor(owner),
                None if rustix::process::getuid().is_root() => Self::Nothing,
                None => Self::Enter,
            },
            _ => Self::Nothing,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; PREPARATION_BYTES] {
        let (kind, Owner { uid, gid }) = match self {
            Self::Nothing => (0, Owner { uid: 0, gid: 0 }),
            Self::Enter => (1, Owner { uid: 0, gid: 0 }),
            Self::MakeFor(owner) => (2, owner),
        };
        let ([a, b, c, d], [e, f, g, h]) = (uid.to_le_bytes(), gid.to_le_bytes());
        [kind, a, b, c, d, e, f, g, h]
    }

    pub(crate) fn from_bytes([kind, a, b, c, d, e, f, g, h]: [u8; PREPARATION_BYTES]) -> Self {
        let owner =
            Owner { uid: u32::from_le_bytes([a, b, c, d]), gid: u32::from_le_bytes([e, f, g, h]) };
        match kind {
            1 => Self::Enter,
            2 => Self::MakeFor(owner),
            _ => Self::Nothing,
        }
    }
}

/// A request of the host to a helper.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Asks for facts that need no sandbox.
    Facts,
    /// Sets up a sandbox without running a program.
    Try { tier: Tier },
    /// Runs a program. `stdin` bytes follow the document.
    Run { command: Box<Command>, tier: Tier, scratch: PathBuf, stdin: u64 },
}

/// The answer of a helper.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The answer to [`Request::Facts`].
    Facts { landlock: u32, cgroup: Option<Cgroup> },
    /// The sandbox could be set up.
    Tried,
    /// The program was run.
    Ran(Report),
}

#[derive(Serialize, Deserialize)]
enum Document {
    Facts {
        landlock: u32,
        cgroup: Option<Cgroup>,
    },
    Tried,
    Piece {
        stream: Stream,
        length: u64,
    },
    Ran {
        end: End,
        tier: Tier,
        killed: bool,
        wall: Duration,
        stdout: Kept,
        stderr: Kept,
        attempts: Vec<Attempt>,
    },
    Failed(SandboxError),
}

/// The sizes of a captured stream, whose bytes follow the document.
#[derive(Serialize, Deserialize)]
struct Kept {
    length: u64,
    written: u64,
    cut: bool,
}

impl Kept {
    fn of(captured: &Captured) -> Self {
        let &Captured { ref bytes, written, cut } = captured;
        Self { length: bytes.len() as u64, written, cut }
    }

    fn read(self, input: &mut impl Read) -> io::Result<Captured> {
        let bytes = read_bytes(input, self.length)?;
        Ok(Captured { bytes, written: self.written, cut: self.cut })
    }
}

pub(crate) fn write_answer(
    out: &mut impl Write,
    answer: Result<Answer, SandboxError>,
) -> io::Result<()> {
    match answer {
        Ok(Answer::Facts { landlock, cgroup }) => {
            write_document(out, &Document::Facts { landlock, cgroup })?;
        }
        Ok(Answer::Tried) => write_document(out, &Document::Tried)?,
        Ok(Answer::Ran(Report { end, tier, stdout, stderr, wall, killed, attempts })) => {
            let (out_head, err_head) = (Kept::of(&stdout), Kept::of(&stderr));
            let document = Document::Ran {
                end,
                tier,
                killed,
                wall,
                stdout: out_head,
                stderr: err_head,
                attempts,
            };
            write_document(out, &document)?;
            out.write_all(&stdout.bytes)?;
            out.write_all(&stderr.bytes)?;
        }
        Err(error) => write_document(out, &Document::Failed(error))?,
    }
    out.flush()
}

/// Writes a part of a stream.
pub(crate) fn write_piece(out: &mut impl Write, stream: Stream, bytes: &[u8]) -> io::Result<()> {
    write_document(out, &Document::Piece { stream, length: bytes.len() as u64 })?;
    out.write_all(bytes)?;
    out.flush()
}

/// Reads the answer; `sink` receives the pieces before it.
pub(crate) fn read_answer(
    input: &mut impl Read,
    mut sink: impl FnMut(Stream, &[u8]),
) -> io::Result<Result<Answer, SandboxError>> {
    let answer = loop {
        match read_document(input)? {
            Document::Piece { stream, length } => sink(stream, &read_bytes(input, length)?),
            answer => break answer,
        }
    };
    Ok(match answer {
        Document::Piece { .. } => return Err(io::ErrorKind::InvalidData.into()),
        Document::Facts { landlock, cgroup } => Ok(Answer::Facts { landlock, cgroup }),
        Document::Tried => Ok(Answer::Tried),
        Document::Ran { end, tier, killed, wall, stdout, stderr, attempts } => {
            let stdout = stdout.read(input)?;
            let stderr = stderr.read(input)?;
            Ok(Answer::Ran(Report { end, tier, stdout, stderr, wall, killed, attempts }))
        }
        Document::Failed(error) => Err(error),
    })
}

pub(crate) fn write_document<T: Serialize>(out: &mut impl Write, document: &T) -> io::Result<()> {
    let json = serde_json::to_vec(document)?;
    out.write_all(&(json.len() as u64).to_le_bytes())?;
    out.write_all(&json)
}

pub(crate) fn read_document<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_DOCUMENT_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a document of {length} bytes"),
        ));
    }
    Ok(serde_json::from_slice(&read_bytes(input, length)?)?)
}

/// Reads exactly `length` bytes.
pub(crate) fn read_bytes(input: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if input.take(length).read_to_end(&mut bytes)? as u64 == length {
        Ok(bytes)
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
