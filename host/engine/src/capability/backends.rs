//! Linters, test runners and builders, as tools see them: by name, whoever answers.

use wasmtime::Result;

use crate::runtime::{CallState, Unfit, wit};
use cofferdam_core::policy::{BackendKind, Scope};

use wit::backend::types::Error;
use wit::backend::{builders, building, linters, linting, test_runners, testing};

impl wit::backend::types::Host for CallState {}
impl linting::Host for CallState {}
impl testing::Host for CallState {}
impl building::Host for CallState {}

impl linters::Host for CallState {
    /// A chosen name that is not a linter for its language is handed on as well, so that no tool
    /// takes that language for checked; a name that belongs to no linter has no languages.
    fn available(&mut self) -> Result<Vec<linters::Backend>> {
        let backends = &self.surroundings.backends;
        let backend = |entry: &crate::runtime::BackendEntry| linters::Backend {
            name: entry.backend().name.clone(),
            languages: entry.backend().languages.clone(),
            chosen_for: entry.chosen_for().to_vec(),
        };
        let mut available: Vec<_> = backends.of(BackendKind::Linter).map(backend).collect();
        for Unfit { linter, language } in backends.unfit() {
            match available.iter_mut().find(|backend| backend.name == *linter) {
                Some(backend) => backend.chosen_for.push(language.clone()),
                None => available.insert(
                    0,
                    linters::Backend {
                        name: linter.clone(),
                        languages: Vec::new(),
                        chosen_for: vec![language.clone()],
                    },
                ),
            }
        }
        Ok(available)
    }

    fn version(&mut self, name: String) -> Result<Result<String, Error>> {
        let backends = &self.surroundings.backends;
        Ok(backends.version(BackendKind::Linter, &name, &self.rights, &self.surroundings))
    }

    fn lint(
        &mut self,
        requests: Vec<(String, linting::Request)>,
    ) -> Result<Vec<Result<linting::Report, Error>>> {
        let outside = requests.iter().find_map(|(_, request)| {
            request.paths.iter().find_map(|path| check(path, &self.rights.sight).err())
        });
        if let Some(error) = outside {
            return Ok(requests.iter().map(|_| Err(error.clone())).collect());
        }
        Ok(self.surroundings.backends.lint(&requests, &self.rights, &self.surroundings))
    }
}

impl test_runners::Host for CallState {
    fn available(&mut self) -> Result<Vec<String>> {
        Ok(names(self, BackendKind::TestRunner))
    }

    fn detect(&mut self, name: String, root: String) -> Result<u8> {
        Ok(detect(self, BackendKind::TestRunner, &name, &root))
    }

    fn run(
        &mut self,
        name: String,
        request: testing::Request,
    ) -> Result<Result<testing::Report, Error>> {
        let backends = &self.surroundings.backends;
        Ok(backends.run_tests(&name, &request, &self.rights, &self.surroundings))
    }
}

impl builders::Host for CallState {
    fn available(&mut self) -> Result<Vec<String>> {
        Ok(names(self, BackendKind::Builder))
    }

    fn detect(&mut self, name: String, root: String) -> Result<u8> {
        Ok(detect(self, BackendKind::Builder, &name, &root))
    }

    fn build(
        &mut self,
        name: String,
        request: building::Request,
    ) -> Result<Result<building::Report, Error>> {
        let backends = &self.surroundings.backends;
        Ok(backends.build(&name, &request, &self.rights, &self.surroundings))
    }
}

fn names(state: &CallState, kind: BackendKind) -> Vec<String> {
    let entries = state.surroundings.backends.of(kind);
    entries.map(|entry| entry.backend().name.clone()).collect()
}

fn detect(state: &CallState, kind: BackendKind, name: &str, root: &str) -> u8 {
    state.surroundings.backends.detect(kind, name, root, &state.rights, &state.surroundings)
}

/// Whether a call may have a backend look at `path`: the backend itself sees everything.
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
