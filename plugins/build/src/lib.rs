//! The `build` plugin: `build_project`, which runs one of the operator's builders.
//!
//! | module | is for |
//! |---|---|
//! | [`build_project`] | the tool: chooses a builder, and converts its report to the tool's result |
//! | [`command_line`] | splits a build command into words |
//!
//! Only this module calls the builders, which are other components.
//!
//! Source: the actions reference, "build_project".

pub mod build_project;
pub mod command_line;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::builders;
use cofferdam_sdk::backend::building::{Report, Request};
use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin: each function is a tool.
pub struct Build;

impl Build {
    fn build_project(
        args: build_project::Args,
        context: &Context,
    ) -> Result<build_project::Output, ToolError> {
        build_project::run(&args, &Broker, context)
    }
}

plugin!(Build { build_project });

/// The builders, called through the host.
struct Broker;

impl build_project::Builders for Broker {
    fn available(&self) -> Vec<String> {
        builders::available()
    }

    fn detect(&self, name: &str) -> u8 {
        builders::detect(name, "")
    }

    fn build(&self, name: &str, request: &Request) -> Result<Report, Error> {
        builders::build(name, request)
    }
}
