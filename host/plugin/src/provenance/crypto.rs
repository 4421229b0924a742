//! The cryptography of Sigstore's verification, by ring, which TLS uses as well. Keys are not made here, and nothing
//! is signed.

use ring::digest::{Context, SHA256, SHA384, SHA512};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sigstore_verify::crypto::{
    CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider,
};
use sigstore_verify::types::HashAlgorithm;

/// Lets Sigstore's verification use ring. It can be called more than once.
pub fn install() {
    // Later calls change nothing: it is the same one.
    let _ = install_default_provider(&Ring);
}

#[derive(Debug)]
struct Ring;

struct Hash(Context);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        let algorithm = match algorithm {
            HashAlgorithm::Sha2256 => &SHA256,
            HashAlgorithm::Sha2384 => &SHA384,
            HashAlgorithm::Sha2512 => &SHA512,
            other => return Err(Error::UnsupportedAlgorithm(other.to_string())),
        };
        Ok(Box::new(Hash(Context::new(algorithm))))
    }

    fn verify_raw(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        data: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        UnparsedPublicKey::new(algorithm(scheme)?, key)
            .verify(data, signature)
            .map_err(|_| Error::Verification(format!("{} signature invalid", scheme.name())))
    }

    /// Only bundles that sign a digest instead of a statement need this; ring does not have it.
    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        _key: &[u8],
        _digest: &[u8],
        _signature: &[u8],
    ) -> Result<()> {
        Err(Error::UnsupportedAlgorithm(format!("{} of a digest", scheme.name())))
    }
}

fn algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    Ok(match scheme {
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &signature::ED25519,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        other => return Err(Error::UnsupportedAlgorithm(other.name().to_owned())),
    })
}
