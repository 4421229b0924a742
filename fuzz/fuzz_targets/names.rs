//! Any text is the name of something, or is refused: what was read is written in one way, and read
//! again as the same.
#![no_main]

use std::fmt::{Debug, Display};
use std::str::FromStr;

use cofferdam_core::policy::{Capability, Origin};
use cofferdam_plugin::digest::Digest;
use cofferdam_plugin::signature::Signer;
use cofferdam_plugin::source::{Address, Reference, Source};
use libfuzzer_sys::fuzz_target;

fn comes_back<T: FromStr + Display + Debug + PartialEq>(text: &str) {
    if let Ok(read) = text.parse::<T>() {
        assert_eq!(read.to_string().parse::<T>().ok(), Some(read));
    }
}

fuzz_target!(|text: &str| {
    comes_back::<Origin>(text);
    comes_back::<Source>(text);
    comes_back::<Address>(text);
    comes_back::<Reference>(text);
    comes_back::<Digest>(text);
    comes_back::<Signer>(text);
    let _ = text.parse::<Capability>();
    // A redirect stays at its origin, or names another one.
    let address: Address = "https://example.org/a".parse().expect("an address");
    if let Some(next) = address.join(text) {
        assert!(next.origin == address.origin || !text.starts_with('/'), "{next}");
    }
});
