//! The digest that identifies content: SHA-256, written like in OCI as `sha256:` and 64 hexadecimal
//! digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "sha256:";

/// A SHA-256 digest of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// The text is not a digest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no digest: 'sha256:' and 64 lower-case hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// Computes the digest of content.
    pub fn of(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }

    /// The bytes of the digest.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The hexadecimal digits of the digest.
    pub fn hex(&self) -> String {
        cofferdam_text::hex(&self.0)
    }
}

impl From<Sha256> for Digest {
    fn from(hashed: Sha256) -> Self {
        Self(hashed.finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.hex())
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        let error = || DigestError(cofferdam_text::shorten(text, 100));
        let hex = text.strip_prefix(ALGORITHM).ok_or_else(error)?;
        let is_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != 64 || !hex.bytes().all(is_hex) {
            return Err(error());
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| error())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn digests_round_trip() {
        // The example of FIPS 180-4.
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), abc);
        assert_eq!(abc.parse::<Digest>().unwrap(), Digest::of(b"abc"));
        let upper = abc.to_uppercase();
        let no_digit = abc.replace("ba78", "../x");
        for wrong in ["", "sha256:", &abc[7..], &abc[..70], &upper, &no_digit, &format!("{abc}0")] {
            assert!(wrong.parse::<Digest>().is_err(), "{wrong}");
        }
    }
}
