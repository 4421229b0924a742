//! Prints the imports and exports of a component as WIT: each exported interface in full, with its
//! documentation, and the names of imported ones.
//!
//! It is generated from the validator's types: wit-component's printer needs the result of
//! `decode`, which panics on some hostile components and has no comments.

use std::collections::HashMap;
use std::fmt::Write as _;

use wasmparser::WasmFeatures;
use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedType, ComponentDefinedTypeId, ComponentEntityType,
    ComponentFuncTypeId, ComponentInstanceType, ComponentItem, ComponentValType, ResourceId,
};
use wasmparser::types::TypesRef;

use super::docs::{self, Docs};
use super::{Component, TypedError, short};
use cofferdam_text::shorten;

/// The largest nesting depth of unnamed types.
const MAX_DEPTH: usize = 24;

/// The largest number of types that are printed.
const MAX_TYPES: usize = 20_000;

/// Printed in place of everything beyond the limits.
const ELLIPSIS: &str = "/* ... */";

/// Returns the WIT of a component.
///
/// # Errors
/// [`TypedError::Malformed`] if the bytes are not a component.
pub fn text(component: &[u8]) -> Result<String, TypedError> {
    let Component { types, imports, exports, sections } =
        Component::read(component, WasmFeatures::all())?;
    let docs = sections.get(docs::SECTION).and_then(|section| Docs::read(section).ok());
    let docs = docs.unwrap_or_default();
    let types = types.as_ref();
    let mut writer = Writer {
        types,
        docs: &docs,
        values: HashMap::new(),
        resources: HashMap::new(),
        left: MAX_TYPES,
        text: String::new(),
    };
    let of = |names: &[String], is_import: bool| -> Vec<(String, ComponentItem)> {
        let item = |name: &String| {
            let item = match is_import {
                true => types.component_item_for_import(name),
                false => types.component_item_for_export(name),
            };
            item.map(|item| (name.clone(), item.clone()))
        };
        names.iter().filter_map(item).collect()
    };
    let (imports, exports) = (of(&imports, true), of(&exports, false));
    for (name, item) in imports.iter().chain(&exports) {
        writer.learn(None, name, item);
        if let ComponentEntityType::Instance(id) = item.ty
            && let Some(instance) = types.get(id)
        {
            for (of_type, item) in &instance.exports {
                writer.learn(Some(name), of_type, item);
            }
        }
    }
    writer.world(&imports, &exports);
    Ok(writer.text)
}

struct Writer<'a> {
    types: TypesRef<'a>,
    docs: &'a Docs,
    /// The names of types: the interface, if any, and the name.
    values: HashMap<ComponentDefinedTypeId, (Option<String>, String)>,
    resources: HashMap<ResourceId, (Option<String>, String)>,
    left: usize,
    text: String,
}

impl Writer<'_> {
    fn learn(&mut self, interface: Option<&str>, name: &str, item: &ComponentItem) {
        let named = || (interface.map(str::to_owned), name.to_owned());
        if let ComponentEntityType::Type { created, .. } = item.ty {
            match created {
                ComponentAnyTypeId::Defined(id) => {
                    self.values.entry(id).or_insert_with(named);
                }
                ComponentAnyTypeId::Resource(id) => {
                    self.resources.entry(id.resource()).or_insert_with(named);
                }
                _ => {}
            }
        }
    }

    fn world(&mut self, imports: &[(String, ComponentItem)], exports: &[(String, ComponentItem)]) {
        self.comment("", self.docs.component());
        self.text.push_str("world root {\n");
        for (verb, items) in [("import", imports), ("export", exports)] {
            for (name, item) in items {
                match item.ty {
                    ComponentEntityType::Func(id) => {
                        self.comment("  ", self.docs.function(None, name));
                        let signature = self.function(id, false);
                        let _ = writeln!(self.text, "  {verb} {name}: {signature};");
                    }
                    ComponentEntityType::Instance(_) => {
                        let _ = writeln!(self.text, "  {verb} {name};");
                    }
                    ComponentEntityType::Type { .. } => self.ty("  ", name, item, None),
                    _ => {
                        let _ = writeln!(self.text, "  {verb} {name}: {ELLIPSIS};");
                    }
                }
            }
        }
        self.text.push_str("}\n");
        for (name, item) in exports {
            if let ComponentEntityType::Instance(id) = item.ty
                && let Some(instance) = self.types.get(id)
            {
                self.interface(name, instance);
            }
        }
    }

    fn interface(&mut self, id: &str, instance: &ComponentInstanceType) {
        let name = short(id);
        let within = match id.rsplit_once('/') {
            Some((package, name)) => {
                let version = name.split_once('@').map(|(_, version)| format!("@{version}"));
                let _ =
                    write!(self.text, "\npackage {package}{} {{\n", version.unwrap_or_default());
                "  "
            }
            None => {
                self.text.push('\n');
                ""
            }
        };
        let inside = format!("{within}  ");
        self.comment(within, self.docs.interface(name));
        let _ = writeln!(self.text, "{within}interface {name} {{");
        for (name, item) in &instance.exports {
            match item.ty {
                // Printed within its resource.
                ComponentEntityType::Func(_) if name.contains('[') => {}
                ComponentEntityType::Func(function) => {
                    self.comment(&inside, self.docs.function(Some(short(id)), name));
                    let signature = self.function(function, false);
                    let _ = writeln!(self.text, "{inside}{name}: {signature};");
                }
                ComponentEntityType::Type { .. } => {
                    self.ty(&inside, name, item, Some((id, instance)));
                }
                _ => {}
            }
        }
        let _ = writeln!(self.text, "{within}}}");
        if !within.is_empty() {
            self.text.push_str("}\n");
        }
    }

    /// Prints a named type: its definition, or an alias of its other name.
    fn ty(
        &mut self,
        indent: &str,
        name: &str,
        item: &ComponentItem,
        within: Option<(&str, &ComponentInstanceType)>,
    ) {
        let (interface, instance) = within.unzip();
        let ComponentEntityType::Type { created, referenced } = item.ty else { return };
        let elsewhere = match (created, referenced) {
            (ComponentAnyTypeId::Resource(id), _) => self.resources.get(&id.resource()),
            (_, ComponentAnyTypeId::Defined(id)) => self.name_of(id),
            _ => None,
        };
        let is_other =
            |(of, other): &&(Option<String>, String)| of.as_deref() != interface || other != name;
        if let Some((of, other)) = elsewhere.filter(is_other) {
            let line = match of {
                Some(of) if of.as_str() != interface.unwrap_or_default() => {
                    let renamed = if other == name { String::new() } else { format!(" as {name}") };
                    format!("{indent}use {of}.{{{other}{renamed}}};\n")
                }
                _ => format!("{indent}type {name} = {other};\n"),
            };
            self.text.push_str(&line);
            return;
        }
        match created {
            ComponentAnyTypeId::Resource(_) => self.resource(indent, name, instance),
            ComponentAnyTypeId::Defined(id) => self.definition(indent, interface, name, id),
            _ => {}
        }
    }

    fn resource(&mut self, indent: &str, name: &str, instance: Option<&ComponentInstanceType>) {
        let mut functions = String::new();
        for (function, item) in instance.into_iter().flat_map(|instance| &instance.exports) {
            let ComponentEntityType::Func(id) = item.ty else { continue };
            let line = if *function == format!("[constructor]{name}") {
                let signature = self.function(id, false);
                let arguments = signature.split(" -> ").next().unwrap_or_default();
                format!("constructor{}", arguments.trim_start_matches("func"))
            } else if let Some(method) = function.strip_prefix(&format!("[method]{name}.")) {
                format!("{method}: {}", self.function(id, true))
            } else if let Some(method) = function.strip_prefix(&format!("[static]{name}.")) {
                format!("{method}: static {}", self.function(id, false))
            } else {
                continue;
            };
            let _ = writeln!(functions, "{indent}  {line};");
        }
        let _ = match functions.as_str() {
            "" => writeln!(self.text, "{indent}resource {name};"),
            functions => writeln!(self.text, "{indent}resource {name} {{\n{functions}{indent}}}"),
        };
    }

    fn definition(
        &mut self,
        indent: &str,
        interface: Option<&str>,
        name: &str,
        id: ComponentDefinedTypeId,
    ) {
        let docs = self.docs.ty(interface.map(short), name);
        let Some(ty) = self.types.get(id) else { return };
        self.comment(indent, docs.and_then(|docs| docs.docs.as_deref()));
        let (word, items): (&str, Vec<(&str, String)>) = match ty {
            ComponentDefinedType::Record(record) => {
                let mut fields = Vec::new();
                for (name, ty) in &record.fields {
                    fields.push((name.as_str(), format!(": {}", self.value(ty, 0))));
                }
                ("record", fields)
            }
            ComponentDefinedType::Variant(variant) => {
                let mut cases = Vec::new();
                for (name, case) in &variant.cases {
                    let payload = case.ty.map(|ty| format!("({})", self.value(&ty, 0)));
                    cases.push((name.as_str(), payload.unwrap_or_default()));
                }
                ("variant", cases)
            }
            ComponentDefinedType::Enum(names) => {
                ("enum", names.iter().map(|name| (name.as_str(), String::new())).collect())
            }
            ComponentDefinedType::Flags(names) => {
                ("flags", names.iter().map(|name| (name.as_str(), String::new())).collect())
            }
            other => {
                let definition = self.structure(other, 0);
                let _ = writeln!(self.text, "{indent}type {name} = {definition};");
                return;
            }
        };
        let _ = writeln!(self.text, "{indent}{word} {name} {{");
        let inside = format!("{indent}  ");
        for (item, rest) in items {
            let said = docs.and_then(|docs| docs.items.get(item)).map(String::as_str);
            self.comment(&inside, said);
            let _ = writeln!(self.text, "{inside}{item}{rest},");
        }
        let _ = writeln!(self.text, "{indent}}}");
    }

    /// The parameters and the result. The first parameter of a method is its resource.
    fn function(&mut self, id: ComponentFuncTypeId, is_method: bool) -> String {
        let Some(function) = self.types.get(id) else { return ELLIPSIS.to_owned() };
        let parameters = function.params.iter().skip(usize::from(is_method));
        let parameters: Vec<String> =
            parameters.map(|(name, ty)| format!("{name}: {}", self.value(ty, 0))).collect();
        let result = function.result.map(|ty| format!(" -> {}", self.value(&ty, 0)));
        let kind = if function.async_ { "async func" } else { "func" };
        format!("{kind}({}){}", parameters.join(", "), result.unwrap_or_default())
    }

    fn name_of(&self, id: ComponentDefinedTypeId) -> Option<&(Option<String>, String)> {
        let mut id = Some(id);
        while let Some(some) = id {
            if let Some(named) = self.values.get(&some) {
                return Some(named);
            }
            id = self.types.peel_alias(some);
        }
        None
    }

    fn value(&mut self, ty: &ComponentValType, depth: usize) -> String {
        match ty {
            ComponentValType::Primitive(primitive) => primitive.to_string(),
            ComponentValType::Type(id) => {
                if let Some((_, name)) = self.name_of(*id) {
                    return name.clone();
                }
                if depth == MAX_DEPTH || self.left == 0 {
                    return ELLIPSIS.to_owned();
                }
                self.left -= 1;
                let structure = self.types.get(*id).map(|ty| self.structure(ty, depth + 1));
                structure.unwrap_or_else(|| ELLIPSIS.to_owned())
            }
        }
    }

    fn structure(&mut self, ty: &ComponentDefinedType, depth: usize) -> String {
        let mut value = |ty: &ComponentValType| self.value(ty, depth);
        match ty {
            ComponentDefinedType::Primitive(primitive) => primitive.to_string(),
            ComponentDefinedType::List { element, .. } => format!("list<{}>", value(element)),
            ComponentDefinedType::FixedLengthList { element, length, .. } => {
                format!("list<{}, {length}>", value(element))
            }
            ComponentDefinedType::Map { key, value: of, .. } => {
                format!("map<{}, {}>", value(key), value(of))
            }
            ComponentDefinedType::Tuple(tuple) => {
                let types: Vec<String> = tuple.types.iter().map(value).collect();
                format!("tuple<{}>", types.join(", "))
            }
            ComponentDefinedType::Option { ty, .. } => format!("option<{}>", value(ty)),
            ComponentDefinedType::Result { ok, err, .. } => match (ok, err) {
                (None, None) => "result".to_owned(),
                (Some(ok), None) => format!("result<{}>", value(ok)),
                (None, Some(error)) => format!("result<_, {}>", value(error)),
                (Some(ok), Some(error)) => format!("result<{}, {}>", value(ok), value(error)),
            },
            ComponentDefinedType::Future { ty, .. } => match ty {
                Some(ty) => format!("future<{}>", value(ty)),
                None => "future".to_owned(),
            },
            ComponentDefinedType::Stream { ty, .. } => match ty {
                Some(ty) => format!("stream<{}>", value(ty)),
                None => "stream".to_owned(),
            },
            ComponentDefinedType::Own(id) => self.resource_name(id.resource()),
            ComponentDefinedType::Borrow(id) => {
                format!("borrow<{}>", self.resource_name(id.resource()))
            }
            // WIT does not allow these without a name.
            ComponentDefinedType::Record(_)
            | ComponentDefinedType::Variant(_)
            | ComponentDefinedType::Flags(_)
            | ComponentDefinedType::Enum(_) => ELLIPSIS.to_owned(),
        }
    }

    fn resource_name(&self, id: ResourceId) -> String {
        self.resources.get(&id).map_or_else(|| ELLIPSIS.to_owned(), |(_, name)| name.clone())
    }

    fn comment(&mut self, indent: &str, text: Option<&str>) {
        for line in text
            .map(|text| shorten(text.trim(), super::MAX_DESCRIPTION_BYTES))
            .iter()
            .flat_map(|text| text.lines())
        {
            let _ = writeln!(self.text, "{}", format!("{indent}/// {line}").trim_end());
        }
    }
}
