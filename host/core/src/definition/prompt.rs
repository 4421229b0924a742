//! The templates of an agent definition, in Jinja's syntax. What is put in is text and is never
//! looked at as a template itself; a variable that is not there is an error.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::{Environment, UndefinedBehavior};

use super::{DefinitionError, invalid};

/// What an agent is told first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// How it is to work.
    pub system: String,
    /// What it is to work on; may be empty.
    pub user: String,
}

/// The variables that a template uses.
///
/// # Errors
/// What is wrong with the template, and in which of its lines.
pub fn variables(template: &str) -> Result<BTreeSet<String>, String> {
    let environment = environment();
    let template = environment.template_from_str(template).map_err(|error| error.to_string())?;
    Ok(template.undeclared_variables(false).into_iter().collect())
}

/// The text that a template becomes; `place` is where it was written.
///
/// # Errors
/// An invalid template, or one that uses a variable that is not there.
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

/// No filters, tests or functions: a template shows variables, with `if` and `for` around them.
fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment
}
