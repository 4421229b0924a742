//! The work order that Main writes. Source: the pipeline commands, "Work Order Fields".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Blocked, Decoded, find, problem, shaped};
use cofferdam_core::envelope::Mode;
use cofferdam_core::policy::Scope;

/// The name of the document in the log.
pub(super) const NAME: &str = "work order";

/// A step of a plan, with its scope and requirements.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Work order")]
pub struct WorkOrder {
    /// The id of the step, such as `phase-2.step-3`.
    #[schemars(length(min = 1))]
    pub step_id: String,
    /// The task, in words.
    #[schemars(length(min = 1))]
    pub step_text: String,
    /// The files and directories that the step may touch, relative to the workspace; `.` means all.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub scope_allowlist: Vec<String>,
    /// The properties that the step must not change.
    pub invariants: Vec<String>,
    /// The lints that the result has to pass.
    pub acceptance: Acceptance,
}

/// The lints that the result has to pass.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// The lint after every step.
    pub lint: Lint,
    /// The additional lint after the last step of a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_boundary_lint: Option<Lint>,
}

/// The arguments of `lint_backend`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lint {
    /// The file or directory to lint, relative to the workspace; null: `nomarr/`, or the workspace
    /// if `nomarr/` does not exist.
    #[serde(default)]
    pub path: Option<String>,
    /// false: only modified and untracked files; true: all files, and import-linter.
    #[serde(default)]
    pub check_all: bool,
}

impl Lint {
    /// The arguments of the tool as JSON.
    pub fn args(&self) -> Map<String, Value> {
        let path = self.path.clone().map_or(Value::Null, Value::String);
        [("path".to_owned(), path), ("check_all".to_owned(), self.check_all.into())]
            .into_iter()
            .collect()
    }
}

/// A valid work order and its scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    order: WorkOrder,
    scope: Scope,
}

impl Step {
    /// Parses and checks a work order.
    ///
    /// # Errors
    /// [`Blocked`] if the text has no work order, or if its scope is invalid.
    pub fn read(text: &str, mode: Mode) -> Result<Decoded<Self>, Blocked> {
        let found = find(text, mode, &["step_id", "scope_allowlist"])?;
        let order: WorkOrder = shaped(found.value)?;
        match Scope::new(&order.scope_allowlist) {
            Ok(scope) => Ok(Decoded { document: Self { order, scope }, repairs: found.repairs }),
            Err(error) => {
                let mut blocked = Blocked::default();
                let expected = "paths in the workspace";
                let problem = problem("/scope_allowlist", expected, error.to_string());
                blocked.broken_rule(NAME, problem);
                Err(blocked)
            }
        }
    }

    /// The work order as it was written.
    pub fn order(&self) -> &WorkOrder {
        &self.order
    }

    /// The paths that the step may touch.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }
}
