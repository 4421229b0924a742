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
//! The host has checked the arguments against the tool's input schema before the plugin sees
//! them, and checks the answer against the output schema afterwards. Every call runs in a
//! fresh instance: a plugin has no state to keep and none to leak.
//!
//! Files are read and changed through [`Context`] or the standard library. What a call changes
//! becomes real as a whole when it succeeds; a call that returns an error changes nothing. So a
//! tool writes as it goes, and returns an error where something is wrong.
//!
//! This crate also compiles for the machine that develops a plugin, so that a plugin's logic
//! can be tested without WebAssembly; only the host's capabilities ([`scan`], [`log`],
//! [`progress`]) are out of reach there.

mod context;
mod error;
mod files;
mod shorten;

pub mod agents;
pub mod backend;
pub mod cache;
pub mod git;
pub mod http;
pub mod process;
pub mod scan;
pub mod text;

pub use context::{Context, WorkspacePath};
pub use error::{ErrorKind, ToolError};
pub use shorten::shorten;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The generated bindings, for what the rest of this crate does not wrap.
#[expect(missing_docs, reason = "generated; the WIT files hold the documentation")]
#[allow(clippy::all, clippy::allow_attributes_without_reason, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "cofferdam:worlds/plugin",
        pub_export_macro: true,
        default_bindings_module: "cofferdam_sdk::bindings",
        generate_all,
    });
}

/// Messages for the person who operates the host.
pub mod log {
    pub use crate::bindings::cofferdam::host::log::{Level, emit};
}

/// How far a long call is.
pub mod progress {
    pub use crate::bindings::cofferdam::host::progress::report;
}

/// Makes a type the plugin of this component. Each name is one of the type's associated
/// functions, `fn(Args, &Context) -> Result<Output, ToolError>`, and the short name of a tool
/// in the manifest; `alias = function` gives a tool another name than its function.
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
        /// Calls the plugin as the host would, on the machine that develops it.
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

/// Decodes the arguments, runs one tool and encodes its answer. Called by [`plugin!`].
///
/// # Errors
/// The tool's, and those of arguments or an answer that are not what its types say.
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
