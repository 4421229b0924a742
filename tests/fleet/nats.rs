//! A NATS server, which `cargo xtask test` installs.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};

use super::network::Node;
use crate::support::{Place, built, wait_until};

/// A server that is ended when it is dropped. Its files are kept when it is killed.
pub struct Nats {
    child: Mutex<Child>,
    address: SocketAddr,
    files: PathBuf,
    secret: PathBuf,
}

impl Nats {
    pub fn start(place: &Place, node: &Node) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = SocketAddr::from((node.address, port));
        let (files, secret) = (place.home_file("nats"), place.home_file("fleet.secret"));
        fs::write(&secret, "a secret of the fleet with 32 bytes or more\n").unwrap();
        let child = Mutex::new(spawn(address, &files, node));
        Self { child, address, files, secret }
    }

    /// The options with which hosts and clients use it.
    pub fn options(&self) -> [String; 4] {
        let secret = self.secret.to_str().unwrap().to_owned();
        let address = format!("nats://{}", self.address);
        ["--queue".to_owned(), address, "--queue-secret".to_owned(), secret]
    }

    /// Kills the server.
    pub fn stop(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Kills the server, and starts it again.
    pub fn restart(&self, node: &Node) {
        self.stop();
        *self.child.lock().unwrap() = spawn(self.address, &self.files, node);
    }

    /// Stops the server as a whole, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.child.lock().unwrap()), signal).unwrap();
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(address: SocketAddr, files: &PathBuf, node: &Node) -> Child {
    let program = built().parent().unwrap().join("clients/store/bin/nats-server");
    assert!(program.is_file(), "{} is missing; run `cargo xtask test`", program.display());
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let child = node
        .command(&program)
        .args(["--jetstream", "--addr", &ip, "--port", &port, "--store_dir"])
        .arg(files)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| TcpStream::connect(address).is_ok());
    child
}
