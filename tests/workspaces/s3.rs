//! A real server of S3's protocol: moto, which `cargo xtask test` installs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::tree;
use crate::support::{Ended, Place, built, wait_until};

/// A server that is ended when it is dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    #[expect(clippy::disallowed_methods, reason = "starts a server of another project")]
    fn start() -> Self {
        let program = built().parent().unwrap().join("clients/store/bin/moto_server");
        assert!(program.is_file(), "{} is missing; run `cargo xtask test`", program.display());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { child, port };
        wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        server.request("PUT /bucket");
        server
    }

    /// Sends a request without a body; returns the first line of the answer.
    fn request(&self, what: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{what} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.port
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    }

    fn command(&self, place: &Place, directory: &Path, args: &[&str]) -> Command {
        let mut command = place.command(&[&["workspace"], args].concat());
        command
            .current_dir(directory)
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port));
        command
    }

    fn done(&self, place: &Place, directory: &Path, args: &[&str]) -> Value {
        let ended = Ended::of(&mut self.command(place, directory, args));
        assert_eq!(ended.status, 0, "{args:?}: {ended:?}");
        ended.json()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn workspaces_are_shared_through_a_bucket() {
    let server = Server::start();
    let place = Place::new();
    let (a, b) = (place.workspace(), place.home_file("b"));
    for number in 0..40 {
        place.write(&format!("d{}/{number} ü", number % 4), format!("{number}\n"));
    }
    place.write("large", vec![7; 9 << 20]);
    place.write("empty", "");
    let store = "s3://bucket/team/project";
    let pushed = server.done(&place, &a, &["push", store]);
    assert_eq!((&pushed["number"], &pushed["files"]), (&json!(1), &json!(42)));
    server.done(&place, &a, &["clone", store, b.to_str().unwrap()]);
    assert_eq!(tree(&a), tree(&b));
    // Conditional puts decide: of two pushes at once, one wins.
    for round in 0..5 {
        let both = [&a, &b].map(|directory| {
            fs::write(directory.join(format!("{}-{round}", directory.ends_with("b"))), "x\n")
                .unwrap();
            server.command(&place, directory, &["push"]).spawn().unwrap()
        });
        let ended = both.map(|child| Ended::from(child.wait_with_output().unwrap()));
        let mut statuses = [ended[0].status, ended[1].status];
        statuses.sort_unstable();
        assert_eq!(statuses, [0, 1], "{ended:?}");
        for directory in [&a, &b, &a] {
            server.done(&place, directory, &["push", "--pull"]);
            server.done(&place, directory, &["pull"]);
        }
        assert_eq!(tree(&a), tree(&b), "round {round}");
    }
    let listed = server.done(&place, &a, &["log"]);
    assert_eq!(listed["commits"].as_array().unwrap().len(), 11);
    // A server that has lost everything is another store.
    let reset = server.request("POST /moto-api/reset");
    assert!(reset.contains("200"), "{reset}");
    let before = tree(&a);
    let ended = Ended::of(&mut server.command(&place, &a, &["push"]));
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.stderr.contains("another store"), "{ended:?}");
    assert_eq!(tree(&a), before);
}
