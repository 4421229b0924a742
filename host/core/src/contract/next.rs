//! What the orchestrator does after a response: the contract's rules if the record is complete,
//! otherwise a retry or a blocker.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::field::{Field, Kind};

/// The number of retries after a response that violates the contract (the output contracts,
/// "Contract Violations", step 4).
pub const MAX_RETRIES: u32 = 2;

/// The largest number of rounds of review and fixes (the output contracts, "Track iteration
/// count").
pub const MAX_ROUNDS: u32 = 3;

/// What the orchestrator does next.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Continue with the next step.
    Proceed,
    /// Have the work reviewed.
    Review,
    /// Have the work fixed or continued.
    Fix,
    /// Stop and ask the user.
    Blocked,
    /// Run the agent again, with a reminder of the contract. Rules of contracts can't use it.
    #[serde(skip_deserializing)]
    Retry,
}

impl Action {
    /// The action's name in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proceed => "proceed",
            Self::Review => "review",
            Self::Fix => "fix",
            Self::Blocked => "blocked",
            Self::Retry => "retry",
        }
    }
}

/// What the orchestrator does next, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Next {
    /// The next action itself.
    pub action: Action,
    /// The reason, and the data that the action needs.
    pub reason: String,
}

/// The position of the orchestrator in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The number of retries of the agent for this response, from 0. At [`MAX_RETRIES`] an invalid
    /// response blocks.
    pub attempt: u32,
    /// The round of the review, from 1. In the contract's last round, unfinished work blocks.
    pub round: u32,
}

impl Default for Turn {
    fn default() -> Self {
        Self { attempt: 0, round: 1 }
    }
}

/// One rule: the action if all of its conditions hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// Conditions by field; without any, the rule always holds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub when: BTreeMap<String, Condition>,
    /// The action of the rule.
    pub then: Action,
    /// The reason, and the data that the action needs.
    pub reason: String,
}

impl Rule {
    /// Whether all of its conditions hold for a record.
    pub fn holds(&self, record: &Map<String, Value>) -> bool {
        self.when
            .iter()
            .all(|(field, condition)| condition.holds(record.get(field).unwrap_or(&Value::Null)))
    }
}

/// A condition on one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected true, false, a whole number, a text, or a table with `present`, `at-least`, `at-most` or `one-of`"
)]
pub enum Condition {
    /// The field is this boolean.
    Boolean(bool),
    /// The field is this integer.
    Integer(i64),
    /// The field is this text.
    Text(String),
    /// The field passes this test.
    Test(Test),
}

/// A test of a field; all given conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Test {
    /// Whether the field is present: neither omitted, nor none, nor an empty list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub present: Option<bool>,
    /// The smallest value of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<i64>,
    /// The largest value of a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most: Option<i64>,
    /// The words among which it must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<String>>,
}

impl Condition {
    fn holds(&self, value: &Value) -> bool {
        match self {
            Self::Boolean(wanted) => value.as_bool() == Some(*wanted),
            Self::Integer(wanted) => value.as_i64() == Some(*wanted),
            Self::Text(wanted) => value.as_str() == Some(wanted),
            Self::Test(test) => test.holds(value),
        }
    }

    /// Why the condition can't be one on `field`.
    pub(super) fn incompatibility(&self, field: &Field) -> Option<String> {
        let is_word = matches!(field.kind, Kind::Text | Kind::Choice | Kind::Progress);
        let no_choice = |word: &String| {
            (field.kind == Kind::Choice && !field.choices.contains(word))
                .then(|| format!("'{word}' is none of its choices {}", field.choices.join(", ")))
        };
        let kind = json!(field.kind);
        let not_for =
            |what: &str| Some(format!("{what} is no condition for a field of type {kind}"));
        match self {
            Self::Boolean(_) if field.kind != Kind::Boolean => not_for("true or false"),
            Self::Integer(_) if field.kind != Kind::Integer => not_for("a number"),
            Self::Text(_) if !is_word => not_for("a text"),
            Self::Text(word) => no_choice(word),
            Self::Test(test) => {
                let is_bounded = test.at_least.is_some() || test.at_most.is_some();
                if *test == Test::default() {
                    Some("an empty table is no condition".to_owned())
                } else if is_bounded && field.kind != Kind::Integer {
                    not_for("at-least or at-most")
                } else if test.one_of.is_some() && !is_word {
                    not_for("one-of")
                } else {
                    test.one_of.iter().flatten().find_map(no_choice)
                }
            }
            _ => None,
        }
    }
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        let is_present = match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        let number = value.as_i64();
        self.present.is_none_or(|wanted| wanted == is_present)
            && self.at_least.is_none_or(|least| number.is_some_and(|number| number >= least))
            && self.at_most.is_none_or(|most| number.is_some_and(|number| number <= most))
            && self.one_of.as_ref().is_none_or(|words| {
                value.as_str().is_some_and(|value| words.iter().any(|word| word == value))
            })
    }
}
