//! The tool `greet`. Does not depend on the host or the bindings, so its tests run anywhere.

use serde::{Deserialize, Serialize};

/// The arguments, as `schemas/greet.input.json` describes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greet {
    pub name: String,
}

/// The answer, as `schemas/greet.output.json` describes it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Greeting {
    pub text: String,
}

/// The name is blank.
#[derive(Debug, PartialEq, Eq)]
pub struct BlankName;

pub fn greet(args: &Greet) -> Result<Greeting, BlankName> {
    match args.name.trim() {
        "" => Err(BlankName),
        name => Ok(Greeting { text: format!("Hello, {name}!") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_greeted_and_a_blank_name_is_an_error() {
        let greet = |name: &str| greet(&Greet { name: name.to_owned() });
        assert_eq!(greet("Ada"), Ok(Greeting { text: "Hello, Ada!".to_owned() }));
        assert_eq!(greet(" "), Err(BlankName));
    }
}
