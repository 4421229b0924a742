//! Parses JSON more strictly than usual: a repeated key is an error, since one of its values would
//! be lost silently. The number of values is limited: a text of `[[],[],` would take 70 times its
//! own size as a tree.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};

/// The largest number of values in a document of an agent or a client, including the names of
/// fields. Each takes up to 160 bytes as a part of a tree, however short its text is.
pub const MAX_VALUES: usize = 200_000;

/// The largest number of values in a plugin's answer, which may be the result of a search in a
/// large workspace.
pub const MAX_ANSWER_VALUES: usize = 1_000_000;

/// Parses a text that holds exactly one JSON document of at most [`MAX_VALUES`] values.
///
/// # Errors
/// Returns the first error, with line and column.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    parse_counted(text, MAX_VALUES).map(|(value, _)| value)
}

/// Parses a document of at most `most` values; also returns the number of its values.
///
/// # Errors
/// Returns the first error, with line and column.
pub fn parse_counted(text: &str, most: usize) -> Result<(Value, usize), serde_json::Error> {
    let left = Cell::new(most);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { left: &left, most, from: DocumentSource::Agent };
    let value = value.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, most - left.get()))
}

/// Parses the answer of a plugin like serde_json, with a limit on the number of values.
///
/// # Errors
/// Returns the first error, with line and column.
pub fn parse_answer(text: &str) -> Result<Value, serde_json::Error> {
    let left = Cell::new(MAX_ANSWER_VALUES);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { left: &left, most: MAX_ANSWER_VALUES, from: DocumentSource::Plugin };
    let value = value.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// The length in bytes of the document at the beginning of `text`. It is not kept, so this takes
/// little time and no memory; duplicate keys are not detected.
///
/// # Errors
/// If no document starts there, returns approximately how many bytes were read.
pub fn skip(text: &str) -> Result<usize, usize> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match documents.next() {
        Some(Ok(_)) => Ok(documents.byte_offset()),
        Some(Err(error)) => Err(looked_at(text, &error)),
        None => Err(text.len()),
    }
}

/// The offset up to which a parser has read a text, in bytes.
fn looked_at(text: &str, error: &serde_json::Error) -> usize {
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    (lines.map(str::len).sum::<usize>() + error.column()).min(text.len())
}

/// The length of a document as JSON in bytes.
pub fn size(document: &Value) -> usize {
    use std::io;
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    // Neither a value nor the counter can fail.
    let _ = serde_json::to_writer(&mut count, document);
    count.0
}

/// The number of values in a document, including the names of fields.
pub fn count(document: &Value) -> usize {
    1 + match document {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(|value| 1 + count(value)).sum(),
        _ => 0,
    }
}

/// A text that does not begin with a document.
#[derive(Debug)]
pub struct NoDocument {
    /// The message of serde_json without line and column.
    pub message: String,
    /// Approximately how many bytes were read; the last one is the cause.
    pub looked_at: usize,
    /// Whether it is JSON so far, but exceeds a limit.
    pub beyond: bool,
}

/// Converts a value to the one that parsing its text would give.
pub fn normal(mut value: Value) -> Value {
    normalise(&mut value);
    value
}

/// The recursion is not deeper than what a parser has accepted.
fn normalise(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().and_then(whole) {
                *number = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(fields) => fields.values_mut().for_each(normalise),
        _ => {}
    }
}

/// Parses the JSON document at the beginning of `text`; returns it with its length in bytes.
///
/// # Errors
/// Returns an error if no document starts there.
pub fn parse_prefix(text: &str) -> Result<(Value, usize), NoDocument> {
    let left = Cell::new(MAX_VALUES);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let strict = Strict { left: &left, most: MAX_VALUES, from: DocumentSource::Agent };
    match strict.deserialize(&mut deserializer) {
        Ok(value) => {
            let end = deserializer.into_iter::<IgnoredAny>().byte_offset();
            Ok((value, end))
        }
        Err(error) => {
            let place = format!(" at line {} column {}", error.line(), error.column());
            let message = error.to_string().replace(&place, "");
            let beyond = is_beyond(&error);
            Err(NoDocument { message, looked_at: looked_at(text, &error), beyond })
        }
    }
}

/// The message of serde_json for nesting deeper than 128 levels, which has no error code.
pub const TOO_DEEP: &str = "recursion limit exceeded";

/// The beginning of the message for a document with too many values.
const TOO_MANY: &str = "more than ";

/// Whether a text may be JSON, but exceeds the limit of values or nesting.
pub fn is_beyond(error: &serde_json::Error) -> bool {
    let message = || error.to_string();
    match error.classify() {
        Category::Syntax => message().starts_with(TOO_DEEP),
        Category::Data => message().starts_with(TOO_MANY),
        Category::Io | Category::Eof => false,
    }
}

/// The largest integer up to which doubles are exact.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// The integer of a number. JSON has one kind of number: 50.0 is the integer 50 (JSON Schema,
/// section 6.1.1).
fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && value.abs() < MAX_EXACT_INTEGER).then_some(value as i64)
}

/// The author of a document.
#[derive(Clone, Copy, PartialEq)]
enum DocumentSource {
    /// An agent: a duplicate key is an error, and whole numbers become integers.
    Agent,
    /// A plugin: parsed like serde_json does.
    Plugin,
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    /// The number of further values that are allowed.
    left: &'a Cell<usize>,
    most: usize,
    from: DocumentSource,
}

impl Strict<'_> {
    fn count<E: Error>(self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| {
            E::custom(format_args!("{TOO_MANY}{} values, names of fields included", self.most))
        })?;
        self.left.set(left);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        if let Some(whole) = whole(value).filter(|_| self.from == DocumentSource::Agent) {
            return Ok(whole.into());
        }
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that JSON can't hold"))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            self.count()?;
            if self.from == DocumentSource::Agent && object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the key '{name}' stands here twice")));
            }
            object.insert(name, fields.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn answers_are_not_normalised_and_their_values_are_limited() {
        let text = r#"{"a":1,"b":[2.0,-1e300],"a":{"c":null}}"#;
        assert_eq!(parse_answer(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        let many = format!("[{}]", vec!["[]"; MAX_ANSWER_VALUES].join(","));
        assert!(is_beyond(&parse_answer(&many).unwrap_err()));
    }

    #[test]
    fn normalising_equals_parsing_the_text() {
        for text in
            ["null", "[1.0, -2.0, 3.5, 1e300, 18446744073709551615]", r#"{"a": {"b": [1.0]}}"#]
        {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(normal(value.clone()).to_string(), parse(text).unwrap().to_string());
            assert_eq!(size(&value), value.to_string().len(), "{text}");
        }
    }

    #[test]
    fn strict_parsing_accepts_what_serde_json_does() {
        for text in
            ["null", "[1, -2, 3.5, 18446744073709551615]", r#"{"a": {"b": [true, "x\n"]}}"#, "\"\""]
        {
            assert_eq!(
                parse(text).unwrap(),
                serde_json::from_str::<Value>(text).unwrap(),
                "{text}"
            );
        }
    }

    #[test]
    fn whole_numbers_are_integers() {
        assert_eq!(parse("[50.0, -1e3, 0.5, 1e300]").unwrap().to_string(), "[50,-1000,0.5,1e+300]");
    }

    #[test]
    fn duplicate_keys_are_refused() {
        for (text, wanted) in [
            ("{\n \"a\": 1,\n \"a\": 2}", "the key 'a' stands here twice at line 3 column 4"),
            ("{} {}", "trailing characters at line 1 column 4"),
            ("", "EOF while parsing a value at line 1 column 0"),
            ("{\"a\": NaN}", "expected value at line 1 column 7"),
            ("{\"a\": 1e999}", "number out of range at line 1 column 11"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), wanted, "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_prefix_ends_where_the_document_does() {
        assert_eq!(parse_prefix("{\"a\":1} rest").unwrap().1, 7);
        assert_eq!(parse_prefix("{\n not json").err().map(|error| error.looked_at), Some(4));
    }
}
