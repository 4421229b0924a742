//! The network of programs through the whole path of a call: what a program reaches through its proxy,
//! what it does not reach, and what a result says about it. Servers of the test are on the loopback
//! interface of the host, where no program gets without a grant.

mod downloads;
mod hostile;
mod limits;
mod refusals;
mod tools;
mod upstream;

use serde_json::{Value, json};

use cofferdam_core::outcome::Outcome;

use crate::hostile::component::Packed;
use crate::http::server::{Server, answer};
use crate::support::Place;
use crate::trial::Trial;

/// The grants of the guest `runner` besides its network.
const PROGRAMS: &str = "[programs]\ntier = 'A'\n[grants.runner]\nfiles = 'write'\nprocess = ['bash', 'cat', \
                        'git', 'python3']\n";

/// Python's ordinary client, which follows redirects and finds the proxy and its authority by variables.
const FETCH: &str = "import sys, http.client, urllib.request, urllib.error\n\
    def fetch(url, data=None, **headers):\n\
    \ttry:\n\
    \t\tasked = urllib.request.Request(url, data, headers)\n\
    \t\twith urllib.request.urlopen(asked, timeout=20) as got: print(got.status, got.read().decode())\n\
    \texcept urllib.error.HTTPError as error: print(error.code, error.read().decode().strip())\n\
    \texcept (OSError, http.client.HTTPException) as error: print('failed:', error)\n";

/// A tunnel to a name and a port: prints what the proxy says, and returns the socket.
const TUNNEL: &str = "import socket, ssl, os, sys\n\
    PROXY = os.environ['HTTPS_PROXY'].removeprefix('http://').split(':')\n\
    def ask(text):\n\
    \ts = socket.create_connection((PROXY[0], int(PROXY[1])), 20)\n\
    \ts.sendall(text.encode())\n\
    \treturn s\n\
    def tunnel(to):\n\
    \ts = ask(f'CONNECT {to} HTTP/1.1\\r\\nHost: {to}\\r\\n\\r\\n')\n\
    \tanswer = b''\n\
    \twhile b'\\r\\n\\r\\n' not in answer:\n\
    \t\tpart = s.recv(1)\n\
    \t\tif not part: break\n\
    \t\tanswer += part\n\
    \tprint(to, answer.split(b'\\r\\n')[0].decode())\n\
    \treturn s\n";

/// An entry for one origin at the address of a server, with more keys of the origin and of the entry.
fn entry(server: &Server, origin: &str, of_origin: &str, more: &str) -> String {
    format!(
        "[[grants.runner.network]]\nprograms = ['python3', 'bash']\norigins = [{{ origin = '{origin}', \
         address = '{}'{of_origin} }}]\n{more}\n",
        server.address()
    )
}

/// An entry for `https://test.example`, whose TLS ends at the proxy.
fn ended(server: &Server, more: &str) -> String {
    let authority = format!(", ca-file = '{}'", server.authority().display());
    entry(server, "https://test.example", &authority, more)
}

/// A host with the guest `runner`.
fn runner(entries: &str) -> Trial {
    runner_in(Place::new(), entries)
}

fn runner_in(place: Place, entries: &str) -> Trial {
    let plugins = vec![Packed::guest("runner")];
    Trial::with_programs(place, plugins, &format!("{PROGRAMS}{entries}"))
}

fn ran(trial: &Trial, args: Value) -> Value {
    match trial.call("runner.run", args) {
        Outcome::Executed(output) => output,
        other => panic!("{other:?}"),
    }
}

/// Runs a Python script; returns its output and its errors.
fn python(trial: &Trial, script: &str) -> (String, String) {
    let output = ran(trial, json!({"program": "python3", "arguments": ["-c", script]}));
    assert!(output["error"].is_null(), "{output}");
    let text = |key: &str| output[key].as_str().unwrap_or_default().to_owned();
    (text("stdout"), text("stderr"))
}

/// Fetches addresses one after the other; returns a line for each.
fn fetched(trial: &Trial, urls: &[&str]) -> Vec<String> {
    let calls: String = urls.iter().map(|url| format!("fetch('{url}')\n")).collect();
    let (stdout, stderr) = python(trial, &format!("{FETCH}{calls}"));
    let lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), urls.len(), "{stdout}{stderr}");
    lines
}

fn hello() -> Server {
    Server::new(|_| answer(200, "", b"hello"))
}

#[test]
fn a_granted_origin_answers_where_tls_ends_at_the_proxy() {
    let server = hello();
    let trial = runner(&ended(&server, "methods = ['GET']\npaths = ['/pub/']"));
    let url = "https://test.example/pub/a?b=c";
    assert_eq!(fetched(&trial, &[url, url, url]), ["200 hello"; 3]);
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].starts_with("GET /pub/a?b=c HTTP/1.1\r\n"), "{asked:?}");
    let head = asked[0].to_lowercase();
    assert!(head.contains("\r\nhost: test.example\r\n") && !head.contains("proxy"), "{asked:?}");
}

#[test]
fn tls_passes_where_nothing_is_decided_by_request() {
    let server = hello();
    let place = Place::new();
    std::fs::copy(server.authority(), place.workspace().join("ca.pem")).unwrap();
    let trial = runner_in(place, &entry(&server, "https://test.example", "", "bytes = 1000000"));
    // The certificate is the server's own, not one of the proxy.
    let script = format!(
        "{TUNNEL}context = ssl.create_default_context(cafile='ca.pem')\n\
         s = context.wrap_socket(tunnel('test.example:443'), server_hostname='test.example')\n\
         s.sendall(b'GET /a HTTP/1.1\\r\\nHost: test.example\\r\\n\\r\\n')\n\
         print(s.recv(999).split(b'\\r\\n')[0].decode())\n"
    );
    let (stdout, stderr) = python(&trial, &script);
    assert_eq!(stdout, "test.example:443 HTTP/1.1 200 OK\nHTTP/1.1 200 Word\n", "{stderr}");
    assert_eq!(server.lines(), ["GET /a HTTP/1.1"]);
}

#[test]
fn a_plain_server_of_this_machine_is_reached_if_it_is_granted() {
    let server = Server::plain(|_| answer(200, "", b"plain"));
    let other = Server::plain(|_| answer(200, "", b"other"));
    let origin = format!("http://localhost:{}", server.address().port());
    let trial = runner(&entry(&server, &origin, "", ""));
    let another = format!("http://localhost:{}/", other.address().port());
    let lines = fetched(&trial, &[&format!("{origin}/a"), &another]);
    assert_eq!(lines[0], "200 plain");
    assert!(lines[1].starts_with("403 ") && lines[1].ends_with("is not granted"), "{lines:?}");
    assert!(other.asked().is_empty());
}

#[test]
fn credentials_are_added_and_never_seen_by_the_program() {
    // It sends back what it got, in the head and in the body.
    let server = Server::new(|head| {
        let line = head.lines().find(|line| line.to_lowercase().starts_with("authorization"));
        let secret = line.unwrap_or("none").to_owned();
        answer(200, &format!("X-Back: {secret}\r\n"), secret.as_bytes())
    });
    let headers = format!(
        ", ca-file = '{}', headers = {{ Authorization = 'Bearer ${{GRANTED_TOKEN}}' }}",
        server.authority().display()
    );
    let trial = runner(&entry(&server, "https://test.example", &headers, ""));
    let script = format!(
        "{FETCH}import os\n\
         print(os.environ.get('GRANTED_TOKEN'))\n\
         fetch('https://test.example/', authorization='Bearer mine')\n\
         print(urllib.request.urlopen('https://test.example/').headers['X-Back'])\n"
    );
    let (stdout, stderr) = python(&trial, &script);
    let lines: Vec<String> = stdout.to_lowercase().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3, "{stdout}{stderr}");
    assert_eq!(lines[0], "none");
    assert_eq!(lines[1], "200 authorization: bearer [granted_token]");
    assert!(lines[2].contains("bearer [granted_token]"), "{stdout}");
    let asked = server.asked();
    assert!(asked[0].contains("Bearer a-token-of-some") && !asked[0].contains("mine"), "{asked:?}");
}

#[test]
fn tier_b_says_that_it_has_no_network() {
    let server = hello();
    let plugins = vec![Packed::guest("runner")];
    let settings = format!("{PROGRAMS}{}", ended(&server, "")).replace("tier = 'A'", "tier = 'B'");
    let trial = Trial::with_programs(Place::new(), plugins, &settings);
    let script = format!("{FETCH}fetch('https://test.example/')\nexit(1)");
    let (_, stderr) = python(&trial, &script);
    assert!(stderr.contains("programs have no network in tier B of the sandbox"), "{stderr}");
    assert!(server.asked().is_empty());
}
