//! Any text decodes or is refused; what was decoded is what a strict reader would have found.
#![no_main]

use cofferdam_core::envelope::{self, Mode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let strict = envelope::decode(text, Mode::Strict);
    let lenient = envelope::decode(text, Mode::Lenient);
    if let Ok(strict) = strict {
        assert_eq!(lenient.as_ref(), Ok(&strict), "lenient decoding changed a strict envelope");
        assert!(!strict.calls.is_empty());
    }
    if let Ok(envelope) = lenient {
        // Nothing was invented: every name and argument stands in the text, perhaps escaped.
        for call in envelope.calls {
            assert!(call.args.is_object());
            assert!(text.contains(&call.tool) || text.contains('\\'), "{}", call.tool);
        }
    }
});
