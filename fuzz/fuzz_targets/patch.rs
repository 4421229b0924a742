//! Any bytes are a patch or are refused with a line number, and parsing never panics.
#![no_main]

use cofferdam_edit::patch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = patch::parse(bytes) {
        assert!(!error.to_string().is_empty());
    }
});
