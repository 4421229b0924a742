//! Sending requests in a component.

use std::time::{Duration, Instant};

use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::http::outgoing_handler::handle;
use wasip2::http::types::{
    ErrorCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    Scheme, http_error_code,
};
use wasip2::io::poll::{Pollable, poll};
use wasip2::io::streams::{InputStream, StreamError};

use super::{Error, Parts, Request, Response};

/// The number of body bytes written at once, the maximum of the interface.
const WRITE_BYTES: usize = 4096;
/// The number of body bytes read at once.
const READ_BYTES: u64 = 64 << 10;

pub(super) fn send(request: &Request, parts: &Parts<'_>) -> Result<Response, Error> {
    let until = request.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let outgoing = outgoing(request, parts)?;
    let body = if request.body.is_empty() { None } else { outgoing.body().ok() };
    let answer = handle(outgoing, None).map_err(|code| failure(&code, parts))?;
    if let Some(body) = body {
        write(&request.body, body, parts)?;
    }
    wait(&answer.subscribe(), until)?;
    let answer = match answer.get() {
        Some(Ok(answer)) => answer.map_err(|code| failure(&code, parts))?,
        _ => return Err(Error::Failed("the host has no answer".to_owned())),
    };
    let status = answer.status();
    let headers = answer.headers().entries();
    Ok(Response { status, headers, body: read(&answer, request.most, until, parts)? })
}

fn outgoing(request: &Request, parts: &Parts<'_>) -> Result<OutgoingRequest, Error> {
    let invalid = |what: &str| Error::Invalid(format!("{what} can't be sent"));
    let headers: Vec<(String, Vec<u8>)> = request
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
        .collect();
    let fields = Fields::from_list(&headers).map_err(|_| invalid("one of the headers"))?;
    let outgoing = OutgoingRequest::new(fields);
    let method = match request.method.as_str() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "CONNECT" => Method::Connect,
        "OPTIONS" => Method::Options,
        "TRACE" => Method::Trace,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    };
    let scheme = match parts.scheme {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        other => Scheme::Other(other.to_owned()),
    };
    outgoing.set_method(&method).map_err(|()| invalid("the method"))?;
    outgoing.set_scheme(Some(&scheme)).map_err(|()| invalid("the scheme"))?;
    outgoing.set_authority(Some(parts.authority)).map_err(|()| invalid("the host"))?;
    outgoing.set_path_with_query(Some(parts.target)).map_err(|()| invalid("the path"))?;
    Ok(outgoing)
}

fn write(bytes: &[u8], body: OutgoingBody, parts: &Parts<'_>) -> Result<(), Error> {
    let failed = || Error::Failed("the server did not take the whole request".to_owned());
    let stream = body.write().map_err(|()| failed())?;
    for chunk in bytes.chunks(WRITE_BYTES) {
        // A server that has sent its response may not read the rest of the request.
        if stream.blocking_write_and_flush(chunk).is_err() {
            break;
        }
    }
    drop(stream);
    OutgoingBody::finish(body, None).map_err(|code| failure(&code, parts))
}

fn read(
    answer: &IncomingResponse,
    most: usize,
    until: Option<Instant>,
    parts: &Parts<'_>,
) -> Result<Vec<u8>, Error> {
    let failed = || Error::Failed("the answer has no body".to_owned());
    let body: IncomingBody = answer.consume().map_err(|()| failed())?;
    let stream: InputStream = body.stream().map_err(|()| failed())?;
    let mut bytes = Vec::new();
    loop {
        match stream.read(READ_BYTES) {
            Ok(more) if more.is_empty() => wait(&stream.subscribe(), until)?,
            Ok(more) => {
                bytes.extend_from_slice(&more);
                if bytes.len() > most {
                    return Err(Error::TooLarge);
                }
                check_deadline(until)?;
            }
            Err(StreamError::Closed) => return Ok(bytes),
            Err(StreamError::LastOperationFailed(error)) => {
                return Err(match http_error_code(&error) {
                    Some(code) => failure(&code, parts),
                    // The host may have a message without a code.
                    None => match error.to_debug_string() {
                        text if text.contains("timeout") => Error::Timeout,
                        text if text.contains("body size") => Error::TooLarge,
                        text => Error::Failed(text),
                    },
                });
            }
        }
    }
}

fn check_deadline(until: Option<Instant>) -> Result<(), Error> {
    match until {
        Some(until) if Instant::now() >= until => Err(Error::Timeout),
        _ => Ok(()),
    }
}

fn wait(what: &Pollable, until: Option<Instant>) -> Result<(), Error> {
    let Some(until) = until else {
        what.block();
        return Ok(());
    };
    let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let timer = subscribe_duration(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
    // A response that is ready at the deadline counts as in time.
    if poll(&[what, &timer]).contains(&0) { Ok(()) } else { Err(Error::Timeout) }
}

/// Converts an error code of the interface.
fn failure(code: &ErrorCode, parts: &Parts<'_>) -> Error {
    let origin = format!("{}://{}", parts.scheme, parts.authority);
    match code {
        ErrorCode::HttpRequestDenied => Error::Denied(format!(
            "{origin} is not among the origins that the plugin requests and is granted"
        )),
        ErrorCode::DestinationIpProhibited => {
            Error::Denied(format!("{origin} leads to an address that is not public"))
        }
        ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::DnsTimeout
        | ErrorCode::HttpResponseTimeout => Error::Timeout,
        ErrorCode::DnsError(_)
        | ErrorCode::DestinationNotFound
        | ErrorCode::DestinationUnavailable
        | ErrorCode::DestinationIpUnroutable
        | ErrorCode::ConnectionRefused => Error::Unreachable(origin),
        ErrorCode::TlsCertificateError => {
            Error::Unreachable(format!("the certificate of {origin} is not trusted"))
        }
        ErrorCode::HttpResponseBodySize(_) | ErrorCode::HttpResponseHeaderSectionSize(_) => {
            Error::TooLarge
        }
        ErrorCode::HttpRequestMethodInvalid | ErrorCode::HttpRequestUriInvalid => {
            Error::Invalid(format!("{code:?}"))
        }
        ErrorCode::ConfigurationError => Error::Setup(format!(
            "the host is not set up as the grant for {origin} says: a variable or a file is missing"
        )),
        other => Error::Failed(format!("{origin}: {other:?}")),
    }
}
