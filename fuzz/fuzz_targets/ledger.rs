//! Any bytes are a bead or a message, or are refused with a line; one that was read is written so that
//! it is read as the same.
#![no_main]

use cofferdam_beads_format::{Bead, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(bead) = Bead::parse(bytes) {
        let written = bead.to_text();
        assert_eq!(Bead::parse(&written).expect("what was written is read").to_text(), written);
        let _ = bead.status();
    }
    if let Ok(message) = Message::parse(bytes) {
        let written = message.to_text();
        let again = Message::parse(&written).expect("what was written is read");
        assert_eq!(again.to_text(), written);
    }
});
