//! A program with a grant for one origin that tries every way to get a canary to somewhere else.

use serde_json::json;

use super::upstream::Recorder;
use super::{ended, hello, python, ran, runner, runner_in};
use crate::http::server::{Server, answer};
use crate::support::{Place, project};

/// The least number of attempts.
const MIN_ATTEMPTS: usize = 200;

/// The end of each text that must not arrive.
const CANARY_END: &str = "-7f3a";

/// How long all attempts may take, in ms.
const ATTEMPTS_MS: u32 = 600_000;

/// Where the redirects of the granted origin lead to; `{port}` is one that records what arrives.
const REDIRECTS: [&str; 12] = [
    "http://127.0.0.1:{port}/canary",
    "http://localhost:{port}/canary",
    "http://[::1]:{port}/canary",
    "http://[::ffff:127.0.0.1]:{port}/canary",
    "http://0:{port}/canary",
    "http://2130706433:{port}/canary",
    "//127.0.0.1:{port}/canary",
    "https://127.0.0.1:{port}/canary",
    "https://other.example/canary",
    "http://169.254.169.254/latest/meta-data/",
    "ftp://127.0.0.1:{port}/canary",
    "/private/canary",
];

/// A server of the granted origin, which also redirects.
fn redirecting(port: u16) -> Server {
    Server::new(move |head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let number = path.strip_prefix("/pub/r/").and_then(|number| number.parse::<usize>().ok());
        match number.and_then(|number| REDIRECTS.get(number)) {
            Some(to) => {
                let to = to.replace("{port}", &port.to_string());
                answer(302, &format!("Location: {to}\r\n"), b"")
            }
            None => answer(200, "", b"hello"),
        }
    })
}

/// Every way of `attempts.py`: what a program sees is a refusal, nothing arrives at the sockets that
/// record, and only allowed requests arrive at the granted origin.
#[test]
fn no_canary_arrives_anywhere() {
    let (recorder, passed) = (Recorder::new(), Recorder::new());
    let server = redirecting(recorder.port);
    let entries = format!(
        "{}[[grants.runner.network]]\nprograms = ['python3']\norigins = [{{ origin = \
         'https://pass.example', address = '127.0.0.1:{}' }}]\n",
        ended(&server, "methods = ['GET', 'HEAD']\npaths = ['/pub/']"),
        passed.port
    );
    let place = Place::new();
    let file = place.workspace().join("socket");
    recorder.listen_at(&file);
    let trial = runner_in(place, &entries);
    let script = format!(
        "PORT = {}\nNAME = '{}'\nFILE = '{}'\nREDIRECTS = {}\n{}",
        recorder.port,
        recorder.name,
        file.display(),
        REDIRECTS.len(),
        include_str!("attempts.py")
    );
    let args = json!({
        "program": "python3", "arguments": ["-"], "stdin": script, "timeout_ms": ATTEMPTS_MS
    });
    let output = ran(&trial, args);
    let stdout = output["stdout"].as_str().unwrap_or_default();
    let attempts: Vec<Vec<&str>> = stdout.lines().map(|line| line.split('\t').collect()).collect();
    assert!(attempts.len() >= MIN_ATTEMPTS, "{output}");
    let succeeded: Vec<_> = attempts.iter().filter(|attempt| !is_refused(attempt)).collect();
    assert!(succeeded.is_empty(), "{succeeded:#?}");
    for recorder in [recorder, passed] {
        let heard = recorder.heard();
        assert!(heard.is_empty(), "{}", String::from_utf8_lossy(&heard));
    }
    let asked = server.asked();
    assert!(asked.iter().all(|head| !head.contains(CANARY_END)), "{asked:?}");
    let is_allowed =
        |head: &String| head.starts_with("GET /pub/") || head.starts_with("HEAD /pub/");
    assert!(!asked.is_empty() && asked.iter().all(is_allowed), "{asked:?}");
    documented(&attempts);
}

/// Whether an attempt failed, by what the program saw of it.
fn is_refused(attempt: &[&str]) -> bool {
    let &[group, _, seen] = attempt else { return false };
    let is_ok = seen.contains("HTTP/1.1 2");
    match group {
        // The first of two requests may be allowed.
        "smuggling" => !seen.contains("HTTP/1.1 200 Word, HTTP/1.1 200"),
        // Sending a datagram succeeds even if nothing receives it.
        "UDP" => true,
        "names" => seen.starts_with("failed: ") || seen == "rcode 3, 0 answers",
        "TCP"
        | "Unix sockets"
        | "other families"
        | "raw sockets and ICMP"
        | "redirects"
        | "git"
        | "package managers"
        | "other programs" => seen.starts_with("failed: ") || seen == "absent" || seen == "sent",
        _ => !is_ok && !seen.contains("sent"),
    }
}

/// Checks that the manual has a row for each group, with the number of its attempts.
fn documented(attempts: &[Vec<&str>]) {
    let manual = std::fs::read_to_string(project().join("docs/network.md")).unwrap();
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    for attempt in attempts {
        *counts.entry(attempt[0]).or_default() += 1;
    }
    for (group, count) in counts {
        let row = format!("| {group} | {count} |");
        assert!(manual.contains(&row), "docs/network.md has no row that begins with {row}");
    }
}

/// The value of a granted variable in seventeen encodings and in all parts of a request.
#[test]
fn the_value_of_a_granted_variable_is_not_sent() {
    let recorder = Recorder::new();
    let origin = format!("http://localhost:{}", recorder.port);
    let entries = format!(
        "[[grants.runner.network]]\nprograms = ['python3']\norigins = [{{ origin = '{origin}', \
         timeout-ms = 500 }}]\n"
    );
    let trial = runner(&entries.replace("[[", "environment = ['GRANTED_TOKEN']\n[["));
    let script = format!("ORIGIN = '{origin}'\n{}", include_str!("secrets.py"));
    let output = ran(&trial, json!({"program": "python3", "arguments": ["-"], "stdin": script}));
    // What the program prints is redacted in plain text: only its other forms are compared.
    let stdout = output["stdout"].as_str().unwrap_or_default();
    let heard = String::from_utf8_lossy(&recorder.heard()).into_owned();
    let lines: Vec<Vec<&str>> = stdout.lines().map(|line| line.split('\t').collect()).collect();
    let (last, attempts) = lines.split_last().unwrap();
    assert!(attempts.len() > 90, "{output}");
    for attempt in attempts {
        let &[name, text, seen] = attempt.as_slice() else { panic!("{attempt:?}") };
        assert!(seen == "403" || seen == "502" || seen.starts_with("failed: "), "{attempt:?}");
        assert!(!heard.contains(text), "{name}: {heard}");
    }
    for part in ["a-token", "of-some", "emos-fo", "YS10b2"] {
        assert!(!heard.contains(part), "{part}: {heard}");
    }
    assert_eq!(last[..], ["nothing secret", "a harmless value", "504"]);
    assert!(heard.contains("x-a: a harmless value\r\n"), "{heard}");
}

/// What a program has after the run of another: nothing listens any more, and authorities differ.
#[test]
fn each_run_has_an_authority_of_its_own() {
    let server = hello();
    let trial = runner(&ended(&server, ""));
    let script = "import os, hashlib; file = os.environ['SSL_CERT_FILE']; \
                  print(file, hashlib.sha256(open(file, 'rb').read()).hexdigest())";
    let (first, _) = python(&trial, script);
    let (second, _) = python(&trial, script);
    assert_ne!(first, second);
    let file = first.split(' ').next().unwrap();
    assert!(!std::path::Path::new(file).exists(), "{file} was not removed");
}
