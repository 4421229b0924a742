//! Reads the first message of a TLS client (RFC 8446, section 4.1.2), without answering it.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_rustls::rustls::server::Acceptor;

/// The longest first message, in bytes.
const MAX_HELLO_BYTES: usize = 32 << 10;

/// The extension with an encrypted first message: RFC 9849.
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

/// The first message of a TLS client.
pub(super) struct Hello {
    /// The server name, in lower case.
    pub(super) server_name: Option<String>,
    /// Whether it may hold another, encrypted server name.
    pub(super) may_hide: bool,
    /// All bytes that were read.
    pub(super) bytes: Vec<u8>,
}

/// Reads the first message.
///
/// # Errors
/// Returns an error if it is too long or no first message of TLS, or if the connection ends.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Hello> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut acceptor = Acceptor::default();
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut piece).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if bytes.len() + length > MAX_HELLO_BYTES {
            return Err(invalid("the first message of TLS is too long".to_owned()));
        }
        let read = &piece[..length];
        bytes.extend_from_slice(read);
        let mut rest = read;
        while !rest.is_empty() {
            if acceptor.read_tls(&mut rest)? == 0 {
                break;
            }
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let server_name = accepted.client_hello().server_name().map(str::to_lowercase);
                let may_hide = has_extension(&bytes, ENCRYPTED_CLIENT_HELLO).unwrap_or(true);
                return Ok(Hello { server_name, may_hide, bytes });
            }
            Err((error, _)) => return Err(invalid(error.to_string())),
        }
    }
}

/// Whether a first message in one record has an extension; `None` if it is in several records or not
/// valid.
fn has_extension(record: &[u8], wanted: u16) -> Option<bool> {
    let mut record = Reader(record);
    record.take(3)?; // The type and the version of the record.
    let length = record.number(2)?;
    let mut message = Reader(record.take(length)?);
    message.take(1)?; // The type of the message.
    let length = message.number(3)?;
    let mut hello = Reader(message.take(length)?);
    hello.take(2 + 32)?; // The version and the random bytes.
    for width in [1, 2, 1] {
        // The session, the cipher suites, the compression methods.
        let length = hello.number(width)?;
        hello.take(length)?;
    }
    if hello.0.is_empty() {
        return Some(false);
    }
    let length = hello.number(2)?;
    let mut extensions = Reader(hello.take(length)?);
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let length = extensions.number(2)?;
        extensions.take(length)?;
        if kind == usize::from(wanted) {
            return Some(true);
        }
    }
    Some(false)
}

/// The bytes that are not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a number of up to three bytes.
    fn number(&mut self, width: usize) -> Option<usize> {
        let bytes = self.take(width)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::Arc;

    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// The first message of an ordinary client.
    fn hello(name: &'static str) -> Vec<u8> {
        let provider = Arc::new(ring::default_provider());
        let configuration = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(name).unwrap();
        let mut client = ClientConnection::new(Arc::new(configuration), name).unwrap();
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        bytes
    }

    fn read_all(mut bytes: &[u8]) -> io::Result<Hello> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(read(&mut bytes))
    }

    /// Adds an empty extension at the end, and adapts the lengths.
    fn with_extension(hello: &[u8], kind: u16) -> Vec<u8> {
        let mut bytes = hello.to_vec();
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 0]);
        let add = |bytes: &mut [u8]| {
            let length = u16::from_be_bytes([bytes[0], bytes[1]]) + 4;
            bytes.copy_from_slice(&length.to_be_bytes());
        };
        add(&mut bytes[3..5]);
        add(&mut bytes[7..9]);
        // The session, the cipher suites and the compression methods stand before the extensions.
        let mut at = 5 + 4 + 2 + 32;
        at += 1 + usize::from(bytes[at]);
        at += 2 + usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        at += 1 + usize::from(bytes[at]);
        add(&mut bytes[at..at + 2]);
        bytes
    }

    #[test]
    fn the_server_name_is_read_without_an_answer() {
        let bytes = hello("Registry.example");
        let read = read_all(&bytes).unwrap();
        assert_eq!(read.server_name.as_deref(), Some("registry.example"));
        assert!(!read.may_hide && read.bytes == bytes);
        assert_eq!(read_all(&hello("192.0.2.1")).unwrap().server_name, None);
    }

    #[test]
    fn an_encrypted_server_name_is_noticed() {
        let bytes = hello("registry.example");
        for (kind, wanted) in [(ENCRYPTED_CLIENT_HELLO, true), (0xfe0e, false)] {
            let bytes = with_extension(&bytes, kind);
            assert_eq!(has_extension(&bytes, ENCRYPTED_CLIENT_HELLO), Some(wanted), "{kind:#x}");
        }
        // In two records, it can't be seen.
        let (one, two) = bytes[5..].split_at(9);
        let record = |part: &[u8]| {
            let length = u16::try_from(part.len()).unwrap().to_be_bytes();
            [&bytes[..3], &length[..], part].concat()
        };
        let split = [record(one), record(two)].concat();
        assert_eq!(has_extension(&split, ENCRYPTED_CLIENT_HELLO), None);
        if let Ok(read) = read_all(&split) {
            assert!(read.may_hide);
        }
    }

    #[test]
    fn other_messages_are_refused() {
        let bytes = hello("registry.example");
        for length in 0..bytes.len() {
            assert!(read_all(&bytes[..length]).is_err(), "{length}");
            assert_eq!(has_extension(&bytes[..length], ENCRYPTED_CLIENT_HELLO), None, "{length}");
        }
        assert!(read_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").is_err());
        assert!(read_all(&[0x16, 3, 1, 0xff, 0xff].repeat(20_000)).is_err());
    }

    /// A damaged message is an error, or is kept as it is.
    #[test]
    fn damaged_messages_end_in_a_result() {
        let valid = [
            hello("registry.example"),
            with_extension(&hello("registry.example"), ENCRYPTED_CLIENT_HELLO),
        ];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        let mut read = 0;
        for case in 0..20_000 {
            let mut bytes = valid[case % valid.len()].clone();
            for _ in 0..=random(4) {
                let at = random(bytes.len());
                match random(4) {
                    0 => bytes[at] = bytes[at].wrapping_add(1),
                    1 => bytes[at] = u8::try_from(random(256)).unwrap(),
                    2 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, 0),
                }
            }
            has_extension(&bytes, ENCRYPTED_CLIENT_HELLO);
            if let Ok(hello) = read_all(&bytes) {
                assert_eq!(hello.bytes, bytes);
                read += 1;
            }
        }
        assert!(read > 100, "{read}");
    }
}
