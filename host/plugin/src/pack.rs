//! Puts a manifest into a component and reads it.
#![expect(clippy::disallowed_methods, reason = "a manifest names its schemas by paths")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wasm_encoder::{ComponentSection, CustomSection};
use wasmparser::{BinaryReader, Encoding, Parser, Payload};

use super::document::Document;
use super::manifest::{self, Manifest, ManifestError, ManifestFile, SECTION, Tool};
use super::typed::{self, Beside, TypedError};
use cofferdam_workspace::bounded_text;

/// The size of a component's magic number and version in bytes.
const HEADER_BYTES: usize = 8;

/// The id of a custom section.
const CUSTOM_SECTION_ID: u8 = 0;

/// How much of a file is read to find its manifest, in bytes. Most manifests are complete within
/// it.
const LEADING_BYTES: u64 = 16 << 10;

/// The file is not a packed component, or can't become one.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// The file `plugin.toml` is malformed.
    #[error("{}: {source}", path.display())]
    Toml {
        /// The path of the file.
        path: PathBuf,
        /// The error with its line.
        source: toml::de::Error,
    },
    /// A schema file is not JSON.
    #[error("{}: {source}", path.display())]
    Json {
        /// The path of the file.
        path: PathBuf,
        /// The error with its line.
        source: serde_json::Error,
    },
    /// Not WebAssembly, or cut off.
    #[error("not a WebAssembly component: {0}")]
    Malformed(String),
    /// It is a core module, not a component.
    #[error(
        "a core WebAssembly module, not a component; build it for wasm32-wasip2, or wrap it with `wasm-tools component new`"
    )]
    CoreModule,
    /// The component has a manifest already.
    #[error("the component has a manifest already; pack the file that the compiler wrote")]
    AlreadyPacked,
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The component has no manifest, and none can be derived from its types.
    #[error(transparent)]
    Typed(#[from] TypedError),
}

/// Reads `plugin.toml` and the schemas that it names.
///
/// # Errors
/// Returns an error if a file can't be read or is malformed, or if the manifest is invalid.
pub fn read_manifest_file(path: &Path) -> Result<Manifest, PackError> {
    let io = |path: &Path, source| PackError::Io { path: path.to_owned(), source };
    let text = bounded_text::read(path).map_err(|source| io(path, source))?;
    let file: ManifestFile = toml::from_str(&text)
        .map_err(|source| PackError::Toml { path: path.to_owned(), source })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let schema = |name: &Path| -> Result<Document, PackError> {
        let path = folder.join(name);
        let text = bounded_text::read(&path).map_err(|source| io(&path, source))?;
        let schema = serde_json::from_str::<Value>(&text);
        schema.map(Document::from).map_err(|source| PackError::Json { path, source })
    };
    let tools = file.tools.iter().map(|tool| {
        Ok(Tool {
            name: tool.name.clone(),
            title: tool.title.clone(),
            description: tool.description.clone(),
            effects: tool.effects,
            agents: tool.agents,
            done: tool.done.clone(),
            dialect: tool.dialect,
            fallbacks: tool.fallbacks.clone(),
            repeats: tool.repeats.clone(),
            examples: tool.examples.clone(),
            input: schema(&tool.input)?,
            output: schema(&tool.output)?,
            failure: tool.failure.as_deref().map(schema).transpose()?,
        })
    });
    let manifest = Manifest {
        tools: tools.collect::<Result<_, PackError>>()?,
        name: file.name,
        version: file.version,
        description: file.description,
        license: file.license,
        qualified: file.qualified,
        target: file.target,
        requests: file.requests,
        as_granted: file.as_granted,
        limits: file.limits,
        backends: file.backends,
    };
    manifest.check()?;
    manifest.check_schemas()?;
    Ok(manifest)
}

/// Puts a manifest into a component.
///
/// # Errors
/// Returns an error if the bytes are not a component, or have a manifest already.
pub fn pack(component: &[u8], manifest: &Manifest) -> Result<Vec<u8>, PackError> {
    if section(component)?.is_some() {
        return Err(PackError::AlreadyPacked);
    }
    let json = serde_json::to_vec(manifest).map_err(ManifestError::from)?;
    if json.len() > manifest::MAX_MANIFEST_BYTES {
        return Err(ManifestError::TooLarge.into());
    }
    // As the first section, so that it is found without reading the code.
    let (header, sections) = component.split_at(HEADER_BYTES);
    let mut packed = header.to_vec();
    CustomSection { name: SECTION.into(), data: json.into() }.append_to_component(&mut packed);
    packed.extend_from_slice(sections);
    Ok(packed)
}

/// Reads the manifest at the beginning of a component that [`pack`] made, without reading or
/// checking the rest, nor the schemas. Returns `None` if it is not there.
///
/// # Errors
/// Returns an error if the file can't be read, or if its manifest is invalid.
pub fn leading_manifest(path: &Path) -> Result<Option<Manifest>, PackError> {
    let io = |source| PackError::Io { path: path.to_owned(), source };
    let mut file = fs::File::open(path).map_err(io)?;
    let mut start = Vec::with_capacity(LEADING_BYTES as usize);
    Read::by_ref(&mut file).take(LEADING_BYTES).read_to_end(&mut start).map_err(io)?;
    let mut reader = BinaryReader::new(&start, 0);
    if reader.read_bytes(HEADER_BYTES).is_err() {
        return Ok(None);
    }
    let length = match (reader.read_u8(), reader.read_var_u32()) {
        (Ok(CUSTOM_SECTION_ID), Ok(length)) => length as usize,
        _ => return Ok(None),
    };
    let end = reader.original_position() + length;
    if !reader.read_string().is_ok_and(|name| name == SECTION) {
        return Ok(None);
    }
    let json = reader.original_position();
    let missing = end.saturating_sub(start.len()) as u64;
    file.take(missing).read_to_end(&mut start).map_err(io)?;
    match start.get(json..end) {
        Some(json) => Ok(Some(Manifest::parse_lazily(json)?)),
        None => Err(PackError::Malformed("the manifest is cut off".to_owned())),
    }
}

/// Returns the manifest of a component: the packed one, or one derived from its types ([`typed`]).
/// A derived manifest gets its name from `called`, the name of the file or repository, and texts from
/// the files beside `path`, if the component is a file.
///
/// # Errors
/// Returns an error if the bytes are not a component, or have no valid manifest.
pub fn manifest(
    component: &[u8],
    called: &str,
    path: Option<&Path>,
) -> Result<Manifest, PackError> {
    manifest_beside(component, called, &path.map(Beside::read).unwrap_or_default())
}

/// As [`manifest`], with what the files beside the component say.
///
/// # Errors
/// Those of [`manifest`].
pub fn manifest_beside(
    component: &[u8],
    called: &str,
    beside: &Beside,
) -> Result<Manifest, PackError> {
    if let Some(manifest) = packed_manifest(component)? {
        return Ok(manifest);
    }
    let derived = typed::derive(component, called, beside)?;
    for why in &derived.unread {
        tracing::warn!("{called}: {why}");
    }
    Ok(derived.manifest)
}

/// Returns the manifest in a component, or `None` if there is none.
///
/// # Errors
/// Returns an error if the bytes are not a component, or if the manifest is invalid.
pub fn packed_manifest(component: &[u8]) -> Result<Option<Manifest>, PackError> {
    Ok(section(component)?.map(Manifest::parse).transpose()?)
}

/// The name of a file without its directory.
pub fn called(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The names of a component's imports.
///
/// # Errors
/// Returns an error if the bytes are not a component.
pub fn imports(component: &[u8]) -> Result<Vec<String>, PackError> {
    let mut imports = Vec::new();
    outermost(component, |payload| {
        if let Payload::ComponentImportSection(section) = payload {
            for import in section {
                imports.push(import?.name.name.to_owned());
            }
        }
        Ok(())
    })?;
    Ok(imports)
}

/// The names of a component's exports.
///
/// # Errors
/// Returns an error if the bytes are not a component.
pub fn exports(component: &[u8]) -> Result<Vec<String>, PackError> {
    let mut exports = Vec::new();
    outermost(component, |payload| {
        if let Payload::ComponentExportSection(section) = payload {
            for export in section {
                exports.push(export?.name.name.to_owned());
            }
        }
        Ok(())
    })?;
    Ok(exports)
}

/// The section with the manifest. Only the outermost component is searched: nested components do
/// not describe this plugin.
pub(super) fn section(component: &[u8]) -> Result<Option<&[u8]>, PackError> {
    let mut found = Vec::new();
    outermost(component, |payload| {
        if let Payload::CustomSection(section) = payload
            && section.name() == SECTION
        {
            found.push(section.data());
        }
        Ok(())
    })?;
    match found.as_slice() {
        [] => Ok(None),
        [section] => Ok(Some(*section)),
        _ => Err(PackError::Malformed("there is more than one manifest".to_owned())),
    }
}

/// Calls `look` with the sections of the outermost component, without nested ones.
fn outermost<'a>(
    component: &'a [u8],
    mut look: impl FnMut(Payload<'a>) -> Result<(), wasmparser::BinaryReaderError>,
) -> Result<(), PackError> {
    let malformed = |error: wasmparser::BinaryReaderError| PackError::Malformed(error.to_string());
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                return Err(PackError::CoreModule);
            }
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            payload if depth == 0 => look(payload).map_err(malformed)?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn example() -> Manifest {
        Manifest::parse(
            br#"{"name":"a","version":"0.1.0","description":"","tools":[{"name":"t","title":"","description":"","done":"","input":{},"output":{}}]}"#,
        )
        .unwrap()
    }

    #[test]
    fn a_packed_manifest_is_read_back() {
        let packed = pack(EMPTY, &example()).unwrap();
        assert_eq!(manifest(&packed, "x", None).unwrap(), example());
        let directory = tempfile::tempdir().unwrap();
        let leading = |bytes: &[u8]| {
            let path = directory.path().join("x.wasm");
            fs::write(&path, bytes).unwrap();
            leading_manifest(&path)
        };
        assert_eq!(leading(&packed).unwrap(), Some(example()));
        assert_eq!(leading(EMPTY).unwrap(), None);
        assert_eq!(leading(b"").unwrap(), None);
        assert!(leading(&packed[..packed.len() - 3]).is_err());
        let large = Manifest { description: "x".repeat(100_000), ..example() };
        assert_eq!(leading(&pack(EMPTY, &large).unwrap()).unwrap(), Some(large));
        assert!(matches!(pack(&packed, &example()), Err(PackError::AlreadyPacked)));
        let twice = [&packed[..], &packed[HEADER_BYTES..]].concat();
        assert!(matches!(manifest(&twice, "x", None), Err(PackError::Malformed(_))));
    }

    #[test]
    fn manifests_of_nested_components_are_ignored() {
        let mut outer = EMPTY.to_vec();
        wasm_encoder::RawSection { id: 4, data: &pack(EMPTY, &example()).unwrap() }
            .append_to_component(&mut outer);
        assert!(matches!(
            manifest(&outer, "x", None),
            Err(PackError::Typed(TypedError::NoManifest))
        ));
    }

    #[test]
    fn other_files_are_refused() {
        let packed = pack(EMPTY, &example()).unwrap();
        for (bytes, wanted) in [
            (&b""[..], "not a WebAssembly component"),
            (b"\x7fELF\x02\x01\x01", "not a WebAssembly component"),
            (&[0xde; 100], "not a WebAssembly component"),
            (&packed[..packed.len() - 3], "not a WebAssembly component"),
            (b"\0asm\x01\0\0\0", "a core WebAssembly module"),
            (EMPTY, "the component has no manifest"),
        ] {
            let error = manifest(bytes, "x", None).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
