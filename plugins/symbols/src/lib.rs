//! The plugin `symbols`: the tools `locate_symbol`, `get_source`, `discover_api`, `trace_calls` and
//! `trace_endpoint`.
//!
//! Each language has the parser that its own tools use: ruff's for Python, oxc's for TypeScript and
//! JavaScript, rust-analyzer's for Rust, gosyn for Go. The host walks the tree and reads the files;
//! a file is parsed only if it contains the name that is searched. This file only connects the
//! tools with the host.

pub mod api;
pub mod args;
pub mod calls;
pub mod endpoint;
pub mod go;
pub mod index;
pub mod language;
pub mod locate;
pub mod name;
pub mod nearest;
pub mod nesting;
pub mod outline;
pub mod project;
pub mod python;
pub mod rust;
pub mod search;
pub mod source;
pub mod text;
pub mod typescript;

use args::{DiscoverApiArgs, GetSourceArgs, LocateSymbolArgs, TraceCallsArgs, TraceEndpointArgs};
use cofferdam_sdk::scan::{self, Query, Scanner};
use cofferdam_sdk::{Context, ToolError, cache, log, plugin};
use project::{Deadline, Files, Look};

/// The plugin: each function is a tool.
pub struct Symbols;

impl Symbols {
    fn locate_symbol(
        args: LocateSymbolArgs,
        context: &Context,
    ) -> Result<locate::Located, ToolError> {
        let root = root(args.path.as_deref(), context)?;
        locate::locate(args, root, &Workspace(context), &mut Deadline::new(context.deadline_ms))
    }

    fn get_source(args: GetSourceArgs, context: &Context) -> Result<source::Sources, ToolError> {
        let root = root(args.path.as_deref(), context)?;
        source::get_source(args, root, &Workspace(context), &mut Deadline::new(context.deadline_ms))
    }

    fn discover_api(args: DiscoverApiArgs, context: &Context) -> Result<api::Api, ToolError> {
        let path = context.resolve(&args.module).map(|path| path.as_str().to_owned()).ok();
        let mut deadline = Deadline::new(context.deadline_ms);
        api::discover(&args, path.as_deref(), &Workspace(context), &mut deadline)
    }

    fn trace_calls(args: TraceCallsArgs, context: &Context) -> Result<calls::CallTree, ToolError> {
        let root = root(args.path.as_deref(), context)?;
        calls::trace(args, root, &Workspace(context), &mut Deadline::new(context.deadline_ms))
    }

    fn trace_endpoint(
        args: TraceEndpointArgs,
        context: &Context,
    ) -> Result<endpoint::Endpoints, ToolError> {
        let root = root(args.path.as_deref(), context)?;
        let mut deadline = Deadline::new(context.deadline_ms);
        endpoint::trace(&args, &root, &Workspace(context), &mut deadline)
    }
}

plugin!(Symbols { locate_symbol, get_source, discover_api, trace_calls, trace_endpoint });

fn root(path: Option<&str>, context: &Context) -> Result<String, ToolError> {
    Ok(context.resolve(path.unwrap_or("."))?.as_str().to_owned())
}

/// The workspace, accessed through the host.
struct Workspace<'a>(&'a Context);

impl Workspace<'_> {
    fn open(&self, root: &str, globs: &[String]) -> Result<Scanner, ToolError> {
        let root = self.0.resolve(if root.is_empty() { "." } else { root })?;
        Scanner::open(&Query { globs: globs.to_vec(), ..scan::query(&root) })
    }
}

impl Files for Workspace<'_> {
    fn each(&self, root: &str, globs: &[String], look: &mut Look<'_>) -> Result<usize, ToolError> {
        let scanner = self.open(root, globs)?;
        scanner.each(|path, contents| look(path, contents));
        Ok(scanner.unreadable())
    }

    fn list(&self, root: &str, globs: &[String]) -> Result<Vec<String>, ToolError> {
        Ok(self.open(root, globs)?.files().map(|file| file.path).collect())
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.read(&self.0.resolve(path).ok()?).ok()
    }

    fn kept(&self, name: &str) -> Option<Vec<u8>> {
        cache::get(name)
    }

    fn keep(&self, name: &str, bytes: &[u8]) {
        // The next call will parse the files again.
        if let Err(error) = cache::put(name, bytes) {
            log::emit(log::Level::Debug, &format!("the index is not kept: {error:?}"));
        }
    }
}

#[cfg(test)]
mod tests;
