//! Running programs in a component.

use super::{Command, Error, Output, Repository};
use crate::Context;
use crate::bindings::cofferdam::host::process;

pub(super) fn run(command: &Command, _: &Context) -> Result<Output, Error> {
    process::run(command)
}

pub(super) fn repository(_: &Context) -> Result<Repository, Error> {
    process::find_repository()
}

pub(super) fn keep_files(files: &[String]) -> Result<(), Error> {
    process::keep_files(files)
}

pub(super) fn cache_directory(_: &Context) -> String {
    process::cache_directory()
}
