//! Nodes with network namespaces of their own on one machine, between which connections can be cut.
//!
//! Everything is in the namespace of a process that a test starts for itself, so nothing of the machine's
//! own network is changed, and users other than root can run it, too.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::wait_until;

/// Set in the process that [`isolated`] starts.
const ISOLATED: &str = "COFFERDAM_TEST_ISOLATED";

/// An address of the link layer that no node has: what is sent to it is lost.
const NOWHERE: &str = "02:00:00:00:00:00";

/// A place in the network where programs run.
pub struct Node {
    pub address: Ipv4Addr,
    /// Keeps the namespace; `None`: the one of the test.
    holder: Option<Child>,
}

/// The nodes, and which of them can't reach each other.
pub struct Network {
    pub nodes: Vec<Node>,
    cut: Mutex<BTreeSet<(usize, usize)>>,
}

impl Node {
    /// The machine as it is.
    pub fn local() -> Self {
        Self { address: Ipv4Addr::LOCALHOST, holder: None }
    }

    /// A command that runs a program here.
    #[expect(clippy::disallowed_methods, reason = "starts programs of the tests")]
    pub fn command(&self, program: &Path) -> Command {
        let Some(holder) = &self.holder else { return Command::new(program) };
        let mut command = Command::new("/usr/bin/nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", holder.id())).arg("--").arg(program);
        command
    }

    fn ip(&self, args: &[&str]) {
        run(self.command("/usr/bin/env".as_ref()).arg("ip").args(args));
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.holder {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

impl Network {
    /// Creates nodes and connects them. The first one is the namespace of the test itself.
    pub fn new(count: usize) -> Self {
        let address = |number: usize| Ipv4Addr::new(10, 77, 0, u8::try_from(number + 1).unwrap());
        let own = Node { address: address(0), holder: None };
        own.ip(&["link", "set", "lo", "up"]);
        own.ip(&["link", "add", "name", "fleet", "type", "bridge"]);
        own.ip(&["address", "add", &format!("{}/24", own.address), "dev", "fleet"]);
        own.ip(&["link", "set", "fleet", "up"]);
        let mut nodes = vec![own];
        for number in 1..count {
            let (holder, name) = (holder(), format!("node{number}"));
            let peer = ["type", "veth", "peer", "name", "eth0", "netns", &holder.id().to_string()];
            nodes[0].ip(&[&["link", "add", &name][..], &peer].concat());
            nodes[0].ip(&["link", "set", &name, "master", "fleet", "up"]);
            let node = Node { address: address(number), holder: Some(holder) };
            node.ip(&["link", "set", "lo", "up"]);
            node.ip(&["address", "add", &format!("{}/24", node.address), "dev", "eth0"]);
            node.ip(&["link", "set", "eth0", "up"]);
            nodes.push(node);
        }
        Self { nodes, cut: Mutex::default() }
    }

    /// Loses everything that two nodes send each other, or nothing any more.
    pub fn cut(&self, one: usize, other: usize, is_cut: bool) {
        let mut cut = self.cut.lock().unwrap();
        let pair = (one.min(other), one.max(other));
        if is_cut == cut.contains(&pair) {
            return;
        }
        for (from, to) in [pair, (pair.1, pair.0)] {
            let device = if from == 0 { "fleet" } else { "eth0" };
            let to = self.nodes[to].address.to_string();
            let from = &self.nodes[from];
            if is_cut {
                let entry = ["lladdr", NOWHERE, "nud", "permanent", "dev", device];
                from.ip(&[&["neighbour", "replace", &to][..], &entry].concat());
            } else {
                from.ip(&["neighbour", "delete", &to, "dev", device]);
            }
        }
        if is_cut {
            cut.insert(pair)
        } else {
            cut.remove(&pair)
        };
    }
}

/// A server of another project. It is killed when it is dropped.
pub struct Program(Mutex<Child>);

impl Program {
    /// Starts it, without input and output.
    pub fn start(command: &mut Command) -> Self {
        Self(Mutex::new(spawn(command)))
    }

    pub fn kill(&self) {
        let mut child = self.0.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Kills it, and starts it again by a command.
    pub fn restart(&self, command: &mut Command) {
        self.kill();
        *self.0.lock().unwrap() = spawn(command);
    }

    /// Stops the process as a whole, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) {
        let signal = if is_frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.0.lock().unwrap()), signal).unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let child = self.0.get_mut().unwrap();
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Starts a process that has a network namespace of its own, and does nothing.
#[expect(clippy::disallowed_methods, reason = "keeps a namespace")]
fn holder() -> Child {
    let mut command = Command::new("/usr/bin/unshare");
    let holder = command.args(["--net", "--", "/bin/sleep", "infinity"]).spawn().unwrap();
    let namespace = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).ok();
    let (own, id) = (namespace("self"), holder.id().to_string());
    wait_until(|| namespace(&id).is_some_and(|found| Some(found) != own));
    holder
}

/// Runs a test again in a process with a network and mounts of its own. Returns true in that process, and
/// false in the first one, when it has ended.
#[expect(clippy::disallowed_methods, reason = "runs the same test")]
#[expect(clippy::print_stderr, reason = "what the other process has printed")]
pub fn isolated(test: &str) -> bool {
    if std::env::var_os(ISOLATED).is_some() {
        return true;
    }
    let mut command = Command::new("/usr/bin/unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--net", "--mount", "--"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--include-ignored", "--nocapture"]).env(ISOLATED, "1");
    let ended = command.stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}{printed}", String::from_utf8_lossy(&ended.stdout));
    eprintln!("{printed}");
    assert!(String::from_utf8_lossy(&ended.stdout).contains("1 passed"));
    false
}

/// Runs a command that has to succeed.
pub fn run(command: &mut Command) {
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{command:?}: {said}");
}
