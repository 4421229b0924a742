//! Opens a host with plugins from `tests/guests` or from WebAssembly text, and makes calls.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_core::envelope::Mode;
use cofferdam_core::outcome::{Failure, Outcome, Status};
use cofferdam_core::policy::Settings;
use cofferdam_engine::call::Observer;
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::{Config, Helper, Host, OpenError, RunOptions, ToolListError};
use cofferdam_workspace::Secret;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tracing::Level;

use crate::hostile::component::Packed;
use crate::support::{Ended, Place, built};

/// Grants the guest `hostile` everything that it requests.
pub const ALL: &str = "[grants.hostile]\nfiles = 'write'\nscan = true\n";

/// A host on a temporary place.
pub struct Trial {
    pub place: Place,
    pub heard: Arc<Heard>,
    host: Host,
    runtime: Runtime,
    _plugins: Vec<Packed>,
}

/// Records all messages and progress reports of plugins.
#[derive(Default)]
pub struct Heard {
    pub messages: Mutex<Vec<(Level, String)>>,
    pub progress: Mutex<Vec<String>>,
}

impl Observer for Heard {
    fn message(&self, _: &str, level: Level, message: &str) {
        self.messages.lock().unwrap().push((level, message.to_owned()));
    }
    fn progress(&self, _: &str, _: u64, _: Option<u64>, message: &str) {
        self.progress.lock().unwrap().push(message.to_owned());
    }
}

impl Heard {
    /// The number of bytes in the messages.
    pub fn size(&self) -> usize {
        let messages = self.messages.lock().unwrap();
        let progress = self.progress.lock().unwrap();
        messages.iter().map(|(_, text)| text.len()).sum::<usize>()
            + progress.iter().map(String::len).sum::<usize>()
    }
}

impl Trial {
    /// A host with one plugin and `settings` (`cofferdam.toml`).
    pub fn new(plugin: Packed, settings: &str) -> Self {
        Self::with(Place::new(), vec![plugin], settings)
    }

    /// A host with the guest `hostile` and `settings`, on the workspace of `place`.
    pub fn of_guest(place: Place, settings: &str) -> Self {
        Self::with(place, vec![Packed::guest("hostile")], settings)
    }

    pub fn with(place: Place, plugins: Vec<Packed>, settings: &str) -> Self {
        Self::open(place, plugins, settings, cache()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A host that can run native programs, with environment variables that can be granted.
    pub fn with_programs(place: Place, plugins: Vec<Packed>, settings: &str) -> Self {
        let granted = [("GRANTED_TOKEN", "a-token-of-some"), ("UNGRANTED", "not for programs")];
        let config = Config {
            sandbox: Some(Helper::at(built().join("cofferdam"))),
            environment: granted.map(|(name, value)| (name.into(), value.into())).into(),
            cache: Some(cache()),
            ..Config::new(place.workspace())
        };
        Self::configured(place, plugins, settings, config).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn open(
        place: Place,
        plugins: Vec<Packed>,
        settings: &str,
        cache: PathBuf,
    ) -> Result<Self, OpenError> {
        let config = Config { cache: Some(cache), ..Config::new(place.workspace()) };
        Self::configured(place, plugins, settings, config)
    }

    /// A host whose plugins are compiled and whose programs are started by `helper`, with the code
    /// cache `cache`.
    pub fn compiling(
        place: Place,
        plugins: Vec<Packed>,
        settings: &str,
        cache: PathBuf,
        helper: Helper,
    ) -> Result<Self, OpenError> {
        let config =
            Config { sandbox: Some(helper), cache: Some(cache), ..Config::new(place.workspace()) };
        Self::configured(place, plugins, settings, config)
    }

    fn configured(
        place: Place,
        plugins: Vec<Packed>,
        settings: &str,
        config: Config,
    ) -> Result<Self, OpenError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let heard = Arc::new(Heard::default());
        let config = Config {
            plugins: plugins.iter().map(|plugin| plugin.path.clone()).collect(),
            settings: vec![Settings::parse(settings).unwrap()],
            observer: heard.clone(),
            workers: Some(2),
            secret: Secret::In(place.home().join(".local/state/cofferdam/secret")),
            ..config
        };
        let host = {
            let _timers = runtime.enter();
            Host::open(config)?
        };
        Ok(Self { place, heard, host, runtime, _plugins: plugins })
    }

    /// Makes a call; returns a refusal as an error.
    pub fn try_call(
        &self,
        role: Option<&str>,
        tool: &str,
        args: Value,
    ) -> Result<Outcome, Refusal> {
        let options = RunOptions { role: role.map(str::to_owned), ..RunOptions::default() };
        let answer = self.runtime.block_on(self.host.call(tool, &args.to_string(), &options));
        answer.map(|(answer, _)| answer.outcome)
    }

    /// Asks a component of ACT for its tools, as when it is installed.
    pub fn tool_list(&self, component: &[u8]) -> Result<String, ToolListError> {
        self.runtime.block_on(self.host.tool_list(component, "attack"))
    }

    pub fn call(&self, tool: &str, args: Value) -> Outcome {
        self.call_as(None, tool, args)
    }

    pub fn call_as(&self, role: Option<&str>, tool: &str, args: Value) -> Outcome {
        self.try_call(role, tool, args).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    /// Makes a call with options.
    pub fn call_with(&self, options: &RunOptions, tool: &str, args: Value) -> Outcome {
        let answer = self.runtime.block_on(self.host.call(tool, &args.to_string(), options));
        answer.unwrap_or_else(|refusal| panic!("{refusal}")).0.outcome
    }

    /// Runs an envelope as one transaction, and returns the outcomes of its calls.
    pub fn run_atomic(&self, envelope: &Value) -> Vec<Outcome> {
        let options = RunOptions { atomic: true, ..RunOptions::default() };
        let text = envelope.to_string();
        let run = self.host.run(&text, Mode::Strict, &options);
        let run = self.runtime.block_on(run).unwrap_or_else(|refusal| panic!("{refusal}"));
        run.answers.into_iter().map(|answer| answer.outcome).collect()
    }

    /// The host's reason for refusing an attempt of the guest `hostile`.
    pub fn reason(&self, what: &str, path: &str, target: &str) -> String {
        let args = json!({"what": what, "path": path, "target": target});
        match self.call("hostile.attempt", args) {
            Outcome::Executed(output) if output["ok"] == false => {
                output["reason"].as_str().unwrap_or("(none)").to_owned()
            }
            other => panic!("{what} {path}: {other:?}"),
        }
    }

    /// An attempt by one of the tools of the guest `hostile`: what it read, or the host's error.
    pub fn attempt(
        &self,
        tool: &str,
        what: &str,
        path: &str,
        target: &str,
    ) -> Result<String, String> {
        self.attempt_as(None, [tool, what, path, target])
    }

    /// Like [`Self::attempt`], under a role.
    pub fn attempt_as(
        &self,
        role: Option<&str>,
        [tool, what, path, target]: [&str; 4],
    ) -> Result<String, String> {
        tried(self.call_as(role, tool, json!({"what": what, "path": path, "target": target})))
    }
}

/// The result that the guest `hostile` reported.
pub fn tried(outcome: Outcome) -> Result<String, String> {
    let Outcome::Executed(output) = outcome else { panic!("{outcome:?}") };
    let text = |name: &str| output[name].as_str().unwrap_or_default().to_owned();
    if output["ok"] == true { Ok(text("data")) } else { Err(text("error")) }
}

/// A result, borrowed for comparisons.
pub fn said(tried: &Result<String, String>) -> Result<&str, &str> {
    tried.as_deref().map_err(String::as_str)
}

/// The failure in which a call has to end.
pub fn failure(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        executed @ Outcome::Executed(_) => panic!("{executed:?}"),
    }
}

/// Asserts how a call failed.
#[track_caller]
pub fn assert_failed(outcome: Outcome, status: Status, code: &str, message: &str) {
    let failure = failure(outcome);
    assert_eq!((failure.status, failure.code.as_str()), (status, code), "{failure:?}");
    assert!(failure.message.contains(message), "{failure:?}");
}

/// The cache of compiled code that the tests share: compiling the guest `hostile` takes longer than
/// running it.
pub fn cache() -> PathBuf {
    built().join("guests/code")
}

/// Runs the command and measures its peak memory, in MiB.
pub fn run_measured(place: &Place, args: &[&str]) -> (Ended, u64) {
    let child = place.command(args).spawn().unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let (done, watched) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        // The peak only grows, so the last value before the end is the peak.
        while watched.recv_timeout(Duration::from_millis(5))
            == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            peak = peak_memory(&status).unwrap_or(peak);
        }
        peak
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    (output.into(), watch.join().unwrap())
}

/// `VmHWM` of a process, in MiB.
pub fn peak_memory(status: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(status)?;
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    kib.map(|kib| kib >> 10).ok_or_else(|| io::Error::other("a process that has ended"))
}

/// Writes these settings as the user's own.
pub fn configure(place: &Place, settings: &str) {
    let folder = place.home().join(".config/cofferdam");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cofferdam.toml"), settings).unwrap();
}
