//! Checks who made a plugin: minisign signatures (<https://jedisct1.github.io/minisign/>), in a
//! file beside the plugin's. Keys are never taken from the source of the plugin: the user names
//! one, and from then on it is pinned.

use std::fmt;
use std::str::FromStr;

use minisign_verify::{Error, PublicKey, Signature};
use serde::{Deserialize, Serialize};

/// The suffix of a signature's file name, after the name of the signed file.
pub const SUFFIX: &str = ".minisig";

/// The largest size of a signature or a key in bytes.
pub const MAX_SIGNATURE_BYTES: u64 = 16 << 10;

/// A public key, in base64 as minisign prints it: it begins with `RW`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Signer(String);

/// The text is not a public key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no public key of minisign: it has 56 characters and begins with RW")]
pub struct SignerError(String);

/// The signature is not valid for the content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It is not a minisign signature.
    #[error("the signature is malformed; minisign makes them: `minisign -Sm FILE`")]
    Malformed,
    /// It was made with another key.
    #[error("the signature was made with another key than {0}")]
    OtherKey(Signer),
    /// It was made with this key, but for other content.
    #[error("the signature by {0} is not one of this content: one of the two was changed")]
    Invalid(Signer),
    /// It signs the content itself, not its hash, as minisign did before 0.6.
    #[error(
        "the signature is of an old kind that is not taken; sign again with minisign 0.6 or later"
    )]
    Legacy,
}

impl Signer {
    /// Checks a signature of `content`.
    ///
    /// # Errors
    /// Those of [`SignatureError`].
    pub fn check(&self, content: &[u8], signature: &str) -> Result<(), SignatureError> {
        let signature = Signature::decode(signature).map_err(|_| SignatureError::Malformed)?;
        let key = PublicKey::from_base64(&self.0).map_err(|_| SignatureError::Malformed)?;
        key.verify(content, &signature, false).map_err(|error| match error {
            Error::UnexpectedKeyId => SignatureError::OtherKey(self.clone()),
            Error::UnexpectedAlgorithm => SignatureError::Legacy,
            _ => SignatureError::Invalid(self.clone()),
        })
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Signer {
    type Err = SignerError;

    /// Parses a key, or a key file with a comment line before it.
    fn from_str(text: &str) -> Result<Self, SignerError> {
        let key = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with("untrusted comment:"));
        let key = key.unwrap_or_default();
        match PublicKey::from_base64(key) {
            Ok(_) => Ok(Self(key.to_owned())),
            Err(_) => Err(SignerError(cofferdam_text::shorten(key, 80))),
        }
    }
}

impl TryFrom<String> for Signer {
    type Error = SignerError;

    fn try_from(text: String) -> Result<Self, SignerError> {
        text.parse()
    }
}

impl From<Signer> for String {
    fn from(signer: Signer) -> Self {
        signer.0
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    // Made with minisign 0.11: `minisign -G -W`, `minisign -S -m content`, and `-l`.
    const KEY_FILE: &str = "untrusted comment: minisign public key DE27067BBEF759F5\nRWT1Wfe+ewYn3o8J/9rBd+ue1EtlQN2l8lG+OeSvBjVh50+3lVeDTPDN";
    const OTHER: &str = "RWSIchNbjJXUbPj3AUQLIxFmBLPqw1DvNNXNpvYD3/ccYqew6qidDuX0";
    const SIGNATURE: &str = "untrusted comment: signature from minisign secret key\nRUT1Wfe+ewYn3oC/X4Uy2/LAIaNuafjoKJ7xGPfOxETGNDh+M1smzZqTh8AaJXHP/eGNv98n9bvrZjoHWoJqa4V+ZR5979t8oQM=\ntrusted comment: timestamp:1795367746\tfile:content\thashed\nAGUs/nbR4Nq+UiwSM3ocix2Nb4m+FenQNLgccrLUlENuPXTUxD88auOK50UxRY6FNZWfQFWriZjfwBySTwBPAA==\n";
    const LEGACY: &str = "untrusted comment: signature from minisign secret key\nRWT1Wfe+ewYn3pyomsxC4OoROqve4vcekLDd25hVnAbiECMnix8RgtkUMLk0DJ9Ai3OiYBvijOXv9s4A7UYKtspiGwyyen8PeQ4=\ntrusted comment: timestamp:1795367746\tfile:content\nM9b61LfEwL0H8KxLfErZG4gntmtKGvJEmIcEw8XZ+5XzU26op8zCfFPcw9Pngjo0ZQy2EZWpNuUb7Cv5o0YpAg==\n";

    #[test]
    fn a_signature_is_of_one_key_and_one_content() {
        let signer: Signer = KEY_FILE.parse().unwrap();
        assert_eq!(signer, KEY_FILE.lines().nth(1).unwrap().parse().unwrap());
        let other: Signer = OTHER.parse().unwrap();
        assert_eq!(signer.check(b"plugin", SIGNATURE), Ok(()));
        assert_eq!(
            signer.check(b"plugim", SIGNATURE),
            Err(SignatureError::Invalid(signer.clone()))
        );
        assert_eq!(other.check(b"plugin", SIGNATURE), Err(SignatureError::OtherKey(other.clone())));
        assert_eq!(signer.check(b"plugin", LEGACY), Err(SignatureError::Legacy));
        // The comment of a signature is signed as well.
        let lied = SIGNATURE.replace("file:content", "file:other");
        assert_eq!(signer.check(b"plugin", &lied), Err(SignatureError::Invalid(signer.clone())));
        for malformed in ["", "RW", "untrusted comment: x\nRW", &SIGNATURE[..200]] {
            assert_eq!(signer.check(b"plugin", malformed), Err(SignatureError::Malformed));
        }
    }

    #[test]
    fn invalid_keys_are_refused() {
        for text in ["", "RW", "hello", SIGNATURE, &OTHER[..50], &format!("{OTHER}A")] {
            assert!(text.parse::<Signer>().is_err(), "{text}");
        }
    }
}
