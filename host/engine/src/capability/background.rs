//! `cofferdam:host/background`: native programs that are left running after the call that started them.
//! Which program may run, and what it sees, is decided as for every run of a program that can't change
//! the workspace ([`super::process`]); what the session has running is in [`crate::background`].

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cofferdam_sandbox as sandbox;
use wasmtime::Result;

use super::CANCEL_POLL;
use super::bindings::cofferdam::host::background::{Error, Host, Output, Program, State};
use super::bindings::cofferdam::host::process::{self, Changes, Command};
use super::network::{self, Network};
use super::process::{GIT, Prepared, end, not_run};
use super::state::CallState;
use crate::background::{self, Background, Ended, Full, Permit, Reach, Source, Started};
use crate::call::{CallUsage, Permissions};
use crate::journal::{Entry, Event, Journal};
use cofferdam_core::policy::Files;

/// The longest time after which a program is stopped.
const MAX_TIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The most output that is returned at once, in bytes.
const MAX_READ_BYTES: u32 = 1 << 20;

/// How often the limits of a program are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The most output that the sandbox keeps besides what it passes on, in bytes.
const SANDBOX_OUTPUT_BYTES: usize = 4096;

/// What programs lack in tier B. Without mounts, nothing but the rights on single files keeps them from the
/// host's own directory.
const LACKS_IN_TIER_B: &str = "in tier B of the sandbox, programs have no ports and are not notified of changed files, and can't \
     read what is created or replaced directly in the project's root after their start; what is below \
     its directories they can read";

impl Host for CallState {
    fn start(&mut self, command: Command) -> Result<std::result::Result<Program, Error>> {
        Ok(self.start_background(&command))
    }

    fn programs(&mut self) -> Result<std::result::Result<Vec<Program>, Error>> {
        let known = self.background().map(|background| background.programs());
        Ok(known.map(|known| {
            known.iter().map(|program| described(program, program.status())).collect()
        }))
    }

    fn read(
        &mut self,
        id: String,
        offset: u64,
        max: u32,
        wait_ms: u32,
    ) -> Result<std::result::Result<Output, Error>> {
        Ok(self.read_background(&id, offset, max, wait_ms))
    }

    fn stop(&mut self, id: String) -> Result<std::result::Result<Program, Error>> {
        Ok(self.stop_background(&id))
    }
}

impl CallState {
    /// The programs of the call's session.
    fn background(&self) -> std::result::Result<&Arc<Background>, Error> {
        let permissions = &self.context.permissions;
        if !permissions.capabilities.background {
            let plugin = permissions.plugin();
            return Err(Error::Denied(format!(
                "the plugin '{plugin}' may not leave programs running; a person can grant it by \
                 background = true under [grants.{plugin}] in cofferdam.toml"
            )));
        }
        self.context.session.background().ok_or_else(|| {
            let why = "a program is left running for a session, and this call belongs to none: there \
                       are sessions with `cofferdam serve`, on standard input and output, or over \
                       HTTP for clients that begin with `initialize`";
            Error::Unavailable(why.to_owned())
        })
    }

    fn known(&self, id: &str) -> std::result::Result<Arc<background::Program>, Error> {
        let background = self.background()?;
        background.program(id).ok_or_else(|| {
            let known: Vec<String> =
                background.programs().iter().map(|program| program.id.clone()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let id = cofferdam_text::shorten(id, 80);
            Error::Unknown(format!("the session has no program '{id}'; it has {known}"))
        })
    }

    fn start_background(&self, command: &Command) -> std::result::Result<Program, Error> {
        let background = Arc::clone(self.background()?);
        if command.changes != Changes::None {
            let why = "a program that is left running can't change the workspace";
            return Err(Error::Invalid(why.to_owned()));
        }
        self.allow_program(command)?;
        let permit = background.reserve(&self.context.services.background)?;
        // The workspace itself, so that it sees later commits; nothing of this call is staged.
        let tree = self.context.services.workspace.plain();
        let Prepared { sandbox, mut described, network, cache, .. } =
            self.prepare(command, tree)?;
        limit(&mut described, command.timeout_ms);
        described.loopback = sandbox.tier() == sandbox::Tier::A;
        let mut running = sandbox.start(described).map_err(not_run)?;
        let egress = match network {
            Some(network) => Network::start(network, &mut running, &self.context)?,
            None => None,
        };
        let program = background.add(Started {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            canceller: running.canceller(),
            loopback: running.take_loopback(),
        });
        let reach = match program.loopback() {
            Some(_) => Reach::start(Source::Program(Arc::clone(&program)), &background).map(Some),
            None => Ok(None),
        };
        let watch = Watch {
            program: Arc::clone(&program),
            _permit: permit,
            egress,
            cache: cache.as_ref().map(|_| self.context.limits.cache as u64),
            permissions: self.context.permissions.clone(),
            call: self.context.id.clone(),
            usage: Arc::clone(&self.context.usage),
            services: Arc::clone(&self.context.services),
        };
        let reach = match reach {
            Ok(reach) => reach,
            Err(error) => {
                drop(running);
                program.end(Ended::Failed(error.to_string()));
                return Err(Error::Failed(format!("the program could not be started: {error}")));
            }
        };
        watch.record(Event::PROGRAM_STARTED, None);
        watch.begin(running, reach).map_err(|error| {
            Error::Failed(format!("the program could not be supervised: {error}"))
        })?;
        Ok(self::described(&program, program.status()))
    }

    fn read_background(
        &self,
        id: &str,
        offset: u64,
        max: u32,
        wait_ms: u32,
    ) -> std::result::Result<Output, Error> {
        let program = self.known(id)?;
        let control = self.control();
        let until = Instant::now() + Duration::from_millis(wait_ms.into());
        let wait = || Instant::now() < until && control.stop().is_none();
        let max = max.min(MAX_READ_BYTES) as usize;
        let (offset, bytes, status) = program.read(offset, max, CANCEL_POLL, wait);
        Ok(Output { offset, bytes, program: described(&program, status) })
    }

    fn stop_background(&self, id: &str) -> std::result::Result<Program, Error> {
        let program = self.known(id)?;
        if self.context.permissions.capabilities.files == Files::None {
            return Err(Error::Denied("the call may only read what programs print".to_owned()));
        }
        if !program.stop_and_wait() {
            let why = "the program was killed, and has not ended yet; it is still waited for";
            return Err(Error::Failed(why.to_owned()));
        }
        Ok(described(&program, program.status()))
    }

    /// Whether a run of a program reaches the ports of the session's programs. Git needs none.
    pub(super) fn reaches_programs(&self, command: &Command) -> bool {
        let background = self.context.session.background();
        let is_any_running = |background: &Arc<Background>| {
            background.programs().iter().any(|program| program.is_running())
        };
        command.program != GIT && background.is_some_and(is_any_running)
    }

    /// Opens the ports of the session's programs in a run of a program.
    pub(super) fn reach(
        &self,
        running: &mut sandbox::Running,
    ) -> std::result::Result<Option<Reach>, process::Error> {
        let Some(loopback) = running.take_loopback() else { return Ok(None) };
        let Some(background) = self.context.session.background() else { return Ok(None) };
        let reach = Reach::start(Source::Call(loopback), background);
        reach.map(Some).map_err(|error| {
            process::Error::Failed(format!("the ports of the session's programs: {error}"))
        })
    }
}

/// Replaces the limits that are for the program of a call.
fn limit(described: &mut sandbox::Command, timeout_ms: u32) {
    let wall = match timeout_ms {
        0 => MAX_TIME,
        timeout => MAX_TIME.min(Duration::from_millis(timeout.into())),
    };
    described.limits.wall = wall;
    described.limits.cpu_seconds = MAX_TIME.as_secs();
    described.limits.output = SANDBOX_OUTPUT_BYTES;
    described.limits.poll = POLL_INTERVAL;
    // All of the output, from the first byte on.
    described.spill = Some(sandbox::Spill { above: 0, most: u64::MAX });
}

/// What has to live as long as a program.
struct Watch {
    program: Arc<background::Program>,
    _permit: Permit,
    egress: Option<crate::egress::Egress>,
    /// The size of the plugin's cache, if the program has one.
    cache: Option<u64>,
    permissions: Permissions,
    /// The call that started it.
    call: String,
    /// Collects the origins that it reached after the end of that call.
    usage: Arc<CallUsage>,
    services: Arc<super::Services>,
}

impl Watch {
    /// Waits for the end of the program on a thread of its own. Returns once the thread keeps the
    /// entries of its cache from eviction.
    fn begin(self, running: sandbox::Running, reach: Option<Reach>) -> std::io::Result<()> {
        let (ready, is_ready) = mpsc::channel::<()>();
        let program = Arc::clone(&self.program);
        let name = "cofferdam-background".to_owned();
        let begun = thread::Builder::new().name(name).spawn(move || {
            self.wait(running, reach, ready);
        });
        if let Err(error) = begun {
            program.end(Ended::Failed(error.to_string()));
            return Err(error);
        }
        let _ = is_ready.recv();
        Ok(())
    }

    fn wait(self, running: sandbox::Running, reach: Option<Reach>, ready: mpsc::Sender<()>) {
        let services = Arc::clone(&self.services);
        let cache =
            self.cache.map(|bytes| services.workspace.cache(self.permissions.plugin(), bytes));
        drop(ready);
        let waited = running.wait_with(|_, bytes| self.program.print(bytes));
        let ended = match waited {
            Ok(report) => {
                self.explain(&report);
                Ended::By(report.end)
            }
            Err(error) => Ended::Failed(error.to_string()),
        };
        drop((cache, reach));
        self.program.end(ended);
        self.record(Event::PROGRAM_ENDED, Some(&self.program.status()));
    }

    /// Adds to the output what the program tried to reach and was not granted.
    fn explain(&self, report: &sandbox::Report) {
        let refusals = self.egress.as_ref().map(|egress| egress.refusals()).unwrap_or_default();
        let name = &self.program.program;
        let text = network::explanation(&self.permissions, name, report, &refusals);
        if !text.is_empty() {
            self.program.print(text.as_bytes());
        }
    }

    /// Records an event of the program, and how it ended.
    fn record(&self, event: &str, ended: Option<&background::Status>) {
        let background::Program { id, program, .. } = &*self.program;
        let mut reason = format!("{id}, {program} of {}", self.permissions.plugin());
        if let Some(background::Status { ended: Some(ended), time, written }) = ended {
            let seconds = time.as_secs_f64();
            reason.push_str(&format!(", {ended} after {seconds:.1} s, printed {written} bytes"));
            let origins = self.usage.take().origins;
            let origins: Vec<String> = origins.iter().map(ToString::to_string).collect();
            if !origins.is_empty() {
                reason.push_str(&format!(", reached {}", origins.join(", ")));
            }
        }
        let journal: &Journal = &self.services.journal;
        journal.append(&Entry::Event(Event::of_call(event, reason, &self.call)));
    }
}

/// Describes a program for a plugin.
fn described(program: &background::Program, status: background::Status) -> Program {
    let background::Status { ended, time, written } = status;
    Program {
        id: program.id.clone(),
        program: program.program.clone(),
        arguments: program.arguments.clone(),
        state: ended.map_or(State::Running, state),
        time_ms: u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        written,
        ports: program.ports(),
        lacks: program.loopback().is_none().then(|| LACKS_IN_TIER_B.to_owned()),
    }
}

fn state(ended: Ended) -> State {
    let by = match ended {
        Ended::Stopped | Ended::By(sandbox::End::Cancelled) => return State::Stopped,
        Ended::Failed(why) => return State::Failed(why),
        Ended::By(by) => by,
    };
    match end(by) {
        process::End::Exited(code) => State::Exited(code),
        process::End::Signalled(signal) => State::Signalled(signal),
        process::End::TimedOut => State::TimedOut,
        process::End::Limit(limit) => State::Limit(limit),
    }
}

impl From<Full> for Error {
    fn from(full: Full) -> Self {
        match full {
            Full::Session | Full::Host => Self::TooMany(full.to_string()),
            Full::Ended => Self::Unavailable(full.to_string()),
        }
    }
}

impl From<process::Error> for Error {
    fn from(error: process::Error) -> Self {
        match error {
            process::Error::Denied(why) => Self::Denied(why),
            process::Error::NotFound(why) => Self::NotFound(why),
            process::Error::Unavailable(why) => Self::Unavailable(why),
            process::Error::Invalid(why) => Self::Invalid(why),
            process::Error::Changes(why) | process::Error::Failed(why) => Self::Failed(why),
        }
    }
}
