//! Links imports that a plugin may have but not use, as functions that end the call: sockets, which some
//! compilers, such as componentize-py, make every component import, and interfaces whose grant is
//! missing, which only some tools of a plugin may need.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, InstancePre, Linker, ResourceType};
use wasmtime::{Error, Result};

use super::imports::Refusal;
use crate::call::Stop;
use crate::capability::CallState;
use cofferdam_core::outcome::DenialCode;

/// The prefix of the names of socket interfaces.
const SOCKETS_PACKAGE: &str = "wasi:sockets/";

/// Resources of `wasi:io` in the interfaces of sockets and HTTP, which are linked already: `io-error` is
/// `error` under the name that `wasi:http/types` gives it.
const LINKED_RESOURCES: &[&str] =
    &["error", "input-stream", "io-error", "output-stream", "pollable"];

/// The type of resources of refused interfaces, which never exist.
enum Never {}

/// Whether an import is of sockets.
pub(super) fn is_socket(name: &str) -> bool {
    name.starts_with(SOCKETS_PACKAGE)
}

/// The error that ends a call for using a function.
fn refuse(state: &CallState, refusal: &Refusal, function: &str) -> Result<()> {
    let message = match refusal {
        Refusal::Sockets => format!("it used {function}; there are no sockets here"),
        Refusal::NotGranted(message) => {
            let code = DenialCode::NotGranted.into();
            state.control().note(Stop::Ended(code, message.clone()));
            message.clone()
        }
    };
    Err(Error::msg(message))
}

/// Links a component. A call that uses one of the `refused` imports ends.
///
/// # Errors
/// An import is not served, or has another type.
pub(super) fn link(
    linker: &Linker<CallState>,
    component: &Component,
    refused: &[(String, Refusal)],
) -> Result<InstancePre<CallState>> {
    if refused.is_empty() {
        return linker.instantiate_pre(component);
    }
    let (ty, engine) = (component.component_type(), component.engine());
    let mut linker = linker.clone();
    linker.allow_shadowing(true);
    for (interface, import) in ty.imports(engine) {
        let Some((_, refusal)) = refused.iter().find(|(name, _)| name == interface) else {
            continue;
        };
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        let mut linked = linker.instance(interface)?;
        for (name, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::ComponentFunc(function) => {
                    let (refusal, name_used) = (refusal.clone(), format!("{interface}#{name}"));
                    let refuse = move |state: &CallState| refuse(state, &refusal, &name_used);
                    if function.async_() {
                        linked.func_new_concurrent(name, move |store, _, _, _| {
                            let refused = store.with(|mut access| refuse(access.get()));
                            Box::pin(async { refused })
                        })?;
                    } else {
                        linked.func_new(name, move |store, _, _, _| refuse(store.data()))?;
                    }
                }
                ComponentItem::Resource(_) if !LINKED_RESOURCES.contains(&name) => {
                    linked.resource(name, ResourceType::host::<Never>(), |_, _| Ok(()))?;
                }
                _ => {}
            }
        }
    }
    linker.instantiate_pre(component)
}
