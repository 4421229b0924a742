//! The addresses of a fleet's workspaces: `/workspaces/NAME/mcp`, `/workspaces/NAME/mcp/ROLE`, and
//! `/workspaces/NAME/calls/KEY`, where an envelope is put whose calls are made once.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Extension, Router};
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;

use super::access::Caller;
use super::fleet::{Fleet, ServeWorkspaceError, Submitted};
use super::sessions::{Places, Service};
use cofferdam_fleet::FleetError;
use cofferdam_fleet::queue::QueueError;

/// The workspaces, and what their servers share.
struct Workspaces {
    fleet: Arc<Fleet>,
    config: StreamableHttpServerConfig,
    places: Places,
}

pub(super) fn router(
    fleet: &Arc<Fleet>,
    config: StreamableHttpServerConfig,
    places: &Places,
) -> Router {
    let (fleet, places) = (Arc::clone(fleet), places.clone());
    let workspaces = Arc::new(Workspaces { fleet, config, places });
    Router::new()
        .route("/workspaces/{name}/mcp", any(mcp))
        .route("/workspaces/{name}/mcp/{role}", any(mcp_under_role))
        .route("/workspaces/{name}/calls/{key}", any(calls))
        .with_state(workspaces)
}

impl Workspaces {
    /// Returns the server of a workspace under a role; `None`: that of the fleet.
    async fn service(
        &self,
        name: &str,
        role: Option<String>,
    ) -> Result<Service, ServeWorkspaceError> {
        let opened = self.fleet.open(name).await?;
        Ok(opened.services.of(&opened.server, role, (&self.config, &self.places))?)
    }

    async fn serve(
        &self,
        caller: &Caller,
        name: &str,
        role: Option<String>,
        request: Request,
    ) -> Response {
        if !caller.may_use(name, role.as_deref().or(self.fleet.role())) {
            return forbidden();
        }
        match self.service(name, role).await {
            Ok(service) => service.handle(request).await.into_response(),
            Err(error) => failed(&error),
        }
    }
}

async fn mcp(
    State(workspaces): State<Arc<Workspaces>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    workspaces.serve(&caller, &name, None, request).await
}

async fn mcp_under_role(
    State(workspaces): State<Arc<Workspaces>>,
    Extension(caller): Extension<Caller>,
    Path((name, role)): Path<(String, String)>,
    request: Request,
) -> Response {
    if !workspaces.fleet.other_roles() {
        return StatusCode::NOT_FOUND.into_response();
    }
    workspaces.serve(&caller, &name, Some(role), request).await
}

/// `PUT` makes the calls of an envelope once, or adds it to the queue (`Prefer: respond-async`); `GET` returns
/// what they have returned. The parameter `role` of the address is the role of the calls.
async fn calls(
    State(workspaces): State<Arc<Workspaces>>,
    Extension(caller): Extension<Caller>,
    Path((name, key)): Path<(String, String)>,
    request: Request,
) -> Response {
    let fleet = &workspaces.fleet;
    let query = url::form_urlencoded::parse(request.uri().query().unwrap_or("").as_bytes());
    let role = query.into_owned().find_map(|(key, value)| (key == "role").then_some(value));
    if !fleet.serves(role.as_deref()) {
        return (StatusCode::FORBIDDEN, "this host serves one role only\n").into_response();
    }
    if !caller.may_use(&name, role.as_deref().or(fleet.role())) {
        return forbidden();
    }
    let prefers = request.headers().get("prefer").and_then(|value| value.to_str().ok());
    let is_async = prefers.is_some_and(|prefer| prefer.contains("respond-async"));
    let result = match *request.method() {
        Method::GET => fleet.result(&name, &key).await,
        Method::PUT => {
            // It was read within the limit already.
            let body = axum::body::to_bytes(request.into_body(), fleet.longest()).await;
            let Some(envelope) = body.ok().and_then(|body| String::from_utf8(body.into()).ok())
            else {
                return (StatusCode::BAD_REQUEST, "an envelope is UTF-8\n").into_response();
            };
            if is_async {
                let submitted = Submitted { envelope, role };
                return match fleet.submit(&name, &key, &submitted).await {
                    Ok(true) => StatusCode::ACCEPTED.into_response(),
                    Ok(false) => {
                        (StatusCode::NOT_IMPLEMENTED, "this host has no queue\n").into_response()
                    }
                    Err(error) => failed(&error),
                };
            }
            let fleet = Arc::clone(fleet);
            // It goes on if the client closes the connection, and asks again.
            let run = async move { fleet.run(&name, &key, role.as_deref(), &envelope).await };
            match tokio::spawn(run).await {
                Ok(ended) => ended.map(Some),
                Err(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
        _ => {
            let allowed = [(header::ALLOW, "GET, PUT")];
            return (StatusCode::METHOD_NOT_ALLOWED, allowed, "GET or PUT\n").into_response();
        }
    };
    match result {
        Ok(Some(result)) => ([(header::CONTENT_TYPE, "application/json")], result).into_response(),
        Ok(None) => {
            (StatusCode::NOT_FOUND, "no call with this key has ended here\n").into_response()
        }
        Err(error) => failed(&error),
    }
}

/// The response to a tenant that may not use a workspace; it does not tell whether there is one.
fn forbidden() -> Response {
    let text = "this token is for other workspaces or roles\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

fn failed(error: &ServeWorkspaceError) -> Response {
    let status = match error {
        error if error.is_passing() => StatusCode::SERVICE_UNAVAILABLE,
        // There is no such role.
        ServeWorkspaceError::Unknown(_) | ServeWorkspaceError::Refused(_) => StatusCode::NOT_FOUND,
        ServeWorkspaceError::Store(FleetError::LargeResult(..))
        | ServeWorkspaceError::Queue(QueueError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::BAD_REQUEST,
    };
    let text = format!("{error}\n");
    match status {
        StatusCode::SERVICE_UNAVAILABLE => {
            tracing::warn!("{error}");
            (status, [(header::RETRY_AFTER, "1")], text).into_response()
        }
        _ => (status, text).into_response(),
    }
}
