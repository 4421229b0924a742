//! The templates of an agent definition, in Jinja's syntax. Values are inserted as text and not
//! expanded again; an unknown variable is an error.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::{Environment, UndefinedBehavior};

use super::{DefinitionError, invalid};

/// The initial prompt of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// How the agent should work.
    pub system: String,
    /// What the agent should work on; may be empty.
    pub user: String,
}

/// The variables that a template uses.
///
/// # Errors
/// Returns what is wrong with the template, with the line.
pub fn variables(template: &str) -> Result<BTreeSet<String>, String> {
    let environment = environment();
    let template = environment.template_from_str(template).map_err(|error| error.to_string())?;
    Ok(template.undeclared_variables(false).into_iter().collect())
}

/// Renders a template; `place` is its field in the definition.
///
/// # Errors
/// Returns an error if the template is invalid, or uses an unknown variable.
pub fn render(
    place: &str,
    template: &str,
    variables: &BTreeMap<String, String>,
) -> Result<String, DefinitionError> {
    environment()
        .template_from_str(template)
        .and_then(|template| template.render(variables))
        .map_err(|error| invalid(place, error.to_string()))
}

/// An environment without filters, tests or functions: templates have variables, `if` and `for`.
fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}
