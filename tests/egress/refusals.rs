//! What a program with a network does not get.

use super::{FETCH, TUNNEL, ended, entry, fetched, hello, python, runner};
use crate::http::server::{Server, answer};

#[test]
fn other_origins_methods_and_paths_are_refused_and_named() {
    let server = hello();
    let trial = runner(&ended(&server, "methods = ['GET']\npaths = ['/pub/']"));
    let lines = fetched(
        &trial,
        &[
            "https://test.example/private",
            "https://test.example/pub/../private",
            "https://test.example/pub/%2e%2e/private",
            "https://test.example/pub/..%2fprivate",
        ],
    );
    for line in &lines {
        assert!(line.starts_with("403 cofferdam: the path "), "{lines:?}");
    }
    let script = format!("{FETCH}fetch('https://test.example/pub/a', b'body')\nexit(1)");
    let (stdout, stderr) = python(&trial, &script);
    assert!(stdout.starts_with("403 cofferdam: the method POST is not granted"), "{stdout}");
    assert!(stderr.contains("the proxy refused `python3`: the method POST"), "{stderr}");
    let script = format!("{FETCH}fetch('https://other.example/pub/a')\nexit(1)");
    let (stdout, stderr) = python(&trial, &script);
    assert!(stdout.contains("403"), "{stdout}");
    let lines = "`python3`: https://other.example is not granted. A person can grant it in cofferdam.toml: \
                 [[grants.runner.network]] with programs = [\"python3\"] and origins = \
                 [\"https://other.example\"]";
    assert!(stderr.contains(lines), "{stderr}");
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[test]
fn a_redirect_is_decided_like_any_request() {
    let secret = Server::plain(|_| answer(200, "", b"secret"));
    let to = format!("Location: http://localhost:{}/\r\n", secret.address().port());
    let server = Server::new(move |head| match head.split(' ').nth(1) {
        Some("/private") => answer(302, &to, b""),
        Some("/other") => answer(302, "Location: https://other.example/\r\n", b""),
        Some("/metadata") => answer(302, "Location: http://169.254.169.254/latest\r\n", b""),
        _ => answer(200, "", b"here"),
    });
    let trial = runner(&ended(&server, ""));
    let urls = ["private", "other", "metadata"].map(|path| format!("https://test.example/{path}"));
    for line in fetched(&trial, &urls.each_ref().map(String::as_str)) {
        // The program's own localhost is asked without the proxy, and nothing listens there.
        assert!(line.contains("403") || line.contains("Connection refused"), "{line}");
    }
    assert!(secret.asked().is_empty());
}

#[test]
fn tunnels_go_to_granted_names_only() {
    let server = hello();
    let port = server.address().port();
    let trial = runner(&entry(&server, "https://test.example", "", ""));
    let targets = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::1]:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        "169.254.169.254:80".to_owned(),
        "10.0.0.1:443".to_owned(),
        format!("test.example:{port}"),
        "test.example:80".to_owned(),
        "test.example.:443".to_owned(),
        "other.example:443".to_owned(),
        "user@test.example:443".to_owned(),
        "2130706433:443".to_owned(),
        "test.example".to_owned(),
        "/a".to_owned(),
    ];
    let calls: String = targets.iter().map(|to| format!("tunnel('{to}')\n")).collect();
    let (stdout, stderr) = python(&trial, &format!("{TUNNEL}{calls}"));
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), targets.len(), "{stdout}{stderr}");
    for line in lines {
        assert!(line.contains(" HTTP/1.1 403 ") || line.contains(" HTTP/1.1 400 "), "{line}");
    }
    assert!(server.asked().is_empty());
}

#[test]
fn a_server_name_has_to_be_the_granted_one() {
    let server = hello();
    for entries in [entry(&server, "https://test.example", "", ""), ended(&server, "")] {
        let trial = runner(&entries);
        let script = format!(
            "{TUNNEL}context = ssl._create_unverified_context()\n\
             for name in ['other.example', 'test.example.evil', None]:\n\
             \ttry:\n\
             \t\ts = context.wrap_socket(tunnel('test.example:443'), server_hostname=name)\n\
             \t\ts.sendall(b'GET /canary HTTP/1.1\\r\\nHost: test.example\\r\\n\\r\\n')\n\
             \t\tprint('got', s.recv(99))\n\
             \texcept OSError as error: print('refused')\n\
             s = tunnel('test.example:443')\n\
             s.sendall(b'GET /canary HTTP/1.1\\r\\nHost: test.example\\r\\n\\r\\n')\n\
             try: print('plain', s.recv(99))\n\
             except OSError: print('plain', b'')\n\
             exit(1)"
        );
        let (stdout, stderr) = python(&trial, &script);
        assert_eq!(stdout.lines().filter(|line| *line == "refused").count(), 3, "{stdout}{stderr}");
        assert!(stdout.ends_with("plain b''\n"), "{stdout}");
        assert!(stderr.contains("has another server name: other.example"), "{stderr}");
    }
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[test]
fn a_host_header_has_to_be_the_granted_one() {
    let server = hello();
    let trial = runner(&ended(&server, ""));
    let script = format!(
        "{TUNNEL}context = ssl.create_default_context()\n\
         for lines in ['Host: other.example', 'Host: test.example\\r\\nHost: other.example', \
         'X: y', 'Host: test.example:8443', 'Host: test.example\\r\\nContent-Length: 3', \
         'Host: test.example\\r\\nContent-Length: 3\\r\\nTransfer-Encoding: chunked', \
         'Host: test.example\\r\\nTransfer-Encoding: identity']:\n\
         \ts = context.wrap_socket(tunnel('test.example:443'), server_hostname='test.example')\n\
         \ts.sendall(f'GET /canary HTTP/1.1\\r\\n{{lines}}\\r\\n\\r\\n'.encode())\n\
         \tprint(s.recv(99).split(b'\\r\\n')[0].decode())\n"
    );
    let (stdout, stderr) = python(&trial, &script);
    let answers: Vec<&str> = stdout.lines().filter(|line| !line.contains("200 OK")).collect();
    assert_eq!(answers.len(), 7, "{stdout}{stderr}");
    assert!(answers.iter().all(|answer| answer.starts_with("HTTP/1.1 400 ")), "{stdout}");
    assert!(server.asked().is_empty(), "{:?}", server.asked());
}

#[test]
fn a_wrong_certificate_of_the_origin_is_refused() {
    let (server, stranger) = (hello(), hello());
    // The address is the stranger's, whose authority is not the trusted one.
    let authority = format!(", ca-file = '{}'", server.authority().display());
    let trial = runner(&entry(&stranger, "https://test.example", &authority, ""));
    let lines = fetched(&trial, &["https://test.example/"]);
    assert!(lines[0].starts_with("502 "), "{lines:?}");
    assert!(stranger.asked().is_empty());
}

#[test]
fn a_program_without_the_grant_has_no_proxy() {
    let server = hello();
    let entries = ended(&server, "").replace("'python3', 'bash'", "'bash'");
    let trial = runner(&entries);
    let (stdout, _) = python(&trial, "import os; print(os.environ.get('HTTPS_PROXY'))");
    assert_eq!(stdout, "None\n");
    let lines = fetched(&trial, &["https://test.example/"]);
    assert!(lines[0].starts_with("failed:"), "{lines:?}");
    assert!(server.asked().is_empty());
}
