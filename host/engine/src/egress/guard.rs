//! Finds values that must not be sent, in the ways in which they are written in requests: as they are,
//! with percent signs, in hexadecimal digits, in Base64, backwards. Other encodings are not recognised.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use memchr::memmem;
use percent_encoding::percent_decode;

/// The shortest value that is looked for, in bytes: shorter ones occur in any text.
const MIN_VALUE_BYTES: usize = 6;

/// The values in all forms.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard {
    forms: Vec<Vec<u8>>,
    longest: usize,
}

/// Lets a stream of bytes in pieces pass that holds no value. Its end is kept back until more is
/// known, so that not even the beginning of a value passes.
pub(super) struct Scanner {
    guard: Guard,
    kept: Vec<u8>,
}

impl Guard {
    pub(super) fn new(values: &[String]) -> Self {
        let values = values.iter().map(|value| value.trim().as_bytes());
        let forms: Vec<Vec<u8>> =
            values.filter(|value| value.len() >= MIN_VALUE_BYTES).flat_map(forms).collect();
        let longest = forms.iter().map(Vec::len).max().unwrap_or_default();
        Self { forms, longest }
    }

    /// Whether there is no value to look for.
    pub(super) fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Whether some text holds a value.
    pub(super) fn finds(&self, text: &[u8]) -> bool {
        if self.is_empty() {
            return false;
        }
        let decoded: Vec<u8> = percent_decode(text).collect();
        let holds = |form: &Vec<u8>| {
            memmem::find(text, form).is_some() || memmem::find(&decoded, form).is_some()
        };
        self.forms.iter().any(holds)
    }

    /// A guard for the pieces of a stream.
    pub(super) fn scanner(&self) -> Scanner {
        Scanner { guard: self.clone(), kept: Vec::new() }
    }
}

impl Scanner {
    /// Adds a piece; returns the bytes that may pass, or `None` if the stream holds a value.
    pub(super) fn push(&mut self, piece: &[u8]) -> Option<Vec<u8>> {
        self.kept.extend_from_slice(piece);
        if self.guard.finds(&self.kept) {
            return None;
        }
        // With percent signs, a value is up to three times as long.
        let kept = self.guard.longest.saturating_mul(3).min(self.kept.len());
        Some(self.kept.drain(..self.kept.len() - kept).collect())
    }

    /// Returns the bytes that were kept back, at the end of the stream.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    /// Whether nothing is kept back.
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let hex = cofferdam_text::hex(value);
    let mut forms = vec![
        value.to_vec(),
        value.iter().rev().copied().collect(),
        hex.to_ascii_uppercase().into_bytes(),
        hex.into_bytes(),
    ];
    // Base64 has three forms, by the number of bytes before the value. The characters at the ends
    // depend on the neighbours.
    for (before, first) in [(0, 0), (1, 2), (2, 3)] {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        let last = bytes.len() * 8 / 6;
        for text in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            forms.extend(text.get(first..last).map(|inner| inner.as_bytes().to_vec()));
        }
    }
    forms.sort();
    forms.dedup();
    forms
}
