//! A server with TLS whose responses a test defines: complete, slow, broken or endless ones.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{self, ServerConfig, ServerConnection, StreamOwned};

/// The names in its certificate.
const NAMES: [&str; 4] = ["context7.com", "test.example", "other.example", "localhost"];

/// How long a client may take to send something.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A part of a response.
pub enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Sends this and pauses, repeatedly, until the client closes the connection.
    Repeat(Vec<u8>, Duration),
    /// Reads the body of a request without `Content-Length`.
    ReadChunks,
    /// Reads until the client closes the connection.
    Drain,
}

type Answers = dyn Fn(&str) -> Vec<Step> + Send + Sync;

pub struct Server {
    address: SocketAddr,
    directory: TempDir,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// A server with TLS; `answers` gets the head of each request and returns the response.
    pub fn new(answers: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tls = tls(directory.path());
        Self::start(directory, Some(Arc::new(tls)), Arc::new(answers))
    }

    /// A server without TLS.
    pub fn plain(answers: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start(tempfile::tempdir().unwrap(), None, Arc::new(answers))
    }

    fn start(directory: TempDir, tls: Option<Arc<ServerConfig>>, answers: Arc<Answers>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let remembered = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (tls, answers) = (tls.clone(), Arc::clone(&answers));
                let remembered = Arc::clone(&remembered);
                thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(TIMEOUT));
                    let _ = stream.set_write_timeout(Some(TIMEOUT));
                    serve(stream, tls, &remembered, &*answers);
                });
            }
        });
        Self { address, directory, asked }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the authority that signed its own.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// The heads of the requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// The request lines so far.
    pub fn lines(&self) -> Vec<String> {
        let line = |head: &String| head.lines().next().unwrap_or_default().to_owned();
        self.asked().iter().map(line).collect()
    }
}

/// Signs certificates.
pub struct Authority(Issuer<'static, KeyPair>);

impl Authority {
    /// Creates an authority, and writes its certificate to a directory, as `authority.pem`.
    pub fn new(directory: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Otherwise its certificates have the same name as its own, and OpenSSL takes one for the other.
        authority.distinguished_name.push(DnType::CommonName, "the authority of the tests");
        let certificate = authority.self_signed(&key).unwrap();
        std::fs::write(directory.join("authority.pem"), certificate.pem()).unwrap();
        Self(Issuer::new(authority, key))
    }

    pub fn sign(&self, names: CertificateParams, key: &KeyPair) -> Certificate {
        names.signed_by(key, &self.0).unwrap()
    }
}

fn tls(directory: &Path) -> ServerConfig {
    let authority = Authority::new(directory);
    let key = KeyPair::generate().unwrap();
    let names = CertificateParams::new(NAMES.map(str::to_owned).to_vec()).unwrap();
    let certificate = authority.sign(names, &key);
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap()
}

fn serve(
    stream: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    asked: &Mutex<Vec<String>>,
    answers: &Answers,
) {
    match tls {
        Some(tls) => {
            let connection = ServerConnection::new(tls).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            converse(&mut stream, asked, answers);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        None => converse(&mut { stream }, asked, answers),
    }
}

fn converse(stream: &mut (impl Read + Write), asked: &Mutex<Vec<String>>, answers: &Answers) {
    let Ok(head) = read_to(stream, b"\r\n\r\n") else { return };
    let head = String::from_utf8_lossy(&head).into_owned();
    asked.lock().unwrap().push(head.clone());
    for step in answers(&head) {
        let done = match step {
            Step::Send(bytes) => stream.write_all(&bytes).and_then(|()| stream.flush()),
            Step::Wait(time) => {
                thread::sleep(time);
                Ok(())
            }
            Step::Repeat(bytes, pause) => loop {
                if let Err(error) = stream.write_all(&bytes).and_then(|()| stream.flush()) {
                    break Err(error);
                }
                thread::sleep(pause);
            },
            Step::ReadChunks => read_to(stream, b"\r\n0\r\n\r\n").map(drop),
            Step::Drain => io::copy(stream, &mut io::sink()).map(drop),
        };
        if done.is_err() {
            return;
        }
    }
}

/// Reads until what was read ends with `end`.
fn read_to(stream: &mut impl Read, end: &[u8]) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(end) {
        stream.read_exact(&mut byte)?;
        read.push(byte[0]);
    }
    Ok(read)
}

/// A complete response.
pub fn answer(status: u16, headers: &str, body: &[u8]) -> Vec<Step> {
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status} Word\r\nContent-Length: {length}\r\n{headers}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}

pub fn json(status: u16, body: &Value) -> Vec<Step> {
    answer(status, "Content-Type: application/json\r\n", body.to_string().as_bytes())
}
