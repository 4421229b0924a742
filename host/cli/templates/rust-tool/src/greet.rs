//! The tool `greet`. Knows neither the host nor the bindings, so that it is tested anywhere.

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

/// There is nobody to greet.
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
    fn somebody_is_greeted_and_nobody_is_not() {
        let greet = |name: &str| greet(&Greet { name: name.to_owned() });
        assert_eq!(greet("Ada"), Ok(Greeting { text: "Hello, Ada!".to_owned() }));
        assert_eq!(greet(" "), Err(BlankName));
    }
}
