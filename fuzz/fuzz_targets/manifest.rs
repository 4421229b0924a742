//! Any bytes are a packed component or are refused, and a manifest that was read can be packed
//! again and comes back the same.
#![no_main]

use cofferdam::plugin::manifest::Manifest;
use cofferdam::plugin::pack;
use libfuzzer_sys::fuzz_target;

/// A component without anything in it.
const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

fuzz_target!(|bytes: &[u8]| {
    let _ = pack::manifest(bytes);
    let _ = pack::imports(bytes);
    if let Ok(manifest) = Manifest::parse(bytes) {
        let _ = manifest.check_schemas();
        if let Ok(packed) = pack::pack(EMPTY, &manifest) {
            assert_eq!(pack::manifest(&packed).ok(), Some(manifest));
        }
    }
});
