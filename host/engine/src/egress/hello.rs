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
