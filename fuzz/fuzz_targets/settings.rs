//! Any text is `cofferdam.toml` or a lock, or is refused; what was read can be used, and a lock that
//! was read is written as it was.
#![no_main]

use cofferdam_core::policy::{Policy, Settings};
use cofferdam_plugin::lock::Lock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(settings) = Settings::parse(text) {
        let _ = Policy::check(&settings);
    }
    if let Ok(lock) = Lock::parse(text) {
        let written = lock.to_text().expect("a lock that was read can be written");
        assert_eq!(Lock::parse(&written).ok(), Some(lock));
    }
});
