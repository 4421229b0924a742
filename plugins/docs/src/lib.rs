//! The `docs` plugin: documentation of libraries from Context7.
//!
//! [`resolve`] finds a library's id, [`query`] searches its documentation. Both use [`service`],
//! which sends a request with timeout and retry and interprets the status. [`question`] rejects
//! vague queries, [`sensitive`] rejects queries with secrets.
//!
//! Source: the tool schemas, "Context7 MCP Tools" and "Context7 MCP Fallback Behavior". Requests
//! and responses are those of Context7's public API, version 2.

pub mod library;
pub mod query;
pub mod question;
pub mod resolve;
pub mod sensitive;
pub mod service;

use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Docs;

impl Docs {
    fn context7_resolve_library_id(
        args: resolve::Args,
        context: &Context,
    ) -> Result<resolve::Output, ToolError> {
        resolve::run(&args, &service::Context7::within(context.deadline_ms))
    }

    fn context7_query_docs(
        args: query::Args,
        context: &Context,
    ) -> Result<query::Output, ToolError> {
        query::run(&args, &service::Context7::within(context.deadline_ms))
    }
}

plugin!(Docs { context7_resolve_library_id, context7_query_docs });
