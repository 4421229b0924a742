//! The messages of a plugin: log messages, progress, standard output and error. They are escaped
//! and passed to the call's observer until the call's budget is used up.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tracing::Level;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use super::context::redact;
use crate::call::Observer;
use cofferdam_text::{escape_control, shorten};

/// How much a plugin may write to a stream at once, in bytes.
const WRITE_PERMIT_BYTES: usize = 64 << 10;

/// How much of the end of a plugin's standard error is kept to explain a crash, in bytes.
const MAX_STDERR_TAIL_BYTES: usize = 400;

/// The messages of one call.
#[derive(Clone)]
pub(crate) struct Messages(Arc<Shared>);

struct Shared {
    call: String,
    observer: Arc<dyn Observer>,
    /// What is redacted: names and values.
    hidden: Vec<(String, String)>,
    state: Mutex<State>,
}

struct State {
    left: usize,
    last: String,
    /// Whether the plugin reports its own progress.
    reports: bool,
}

impl Messages {
    pub(crate) fn new(
        call: String,
        budget: usize,
        observer: Arc<dyn Observer>,
        hidden: Vec<(String, String)>,
    ) -> Self {
        let state = Mutex::new(State { left: budget, last: String::new(), reports: false });
        Self(Arc::new(Shared { call, observer, hidden, state }))
    }

    /// A stream whose text is reported at `level`.
    pub(crate) fn stream(&self, level: Level) -> MessageStream {
        MessageStream { messages: self.clone(), level }
    }

    /// The end of what the plugin wrote to its standard error, for the report of a crash.
    pub(crate) fn stderr_tail(&self) -> String {
        self.lock().last.trim().to_owned()
    }

    pub(super) fn say(&self, level: Level, text: &str) {
        let text = text.trim_end();
        if let Some(text) = self.within_budget(level, text) {
            self.0.observer.message(&self.0.call, level, &text);
        }
    }

    /// Reports progress on behalf of the plugin.
    pub(super) fn report(&self, done: u64, total: Option<u64>, message: &str) {
        self.lock().reports = true;
        // A report without a message is charged as well, so that there is a limit.
        let words = if message.is_empty() { "." } else { message };
        if let Some(text) = self.within_budget(Level::INFO, words) {
            self.0.observer.progress(&self.0.call, done, total, &text);
        }
    }

    /// Reports that a program is still running, with the seconds that the call has taken, unless the
    /// plugin reports its own progress.
    pub(super) fn still_runs(&self, program: &str, seconds: u64) {
        if !self.lock().reports {
            let message = format!("{program} is running ({seconds} s)");
            self.0.observer.progress(&self.0.call, seconds, None, &message);
        }
    }

    /// The part of `text` that fits into the budget, with a note when the budget is used up.
    fn within_budget(&self, level: Level, text: &str) -> Option<String> {
        let text = &redact(&self.0.hidden, text);
        let mut state = self.lock();
        if state.left == 0 || text.is_empty() {
            return None;
        }
        let kept = shorten(text, state.left);
        state.left = state.left.saturating_sub(text.len());
        let mut text = escape_control(&kept);
        if level == Level::WARN {
            state.last.push_str(&text);
            state.last.push('\n');
            let from = state
                .last
                .ceil_char_boundary(state.last.len().saturating_sub(MAX_STDERR_TAIL_BYTES));
            state.last.drain(..from);
        }
        if state.left == 0 {
            text.push_str(" [further messages of this call are dropped]");
        }
        Some(text)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A plugin's standard output or error.
#[derive(Clone)]
pub(crate) struct MessageStream {
    messages: Messages,
    level: Level,
}

impl IsTerminal for MessageStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for MessageStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl AsyncWrite for MessageStream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.messages.say(self.level, &String::from_utf8_lossy(bytes));
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl OutputStream for MessageStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.messages.say(self.level, &String::from_utf8_lossy(&bytes));
        Ok(())
    }
    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }
    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_PERMIT_BYTES)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for MessageStream {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Observer for Recorder {
        fn message(&self, _: &str, _: Level, _: &str) {}
        fn progress(&self, _: &str, done: u64, total: Option<u64>, message: &str) {
            self.0.lock().unwrap().push(format!("{done}/{total:?} {message}"));
        }
    }

    #[test]
    fn progress_of_the_plugin_replaces_that_of_the_host() {
        let recorder = Arc::new(Recorder::default());
        let messages = Messages::new("1".to_owned(), 100, Arc::clone(&recorder) as _, Vec::new());
        messages.still_runs("cargo", 2);
        messages.report(1, Some(7), "one of seven");
        messages.still_runs("cargo", 4);
        assert_eq!(
            *recorder.0.lock().unwrap(),
            ["2/None cargo is running (2 s)", "1/Some(7) one of seven"]
        );
    }
}
