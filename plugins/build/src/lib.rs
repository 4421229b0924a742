//! The `build` plugin: `build_project`, by whichever builder the operator has and fits.
//!
//! | module | is for |
//! |---|---|
//! | [`build_project`] | the tool: the choice of a builder, and its report as the tool's answer |
//! | [`command_line`] | a build command as words |
//!
//! Only this module reaches the builders, which are other components. What they run and how they
//! read it is theirs.
//!
//! Source: S3, "build_project".

pub mod build_project;
pub mod command_line;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::builders;
use cofferdam_sdk::backend::building::{Report, Request};
use cofferdam_sdk::{Context, ToolError, plugin};

/// The plugin.
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

/// The builders that the host has.
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
