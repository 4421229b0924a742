//! Which generation of WASI a component is made for. Components for WASI 0.3 need an engine that runs
//! asynchronous functions.

use std::fmt;

use wasmparser::WasmFeatures;

use super::Component;

/// A generation of WASI and of the component model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// All functions are synchronous.
    Wasi02,
    /// Functions may be asynchronous, and take and return streams and futures.
    Wasi03,
}

impl Generation {
    /// The generation that a component needs: 0.3 if it imports an interface of WASI 0.3, or if
    /// anything in it is asynchronous. A component that is not valid counts as 0.2.
    pub fn of(component: &[u8]) -> Self {
        let synchronous = WasmFeatures::all().difference(WasmFeatures::CM_ASYNC);
        let imports = match Component::read(component, synchronous) {
            Ok(Component { imports, .. }) => imports,
            Err(_) if Component::read(component, WasmFeatures::all()).is_ok() => {
                return Self::Wasi03;
            }
            Err(_) => return Self::Wasi02,
        };
        let is_of_wasi03 = |name: &String| name.starts_with("wasi:") && name.contains("@0.3.");
        if imports.iter().any(is_of_wasi03) { Self::Wasi03 } else { Self::Wasi02 }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wasi02 => "0.2",
            Self::Wasi03 => "0.3",
        })
    }
}
