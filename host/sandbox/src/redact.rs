//! Redacts values in a stream, however it is cut into pieces.

use memchr::memmem;

/// Replaces values one after the other: each replacement works on the output of the previous one.
pub struct Redactor(Vec<Replacement>);

/// One value, and the end of the stream in which the value may have begun.
struct Replacement {
    value: Vec<u8>,
    mark: Vec<u8>,
    pending: Vec<u8>,
}

impl Redactor {
    /// Puts `[NAME]` in place of each value; the longest first, since one may contain another.
    pub fn new(hidden: &[(String, String)]) -> Self {
        let replacement = |(name, value): &(String, String)| Replacement {
            value: value.clone().into_bytes(),
            mark: format!("[{name}]").into_bytes(),
            pending: Vec::new(),
        };
        let mut replacements: Vec<Replacement> =
            hidden.iter().filter(|(_, value)| !value.is_empty()).map(replacement).collect();
        replacements.sort_by_key(|replacement| std::cmp::Reverse(replacement.value.len()));
        Self(replacements)
    }

    /// Whether there are no values to replace.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_empty()
    }

    /// Processes the next bytes; returns those that can't be part of a value any more.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.iter_mut().fold(bytes.to_vec(), |bytes, replacement| replacement.push(&bytes))
    }

    /// Returns the rest at the end of the stream.
    pub fn finish(&mut self) -> Vec<u8> {
        self.0.iter_mut().fold(Vec::new(), |bytes, replacement| {
            let mut clean = replacement.push(&bytes);
            clean.append(&mut replacement.pending);
            clean
        })
    }
}

impl Replacement {
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.pending.extend_from_slice(bytes);
        let mut clean = Vec::with_capacity(self.pending.len());
        let mut done = 0;
        for at in memmem::find_iter(&self.pending, &self.value) {
            clean.extend_from_slice(&self.pending[done..at]);
            clean.extend_from_slice(&self.mark);
            done = at + self.value.len();
        }
        // A value may begin in the last bytes and end in the next ones.
        let open = (self.pending.len() + 1).saturating_sub(self.value.len()).max(done);
        clean.extend_from_slice(&self.pending[done..open]);
        self.pending.drain(..open);
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::Redactor;

    #[test]
    fn values_are_redacted_however_the_stream_is_split() {
        let hidden = [
            ("PART".to_owned(), "s3cr3t".to_owned()),
            ("TOKEN".to_owned(), "s3cr3t-value".to_owned()),
            ("DOUBLE".to_owned(), "aabaa".to_owned()),
            ("EMPTY".to_owned(), String::new()),
        ];
        for (text, wanted) in [
            ("", ""),
            ("nothing", "nothing"),
            ("a s3cr3t-value b s3cr3t-value", "a [TOKEN] b [TOKEN]"),
            ("s3cr3t-values3cr3t-value", "[TOKEN][TOKEN]"),
            ("s3cr3t-valu", "[PART]-valu"),
            ("s3cr3s3cr3t", "s3cr3[PART]"),
            ("aabaabaa", "[DOUBLE]baa"),
            ("aabaaaabaa", "[DOUBLE][DOUBLE]"),
            ("aabaas3cr3t-value", "[DOUBLE][TOKEN]"),
        ] {
            for size in 1..=text.len().max(1) {
                let mut redact = Redactor::new(&hidden);
                let mut clean = Vec::new();
                for piece in text.as_bytes().chunks(size) {
                    clean.extend(redact.push(piece));
                }
                clean.extend(redact.finish());
                assert_eq!(String::from_utf8_lossy(&clean), wanted, "pieces of {size}");
            }
        }
        assert!(Redactor::new(&[]).is_idle());
    }
}
