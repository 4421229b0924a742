//! Patterns of the arguments of a tool: the calls that a user approves for a time.

use serde_json::Value;

use super::arguments::wildcard;

/// The longest pattern, as JSON, in bytes.
const MAX_BYTES: usize = 16 << 10;

/// A pattern of all arguments of a call. In its strings, `*` stands for any characters; `\*` and `\\`
/// stand for `*` and `\`. Everything else has to be equal.
#[derive(Debug, Clone, PartialEq)]
pub struct CallPattern(Value);

impl CallPattern {
    /// The pattern of these arguments only; `None` if that is too long to be shown.
    pub fn exact(args: &Value) -> Option<Self> {
        Self::new(escaped(args))
    }

    /// The pattern with this JSON; `None` if it is too long.
    pub fn new(pattern: Value) -> Option<Self> {
        (pattern.to_string().len() <= MAX_BYTES).then_some(Self(pattern))
    }

    /// The pattern as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }

    /// This pattern with another one for one argument that it has, or `None`.
    #[must_use]
    pub fn with(&self, argument: &str, pattern: &str) -> Option<Self> {
        let mut json = self.0.clone();
        let value = json.get_mut(argument).filter(|value| value.is_string())?;
        *value = pattern.into();
        Self::new(json)
    }

    /// Whether a call with these arguments matches.
    pub fn matches(&self, args: &Value) -> bool {
        fits(&self.0, args)
    }
}

fn escaped(args: &Value) -> Value {
    match args {
        Value::String(text) => text.replace('\\', "\\\\").replace('*', "\\*").into(),
        Value::Array(items) => items.iter().map(escaped).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), escaped(value))).collect()
        }
        other => other.clone(),
    }
}

fn fits(pattern: &Value, value: &Value) -> bool {
    match (pattern, value) {
        (Value::String(pattern), Value::String(text)) => matches(pattern, text),
        (Value::Array(patterns), Value::Array(values)) => {
            patterns.len() == values.len()
                && patterns.iter().zip(values).all(|(pattern, value)| fits(pattern, value))
        }
        (Value::Object(patterns), Value::Object(values)) => {
            let is_there = |(name, pattern): (&String, &Value)| {
                values.get(name).is_some_and(|value| fits(pattern, value))
            };
            patterns.len() == values.len() && patterns.iter().all(is_there)
        }
        _ => pattern == value,
    }
}

/// Whether a text matches a pattern, in which `*` stands for any characters, and `\*` and `\\` for `*` and
/// `\`.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let fits = |wanted: &Option<u8>, byte: &u8| *wanted == Some(*byte);
    wildcard(&elements(pattern), text.as_bytes(), Option::is_none, fits)
}

/// The bytes of a pattern; `None` stands for any number of them.
fn elements(pattern: &str) -> Vec<Option<u8>> {
    let mut elements = Vec::new();
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        elements.push(match byte {
            b'*' => None,
            b'\\' => Some(bytes.next().unwrap_or(b'\\')),
            other => Some(other),
        });
    }
    elements
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_may_differ_where_the_pattern_has_a_star() {
        let args = json!({"command": "npm test -- 'a*b' \\x", "timeout": 5, "env": ["A=1"]});
        let exact = CallPattern::exact(&args).unwrap();
        assert!(exact.matches(&args));
        let other = json!({"command": "npm test -- 'a..b' \\x", "timeout": 5, "env": ["A=1"]});
        assert!(!exact.matches(&other));
        let wider = exact.with("command", "npm *").unwrap();
        assert!(wider.matches(&args) && wider.matches(&other));
        for (change, value) in [
            ("command", json!("npx x")),
            ("command", json!(["npm test"])),
            ("timeout", json!(6)),
            ("timeout", json!("5")),
            ("env", json!(["A=1", "B=2"])),
            ("env", json!(["a=1"])),
            ("more", json!("npm x")),
        ] {
            let mut changed = args.clone();
            changed[change] = value;
            assert!(!wider.matches(&changed), "{changed}");
        }
        assert!(!wider.matches(&json!({"command": "npm x", "timeout": 5})));
        assert!(exact.with("timeout", "*").is_none() && exact.with("nothing", "*").is_none());
        assert!(CallPattern::new(json!({"a": "x".repeat(MAX_BYTES)})).is_none());
    }

    #[test]
    fn a_pattern_with_many_stars_is_matched_in_time() {
        let pattern = CallPattern::new(json!("*a".repeat(4_000))).unwrap();
        assert!(!pattern.matches(&json!("a".repeat(3_999))));
        assert!(pattern.matches(&json!("ba".repeat(4_000))));
    }
}
