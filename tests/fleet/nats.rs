//! A NATS server, which `cargo xtask test` installs.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::network::{Node, Program};
use crate::support::{Place, built, wait_until};

/// A server that is ended when it is dropped. Its files are kept when it is killed.
pub struct Nats {
    program: Program,
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
        let program = Program::start(&mut command(address, &files, node));
        wait(address);
        Self { program, address, files, secret }
    }

    /// The options with which hosts and clients use it.
    pub fn options(&self) -> [String; 4] {
        let secret = self.secret.to_str().unwrap().to_owned();
        let address = format!("nats://{}", self.address);
        ["--queue".to_owned(), address, "--queue-secret".to_owned(), secret]
    }

    /// Kills the server.
    pub fn stop(&self) {
        self.program.kill();
    }

    /// Kills the server, and starts it again.
    pub fn restart(&self, node: &Node) {
        self.program.restart(&mut command(self.address, &self.files, node));
        wait(self.address);
    }

    /// Kills the server, and starts it again as one that has not started JetStream yet.
    pub fn restart_without_jetstream(&self, node: &Node) {
        self.program.restart(&mut plain(self.address, node));
        wait(self.address);
    }

    /// Stops the server as a whole, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) {
        self.program.freeze(is_frozen);
    }
}

fn plain(address: SocketAddr, node: &Node) -> Command {
    let program = built().parent().unwrap().join("clients/store/bin/nats-server");
    assert!(program.is_file(), "{} is missing; run `cargo xtask test`", program.display());
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = node.command(&program);
    command.args(["--addr", &ip, "--port", &port]);
    command
}

fn command(address: SocketAddr, files: &Path, node: &Node) -> Command {
    let mut command = plain(address, node);
    command.args(["--jetstream", "--store_dir"]).arg(files);
    command
}

fn wait(address: SocketAddr) {
    wait_until(|| TcpStream::connect(address).is_ok());
}
