//! A real server of S3's protocol: SeaweedFS, which `cargo xtask test` installs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};

use crate::fleet::network::{Node, Program};
use crate::http::server::Authority;
use crate::support::{Place, built, wait_until};

/// The name of the bucket.
pub const BUCKET: &str = "bucket";

const KEY: &str = "key";
const SECRET: &str = "secret";

/// A server with one bucket and TLS. It is ended when it is dropped; its files are kept when it is killed.
pub struct S3 {
    program: Program,
    address: Ipv4Addr,
    ports: Ports,
    /// Its data, its certificate and that of its authority.
    files: PathBuf,
}

/// The ports of its parts. Each has another one, 10,000 above, for its own protocol.
#[derive(Clone, Copy)]
struct Ports {
    master: u16,
    volume: u16,
    filer: u16,
    http: u16,
    https: u16,
}

impl S3 {
    pub fn start(place: &Place, node: &Node) -> Self {
        let files = place.home_file("s3");
        fs::create_dir_all(files.join("data")).unwrap();
        let authority = Authority::new(&files);
        let key = KeyPair::generate().unwrap();
        let names = CertificateParams::new(vec![node.address.to_string()]).unwrap();
        fs::write(files.join("certificate.pem"), authority.sign(names, &key).pem()).unwrap();
        fs::write(files.join("key.pem"), key.serialize_pem()).unwrap();
        let ports = Ports::free();
        let program = Program::start(&mut command(&files, ports, node));
        let server = Self { program, address: node.address, ports, files };
        server.wait();
        server.request(&format!("POST /buckets/{BUCKET}/"), "");
        server
    }

    /// The environment of programs that use it.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        let authority = self.files.join("authority.pem").to_str().unwrap().to_owned();
        [
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
            ("AWS_ENDPOINT", format!("https://{}:{}", self.address, self.ports.https)),
            ("SSL_CERT_FILE", authority),
        ]
    }

    /// Reads an object, not by S3's protocol; `None` if there is none.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let (status, body) = self.request(&format!("GET /buckets/{BUCKET}/{name}"), "");
        match status {
            200 => Some(body),
            404 => None,
            other => panic!("{name}: {other}"),
        }
    }

    /// Removes everything, and starts it again.
    pub fn lose_everything(&self, node: &Node) {
        self.program.kill();
        fs::remove_dir_all(self.files.join("data")).unwrap();
        fs::create_dir(self.files.join("data")).unwrap();
        self.restart(node);
        self.request(&format!("POST /buckets/{BUCKET}/"), "");
    }

    /// Kills it, and starts it again.
    pub fn restart(&self, node: &Node) {
        self.program.restart(&mut command(&self.files, self.ports, node));
        self.wait();
    }

    /// Stops the process as a whole, or lets it go on.
    pub fn freeze(&self, is_frozen: bool) {
        self.program.freeze(is_frozen);
    }

    /// Waits until it can store objects.
    fn wait(&self) {
        let Ports { filer, https, .. } = self.ports;
        let is_there = |port| TcpStream::connect((self.address, port)).is_ok();
        wait_until(|| is_there(filer) && is_there(https));
        // It takes requests before it has a place for their content.
        wait_until(|| self.request("PUT /ready", "x").0 == 201);
    }

    /// Sends a request to the part that shows the objects as files; returns the status and the body.
    fn request(&self, what: &str, body: &str) -> (u16, Vec<u8>) {
        let address = SocketAddr::from((self.address, self.ports.filer));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        write!(
            stream,
            "{what} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|part| part == b"\r\n\r\n").unwrap();
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_off(end + 4))
    }
}

impl Ports {
    fn free() -> Self {
        let mut ports = std::iter::from_fn(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            Some(listener.local_addr().unwrap().port())
        })
        .filter(|port| TcpListener::bind(("127.0.0.1", port.wrapping_sub(20_000))).is_ok());
        // The system's own choice is above 32,768.
        let mut next = || ports.next().unwrap() - 20_000;
        Self { master: next(), volume: next(), filer: next(), http: next(), https: next() }
    }
}

fn command(files: &Path, ports: Ports, node: &Node) -> Command {
    let program = built().parent().unwrap().join("clients/store/bin/weed");
    assert!(program.is_file(), "{} is missing; run `cargo xtask test`", program.display());
    let mut command = node.command(&program);
    let path = |name: &str| files.join(name).to_str().unwrap().to_owned();
    let options = [
        ("dir", path("data")),
        ("ip", node.address.to_string()),
        ("ip.bind", node.address.to_string()),
        ("master.port", ports.master.to_string()),
        ("master.volumeSizeLimitMB", "1024".to_owned()),
        ("master.telemetry", "false".to_owned()),
        ("volume.port", ports.volume.to_string()),
        ("volume.max", "20".to_owned()),
        ("filer.port", ports.filer.to_string()),
        ("s3", "true".to_owned()),
        ("s3.port", ports.http.to_string()),
        ("s3.port.https", ports.https.to_string()),
        ("s3.cert.file", path("certificate.pem")),
        ("s3.key.file", path("key.pem")),
    ];
    let options = options.map(|(name, value)| format!("-{name}={value}"));
    command.arg("server").args(options).current_dir(files);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command
}
