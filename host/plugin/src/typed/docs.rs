//! The documentation of WIT packages in a component: the custom section `package-docs`, as
//! wit-parser's `PackageMetadata` writes it: a byte for the version, then JSON.
//!
//! wit-parser itself writes it only into WIT packages, not into components, where the tools of
//! other hosts keep it as well; so this module reads what is needed of it, and ignores unknown
//! fields.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The name of the custom section.
pub(super) const SECTION: &str = "package-docs";

/// The largest size of the section in bytes.
const MAX_SECTION_BYTES: usize = 1 << 20;

/// The supported versions of the format: functions were plain strings in the first.
const VERSIONS: [u8; 2] = [0, 1];

/// The documentation of a package.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Docs {
    docs: Option<String>,
    #[serde(default)]
    worlds: BTreeMap<String, World>,
    #[serde(default)]
    interfaces: BTreeMap<String, Interface>,
}

/// The documentation of a world. Functions and interfaces are listed under exports only if an
/// import has the same name.
#[derive(Debug, Default, Deserialize)]
struct World {
    docs: Option<String>,
    #[serde(default)]
    types: BTreeMap<String, TypeDocs>,
    #[serde(default)]
    funcs: BTreeMap<String, FunctionDocs>,
    #[serde(default)]
    func_exports: BTreeMap<String, FunctionDocs>,
    #[serde(default)]
    interfaces: BTreeMap<String, Interface>,
    #[serde(default)]
    interface_exports: BTreeMap<String, Interface>,
}

#[derive(Debug, Default, Deserialize)]
struct Interface {
    docs: Option<String>,
    #[serde(default)]
    types: BTreeMap<String, TypeDocs>,
    #[serde(default)]
    funcs: BTreeMap<String, FunctionDocs>,
}

/// The documentation of a type, and of its fields or cases.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TypeDocs {
    /// The text about the type.
    pub(super) docs: Option<String>,
    /// The texts about its fields or cases, by name.
    #[serde(default)]
    pub(super) items: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum FunctionDocs {
    Text(Option<String>),
    Fields { docs: Option<String> },
}

impl FunctionDocs {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(docs) | Self::Fields { docs } => docs.as_deref(),
        }
    }
}

impl Docs {
    /// Parses the custom section.
    ///
    /// # Errors
    /// Returns what is wrong with the section, in words.
    pub(super) fn read(section: &[u8]) -> Result<Self, String> {
        if section.len() > MAX_SECTION_BYTES {
            return Err(format!("it is larger than {MAX_SECTION_BYTES} bytes"));
        }
        match section.split_first() {
            Some((version, json)) if VERSIONS.contains(version) => {
                serde_json::from_slice(json).map_err(|error| error.to_string())
            }
            Some((version, _)) => Err(format!("its format has the unknown version {version}")),
            None => Err("it is empty".to_owned()),
        }
    }

    /// The text about the component as a whole.
    pub(super) fn component(&self) -> Option<&str> {
        let worlds = self.worlds.values().find_map(|world| world.docs.as_deref());
        let interfaces = || self.interfaces.values().find_map(|of| of.docs.as_deref());
        worlds.or(self.docs.as_deref()).or_else(interfaces)
    }

    /// The text about an exported function of the component itself, or of one of its interfaces.
    pub(super) fn function(&self, interface: Option<&str>, name: &str) -> Option<&str> {
        let found = match interface {
            None => self
                .worlds
                .values()
                .find_map(|world| world.func_exports.get(name).or_else(|| world.funcs.get(name))),
            Some(interface) => self.interfaces(interface).find_map(|of| of.funcs.get(name)),
        };
        found.and_then(FunctionDocs::text).filter(|text| !text.trim().is_empty())
    }

    /// The text about an interface.
    pub(super) fn interface(&self, name: &str) -> Option<&str> {
        self.interfaces(name).find_map(|of| of.docs.as_deref())
    }

    /// The documentation of a type of the component itself, or of one of its interfaces.
    pub(super) fn ty(&self, interface: Option<&str>, name: &str) -> Option<&TypeDocs> {
        match interface {
            None => self.worlds.values().find_map(|world| world.types.get(name)),
            Some(interface) => self.interfaces(interface).find_map(|of| of.types.get(name)),
        }
    }

    fn interfaces<'a, 'n>(
        &'a self,
        name: &'n str,
    ) -> impl Iterator<Item = &'a Interface> + use<'a, 'n> {
        let inline = self.worlds.values().flat_map(move |world| {
            [world.interface_exports.get(name), world.interfaces.get(name)].into_iter().flatten()
        });
        self.interfaces.get(name).into_iter().chain(inline)
    }
}
