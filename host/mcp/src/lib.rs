//! The MCP server: a host's tools for every client of the Model Context Protocol, on standard
//! input and output or over HTTP. It serves revision 2026-07-28, which knows no sessions, and the
//! older ones, which begin with `initialize`. Only what a client sees is decided here; what a call
//! may do and how it runs is decided by the host.
//!
//! Source: <https://modelcontextprotocol.io/specification>.

mod access;
mod app;
mod approval;
mod bodies;
mod byte_budget;
mod call;
mod changes;
mod connection;
mod connections;
mod fleet;
mod forms;
mod http;
mod message;
mod offer;
mod pace;
mod page;
mod params;
mod prompts;
mod resources;
mod results;
mod sessions;
mod slot;
mod stdio;
mod tasks;
mod text;
mod work;
mod workspaces;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult,
    Extensions, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    Implementation, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    Prompt, ReadResourceRequestParams, ReadResourceResponse, Resource, ServerCapabilities,
    ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, ServerInitializeError, ServiceExt as _};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::approval::Pending;
use self::changes::Sessions;
use self::connection::Connection;
use self::offer::Offer;
use self::page::{Listings, page};
use self::results::Results;
use self::slot::Slots;
use self::stdio::Stdio;
use self::tasks::Tasks;
use cofferdam_engine::call::{SecretReads, Session};
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::{Config, Host, OpenError};
use cofferdam_engine::runtime::blocking;
use cofferdam_engine::telemetry::Telemetry;
use cofferdam_workspace::fair_queue::FairSemaphore;

pub use access::{Access, Quota, Tenant};
pub use fleet::{Fleet, Location, ServeWorkspaceError, Submitted};
pub use http::{HttpError, serve_fleet, serve_http};

/// The maximum number of calls of a client that wait for a worker. Further ones end with `Busy`.
const MAX_WAITING_CALLS: usize = 64;

/// How long to wait for running calls when the server stops.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait for the programs that calls have left running, after they were killed.
const LAST_PROGRAMS_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may keep a list, in milliseconds. It changes when the user changes the settings or
/// the plugins; clients that listen are notified at once.
const LIST_TTL_MS: u64 = 60 * 1000;

/// Why a server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client's first message was not one of MCP.
    #[error("the client did not begin as MCP does: {0}")]
    Handshake(String),
    /// The task that serves has failed.
    #[error("the server failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Why new settings are not used: the server continues with the old ones.
#[derive(Debug, thiserror::Error)]
pub enum RenewError {
    /// The settings or the plugins can't be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The served role does not exist any more.
    #[error("{0}")]
    Role(#[from] Refusal),
}

/// A host as an MCP server, under one role. Clones share the host.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    role: Option<String>,
    /// Whether clients over HTTP may choose another role by the address.
    other_roles: bool,
}

/// What a server offers, besides its host.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The role that it serves; `None`: all tools.
    pub role: Option<String>,
    /// Whether clients over HTTP may choose another role by the address.
    pub other_roles: bool,
    /// Whether the list of tools has the schemas of their answers.
    pub output_schemas: bool,
    /// The agent that starts the server, by its name in the settings, for the record.
    pub agent: Option<String>,
    /// Whether the changes of all calls are held until a user accepts them.
    pub hold: bool,
}

/// What the servers of all roles share.
struct Shared {
    offer: watch::Sender<Arc<Offer>>,
    sessions: Sessions,
    slots: Slots,
    /// Permits for work besides calls.
    works: Arc<FairSemaphore>,
    results: Results,
    listings: Listings<Resource>,
    pending: Arc<Pending>,
    tasks: Tasks,
    agent: Option<String>,
    hold: bool,
    /// What clients without a session have read of secrets: they can't be told apart.
    reads: SecretReads,
    /// Cancelled to end every call.
    stopping: CancellationToken,
}

impl Server {
    /// Creates a server for the tools of a role, or all of them. Cancelling `stopping` ends every call.
    ///
    /// # Errors
    /// An unknown role.
    pub fn new(host: Host, options: Options, stopping: CancellationToken) -> Result<Self, Refusal> {
        let Options { role, other_roles, output_schemas, agent, hold } = options;
        let workers = host.workers();
        let offer = Offer::new(host, output_schemas);
        offer.tools(role.as_deref())?;
        let shared = Shared {
            offer: watch::Sender::new(Arc::new(offer)),
            sessions: Sessions::default(),
            slots: Slots::new(workers + MAX_WAITING_CALLS),
            works: Arc::new(FairSemaphore::new(workers)),
            results: Results::default(),
            listings: Listings::default(),
            pending: Arc::default(),
            tasks: Tasks::default(),
            agent,
            hold,
            reads: SecretReads::default(),
            stopping,
        };
        Ok(Self { shared: Arc::new(shared), role, other_roles })
    }

    /// Returns this server under another role. They share the workers.
    ///
    /// # Errors
    /// An unknown role.
    pub fn under(&self, role: &str) -> Result<Self, Refusal> {
        self.offer().host.role(Some(role))?;
        let (shared, role) = (Arc::clone(&self.shared), Some(role.to_owned()));
        Ok(Self { shared, role, other_roles: false })
    }

    /// Returns the telemetry of its calls, if it is on.
    pub fn telemetry(&self) -> Option<Arc<Telemetry>> {
        self.offer().host.telemetry().cloned()
    }

    /// Returns the session of a request. Without one, what was read of secrets is shared by all such
    /// requests.
    fn session(&self, extensions: &Extensions) -> Session {
        match extensions.get::<Connection>() {
            Some(connection) => connection.session.clone(),
            None => Session::default().with_reads(self.shared.reads.clone()),
        }
    }

    /// Returns what is served now. A request uses one until it ends.
    fn offer(&self) -> Arc<Offer> {
        Arc::clone(&self.shared.offer.borrow())
    }

    /// Returns the current tools of its role.
    fn tools(&self) -> Result<Arc<[Tool]>, ErrorData> {
        let tools = self.offer().tools(self.role.as_deref());
        tools.map_err(|refusal| ErrorData::invalid_request(refusal.feedback, None))
    }

    /// Continues with other settings and plugins, and notifies the clients whose lists have changed.
    /// Running calls keep the old ones.
    ///
    /// # Errors
    /// See [`Host::renewed`]; `Role` if the server's own role does not exist any more. The server then
    /// continues with the old ones.
    pub fn renew(&self, config: Config) -> BoxFuture<'_, Result<(), RenewError>> {
        async move {
            let (old, role) = (self.offer(), self.role.clone());
            let renewed = blocking(move || {
                let new = Offer::new(old.host.renewed(config)?, old.output_schemas);
                new.tools(role.as_deref())?;
                Ok::<_, RenewError>((old, Arc::new(new)))
            });
            let (old, new) = renewed.await?;
            self.shared.offer.send_replace(Arc::clone(&new));
            self.shared.sessions.tell(&old, &new).await;
            Ok(())
        }
        .boxed()
    }

    /// Serves one client on standard input and output, until it closes them or the server is
    /// stopped. Calls have ended then.
    ///
    /// # Errors
    /// See [`ServeError`].
    pub fn serve_stdio(self) -> BoxFuture<'static, Result<(), ServeError>> {
        async move {
            let stopping = self.shared.stopping.clone();
            let (input, output) = rmcp::transport::io::stdio_pipes();
            let (transport, writer) = Stdio::new(input, output, self.longest());
            let served = match self.clone().serve_with_ct(transport, stopping.clone()).await {
                Ok(running) => running.waiting().await.map(drop).map_err(ServeError::from),
                // A client may close the connection without a message.
                Err(
                    ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled,
                ) => Ok(()),
                // The library's text would show the message in Rust's syntax.
                Err(ServerInitializeError::ExpectedInitializeRequest(_)) => {
                    Err(ServeError::Handshake("its first message is no request".to_owned()))
                }
                Err(error) => Err(ServeError::Handshake(error.to_string())),
            };
            stopping.cancel();
            tokio::join!(self.ended(), writer.end());
            served
        }
        .boxed()
    }

    /// The name and version that clients get.
    fn implementation(&self) -> Implementation {
        Implementation::new("cofferdam", env!("CARGO_PKG_VERSION"))
    }

    /// The maximum size of a message, in bytes.
    fn longest(&self) -> usize {
        self.offer().host.policy().limits().envelope
    }

    /// Whether there are clones other than `known` ones: each session and each request has one.
    fn is_used(&self, known: usize) -> bool {
        Arc::strong_count(&self.shared) > known
    }

    /// Waits until no call is running, so that each has committed its changes or none of them, and ends
    /// the programs that calls have left running.
    async fn ended(&self) {
        if tokio::time::timeout(LAST_CALLS_TIMEOUT, self.shared.slots.all()).await.is_err() {
            tracing::warn!("a call did not end in time; what it changed is not kept");
        }
        let offer = self.offer();
        let end = move || {
            offer.host.end_programs(LAST_PROGRAMS_TIMEOUT);
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(()) = blocking(end).await;
    }
}

/// The library moves the future of a request, which is as large as the largest of these, several times: so
/// their parts are boxed.
impl ServerHandler for Server {
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        // Revisions that begin so have no tasks.
        result.capabilities.extensions = None;
        Ok(result)
    }

    fn get_info(&self) -> ServerConfig {
        let instructions = "Paths are relative to the workspace, or absolute inside of it. A call \
                            that changes files does so as a whole, or not at all. Answers are JSON, \
                            or a line of JSON and then what is long in them, as it is.";
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(self.implementation())
            .with_instructions(instructions)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (mut tools, next_cursor) = page(&self.tools()?, request, |tool| tool.name.to_string())?;
        if app::is_shown(&context) {
            app::name_page(&mut tools, &self.offer(), self.role.as_deref(), self.shared.hold);
        }
        let result = ListToolsResult { next_cursor, ..ListToolsResult::with_all_items(tools) };
        Ok(result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(page::SCOPE))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, context).boxed().await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task_state(&request.task_id).boxed().await.map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.answer_task(request, context).boxed().await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancel(&request.task_id).boxed().await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let listened = changes::listen(self, &request, &context).boxed().await;
        listened.unwrap_or_else(|| Err(params::refused(&request)))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (listings, role) = (&self.shared.listings, self.role.as_deref());
        let (resources, next_cursor) = match request.and_then(|request| request.cursor) {
            Some(cursor) => listings.next(role, &cursor)?,
            None => {
                let all = async |client| Ok(self.resources(client).await);
                listings.first(role, self.at_work(&context, all).boxed().await?)
            }
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
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let session = self.session(&context.extensions);
        let read = async |client| self.read(client, &session, &request.uri).await;
        self.at_work(&context, read).boxed().await.map(ReadResourceResponse::from)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let offer = self.offer();
        let all: Vec<Prompt> =
            offer.prompts(self.role.as_deref()).map(|(prompt, _)| prompt.clone()).collect();
        let (prompts, next_cursor) = page(&all, request, |prompt| prompt.name.clone())?;
        let result =
            ListPromptsResult { next_cursor, ..ListPromptsResult::with_all_items(prompts) };
        Ok(result.with_ttl_ms(LIST_TTL_MS).with_cache_scope(page::SCOPE))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let offer = self.offer();
        let prompts: Vec<_> = offer.prompts(self.role.as_deref()).collect();
        prompts::get(&prompts, &request).map(GetPromptResponse::from)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.shared.sessions.add(context.peer, self.role.clone());
    }
}
