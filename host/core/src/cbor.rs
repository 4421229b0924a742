//! CBOR (RFC 8949) to JSON and back, as ACT writes values: a byte string is `{"$bytes": "..."}` in base64,
//! and a key that begins with `$` gets one more in JSON.
//!
//! What is decoded is untrusted: its depth and the number of its values are bounded. What is encoded is
//! deterministic (section 4.2).

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ciborium_ll::{Decoder, Encoder, Error, Header, simple};
use serde_json::{Map, Number, Value, json};

/// How deep values may nest. Tags count as well.
pub const MAX_DEPTH: usize = 64;

/// The maximum number of values in a document, where a key counts as one.
pub const MAX_VALUES: usize = 1 << 20;

/// The key of the object that stands for a byte string.
const BYTES: &str = "$bytes";

/// How many bytes of a string are read at once.
const BUFFER_BYTES: usize = 4 << 10;

/// A document that can't be converted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CborError {
    /// The bytes are not valid CBOR.
    #[error("no valid CBOR at byte {0}")]
    Malformed(usize),
    /// The document ends too early.
    #[error("the CBOR is cut off")]
    CutOff,
    /// There is something after the value.
    #[error("bytes follow the CBOR value, from byte {0}")]
    Trailing(usize),
    /// Values nest too deeply.
    #[error("its values nest deeper than {MAX_DEPTH}")]
    TooDeep,
    /// It has too many values.
    #[error("it has more than {MAX_VALUES} values")]
    TooMany,
    /// JSON has no such value.
    #[error("JSON has no value for {0}")]
    NotJson(&'static str),
    /// A map has a key twice.
    #[error("a map has the key '{0}' twice")]
    Duplicate(String),
    /// An object with the key `$bytes` and no base64.
    #[error("{{\"$bytes\": ...}} has no base64 with padding")]
    NoBase64,
}

/// Converts a CBOR document to JSON. Tags are left out.
///
/// # Errors
/// Those of [`CborError`].
pub fn decode(bytes: &[u8]) -> Result<Value, CborError> {
    let mut reader = Reader { decoder: Decoder::from(bytes), left: MAX_VALUES };
    let value = reader.value(0)?;
    match reader.decoder.offset() {
        end if end == bytes.len() => Ok(value),
        end => Err(CborError::Trailing(end)),
    }
}

/// Converts JSON to deterministic CBOR.
///
/// # Errors
/// [`CborError::TooDeep`], and [`CborError::NoBase64`].
pub fn encode(value: &Value) -> Result<Vec<u8>, CborError> {
    let mut bytes = Vec::new();
    write(&mut Encoder::from(&mut bytes), value, 0)?;
    Ok(bytes)
}

struct Reader<'a> {
    decoder: Decoder<&'a [u8]>,
    /// How many values may follow.
    left: usize,
}

/// The error of the decoder. Reading from bytes in memory fails only at their end.
fn wrong<T>(error: Error<T>) -> CborError {
    match error {
        Error::Io(_) => CborError::CutOff,
        Error::Syntax(at) => CborError::Malformed(at),
    }
}

impl Reader<'_> {
    fn header(&mut self) -> Result<Header, CborError> {
        self.left = self.left.checked_sub(1).ok_or(CborError::TooMany)?;
        self.decoder.pull().map_err(wrong)
    }

    fn value(&mut self, depth: usize) -> Result<Value, CborError> {
        let header = self.header()?;
        self.rest(header, depth)
    }

    /// The value that begins with a header.
    fn rest(&mut self, header: Header, depth: usize) -> Result<Value, CborError> {
        if depth >= MAX_DEPTH {
            return Err(CborError::TooDeep);
        }
        Ok(match header {
            Header::Positive(number) => json!(number),
            Header::Negative(number) => match i64::try_from(number) {
                Ok(number) => json!(-1 - number),
                Err(_) => return Err(CborError::NotJson("an integer below -2^63")),
            },
            Header::Float(number) => match Number::from_f64(number) {
                Some(number) => Value::Number(number),
                None => return Err(CborError::NotJson("a number that is not finite")),
            },
            Header::Simple(simple::FALSE) => Value::Bool(false),
            Header::Simple(simple::TRUE) => Value::Bool(true),
            Header::Simple(simple::NULL | simple::UNDEFINED) => Value::Null,
            Header::Simple(_) => return Err(CborError::NotJson("a simple value")),
            Header::Tag(_) => self.value(depth + 1)?,
            Header::Text(length) => Value::String(self.text(length)?),
            Header::Bytes(length) => json!({ BYTES: STANDARD.encode(self.bytes(length)?) }),
            Header::Array(length) => self.array(length, depth + 1)?,
            Header::Map(length) => self.map(length, depth + 1)?,
            Header::Break => return Err(CborError::Malformed(self.decoder.offset())),
        })
    }

    /// The header of the next item of an array or a map; `None` after the last one.
    fn item(&mut self, left: &mut Option<usize>) -> Result<Option<Header>, CborError> {
        match left {
            Some(0) => Ok(None),
            Some(count) => {
                *count -= 1;
                self.header().map(Some)
            }
            None => Ok(Some(self.header()?).filter(|header| *header != Header::Break)),
        }
    }

    fn array(&mut self, mut length: Option<usize>, depth: usize) -> Result<Value, CborError> {
        let mut items = Vec::new();
        while let Some(header) = self.item(&mut length)? {
            items.push(self.rest(header, depth)?);
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, mut length: Option<usize>, depth: usize) -> Result<Value, CborError> {
        let mut fields = Map::new();
        while let Some(header) = self.item(&mut length)? {
            let Header::Text(of_key) = header else {
                return Err(CborError::NotJson("a key that is not text"));
            };
            let key = self.text(of_key)?;
            let key = if key.starts_with('$') { format!("${key}") } else { key };
            let value = self.value(depth)?;
            if fields.contains_key(&key) {
                return Err(CborError::Duplicate(key));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }

    fn bytes(&mut self, length: Option<usize>) -> Result<Vec<u8>, CborError> {
        let mut bytes = Vec::new();
        let mut buffer = [0; BUFFER_BYTES];
        let mut segments = self.decoder.bytes(length);
        while let Some(mut segment) = segments.pull().map_err(wrong)? {
            while let Some(part) = segment.pull(&mut buffer).map_err(wrong)? {
                bytes.extend_from_slice(part);
            }
        }
        Ok(bytes)
    }

    fn text(&mut self, length: Option<usize>) -> Result<String, CborError> {
        let mut text = String::new();
        let mut buffer = [0; BUFFER_BYTES];
        let mut segments = self.decoder.text(length);
        while let Some(mut segment) = segments.pull().map_err(wrong)? {
            while let Some(part) = segment.pull(&mut buffer).map_err(wrong)? {
                text.push_str(part);
            }
        }
        Ok(text)
    }
}

/// Writing to memory does not fail.
fn push(encoder: &mut Encoder<&mut Vec<u8>>, header: Header) {
    let _ = encoder.push(header);
}

fn write(
    encoder: &mut Encoder<&mut Vec<u8>>,
    value: &Value,
    depth: usize,
) -> Result<(), CborError> {
    if depth >= MAX_DEPTH {
        return Err(CborError::TooDeep);
    }
    match value {
        Value::Null => push(encoder, Header::Simple(simple::NULL)),
        Value::Bool(false) => push(encoder, Header::Simple(simple::FALSE)),
        Value::Bool(true) => push(encoder, Header::Simple(simple::TRUE)),
        Value::Number(number) => push(encoder, of_number(number)),
        Value::String(text) => {
            let _ = encoder.text(text, None);
        }
        Value::Array(items) => {
            push(encoder, Header::Array(Some(items.len())));
            items.iter().try_for_each(|item| write(encoder, item, depth + 1))?;
        }
        Value::Object(fields) => match fields.get(BYTES) {
            Some(value) if fields.len() == 1 => {
                let text = value.as_str().ok_or(CborError::NoBase64)?;
                let bytes = STANDARD.decode(text).map_err(|_| CborError::NoBase64)?;
                let _ = encoder.bytes(&bytes, None);
            }
            _ => fields_of(encoder, fields, depth)?,
        },
    }
    Ok(())
}

/// Writes a map with its keys in the order of their encoded forms: shorter ones first.
fn fields_of(
    encoder: &mut Encoder<&mut Vec<u8>>,
    fields: &Map<String, Value>,
    depth: usize,
) -> Result<(), CborError> {
    let name = |key: &'_ str| match key.strip_prefix("$$") {
        Some(rest) => format!("${rest}"),
        None => key.to_owned(),
    };
    let mut named: Vec<(String, &Value)> =
        fields.iter().map(|(key, value)| (name(key), value)).collect();
    named.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
    let distinct: HashSet<&String> = named.iter().map(|(key, _)| key).collect();
    if distinct.len() < named.len() {
        return Err(CborError::Duplicate(BYTES.to_owned()));
    }
    push(encoder, Header::Map(Some(named.len())));
    named.iter().try_for_each(|(key, value)| {
        let _ = encoder.text(key, None);
        write(encoder, value, depth + 1)
    })
}

fn of_number(number: &Number) -> Header {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => Header::Positive(number),
        // Of -1 - n, the complement of the bits.
        (None, Some(number)) => Header::Negative(!number as u64),
        (None, None) => Header::Float(number.as_f64().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn values_are_converted_in_both_directions() {
        for (value, bytes) in [
            (json!(null), &b"\xf6"[..]),
            (json!(true), b"\xf5"),
            (json!(0), b"\x00"),
            (json!(1000), b"\x19\x03\xe8"),
            (json!(u64::MAX), b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff"),
            (json!(-1), b"\x20"),
            (json!(i64::MIN), b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff"),
            (json!(1.5), b"\xf9\x3e\x00"),
            (json!("a\u{e9}"), b"\x63a\xc3\xa9"),
            (json!({"$bytes": "aGk="}), b"\x42hi"),
            (json!([1, [], {}]), b"\x83\x01\x80\xa0"),
            // Shorter keys are first, and `$` is doubled in JSON.
            (json!({"b": 1, "aa": 2, "$$x": 3}), b"\xa3\x61b\x01\x62$x\x03\x62aa\x02"),
            (json!({"$bytes": 1, "x": 2}), b"\xa2\x61x\x02\x66$bytes\x01"),
        ] {
            assert_eq!(encode(&value).unwrap(), bytes, "{value}");
            let back = decode(bytes).unwrap();
            // A map with `$bytes` among other keys comes back with one more `$`.
            assert_eq!(encode(&back).unwrap(), bytes, "{back}");
            if value.get("x").is_none() {
                assert_eq!(back, value);
            }
        }
    }

    #[test]
    fn lengths_may_be_unknown_and_tags_are_left_out() {
        for (bytes, value) in [
            (&b"\x9f\x01\x02\xff"[..], json!([1, 2])),
            (b"\xbf\x61a\x01\xff", json!({"a": 1})),
            (b"\x7f\x61a\x61b\xff", json!("ab")),
            (b"\x5f\x41h\x41i\xff", json!({"$bytes": "aGk="})),
            (b"\xc1\x01", json!(1)),
            (b"\xf7", json!(null)),
        ] {
            assert_eq!(decode(bytes).unwrap(), value);
        }
        let long = "é".repeat(BUFFER_BYTES);
        assert_eq!(decode(&encode(&json!(long)).unwrap()).unwrap(), long);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for (bytes, wanted) in [
            (&b""[..], CborError::CutOff),
            (b"\x1c", CborError::Malformed(0)),
            (b"\xff", CborError::Malformed(1)),
            (b"\x01\x02", CborError::Trailing(1)),
            (b"\x62a", CborError::CutOff),
            (b"\x5b\x7f\xff\xff\xff\xff\xff\xff\xff", CborError::CutOff),
            (b"\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", CborError::CutOff),
            (b"\xbb\x7f\xff\xff\xff\xff\xff\xff\xff", CborError::CutOff),
            (b"\x61\xff", CborError::Malformed(0)),
            (b"\xf9\x7c\x00", CborError::NotJson("a number that is not finite")),
            (b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff", CborError::NotJson("an integer below -2^63")),
            (b"\xa1\x01\x02", CborError::NotJson("a key that is not text")),
            (b"\xf0", CborError::NotJson("a simple value")),
            (b"\xa2\x61a\x01\x61a\x02", CborError::Duplicate("a".to_owned())),
        ] {
            assert_eq!(decode(bytes), Err(wanted), "{bytes:x?}");
        }
        assert_eq!(encode(&json!({"$bytes": "?"})), Err(CborError::NoBase64));
        assert_eq!(encode(&json!({"$bytes": 1})), Err(CborError::NoBase64));
        let twice = encode(&json!({"$$$x": 1, "$$x": 2, "$x": 3}));
        assert!(matches!(twice, Err(CborError::Duplicate(_))), "{twice:?}");
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        for open in [b'\x81', b'\xc1'] {
            let nested = |depth: usize| [vec![open; depth], vec![0]].concat();
            assert!(decode(&nested(MAX_DEPTH - 1)).is_ok());
            assert_eq!(decode(&nested(MAX_DEPTH)), Err(CborError::TooDeep));
            assert_eq!(decode(&nested(1 << 20)), Err(CborError::TooDeep));
        }
        let mut deep = json!(0);
        for _ in 0..MAX_DEPTH {
            deep = json!([deep]);
        }
        assert_eq!(encode(&deep), Err(CborError::TooDeep));
        let mut many = vec![0x9a, 0, 0x20, 0, 0];
        many.resize(many.len() + (2 << 20), 0);
        assert_eq!(decode(&many), Err(CborError::TooMany));
    }
}
