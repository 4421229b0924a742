//! Refuses sockets. Some compilers, such as componentize-py, make every component import them, even
//! if it does not use them. Such a component gets functions that end the call.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre, Linker, ResourceType};
use wasmtime::{Error, Result};

use crate::capability::CallState;

/// The prefix of the names of socket interfaces.
const SOCKETS_PACKAGE: &str = "wasi:sockets/";

/// Resources of other packages in these interfaces, which are linked already.
const LINKED_RESOURCES: &[&str] = &["input-stream", "output-stream", "pollable"];

/// The type of socket resources, which never exist.
enum Socket {}

/// Whether an import is of sockets.
pub(super) fn is_import(name: &str) -> bool {
    name.starts_with(SOCKETS_PACKAGE)
}

/// Links a component. With `refuse_sockets`, it may import sockets, but a call that uses one ends.
///
/// # Errors
/// An import is not served, or has another type.
pub(super) fn link(
    linker: &Linker<CallState>,
    component: &Component,
    refuse_sockets: bool,
) -> Result<InstancePre<CallState>> {
    let ty = component.component_type();
    let engine = component.engine();
    if !refuse_sockets || !ty.imports(engine).any(|(name, _)| is_import(name)) {
        return linker.instantiate_pre(component);
    }
    let mut linker = linker.clone();
    for (interface, import) in ty.imports(engine).filter(|(name, _)| is_import(name)) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        let mut linked = linker.instance(interface)?;
        for (name, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(_) => {
                    let message = format!("it used {interface}#{name}; there are no sockets here");
                    linked.func_new(name, move |_, _, _, _| Err(Error::msg(message.clone())))?;
                }
                ComponentItem::Resource(_) if !LINKED_RESOURCES.contains(&name) => {
                    linked.resource(name, ResourceType::host::<Socket>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    linker.instantiate_pre(component)
}
