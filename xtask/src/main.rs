//! Developer commands: `cargo xtask --help`.
//!
//! This crate builds the parts of the project and puts them together. It does not depend on the
//! host's crates, so that it compiles in seconds; what only the host knows (how a component is
//! packed, what the generated files contain), it asks the built binary.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a developer's command: it works on the developer's own files and terminal"
)]

mod answer_sizes;
mod answers;
mod apply_patch;
mod apt;
mod authors;
mod bindings;
mod bug_hunt;
mod ci;
mod commits;
mod demo;
mod deny;
mod dist;
mod emulate;
mod fields;
mod fuzz;
mod generated;
mod git_apply;
#[cfg(test)]
mod imports;
mod macos;
#[cfg(test)]
mod manual;
mod mcp;
mod plugins;
mod process;
mod programs;
mod project;
mod reference;
mod script_tasks;
mod smith;
mod stamp;
mod tasks;
mod tokens;
mod toolchain;
mod tools;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::project::Project;

/// Builds, tests and shows Cofferdam.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds the host and its plugins, setting up what is missing for that
    Build,
    /// Builds what the demo calls, then runs an envelope of many calls on a copy of this project's
    /// sources
    Demo,
    /// Builds, prepares the guests that the tests use, then runs all tests
    Test {
        /// Tests a build with full optimisation, as of `cargo xtask build`
        #[arg(long)]
        release: bool,
        /// Only tests with this in their name
        filter: Option<String>,
        /// Passed on to the test programs, such as `-- --nocapture`
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Builds, then kills the host at random moments while it changes a workspace, and checks that
    /// no file is torn or lost: up to an hour
    Kills {
        /// How often the host is killed
        #[arg(default_value_t = 2000)]
        count: u32,
    },
    /// Runs git's own tests of `git apply`, and compares each run with `apply_patch`
    GitApply {
        /// A source of git of the installed version, with its folder `t`
        directory: PathBuf,
        /// Only scripts whose names begin so, such as `t4102`
        scripts: Vec<String>,
    },
    /// One run of `git apply` within `git-apply`
    #[command(hide = true)]
    InterceptedApply {
        git: PathBuf,
        records: PathBuf,
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Applies real commits as patches, undoes them, and compares both trees byte for byte
    Commits {
        /// A git repository with history
        repository: PathBuf,
        /// How many commits are applied, spread over the history
        #[arg(long, default_value_t = 100)]
        count: usize,
    },
    /// Measures how much all tools return on a large checkout; writes docs/answers.md
    AnswerSizes {
        /// Measures on a copy of this checkout, and writes nothing
        directory: Option<PathBuf>,
        /// Leaves out the tools that run programs for long, and writes nothing
        #[arg(long)]
        check: bool,
    },
    /// Hunts a bug in a real package over MCP, and counts the tokens; writes docs/answers.md
    BugHunt {
        /// Only measures this older build of the command
        #[arg(long)]
        before: Option<PathBuf>,
        /// Writes nothing
        #[arg(long)]
        check: bool,
    },
    /// Does twelve tasks in a real package by calls and by scripts, and counts the tokens; writes
    /// docs/answers.md
    ScriptTasks {
        /// Writes nothing
        #[arg(long)]
        check: bool,
    },
    /// Builds, then runs the benchmarks
    Bench {
        /// Only these parts of the table, such as `call` or `grep`
        parts: Vec<String>,
    },
    /// Installs the programs that tests and benchmarks run, such as linters; shows what is missing
    Programs,
    /// Writes the files that are generated from the built binary
    Gen {
        /// Writes nothing; fails where a file is not what would be written
        #[arg(long)]
        check: bool,
    },
    /// Builds, then makes packages in target/dist: an archive, a Python wheel, an npm package, a
    /// Debian package and an MCP bundle
    Dist {
        /// What the packages are for; for aarch64: an archive, a wheel and a Debian package
        #[arg(value_enum, default_values = ["x86_64"])]
        architectures: Vec<dist::Name>,
    },
    /// Builds the command for aarch64, and runs tests of calls, transactions and hostile guests with it under
    /// qemu, which the kernel has to be told of (Debian: `qemu-user-binfmt`)
    Emulate {
        /// Only tests with this in their name
        filter: Option<String>,
    },
    /// Checks that the command compiles for macOS, on any machine
    CheckMacos,
    /// Builds and packs the plugin in a directory; prints where the packed file is
    Plugin {
        /// The directory with the plugin's Cargo.toml and plugin.toml
        directory: PathBuf,
    },
    /// Everything that must pass beside the tests: formatting, lints, generated files, a short
    /// fuzzing, licences and advisories
    Ci,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<ExitCode> {
    let project = Project::find()?;
    match command {
        Command::InterceptedApply { git, records, arguments } => {
            return Ok(git_apply::intercept(&project, git, records, arguments)?.into());
        }
        Command::GitApply { directory, scripts } => git_apply::run(&project, directory, scripts),
        Command::Commits { repository, count } => commits::run(&project, repository, *count),
        Command::AnswerSizes { directory, check } => {
            answer_sizes::run(&project.with_build(), directory.as_deref(), *check)
        }
        Command::BugHunt { before, check } => {
            bug_hunt::run(&project.with_build(), before.as_deref(), *check)
        }
        Command::ScriptTasks { check } => script_tasks::run(&project.with_build(), *check),
        Command::Build => tasks::build(&project),
        Command::Demo => tasks::demo(&project),
        Command::Test { release, filter, arguments } => {
            let project = if *release { project } else { project.quick() };
            tasks::test(&project, filter.as_deref(), arguments)
        }
        Command::Kills { count } => tasks::kills(&project, *count),
        Command::Bench { parts } => tasks::bench(&project, parts),
        Command::Programs => programs::provide(&project),
        Command::Gen { check } => {
            if !check {
                bindings::write_all(&project)?;
            }
            let project = project.quick();
            tasks::build(&project)?;
            if *check { generated::check(&project) } else { generated::write(&project) }
        }
        Command::Plugin { directory } => {
            tasks::build_host(&project)?;
            let packed = plugins::build_one(&project, directory)?;
            println!("{}", packed.display());
            Ok(())
        }
        Command::Dist { architectures } => dist::run_all(&project, architectures),
        Command::Emulate { filter } => emulate::run(&project.quick(), filter.as_deref()),
        Command::CheckMacos => macos::check(&project, &["cofferdam"]),
        Command::Ci => ci::run_all(&project.quick()),
    }?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
