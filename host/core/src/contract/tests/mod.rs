//! The built-in contracts, block by block, and the rules for parsing a response.
#![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]

mod responses;
mod rules;
mod source;

use super::{Contract, Contracts};

fn contract(name: &str) -> Contract {
    Contracts::built_in().unwrap().get(name).unwrap().clone()
}

/// A contract with a field of each kind, for kinds that the built-in ones do not use.
fn every_kind() -> Contract {
    Contract::from_toml(EVERY_KIND).unwrap()
}

const EVERY_KIND: &str = r#"
agent = "demo"
purpose = "Try everything"

[[fields]]
name = "text"
type = "text"
hint = "[what]"
example = "anything"

[[fields]]
name = "maybe"
type = "text"
none = true
hint = '[what] or "none"'
example = "none"

[[fields]]
name = "flag"
type = "boolean"
hint = "[true/false]"
example = "true"

[[fields]]
name = "count"
type = "integer"
minimum = -5
maximum = 10
hint = "[-5-10]"
example = "3"

[[fields]]
name = "level"
type = "choice"
choices = ["none", "low", "High"]
hint = "[none/low/High]"
example = "none"

[[fields]]
name = "items"
type = "list"
none = true
hint = '[a, b] or "none"'
example = "[a, b]"

[[fields]]
name = "part"
type = "progress"
hint = "[part]/[parts]"
example = "1/2"

[[fields]]
name = "note"
type = "text"
required = false
hint = "[anything else; leave it out where there is nothing]"

[[next]]
when = { count = { at-least = 4 }, level = "low" }
then = "fix"
reason = "many"

[[next]]
when = { maybe = { present = true } }
then = "blocked"
reason = "something"

[[next]]
then = "proceed"
reason = "nothing"
"#;
