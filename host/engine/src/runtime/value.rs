//! Converts values of WIT types to JSON and back. [`cofferdam_plugin::typed`] derives schemas by
//! the same rules, so values that fit a derived schema are converted without loss in both
//! directions.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};
use wasmtime::component::{Type, Val, types};

use cofferdam_plugin::typed::{MAX_NAME_BYTES, MAX_TYPES};

/// The maximum number of values in the arguments or the result of a call, where each byte of a list
/// counts as one. wasmtime's own limit for results is about the same.
const MAX_VALUES: usize = 1 << 20;

/// How many names may be compared at the cost of one value: the engine can't interrupt the host,
/// and a list of a million values may have a type with thousands of cases.
const NAMES_PER_VALUE: usize = 8;

/// 2^53: up to here, floating-point numbers can represent all whole numbers.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A value that can't be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypeMismatch {
    /// A JSON Pointer to the value.
    pointer: String,
    what: String,
    /// Whether the value is too large, rather than of another type.
    pub(super) is_too_much: bool,
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", cofferdam_core::schema::place(&self.pointer), self.what)
    }
}

impl TypeMismatch {
    fn new(what: impl Into<String>) -> Self {
        Self { pointer: String::new(), what: what.into(), is_too_much: false }
    }

    fn expected(what: &str) -> Self {
        Self::new(format!("expected {what}"))
    }

    /// Returns the mismatch with `name` added to the front of its pointer.
    fn below(mut self, name: impl fmt::Display) -> Self {
        let name = cofferdam_core::schema::escape(&name.to_string());
        self.pointer.insert_str(0, &format!("/{name}"));
        self
    }
}

/// Checks that values of these types cost no more than their size suggests. This holds for types
/// that a manifest was derived from; a component with its own manifest may have any types.
///
/// # Errors
/// A description of the types that cost too much.
pub(super) fn check(types: impl Iterator<Item = Type>) -> Result<(), String> {
    let mut left = MAX_TYPES;
    let mut types: Vec<Type> = types.collect();
    while let Some(ty) = types.pop() {
        let mut names: Vec<String> = Vec::new();
        match &ty {
            Type::List(list) => types.push(list.ty()),
            Type::Option(option) => types.push(option.ty()),
            Type::Tuple(tuple) => types.extend(tuple.types()),
            Type::Result(result) => types.extend(result.ok().into_iter().chain(result.err())),
            Type::Record(record) => {
                names.extend(record.fields().map(|field| field.name.to_owned()));
                types.extend(record.fields().map(|field| field.ty));
            }
            Type::Variant(variant) => {
                names.extend(variant.cases().map(|case| case.name.to_owned()));
                types.extend(variant.cases().filter_map(|case| case.ty));
            }
            Type::Enum(of) => names.extend(of.names().map(str::to_owned)),
            Type::Flags(flags) => names.extend(flags.names().map(str::to_owned)),
            _ => {}
        }
        if names.iter().any(|name| name.len() > MAX_NAME_BYTES) {
            return Err(format!("its types have names of more than {MAX_NAME_BYTES} characters"));
        }
        // Each remaining type costs one as well.
        match left.checked_sub(1 + names.len()) {
            Some(rest) if rest >= types.len() => left = rest,
            _ => return Err(format!("its types come to more than {MAX_TYPES}")),
        }
    }
    Ok(())
}

/// Converts an object to the arguments of a function, one field for each parameter.
///
/// # Errors
/// See [`TypeMismatch`].
pub(super) fn arguments<'a>(
    args: &Value,
    parameters: impl Iterator<Item = (&'a str, Type)>,
) -> Result<Vec<Val>, TypeMismatch> {
    let types: Vec<(&str, Type)> = parameters.collect();
    let values = Budget::new().fields(args, types)?;
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

/// Converts a value to JSON.
///
/// # Errors
/// [`TypeMismatch`] if the value has a handle, a number that is not finite, or too many values.
pub(super) fn to_json(value: &Val, ty: &Type) -> Result<Value, TypeMismatch> {
    Budget::new().json(value, ty)
}

/// The value of a WIT `result`.
type Either = Result<Option<Box<Val>>, Option<Box<Val>>>;

/// The number of values that a call may still convert.
struct Budget {
    left: usize,
}

impl Budget {
    fn new() -> Self {
        Self { left: MAX_VALUES }
    }

    fn spend(&mut self, values: usize) -> Result<(), TypeMismatch> {
        let too_much = || TypeMismatch {
            is_too_much: true,
            ..TypeMismatch::new(format!("a call has at most {MAX_VALUES} values and bytes"))
        };
        self.left = self.left.checked_sub(values).ok_or_else(too_much)?;
        Ok(())
    }

    /// The values of an object's fields, in the order of the types. Fields of type `option` are
    /// optional.
    fn fields(
        &mut self,
        json: &Value,
        types: Vec<(&str, Type)>,
    ) -> Result<Vec<(String, Val)>, TypeMismatch> {
        let fields = json.as_object().ok_or_else(|| TypeMismatch::expected("an object"))?;
        let mut values = Vec::with_capacity(types.len());
        let mut left_out = 0;
        for (name, ty) in types {
            let value = match (fields.get(name), &ty) {
                (None, Type::Option(_)) => {
                    self.spend(1)?;
                    left_out += 1;
                    Val::Option(None)
                }
                (None, _) => return Err(TypeMismatch::new("this field is missing").below(name)),
                (Some(json), ty) => {
                    self.value(json, ty).map_err(|mismatch| mismatch.below(name))?
                }
            };
            values.push((name.to_owned(), value));
        }
        let is_unknown = |name: &&String| !values.iter().any(|(known, _)| known == *name);
        if fields.len() > values.len() - left_out
            && let Some(name) = fields.keys().find(is_unknown)
        {
            return Err(TypeMismatch::new("there is no such field").below(name));
        }
        Ok(values)
    }

    fn value(&mut self, json: &Value, ty: &Type) -> Result<Val, TypeMismatch> {
        self.spend(1)?;
        let text = || json.as_str().ok_or_else(|| TypeMismatch::expected("a string"));
        Ok(match ty {
            Type::Bool => {
                Val::Bool(json.as_bool().ok_or_else(|| TypeMismatch::expected("true or false"))?)
            }
            Type::S8 => Val::S8(integer(json)?),
            Type::U8 => Val::U8(integer(json)?),
            Type::S16 => Val::S16(integer(json)?),
            Type::U16 => Val::U16(integer(json)?),
            Type::S32 => Val::S32(integer(json)?),
            Type::U32 => Val::U32(integer(json)?),
            Type::S64 => Val::S64(integer(json)?),
            Type::U64 => Val::U64(integer(json)?),
            Type::Float32 => Val::Float32(number32(json)?),
            Type::Float64 => Val::Float64(number(json)?),
            Type::Char => Val::Char(character(text()?)?),
            Type::String => Val::String(text()?.to_owned()),
            Type::List(list) if list.ty() == Type::U8 => Val::List(self.bytes(text()?)?),
            Type::List(list) => Val::List(self.items(json, std::iter::repeat(list.ty()))?),
            Type::Tuple(tuple) => {
                let count = json.as_array().map_or(0, Vec::len);
                if count != tuple.types().len() {
                    let wanted = tuple.types().len();
                    return Err(TypeMismatch::expected(&format!("an array of {wanted} values")));
                }
                Val::Tuple(self.items(json, tuple.types())?)
            }
            Type::Record(record) => {
                let types = record.fields().map(|field| (field.name, field.ty)).collect();
                Val::Record(self.fields(json, types)?)
            }
            Type::Variant(variant) => self.variant(json, variant)?,
            Type::Enum(names) => {
                self.spend(names.names().len() / NAMES_PER_VALUE)?;
                Val::Enum(one_of(text()?, names.names())?)
            }
            Type::Flags(flags) => {
                let array = json.as_array().ok_or_else(|| TypeMismatch::expected("an array"))?;
                self.spend(array.len())?;
                let name = |json: &Value| {
                    let name = json.as_str().ok_or_else(|| TypeMismatch::expected("a string"))?;
                    one_of(name, flags.names())
                };
                Val::Flags(array.iter().map(name).collect::<Result<_, _>>()?)
            }
            Type::Option(_) if json.is_null() => Val::Option(None),
            Type::Option(option) => Val::Option(Some(Box::new(self.some(json, &option.ty())?))),
            Type::Result(result) => Val::Result(self.result(json, result)?),
            _ => return Err(no_json()),
        })
    }

    /// The bytes of a base64 text.
    fn bytes(&mut self, text: &str) -> Result<Vec<Val>, TypeMismatch> {
        let bytes = STANDARD
            .decode(text)
            .map_err(|error| TypeMismatch::new(format!("expected bytes as base64: {error}")))?;
        self.spend(bytes.len())?;
        Ok(bytes.into_iter().map(Val::U8).collect())
    }

    fn variant(&mut self, json: &Value, variant: &types::Variant) -> Result<Val, TypeMismatch> {
        let tag = json.get("tag").and_then(Value::as_str);
        let tag = tag.ok_or_else(|| TypeMismatch::expected("an object with a tag"))?;
        self.spend(variant.cases().len() / NAMES_PER_VALUE)?;
        let case = variant.cases().find(|case| case.name == tag);
        let case = case.ok_or_else(|| TypeMismatch::new("there is no such case").below("tag"))?;
        let payload = match (case.ty, json.get("value")) {
            (None, None) => None,
            (Some(ty), Some(json)) => {
                let value = self.value(json, &ty).map_err(|mismatch| mismatch.below("value"))?;
                Some(Box::new(value))
            }
            (None, Some(_)) => return Err(TypeMismatch::new(format!("'{tag}' has no value"))),
            (Some(_), None) => return Err(TypeMismatch::new(format!("'{tag}' has a value"))),
        };
        Ok(Val::Variant(tag.to_owned(), payload))
    }

    /// The value in an option that is not `none`.
    fn some(&mut self, json: &Value, ty: &Type) -> Result<Val, TypeMismatch> {
        match (ty, json.get("some")) {
            (Type::Option(_), None) => Err(TypeMismatch::expected("null or an object with 'some'")),
            (Type::Option(_), Some(json)) => {
                self.value(json, ty).map_err(|mismatch| mismatch.below("some"))
            }
            _ => self.value(json, ty),
        }
    }

    fn result(&mut self, json: &Value, result: &types::ResultType) -> Result<Either, TypeMismatch> {
        let mut side = |name: &str, ty: Option<Type>| match (json.get(name), ty) {
            (Some(json), Some(ty)) => {
                let value = self.value(json, &ty).map_err(|mismatch| mismatch.below(name))?;
                Ok(Some(Some(Box::new(value))))
            }
            (Some(Value::Null), None) => Ok(Some(None)),
            (Some(_), None) => Err(TypeMismatch::expected("null").below(name)),
            (None, _) => Ok(None),
        };
        match (side("ok", result.ok())?, side("err", result.err())?) {
            (Some(ok), None) => Ok(Ok(ok)),
            (None, Some(error)) => Ok(Err(error)),
            _ => Err(TypeMismatch::expected("an object with either 'ok' or 'err'")),
        }
    }

    fn items(
        &mut self,
        json: &Value,
        types: impl Iterator<Item = Type>,
    ) -> Result<Vec<Val>, TypeMismatch> {
        let array = json.as_array().ok_or_else(|| TypeMismatch::expected("an array"))?;
        array
            .iter()
            .zip(types)
            .enumerate()
            .map(|(index, (json, ty))| {
                self.value(json, &ty).map_err(|mismatch| mismatch.below(index))
            })
            .collect()
    }

    fn json(&mut self, value: &Val, ty: &Type) -> Result<Value, TypeMismatch> {
        self.spend(1)?;
        Ok(match (value, ty) {
            (Val::Bool(value), _) => json!(value),
            (Val::S8(value), _) => json!(value),
            (Val::U8(value), _) => json!(value),
            (Val::S16(value), _) => json!(value),
            (Val::U16(value), _) => json!(value),
            (Val::S32(value), _) => json!(value),
            (Val::U32(value), _) => json!(value),
            (Val::S64(value), _) => json!(value),
            (Val::U64(value), _) => json!(value),
            // The shortest decimal number for this value, rather than all digits of its 64-bit
            // equivalent.
            (Val::Float32(value), _) => {
                float(value.to_string().parse().unwrap_or(f64::from(*value)))?
            }
            (Val::Float64(value), _) => float(*value)?,
            (Val::Char(value), _) => json!(value),
            (Val::String(value), _) => json!(value),
            (Val::List(values), Type::List(list)) if list.ty() == Type::U8 => {
                self.spend(values.len())?;
                let bytes: Vec<u8> = values.iter().map_while(byte).collect();
                json!(STANDARD.encode(bytes))
            }
            (Val::List(values), Type::List(list)) => {
                self.array(values, std::iter::repeat(list.ty()))?
            }
            (Val::Tuple(values), Type::Tuple(tuple)) => self.array(values, tuple.types())?,
            (Val::Record(values), Type::Record(record)) => self.record(values, record)?,
            (Val::Variant(tag, None), _) => json!({ "tag": tag }),
            (Val::Variant(tag, Some(value)), Type::Variant(variant)) => {
                self.payload(tag, value, variant)?
            }
            (Val::Enum(name), _) => json!(name),
            (Val::Flags(names), _) => {
                self.spend(names.len())?;
                json!(names)
            }
            (Val::Option(None), _) => Value::Null,
            (Val::Option(Some(value)), Type::Option(option)) => match option.ty() {
                ty @ Type::Option(_) => self.object("some", value, &ty)?,
                ty => self.json(value, &ty)?,
            },
            (Val::Result(value), Type::Result(result)) => {
                let (name, value, ty) = match value {
                    Ok(value) => ("ok", value, result.ok()),
                    Err(value) => ("err", value, result.err()),
                };
                match (value, ty) {
                    (Some(value), Some(ty)) => self.object(name, value, &ty)?,
                    _ => json!({ name: null }),
                }
            }
            _ => return Err(no_json()),
        })
    }

    fn record(
        &mut self,
        values: &[(String, Val)],
        record: &types::Record,
    ) -> Result<Value, TypeMismatch> {
        let mut fields = Map::new();
        for ((name, value), field) in values.iter().zip(record.fields()) {
            let json = self.json(value, &field.ty).map_err(|mismatch| mismatch.below(name))?;
            fields.insert(name.clone(), json);
        }
        Ok(Value::Object(fields))
    }

    /// A case of a variant with a value.
    fn payload(
        &mut self,
        tag: &str,
        value: &Val,
        variant: &types::Variant,
    ) -> Result<Value, TypeMismatch> {
        self.spend(variant.cases().len() / NAMES_PER_VALUE)?;
        let case = variant.cases().find(|case| case.name == tag);
        let ty = case.and_then(|case| case.ty).ok_or_else(no_json)?;
        let json = self.json(value, &ty).map_err(|mismatch| mismatch.below("value"))?;
        Ok(json!({ "tag": tag, "value": json }))
    }

    fn array(
        &mut self,
        values: &[Val],
        types: impl Iterator<Item = Type>,
    ) -> Result<Value, TypeMismatch> {
        let items = values.iter().zip(types).enumerate();
        items
            .map(|(index, (value, ty))| {
                self.json(value, &ty).map_err(|mismatch| mismatch.below(index))
            })
            .collect()
    }

    fn object(&mut self, name: &str, value: &Val, ty: &Type) -> Result<Value, TypeMismatch> {
        let json = self.json(value, ty).map_err(|mismatch| mismatch.below(name))?;
        Ok(json!({ name: json }))
    }
}

fn byte(value: &Val) -> Option<u8> {
    match value {
        Val::U8(byte) => Some(*byte),
        _ => None,
    }
}

fn no_json() -> TypeMismatch {
    TypeMismatch::new("a value that is a handle, or of a type that this engine does not have")
}

fn float(value: f64) -> Result<Value, TypeMismatch> {
    let number = Number::from_f64(value);
    let none = || TypeMismatch::new(format!("{value} is no number that JSON has"));
    number.map(Value::Number).ok_or_else(none)
}

fn number(json: &Value) -> Result<f64, TypeMismatch> {
    json.as_f64().ok_or_else(|| TypeMismatch::expected("a number"))
}

fn number32(json: &Value) -> Result<f32, TypeMismatch> {
    let number = number(json)? as f32;
    if number.is_infinite() {
        return Err(TypeMismatch::expected("a number that fits 32 bits"));
    }
    Ok(number)
}

fn character(text: &str) -> Result<char, TypeMismatch> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(character), None) => Ok(character),
        _ => Err(TypeMismatch::expected("a string of one character")),
    }
}

/// A whole number in any notation: `1`, `1.0`, `1e0`.
fn integer<T: TryFrom<i128>>(json: &Value) -> Result<T, TypeMismatch> {
    let whole = |number: f64| {
        (number.fract() == 0.0 && number.abs() <= MAX_EXACT_INTEGER).then_some(number as i128)
    };
    let number = (json.as_i64().map(i128::from))
        .or_else(|| json.as_u64().map(i128::from))
        .or_else(|| json.as_f64().and_then(whole))
        .ok_or_else(|| TypeMismatch::expected("an integer"))?;
    T::try_from(number).map_err(|_| TypeMismatch::new("the integer is out of range"))
}

fn one_of<'a>(
    name: &str,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<String, TypeMismatch> {
    let found = names.find(|known| *known == name);
    found.map(str::to_owned).ok_or_else(|| TypeMismatch::new("there is no such name"))
}

#[cfg(test)]
mod tests;
