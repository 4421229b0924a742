//! The setting of the cases: the binary where every user can execute it, a workspace, a run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cofferdam_sandbox::{Command, Helper, Probe, Report, Running, Sandbox, SandboxError, Tier};
use libtest_mimic::{Arguments, Trial};

use crate::hostile;

/// The first argument of a process that acts as the host.
pub const HOST_ARGUMENT: &str = "--host";

/// The first argument of helpers, from the protocol.
const HELPER_ARGUMENT: &str = "--cofferdam-sandbox-helper";

/// A user id other than root.
const USER: u32 = 65534;

/// A combination of tier and user.
#[derive(Clone)]
pub struct Setting {
    /// Kept ready, as a server does.
    pub helper: Helper,
    /// `root` or `user`, as in the names of tests.
    pub user: &'static str,
    pub tier: Tier,
    pub probe: Arc<Probe>,
    /// The test binary, where every user can execute it.
    pub binary: PathBuf,
}

impl Setting {
    pub fn sandbox(&self) -> Sandbox {
        Sandbox::with(self.helper.clone(), &self.probe, Some(self.tier)).unwrap()
    }
}

/// Runs all cases; if started as root, as another user as well.
pub fn run(cases: fn(&Setting) -> Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of them wait for a limit.
    arguments.test_threads.get_or_insert(4);
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = place.path().join("sandbox-test");
    fs::copy("/proc/self/exe", &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();

    let root = rustix::process::geteuid().is_root();
    let user = if root { "root" } else { "user" };
    let helper = Helper::current().kept_ready();
    let probe = Arc::new(helper.probe().unwrap());
    eprintln!("as {user}: {probe:?}");
    let mut trials = Vec::new();
    for (tier, state) in [(Tier::A, &probe.tier_a), (Tier::B, &probe.tier_b)] {
        let (helper, probe, binary) = (helper.clone(), probe.clone(), binary.clone());
        let setting = Setting { helper, user, tier, probe, binary };
        if let Err(reason) = state {
            eprintln!("tier {tier} does not work here, so only its refusal is tested: {reason}");
            trials.push(refusal(setting));
        } else {
            trials.extend(cases(&setting));
        }
    }
    let failed = libtest_mimic::run(&arguments, trials).has_failed();
    let status = root.then(|| {
        let mut again = std::process::Command::new(&binary);
        again.args(std::env::args_os().skip(1)).uid(USER).gid(USER).current_dir("/");
        again.status().unwrap()
    });
    let passed = !failed && status.is_none_or(|status| status.success());
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn refusal(setting: Setting) -> Trial {
    Trial::test(format!("{}_tier_{:?}_is_refused", setting.user, setting.tier), move || {
        let error = Sandbox::with(Helper::current(), &setting.probe, Some(setting.tier));
        assert!(matches!(error, Err(SandboxError::Unavailable(_))), "{error:?}");
        Ok(())
    })
}

/// A directory to work on, and one beside it that is not granted.
pub struct Place {
    root: tempfile::TempDir,
    setting: Setting,
}

impl Place {
    pub fn new(setting: &Setting) -> Self {
        // Not in /tmp, so that files are not hidden just by a private /tmp.
        let root = tempfile::Builder::new().prefix("sandbox-").tempdir_in("/var/tmp").unwrap();
        for name in ["workspace", "outside"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root, setting: setting.clone() }
    }

    pub fn workspace(&self) -> PathBuf {
        self.root.path().join("workspace")
    }

    pub fn outside(&self) -> PathBuf {
        self.root.path().join("outside")
    }

    /// The hostile program in the workspace, which it may write, with arguments.
    pub fn command<S: AsRef<str>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.setting.binary, self.workspace());
        command.writable.push(self.workspace());
        command.environment.push(("GRANTED".to_owned(), "yes".to_owned()));
        // Each of its processes is found again by this mark.
        command.arguments.push(hostile::ARGUMENT.to_owned());
        command.arguments.push(self.mark());
        command.arguments.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        command
    }

    pub fn start(&self, command: Command) -> Running {
        self.setting.sandbox().start(command).unwrap()
    }

    /// Runs to the end, and checks that no process is left.
    pub fn run(&self, command: Command) -> Report {
        let report = self.start(command).wait().unwrap();
        assert_eq!(self.survivors(), Vec::<String>::new());
        assert_eq!(report.tier, self.setting.tier);
        report
    }

    /// Runs the hostile program with default limits; returns its output.
    pub fn output<S: AsRef<str>>(&self, arguments: &[S]) -> String {
        let report = self.run(self.command(arguments));
        String::from_utf8(report.stdout.bytes).unwrap()
            + &String::from_utf8_lossy(&report.stderr.bytes)
    }

    /// The command lines of hostile programs, and of helpers of [`helper`](Self::helper), that run.
    pub fn survivors(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line);
            let is_ours = [hostile::ARGUMENT, HELPER_ARGUMENT].iter().any(|it| line.contains(it));
            if is_ours && line.contains(&self.mark()) {
                found.push(format!("{}: {line}", entry.path().display()));
            }
        }
        found
    }

    /// The helpers of [`helper`](Self::helper) that run, by their process ids.
    pub fn helpers(&self) -> Vec<i32> {
        let program = self.helper_program().display().to_string();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|id| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            line.starts_with(program.as_bytes())
        })
        .collect()
    }

    /// A helper whose processes can be told from all others.
    pub fn helper(&self) -> Helper {
        Helper::at(self.helper_program())
    }

    /// The program of [`helper`](Self::helper).
    pub fn helper_program(&self) -> PathBuf {
        let program = self.outside().join("helper");
        if !program.exists() {
            // Not a copy: a process that is started meanwhile would have it open for writing for a moment.
            std::os::unix::fs::symlink(&self.setting.binary, &program).unwrap();
        }
        program
    }

    fn mark(&self) -> String {
        self.root.path().display().to_string()
    }
}

/// Writes a file, creating its directories.
pub fn write(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A process of the same user that sleeps for a minute, with a variable in its environment.
pub fn sleeper(name: &str, value: &str) -> std::process::Child {
    std::process::Command::new("/proc/self/exe")
        .args([hostile::ARGUMENT, "sleeper", "sleep"])
        .env(name, value)
        .spawn()
        .unwrap()
}

/// Starts a process that acts as the host.
pub fn host(arguments: &[&str]) -> std::process::Child {
    std::process::Command::new("/proc/self/exe").args(arguments).spawn().unwrap()
}

/// Runs a program without a sandbox.
pub fn plain(program: &str) {
    let status = std::process::Command::new(program).env_clear().status().unwrap();
    assert!(status.success());
}
