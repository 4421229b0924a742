//! The `docs` plugin: what Context7 knows of libraries.
//!
//! [`resolve`] finds a library's id, [`query`] asks its documentation; both go through [`service`],
//! which is one request with its limit, its one retry and the meaning of its status. [`question`]
//! says what is no good question, [`sensitive`] what must not be asked at all.
//!
//! Source: S4, "Context7 MCP Tools" and "Context7 MCP Fallback Behavior"; the requests and answers
//! are those of Context7's public API, version 2.

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
