//! What Main asks for. Source: S0, "Work Order Fields".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Blocked, Decoded, find, problem, shaped};
use cofferdam_core::envelope::Mode;
use cofferdam_core::policy::Scope;

/// What the log calls the document.
pub(super) const NAME: &str = "work order";

/// One step of a plan, and what holds for it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Work order")]
pub struct WorkOrder {
    /// The step's own name, such as `phase-2.step-3`.
    #[schemars(length(min = 1))]
    pub step_id: String,
    /// What is to be done, in words.
    #[schemars(length(min = 1))]
    pub step_text: String,
    /// The files and directories that the step may touch, relative to the workspace; `.`: all.
    #[schemars(length(min = 1), inner(length(min = 1)))]
    pub scope_allowlist: Vec<String>,
    /// What the step must not change.
    pub invariants: Vec<String>,
    /// What the result has to pass.
    pub acceptance: Acceptance,
}

/// What the result has to pass.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// After every step.
    pub lint: Lint,
    /// After the last step of a phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_boundary_lint: Option<Lint>,
}

/// Arguments of `lint_backend`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lint {
    /// The file or directory to lint, relative to the workspace; null: `nomarr/`, or the workspace
    /// if there is none.
    #[serde(default)]
    pub path: Option<String>,
    /// false: only modified and untracked files; true: all files, and import-linter.
    #[serde(default)]
    pub check_all: bool,
}

impl Lint {
    /// The same as a tool's arguments.
    pub fn args(&self) -> Map<String, Value> {
        let path = self.path.clone().map_or(Value::Null, Value::String);
        [("path".to_owned(), path), ("check_all".to_owned(), self.check_all.into())]
            .into_iter()
            .collect()
    }
}

/// A work order that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    order: WorkOrder,
    scope: Scope,
}

impl Step {
    /// Reads a work order.
    ///
    /// # Errors
    /// Text without one, and one whose scope leaves the workspace.
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
