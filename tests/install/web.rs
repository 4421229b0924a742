//! Plugins from https addresses.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::{Plugin, assert_contains};
use crate::http::server::{Server, Step};
use crate::support::{Ended, Place};

/// A response in HTTP/1.1.
pub fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<Step> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    vec![Step::Send([head.as_bytes(), body].concat())]
}

/// The path in a request's head.
pub fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

impl Place {
    /// Runs a command that also trusts the certificate authority of a server.
    pub fn trusting(&self, server: &Server, args: &[&str]) -> Ended {
        Ended::of(self.command(args).env("SSL_CERT_FILE", server.authority()))
    }
}

#[test]
fn a_plugin_is_downloaded_once_and_only_with_its_digest() {
    let place = Place::new();
    let content = Arc::new(Mutex::new(Plugin::new("lines").bytes()));
    let served = Arc::clone(&content);
    let server = Server::new(move |head| match path(head) {
        "/lines.wasm" => answer("200 OK", "", &served.lock().unwrap()),
        "/moved" => answer("302 Found", "location: /lines.wasm\r\n", b""),
        "/round" => answer("302 Found", "location: /round\r\n", b""),
        "/away" => answer("302 Found", "location: http://example.org/\r\n", b""),
        "/broken" => vec![Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec())],
        "/huge" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
            vec![
                Step::Send(head.into()),
                Step::Repeat(vec![b'x'; 1 << 20], std::time::Duration::ZERO),
            ]
        }
        "/error" => answer("503 Busy", "", b"busy"),
        _ => answer("404 Not Found", "", b"nothing"),
    });
    let at = |path: &str| format!("https://localhost:{}{path}", server.address().port());
    for (path, status, why) in [
        ("/nothing", 1, "there is nothing (404)"),
        ("/round", 1, "redirects to more than 5 others"),
        ("/away", 1, "redirects to 'http://example.org/', which is no address"),
        ("/broken", 1, "localhost"),
        ("/huge", 1, "has more than 67108864 bytes"),
        ("/error", 1, "the host answers 503"),
    ] {
        let ended = place.trusting(&server, &["plugin", "install", &at(path)]);
        assert_eq!(ended.status, status, "{path}: {ended:?}");
        assert_contains(&ended.stderr, &[why]);
    }
    // Without the authority, the certificate is not trusted.
    let untrusted = place.run(&["plugin", "install", &at("/lines.wasm")]);
    assert_eq!(untrusted.status, 1, "{untrusted:?}");
    assert!(place.stored().is_empty());

    let installed = place.trusting(&server, &["plugin", "install", &at("/moved")]);
    assert_eq!(installed.status, 0, "{installed:?}");
    let before = server.asked().len();
    assert_eq!(place.go("lines").status, 0);
    assert_eq!(place.works(&["plugin", "install"])["plugins"][0]["state"], "unchanged");
    assert_eq!(server.asked().len(), before, "offline after the first time");

    // The server has another file now, which does not replace the one in the lock.
    *content.lock().unwrap() = Plugin::new("lines").version("6.6.6").bytes();
    let other = Place::new();
    assert_eq!(other.trusting(&server, &["plugin", "install", &at("/moved")]).status, 0);
    other.write("cofferdam.lock", place.read("cofferdam.lock"));
    let ended = other.trusting(&server, &["plugin", "install"]);
    assert_eq!(ended.status, 3, "{ended:?}");
    assert_contains(&ended.stderr, &["was asked for; somebody has changed it"]);
    assert_eq!(other.stored().len(), 1);
    let updated = place.trusting(&server, &["plugin", "update"]);
    assert_eq!(updated.json()["plugins"][0]["changes"]["version"][1], "6.6.6");
}

/// A lock comes with a repository: what it names is not what the user named.
#[test]
fn a_strangers_lock_connects_to_no_private_address() {
    let content = Plugin::new("lines").bytes();
    let server = Server::plain(move |head| match path(head) {
        "/lines.wasm" => answer("200 OK", "", &content),
        _ => answer("404 Not Found", "", b""),
    });
    let source = format!("http://{}/lines.wasm", server.address());
    let author = Place::new();
    author.works(&["plugin", "install", &source]);
    let lock = author.read("cofferdam.lock");
    let before = server.asked().len();

    let place = Place::new();
    let by_name = source.replace("127.0.0.1", "localhost");
    let registry = format!("oci://{}/lines:1.0", server.address());
    for named in [source.as_str(), &by_name, &registry, "https://10.0.0.1/lines.wasm"] {
        place.write("cofferdam.lock", lock.replace(&source, named));
        let begun = std::time::Instant::now();
        for install in [&["plugin", "install"][..], &["plugin", "install", "lines"]] {
            let command = format!("`cofferdam plugin install '{named}'`");
            assert_contains(
                &place.refused(3, install),
                &["no public address, and cofferdam.lock", &command],
            );
        }
        assert!(begun.elapsed().as_secs() < 5, "{named}: it tried to connect");
    }
    assert_eq!(server.asked().len(), before);
    assert!(place.stored().is_empty());

    // The user names the source, and from then on the lock may name it as well.
    place.works(&["plugin", "install", &source]);
    assert_eq!(place.lock()["plugins"]["lines"]["source"].as_str(), Some(source.as_str()));
    std::fs::remove_file(&place.stored()[0]).unwrap();
    place.write("cofferdam.lock", &lock);
    assert_eq!(place.works(&["plugin", "install"])["plugins"][0]["state"], "installed");
    assert_eq!(place.works(&["plugin", "update"])["plugins"][0]["state"], "unchanged");
    // Another source of this plugin is the stranger's again, also for an update.
    place.write("cofferdam.lock", lock.replace(&source, &by_name));
    let before = server.asked().len();
    assert_contains(
        &place.refused(3, &["plugin", "update"]),
        &["no public address, and cofferdam.lock"],
    );
    assert_eq!(server.asked().len(), before);
}

/// A server on this machine that the user named may not redirect to addresses that the user did not
/// name.
#[test]
fn redirects_are_followed_to_public_addresses_only() {
    let other = Server::plain(|_| answer("200 OK", "", b"secret"));
    let elsewhere = format!("location: http://{}/lines.wasm\r\n", other.address());
    let by_name = format!("location: http://localhost:{}/lines.wasm\r\n", other.address().port());
    let content = Plugin::new("lines").bytes();
    let answers = move |head: &str| match path(head) {
        "/lines.wasm" => answer("200 OK", "", &content),
        "/own" => answer("302 Found", "location: /lines.wasm\r\n", b""),
        "/private" => answer("302 Found", "location: https://10.0.0.1/lines.wasm\r\n", b""),
        "/link-local" => answer("301 Moved", "location: https://169.254.169.254/a\r\n", b""),
        "/loopback" => answer("307 Temporary Redirect", &elsewhere, b""),
        "/localhost" => answer("308 Permanent Redirect", &by_name, b""),
        _ => answer("404 Not Found", "", b""),
    };
    let server = Server::plain(answers.clone());
    let place = Place::new();
    for (at, why) in [
        ("/private", "https://10.0.0.1 has no public address"),
        ("/link-local", "https://169.254.169.254 has no public address"),
        ("/loopback", "has no public address"),
        ("/localhost", "has no public address"),
    ] {
        let begun = std::time::Instant::now();
        let address = format!("http://{}{at}", server.address());
        let ended = place.run(&["plugin", "install", &address]);
        assert_eq!(ended.status, 1, "{at}: {ended:?}");
        assert_contains(&ended.stderr, &[why]);
        assert!(begun.elapsed().as_secs() < 5, "{at}: it tried to connect");
    }
    assert!(other.asked().is_empty(), "{:?}", other.asked());
    // A redirect from TLS to plain HTTP is refused, even on the same machine.
    let secure = Server::new(answers);
    let address = format!("https://localhost:{}/loopback", secure.address().port());
    let ended = place.trusting(&secure, &["plugin", "install", &address]);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert_contains(&ended.stderr, &["which is not encrypted"]);
    assert!(other.asked().is_empty());
    let own = format!("http://{}/own", server.address());
    assert_eq!(place.run(&["plugin", "install", &own]).status, 0);
}

/// A proxy that opens tunnels to one server for all names that clients ask for.
struct Proxy {
    address: SocketAddr,
    /// The heads of the requests.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn to(server: SocketAddr, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heads = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, mut head) = (client.unwrap(), Vec::new());
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    client.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                heads.lock().unwrap().push(String::from_utf8(head).unwrap());
                client.write_all(format!("HTTP/1.1 {answer}\r\n\r\n").as_bytes()).unwrap();
                let mut origin = TcpStream::connect(server).unwrap();
                let (mut sent, mut to) = (client.try_clone().unwrap(), origin.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut sent, &mut to));
                thread::spawn(move || std::io::copy(&mut origin, &mut client));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

#[test]
fn downloads_go_through_the_proxy_of_the_environment() {
    let content = Plugin::new("lines").bytes();
    let server = Server::new(move |head| match path(head) {
        "/lines.wasm" => answer("200 OK", "", &content),
        "/away" => answer("302 Found", "location: https://10.0.0.1/\r\n", b""),
        _ => answer("404 Not Found", "", b"nothing"),
    });
    let proxy = Proxy::to(server.address(), "200 Connection established");
    let closed = Proxy::to(server.address(), "407 Proxy Authentication Required");
    let at = |proxy: &Proxy| format!("http://ada:secret@{}", proxy.address);
    let install = |path: &str, variables: &[(&str, &str)]| {
        let place = Place::new();
        let address = format!("https://test.example{path}");
        let mut command = place.command(&["plugin", "install", &address]);
        command.env("SSL_CERT_FILE", server.authority()).envs(variables.iter().copied());
        let ended = Ended::of(&mut command);
        assert!(!ended.stderr.contains("secret"), "{ended:?}");
        (ended.status, ended.stderr)
    };
    // The name exists for the proxy alone, which sees it and nothing else of the request.
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        let (status, said) = install("/lines.wasm", &[(name, &at(&proxy))]);
        assert_eq!(status, 0, "{said}");
        // The plugin, and a signature, which does not exist.
        let heads = proxy.asked();
        assert_eq!(heads.len(), 2, "{heads:?}");
        for head in heads {
            assert!(head.starts_with("CONNECT test.example:443 HTTP/1.1\r\n"), "{head}");
            // ada:secret
            assert_contains(&head, &["proxy-authorization: Basic YWRhOnNlY3JldA=="]);
        }
    }
    let (status, said) = install("/lines.wasm", &[("HTTPS_PROXY", &at(&closed))]);
    assert_eq!(status, 1, "{said}");
    assert_contains(&said, &["through the proxy 127.0.0.1", "407 Proxy Authentication Required"]);
    // A redirect leads to no private address, also if the proxy could reach it.
    let (status, said) = install("/away", &[("HTTPS_PROXY", &at(&proxy))]);
    assert_eq!(status, 1, "{said}");
    assert_contains(&said, &["https://10.0.0.1 has no public address"]);
    proxy.asked();
    for no in ["test.example", "*"] {
        let (status, said) =
            install("/lines.wasm", &[("HTTPS_PROXY", &at(&proxy)), ("NO_PROXY", no)]);
        assert_eq!(status, 1, "{said}");
        assert!(proxy.asked().is_empty());
    }
    let (status, said) =
        install("/lines.wasm", &[("HTTPS_PROXY", "socks5://ada:secret@127.0.0.1")]);
    assert_eq!(status, 2, "{said}");
    assert_contains(&said, &["HTTPS_PROXY is no address of an HTTP proxy"]);
}
