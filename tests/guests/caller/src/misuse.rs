//! Misuses the bare `wasi:http` interface.

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    Fields, FutureIncomingResponse, IncomingBody, OutgoingBody, OutgoingRequest, Scheme,
};
use wasip2::io::streams::StreamError;

fn request(url: &str) -> OutgoingRequest {
    let (authority, path) = url.trim_start_matches("https://").split_once('/').unwrap_or((url, ""));
    let request = OutgoingRequest::new(Fields::new());
    let _ = request.set_scheme(Some(&Scheme::Https));
    let _ = request.set_authority(Some(authority));
    let _ = request.set_path_with_query(Some(&format!("/{path}")));
    request
}

fn status(answer: &FutureIncomingResponse) -> String {
    answer.subscribe().block();
    match answer.get() {
        Some(Ok(Ok(response))) => response.status().to_string(),
        other => format!("{:?}", other.map(|got| got.map(|got| got.map(drop)))),
    }
}

/// Runs one kind of misuse and describes the result in a few words.
pub fn run(how: &str, url: &str) -> String {
    match how {
        // Headers that a request must not have, or that would contain a second header.
        "headers" => {
            let mut got = Vec::new();
            for (name, value) in [
                ("host", "evil.example"),
                ("Host", "evil.example"),
                ("connection", "upgrade"),
                ("transfer-encoding", "chunked"),
                ("proxy-authorization", "Basic eA=="),
                ("x-a", "1\r\nhost: evil.example"),
                ("x-a", "1\n2"),
                ("x-a\r\nhost", "1"),
                ("x a", "1"),
                ("", "1"),
            ] {
                let list = Fields::from_list(&[(name.to_owned(), value.as_bytes().to_vec())]);
                let fields = Fields::new();
                let appended = fields.append(name, value.as_bytes());
                let set = fields.set(name, &[value.as_bytes().to_vec()]);
                if list.is_ok() || appended.is_ok() || set.is_ok() {
                    got.push(format!("{name:?}: {value:?}"));
                }
            }
            got.join(", ")
        }
        // Paths that parsers may interpret differently.
        "paths" => {
            let mut got = Vec::new();
            for path in [
                "https://evil.example/",
                "evil.example",
                "*",
                "/a b",
                "/a\r\nhost: evil.example",
                "/a\n",
                "/a HTTP/1.1\r\n\r\nGET /b",
            ] {
                let request = request(url);
                if request.set_path_with_query(Some(path)).is_ok() {
                    got.push(format!("{path:?}: {}", handled(request)));
                }
            }
            got.join(", ")
        }
        // Hosts that parsers may interpret differently.
        "hosts" => {
            let mut got = Vec::new();
            for host in [
                "user@test.example",
                "test.example@evil.example",
                "user:word@test.example",
                "test.example:443@evil.example",
                "test.example.",
                "test.example:0443",
                "test.example\r\nx: y",
                "test.example/",
                "test.example#",
                "test.example?",
                "",
                "2130706433",
                "0x7f000001",
                "[::ffff:7f00:1]",
                "[::1]",
                "127.1",
                "%74est.example",
            ] {
                let request = request(url);
                if request.set_authority(Some(host)).is_ok() {
                    got.push(format!("{host:?}: {}", handled(request)));
                }
            }
            got.join("; ")
        }
        // Writes a body of a request that is never sent.
        "unsent" => {
            let request = request(url);
            let Ok(body) = request.body() else { return "no body".to_owned() };
            let Ok(stream) = body.write() else { return "no stream".to_owned() };
            loop {
                if let Err(error) = stream.blocking_write_and_flush(&[0; 4096]) {
                    return format!("{error:?}");
                }
            }
        }
        // Waits for capacity in such a body.
        "unsent poll" => {
            let request = request(url);
            let Ok(body) = request.body() else { return "no body".to_owned() };
            let Ok(stream) = body.write() else { return "no stream".to_owned() };
            while stream.check_write().is_ok_and(|room| room > 0) {
                let _ = stream.write(&[0; 4096]);
            }
            stream.subscribe().block();
            "there is room".to_owned()
        }
        // Writes a body without end.
        "endless" => {
            let request = request(url);
            let _ = request.set_method(&wasip2::http::types::Method::Post);
            let Ok(body) = request.body() else { return "no body".to_owned() };
            let Ok(answer) = handle(request, None) else { return "not handled".to_owned() };
            let Ok(stream) = body.write() else { return "no stream".to_owned() };
            let mut written = 0_usize;
            while stream.blocking_write_and_flush(&[0; 4096]).is_ok() {
                written += 4096;
            }
            drop(stream);
            drop(OutgoingBody::finish(body, None));
            drop(answer);
            format!("{}", written >> 20)
        }
        // Sends many requests without reading their responses.
        "many" => {
            let answers: Vec<_> = (0..20).filter_map(|_| handle(request(url), None).ok()).collect();
            let got: Vec<String> = answers.iter().map(status).collect();
            let fine = got.iter().filter(|got| *got == "200").count();
            let limited = got.iter().filter(|got| got.contains("ConnectionLimitReached")).count();
            format!("{fine} answered, {limited} refused")
        }
        // Reads a response without end.
        "drink" => {
            let Ok(answer) = handle(request(url), None) else { return "not handled".to_owned() };
            answer.subscribe().block();
            let Some(Ok(Ok(response))) = answer.get() else { return "no answer".to_owned() };
            let Ok(body): Result<IncomingBody, ()> = response.consume() else {
                return "no body".to_owned();
            };
            let Ok(stream) = body.stream() else { return "no stream".to_owned() };
            let mut size = 0;
            loop {
                match stream.blocking_read(1 << 20) {
                    Ok(bytes) => size += bytes.len(),
                    Err(StreamError::Closed) => return format!("all {} MiB", size >> 20),
                    Err(StreamError::LastOperationFailed(error)) => {
                        return format!("{} MiB, then {}", size >> 20, error.to_debug_string());
                    }
                }
            }
        }
        other => format!("no way called {other}"),
    }
}

fn handled(request: OutgoingRequest) -> String {
    match handle(request, None) {
        Ok(answer) => status(&answer),
        Err(code) => format!("{code:?}"),
    }
}
