//! Values of Python as JSON, and back.

use monty_types::{DictPairs, MontyObject};
use num_bigint::BigInt;
use serde_json::{Map, Number, Value};

/// The deepest nesting of a value that is converted: the host takes at most 127 levels.
const MAX_DEPTH: usize = 100;

/// Converts JSON to a value of Python.
pub fn from_json(value: Value) -> MontyObject {
    match value {
        Value::Null => MontyObject::None,
        Value::Bool(value) => MontyObject::Bool(value),
        Value::Number(number) => from_number(&number),
        Value::String(text) => MontyObject::String(text),
        Value::Array(items) => MontyObject::List(items.into_iter().map(from_json).collect()),
        Value::Object(fields) => {
            let pair = |(key, value)| (MontyObject::String(key), from_json(value));
            MontyObject::Dict(fields.into_iter().map(pair).collect::<DictPairs>())
        }
    }
}

fn from_number(number: &Number) -> MontyObject {
    match (number.as_i64(), number.as_u64()) {
        (Some(integer), _) => MontyObject::Int(integer),
        (None, Some(integer)) => MontyObject::BigInt(BigInt::from(integer)),
        (None, None) => MontyObject::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

/// Converts a value of Python to JSON, as `json.dumps` would: tuples become lists, and keys strings.
/// Sets become lists as well.
///
/// # Errors
/// What can't be JSON, and where: `[0].name: a function`.
pub fn to_json(value: &MontyObject) -> Result<Value, String> {
    at(value, 0).map_err(|(place, what)| match place.is_empty() {
        true => what,
        false => format!("{place}: {what}"),
    })
}

type Found = Result<Value, (String, String)>;

fn at(value: &MontyObject, depth: usize) -> Found {
    if depth > MAX_DEPTH {
        return Err((String::new(), format!("nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(match value {
        MontyObject::None => Value::Null,
        MontyObject::Bool(value) => Value::Bool(*value),
        MontyObject::Int(value) => Value::from(*value),
        MontyObject::BigInt(value) => match u64::try_from(value) {
            Ok(value) => Value::from(value),
            Err(_) => return Err((String::new(), "an integer of more than 64 bits".to_owned())),
        },
        MontyObject::Float(value) => match Number::from_f64(*value) {
            Some(number) => Value::Number(number),
            None => return Err((String::new(), format!("the float {value}"))),
        },
        MontyObject::String(text) | MontyObject::Path(text) => Value::String(text.clone()),
        MontyObject::List(items)
        | MontyObject::Tuple(items)
        | MontyObject::Set(items)
        | MontyObject::FrozenSet(items)
        | MontyObject::NamedTuple { values: items, .. } => list(items, depth)?,
        MontyObject::Dict(pairs) => object(pairs, depth)?,
        other => {
            return Err((String::new(), format!("{} has no form in JSON", shown(other))));
        }
    })
}

fn list(items: &[MontyObject], depth: usize) -> Found {
    let item = |(index, item)| {
        at(item, depth + 1).map_err(|(place, what)| (format!("[{index}]{place}"), what))
    };
    Ok(Value::Array(items.iter().enumerate().map(item).collect::<Result<_, _>>()?))
}

fn object(pairs: &DictPairs, depth: usize) -> Found {
    let mut fields = Map::new();
    for (key, value) in pairs {
        let key = match key {
            MontyObject::String(text) => text.clone(),
            MontyObject::Int(_) | MontyObject::Float(_) => key.py_repr(),
            MontyObject::Bool(value) => value.to_string(),
            MontyObject::None => "null".to_owned(),
            other => {
                return Err((String::new(), format!("the key {} is no string", shown(other))));
            }
        };
        let value = at(value, depth + 1).map_err(|(place, what)| {
            (format!(".{}{place}", cofferdam_sdk::shorten(&key, 80)), what)
        })?;
        fields.insert(key, value);
    }
    Ok(Value::Object(fields))
}

/// The beginning of a value as Python shows it.
fn shown(value: &MontyObject) -> String {
    match value {
        MontyObject::Repr(text) | MontyObject::Cycle(_, text) => {
            cofferdam_sdk::shorten(text, 80).into_owned()
        }
        MontyObject::ClassInstance(instance) => {
            format!("an instance of {}", instance.class_type.name)
        }
        other => cofferdam_sdk::shorten(&other.py_repr(), 80).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn json_round_trips() {
        let value = json!({"a": [1, -1, 1.5, true, null, "ü", {}], "b": u64::MAX, "c": i64::MIN});
        assert_eq!(to_json(&from_json(value.clone())).unwrap(), value);
    }

    #[test]
    fn what_is_no_json_is_named_with_its_place() {
        let dict = |key, value| MontyObject::Dict([(key, value)].into_iter().collect());
        let deep = (0..200).fold(MontyObject::None, |inner, _| MontyObject::List(vec![inner]));
        for (value, wanted) in [
            (MontyObject::Float(f64::NAN), "the float NaN"),
            (MontyObject::BigInt(BigInt::from(u64::MAX) + 1), "more than 64 bits"),
            (
                dict(
                    MontyObject::String("a".to_owned()),
                    MontyObject::Tuple(vec![MontyObject::None, MontyObject::Ellipsis]),
                ),
                ".a[1]: Ellipsis has no form in JSON",
            ),
            (dict(MontyObject::Tuple(vec![]), MontyObject::None), "the key () is no string"),
            (deep, "nested deeper than 100 levels"),
        ] {
            let error = to_json(&value).unwrap_err();
            assert!(error.ends_with(wanted), "{error}");
        }
        assert_eq!(
            to_json(&dict(MontyObject::Int(1), MontyObject::None)).unwrap(),
            json!({"1": null})
        );
    }
}
