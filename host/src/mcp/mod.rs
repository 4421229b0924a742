//! The MCP server: a host's tools for every client of the Model Context Protocol, on standard
//! input and output or over HTTP. It serves revision 2026-07-28, which knows no sessions, and the
//! older ones, which begin with `initialize`. Only what a client sees is decided here; what a call
//! may do and how it runs is the host's business.
//!
//! Source: <https://modelcontextprotocol.io/specification>.

mod approval;
mod call;
mod http;
mod page;
mod prompts;
mod resources;
mod results;

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, Prompt, ReadResourceRequestParams,
    ReadResourceResponse, Resource, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, ServerInitializeError, ServiceExt as _};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::approval::Pending;
use self::page::{Listings, page};
use self::results::Results;
use crate::dispatch::Refusal;
use crate::host::Host;
use crate::plugin::export::Exported;
use crate::plugin::registry::ToolEntry;
use crate::policy::Role;

pub use http::{Access, HttpError, serve_http};

/// How many calls may wait for a free worker; one more is told that the server is busy.
const WAITING: usize = 64;

/// How long calls that are still running when the server stops get to end.
const LAST_CALLS: Duration = Duration::from_secs(5);

/// How long a client may keep a list, in milliseconds: it changes only with the server.
const FRESH: u64 = 5 * 60 * 1000;

/// A server that ended because something was wrong.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client said something else than MCP at the beginning.
    #[error("the client did not begin as MCP does: {0}")]
    Handshake(Box<ServerInitializeError>),
    /// The task that serves has failed.
    #[error("the server failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// A host as an MCP server, under one role. Clones serve the same host.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    role: Option<String>,
    tools: Arc<[Tool]>,
}

/// What the servers of all roles have in common.
struct Shared {
    host: Host,
    prompts: Vec<(Prompt, String)>,
    /// One for each call that runs or waits.
    slots: Semaphore,
    most: usize,
    results: Results,
    listings: Listings<Resource>,
    pending: Arc<Pending>,
    /// Ends every call.
    stopping: CancellationToken,
}

impl Server {
    /// The tools of a role, or all of them. `stopping` ends every call.
    ///
    /// # Errors
    /// A role that is none.
    pub fn new(
        host: Host,
        role: Option<&str>,
        stopping: CancellationToken,
    ) -> Result<Self, Refusal> {
        let most = host.workers() + WAITING;
        let tools = tools(&host, host.role(role)?);
        let shared = Shared {
            prompts: prompts::all(host.contracts()),
            host,
            slots: Semaphore::new(most),
            most,
            results: Results::default(),
            listings: Listings::default(),
            pending: Arc::default(),
            stopping,
        };
        Ok(Self { shared: Arc::new(shared), role: role.map(str::to_owned), tools: tools.into() })
    }

    /// The same server under another role, with which it shares its workers.
    ///
    /// # Errors
    /// A role that is none.
    pub fn under(&self, role: &str) -> Result<Self, Refusal> {
        let host = &self.shared.host;
        let tools = tools(host, host.role(Some(role))?);
        let shared = Arc::clone(&self.shared);
        Ok(Self { shared, role: Some(role.to_owned()), tools: tools.into() })
    }

    /// Serves one client on standard input and output, until it closes them or the server is
    /// stopped. Calls have ended then.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let stopping = self.shared.stopping.clone();
        let transport = rmcp::transport::io::stdio_pipes();
        let served = match self.clone().serve_with_ct(transport, stopping.clone()).await {
            Ok(running) => running.waiting().await.map(drop).map_err(ServeError::from),
            // A client that says nothing wants nothing.
            Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
                Ok(())
            }
            Err(error) => Err(ServeError::Handshake(Box::new(error))),
        };
        stopping.cancel();
        self.ended().await;
        served
    }

    /// Waits until no call runs any more: what one was writing is written, or not at all.
    async fn ended(&self) {
        let all = u32::try_from(self.shared.most).unwrap_or(u32::MAX);
        if tokio::time::timeout(LAST_CALLS, self.shared.slots.acquire_many(all)).await.is_err() {
            tracing::warn!("a call did not end in time; what it changed is not kept");
        }
    }
}

/// What a role can call, by name: always in the same order.
fn tools(host: &Host, role: Option<&Role>) -> Vec<Tool> {
    let tool = |entry| {
        let exported = Exported::new(host.registry(), entry, role)?;
        match serde_json::from_value(results::widened(exported.mcp(host.policy()))) {
            Ok(tool) => Some(tool),
            Err(error) => {
                tracing::error!("nobody is told of {}: {error}", exported.name);
                None
            }
        }
    };
    // Nobody is told of what is not granted: every call of it would be denied.
    let granted = |entry: &&Arc<ToolEntry>| host.policy().decide(&entry.subject(), role).is_ok();
    let mut tools: Vec<Tool> = host
        .registry()
        .tools(role)
        .filter(granted)
        .filter_map(|entry| tool(entry.as_ref()))
        .collect();
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let instructions = "Paths are relative to the workspace, or absolute inside of it. A call \
                            that changes files does so as a whole, or not at all.";
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("cofferdam", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (tools, next_cursor) = page(&self.tools, request, |tool| tool.name.to_string())?;
        let result = ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) };
        Ok(result.with_ttl_ms(FRESH).with_cache_scope(page::SCOPE))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (listings, role) = (&self.shared.listings, self.role.as_deref());
        let (resources, next_cursor) = match request.and_then(|request| request.cursor) {
            Some(cursor) => listings.next(role, &cursor)?,
            None => listings.first(role, self.resources().await),
        };
        let result = ListResourcesResult::with_all_items(resources);
        Ok(ListResourcesResult { next_cursor, ..result })
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.resource_templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.read(&request.uri).await.map(ReadResourceResponse::from)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let all: Vec<Prompt> =
            self.shared.prompts.iter().map(|(prompt, _)| prompt.clone()).collect();
        let (prompts, next_cursor) = page(&all, request, |prompt| prompt.name.clone())?;
        let result =
            ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(prompts) };
        Ok(result.with_ttl_ms(FRESH).with_cache_scope(page::SCOPE))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&self.shared.prompts, &request).map(GetPromptResponse::from)
    }
}
