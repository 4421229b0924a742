//! A Sigstore of a test: an authority, a log of certificates and a log of signatures, whose keys are trusted by a
//! `trusted_root.json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cofferdam_plugin::digest::Digest;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CustomExtension, DistinguishedName,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType,
    SerialNumber, SigningKey as _, date_time_ymd,
};
use serde_json::{Value, json};

/// Within the day for which all certificates are valid: 2024-03-01.
pub const DURING: i64 = 1_709_300_000;
/// A week after that day.
pub const AFTER: i64 = 1_709_900_000;

pub const IDENTITY: &str =
    "https://github.com/ada/lines/.github/workflows/release.yml@refs/tags/v1.0.0";
pub const ISSUER: &str = "https://token.actions.githubusercontent.com";
pub const SLSA: &str = "https://slsa.dev/provenance/v1";

const SCT_LIST: [u64; 10] = [1, 3, 6, 1, 4, 1, 11129, 2, 4, 2];

pub struct Sigstore {
    authority: (CertificateParams, KeyPair, Certificate),
    certificate_log: KeyPair,
    log: KeyPair,
}

/// What a bundle says, and what it is signed with.
pub struct Bundle<'a> {
    pub identity: &'a str,
    pub predicate: &'a str,
    /// When the log says that it was signed, in seconds.
    pub time: i64,
    /// The log that signs the entry; by default the trusted one.
    pub log: Option<&'a KeyPair>,
}

impl Default for Bundle<'_> {
    fn default() -> Self {
        Self { identity: IDENTITY, predicate: SLSA, time: DURING, log: None }
    }
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The identifier of a key in logs.
fn id(key: &KeyPair) -> [u8; 32] {
    *Digest::of(&key.subject_public_key_info()).bytes()
}

/// The first element of a sequence in DER, with its head.
fn first_element(der: &[u8]) -> &[u8] {
    let head = |der: &[u8]| match der[1] {
        short @ ..0x80 => (2, short as usize),
        long => {
            let bytes = (long & 0x7f) as usize;
            let length = der[2..2 + bytes].iter().fold(0, |sum, byte| sum << 8 | *byte as usize);
            (2 + bytes, length)
        }
    };
    let inner = &der[head(der).0..];
    let (start, length) = head(inner);
    &inner[..start + length]
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

impl Sigstore {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(2040, 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let [certificate_log, log] = [(); 2].map(|()| KeyPair::generate().unwrap());
        Self { authority: (params, key, certificate), certificate_log, log }
    }

    /// The text of a `trusted_root.json`.
    pub fn trusted_root(&self) -> String {
        let window = json!({"start": "2020-01-01T00:00:00Z"});
        let log = |key: &KeyPair| {
            json!([{
                "baseUrl": "https://log.example",
                "hashAlgorithm": "SHA2_256",
                "publicKey": {
                    "rawBytes": base64(&key.subject_public_key_info()),
                    "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                    "validFor": window,
                },
                "logId": {"keyId": base64(&id(key))},
            }])
        };
        let authority = json!([{
            "subject": {"organization": "example", "commonName": "example"},
            "uri": "https://authority.example",
            "certChain": {"certificates": [{"rawBytes": base64(self.authority.2.der())}]},
            "validFor": window,
        }]);
        json!({
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": log(&self.log),
            "ctlogs": log(&self.certificate_log),
            "certificateAuthorities": authority,
            "timestampAuthorities": [],
        })
        .to_string()
    }

    /// A certificate for a key, by the authority, in the log of certificates.
    fn certificate(&self, identity: &str, key: &KeyPair) -> Certificate {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.serial_number = Some(SerialNumber::from(7));
        (params.not_before, params.not_after) =
            (date_time_ymd(2024, 3, 1), date_time_ymd(2024, 3, 2));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        params.subject_alt_names = vec![SanType::URI(identity.try_into().unwrap())];
        for (number, claim) in [
            (8, ISSUER),
            (12, "https://github.com/ada/lines"),
            (13, "8b3e2f0c1d4a5968778695a4b3c2d1e0f1234567"),
        ] {
            let text = [&[0x0c, claim.len() as u8], claim.as_bytes()].concat();
            let oid = [1, 3, 6, 1, 4, 1, 57264, 1, number];
            params.custom_extensions.push(CustomExtension::from_oid_content(&oid, text));
        }
        let (authority, authority_key, _) = &self.authority;
        let issuer = Issuer::from_params(authority, authority_key);
        let before = params.signed_by(key, &issuer).unwrap();
        let to_be_signed = first_element(before.der());
        let time = (DURING as u64 * 1000).to_be_bytes();
        let signed = [
            &[0, 0][..],
            &time,
            &[0, 1],
            Digest::of(&authority_key.subject_public_key_info()).bytes(),
            &(to_be_signed.len() as u32).to_be_bytes()[1..],
            to_be_signed,
            &[0, 0],
        ]
        .concat();
        let signature = self.certificate_log.sign(&signed).unwrap();
        let entry =
            [&[0][..], &id(&self.certificate_log), &time, &[0, 0, 4, 3], &sized(&signature)]
                .concat();
        let list = sized(&sized(&entry));
        let list = [&[4, list.len() as u8][..], &list].concat();
        params.custom_extensions.push(CustomExtension::from_oid_content(&SCT_LIST, list));
        params.signed_by(key, &issuer).unwrap()
    }

    /// A bundle about the artefact with a digest.
    pub fn bundle(&self, subject: Digest, says: &Bundle<'_>) -> Value {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(says.identity, &key);
        let payload = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "lines", "digest": {"sha256": subject.hex()}}],
            "predicateType": says.predicate,
            "predicate": {"runDetails": {"builder": {"id": "https://github.com/actions/runner"}}},
        })
        .to_string();
        let kind = "application/vnd.in-toto+json";
        let signed = format!("DSSEv1 {} {kind} {} {payload}", kind.len(), payload.len());
        let signature = base64(&key.sign(signed.as_bytes()).unwrap());
        let pem = format!(
            "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
            base64(certificate.der())
        );
        let hash = |bytes: &[u8]| json!({"algorithm": "sha256", "value": Digest::of(bytes).hex()});
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "dsse",
            "spec": {
                "envelopeHash": hash(b"envelope"),
                "payloadHash": hash(payload.as_bytes()),
                "signatures": [{"signature": signature, "verifier": base64(pem.as_bytes())}],
            },
        })
        .to_string();
        let dsse = json!({
            "payload": base64(payload.as_bytes()),
            "payloadType": kind,
            "signatures": [{"sig": signature}],
        });
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": base64(certificate.der())},
                "tlogEntries": [self.entry(body.as_bytes(), says)],
                "timestampVerificationData": {},
            },
            "dsseEnvelope": dsse,
        })
    }

    /// An entry of a log with nothing else in it.
    fn entry(&self, body: &[u8], says: &Bundle<'_>) -> Value {
        let log = says.log.unwrap_or(&self.log);
        let root = Digest::of(&[&[0], body].concat());
        let root = base64(root.bytes());
        let note = format!("log.example - 1\n1\n{root}\n");
        let signature = [&id(log)[..4], &log.sign(note.as_bytes()).unwrap()].concat();
        let checkpoint = format!("{note}\n\u{2014} log.example {}\n", base64(&signature));
        let identifier = cofferdam_text::hex(&id(&self.log));
        let promise = format!(
            "{{\"body\":\"{}\",\"integratedTime\":{},\"logID\":\"{identifier}\",\"logIndex\":0}}",
            base64(body),
            says.time
        );
        json!({
            "logIndex": "0",
            "logId": {"keyId": base64(&id(&self.log))},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": says.time.to_string(),
            "inclusionPromise": {
                "signedEntryTimestamp": base64(&log.sign(promise.as_bytes()).unwrap()),
            },
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": root,
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": checkpoint},
            },
            "canonicalizedBody": base64(body),
        })
    }
}
