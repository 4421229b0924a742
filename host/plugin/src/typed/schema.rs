//! The JSON Schema of the JSON form of each WIT type. docs/plugins.md has the table;
//! [`cofferdam_engine::runtime`] converts values by it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use wasmparser::PrimitiveValType as Primitive;
use wasmparser::component_types::{
    ComponentDefinedType, ComponentDefinedTypeId, ComponentValType, RecordType, VariantType,
};
use wasmparser::types::TypesRef;

use super::docs::TypeDocs;
use cofferdam_core::envelope::KEPT;
use cofferdam_core::schema::CONTENT;
use cofferdam_text::shorten;

/// The largest nesting depth of types. A level of types is at most four levels of a schema, and
/// JSON is limited to 127 levels.
const MAX_DEPTH: usize = 24;

/// The largest number of types in all functions of a component together.
const MAX_COMPONENT_TYPES: usize = 20_000;

/// The largest 32-bit number in as few digits as identify it.
const MAX_F32: f64 = 3.402_823_5e38;

/// The longest name of a field, a case or a parameter in bytes: the engine copies it for each
/// value.
pub const MAX_NAME_BYTES: usize = 100;

/// The largest number of types, fields and cases of a function, each counted as often as it is
/// used.
pub const MAX_TYPES: usize = 2_000;

/// The longest description of a field in bytes.
const MAX_DESCRIPTION_BYTES: usize = 1 << 10;

/// Generates schemas from types.
pub(super) struct Schemas<'a> {
    types: TypesRef<'a>,
    docs: HashMap<ComponentDefinedTypeId, &'a TypeDocs>,
    left: usize,
    left_in_function: usize,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(
        types: TypesRef<'a>,
        docs: HashMap<ComponentDefinedTypeId, &'a TypeDocs>,
    ) -> Self {
        Self { types, docs, left: MAX_COMPONENT_TYPES, left_in_function: MAX_TYPES }
    }

    /// Resets the count for the next function.
    pub(super) fn begin(&mut self) {
        self.left_in_function = MAX_TYPES;
    }

    /// The schema of a type, or why there is none, as a phrase that follows "takes" or "answers".
    pub(super) fn of(&mut self, ty: &ComponentValType) -> Result<Value, String> {
        self.at(ty, 0)
    }

    /// Whether a value may be omitted.
    pub(super) fn is_option(&self, ty: &ComponentValType) -> bool {
        matches!(self.defined(ty), Some(ComponentDefinedType::Option { .. }))
    }

    /// The types of `ok` and `err` if the type is a `result`.
    pub(super) fn result(
        &self,
        ty: &ComponentValType,
    ) -> Option<(Option<ComponentValType>, Option<ComponentValType>)> {
        match self.defined(ty) {
            Some(ComponentDefinedType::Result { ok, err, .. }) => Some((*ok, *err)),
            _ => None,
        }
    }

    fn defined(&self, ty: &ComponentValType) -> Option<&'a ComponentDefinedType> {
        match ty {
            ComponentValType::Primitive(_) => None,
            ComponentValType::Type(id) => {
                // The indexed type lives as long as the types, which the index operator can't
                // express.
                let types = self.types;
                types.get(*id)
            }
        }
    }

    fn at(&mut self, ty: &ComponentValType, depth: usize) -> Result<Value, String> {
        if depth == MAX_DEPTH {
            return Err(format!("types that nest deeper than {MAX_DEPTH}"));
        }
        self.spend(1)?;
        let defined = match ty {
            ComponentValType::Primitive(primitive) => return self::primitive(*primitive),
            ComponentValType::Type(_) => self.defined(ty),
        };
        let defined = defined.ok_or_else(|| "a type that is not there".to_owned())?;
        let docs = match ty {
            ComponentValType::Type(id) => self.docs.get(id).copied(),
            ComponentValType::Primitive(_) => None,
        };
        let mut schema = self.inside(defined, docs, depth + 1)?;
        if let Some(text) = docs.and_then(|docs| docs.docs.as_deref()) {
            describe(&mut schema, text);
        }
        Ok(schema)
    }

    /// Counts names and checks their lengths.
    pub(super) fn name<'n>(&mut self, names: impl Iterator<Item = &'n str>) -> Result<(), String> {
        for name in names {
            if name.len() > MAX_NAME_BYTES {
                return Err(format!("names of more than {MAX_NAME_BYTES} characters"));
            }
            self.spend(1)?;
        }
        Ok(())
    }

    fn spend(&mut self, types: usize) -> Result<(), String> {
        let too_many = || "too many types and cases".to_owned();
        self.left = self.left.checked_sub(types).ok_or_else(too_many)?;
        self.left_in_function = self.left_in_function.checked_sub(types).ok_or_else(too_many)?;
        Ok(())
    }

    fn inside(
        &mut self,
        ty: &ComponentDefinedType,
        docs: Option<&TypeDocs>,
        depth: usize,
    ) -> Result<Value, String> {
        Ok(match ty {
            ComponentDefinedType::Primitive(primitive) => self::primitive(*primitive)?,
            ComponentDefinedType::Record(record) => self.record(record, docs, depth)?,
            ComponentDefinedType::Variant(variant) => self.variant(variant, docs, depth)?,
            ComponentDefinedType::Enum(names) => {
                self.name(names.iter().map(|name| name.as_str()))?;
                json!({ "type": "string", "enum": names.iter().map(|name| name.as_str()).collect::<Vec<_>>() })
            }
            ComponentDefinedType::Flags(names) => {
                self.name(names.iter().map(|name| name.as_str()))?;
                let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
                json!({ "type": "array", "items": { "enum": names }, "uniqueItems": true })
            }
            ComponentDefinedType::List { element, .. } if self.is_byte(element) => {
                json!({ "type": "string", "contentEncoding": "base64" })
            }
            ComponentDefinedType::List { element, .. } => {
                json!({ "type": "array", "items": self.at(element, depth)? })
            }
            ComponentDefinedType::Tuple(tuple) => {
                let items: Vec<Value> =
                    tuple.types.iter().map(|ty| self.at(ty, depth)).collect::<Result<_, _>>()?;
                let count = items.len();
                json!({ "type": "array", "prefixItems": items, "minItems": count, "maxItems": count })
            }
            ComponentDefinedType::Option { ty, .. } => {
                let inner = self.at(ty, depth)?;
                let inner = if self.is_option(ty) { wrapped("some", Some(inner)) } else { inner };
                or_null(inner)
            }
            ComponentDefinedType::Result { ok, err, .. } => {
                let mut side = |name: &str, ty: &Option<ComponentValType>| {
                    let schema = ty.as_ref().map(|ty| self.at(ty, depth)).transpose()?;
                    Ok::<_, String>(wrapped(name, Some(schema.unwrap_or(json!({"type": "null"})))))
                };
                json!({ "oneOf": [side("ok", ok)?, side("err", err)?] })
            }
            ComponentDefinedType::Own(_) | ComponentDefinedType::Borrow(_) => {
                return Err("a resource, which would not outlive a call".to_owned());
            }
            ComponentDefinedType::Future { .. } => return Err("a future".to_owned()),
            ComponentDefinedType::Stream { .. } => return Err("a stream".to_owned()),
            ComponentDefinedType::Map { .. } | ComponentDefinedType::FixedLengthList { .. } => {
                return Err("a type that this engine does not have".to_owned());
            }
        })
    }

    fn record(
        &mut self,
        record: &RecordType,
        docs: Option<&TypeDocs>,
        depth: usize,
    ) -> Result<Value, String> {
        self.name(record.fields.keys().map(|name| name.as_str()))?;
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, ty) in &record.fields {
            let mut schema = self.at(ty, depth)?;
            if let Some(text) = docs.and_then(|docs| docs.items.get(name.as_str())) {
                describe(&mut schema, text);
            }
            properties.insert(name.to_string(), schema);
            if !self.is_option(ty) {
                required.push(json!(name.as_str()));
            }
        }
        Ok(object(properties, required))
    }

    fn variant(
        &mut self,
        variant: &VariantType,
        docs: Option<&TypeDocs>,
        depth: usize,
    ) -> Result<Value, String> {
        self.name(variant.cases.keys().map(|name| name.as_str()))?;
        let mut cases = Vec::new();
        for (name, case) in &variant.cases {
            let mut tag = json!({ "const": name.as_str() });
            if let Some(text) = docs.and_then(|docs| docs.items.get(name.as_str())) {
                describe(&mut tag, text);
            }
            let mut properties = Map::from_iter([("tag".to_owned(), tag)]);
            let mut required = vec![json!("tag")];
            if let Some(ty) = &case.ty {
                properties.insert("value".to_owned(), self.at(ty, depth)?);
                required.push(json!("value"));
            }
            cases.push(object(properties, required));
        }
        Ok(json!({ "oneOf": cases }))
    }

    fn is_byte(&self, ty: &ComponentValType) -> bool {
        match ty {
            ComponentValType::Primitive(primitive) => *primitive == Primitive::U8,
            ComponentValType::Type(_) => {
                matches!(self.defined(ty), Some(ComponentDefinedType::Primitive(Primitive::U8)))
            }
        }
    }
}

/// The schema of an object with these fields and no others.
pub(super) fn object(properties: Map<String, Value>, required: Vec<Value>) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Marks what is content with a media type in the output schema of a function: a record with the string
/// `mime-type` and the bytes `data`, or a list of them. MCP clients get the bytes apart, so an answer may
/// lack them.
pub(super) fn with_content(mut output: Value) -> Value {
    for place in ["/properties/result", "/properties/result/items"] {
        let Some(record) = output.pointer_mut(place) else { continue };
        let fields = &record["properties"];
        if fields["mime-type"]["type"] == "string" && fields["data"]["contentEncoding"] == "base64"
        {
            record[CONTENT] = KEPT.into();
            if let Some(required) = record["required"].as_array_mut() {
                required.retain(|name| name != "data");
            }
        }
    }
    output
}

/// The schema of an object with a value as its only field; without a schema, of an empty object.
pub(super) fn wrapped(name: &str, value: Option<Value>) -> Value {
    let required = value.iter().map(|_| json!(name)).collect();
    object(value.map(|value| (name.to_owned(), value)).into_iter().collect(), required)
}

fn primitive(ty: Primitive) -> Result<Value, String> {
    let between =
        |least: i64, most: u64| json!({ "type": "integer", "minimum": least, "maximum": most });
    Ok(match ty {
        Primitive::Bool => json!({ "type": "boolean" }),
        Primitive::S8 => between(i8::MIN.into(), i8::MAX as u64),
        Primitive::U8 => between(0, u8::MAX.into()),
        Primitive::S16 => between(i16::MIN.into(), i16::MAX as u64),
        Primitive::U16 => between(0, u16::MAX.into()),
        Primitive::S32 => between(i32::MIN.into(), i32::MAX as u64),
        Primitive::U32 => between(0, u32::MAX.into()),
        Primitive::S64 => between(i64::MIN, i64::MAX as u64),
        Primitive::U64 => between(0, u64::MAX),
        Primitive::F32 => json!({ "type": "number", "minimum": -MAX_F32, "maximum": MAX_F32 }),
        Primitive::F64 => json!({ "type": "number" }),
        Primitive::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        Primitive::String => json!({ "type": "string" }),
        Primitive::ErrorContext => return Err("an error context".to_owned()),
    })
}

/// A schema that also accepts null.
fn or_null(schema: Value) -> Value {
    let mut schema = schema;
    match schema.get_mut("type") {
        // Other keywords apply to values of the type only; of null, only `type` and `enum` are
        // checked.
        Some(Value::String(name)) if name != "null" => {
            let both = json!([*name, "null"]);
            if schema.get("enum").is_none() {
                schema["type"] = both;
                return schema;
            }
        }
        _ => {}
    }
    json!({ "anyOf": [schema, { "type": "null" }] })
}

fn describe(schema: &mut Value, text: &str) {
    let text = text.trim();
    if let Some(fields) = schema.as_object_mut()
        && !text.is_empty()
    {
        fields.insert("description".to_owned(), shorten(text, MAX_DESCRIPTION_BYTES).into());
    }
}
