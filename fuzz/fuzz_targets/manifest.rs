//! Any bytes are a plugin or are refused: a manifest that was read can be packed again and comes back
//! the same, and one that was derived of types is as good as one that was written.
#![no_main]

use cofferdam_core::cbor;
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::pack;
use cofferdam_plugin::typed::{self, TypedError};
use libfuzzer_sys::fuzz_target;

/// A component without anything in it.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

/// A component of ACT: it exports an empty instance as `act:tools/tool-provider@0.2.0`.
const ACT: &[u8] =
    b"\0asm\x0d\0\x01\0\x05\x03\x01\x01\0\x0b\x23\x01\0\x1dact:tools/tool-provider@0.2.0\x05\0\0";

/// Some of the section `act:component`: what can be read of it gives a manifest without tools.
fn declares(section: &[u8]) {
    let name = b"act:component";
    let Ok(size @ ..=0x3fff) = u16::try_from(1 + name.len() + section.len()) else { return };
    let size = [size as u8 | 0x80, (size >> 7) as u8];
    let component = [ACT, &[0], &size, &[name.len() as u8], name, section].concat();
    match typed::derive(&component, "fuzz", &typed::Beside::default()) {
        Err(TypedError::Unlisted(manifest)) => assert!(manifest.is_unlisted()),
        Err(TypedError::Act(_) | TypedError::Name(_)) => {}
        other => panic!("{other:?}"),
    }
}

fuzz_target!(|bytes: &[u8]| {
    declares(bytes);
    if let Ok(value) = cbor::decode(bytes) {
        let encoded = cbor::encode(&value).unwrap();
        assert_eq!(cbor::decode(&encoded), Ok(value));
    }
    let _ = pack::manifest(bytes, "fuzz", None);
    let _ = pack::imports(bytes);
    let _ = typed::Generation::of(bytes);
    if let Ok(derived) = typed::derive(bytes, "fuzz", &typed::Beside::default()) {
        assert!(derived.manifest.check().is_ok() && derived.manifest.check_schemas().is_ok());
    }
    if let Ok(manifest) = Manifest::parse(bytes) {
        let _ = manifest.check_schemas();
        if let Ok(packed) = pack::pack(EMPTY, &manifest) {
            assert_eq!(pack::manifest(&packed, "fuzz", None).ok(), Some(manifest));
        }
    }
});
