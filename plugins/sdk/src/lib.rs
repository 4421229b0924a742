//! Write a Cofferdam tool plugin: a struct, an impl and one macro line.
//!
//! ```ignore
//! use cofferdam_sdk::{Context, ToolError, plugin};
//!
//! #[derive(serde::Deserialize)]
//! struct Greet { name: String }
//! #[derive(serde::Serialize)]
//! struct Greeting { text: String }
//!
//! struct Hello;
//! impl Hello {
//!     fn greet(args: Greet, _: &Context) -> Result<Greeting, ToolError> {
//!         Ok(Greeting { text: format!("Hello, {}!", args.name) })
//!     }
//! }
//! plugin!(Hello { greet });
//! ```
//!
//! The host checks the arguments against the tool's input schema before the plugin gets them, and
//! the result against the output schema afterwards. Every call runs in a fresh instance, so a
//! plugin has no state between calls.
//!
//! Files are read and written through [`Context`] or the standard library. All changes of a call
//! are committed when it succeeds; a call that returns an error changes nothing. So a tool can
//! write files before all of its checks are done, and return an error at any time.
//!
//! This crate also compiles natively, so that a plugin's logic can be tested without WebAssembly.
//! The host's capabilities ([`scan`], [`log`], [`progress`]) are not available there.

mod context;
mod error;
mod files;
mod shorten;

pub mod agents;
pub mod answer;
pub mod backend;
pub mod background;
pub mod cache;
pub mod consent;
pub mod git;
pub mod http;
pub mod process;
pub mod questions;
pub mod scan;
pub mod text;

pub use context::{Context, WorkspacePath};
pub use error::{ErrorKind, ToolError};
pub use shorten::{shorten, shorten_captured, telling};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The generated bindings, for interfaces that this crate does not wrap.
#[allow(warnings, clippy::restriction, reason = "generated; the WIT files hold the documentation")]
#[rustfmt::skip]
pub mod bindings;

/// The generated bindings of a component that prepares its memory.
#[doc(hidden)]
#[allow(warnings, clippy::restriction, reason = "generated")]
#[rustfmt::skip]
pub mod initialized_bindings;

/// The commits of the session that calls.
pub mod history {
    pub use crate::bindings::cofferdam::host::history::{
        Change, Commit, Error, Kind, Page, Part, commits, diff, undo,
    };
}

/// Commits to the git repository of the workspace, which programs prepare.
pub mod git_commit {
    pub use crate::bindings::cofferdam::host::git_commit::{Error, Preparation, finish, prepare};
}

/// Calls of other tools. Needs the grant `tools`.
pub mod tools {
    pub use crate::bindings::cofferdam::host::tools::{
        Changes, Effects, Failure, Request, Tool, call, changed, get, names, search,
    };
}

/// Log messages for the operator of the host.
pub mod log {
    pub use crate::bindings::cofferdam::host::log::{Level, emit};
}

/// Reports the progress of a long call.
pub mod progress {
    pub use crate::bindings::cofferdam::host::progress::report;
}

/// Exports a function of a type that prepares the memory with which instances begin: packing the
/// component calls it once. It may use no files, and the environment is empty; clocks and random numbers are fixed.
#[macro_export]
macro_rules! initialized {
    ($plugin:ident, $function:expr) => {
        impl $crate::initialized_bindings::Guest for $plugin {
            fn initialize() {
                $function()
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::initialized_bindings::export!($plugin with_types_in $crate::initialized_bindings);
    };
}

/// Exports a type as the plugin of this component. Each name is one of the type's associated
/// functions, `fn(Args, &Context) -> Result<Output, ToolError>`, and the short name of a tool in
/// the manifest; `alias = function` gives a tool a name that differs from its function.
#[macro_export]
macro_rules! plugin {
    ($plugin:ident { $($tool:ident $(= $function:ident)?),+ $(,)? }) => {
        impl $crate::bindings::exports::cofferdam::tool::tools::Guest for $plugin {
            fn call(
                name: String,
                args: String,
                context: $crate::bindings::cofferdam::tool::types::CallContext,
            ) -> Result<String, $crate::bindings::cofferdam::tool::types::ToolError> {
                $plugin::dispatch(&name, &args, &$crate::Context::from(context))
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::export!($plugin with_types_in $crate::bindings);
        /// Calls a tool as the host would, in a native build.
        #[cfg(not(target_family = "wasm"))]
        pub fn call(
            name: &str,
            args: &str,
            context: &$crate::Context,
        ) -> Result<String, $crate::bindings::cofferdam::tool::types::ToolError> {
            $plugin::dispatch(name, args, context)
        }
        impl $plugin {
            fn dispatch(
                name: &str,
                args: &str,
                context: &$crate::Context,
            ) -> Result<String, $crate::bindings::cofferdam::tool::types::ToolError> {
                match name {
                    $(stringify!($tool) => $crate::run(
                        args,
                        context,
                        $crate::plugin!(@function $plugin $tool $($function)?),
                    ),)+
                    _ => Err($crate::ToolError::unknown_tool(name).into()),
                }
            }
        }
    };
    (@function $plugin:ident $tool:ident) => { $plugin::$tool };
    (@function $plugin:ident $tool:ident $function:ident) => { $plugin::$function };
}

/// Decodes the arguments, runs one tool and encodes its result. Called by [`plugin!`].
///
/// # Errors
/// The tool's errors; `invalid-args` if the arguments can't be decoded; `failed` if the result
/// can't be encoded.
#[doc(hidden)]
pub fn run<Args: DeserializeOwned, Output: Serialize>(
    args: &str,
    context: &Context,
    tool: fn(Args, &Context) -> Result<Output, ToolError>,
) -> Result<String, bindings::cofferdam::tool::types::ToolError> {
    let args = serde_json::from_str(args)
        .map_err(|error| ToolError::invalid_args("InvalidArguments", error.to_string()))?;
    let output = tool(args, context)?;
    serde_json::to_string(&output)
        .map_err(|error| ToolError::failed("InvalidOutput", error.to_string()).into())
}
