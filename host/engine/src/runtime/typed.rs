//! Components that export plain typed functions: finds the function of each tool, and calls it with
//! JSON arguments and a JSON result.

use std::collections::HashMap;

use serde_json::{Value, json};
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{ComponentExportIndex, InstancePre, Type, Val};
use wasmtime::{Error, Result, Store};

use super::act::Act;
use super::concurrent;
use super::engine::Engine;
use super::value::{self, TypeMismatch};
use crate::capability::wit::tool::types::{ErrorKind, ToolError};
use crate::capability::{CallContext, CallState, PluginPre};
use cofferdam_core::outcome::{ErrorCode, LimitCode, RefusalCode};
use cofferdam_plugin::check::TOOLS;
use cofferdam_plugin::manifest::{Manifest, Tool};
use cofferdam_plugin::typed::{tool_name, tool_names};
use cofferdam_text::shorten;

/// How much of an error value is in the message, in bytes. The detail has all of it.
const MAX_MESSAGE_BYTES: usize = 1_000;

/// How a component exports its tools.
pub(super) enum Tools {
    /// One function that takes a tool's name and JSON.
    Json(PluginPre<CallState>),
    /// One typed function for each tool.
    Typed(Typed),
    /// One function of ACT, with CBOR.
    Act(Act),
}

impl Tools {
    /// Finds the tools that a manifest declares.
    ///
    /// # Errors
    /// The component does not export one of the tools.
    pub(super) fn new(
        engine: &Engine,
        pre: &InstancePre<CallState>,
        manifest: &Manifest,
    ) -> Result<Self> {
        if pre.component().get_export_index(None, TOOLS).is_some() {
            return PluginPre::new(pre.clone()).map(Self::Json);
        }
        if let Some(act) = Act::new(engine, pre, manifest)? {
            return Ok(Self::Act(act));
        }
        let exported = exported(pre, &manifest.name);
        if exported.is_empty() {
            return PluginPre::new(pre.clone()).map(Self::Json);
        }
        let mut functions = HashMap::new();
        for Tool { name, .. } in &manifest.tools {
            let wrong = |why: &str| Error::msg(format!("the tool '{name}': {why}"));
            let mut found =
                exported.iter().filter(|exported| exported.names.iter().any(|own| own == name));
            let function = match (found.next(), found.next()) {
                (Some(function), None) => function,
                (None, _) => return Err(wrong("no function that it exports has that name")),
                _ => return Err(wrong("several functions that it exports have that name")),
            };
            let parameters = function.ty.params().map(|(_, ty)| ty);
            value::check(parameters.chain(function.ty.results())).map_err(|why| wrong(&why))?;
            functions.insert(name.clone(), function.index);
        }
        let is_concurrent = engine.is_concurrent();
        Ok(Self::Typed(Typed { pre: pre.clone(), functions, is_concurrent }))
    }
}

/// A function exported by a component.
struct Exported {
    /// The names of its tool: the derived one, and the whole one, which a packed manifest may have.
    names: Vec<String>,
    index: ComponentExportIndex,
    ty: ComponentFunc,
}

/// The exported functions whose names are names of tools.
fn exported(pre: &InstancePre<CallState>, plugin: &str) -> Vec<Exported> {
    let component = pre.component();
    let engine = component.engine();
    let ty = component.component_type();
    let mut functions: Vec<(Option<&str>, &str, ComponentFunc)> = Vec::new();
    let exports: Vec<_> = ty.exports(engine).collect();
    for (name, export) in &exports {
        match &export.ty {
            ComponentItem::ComponentFunc(ty) => functions.push((None, *name, ty.clone())),
            ComponentItem::ComponentInstance(interface) => {
                for (function, export) in interface.exports(engine) {
                    if let ComponentItem::ComponentFunc(ty) = export.ty {
                        functions.push((Some(*name), function, ty));
                    }
                }
            }
            _ => {}
        }
    }
    let called: Vec<_> = functions.iter().map(|(interface, name, _)| (*interface, *name)).collect();
    let names = tool_names(plugin, &called);
    let exported = |((interface, name, ty), short): ((Option<&str>, &str, _), Option<String>)| {
        let whole = tool_name(interface, name)?;
        let index = match interface {
            Some(interface) => Some(component.get_export_index(None, interface)?),
            None => None,
        };
        let index = component.get_export_index(index.as_ref(), name)?;
        Some(Exported { names: short.into_iter().chain([whole]).collect(), index, ty })
    };
    functions.into_iter().zip(names).filter_map(exported).collect()
}

/// A component that exports each tool as a typed function.
pub(super) struct Typed {
    pre: InstancePre<CallState>,
    functions: HashMap<String, ComponentExportIndex>,
    is_concurrent: bool,
}

impl Typed {
    /// Calls a tool in a new instance. `args` is a JSON object with the function's parameters.
    ///
    /// # Errors
    /// The error that ended the instance.
    pub(super) fn call(
        &self,
        store: &mut Store<CallState>,
        tool: &str,
        args: &str,
    ) -> Result<Result<String, ToolError>> {
        let missing = || Error::msg(format!("the component has no function for the tool '{tool}'"));
        let index = self.functions.get(tool).ok_or_else(missing)?;
        let args: Value =
            serde_json::from_str(args).map_err(|error| Error::msg(error.to_string()))?;
        let instance = match self.is_concurrent {
            false => self.pre.instantiate(&mut *store)?,
            true => concurrent::instantiate(store, &self.pre)?,
        };
        let function = instance.get_func(&mut *store, index).ok_or_else(missing)?;
        let ty = function.ty(&*store);
        let parameters = match value::arguments(&args, ty.params()) {
            Ok(parameters) => parameters,
            Err(mismatch) => return Ok(Err(argument_error(&mismatch))),
        };
        let types: Vec<Type> = ty.results().collect();
        let mut results = vec![Val::Bool(false); types.len()];
        match self.is_concurrent {
            false => function.call(&mut *store, &parameters, &mut results)?,
            true => concurrent::call(store, function, &parameters, &mut results)?,
        }
        let answer = match (results.first(), types.first()) {
            (Some(value), Some(ty)) => answer(value, ty, &store.data().context),
            _ => Ok(json!({})),
        };
        Ok(answer.map(|answer| answer.to_string()))
    }
}

/// Converts the result of a function to JSON or an error.
fn answer(value: &Val, ty: &Type, context: &CallContext) -> Result<Value, ToolError> {
    let named = |name: &str, value: &Val, ty: &Type| match value::to_json(value, ty) {
        Ok(value) => Ok(json!({ name: value })),
        Err(mismatch) => Err(result_error(&mismatch)),
    };
    match (value, ty) {
        (Val::Result(Ok(value)), Type::Result(result)) => match (value, result.ok()) {
            (Some(value), Some(ty)) => named("result", value, &ty),
            _ => Ok(json!({})),
        },
        (Val::Result(Err(error)), Type::Result(result)) => Err(match (error, result.err()) {
            (Some(error), Some(ty)) => named("error", error, &ty)
                .map_or_else(|wrong| wrong, |detail| failed(error, detail, context)),
            _ => failure(
                ErrorCode::FunctionError.as_str(),
                "the function says that it failed, and not why".to_owned(),
            ),
        }),
        (value, ty) => named("result", value, ty),
    }
}

/// Converts the error value of a function to an error of the tool. The code of an enumeration or a
/// variant is its case, so that agents can distinguish errors.
fn failed(error: &Val, detail: Value, context: &CallContext) -> ToolError {
    let of_case = |case: &str, value: &Val| match value {
        Val::String(text) => format!("{case}: {text}"),
        _ => format!("{case}: {}", detail["error"]["value"]),
    };
    let (code, message) = match error {
        // The text of the error is the message.
        Val::String(text) => return failure(ErrorCode::FunctionError.as_str(), text.clone()),
        Val::Enum(case) | Val::Variant(case, None) => (case.as_str(), case.clone()),
        Val::Variant(case, Some(value)) => (case.as_str(), of_case(case, value)),
        _ => (ErrorCode::FunctionError.as_str(), detail["error"].to_string()),
    };
    // Redacted before it is cut, since part of a value is not recognised.
    let message = shorten(&context.redacted(&message), MAX_MESSAGE_BYTES);
    ToolError { detail: Some(detail.to_string()), ..failure(code, message) }
}

pub(super) fn failure(code: &str, message: String) -> ToolError {
    ToolError { kind: ErrorKind::Failed, code: code.to_owned(), message, detail: None }
}

/// The error of arguments that fit the schema, but not the types of the function.
fn argument_error(mismatch: &TypeMismatch) -> ToolError {
    let message = format!("the arguments do not fit the function: {mismatch}");
    if mismatch.is_too_much {
        return ToolError {
            kind: ErrorKind::Limit,
            ..failure(LimitCode::TransferLimit.as_str(), message)
        };
    }
    ToolError {
        kind: ErrorKind::InvalidArgs,
        ..failure(RefusalCode::InvalidArguments.as_str(), message)
    }
}

/// The error of a result that can't be converted to JSON.
fn result_error(mismatch: &TypeMismatch) -> ToolError {
    failure(
        ErrorCode::UnrepresentableAnswer.as_str(),
        format!("the answer can't be written as JSON: {mismatch}"),
    )
}
