//! HTTP requests to an object store by the host's own client, which knows the user's proxy and
//! authorities, limits answers, and opens unencrypted connections to this machine only.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use cofferdam_core::policy::OriginError;
use cofferdam_plugin::http::{Client, ClientError, Request};
use cofferdam_plugin::source::Address;
use http_body_util::BodyExt as _;
use hyper::{Response, header};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};

use crate::tree::MAX_DIRECTORY_BYTES;

/// The largest answer, in bytes: an object is smaller.
const MAX_ANSWER_BYTES: u64 = MAX_DIRECTORY_BYTES + (1 << 20);

/// Sends the requests of an object store.
#[derive(Clone)]
pub(crate) struct Requests(pub(crate) Arc<Client>);

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Requests")
    }
}

impl HttpConnector for Requests {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Requests {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let refused = |error: OriginError| HttpError::new(HttpErrorKind::Unknown, error);
        let origin = format!(
            "{}://{}",
            head.uri.scheme_str().unwrap_or_default(),
            head.uri.authority().map(ToString::to_string).unwrap_or_default()
        );
        let address = Address {
            origin: origin.parse().map_err(refused)?,
            path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        };
        let mut request = Request::new(head.method, address);
        request.body = body.collect().await?.to_bytes();
        // A redirect would lead to a place that the user did not name, with a signature for this one.
        request.follows = false;
        // The client sets these itself.
        let own = [header::HOST, header::USER_AGENT, header::CONTENT_LENGTH];
        for (name, value) in &head.headers {
            if let Some(value) = value.to_str().ok().filter(|_| !own.contains(name)) {
                request = request.with(name.clone(), value);
            }
        }
        let answer = self.0.send(request, MAX_ANSWER_BYTES).await.map_err(of)?;
        let mut response = Response::new(HttpResponseBody::from(answer.body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

fn of(error: ClientError) -> HttpError {
    let kind = match error {
        ClientError::Unreachable(_) => HttpErrorKind::Connect,
        ClientError::TooSlow(_) => HttpErrorKind::Timeout,
        ClientError::TooLarge(..) => HttpErrorKind::Decode,
        ClientError::Private(_) | ClientError::Redirect(..) => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
