//! Values of WIT types as JSON and back. [`cofferdam_plugin::typed`] says the same as schemas, so
//! what fits a derived schema is converted without loss in both directions.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value, json};
use wasmtime::component::{Type, Val};

use cofferdam_plugin::typed::{MAX_NAME_BYTES, MAX_TYPES};

/// How many values the arguments or the answer of a call may be, each byte of a list counted.
/// wasmtime's own limit for an answer is about the same.
const MAX_VALUES: usize = 1 << 20;

/// How many names may be looked at for the price of a value: the engine can't interrupt the host,
/// and a list of a million values may be of a type with thousands of cases.
const NAMES: usize = 8;

/// The largest whole number up to which floating-point numbers have all of them.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A value that can't be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    /// JSON Pointer to the value.
    pointer: String,
    what: String,
    /// Whether there is too much of it, and not something wrong with it.
    pub(super) is_too_much: bool,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", cofferdam_core::schema::place(&self.pointer), self.what)
    }
}

impl Misfit {
    fn new(what: impl Into<String>) -> Self {
        Self { pointer: String::new(), what: what.into(), is_too_much: false }
    }

    fn expected(what: &str) -> Self {
        Self::new(format!("expected {what}"))
    }

    /// The same, of a value that stands below another one.
    fn below(mut self, name: impl fmt::Display) -> Self {
        let name = cofferdam_core::schema::escape(&name.to_string());
        self.pointer.insert_str(0, &format!("/{name}"));
        self
    }
}

/// Whether values of these types cost no more than they look like. Types that a manifest was
/// derived from do; a component with a manifest of its own may have any.
///
/// # Errors
/// Why not.
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
        // Each type that is still to be looked at costs one as well.
        match left.checked_sub(1 + names.len()) {
            Some(rest) if rest >= types.len() => left = rest,
            _ => return Err(format!("its types come to more than {MAX_TYPES}")),
        }
    }
    Ok(())
}

/// What a function's parameters get, of an object with their names.
///
/// # Errors
/// See [`Misfit`].
pub(super) fn arguments<'a>(
    args: &Value,
    parameters: impl Iterator<Item = (&'a str, Type)>,
) -> Result<Vec<Val>, Misfit> {
    let types: Vec<(&str, Type)> = parameters.collect();
    let values = Budget::new().fields(args, types)?;
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

/// A value as JSON.
///
/// # Errors
/// What JSON does not have: handles, and numbers that are not finite; too many values.
pub(super) fn to_json(value: &Val, ty: &Type) -> Result<Value, Misfit> {
    Budget::new().json(value, ty)
}

/// What is left of the values that a call may have.
struct Budget {
    left: usize,
}

impl Budget {
    fn new() -> Self {
        Self { left: MAX_VALUES }
    }

    fn spend(&mut self, values: usize) -> Result<(), Misfit> {
        let too_much = || Misfit {
            is_too_much: true,
            ..Misfit::new(format!("a call has at most {MAX_VALUES} values and bytes"))
        };
        self.left = self.left.checked_sub(values).ok_or_else(too_much)?;
        Ok(())
    }

    /// The values of an object's fields, in the order of the types. An option may be left out.
    fn fields(
        &mut self,
        json: &Value,
        types: Vec<(&str, Type)>,
    ) -> Result<Vec<(String, Val)>, Misfit> {
        let fields = json.as_object().ok_or_else(|| Misfit::expected("an object"))?;
        let mut values = Vec::with_capacity(types.len());
        let mut left_out = 0;
        for (name, ty) in types {
            let value = match (fields.get(name), &ty) {
                (None, Type::Option(_)) => {
                    self.spend(1)?;
                    left_out += 1;
                    Val::Option(None)
                }
                (None, _) => return Err(Misfit::new("this field is missing").below(name)),
                (Some(json), ty) => self.value(json, ty).map_err(|misfit| misfit.below(name))?,
            };
            values.push((name.to_owned(), value));
        }
        let is_unknown = |name: &&String| !values.iter().any(|(known, _)| known == *name);
        if fields.len() > values.len() - left_out
            && let Some(name) = fields.keys().find(is_unknown)
        {
            return Err(Misfit::new("there is no such field").below(name));
        }
        Ok(values)
    }

    fn value(&mut self, json: &Value, ty: &Type) -> Result<Val, Misfit> {
        self.spend(1)?;
        let text = || json.as_str().ok_or_else(|| Misfit::expected("a string"));
        Ok(match ty {
            Type::Bool => {
                Val::Bool(json.as_bool().ok_or_else(|| Misfit::expected("true or false"))?)
            }
            Type::S8 => Val::S8(integer(json)?),
            Type::U8 => Val::U8(integer(json)?),
            Type::S16 => Val::S16(integer(json)?),
            Type::U16 => Val::U16(integer(json)?),
            Type::S32 => Val::S32(integer(json)?),
            Type::U32 => Val::U32(integer(json)?),
            Type::S64 => Val::S64(integer(json)?),
            Type::U64 => Val::U64(integer(json)?),
            Type::Float32 => {
                let number = number(json)? as f32;
                if number.is_infinite() {
                    return Err(Misfit::expected("a number that fits 32 bits"));
                }
                Val::Float32(number)
            }
            Type::Float64 => Val::Float64(number(json)?),
            Type::Char => {
                let mut characters = text()?.chars();
                match (characters.next(), characters.next()) {
                    (Some(character), None) => Val::Char(character),
                    _ => return Err(Misfit::expected("a string of one character")),
                }
            }
            Type::String => Val::String(text()?.to_owned()),
            Type::List(list) if list.ty() == Type::U8 => {
                let bytes = STANDARD
                    .decode(text()?)
                    .map_err(|error| Misfit::new(format!("expected bytes as base64: {error}")))?;
                self.spend(bytes.len())?;
                Val::List(bytes.into_iter().map(Val::U8).collect())
            }
            Type::List(list) => {
                let element = list.ty();
                Val::List(self.items(json, std::iter::repeat(element))?)
            }
            Type::Tuple(tuple) => {
                let count = json.as_array().map_or(0, Vec::len);
                if count != tuple.types().len() {
                    let wanted = tuple.types().len();
                    return Err(Misfit::expected(&format!("an array of {wanted} values")));
                }
                Val::Tuple(self.items(json, tuple.types())?)
            }
            Type::Record(record) => {
                let types = record.fields().map(|field| (field.name, field.ty)).collect();
                Val::Record(self.fields(json, types)?)
            }
            Type::Variant(variant) => {
                let tag = json.get("tag").and_then(Value::as_str);
                let tag = tag.ok_or_else(|| Misfit::expected("an object with a tag"))?;
                self.spend(variant.cases().len() / NAMES)?;
                let case = variant.cases().find(|case| case.name == tag);
                let case = case.ok_or_else(|| Misfit::new("there is no such case").below("tag"))?;
                let payload = match (case.ty, json.get("value")) {
                    (None, None) => None,
                    (Some(ty), Some(json)) => {
                        let value =
                            self.value(json, &ty).map_err(|misfit| misfit.below("value"))?;
                        Some(Box::new(value))
                    }
                    (None, Some(_)) => return Err(Misfit::new(format!("'{tag}' has no value"))),
                    (Some(_), None) => return Err(Misfit::new(format!("'{tag}' has a value"))),
                };
                Val::Variant(tag.to_owned(), payload)
            }
            Type::Enum(names) => {
                self.spend(names.names().len() / NAMES)?;
                Val::Enum(one_of(text()?, names.names())?)
            }
            Type::Flags(flags) => {
                let array = json.as_array().ok_or_else(|| Misfit::expected("an array"))?;
                self.spend(array.len())?;
                let name = |json: &Value| {
                    let name = json.as_str().ok_or_else(|| Misfit::expected("a string"))?;
                    one_of(name, flags.names())
                };
                Val::Flags(array.iter().map(name).collect::<Result<_, _>>()?)
            }
            Type::Option(_) if json.is_null() => Val::Option(None),
            Type::Option(option) => {
                let ty = option.ty();
                let inner = match (&ty, json.get("some")) {
                    (Type::Option(_), None) => {
                        return Err(Misfit::expected("null or an object with 'some'"));
                    }
                    (Type::Option(_), Some(json)) => {
                        self.value(json, &ty).map_err(|misfit| misfit.below("some"))?
                    }
                    _ => self.value(json, &ty)?,
                };
                Val::Option(Some(Box::new(inner)))
            }
            Type::Result(result) => {
                let mut side = |name: &str, ty: Option<Type>| match (json.get(name), ty) {
                    (Some(json), Some(ty)) => {
                        let value = self.value(json, &ty).map_err(|misfit| misfit.below(name))?;
                        Ok(Some(Some(Box::new(value))))
                    }
                    (Some(Value::Null), None) => Ok(Some(None)),
                    (Some(_), None) => Err(Misfit::expected("null").below(name)),
                    (None, _) => Ok(None),
                };
                match (side("ok", result.ok())?, side("err", result.err())?) {
                    (Some(ok), None) => Val::Result(Ok(ok)),
                    (None, Some(error)) => Val::Result(Err(error)),
                    _ => return Err(Misfit::expected("an object with either 'ok' or 'err'")),
                }
            }
            _ => return Err(no_json()),
        })
    }

    fn items(
        &mut self,
        json: &Value,
        types: impl Iterator<Item = Type>,
    ) -> Result<Vec<Val>, Misfit> {
        let array = json.as_array().ok_or_else(|| Misfit::expected("an array"))?;
        array
            .iter()
            .zip(types)
            .enumerate()
            .map(|(index, (json, ty))| self.value(json, &ty).map_err(|misfit| misfit.below(index)))
            .collect()
    }

    fn json(&mut self, value: &Val, ty: &Type) -> Result<Value, Misfit> {
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
            // The shortest number that means this one, and not all the digits that its 32 bits
            // have as 64.
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
            (Val::Record(values), Type::Record(record)) => {
                let mut fields = Map::new();
                for ((name, value), field) in values.iter().zip(record.fields()) {
                    let json = self.json(value, &field.ty).map_err(|misfit| misfit.below(name))?;
                    fields.insert(name.clone(), json);
                }
                Value::Object(fields)
            }
            (Val::Variant(tag, None), _) => json!({ "tag": tag }),
            (Val::Variant(tag, Some(value)), Type::Variant(variant)) => {
                self.spend(variant.cases().len() / NAMES)?;
                let case = variant.cases().find(|case| case.name == tag);
                let ty = case.and_then(|case| case.ty).ok_or_else(no_json)?;
                let json = self.json(value, &ty).map_err(|misfit| misfit.below("value"))?;
                json!({ "tag": tag, "value": json })
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

    fn array(
        &mut self,
        values: &[Val],
        types: impl Iterator<Item = Type>,
    ) -> Result<Value, Misfit> {
        let items = values.iter().zip(types).enumerate();
        items
            .map(|(index, (value, ty))| self.json(value, &ty).map_err(|misfit| misfit.below(index)))
            .collect()
    }

    fn object(&mut self, name: &str, value: &Val, ty: &Type) -> Result<Value, Misfit> {
        let json = self.json(value, ty).map_err(|misfit| misfit.below(name))?;
        Ok(json!({ name: json }))
    }
}

fn byte(value: &Val) -> Option<u8> {
    match value {
        Val::U8(byte) => Some(*byte),
        _ => None,
    }
}

fn no_json() -> Misfit {
    Misfit::new("a value that is a handle, or of a type that this engine does not have")
}

fn float(value: f64) -> Result<Value, Misfit> {
    let number = Number::from_f64(value);
    let none = || Misfit::new(format!("{value} is no number that JSON has"));
    number.map(Value::Number).ok_or_else(none)
}

fn number(json: &Value) -> Result<f64, Misfit> {
    json.as_f64().ok_or_else(|| Misfit::expected("a number"))
}

/// A whole number, written in any way that means exactly it: `1`, `1.0`, `1e0`.
fn integer<T: TryFrom<i128>>(json: &Value) -> Result<T, Misfit> {
    let whole =
        |number: f64| (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i128);
    let number = (json.as_i64().map(i128::from))
        .or_else(|| json.as_u64().map(i128::from))
        .or_else(|| json.as_f64().and_then(whole))
        .ok_or_else(|| Misfit::expected("an integer"))?;
    T::try_from(number).map_err(|_| Misfit::new("the integer is out of range"))
}

fn one_of<'a>(name: &str, mut names: impl Iterator<Item = &'a str>) -> Result<String, Misfit> {
    let found = names.find(|known| *known == name);
    found.map(str::to_owned).ok_or_else(|| Misfit::new("there is no such name"))
}

#[cfg(test)]
mod tests;
