//! Shared by the tests: the built command, temporary workspaces, and runs of the command.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// The id of a user who is not root and owns nothing.
pub const ORDINARY_UID: u32 = 65_534;

/// The directory of the release build: `target/release`.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().find(|folder| folder.join("plugins").is_dir());
    folder.expect("the built plugins are missing; run `cargo xtask test`").to_owned()
}

/// The packed file of a guest in `tests/guests`.
pub fn guest(name: &str) -> PathBuf {
    let file = built().join("guests").join(format!("{name}.wasm"));
    assert!(file.is_file(), "{} is missing; run `cargo xtask test`", file.display());
    file
}

/// A temporary directory with a workspace and a home directory, so that the machine's settings have
/// no effect.
pub struct Place {
    directory: TempDir,
}

/// The result of a run of the command.
#[derive(Debug)]
pub struct Ended {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Copies the built command. A process that another test forks at this moment has the copy open for
/// writing until it executes its program; the copy can't be executed before.
#[expect(clippy::disallowed_methods, reason = "starts the copy")]
pub fn copy_command(to: &Path) {
    fs::copy(built().join("cofferdam"), to).unwrap();
    while let Err(error) = Command::new(to).arg("--version").output() {
        assert_eq!(error.kind(), std::io::ErrorKind::ExecutableFileBusy, "{error}");
        thread::sleep(Duration::from_millis(10));
    }
}

impl Ended {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("workspace")).unwrap();
        Self { directory }
    }

    /// The path of the workspace, without symbolic links.
    pub fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace").canonicalize().unwrap()
    }

    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.workspace().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// Makes one call as a user who is not root, since root may read and write everywhere.
    pub fn act_as_nobody(&self, action: &Value) -> Ended {
        let file = self.workspace().with_file_name("envelope.json");
        fs::write(&file, json!({ "actions": [action] }).to_string()).unwrap();
        let mut command = self.command(&["run", file.to_str().unwrap()]);
        if rustix::process::geteuid().is_root() {
            let above = self.workspace().parent().unwrap().to_owned();
            fs::set_permissions(above, fs::Permissions::from_mode(0o755)).unwrap();
            command.uid(ORDINARY_UID).gid(ORDINARY_UID);
        }
        Ended::of(&mut command)
    }

    /// The command, in the workspace, with the place's home directory.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_at(&built().join("cofferdam"), args)
    }

    /// Like [`Self::command`], for a copy of the command at another path.
    #[expect(clippy::disallowed_methods, reason = "the command is what is tested")]
    pub fn command_at(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        self.prepare(command.args(args));
        command
    }

    /// Sets where a command runs, its environment, and its input and output.
    pub fn prepare(&self, command: &mut Command) {
        command
            .current_dir(self.workspace())
            .env_clear()
            .env("HOME", self.home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    pub fn home(&self) -> PathBuf {
        self.directory.path().join("home")
    }

    /// A path in the home directory, which is outside of the workspace.
    pub fn home_file(&self, name: &str) -> PathBuf {
        fs::create_dir_all(self.home()).unwrap();
        self.home().join(name)
    }

    /// Writes a shell script that every user can execute to the home directory, and returns its
    /// absolute path.
    pub fn script(&self, name: &str, body: &str) -> String {
        let path = self.home_file(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, "")
    }

    /// Runs git in the workspace, without the machine's settings.
    #[expect(clippy::disallowed_methods, reason = "git is what the host is compared with")]
    pub fn git(&self, args: &[&str]) -> Output {
        Command::new("git")
            .args(args)
            .current_dir(self.workspace())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap()
    }

    /// Runs git, which has to succeed.
    pub fn with_git(&self, args: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@a"];
        let output = self.git(&[&who[..], args].concat());
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    /// Runs the command with `input` on its standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Ended {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = thread::spawn(move || {
            // A command that refuses early does not read everything.
            let _ = stdin.write_all(input.as_bytes());
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output.into()
    }
}

/// The root of the project.
pub fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Waits until the condition holds, which another process has to bring about.
pub fn wait_until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(10));
    }
}
