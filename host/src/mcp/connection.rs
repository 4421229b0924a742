//! What a request knows of the connection that it came by.

use rmcp::model::{ClientJsonRpcMessage, Extensions, GetExtensions as _};
use tokio_util::sync::CancellationToken;

/// A client on standard input and output, or in a session; it stands among the extensions of each
/// of its requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Connection {
    /// Cancelled when nothing more is heard of the client, so that nobody answers a question.
    pub silent: CancellationToken,
    /// Cancelled when nothing that is said reaches the client any more, so that no call is of use.
    pub gone: CancellationToken,
}

impl Connection {
    /// The connection that a request came by; one that does not end, where it stands for itself.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Tells a request of it.
    pub fn stamp(&self, message: &mut ClientJsonRpcMessage) {
        if let ClientJsonRpcMessage::Request(message) = message {
            message.request.extensions_mut().insert(self.clone());
        }
    }
}
