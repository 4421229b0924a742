//! Compiles components that are not built in, in a process that has nothing but its input and its
//! output, within limits. The resulting machine code can't be checked; ARCHITECTURE.md describes
//! what this protects against.

use std::process::ExitCode;
use std::time::Duration;

use cofferdam_sandbox::{Bounds, Helper, Limit, WorkError, run_if_worker};
use wasmtime::{Engine, Precompiled};

use super::{LoadError, engine};
use cofferdam_core::outcome::LimitCode;
use cofferdam_core::policy::Limits;
use cofferdam_plugin::typed::Generation;
use cofferdam_text::{escape_control, shorten};

/// The maximum size of the compiled code of a component, in bytes.
const MAX_CODE_BYTES: u64 = 1 << 30;

/// How much of a compiler's message is shown, in bytes.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// Compiles components in separate processes.
#[derive(Debug, Clone)]
pub struct Compiler {
    helper: Helper,
    time: Duration,
    memory: usize,
}

impl Compiler {
    /// A compiler that starts `helper`, whose executable begins with
    /// [`run_if_helper`](crate::host::run_if_helper), within the limits of compiling.
    pub fn new(helper: Helper, limits: &Limits) -> Self {
        Self { helper, time: limits.compile, memory: limits.compile_memory }
    }

    /// Compiles a component for this machine.
    ///
    /// # Errors
    /// [`LoadError`] if the component is not valid or exceeds a limit, or if the compiler crashed
    /// or was cancelled.
    pub(super) fn compile(
        &self,
        component: &[u8],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, LoadError> {
        let bounds = Bounds { wall: self.time, memory: self.memory as u64, output: MAX_CODE_BYTES };
        let code = self
            .helper
            .work(component, &bounds, is_cancelled)
            .map_err(|error| self.failed(error))?;
        match Engine::detect_precompiled(&code) {
            Some(Precompiled::Component) => Ok(code),
            _ => Err(LoadError::Compiler("it did not answer with compiled code".to_owned())),
        }
    }

    fn failed(&self, error: WorkError) -> LoadError {
        let limit = |code, bound| LoadError::CompileLimit { code, bound };
        match error {
            WorkError::Refused(reason) => LoadError::Compile(inert(&reason)),
            WorkError::Limit(Limit::Memory) => limit(
                LimitCode::CompileMemoryLimit,
                format!("more than {} MiB of memory (limits.compile-memory-mb)", self.memory >> 20),
            ),
            WorkError::Limit(Limit::Output) => limit(
                LimitCode::CompileOutputLimit,
                format!("more than {} MiB of code", MAX_CODE_BYTES >> 20),
            ),
            WorkError::Limit(_) => limit(
                LimitCode::CompileTimeLimit,
                format!("longer than {} ms (limits.compile-ms)", self.time.as_millis()),
            ),
            WorkError::Crashed(how) => LoadError::CompilerCrashed(inert(&how)),
            WorkError::Cancelled => LoadError::Cancelled,
            WorkError::Start(_) => LoadError::Compiler(error.to_string()),
        }
    }
}

/// Escapes and shortens the message of a process that worked on untrusted input.
fn inert(words: &str) -> String {
    shorten(&escape_control(words), MAX_MESSAGE_BYTES)
}

/// Compiles the component on standard input, if this process was started to do so.
pub(crate) fn compile_if_asked() -> Option<ExitCode> {
    run_if_worker(|component| {
        // The pool of instances is not needed, and has no effect on compiled code.
        let generation = Generation::of(&component);
        let compile = || Engine::new(&engine::code(generation))?.precompile_component(&component);
        compile().map_err(|error| format!("{error:#}"))
    })
}
