//! Sockets of the host that record all bytes that reach them.

use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Listens on every kind of socket that a program could try.
pub struct Recorder {
    /// The port of TCP and UDP, IPv4 and IPv6, if the ports could be had.
    pub port: u16,
    /// The abstract name of a Unix socket.
    pub name: String,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    pub fn new() -> Self {
        let heard = Arc::default();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        record(tcp, &heard);
        if let Ok(tcp) = TcpListener::bind(("::1", port)) {
            record(tcp, &heard);
        }
        for address in ["127.0.0.1", "::1"] {
            let Ok(udp) = UdpSocket::bind((address, port)) else { continue };
            let heard: Arc<Mutex<Vec<u8>>> = Arc::clone(&heard);
            thread::spawn(move || {
                let mut buffer = [0; 2048];
                while let Ok(length) = udp.recv(&mut buffer) {
                    heard.lock().unwrap().extend_from_slice(&buffer[..length]);
                }
            });
        }
        let name = format!("cofferdam-egress-{}-{port}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let unix = UnixListener::bind_addr(&address).unwrap();
        record_unix(unix, &heard);
        Self { port, name, heard }
    }

    /// Listens on a Unix socket, also.
    pub fn listen_at(&self, file: &Path) {
        record_unix(UnixListener::bind(file).unwrap(), &self.heard);
    }

    /// All bytes so far, and a mark for each connection.
    pub fn heard(&self) -> Vec<u8> {
        // What was sent last may still be on its way.
        thread::sleep(Duration::from_millis(300));
        self.heard.lock().unwrap().clone()
    }
}

fn record_unix(listener: UnixListener, heard: &Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        for _ in listener.incoming() {
            heard.lock().unwrap().extend_from_slice(b"unix");
        }
    });
}

fn record(listener: TcpListener, heard: &Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let heard = Arc::clone(&heard);
            thread::spawn(move || {
                heard.lock().unwrap().extend_from_slice(b"connection");
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes);
                heard.lock().unwrap().extend_from_slice(&bytes);
            });
        }
    });
}
