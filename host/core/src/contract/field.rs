//! One field of a contract: its possible values, and how they are read.
//!
//! The rules are those of `parse_value` in the output contracts; where that is ambiguous, the
//! field's kind decides: `none` is null if the field may be none, and a choice if it is one of the
//! choices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::list;
use super::problem::Code;
use crate::schema::nearest;
use cofferdam_text::shorten;

/// The type of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Anything on one line; it is not changed.
    Text,
    /// The word `true` or `false`.
    Boolean,
    /// An integer in decimal digits.
    Integer,
    /// One of a list of words.
    Choice,
    /// `[one, two]`; its items are strings.
    List,
    /// `2/3`: a part and the number of parts. It stays a string.
    Progress,
}

/// A field of a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The name before the colon.
    pub name: String,
    /// The type of its value.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Whether a block without it is invalid.
    pub required: bool,
    /// Whether its hint offers `none`, which becomes null in the record.
    pub none: bool,
    /// Whether `none` is read as null, also if the hint does not offer it.
    #[serde(skip)]
    pub accepts_none: bool,
    /// The smallest allowed integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<i64>,
    /// The largest allowed integer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum: Option<i64>,
    /// The words of a choice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// The description in the prompt, in place of the value.
    pub hint: String,
    /// The value in the example; required for a required field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
}

/// A value as written in a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    /// The text after the colon.
    Inline(String),
    /// The texts of the bullets below it.
    Bullets(Vec<String>),
}

/// A parsed value, and how it was repaired.
#[derive(Debug, PartialEq)]
pub(super) struct Accepted {
    pub(super) value: Value,
    pub(super) repair: Option<String>,
}

impl Accepted {
    fn exactly(value: impl Into<Value>) -> Self {
        Self { value: value.into(), repair: None }
    }

    fn repaired(value: impl Into<Value>, repair: impl Into<String>) -> Self {
        Self { value: value.into(), repair: Some(repair.into()) }
    }
}

/// A value that is invalid for the field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) code: Code,
    pub(super) found: String,
    pub(super) did_you_mean: Option<String>,
}

impl Field {
    /// Describes the expected value in words.
    pub fn expectation(&self) -> String {
        let expected = match self.kind {
            Kind::Text => "text".to_owned(),
            Kind::Boolean => "true or false".to_owned(),
            Kind::Integer => match (self.minimum, self.maximum) {
                (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
                (Some(least), None) => format!("a whole number, at least {least}"),
                (None, Some(most)) => format!("a whole number, at most {most}"),
                (None, None) => "a whole number".to_owned(),
            },
            Kind::Choice => format!("one of {}", self.choices.join(", ")),
            Kind::List => "a list in brackets, such as [one, two] or []".to_owned(),
            Kind::Progress => "a number and how many there are, such as 2/3".to_owned(),
        };
        if self.none { format!("{expected}; or none") } else { expected }
    }

    /// Parses a value of the field.
    pub(super) fn read(&self, written: &Written) -> Result<Accepted, Rejected> {
        let text = match written {
            Written::Bullets(items) if self.kind == Kind::List => {
                return Ok(Accepted::repaired(
                    items.clone(),
                    "read the bullets below it as its list",
                ));
            }
            Written::Bullets(items) => {
                return Err(rejected(Code::WrongType, format!("{} bullets", items.len())));
            }
            Written::Inline(text) => text.trim(),
        };
        if text.is_empty() {
            return Err(rejected(Code::WrongType, "nothing"));
        }
        if text == self.hint && self.example.as_deref() != Some(text) {
            return Err(rejected(Code::Placeholder, format!("the prompt's own words: {text}")));
        }
        if self.accepts_none
            && let Some(none) = none(text, self.kind)
        {
            return Ok(none);
        }
        match self.kind {
            Kind::Text => Ok(Accepted::exactly(text)),
            Kind::List => match list::split(text) {
                Some(list) => Ok(Accepted {
                    value: list.items.into(),
                    repair: list.repair.map(str::to_owned),
                }),
                None => Err(rejected(Code::WrongType, show(text))),
            },
            _ => {
                let bare = bare(text);
                let mut accepted = self.read_bare(bare)?;
                if bare != text && accepted.repair.is_none() {
                    accepted.repair = Some(format!("removed what was around {bare}"));
                }
                Ok(accepted)
            }
        }
    }

    /// Parses a value that consists of one word.
    fn read_bare(&self, text: &str) -> Result<Accepted, Rejected> {
        match self.kind {
            Kind::Boolean if text.eq_ignore_ascii_case("true") => Ok(Accepted::exactly(true)),
            Kind::Boolean if text.eq_ignore_ascii_case("false") => Ok(Accepted::exactly(false)),
            Kind::Integer => {
                let number: i64 =
                    text.parse().map_err(|_| rejected(Code::WrongType, show(text)))?;
                let too_low = self.minimum.is_some_and(|least| number < least);
                let too_high = self.maximum.is_some_and(|most| number > most);
                if too_low || too_high {
                    return Err(rejected(Code::OutOfRange, show(text)));
                }
                Ok(Accepted::exactly(number))
            }
            Kind::Choice => {
                if self.choices.iter().any(|choice| choice == text) {
                    return Ok(Accepted::exactly(text));
                }
                let same = self.choices.iter().find(|choice| choice.eq_ignore_ascii_case(text));
                if let Some(choice) = same {
                    return Ok(Accepted::repaired(
                        choice.as_str(),
                        format!("read {text} as {choice}"),
                    ));
                }
                Err(Rejected {
                    code: Code::OutOfRange,
                    found: show(text),
                    did_you_mean: nearest(text, self.choices.iter().map(String::as_str)),
                })
            }
            Kind::Progress => {
                let parts = text.split_once('/').and_then(|(part, whole)| {
                    Some((part.trim().parse::<u32>().ok()?, whole.trim().parse::<u32>().ok()?))
                });
                match parts {
                    Some((part, whole)) if 1 <= part && part <= whole => {
                        Ok(Accepted::exactly(text))
                    }
                    Some(_) => Err(rejected(Code::OutOfRange, show(text))),
                    None => Err(rejected(Code::WrongType, show(text))),
                }
            }
            _ => Err(rejected(Code::WrongType, show(text))),
        }
    }
}

/// Parses the value `none` of the output contracts, and the variants that models write.
fn none(text: &str, kind: Kind) -> Option<Accepted> {
    if text.eq_ignore_ascii_case("none") {
        return Some(Accepted::exactly(Value::Null));
    }
    let inside = |text| -> Option<&str> {
        Some(bare(str::strip_suffix(str::strip_prefix(text, '[')?, ']')?.trim()))
    };
    let is_none = bare(text).eq_ignore_ascii_case("none")
        || inside(text).is_some_and(|item| {
            item.eq_ignore_ascii_case("none") || (item.is_empty() && kind != Kind::List)
        });
    is_none.then(|| Accepted::repaired(Value::Null, format!("read {text} as none")))
}

/// Removes quotes or emphasis around the whole text.
fn bare(text: &str) -> &str {
    for (open, close) in
        [("**", "**"), ("\"", "\""), ("'", "'"), ("`", "`"), ("\u{201c}", "\u{201d}")]
    {
        let inside = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
        if let Some(inside) = inside {
            return inside.trim();
        }
    }
    text
}

fn rejected(code: Code, found: impl Into<String>) -> Rejected {
    Rejected { code, found: found.into(), did_you_mean: None }
}

fn show(text: &str) -> String {
    json!(shorten(text, 80)).to_string()
}
