//! Any bytes are a directory or a commit of a store of workspaces, or are refused with a message.
#![no_main]

use cofferdam_fleet::{StoredCommit, decode_directory};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_directory("sub", bytes);
    let _ = StoredCommit::parse(2, bytes);
});
