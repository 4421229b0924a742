//! Limits of a grant, and many requests.

use std::time::Instant;

use super::{FETCH, ended, entry, fetched, hello, python, runner};
use crate::http::server::{Server, answer};

#[test]
fn requests_are_limited() {
    let server = hello();
    let trial = runner(&ended(&server, "requests = 2"));
    let url = "https://test.example/";
    let lines = fetched(&trial, &[url, url, url, url]);
    assert_eq!(lines[..2], ["200 hello", "200 hello"]);
    assert!(lines[2..].iter().all(|line| line.starts_with("429 ")), "{lines:?}");
    assert_eq!(server.asked().len(), 2);
    // Each run has its own.
    assert_eq!(fetched(&trial, &[url]), ["200 hello"]);
}

#[test]
fn bytes_are_limited() {
    let server = Server::new(|_| answer(200, "", &[b'x'; 500_000]));
    let trial = runner(&ended(&server, "bytes = 100000"));
    let lines = fetched(&trial, &["https://test.example/", "https://test.example/"]);
    assert!(!lines[0].starts_with("200 ") || lines[0].len() < 100_100, "{}", &lines[0][..99]);
    assert!(lines[1].starts_with("429 "), "{lines:?}");
    let plain = Server::plain(|_| answer(200, "", &[b'x'; 500_000]));
    let origin = format!("http://localhost:{}", plain.address().port());
    let trial = runner(&entry(&plain, &origin, "", "bytes = 100000"));
    let lines = fetched(&trial, &[&format!("{origin}/")]);
    assert!(!lines[0].starts_with("200 "), "{}", &lines[0][..99.min(lines[0].len())]);
}

/// A thousand downloads of one program, while sixteen calls run beside it.
#[test]
fn a_thousand_downloads_do_not_delay_other_calls() {
    let server = Server::new(|_| answer(200, "", &[b'x'; 20_000]));
    let trial = runner(&ended(&server, "methods = ['GET']"));
    let script = format!(
        "{FETCH}import concurrent.futures, io, contextlib\n\
         def one(n):\n\
         \twith urllib.request.urlopen(f'https://test.example/{{n}}', timeout=60) as got:\n\
         \t\treturn len(got.read())\n\
         with concurrent.futures.ThreadPoolExecutor(16) as pool:\n\
         \tprint(sum(pool.map(one, range(1000))))\n"
    );
    std::thread::scope(|scope| {
        let downloads = scope.spawn(|| python(&trial, &script));
        let mut slowest = 0;
        for _ in 0..16 {
            let started = Instant::now();
            let (stdout, _) = python(&trial, "print('beside')");
            assert_eq!(stdout, "beside\n");
            slowest = slowest.max(started.elapsed().as_millis());
        }
        let (stdout, stderr) = downloads.join().unwrap();
        assert_eq!(stdout, "20000000\n", "{stderr}");
        assert!(slowest < 5_000, "{slowest} ms");
    });
    assert_eq!(server.asked().len(), 1000);
}
