//! A request that is begun before its body is known.

use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{Fields, Method, OutgoingBody, OutgoingRequest, Scheme};

/// Begins a request, reads a file, and then writes its contents as the body.
pub fn send(url: &str, path: &str) -> Result<String, String> {
    let (authority, rest) = url.trim_start_matches("https://").split_once('/').unwrap_or((url, ""));
    let request = OutgoingRequest::new(Fields::new());
    let _ = request.set_method(&Method::Post);
    let _ = request.set_scheme(Some(&Scheme::Https));
    let _ = request.set_authority(Some(authority));
    let _ = request.set_path_with_query(Some(&format!("/{rest}")));
    let body = request.body().map_err(|()| "no body")?;
    let answer = handle(request, None).map_err(|error| format!("{error:?}"))?;
    let stream = body.write().map_err(|()| "no stream")?;
    stream.blocking_write_and_flush(b"first").map_err(|error| format!("{error:?}"))?;
    let secret = std::fs::read(path).map_err(|error| error.to_string())?;
    let written = stream.blocking_write_and_flush(&secret);
    drop(stream);
    let finished = OutgoingBody::finish(body, None);
    answer.subscribe().block();
    let status = answer.get().map(|got| got.map(|got| got.map(|response| response.status())));
    Ok(format!("{written:?} {finished:?} {status:?}"))
}
