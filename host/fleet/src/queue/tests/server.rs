//! A NATS server.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server that is killed when it is dropped.
pub(super) struct Server {
    child: Child,
    port: u16,
    place: TempDir,
    options: Vec<String>,
}

impl Server {
    /// Starts a server with JetStream.
    pub(super) fn start() -> Self {
        let place = tempfile::tempdir().unwrap();
        let options = ["--jetstream", "--store_dir", place.path().to_str().unwrap()];
        let options = options.map(str::to_owned).to_vec();
        Self::with(place, options)
    }

    /// Starts a server with other options. Its files may be in the directory.
    pub(super) fn with(place: TempDir, options: Vec<String>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = spawn(port, &options);
        Self { child, port, place, options }
    }

    pub(super) fn address(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn files(&self) -> &Path {
        self.place.path()
    }

    /// Kills the server by SIGKILL.
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the server as a whole (SIGSTOP), or lets it go on.
    pub(super) fn freeze(&self, is_frozen: bool) {
        let process = Pid::from_child(&self.child);
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        kill_process(process, signal).unwrap();
    }

    /// Starts a server that was killed again, with its files.
    pub(super) fn restart(&mut self) {
        self.child = spawn(self.port, &self.options);
    }

    /// As [`Server::restart`], with other options from now on.
    pub(super) fn restart_with(&mut self, options: Vec<String>) {
        self.options = options;
        self.restart();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let program = target.join("clients/store/bin/nats-server");
    assert!(program.is_file(), "{} is missing; run `cargo xtask test`", program.display());
    program
}

fn spawn(port: u16, options: &[String]) -> Child {
    let child = Command::new(program())
        .args(["--addr", "127.0.0.1", "--port", &port.to_string()])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server has not started");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}
