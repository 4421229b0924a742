//! The interfaces of linters, test runners, builders and checkers for tools.

use wasmtime::Result;

use super::bindings::cofferdam as wit;
use super::state::CallState;
use cofferdam_core::policy::{BackendKind, Scope};

use wit::backend::types::Error;
use wit::backend::{builders, building, checkers, linters, linting, parts, test_runners, testing};

impl wit::backend::types::Host for CallState {}
impl linting::Host for CallState {}
impl testing::Host for CallState {}
impl building::Host for CallState {}

impl parts::Host for CallState {
    fn current(&mut self) -> Result<parts::Part> {
        Ok(self.part)
    }
}

impl linters::Host for CallState {
    fn available(&mut self) -> Result<Vec<linters::Backend>> {
        Ok(self.context.services.backends.linters())
    }

    fn version(&mut self, name: String) -> Result<Result<String, Error>> {
        let backends = &self.context.services.backends;
        Ok(backends.version(BackendKind::Linter, &name, &self.context))
    }

    fn lint(
        &mut self,
        requests: Vec<(String, linting::Request)>,
    ) -> Result<Vec<Result<linting::Report, Error>>> {
        let outside = requests.iter().find_map(|(_, request)| {
            request.paths.iter().find_map(|path| check(path, &self.context.permissions.sight).err())
        });
        if let Some(error) = outside {
            return Ok(requests.iter().map(|_| Err(error.clone())).collect());
        }
        Ok(self.context.services.backends.lint(&requests, &self.context))
    }
}

impl test_runners::Host for CallState {
    fn available(&mut self) -> Result<Vec<String>> {
        Ok(self.context.services.backends.names(BackendKind::TestRunner))
    }

    fn detect(&mut self, name: String, root: String) -> Result<u8> {
        let backends = &self.context.services.backends;
        Ok(backends.detect(BackendKind::TestRunner, &name, &root, &self.context))
    }

    fn run(
        &mut self,
        name: String,
        request: testing::Request,
    ) -> Result<Result<testing::Report, Error>> {
        let backends = &self.context.services.backends;
        Ok(backends.run_tests(&name, &request, &self.context))
    }
}

impl builders::Host for CallState {
    fn available(&mut self) -> Result<Vec<String>> {
        Ok(self.context.services.backends.names(BackendKind::Builder))
    }

    fn detect(&mut self, name: String, root: String) -> Result<u8> {
        let backends = &self.context.services.backends;
        Ok(backends.detect(BackendKind::Builder, &name, &root, &self.context))
    }

    fn build(
        &mut self,
        name: String,
        request: building::Request,
    ) -> Result<Result<building::Report, Error>> {
        let backends = &self.context.services.backends;
        Ok(backends.build(&name, &request, &self.context))
    }
}

impl checkers::Host for CallState {
    fn check(
        &mut self,
        language: String,
        sources: Vec<(String, String)>,
    ) -> Result<Option<Result<Vec<linting::Finding>, Error>>> {
        let _elsewhere = self.context.control.elsewhere();
        Ok(self.context.services.backends.check(&language, &sources, &self.context))
    }
}

/// Checks whether a call may lint `path`, since the backend itself may read everything.
fn check(path: &str, sight: &Scope) -> Result<(), Error> {
    let names = cofferdam_workspace::path::by_names("", path).ok().flatten();
    match names {
        Some(place) if sight.allows(&place) => Ok(()),
        Some(_) => Err(Error::Invalid(format!(
            "{path} is outside of the call's scope: {}",
            sight.paths().join(", ")
        ))),
        None => Err(Error::Invalid(format!("{path} leaves the workspace"))),
    }
}
