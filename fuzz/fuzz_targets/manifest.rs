//! Any bytes are a plugin or are refused: a manifest that was read can be packed again and comes back
//! the same, and one that was derived of types is as good as one that was written.
#![no_main]

use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::{pack, typed};
use libfuzzer_sys::fuzz_target;

/// A component without anything in it.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

fuzz_target!(|bytes: &[u8]| {
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
