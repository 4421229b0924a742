//! JSON text to a value, more strictly than usual: a repeated key is an error, since one of
//! its values would be lost silently.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Parses a text that holds exactly one JSON document.
///
/// # Errors
/// The first error, with line and column.
pub fn parse(text: &str) -> Result<Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// How long a document is as JSON, in bytes.
#[cfg(feature = "engine")]
pub fn size(document: &Value) -> usize {
    use std::io;
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither a value nor the counter can fail.
    let _ = serde_json::to_writer(&mut count, document);
    count.0
}

/// A text that does not begin with a document.
#[derive(Debug)]
pub struct NoDocument {
    /// What serde_json says, without a place.
    pub message: String,
    /// About how many bytes were looked at; the last one is at fault.
    pub looked_at: usize,
}

/// The value that the text of this one would be parsed as.
pub fn normal(value: Value) -> Value {
    let strict: Result<Value, serde_json::Error> = Strict.deserialize(&value);
    strict.unwrap_or(value)
}

/// Parses the one JSON document that starts at the beginning of `text`; returns it with its
/// length in bytes.
///
/// # Errors
/// No document starts there.
pub fn parse_prefix(text: &str) -> Result<(Value, usize), NoDocument> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<StrictValue>();
    match documents.next() {
        Some(Ok(StrictValue(value))) => Ok((value, documents.byte_offset())),
        Some(Err(error)) => {
            let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
            let looked_at = lines.map(str::len).sum::<usize>() + error.column();
            let place = format!(" at line {} column {}", error.line(), error.column());
            let message = error.to_string().replace(&place, "");
            Err(NoDocument { message, looked_at: looked_at.min(text.len()) })
        }
        None => Err(NoDocument { message: "nothing".to_owned(), looked_at: text.len() }),
    }
}

/// Up to here every integer has a double of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

struct StrictValue(Value);

impl<'de> serde::Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Strict.deserialize(deserializer).map(Self)
    }
}

#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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
        // JSON knows one kind of number: 50.0 is the integer 50 (JSON Schema, section 6.1.1).
        if value.fract() == 0.0 && value.abs() < EXACT {
            return Ok((value as i64).into());
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
            if object.contains_key(&name) {
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
    fn a_parsed_value_becomes_what_its_text_would_be() {
        for text in
            ["null", "[1.0, -2.0, 3.5, 1e300, 18446744073709551615]", r#"{"a": {"b": [1.0]}}"#]
        {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(normal(value.clone()).to_string(), parse(text).unwrap().to_string());
            assert_eq!(size(&value), value.to_string().len(), "{text}");
        }
    }

    #[test]
    fn everything_that_serde_json_takes_comes_out_the_same() {
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
    fn what_would_lose_something_is_refused() {
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
