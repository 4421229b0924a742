//! Standard input and output as a transport: a message is a line.
//!
//! Unlike the library's own, it answers invalid lines, stops reading while the client does not read, and
//! does not wait for such a client at the end.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, GetExtensions as _, GetMeta as _, ProtocolVersion,
    ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, Decoder, FramedRead};

use super::bodies::{Bodies, Refused};
use super::connection::Connection;
use super::message::{self, Malformed};

/// The number of bytes waiting to be written from which on nothing is read.
const MAX_UNWRITTEN_BYTES: usize = 8 << 20;

/// The least that a message that waits to be written counts, in bytes.
const MIN_MESSAGE_BYTES: usize = 4 << 10;

/// The maximum size of lines that are read ahead, in bytes.
const MAX_AHEAD_BYTES: usize = 1 << 20;

/// The number of open requests from which on nothing is read. It exceeds the permits for calls and
/// questions, so that answers to questions are always read.
const MAX_OPEN_REQUESTS: usize = 1024;

/// What a line counts besides its text, in bytes.
const LINE_OVERHEAD_BYTES: usize = 64;

/// How long lines wait after the end of the input if the client does not read.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait at the end for a client that does not read.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// A client on a pair of pipes.
pub(super) struct Stdio<R> {
    lines: FramedRead<R, Line>,
    /// The maximum size of a line, in bytes.
    most: usize,
    /// The queue of the task that writes; `None` once it is closed.
    said: Option<mpsc::UnboundedSender<Vec<u8>>>,
    /// The number of bytes that the task has to write.
    waiting: watch::Sender<usize>,
    /// Lines that are read ahead: this way the end of the input is seen even if the client does not
    /// read.
    ahead: VecDeque<Result<Bytes, TooLong>>,
    /// When the input has ended.
    ended: Option<Instant>,
    connection: Connection,
    bodies: Bodies,
    /// The line that is being parsed.
    taking: Option<BoxFuture<'static, Result<ClientJsonRpcMessage, Malformed>>>,
    /// Whether a request has come that begins a conversation.
    begun: bool,
}

/// The task that writes.
pub(super) struct Writer(JoinHandle<io::Result<()>>);

impl<R: AsyncRead + Send + Unpin + 'static> Stdio<R> {
    /// Creates a transport for lines of at most `most` bytes. Once it is dropped, the writer writes what
    /// is left.
    pub fn new(
        input: R,
        output: impl AsyncWrite + Send + Unpin + 'static,
        most: usize,
    ) -> (Self, Writer) {
        let (said, queue) = mpsc::unbounded_channel();
        let waiting = watch::Sender::new(0);
        let writer = Writer(tokio::spawn(write(queue, waiting.clone(), output)));
        let lines = FramedRead::new(input, Line::new(most));
        let connection = Connection::new().of_reader(waiting.subscribe());
        let stdio = Self {
            lines,
            most,
            said: Some(said),
            waiting,
            ahead: VecDeque::new(),
            ended: None,
            connection,
            bodies: Bodies::new(most),
            taking: None,
            begun: false,
        };
        (stdio, writer)
    }

    /// Queues a message for writing.
    fn say(&self, message: &impl Serialize) -> io::Result<()> {
        let said = self.said.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.waiting.send_modify(|waiting| *waiting += weight(&line));
        said.send(line).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Returns the next line, once not too much waits to be answered or written; `None` at the end of the
    /// input, or if the output is closed. It is cancel safe.
    async fn next(&mut self) -> Option<Result<Bytes, TooLong>> {
        let mut waiting = self.waiting.subscribe();
        loop {
            let said = self.said.as_ref()?;
            if self.ended.is_some() && self.ahead.is_empty() {
                return None;
            }
            let until = self.ended.unwrap_or_else(Instant::now) + LAST_LINES_TIMEOUT;
            let read: usize =
                self.ahead.iter().flatten().map(|line| line.len() + LINE_OVERHEAD_BYTES).sum();
            tokio::select! {
                biased;
                () = said.closed() => return None,
                () = async {
                    self.connection.has_fewer_than(MAX_OPEN_REQUESTS).await;
                    // The channel is never closed.
                    let _ = waiting.wait_for(|waiting| *waiting < MAX_UNWRITTEN_BYTES).await;
                }, if !self.ahead.is_empty() => return self.ahead.pop_front(),
                line = self.lines.next(), if self.ended.is_none() && read < MAX_AHEAD_BYTES => match line {
                    Some(Ok(line)) => self.ahead.push_back(line),
                    Some(Err(error)) => {
                        tracing::error!("standard input can't be read: {error}");
                        self.ended = Some(Instant::now());
                    }
                    None => self.ended = Some(Instant::now()),
                },
                () = tokio::time::sleep_until(until), if self.ended.is_some() => return None,
            }
        }
    }

    fn refuse(&self, malformed: &Malformed) {
        let answer = malformed.answer();
        tracing::debug!("a message can't be taken: {}", answer["error"]["message"]);
        if !malformed.notification {
            // If the output is closed, `next` ends.
            let _ = self.say(&answer);
        }
    }

    /// Whether a message is part of a conversation, which begins with a request.
    fn belongs(&mut self, message: &ClientJsonRpcMessage) -> bool {
        if let ClientJsonRpcMessage::Request(message) = message {
            self.begun |= match &message.request {
                ClientRequest::InitializeRequest(_) => true,
                ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
                request => {
                    let meta = request.get_meta();
                    meta.missing_required_keys(&ProtocolVersion::V_2026_07_28).is_empty()
                }
            };
            return true;
        }
        if !self.begun {
            tracing::debug!("a message that no request came before is not taken");
        }
        self.begun
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for Stdio<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let said = if self.connection.ends(&message) { self.say(&message) } else { Ok(()) };
        std::future::ready(said)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // It is cancel safe.
            if let Some(taking) = &mut self.taking {
                let taken = taking.await;
                self.taking = None;
                match taken {
                    Ok(mut message) if self.belongs(&message) => {
                        if self.connection.cancelled_by(&message).is_some() {
                            continue;
                        }
                        self.connection.stamp(&mut message);
                        return Some(message);
                    }
                    Ok(_) => {}
                    Err(malformed) => self.refuse(&malformed),
                }
            }
            let Some(line) = self.next().await else {
                self.connection.silent.cancel();
                return None;
            };
            let Ok(line) = line else {
                self.refuse(&Malformed::too_long(self.most));
                continue;
            };
            // RFC 8259, section 8.1: the mark may be ignored.
            let text = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line).trim_ascii();
            if !text.is_empty() {
                let text = line.slice_ref(text);
                self.taking = Some(take(self.bodies.clone(), text).boxed());
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.said = None;
        Ok(())
    }
}

impl Writer {
    /// Waits until everything is written, or the timeout.
    pub async fn end(mut self) {
        match tokio::time::timeout(LAST_WRITE_TIMEOUT, &mut self.0).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::debug!("standard output can't be written: {error}"),
            Ok(Err(error)) => tracing::error!("the server failed: {error}"),
            Err(_) => {
                self.0.abort();
                tracing::warn!("the client does not read, so what was left to say is lost");
            }
        }
    }
}

/// Writes the queue, a line at a time.
async fn write(
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    waiting: watch::Sender<usize>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(line) = queue.recv().await {
        output.write_all(&line).await?;
        output.flush().await?;
        waiting.send_modify(|waiting| *waiting -= weight(&line));
    }
    Ok(())
}

/// Parses a line.
async fn take(bodies: Bodies, line: Bytes) -> Result<ClientJsonRpcMessage, Malformed> {
    let taken = match bodies.take(None, Bodies::line(line.clone())).await {
        Ok(taken) => taken,
        Err(Refused::Malformed(malformed)) => return Err(malformed),
        Err(Refused::Full) => return Err(Malformed::busy(&line)),
    };
    drop(line);
    let mut message = message::read(taken.document, &taken.text)?;
    if let ClientJsonRpcMessage::Request(message) = &mut message {
        message.request.extensions_mut().insert(taken.load);
    }
    Ok(message)
}

fn weight(line: &[u8]) -> usize {
    line.len().max(MIN_MESSAGE_BYTES)
}

/// Splits the input into lines. Lines that are too long are reported, not an error.
struct Line(AnyDelimiterCodec);

/// A line that exceeds the maximum size.
#[derive(Debug)]
struct TooLong;

impl Line {
    fn new(most: usize) -> Self {
        Self(AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), b"\n".to_vec(), most))
    }

    fn item(
        decoded: Result<Option<Bytes>, AnyDelimiterCodecError>,
    ) -> io::Result<Option<Result<Bytes, TooLong>>> {
        match decoded {
            Ok(line) => Ok(line.map(Ok)),
            Err(AnyDelimiterCodecError::MaxChunkLengthExceeded) => Ok(Some(Err(TooLong))),
            Err(AnyDelimiterCodecError::Io(error)) => Err(error),
        }
    }
}

impl Decoder for Line {
    type Item = Result<Bytes, TooLong>;
    type Error = io::Error;

    fn decode(&mut self, input: &mut BytesMut) -> io::Result<Option<Self::Item>> {
        Self::item(self.0.decode(input))
    }

    fn decode_eof(&mut self, input: &mut BytesMut) -> io::Result<Option<Self::Item>> {
        Self::item(self.0.decode_eof(input))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::{Value, json};
    use tokio::io::{AsyncBufReadExt as _, BufReader, duplex};

    use super::*;

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    /// Reads an input with lines of at most 64 bytes: returns the ids of its requests, and the errors
    /// that are written.
    async fn read(input: &[u8]) -> (Vec<Value>, Vec<Value>) {
        let (output, answers) = duplex(1 << 16);
        let (mut stdio, writer) = Stdio::new(io::Cursor::new(input.to_vec()), output, 64);
        let mut taken = Vec::new();
        while let Some(message) = stdio.receive().await {
            taken.push(serde_json::to_value(message).unwrap()["id"].take());
        }
        assert!(stdio.connection.silent.is_cancelled());
        drop(stdio);
        writer.end().await;
        let mut lines = BufReader::new(answers).lines();
        let mut said = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            said.push(serde_json::from_str(&line).unwrap());
        }
        (taken, said)
    }

    #[tokio::test]
    async fn each_line_is_a_message_or_is_answered() {
        let long = "x".repeat(100);
        let input = format!("\u{feff}{PING}\r\n\n{long}\n{{\"id\n{PING}");
        let (taken, said) = read(input.as_bytes()).await;
        assert_eq!(taken, [1, 1]);
        let codes: Vec<&Value> = said.iter().map(|answer| &answer["error"]["code"]).collect();
        assert_eq!(codes, [-32700, -32700]);
        assert!(said.iter().all(|answer| answer["id"].is_null()), "{said:?}");
        let text = said[0]["error"]["message"].as_str().unwrap();
        assert!(text.contains("longer than 64 bytes"), "{text}");
        // What comes before the first request is ignored.
        let early = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let (taken, said) = read(format!("{early}\n{PING}\n").as_bytes()).await;
        assert_eq!((taken, said), (vec![json!(1)], vec![]));
    }

    #[tokio::test]
    async fn nothing_is_taken_while_too_much_waits() {
        let (output, answers) = duplex(64);
        let input = format!("{PING}\n");
        let (mut stdio, writer) = Stdio::new(io::Cursor::new(input.into_bytes()), output, 64);
        let large = "x".repeat(MAX_UNWRITTEN_BYTES);
        stdio.say(&large).unwrap();
        assert!(futures_util::poll!(std::pin::pin!(stdio.receive())).is_pending());
        let reader = tokio::spawn(async move {
            BufReader::with_capacity(1 << 20, answers).lines().next_line().await.unwrap().unwrap()
        });
        assert!(stdio.receive().await.is_some());
        drop(stdio);
        writer.end().await;
        assert_eq!(reader.await.unwrap().len(), MAX_UNWRITTEN_BYTES + 2);
    }

    #[tokio::test]
    async fn the_end_is_seen_though_too_much_waits() {
        let (output, _answers) = duplex(64);
        let input = format!("{PING}\n");
        let (mut stdio, writer) = Stdio::new(io::Cursor::new(input.into_bytes()), output, 64);
        stdio.say(&"x".repeat(MAX_UNWRITTEN_BYTES)).unwrap();
        assert!(stdio.receive().await.is_none());
        drop(stdio);
        writer.end().await;
    }

    #[tokio::test]
    async fn nothing_is_read_where_nobody_reads() {
        let (output, answers) = duplex(1);
        let (input, _client) = duplex(64);
        let (mut stdio, writer) = Stdio::new(input, output, 64);
        drop(answers);
        stdio.say(&"words").unwrap();
        assert!(stdio.receive().await.is_none());
        writer.end().await;
    }
}
