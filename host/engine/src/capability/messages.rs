//! What a plugin says besides its answer: log messages, progress, standard output and error. All of
//! it goes to the call's observer, neutralised, until the call's budget is used up.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tracing::Level;
use wasmtime::Result;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::runtime::{CallState, Observer, wit};
use cofferdam_text::{escape_control, shorten};

/// How much a plugin may write to a stream at once, in bytes.
const WRITE_PERMIT: usize = 64 << 10;

/// How much of what a plugin said last is kept to explain a crash, in bytes.
const LAST_WORDS: usize = 400;

/// The messages of one call.
#[derive(Clone)]
pub(crate) struct Messages(Arc<Shared>);

struct Shared {
    call: String,
    observer: Arc<dyn Observer>,
    state: Mutex<State>,
}

struct State {
    left: usize,
    last: String,
    /// Whether the plugin says itself how far it is.
    reports: bool,
}

impl Messages {
    pub(crate) fn new(call: String, budget: usize, observer: Arc<dyn Observer>) -> Self {
        let state = Mutex::new(State { left: budget, last: String::new(), reports: false });
        Self(Arc::new(Shared { call, observer, state }))
    }

    /// A stream whose text is reported at `level`.
    pub(crate) fn stream(&self, level: Level) -> MessageStream {
        MessageStream { messages: self.clone(), level }
    }

    /// The end of what the plugin wrote to its standard error, for the report of a crash.
    pub(crate) fn last_words(&self) -> String {
        self.lock().last.trim().to_owned()
    }

    pub(super) fn say(&self, level: Level, text: &str) {
        let text = text.trim_end();
        if let Some(text) = self.within_budget(level, text) {
            self.0.observer.message(&self.0.call, level, &text);
        }
    }

    /// Says how far the plugin is.
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        self.lock().reports = true;
        // A report without words still costs something, or it could go on for ever.
        let words = if message.is_empty() { "." } else { message };
        if let Some(text) = self.within_budget(Level::INFO, words) {
            self.0.observer.progress(&self.0.call, done, total, &text);
        }
    }

    /// Says that a program is still running, with the seconds that the call has taken. Where the
    /// plugin counts something else, that is what counts.
    pub(super) fn still_runs(&self, program: &str, seconds: u64) {
        if !self.lock().reports {
            let message = format!("{program} is running ({seconds} s)");
            self.0.observer.progress(&self.0.call, seconds, None, &message);
        }
    }

    /// The part of `text` that the budget still covers, with a mark where it ends.
    fn within_budget(&self, level: Level, text: &str) -> Option<String> {
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
            let from = state.last.ceil_char_boundary(state.last.len().saturating_sub(LAST_WORDS));
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

impl wit::host::log::Host for CallState {
    fn emit(&mut self, level: wit::host::log::Level, message: String) -> Result<()> {
        let level = match level {
            wit::host::log::Level::Debug => Level::DEBUG,
            wit::host::log::Level::Info => Level::INFO,
            wit::host::log::Level::Warn => Level::WARN,
            wit::host::log::Level::Error => Level::ERROR,
        };
        self.messages.say(level, &message);
        Ok(())
    }
}

impl wit::host::progress::Host for CallState {
    fn report(&mut self, done: u64, total: Option<u64>, message: String) -> Result<()> {
        self.messages.report(done, total, &message);
        Ok(())
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
        // Only WASI 0.3 asks for this one, and that is not linked.
        Box::new(tokio::io::sink())
    }
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
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
        Ok(WRITE_PERMIT)
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
    struct Heard(Mutex<Vec<String>>);

    impl Observer for Heard {
        fn message(&self, _: &str, _: Level, _: &str) {}
        fn progress(&self, _: &str, done: u64, total: Option<u64>, message: &str) {
            self.0.lock().unwrap().push(format!("{done}/{total:?} {message}"));
        }
    }

    #[test]
    fn what_a_plugin_counts_comes_before_seconds() {
        let heard = Arc::new(Heard::default());
        let messages = Messages::new("1".to_owned(), 100, Arc::clone(&heard) as _);
        messages.still_runs("cargo", 2);
        messages.report(1, Some(7), "one of seven");
        messages.still_runs("cargo", 4);
        assert_eq!(
            *heard.0.lock().unwrap(),
            ["2/None cargo is running (2 s)", "1/Some(7) one of seven"]
        );
    }
}
