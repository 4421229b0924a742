//! `cofferdam:host/log` and `cofferdam:host/progress`.

use tracing::Level;
use wasmtime::Result;

use super::bindings::cofferdam::host::{log, progress};
use super::state::CallState;

impl log::Host for CallState {
    fn emit(&mut self, level: log::Level, message: String) -> Result<()> {
        let level = match level {
            log::Level::Debug => Level::DEBUG,
            log::Level::Info => Level::INFO,
            log::Level::Warn => Level::WARN,
            log::Level::Error => Level::ERROR,
        };
        self.messages.say(level, &message);
        Ok(())
    }
}

impl progress::Host for CallState {
    fn report(&mut self, done: u64, total: Option<u64>, message: String) -> Result<()> {
        self.messages.report(done, total, &message);
        Ok(())
    }
}
